"""DeltaNet and Gated DeltaNet: a key corrects what the state recalls for it."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import silu, softplus

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import HeadNorm, ShortConvolution, step_bias, unit, wide
from linattn_ref.ops.shapes import Float, Tensor

CONV = 4


class DeltaNetMixer(Mixer):
    """DeltaNet (Yang et al. 2024, arXiv 2406.06484, section 3; released code for the layer).

    q, k, v each through a convolution of width 4 and SiLU; q and k then have length 1; beta = sigmoid(x W_b)
    per head, times ``config.beta_max`` (1 as published; 2 lets a key flip its direction of the state, Grazzi
    et al. 2024, arXiv 2411.12537). RMSNorm per head, W_o. The default scale is the released code's; the norm
    behind undoes it.
    """

    needs = "chunk_delta_rule"
    row = Row(
        gate="eye - beta * outer(k, k)",
        write="beta * outer(k, v)",
        read="dot(q, S) * K ** -0.5",
        learned="W_b [D, H]",
        gating="matrix",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.conv = ShortConvolution(3 * D, CONV)
        self.beta = nn.Linear(D, config.n_heads, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        return corrections(self, x, past)

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v, beta = z["q"], z["k"], z["v"], z["beta"][..., 0, 0]
        return self.ops.chunk_delta_rule(q.to(v.dtype), k.to(v.dtype), v, beta, initial_state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o))

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return 3 * config.d_model * (CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return delta_flops(seq_len, config.n_heads, config.head_dim)


class GatedDeltaNetMixer(Mixer):
    """Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464, sections 3.1 and 3.4).

    DeltaNet with a decay before each correction, alpha = exp(-exp(a) softplus(x W_a + b)) per head, as in
    Mamba-2, and an output gate: RMSNorm(o) silu(x W_g) per head. Simplified: keys and values of width D / H
    (the released layer has heads of 0.75 D / H and values twice as wide). The rule is decay first;
    ``Diag(alpha) - beta k^T k`` is another.
    """

    needs = "chunk_delta_rule"
    row = Row(
        gate="alpha * (eye - beta * outer(k, k))",
        write="beta * outer(k, v)",
        read="dot(q, S) * K ** -0.5",
        learned="W_b [D, H]; a [H], W_a [D, H], b [H] of alpha",
        gating="matrix",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, H = config.d_model, config.n_heads
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.conv = ShortConvolution(3 * D, CONV)
        self.beta = nn.Linear(D, H, bias=False)
        self.step = nn.Linear(D, H, bias=False)
        self.step_bias = nn.Parameter(step_bias(H))
        self.log_A = nn.Parameter(torch.linspace(1, 16, H).log())
        self.gate = nn.Linear(D, D, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        log_alpha = -wide(self.log_A).exp() * softplus(wide(self.step(x)) + wide(self.step_bias))  # [B, T, H]
        z, past = corrections(self, x, past)
        z |= {"log_alpha": log_alpha, "alpha": log_alpha.exp()[..., None, None]}
        return z | {"gate": silu(self.gate(x))}, past

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v, beta = z["q"], z["k"], z["v"], z["beta"][..., 0, 0]
        op = self.ops.chunk_delta_rule
        return op(q.to(v.dtype), k.to(v.dtype), v, beta, z["log_alpha"], initial_state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return 3 * config.d_model * (CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return delta_flops(seq_len, config.n_heads, config.head_dim)


def corrections(mixer: Any, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
    """q and k of length 1, v, and the strength of each correction."""
    config = mixer.config
    beta = config.beta_max * torch.sigmoid(wide(mixer.beta(x)))[..., None, None]
    qkv, past = mixer.conv(mixer.qkv(x), past)
    q, k, v = (split_heads(z, config.n_heads) for z in qkv.chunk(3, -1))
    eye = torch.eye(config.head_dim, device=x.device, dtype=beta.dtype)
    return {"q": unit(q), "k": unit(k), "v": v, "beta": beta, "eye": eye, "K": config.head_dim}, past


def delta_flops(seq_len: int, n_heads: int, K: int, chunk_size: int = 64) -> int:
    """Forward matmul FLOPs of ``chunk_delta_rule``, V = K; the triangular systems, 2 T C K, are not counted.

    Per head: two tables of scores 4 T C K, U - W S 2 T K V, reading 2 T K V + 2 T C V, writing 2 T K V.
    """
    C = min(chunk_size, seq_len)
    T = C * -(-seq_len // C)
    return n_heads * (6 * T * C * K + 6 * T * K * K)
