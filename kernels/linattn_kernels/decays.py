"""Log decays as the kernels take them: summed within each chunk, G_i = g_first + ... + g_i.

A decay per head needs no memory for that, since G_i is a multiple of it. One per token and head is summed by
a kernel of its own, once in the forward and once in the backward, for all that read it there. Beside its sums
lie what they make of a token: exp(G_i), left of what was before the chunk, and exp(G_C - G_i), left of the
token at the end. All lie chunk by chunk, so that a kernel which walks through a head reads them in one piece.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.door import decay_dtype
from linattn_kernels.tiles import HEAD, bounded, exp, kind_of, last_row

HEADS = 16  # that one program sums


class Decay(NamedTuple):
    """Log decays, and what they are.

    ``g`` is ``[H]``, sums and weights ``[B, H, M, 3, C]`` of one per token and head, or None. For decays per
    channel, whose weights are already in q and k, it is their sums over each whole chunk, ``[B, M, H, K]``.
    """

    g: Tensor | None
    kind: int


@triton.jit
def decays_of_head(g, bh, h, M, KIND: tl.constexpr, C: tl.constexpr):
    """The first number of a head in g: HEAD or TOKEN."""
    return g + h if KIND == HEAD else g + bh.to(tl.int64) * M * 3 * C


@triton.jit
def decays_of_chunk(g, m, T, KIND: tl.constexpr, C: tl.constexpr, SUMS: tl.constexpr):
    """Of chunk m: G_i, exp(G_i) and exp(G_C - G_i), all [C], and G_C; tokens beyond T forget nothing.

    G is in the dtype ``SUMS``, weights are in float32.
    """
    i = tl.arange(0, C)
    if KIND == HEAD:
        one = bounded(tl.load(g)).to(SUMS)
        G, whole = tl.minimum(i + 1, T - m * C).to(SUMS) * one, tl.minimum(C, T - m * C).to(SUMS) * one
        since_start, until_end = exp(G), exp(whole - G)
    else:
        g += m * 3 * C
        G, whole = tl.load(g + i), tl.load(g + C - 1)
        since_start, until_end = tl.load(g + C + i).to(tl.float32), tl.load(g + 2 * C + i).to(tl.float32)
    return G, since_start, until_end, whole


@triton.jit
def sums_kernel(
    g,  # [B, T, H]
    sums,  # [B, H, M, 3, C], written
    T, H, M, C: tl.constexpr, HEADS: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Running sums of one chunk and the weights made of them, some heads at a time."""
    m, b = tl.program_id(0) % M, (tl.program_id(0) // M).to(tl.int64)
    i, h = tl.arange(0, C)[:, None], tl.program_id(1) * HEADS + tl.arange(0, HEADS)[None, :]
    t = m * C + i
    gs = tl.load(g + (b * T + t) * H + h, mask=(t < T) & (h < H), other=0.0)  # [C, HEADS]
    G = tl.cumsum(bounded(gs).to(SUMS), 0)
    whole = last_row(G, C)[None, :]  # [1, HEADS]
    at = sums + ((b * H + h) * M + m) * 3 * C + i
    tl.store(at, G, mask=h < H)
    tl.store(at + C, exp(G), mask=h < H)
    tl.store(at + 2 * C, exp(whole - G), mask=h < H)


def summed(g: Tensor | None, q: Tensor, C: int) -> Decay:
    """None, ``[H]`` or ``[B, T, H]``, in float32, for chunks of C tokens of q ``[B, T, H, K]``."""
    kind = kind_of(g)
    if g is None or kind == HEAD.value:
        return Decay(g, kind)
    B, T, H = g.shape
    M, SUMS = triton.cdiv(T, C), decay_dtype(q)
    dtype = torch.float64 if tl.float64 == SUMS else torch.float32
    sums = g.new_empty(B, H, M, 3, C, dtype=dtype)
    heads = min(HEADS, triton.next_power_of_2(H))
    sums_kernel[(B * M, triton.cdiv(H, heads))](g, sums, T, H, M, C, heads, SUMS)
    return Decay(sums, kind)
