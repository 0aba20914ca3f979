"""Encode positions: rotation of queries and keys (RoPE), and cosFormer's re-weighting by distance."""

import math

import torch

from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import check_positions, find_value_range, require, require_shape


def rotate(
    x: Float[Tensor, "B T H K"],
    positions: Float[Tensor, " T"],
    base: float = 10_000.0,
    speed: Float[Tensor, " planes"] | None = None,
) -> Float[Tensor, "B T H K"]:
    """Rotate queries or keys by their positions (RoPE).

    Channels c and c + K/2 form a plane, turned by ``positions * base ** (-2 c / K)`` radians. Then
    ``rotate(q, t) . rotate(k, s)`` depends on t and s through t - s alone. The halves are paired as in
    GPT-NeoX; the paper and Meta's LLaMA pair neighbours, which is the same up to a fixed permutation of the
    channels.

    Args:
        x: queries or keys, ``[B, T, H, K]``, any floating dtype, K even.
        positions: absolute positions of the T tokens, ``[T]``, float32 or float64, in tokens.
        base: the slowest plane turns once in 2 pi base ** (1 - 2 / K) tokens.
        speed: radians per token of each plane, ``[K/2]``, in the dtype of the positions. Default None: those
            of ``base``.

    Returns:
        Tensor ``[B, T, H, K]`` in x's dtype.

    Raises:
        ValueError: if x or positions have a wrong type, shape or dtype, or K is odd.

    Source:
        Su et al. 2021, arXiv 2104.09864, section 3; halves paired as in GPT-NeoX.

    Example:
        >>> x = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)
        >>> rotate(x, torch.arange(3.0))[0, :, 0]
        tensor([[ 1.0000,  0.0000],
                [ 0.5403,  0.8415],
                [-0.4161,  0.9093]])
    """
    check_positions(x, positions)
    K = x.shape[-1]
    require(K % 2 == 0, "x", lambda: f"width {K}", "an even width, K/2 planes to turn")
    if speed is None:
        speed = base ** (-torch.arange(0, K, 2, device=x.device, dtype=positions.dtype) / K)  # [K/2]
    require_shape(speed, "speed", (K // 2,))
    angle = (positions[:, None] * speed)[:, None]  # [T, 1, K/2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def cos_reweight(
    x: Float[Tensor, "B T H K"], positions: Float[Tensor, " T"], max_length: int
) -> Float[Tensor, "B T H 2K"]:
    """Return cosFormer's features [x cos a_t, x sin a_t] with a_t = pi t / (2 M), M = ``max_length``.

    The product of a query at t and a key at s gains the factor cos(pi (t - s) / (2 M)), which falls from 1 to
    0 over M tokens and would be negative beyond. The published code takes the current length for M, so that
    earlier outputs change as a sequence grows; here M is a constant.

    Args:
        x: feature maps of queries or keys, ``[B, T, H, K]``, any floating dtype.
        positions: absolute positions of the T tokens, ``[T]``, float32 or float64, in tokens.
        max_length: M, the number of tokens over which the weight falls to 0.

    Returns:
        Tensor ``[B, T, H, 2 K]`` in x's dtype.

    Raises:
        ValueError: if x or positions have a wrong type, shape or dtype, or a position is negative or not
            below ``max_length``.

    Source:
        Qin et al. 2022, arXiv 2202.08791, section 3; M from their code.

    Example:
        >>> q = k = torch.ones(1, 3, 1, 1)
        >>> phi_q, phi_k = (cos_reweight(x, torch.arange(3.0), max_length=3)[0, :, 0] for x in (q, k))
        >>> (phi_q @ phi_k.T)[2]  # cos of 60, 30 and 0 degrees
        tensor([0.5000, 0.8660, 1.0000])
    """
    check_positions(x, positions)
    if (found := find_value_range(positions)) is not None:
        first, last = found
        inside = first >= 0 and last < max_length
        expected = f"0 to below max_length = {max_length}"
        require(inside, "positions", f"{first:.0f} to {last:.0f}", expected)
    angle = (positions * (math.pi / (2 * max_length)))[:, None, None]  # [T, 1, 1]
    return torch.cat([x * angle.cos().to(x.dtype), x * angle.sin().to(x.dtype)], -1)


def cos_per_channel(
    x: Float[Tensor, "B T H K"], positions: Float[Tensor, " T"], base: float = 10_000.0
) -> Float[Tensor, "B T H 2K"]:
    """Return the features [x cos(theta t), x sin(theta t)] with an angle per channel (LRPE-cosine).

    Channel c of the product of a query at t and a key at s gains the factor cos(theta_c (t - s)), with
    theta_c = base ** (-2 c / K) for c = 0, ..., K - 1; no length is needed.

    Args:
        x: queries or keys, ``[B, T, H, K]``, any floating dtype.
        positions: absolute positions of the T tokens, ``[T]``, float32 or float64, in tokens.
        base: sets the angles; theta runs from 1 (channel 0) to nearly base ** -2 (channel K - 1).

    Returns:
        Tensor ``[B, T, H, 2 K]`` in x's dtype.

    Raises:
        ValueError: if x or positions have a wrong type, shape or dtype.

    Source:
        arXiv 2406.16690, section 2.2; the angles are our choice, see ``mixers.cosformer2``.

    Example:
        >>> x = torch.ones(1, 2, 1, 1)
        >>> cos_per_channel(x, torch.arange(2.0))[0, :, 0]
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])
    """
    check_positions(x, positions)
    K = x.shape[-1]
    theta = base ** (-2 * torch.arange(K, device=x.device, dtype=positions.dtype) / K)
    angle = (positions[:, None] * theta)[:, None]  # [T, 1, K]
    return torch.cat([x * angle.cos().to(x.dtype), x * angle.sin().to(x.dtype)], -1)
