"""Mamba-2: a state space model that is linear attention with one decay per head and token (SSD)."""

import torch
from torch import nn
from torch.nn.functional import silu, softplus

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import ShortConvolution, step_bias, wide
from linattn_ref.ops.shapes import Float, Tensor

EXPAND, CONV = 2, 4


class Mamba2Mixer(Mixer):
    """Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, sections 6 and 7).

    In the words of attention q = C, k = B, v = Delta x, scale 1, and a decay exp(-exp(a) Delta) per head. B
    and C of N numbers (``config.state_size``, 128 as published) are shared by all H heads of width 2 D / H; a
    convolution of width 4 and SiLU before x, B and C; RMSNorm(y silu(z)) behind. At the start a = log U[1,
    16]: here evenly spaced, so that nothing is drawn.
    """

    row = Row(
        gate="exp(-exp(a) * delta)",
        write="outer(B, delta * x)",
        read="dot(C, S) + D * x",
        learned="a [H], Delta's W [D, H] and bias, D [H]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        E, N, H = EXPAND * config.d_model, state_size(config), config.n_heads
        self.xBC = nn.Linear(config.d_model, E + 2 * N, bias=False)
        self.conv = ShortConvolution(E + 2 * N, CONV)
        self.z = nn.Linear(config.d_model, E, bias=False)
        self.step = nn.Linear(config.d_model, H, bias=False)
        self.step_bias = nn.Parameter(step_bias(H))
        self.log_A = nn.Parameter(torch.linspace(1, 16, H).log())
        self.D = nn.Parameter(torch.ones(H))
        self.norm = nn.RMSNorm(E, config.norm_eps)
        self.out = nn.Linear(E, config.d_model, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        N, H = state_size(self.config), self.config.n_heads
        delta = softplus(wide(self.step(x)) + wide(self.step_bias))[..., None]  # [B, T, H, 1]
        gate = silu(self.z(x))
        xBC, past = self.conv(self.xBC(x), past)
        x, B, C = xBC.split([xBC.shape[-1] - 2 * N, N, N], -1)
        a, D = (wide(p)[:, None] for p in (self.log_A, self.D))  # [H, 1]
        heads = {"x": split_heads(x, H), "B": B[:, :, None], "C": C[:, :, None]}  # B, C: [B, T, 1, N]
        return {**heads, "delta": delta, "a": a, "D": D, "gate": gate}, past

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        x, H = z["x"], self.config.n_heads
        q, k = (z[name].expand(-1, -1, H, -1) for name in "CB")
        v = (z["delta"] * x).to(x.dtype)
        log_decay = (-z["a"].exp() * z["delta"])[..., 0]
        o, S = self.ops.chunk_linear_attention(q, k, v, log_decay, scale=1.0, initial_state=S)
        return o + (z["D"] * x).to(x.dtype), S

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return self.norm((merge_heads(o) * z["gate"]).to(self.norm.weight.dtype))

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return state_size(config), EXPAND * config.d_model // config.n_heads

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return (EXPAND * config.d_model + 2 * state_size(config)) * (CONV - 1)


def state_size(config: ModelConfig) -> int:
    return config.state_size or 128
