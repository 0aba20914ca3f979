"""Feature maps phi: what replaces exp(q . k) by phi(q) . phi(k). Pure functions on the last dimension.

A map is ``positive`` when no feature is ever negative, so that a denominator cannot vanish by cancellation.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import silu

from linattn_ref.ops.shapes import Float, Tensor


def identity(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """phi(x) = x: linear attention without a kernel, as in RetNet and most later models."""
    return x


def elu_plus_one(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """phi(x) = elu(x) + 1 > 0 (Katharopoulos et al. 2020, arXiv 2006.16236): x + 1 or, below 0, exp(x).

    Written out, because ``elu(x) + 1`` adds 1 to a number near -1: in bfloat16 it is a multiple of 1/256, and
    exactly 0 below x = -6.3, where exp(x) is still a good positive number.
    """
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp().to(x.dtype))


def relu(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """phi(x) = max(x, 0) (cosFormer: Qin et al. 2022, arXiv 2202.08791). A row may be all zero."""
    return x.relu()


def silu_map(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """phi(x) = x sigmoid(x) (TransNormerLLM). Takes values down to -0.28: not positive."""
    return silu(x)


def exponential(x: Float[Tensor, "... K"]) -> Float[Tensor, "... 2K"]:
    """phi(x) = [exp(x), exp(-x)] > 0 (Hedgehog without its matrix: Zhang et al. 2024, arXiv 2402.04347)."""
    return torch.cat([x.exp(), (-x).exp()], -1)


def taylor(x: Float[Tensor, "... K"]) -> Float[Tensor, "... 1+K+K*K"]:
    """phi(x) = [1, x, vec(x x^T) / sqrt 2]: phi(q) . phi(k) = 1 + q.k + (q.k)^2 / 2, exp to second order.

    The product is at least 1/2, although features may be negative (Arora et al. 2024, arXiv 2402.18668).
    Scale q and k by ``K ** -0.25`` each first, to expand exp(q . k / sqrt K).
    """
    second = (x[..., :, None] * x[..., None, :]).flatten(-2) / 2**0.5
    return torch.cat([torch.ones_like(x[..., :1]), x, second], -1)


class FeatureMap(NamedTuple):
    """A map, its output width for input width K, and whether its features are never negative."""

    apply: Callable[[Tensor], Tensor]
    width: Callable[[int], int]
    positive: bool


FEATURE_MAPS: dict[str, FeatureMap] = {
    "identity": FeatureMap(identity, lambda K: K, False),
    "elu_plus_one": FeatureMap(elu_plus_one, lambda K: K, True),
    "relu": FeatureMap(relu, lambda K: K, True),
    "silu": FeatureMap(silu_map, lambda K: K, False),
    "exponential": FeatureMap(exponential, lambda K: 2 * K, True),
    "taylor": FeatureMap(taylor, lambda K: 1 + K + K * K, False),
}
