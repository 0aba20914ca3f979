"""Define Mamba: a selective state space model per channel, between a short convolution and a gate."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import exp, nn
from torch.nn.functional import silu, softplus

from linattn_ref.config import ModelConfig, Options, check_at_least
from linattn_ref.mixers.base import Mixer, Projections
from linattn_ref.mixers.equation import Names, StateEquation, columns, dot, outer
from linattn_ref.mixers.parts import LowRank, ShortConvolution, make_step_bias, upcast
from linattn_ref.ops.shapes import Float, Tensor

EXPAND, CONV = 2, 4  # E / D; tokens that the short convolution sees


@dataclass(frozen=True)
class MambaOptions(Options):
    """Choose the size of Mamba's states and its discretisation.

    Args:
        state_size: N, numbers in the state of a channel; default 16, as published.
        hold: how B is discretised: "euler" is Delta B, as in the released code (default), "exact" is the
            paper's equation 4; see ``ops.associative_selective_scan``.
        conv_bias: whether the short convolution has a bias, as published models do; default False.

    Raises:
        ValueError: for another hold, or a size below 1.
    """

    state_size: int = 16
    hold: Literal["euler", "exact"] = "euler"
    conv_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "state_size")


def _arrange_by_channel(mixer: Mixer, z: Names) -> Names:
    """Return u, Delta and the skip D as heads of width 1, and B and C for all heads."""
    return columns(z, "u delta D") | {"B": z["B"][:, :, None], "C": z["C"][:, :, None]}


class MambaMixer(Mixer):
    """Mix tokens by Mamba's selective state space model, S6 (Gu and Dao 2023, arXiv 2312.00752).

        Delta_t = softplus(u_t W_1 W_2 + bias) per channel,  B_t = u_t W_B,  C_t = u_t W_C
        S_t = e^(Delta_t A) S_{t-1} + B_t^T Delta_t u_t
        o_t = C_t S_t + D u_t
        y = (o silu(x W_z)) W_o

    Gate: ``e^(Delta A)``. Write: ``B^T Delta u``. Read: ``C S + D u``, where ``D`` is the skip of a channel.
    A projection, a convolution of width 4 and SiLU make of x [B, T, D] the channels u [B, T, E], twice as
    many, each with a state of ``N`` numbers (the paper's ``h``); a gate stands behind. The step ``Delta``
    comes from a projection of rank D / 16, ``B`` and ``C`` are shared by all channels, and
    ``A = -(1, ..., N)`` at the start (S4D-Real). Every channel is a head of its own.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state h [B, E, N] and the last
    three inputs of the convolution [B, 3, E], in float32.

    Args:
        config: sizes of the model, and ``MambaOptions``; ``n_heads`` does not matter.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2312.00752, section 3, algorithm 2 and figure 3.

    Example:
        >>> mixer = MambaMixer(ModelConfig("mamba", d_model=32), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 64, 16]), torch.Size([1, 3, 64]))
    """

    options_class = MambaOptions
    needs = "associative_selective_scan"
    spared = ("log_A",)
    equation = StateEquation(
        gate=lambda delta, A: exp(delta * A),
        write=lambda B, delta, u: outer(B, delta * u),
        read=lambda C, S, D, u: dot(C, S) + D * u,
        learned="A [E, N], Delta's W_1 [E, D/16], W_2 [D/16, E] and bias, W_B, W_C [E, N], D [E]",
        where=_arrange_by_channel,
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        E, N = EXPAND * config.d_model, config.options.state_size
        self.uz = nn.Linear(config.d_model, 2 * E, bias=False)
        self.conv = ShortConvolution(E, CONV, config.options.conv_bias)
        self.BC = nn.Linear(E, 2 * N, bias=False)
        self.step = LowRank(E, math.ceil(config.d_model / 16), E)
        self.step_bias = nn.Parameter(make_step_bias(E))
        self.log_A = nn.Parameter(torch.arange(1.0, N + 1).log().repeat(E, 1))
        self.D = nn.Parameter(torch.ones(E))
        self.out = nn.Linear(E, config.d_model, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        u, gate = self.uz(x).chunk(2, -1)
        u, past = self.conv(u, past)
        B, C = self.BC(u).chunk(2, -1)  # [B, T, N]
        delta = softplus(upcast(self.step(u)) + upcast(self.step_bias))  # [B, T, E]
        A, D = -upcast(self.log_A).exp(), upcast(self.D)
        return {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "gate": silu(gate)}, past

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        u, B, C = z["u"], z["B"].to(z["u"].dtype), z["C"].to(z["u"].dtype)
        op, hold = self.ops.associative_selective_scan, self.config.options.hold
        return op(u, z["delta"], z["A"], B, C, z["D"], hold=hold, initial_state=S)

    def output(self, o: Float[Tensor, "B T E"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(o * z["gate"])

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return EXPAND * config.d_model * (config.options.state_size + CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        # of reading only: the scan that updates the states has no products of matrices
        return 2 * seq_len * EXPAND * config.d_model * config.options.state_size
