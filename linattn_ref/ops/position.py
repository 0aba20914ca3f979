"""Positions: rotation of queries and keys (RoPE), and cosFormer's re-weighting by distance."""

import math

import torch

from linattn_ref.ops.inputs import check_positions, require
from linattn_ref.ops.shapes import Float, Tensor


def rotate(
    x: Float[Tensor, "B T H K"], positions: Float[Tensor, " T"], base: float = 10_000.0
) -> Float[Tensor, "B T H K"]:
    """Rotary position embedding (Su et al. 2021, arXiv 2104.09864; halves paired as in GPT-NeoX).

    Channels c and c + K/2 form a plane, turned by ``positions * base ** (-2 c / K)`` radians; the paper and
    Meta's LLaMA pair neighbours, which is the same up to a fixed permutation of the channels. Then
    ``rotate(q, t) . rotate(k, s)`` depends on t and s through t - s alone.

    Args:
        x: queries or keys, K even.
        positions: absolute positions of the T tokens.
        base: the slowest plane turns once in 2 pi base ** (1 - 2 / K) tokens.
    """
    check_positions(x, positions)
    K = x.shape[-1]
    require(K % 2 == 0, "x", lambda: f"width {K}", "an even width, K/2 planes to turn")
    speed = base ** (-torch.arange(0, K, 2, device=x.device, dtype=positions.dtype) / K)  # [K/2]
    angle = (positions[:, None] * speed)[:, None]  # [T, 1, K/2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def cos_reweight(
    x: Float[Tensor, "B T H K"], positions: Float[Tensor, " T"], max_length: int
) -> Float[Tensor, "B T H 2K"]:
    """cosFormer's features [x cos a_t, x sin a_t], a_t = pi t / (2 M) (Qin et al. 2022, arXiv 2202.08791).

    The product of a query at t and a key at s gains the factor cos(pi (t - s) / (2 M)), which falls from
    1 to 0 over M tokens and would be negative beyond. The published code takes the current length for M, so
    that earlier outputs change as a sequence grows; here M is a constant.

    Raises:
        ValueError: if a position is negative or not below ``max_length``.
    """
    check_positions(x, positions)
    if not torch.compiler.is_compiling() and positions.device.type != "meta":
        first, last = (p.item() for p in torch.aminmax(positions))
        inside = first >= 0 and last < max_length
        expected = f"0 to below max_length = {max_length}"
        require(inside, "positions", f"{first:.0f} to {last:.0f}", expected)
    angle = (positions * (math.pi / (2 * max_length)))[:, None, None]  # [T, 1, 1]
    return torch.cat([x * angle.cos().to(x.dtype), x * angle.sin().to(x.dtype)], -1)


def cos_per_channel(
    x: Float[Tensor, "B T H K"], positions: Float[Tensor, " T"], base: float = 10_000.0
) -> Float[Tensor, "B T H 2K"]:
    """LRPE-cosine: features [x cos(theta t), x sin(theta t)], theta_c = base ** (-2 c / K), c = 0..K-1.

    Channel c of the product of a query at t and a key at s gains the factor cos(theta_c (t - s)); no length
    is needed (arXiv 2406.16690, section 2.2; the angles are our choice, see ``mixers.cosformer2``).
    """
    check_positions(x, positions)
    K = x.shape[-1]
    theta = base ** (-2 * torch.arange(K, device=x.device, dtype=positions.dtype) / K)
    angle = (positions[:, None] * theta)[:, None]  # [T, 1, K]
    return torch.cat([x * angle.cos().to(x.dtype), x * angle.sin().to(x.dtype)], -1)
