"""Define feature maps phi, which replace exp(q . k) by phi(q) . phi(k): functions on the last dimension.

``FEATURE_MAPS`` has them by name.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import silu

from linattn_ref.ops.shapes import Float, Tensor


def identity(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """Return x itself: linear attention without a kernel, as in RetNet and most later models.

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        none.

    Example:
        >>> x = torch.tensor([-1.0, 0.0, 2.0])
        >>> identity(x)
        tensor([-1.,  0.,  2.])
    """
    return x


def elu_plus_one(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """Return elu(x) + 1 > 0, which is x + 1 or, below 0, exp(x).

    Written out, because ``elu(x) + 1`` adds 1 to a number near -1: in bfloat16 it is a multiple of 1/256, and
    exactly 0 below x = -6.3, where exp(x) is still a good positive number.

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.

    Example:
        >>> x = torch.tensor([-1.0, 0.0, 2.0])
        >>> elu_plus_one(x)
        tensor([0.3679, 1.0000, 3.0000])
    """
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp().to(x.dtype))


def relu(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """Return max(x, 0), as cosFormer does. A row may be all zero.

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        Qin et al. 2022, arXiv 2202.08791, section 3.

    Example:
        >>> x = torch.tensor([-1.0, 0.0, 2.0])
        >>> relu(x)
        tensor([0., 0., 2.])
    """
    return x.relu()


def silu_map(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """Return x sigmoid(x), as TransNormerLLM does. It takes values down to -0.28: it is not positive.

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        Qin et al. 2024, arXiv 2405.17381, equation 11 (phi is Swish).

    Example:
        >>> x = torch.tensor([-1.0, 0.0, 2.0])
        >>> silu_map(x)
        tensor([-0.2689,  0.0000,  1.7616])
    """
    return silu(x)


def exponential(x: Float[Tensor, "... K"]) -> Float[Tensor, "... 2K"]:
    """Return [exp(x), exp(-x)] > 0: Hedgehog's map without its matrix.

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., 2 K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        Zhang et al. 2024, arXiv 2402.04347.

    Example:
        >>> exponential(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183, 1.0000, 0.3679])
    """
    return torch.cat([x.exp(), (-x).exp()], -1)


def taylor(x: Float[Tensor, "... K"]) -> Float[Tensor, "... 1+K+K*K"]:
    """Return [1, x, vec(x x^T) / sqrt 2], whose product is exp to second order.

    phi(q) . phi(k) = 1 + q.k + (q.k)^2 / 2, at least 1/2, although features may be negative. Scale q and k by
    ``K ** -0.25`` each first, to expand exp(q . k / sqrt K).

    Args:
        x: queries or keys, ``[..., K]``, floating.

    Returns:
        Tensor ``[..., 1 + K + K K]`` in x's dtype.

    Raises:
        Nothing of its own.

    Source:
        Arora et al. 2024, arXiv 2402.18668.

    Example:
        >>> phi = taylor(torch.tensor([1.0, 2.0]))
        >>> list(phi.shape), phi @ phi  # q.k = 5: 1 + 5 + 25 / 2
        ([7], tensor(18.5000))
    """
    second = (x[..., :, None] * x[..., None, :]).flatten(-2) / 2**0.5
    return torch.cat([torch.ones_like(x[..., :1]), x, second], -1)


class FeatureMap(NamedTuple):
    """Describe a feature map phi, which replaces exp(q . k) by phi(q) . phi(k).

    Attributes:
        apply: the map, from ``[..., K]`` to ``[..., width(K)]``.
        width: its output width for input width K.
        positive: whether no feature is ever negative, so that a denominator cannot vanish by cancellation.

    Example:
        >>> phi = FEATURE_MAPS["exponential"]
        >>> list(phi.apply(torch.zeros(5, 3)).shape), phi.width(3), phi.positive
        ([5, 6], 6, True)
    """

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
