"""Sum log decays within each chunk, G_i = g_first + ... + g_i, for the kernels that read them.

A decay per head needs no memory for that, since G_i is a multiple of it. Decays per token and head are
summed by a kernel of their own, once in the forward and once in the backward, for all kernels that read
them. Its sums lie chunk by chunk, so that a kernel which walks through a head reads them in one piece. The
kernel of the output also reads a table of weights: exp(G_i), what is left of the state before the chunk,
and exp(G_C - G_i), what is left of a token at the end of the chunk.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.dtypes import decay_sum_dtype
from linattn_kernels.hardware import supports_pdl
from linattn_kernels.launch_config import ceil_div, round_up_to_power_of_2
from linattn_kernels.launches import kernel
from linattn_kernels.tiles import (
    PER_HEAD,
    allow_next_kernel,
    clamp_log_decay,
    classify_decay,
    exp,
    get_last_row,
)

MAX_BLOCK_HEADS = 16  # heads that one program sums


class ChunkDecay(NamedTuple):
    """Hold log decays in the form that kernels read.

    Attributes:
        g: None; ``[H]``; for decays per token and head their sums in each chunk, ``[B, H, M, C]``; for decays
            per channel, whose weights are already in q and k, their sums over whole chunks, ``[B, M, H, K]``.
        kind: one of ``NO_DECAY``, ``PER_HEAD``, ``PER_TOKEN``, ``PER_CHANNEL``.
        weights: ``[B, H, M, 2, C]`` in float32, exp(G_i) and exp(G_C - G_i), for decays per token and head
            where a kernel asks for them; else None.
    """

    g: Tensor | None
    kind: int
    weights: Tensor | None = None


@triton.jit
def get_head_decays(g, bh, h, M, DECAY: tl.constexpr, C: tl.constexpr):
    """Return the pointer to the first number of a head in g, for decays per head or per token."""
    return g + h if DECAY == PER_HEAD else g + bh.to(tl.int64) * M * C


@triton.jit
def load_decay_sums(g, m, T, DECAY: tl.constexpr, C: tl.constexpr, SUM_DTYPE: tl.constexpr):
    """Return G_i [C] of chunk m, in ``SUM_DTYPE``, and the last of them, G_C; beyond T nothing decays."""
    i = tl.arange(0, C)
    if DECAY == PER_HEAD:
        one = clamp_log_decay(tl.load(g)).to(SUM_DTYPE)
        G = tl.minimum(i + 1, T - m * C).to(SUM_DTYPE) * one
        G_end = tl.minimum(C, T - m * C).to(SUM_DTYPE) * one
    else:
        G, G_end = tl.load(g + m * C + i), tl.load(g + m * C + C - 1)
    return G, G_end


@triton.jit
def load_decay_weights(weights, bh, m, M, G, G_end, DECAY: tl.constexpr, C: tl.constexpr):
    """Return exp(G_i) and exp(G_C - G_i), both [C] in float32, for decays per head or per token."""
    if DECAY == PER_HEAD:
        from_start, to_end = exp(G), exp(G_end - G)
    else:
        weights += (bh.to(tl.int64) * M + m) * 2 * C + tl.arange(0, C)
        from_start, to_end = tl.load(weights), tl.load(weights + C)
    return from_start, to_end


@kernel
def decay_sums_kernel(
    g,  # [B, T, H]
    sums,  # [B, H, M, C], written
    weights,  # [B, H, M, 2, C], written if WEIGHTS
    T, H, M, C: tl.constexpr, BLOCK_HEADS: tl.constexpr, SUM_DTYPE: tl.constexpr, WEIGHTS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Sum the log decays of one chunk of ``BLOCK_HEADS`` heads, and make the weights."""
    allow_next_kernel(PDL)
    m, b = tl.program_id(0) % M, (tl.program_id(0) // M).to(tl.int64)
    i, h = tl.arange(0, C)[:, None], tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)[None, :]
    t = m * C + i
    gs = tl.load(g + (b * T + t) * H + h, mask=(t < T) & (h < H), other=0.0)  # [C, BLOCK_HEADS]
    G = tl.cumsum(clamp_log_decay(gs).to(SUM_DTYPE), 0)
    chunk = (b * H + h) * M + m
    tl.store(sums + chunk * C + i, G, mask=h < H)
    if WEIGHTS:
        weights += chunk * 2 * C + i
        tl.store(weights, exp(G), mask=h < H)
        tl.store(weights + C, exp(get_last_row(G, C)[None, :] - G), mask=h < H)


def sum_decays(g: Tensor | None, q: Tensor, C: int, weights: bool = False) -> ChunkDecay:
    """Return the decays as kernels read them, for chunks of C tokens.

    Args:
        g: None, ``[H]`` or ``[B, T, H]`` in float32, contiguous.
        q: ``[B, T, H, K]``, whose dtype decides the dtype of the sums.
        C: tokens of a chunk.
        weights: whether to make the table of weights.
    """
    kind = classify_decay(g)
    if g is None or kind == PER_HEAD.value:
        return ChunkDecay(g, kind)
    B, T, H = g.shape
    M, sum_dtype = ceil_div(T, C), decay_sum_dtype(q)
    dtype = torch.float64 if tl.float64 == sum_dtype else torch.float32
    sums = g.new_empty(B, H, M, C, dtype=dtype)
    table = g.new_empty(B, H, M, 2, C) if weights else None
    heads = min(MAX_BLOCK_HEADS, round_up_to_power_of_2(H))
    decay_sums_kernel[(B * M, ceil_div(H, heads))](
        g, sums, table, T, H, M, C, heads, sum_dtype, weights, supports_pdl(q)
    )
    return ChunkDecay(sums, kind, table)
