"""Define parts of several mixers: convolutions, token shift, low-rank projections, norms.

And what a model draws when it is initialised and what weight decay acts on: ``find_spared_parameters`` and
``find_weight_matrices``.
"""

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import layer_norm, silu

from linattn_ref.ops.shapes import Float, Tensor


def find_spared_parameters(model: nn.Module) -> set[str]:
    """Return the names of the parameters that neither ``LanguageModel.initialise`` nor weight decay touches.

    They start with the values that their module gave them, and are trained like all others. A module class
    names its own in ``spared``, a tuple of names. The rule looks at classes and names, never at tensors:
    copies, ``to_empty``, ``load_state_dict(assign=True)`` and FSDP2 put other tensors in their place.

    Args:
        model: any module.

    Returns:
        Names as in ``model.named_parameters()``.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> sorted(find_spared_parameters(LanguageModel(ModelConfig("mamba", n_layers=1))))
        ['blocks.0.mixer.conv.weight', 'blocks.0.mixer.log_A']
    """
    declared = {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in getattr(module, "spared", ())
    }
    return declared & {name for name, _ in model.named_parameters()}


def find_weight_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return what ``LanguageModel.initialise`` draws and weight decay acts on: matrices that are not spared.

    Args:
        model: any module.

    Returns:
        Name -> parameter, in the order of ``model.named_parameters()``; all others are vectors, scalars or
        ``find_spared_parameters``.

    Example:
        >>> from linattn_ref.mixers import MambaMixer
        >>> from linattn_ref.model import ModelConfig
        >>> list(find_weight_matrices(MambaMixer(ModelConfig("mamba"), layer=0)))
        ['uz.weight', 'BC.weight', 'step.0.weight', 'step.1.weight', 'out.weight']
    """
    spared = find_spared_parameters(model)
    return {name: p for name, p in model.named_parameters() if p.ndim >= 2 and name not in spared}


def upcast(x: Tensor) -> Tensor:
    """Return x in float32 at least: what goes into a decay is not rounded to half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class LowRank(nn.Sequential):
    """Compute x W_1 W_2, or x W_1 W_2 + b, with a narrow middle.

    Args:
        width: of x.
        rank: of the product, the width of the middle.
        out: width of the output.
        bias: whether there is a b, which starts at 0; default False.
    """

    def __init__(self, width: int, rank: int, out: int, bias: bool = False) -> None:
        up = nn.Linear(rank, out, bias=bias)
        if bias:
            nn.init.zeros_(up.bias)
        super().__init__(nn.Linear(width, rank, bias=False), up)


class ShortConvolution(nn.Module):
    """Convolve each channel over the last few tokens, then apply SiLU, as Mamba and DeltaNet do.

    Args:
        channels: X, each with a filter of its own.
        width: W, tokens that a filter sees, its own token included; default 4.
        bias: whether a number per channel is added before SiLU, drawn from [-W^-1/2, W^-1/2] as in Mamba's
            code; default False.
    """

    spared: ClassVar = ("weight",)

    def __init__(self, channels: int, width: int = 4, bias: bool = False) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.randn(width, channels) * width**-0.5)
        self.bias = nn.Parameter((2 * torch.rand(channels) - 1) * width**-0.5) if bias else None

    def forward(
        self, x: Float[Tensor, "B T X"], past: Float[Tensor, "B _ X"] | None
    ) -> tuple[Float[Tensor, "B T X"], Float[Tensor, "B _ X"]]:
        """Return the output, and the last ``width - 1`` inputs for the next call, in float32 at least."""
        y, past = filter_causally(x, self.weight, past)
        y = y if self.bias is None else y + upcast(self.bias)
        return silu(y).to(x.dtype), past


def filter_causally(
    x: Float[Tensor, "B T X"], weight: Float[Tensor, "W X"], past: Tensor | None
) -> tuple[Float[Tensor, "B T X"], Float[Tensor, "B _ X"]]:
    """Return y_t = sum_i weight_i x_{t-W+1+i}, i = 0..W-1, and the last W - 1 inputs, in float32 at least."""
    before = weight.shape[0] - 1
    seen = torch.cat([get_earlier_tokens(x, past, before), upcast(x)], 1)
    y = sum(w * seen[:, i : i + x.shape[1]] for i, w in enumerate(upcast(weight)))
    return torch.as_tensor(y), seen[:, x.shape[1] :]


def get_earlier_tokens(x: Float[Tensor, "B T D"], past: Tensor | None, n: int) -> Float[Tensor, "B n D"]:
    """Return the n tokens before x: ``past``, or zeros at the start of a sequence, where ``past`` is None."""
    if past is None:
        return upcast(x.new_zeros(x.shape[0], n, x.shape[2]))
    if past.shape != (x.shape[0], n, x.shape[2]):
        expected = [x.shape[0], n, x.shape[2]]
        raise ValueError(f"initial_state: got earlier tokens {list(past.shape)}, expected {expected}")
    return past


def shift_tokens(
    x: Float[Tensor, "B T D"], last: Float[Tensor, "B 1 D"] | None
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 1 D"]]:
    """Return for every token the one before it, as in RWKV, and the last token for the next call."""
    seen = torch.cat([get_earlier_tokens(x, last, 1).to(x.dtype), x], 1)
    return seen[:, :-1], upcast(seen[:, -1:])


class HeadNorm(nn.Module):
    """Normalise every head by itself with RMSNorm; all heads have the same learned gain.

    Args:
        width: V, of a head and of the gain.
        eps: epsilon of the norm.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps)

    def forward(self, o: Float[Tensor, "B T H V"]) -> Float[Tensor, "B T H V"]:
        return self.norm(o.to(self.norm.weight.dtype))  # under autocast, o is half and the gain is not


class HeadLayerNorm(nn.Module):
    """Normalise every head by itself with LayerNorm; every channel of every head has its own learned gain.

    Args:
        n_heads: H.
        width: V, of a head.
        eps: epsilon of the norm.
    """

    def __init__(self, n_heads: int, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_heads * width))
        self.eps = eps

    def forward(self, o: Float[Tensor, "B T H V"]) -> Float[Tensor, "B T H V"]:
        o = layer_norm(o.to(self.weight.dtype), o.shape[-1:], eps=self.eps)
        return o * self.weight.view(o.shape[-2:])


def simple_rms(o: Float[Tensor, "B T D"], eps: float) -> Float[Tensor, "B T D"]:
    """Return SRMSNorm of o: RMSNorm without a gain (arXiv 2405.17381, eq. 14)."""
    return torch.nn.functional.rms_norm(o, o.shape[-1:], eps=eps)


def l2_normalize(x: Tensor, eps: float = 0.0) -> Tensor:
    """Return x / |x| over the last dimension, in float32 at least; 0 stays 0.

    With ``eps`` above 0 it is x / sqrt(|x|^2 + eps), as FLA and transformers have it.
    """
    if eps == 0:
        return torch.nn.functional.normalize(upcast(x), dim=-1, eps=1e-6)
    x = upcast(x)
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def make_step_bias(n: int, low: float = 1e-3, top: float = 0.1) -> Tensor:
    """Return n biases whose softplus is spread over [low, top], evenly in logs: Mamba's step sizes Delta.

    Mamba's code draws them from this range; its paper (arXiv 2312.00752, section 3.6) prints a uniform draw.
    """
    step = torch.logspace(math.log10(low), math.log10(top), n)
    return step + torch.log(-torch.expm1(-step))


def cap_softly(x: Tensor, cap: float) -> Tensor:
    """Return cap tanh(x / cap), which stays within +-cap; x itself for a cap of 0."""
    return cap * torch.tanh(x / cap) if cap else x


def with_ones(v: Float[Tensor, "B T H V"]) -> Tensor:
    """Return v with a column of ones, [B, T, H, V + 1]: the state's last column is then the denominator's."""
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)
