"""What several mixers are made of: short convolutions, token shift, low-rank projections, norms."""

import math

import torch
from torch import nn
from torch.nn.functional import silu

from linattn_ref.ops.shapes import Float, Tensor


def special(values: Tensor) -> nn.Parameter:
    """A parameter that keeps the values it is made with; initialisation and weight decay skip it."""
    parameter = nn.Parameter(values)
    parameter.special = True  # type: ignore[attr-defined]
    return parameter


def wide(x: Tensor) -> Tensor:
    """In float32 at least: what goes into a decay is not rounded to half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class LowRank(nn.Sequential):
    """x W_1 W_2 + b with a narrow middle; the bias starts at 0."""

    def __init__(self, width: int, rank: int, out: int, bias: bool = False) -> None:
        up = nn.Linear(rank, out, bias=bias)
        if bias:
            nn.init.zeros_(up.bias)
        super().__init__(nn.Linear(width, rank, bias=False), up)


class ShortConvolution(nn.Module):
    """A causal convolution over the last few tokens, channel by channel, then SiLU (Mamba's, DeltaNet's)."""

    def __init__(self, channels: int, width: int = 4) -> None:
        super().__init__()
        self.width = width
        self.weight = special(torch.randn(width, channels) * width**-0.5)

    def forward(
        self, x: Float[Tensor, "B T X"], past: Float[Tensor, "B _ X"] | None
    ) -> tuple[Float[Tensor, "B T X"], Float[Tensor, "B _ X"]]:
        """The output, and the last ``width - 1`` inputs for the next call, in float32 at least."""
        seen = torch.cat([earlier(x, past, self.width - 1), wide(x)], 1)
        y = sum(w * seen[:, i : i + x.shape[1]] for i, w in enumerate(wide(self.weight)))
        return silu(y).to(x.dtype), seen[:, x.shape[1] :]


def earlier(x: Float[Tensor, "B T D"], past: Tensor | None, n: int) -> Float[Tensor, "B n D"]:
    """The n tokens before x: those carried, or zeros at the start of a sequence."""
    if past is None:
        return wide(x.new_zeros(x.shape[0], n, x.shape[2]))
    if past.shape != (x.shape[0], n, x.shape[2]):
        expected = [x.shape[0], n, x.shape[2]]
        raise ValueError(f"initial_state: got earlier tokens {list(past.shape)}, expected {expected}")
    return past


def token_shift(
    x: Float[Tensor, "B T D"], last: Float[Tensor, "B 1 D"] | None
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 1 D"]]:
    """x one token late, as in RWKV; and its last token for the next call."""
    seen = torch.cat([earlier(x, last, 1).to(x.dtype), x], 1)
    return seen[:, :-1], wide(seen[:, -1:])


class HeadNorm(nn.Module):
    """RMSNorm of every head by itself, with a learned gain of the head's width."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps)

    def forward(self, o: Float[Tensor, "B T H V"]) -> Float[Tensor, "B T H V"]:
        return self.norm(o.to(self.norm.weight.dtype))  # under autocast, o is half and the gain is not


def simple_rms(o: Float[Tensor, "B T D"], eps: float) -> Float[Tensor, "B T D"]:
    """SRMSNorm: RMSNorm without a gain (arXiv 2405.17381, eq. 14)."""
    return torch.nn.functional.rms_norm(o, o.shape[-1:], eps=eps)


def unit(x: Tensor) -> Tensor:
    """x / |x| over the last dimension, in float32 at least; 0 stays 0."""
    return torch.nn.functional.normalize(wide(x), dim=-1, eps=1e-6)


def step_bias(n: int, low: float = 1e-3, top: float = 0.1) -> Tensor:
    """Biases whose softplus is spread evenly in logs over [low, top], as in Mamba's code.

    Its paper (arXiv 2312.00752, section 3.6) prints a uniform draw.
    """
    step = torch.logspace(math.log10(low), math.log10(top), n)
    return step + torch.log(-torch.expm1(-step))


def with_ones(v: Float[Tensor, "B T H V"]) -> Tensor:
    """v with a column of ones: its state then holds the denominator, [B, T, H, V + 1]."""
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)
