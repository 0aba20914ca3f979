"""Log decays as the kernels take them: summed within each chunk, G_i = g_first + ... + g_i.

A decay per head needs no memory for that, since G_i is a multiple of it. One per token and head is summed by
a kernel of its own, once in the forward and once in the backward, for all that read it there. Its sums lie
chunk by chunk, so that a kernel which walks through a head reads them in one piece. The kernel of the output
has a table of weights, too: exp(G_i), what is left of the state before the chunk, and exp(G_C - G_i), what is
left of a token at the end.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.door import decay_dtype, overlaps
from linattn_kernels.tiles import HEAD, bounded, exp, kind_of, last_row, next_may_begin

HEADS = 16  # that one program sums


class Decay(NamedTuple):
    """Log decays, and what they are.

    ``g`` is ``[H]``, sums ``[B, H, M, C]`` of one per token and head, or None. For decays per channel, whose
    weights are already in q and k, it is their sums over each whole chunk, ``[B, M, H, K]``. ``weights`` is
    ``[B, H, M, 2, C]``, in float32, for one per token and head where a kernel asks for them.
    """

    g: Tensor | None
    kind: int
    weights: Tensor | None = None


@triton.jit
def decays_of_head(g, bh, h, M, KIND: tl.constexpr, C: tl.constexpr):
    """The first number of a head in g: HEAD or TOKEN."""
    return g + h if KIND == HEAD else g + bh.to(tl.int64) * M * C


@triton.jit
def sums_of_decays(g, m, T, KIND: tl.constexpr, C: tl.constexpr, SUMS: tl.constexpr):
    """[C]: G_i of chunk m in the dtype ``SUMS``, and the last of them; tokens beyond T forget nothing."""
    i = tl.arange(0, C)
    if KIND == HEAD:
        one = bounded(tl.load(g)).to(SUMS)
        G, whole = tl.minimum(i + 1, T - m * C).to(SUMS) * one, tl.minimum(C, T - m * C).to(SUMS) * one
    else:
        G, whole = tl.load(g + m * C + i), tl.load(g + m * C + C - 1)
    return G, whole


@triton.jit
def weights_of_chunk(weights, bh, m, M, G, whole, KIND: tl.constexpr, C: tl.constexpr):
    """exp(G_i) and exp(G_C - G_i), both [C], in float32: HEAD or TOKEN."""
    if KIND == HEAD:
        since_start, until_end = exp(G), exp(whole - G)
    else:
        weights += (bh.to(tl.int64) * M + m) * 2 * C + tl.arange(0, C)
        since_start, until_end = tl.load(weights), tl.load(weights + C)
    return since_start, until_end


@triton.jit
def sums_kernel(
    g,  # [B, T, H]
    sums,  # [B, H, M, C], written
    weights,  # [B, H, M, 2, C], written if WEIGHTS
    T, H, M, C: tl.constexpr, HEADS: tl.constexpr, SUMS: tl.constexpr, WEIGHTS: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """Running sums of one chunk and the weights made of them, some heads at a time."""
    next_may_begin(EARLY)
    m, b = tl.program_id(0) % M, (tl.program_id(0) // M).to(tl.int64)
    i, h = tl.arange(0, C)[:, None], tl.program_id(1) * HEADS + tl.arange(0, HEADS)[None, :]
    t = m * C + i
    gs = tl.load(g + (b * T + t) * H + h, mask=(t < T) & (h < H), other=0.0)  # [C, HEADS]
    G = tl.cumsum(bounded(gs).to(SUMS), 0)
    chunk = (b * H + h) * M + m
    tl.store(sums + chunk * C + i, G, mask=h < H)
    if WEIGHTS:
        weights += chunk * 2 * C + i
        tl.store(weights, exp(G), mask=h < H)
        tl.store(weights + C, exp(last_row(G, C)[None, :] - G), mask=h < H)


def summed(g: Tensor | None, q: Tensor, C: int, weights: bool = False) -> Decay:
    """None, ``[H]`` or ``[B, T, H]``, in float32, for chunks of C tokens of q ``[B, T, H, K]``."""
    kind = kind_of(g)
    if g is None or kind == HEAD.value:
        return Decay(g, kind)
    B, T, H = g.shape
    M, SUMS = triton.cdiv(T, C), decay_dtype(q)
    dtype = torch.float64 if tl.float64 == SUMS else torch.float32
    sums = g.new_empty(B, H, M, C, dtype=dtype)
    table = g.new_empty(B, H, M, 2, C) if weights else None
    heads = min(HEADS, triton.next_power_of_2(H))
    sums_kernel[(B * M, triton.cdiv(H, heads))](g, sums, table, T, H, M, C, heads, SUMS, weights, overlaps(q))
    return Decay(sums, kind, table)
