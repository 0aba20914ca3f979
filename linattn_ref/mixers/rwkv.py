"""Define RWKV-4 and RWKV-6: token shift, decays per channel, and a bonus for the token itself."""

import torch
from torch import exp, nn
from torch.nn.functional import silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, columns, dot, outer, quotient
from linattn_ref.mixers.parts import HeadNorm, shift_tokens, upcast, with_ones
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.wkv import WKVState

RANK = 64  # of RWKV-6's projection to the decay


class RWKV4Mixer(Mixer):
    """Mix tokens by RWKV-4's time mixing (Peng et al. 2023, arXiv 2305.13048).

        S_t = e^-w S_{t-1} + e^k_t [v_t, 1] per channel
        [n_t, d_t] = S_{t-1} + e^(u + k_t) [v_t, 1],  o_t = n_t / d_t
        y = (sigmoid(r) o) W_o

    Gate: ``e^-w`` with ``w > 0``. Write: ``e^k [v, 1]``. Read: the mean, with ``e^(u + k)`` for the token
    itself. Each of ``r``, ``k`` and ``v`` sees a learned mixture of the token and the one before it. No heads
    and no outer product: three numbers of state a channel, numerator and denominator relative to ``e^m``,
    and ``m``, the largest exponent so far. Simplified: ``w`` starts spread from 1/200 to 2 over the channels
    and ``u`` at 0; the paper's LayerNorm and channel mixing, in place of our RMSNorm and gated MLP, have to
    be asked for: ``ModelConfig(norm="layer", mlp="channel_mix")``.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state a ``WKVState`` of [B, D]
    and the last token [B, 1, D], in float32.

    Args:
        config: sizes of the model; ``n_heads`` does not matter; no options.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2305.13048, published version, equations 11-17.

    Example:
        >>> mixer = RWKV4Mixer(ModelConfig("rwkv4", d_model=32), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].a.shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 32]), torch.Size([1, 1, 32]))
    """

    needs = "chunk_wkv"
    spared = ("shift",)
    equation = StateEquation(
        gate=lambda w: exp(-w),
        write=lambda k, v: outer(exp(k), with_ones(v)),
        read=lambda S_past, u, k, v: quotient(S_past + outer(exp(u + k), with_ones(v))),
        learned="w, u [D], token shift [3, D]",
        where=lambda mixer, z: columns(z, "k v w u"),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.shift = nn.Parameter(torch.full((3, D), 0.5))
        self.r, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.log_w = nn.Parameter(torch.linspace(-5.3, 0.7, D))
        self.u = nn.Parameter(torch.zeros(D))
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        before, past = shift_tokens(x, past)
        mixed = [torch.lerp(before, x, m.to(x.dtype)) for m in self.shift]
        r, k, v = (f(y) for f, y in zip((self.r, self.k, self.v), mixed, strict=True))
        w, u = upcast(self.log_w).exp(), upcast(self.u)  # [D]
        return {"k": k, "v": v, "w": w, "u": u, "r": torch.sigmoid(r)}, past

    def mix(self, z: Projections, S: WKVState | None) -> tuple[Tensor, WKVState]:
        return self.ops.chunk_wkv(z["k"], z["v"], z["w"], z["u"], initial_state=S)

    def output(self, o: Float[Tensor, "B T D"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(o * z["r"])

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return (3 + 1) * config.d_model

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # no products of matrices


class RWKV6Mixer(Mixer):
    """Mix tokens by RWKV-6's time mixing (Peng et al. 2024, arXiv 2404.05892).

        d_t = d + tanh(x'_t W_1) W_2 per channel,  alpha_t = exp(-e^d_t)
        o_t = q_t (S_{t-1} + (u * k_t)^T v_t) / sqrt K
        S_t = Diag(alpha_t) S_{t-1} + k_t^T v_t
        y = (RMSNorm(o) silu(x' W_g)) W_o

    Gate: ``alpha_t``. Write: ``k^T v``. Read: ``q S`` before the write, with a bonus ``u`` for the token
    itself. The input ``x'`` is the token mixed with the one before it; ``q`` is the paper's ``r``; the norm
    is per head. Simplified: the mixture is learned but does not depend on the token (the paper adds a
    low-rank term); RMSNorm where it has a LayerNorm per head; a scale ``1 / sqrt K``, which the norm undoes.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] and the
    last token [B, 1, D], in float32.

    Args:
        config: sizes of the model; no options.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2404.05892, section 4.

    Example:
        >>> mixer = RWKV6Mixer(ModelConfig("rwkv6", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]), torch.Size([1, 1, 32]))
    """

    needs = "chunk_rwkv6"
    spared = ("shift", "bonus")
    equation = StateEquation(
        gate=lambda d: exp(-exp(d)),
        write=lambda k, v: outer(k, v),
        read=lambda q, S_past, u, k, v, K: dot(q, S_past + outer(u * k, v)) * K**-0.5,
        learned="d [D], W_1 [D, 64], W_2 [64, D], u [D], token shift [5, D]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.shift = nn.Parameter(torch.full((5, D), 0.5))
        self.r, self.k, self.v, self.g = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.decay = nn.Parameter(torch.linspace(-6, 1, D))
        self.decay_down, self.decay_up = nn.Linear(D, RANK, bias=False), nn.Linear(RANK, D, bias=False)
        self.bonus = nn.Parameter(torch.full((config.n_heads, config.head_dim), 0.5))
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        before, past = shift_tokens(x, past)
        mixed = [torch.lerp(before, x, m.to(x.dtype)) for m in self.shift]
        # the fifth mixture is the decay's
        r, k, v, g = (f(y) for f, y in zip((self.r, self.k, self.v, self.g), mixed, strict=False))
        d = upcast(self.decay) + upcast(self.decay_up(torch.tanh(self.decay_down(mixed[4]))))
        heads = {"q": r, "k": k, "v": v, "d": d}
        z = {name: split_heads(y, self.config.n_heads) for name, y in heads.items()}
        return {**z, "u": upcast(self.bonus), "gate": silu(g)}, past

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.ops.chunk_rwkv6(z["q"], z["k"], z["v"], z["u"], -z["d"].exp(), initial_state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return config.d_model
