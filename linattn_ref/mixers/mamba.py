"""Mamba: a selective state space model per channel, between a short convolution and a gate."""

import math

import torch
from torch import nn
from torch.nn.functional import silu, softplus

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads
from linattn_ref.mixers.parts import LowRank, ShortConvolution, special, step_bias, wide
from linattn_ref.ops.shapes import Float, Tensor

EXPAND, CONV = 2, 4


class MambaMixer(Mixer):
    """Mamba, S6 (Gu and Dao 2023, arXiv 2312.00752, section 3 and figure 3).

    E = 2 D channels, each with N numbers (``config.state_size``, 16 as published); a convolution of width 4
    and SiLU in front, a gate silu(x W_z) behind. The step Delta comes from a projection of rank D / 16, B and
    C are shared by all channels, A = -(1, ..., N) at the start (S4D-Real). ``config.hold``: "euler" is Delta
    B, as in the released code; "exact" is equation 4. Every channel is a head of its own; ``n_heads`` does
    not matter.
    """

    needs = "associative_selective_scan"
    row = Row(
        gate="exp(delta * A)",
        write="outer(B, delta * u)",
        read="dot(C, S) + D * u",
        learned="A [E, N], Delta's W_1 [E, D/16], W_2 [D/16, E] and bias, W_B, W_C [E, N], D [E]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        E, N = EXPAND * config.d_model, state_size(config)
        self.uz = nn.Linear(config.d_model, 2 * E, bias=False)
        self.conv = ShortConvolution(E, CONV)
        self.BC = nn.Linear(E, 2 * N, bias=False)
        self.step = LowRank(E, math.ceil(config.d_model / 16), E)
        self.step_bias = nn.Parameter(step_bias(E))
        self.log_A = special(torch.arange(1.0, N + 1).log().repeat(E, 1))
        self.D = nn.Parameter(torch.ones(E))
        self.out = nn.Linear(E, config.d_model, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        u, gate = self.uz(x).chunk(2, -1)
        u, past = self.conv(u, past)
        B, C = self.BC(u)[:, :, None].chunk(2, -1)  # [B, T, 1, N]
        delta = softplus(wide(self.step(u)) + wide(self.step_bias))[..., None]  # [B, T, E, 1]
        A, D = -wide(self.log_A).exp(), wide(self.D)[:, None]
        return {"u": u[..., None], "delta": delta, "A": A, "B": B, "C": C, "D": D, "gate": silu(gate)}, past

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        u, delta, D = (z[name][..., 0] for name in ("u", "delta", "D"))
        B, C = (z[name][:, :, 0] for name in "BC")
        op, hold = self.ops.associative_selective_scan, self.config.hold
        o, S = op(u, delta, z["A"], B.to(u.dtype), C.to(u.dtype), D, hold=hold, initial_state=S)
        return o[..., None], S

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(o) * z["gate"]

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return EXPAND * config.d_model * (state_size(config) + CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 2 * seq_len * EXPAND * config.d_model * state_size(config)  # reading; a scan has no products


def state_size(config: ModelConfig) -> int:
    return config.state_size or 16
