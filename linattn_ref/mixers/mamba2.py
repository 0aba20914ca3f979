"""Define Mamba-2: a state space model that is linear attention with one decay per head and token (SSD)."""

from dataclasses import dataclass

import torch
from torch import exp, nn
from torch.nn.functional import rms_norm, silu, softplus

from linattn_ref.config import ModelConfig, Options, check_at_least
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import Names, StateEquation, columns, dot, outer
from linattn_ref.mixers.parts import ShortConvolution, make_step_bias, upcast
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

EXPAND, CONV = 2, 4  # width of all heads / D; tokens that the short convolution sees


@dataclass(frozen=True)
class Mamba2Options(Options):
    """Choose the size of Mamba-2's states, and which heads share them.

    Args:
        state_size: N, the width of B and C, the keys and queries; default 128, as published.
        n_groups: G, groups of heads that have B and C, and the norm, in common; default 1.
        conv_bias: whether the short convolution has a bias, as published models do; default False.

    Raises:
        ValueError: for a size or a number of groups below 1.
    """

    state_size: int = 128
    n_groups: int = 1
    conv_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "state_size", "n_groups")


def _arrange_by_head(mixer: Mixer, z: Names) -> Names:
    """Return Delta, a and the skip D as numbers per head."""
    return columns(z, "delta a D")


class Mamba2Mixer(Mixer):
    """Mix tokens by Mamba-2's state space duality (Dao and Gu 2024, arXiv 2405.21060).

        Delta_t = softplus(x_t W + bias) per head
        S_t = exp(-e^a Delta_t) S_{t-1} + B_t^T Delta_t x'_t
        o_t = C_t S_t + D x'_t
        y = RMSNorm(o silu(x W_z)) W_o

    Gate: ``exp(-e^a Delta)``. Write: ``B^T Delta x'``. Read: ``C S + D x'``, where ``D`` is the skip of each
    head. In the words of attention ``q = C``, ``k = B``, ``v = Delta x'``, scale 1. ``B`` and ``C`` of ``N``
    numbers are shared by all heads of width 2 D / H, or by those of one of ``G`` groups, which also have a
    norm of their own; a convolution of width 4 and SiLU makes ``x'``, ``B`` and ``C`` of projections of
    ``x``. At the start ``a`` is the logarithm of numbers between 1 and 16: the
    paper draws them, here they are evenly spaced.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, N, 2 D / H] and
    the last three inputs of the convolution [B, 3, 2 D + 2 G N], in float32.

    Args:
        config: sizes of the model, and ``Mamba2Options``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for a number of heads that is no multiple of the number of groups.

    Source:
        arXiv 2405.21060, sections 6 and 7.

    Example:
        >>> mixer = Mamba2Mixer(ModelConfig("mamba2", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 128, 32]), torch.Size([1, 3, 320]))
    """

    options_class = Mamba2Options
    equation = StateEquation(
        gate=lambda a, delta: exp(-exp(a) * delta),
        write=lambda B, delta, x: outer(B, delta * x),
        read=lambda C, S, D, x: dot(C, S) + D * x,
        learned="a [H], Delta's W [D, H] and bias, D [H]",
        where=_arrange_by_head,
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        E, H, G = EXPAND * config.d_model, config.n_heads, config.options.n_groups
        require(H % G == 0, "n_groups", str(G), f"a divisor of n_heads = {H}")
        channels = E + 2 * G * config.options.state_size
        self.xBC = nn.Linear(config.d_model, channels, bias=False)
        self.conv = ShortConvolution(channels, CONV, config.options.conv_bias)
        self.z = nn.Linear(config.d_model, E, bias=False)
        self.step = nn.Linear(config.d_model, H, bias=False)
        self.step_bias = nn.Parameter(make_step_bias(H))
        self.log_A = nn.Parameter(torch.linspace(1, 16, H).log())
        self.D = nn.Parameter(torch.ones(H))
        self.norm = nn.RMSNorm(E, config.norm_eps)
        self.out = nn.Linear(E, config.d_model, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        G, H = self.config.options.n_groups, self.config.n_heads
        N = G * self.config.options.state_size
        delta = softplus(upcast(self.step(x)) + upcast(self.step_bias))  # [B, T, H]
        gate = silu(self.z(x))
        xBC, past = self.conv(self.xBC(x), past)
        x, B, C = xBC.split([xBC.shape[-1] - 2 * N, N, N], -1)
        # [B, T, G, N] for the heads of each group: [B, T, H, N]
        B, C = (split_heads(z, G)[:, :, :, None].expand(-1, -1, -1, H // G, -1).flatten(2, 3) for z in (B, C))
        a, D = upcast(self.log_A), upcast(self.D)  # [H]
        return {"x": split_heads(x, H), "B": B, "C": C, "delta": delta, "a": a, "D": D, "gate": gate}, past

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        x = z["x"]
        v = (z["delta"][..., None] * x).to(x.dtype)
        log_decay = -z["a"].exp() * z["delta"]
        o, S = self.ops.chunk_linear_attention(z["C"], z["B"], v, log_decay, scale=1.0, initial_state=S)
        return o + (z["D"][:, None] * x).to(x.dtype), S

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        y = (merge_heads(o) * z["gate"]).to(self.norm.weight.dtype)
        if (G := self.config.options.n_groups) == 1:
            return self.out(self.norm(y))
        groups = rms_norm(split_heads(y, G), (y.shape[-1] // G,), eps=self.config.norm_eps)
        return self.out(merge_heads(groups) * self.norm.weight)

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return config.options.state_size, EXPAND * config.d_model // config.n_heads

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        N = config.options.n_groups * config.options.state_size
        return (EXPAND * config.d_model + 2 * N) * (CONV - 1)
