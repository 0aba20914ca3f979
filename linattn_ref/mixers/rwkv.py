"""RWKV-4 and RWKV-6: token shift, decays per channel, and a bonus for the token itself."""

import torch
from torch import nn
from torch.nn.functional import silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import HeadNorm, special, token_shift, wide, with_ones
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.wkv import WKVState

RANK = 64


class RWKV4Mixer(Mixer):
    """RWKV-4's time mixing (Peng et al. 2023, arXiv 2305.13048, published version, equations 11-17).

    r, k, v each see a learned mixture of the token and the one before it; per channel, wkv is a mean of
    values with weights e^k, decayed by e^-w a step, the token itself with e^(u + k); then sigmoid(r) wkv W_o,
    with w = exp(a) >= 0. No heads and no outer product: three numbers of state a channel. Simplified: w
    starts spread from 1/200 to 2 over the channels and u at 0; the paper's channel mixing is our gated MLP.
    """

    needs = "chunk_wkv"
    row = Row(
        gate="exp(-w)",
        write="outer(exp(k), v1)",
        read="quotient(S_past + outer(exp(u + k), v1))",
        learned="w, u [D], mixtures [3, D]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.shift = special(torch.full((3, D), 0.5))
        self.r, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.log_w = nn.Parameter(torch.linspace(-5.3, 0.7, D))
        self.u = nn.Parameter(torch.zeros(D))
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        before, past = token_shift(x, past)
        mixed = [torch.lerp(before, x, m.to(x.dtype)) for m in self.shift]
        r, k, v = (f(y) for f, y in zip((self.r, self.k, self.v), mixed, strict=True))
        w, u = wide(self.log_w).exp()[:, None], wide(self.u)[:, None]  # [D, 1]
        z = {"k": k[..., None], "v": v[..., None], "v1": with_ones(v[..., None])}  # [B, T, D, .]
        return {**z, "w": w, "u": u, "r": torch.sigmoid(r)}, past

    def mix(self, z: Quantities, S: WKVState | None) -> tuple[Tensor, WKVState]:
        k, v, w, u = (z[name][..., 0] for name in "kvwu")
        o, S = self.ops.chunk_wkv(k, v, w, u, initial_state=S)
        return o[..., None], S

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(o) * z["r"]

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return (3 + 1) * config.d_model

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # no products of matrices


class RWKV6Mixer(Mixer):
    """RWKV-6's time mixing (Peng et al. 2024, arXiv 2404.05892, section 4).

    A matrix state per head with a decay per channel from the token, alpha = exp(-exp(d + tanh(x' W_1) W_2));
    reads before it writes, with a bonus u for the token itself; normalised per head, gated by silu(x' W_g).
    x' is the token mixed with the one before it. Simplified: the mixture is learned but does not depend on
    the token (the paper adds a low-rank term); RMSNorm where it has a LayerNorm per head; scale K^-1/2,
    which the norm undoes.
    """

    needs = "chunk_rwkv6"
    row = Row(
        gate="exp(-exp(d))",
        write="outer(k, v)",
        read="dot(q, S_past + outer(u * k, v)) * K ** -0.5",
        learned="d [D], W_1 [D, 64], W_2 [64, D], u [D], mixtures [5, D]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.shift = special(torch.full((5, D), 0.5))
        self.r, self.k, self.v, self.g = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.decay = nn.Parameter(torch.linspace(-6, 1, D))
        self.decay_down, self.decay_up = nn.Linear(D, RANK, bias=False), nn.Linear(RANK, D, bias=False)
        self.bonus = special(torch.full((config.n_heads, config.head_dim), 0.5))
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        before, past = token_shift(x, past)
        mixed = [torch.lerp(before, x, m.to(x.dtype)) for m in self.shift]
        r, k, v, g = (f(y) for f, y in zip((self.r, self.k, self.v, self.g), mixed, strict=False))
        d = wide(self.decay) + wide(self.decay_up(torch.tanh(self.decay_down(mixed[4]))))
        heads = {"q": r, "k": k, "v": v, "d": d}
        z = {name: split_heads(y, self.config.n_heads) for name, y in heads.items()}
        return {**z, "u": wide(self.bonus), "K": self.config.head_dim, "gate": silu(g)}, past

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.ops.chunk_rwkv6(z["q"], z["k"], z["v"], z["u"], -z["d"].exp(), initial_state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return config.d_model
