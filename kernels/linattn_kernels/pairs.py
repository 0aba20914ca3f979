"""Scores of a chunk with a decay per channel: what a pair of tokens is worth, without a state.

A_ij = sum_c q_ic k_jc exp(G_ic - G_jc) for j <= i is no product of matrices, since the weight depends on i, j
and the channel. Split in two, exp(G_i) exp(-G_j), it is one, but overflows under hard decays. What a kernel
may do is split at a token n between the two, exp(G_i - G_n) exp(G_n - G_j): both exponents are <= 0.

So halve the chunk. All pairs with j in the first half and i in the second share the border between the halves
as their n, and are one product. Each half is halved in its turn, down to pairs of neighbours: log2(C) levels.
At every level a token is either in an odd half, as i, or in an even one, as j, so that one tile holds both::

    X_i = q_i exp(G_i - G_n) in odd halves,   X_j = k_j exp(G_n - G_j) in even ones,   A_ij = X_i . X_j

Most decays are not hard. A block of 2^L tokens that keeps at least exp(-MILD) cannot overflow when it
is split at a place inside it, or at its end, so it needs no further halving: its pairs are one product.
Nearly all chunks are such blocks, and a first run of the kernel takes every chunk to be one. It marks those
that are not, and a second run makes them again, with blocks as large as the decays allow, at worst single
tokens.

Source: the halving is derived here. Yang et al. 2023 (arXiv 2312.06635, section 4) split between sub-chunks
of 16 tokens and sum over the pairs inside them one by one.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import Decay
from linattn_kernels.door import decay_dtype, mildness, precision, state_dtype, wide_dtype
from linattn_kernels.launches import Cut, Launch, Launches
from linattn_kernels.tiles import CHANNEL, bounded, causal, exp, head_of, last_row, load_tile, store_tile

SCORES = Launches(half=Launch(32, 4, 1, registers=128), full=Launch(32, 8, 1))
HARD_SCORES = Launches(half=Launch(32, 4, 1), full=Launch(32, 8, 1))

# --- pairs of tokens, level by level ----------------------------------------------------------------------


@triton.jit
def is_odd(level, C: tl.constexpr):
    """[C, 1]: whether a token is in an odd half (later tokens) at this level; halves are 2^level long."""
    return ((tl.arange(0, C) >> level) & 1 == 1)[:, None]


@triton.jit
def apart(level, C: tl.constexpr):
    """[C, C]: whether i and j are in the two halves of one block of this level, either way round."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return (i ^ j) >> level == 1


@triton.jit
def together(level, C: tl.constexpr):
    """[C, C]: whether i and j are in one block of 2^level tokens."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return (i ^ j) >> level == 0


@triton.jit
def row_of(G, rows, C: tl.constexpr, BK: tl.constexpr):
    """[C, BK]: row ``rows[i]`` of G at every i."""
    return tl.gather(G, tl.broadcast_to(rows[:, None], [C, BK]), 0)


@triton.jit
def to_middle(G, level, C: tl.constexpr, BK: tl.constexpr):
    """[C, BK]: exp of the sum of log decays between a token and the border of its two halves; at most 1."""
    i = tl.arange(0, C)
    last_even = (i >> (level + 1) << (level + 1)) + (1 << level) - 1
    return exp(-tl.abs(G - row_of(G, last_even, C, BK)))


@triton.jit
def from_inside(G, level, C: tl.constexpr, BK: tl.constexpr):
    """[C, BK]: sum of log decays from the middle of the block of 2^level tokens to a token; of any sign."""
    i = tl.arange(0, C)
    return (G - row_of(G, (i >> level << level) + (1 << level) // 2, C, BK)).to(tl.float32)


@triton.jit
def mild_level(gs, G_end, C: tl.constexpr, LEVELS: tl.constexpr, MILD: tl.constexpr):
    """The highest level whose blocks keep at least exp(-MILD), as far as two simple bounds can tell."""
    steepest = tl.maximum(tl.max(tl.max(-gs, 1), 0), MILD / C)
    level = tl.maximum(tl.floor(-tl.log2((steepest / MILD).to(tl.float32))), 0.0).to(tl.int32)
    return tl.where(tl.max(-G_end, 0) <= MILD, LEVELS, level)


# --- all scores of a chunk --------------------------------------------------------------------------------


@triton.jit
def scores_kernel(
    q, k, g,  # [B, T, H, K]
    scores,  # [B, T, H, C], written: row i is A_ij of its chunk, scaled
    from_past,  # [B, T, H, K], written: scale q_i exp(G_i)
    to_future,  # [B, T, H, K], written: k_j exp(G_C - G_j)
    whole,  # [B, M, H, K], written: G_C
    hard,  # [B H M], written if not HARD: whether a chunk forgets too much to be one block
    scale, T, H, M,
    K: tl.constexpr, BK: tl.constexpr, C: tl.constexpr, LEVELS: tl.constexpr, HARD: tl.constexpr,
    STATE: tl.constexpr, SUMS: tl.constexpr, MILD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """All of one chunk of one head that needs no state; HARD makes but scores again, those of hard chunks."""
    if HARD:  # noqa: SIM102 - the first is known to the compiler, the second is not
        if tl.load(hard + tl.program_id(0)) == 0:
            return
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    q, k, g = head_of(q, b, h, T, H, K), head_of(k, b, h, T, H, K), head_of(g, b, h, T, H, K)
    from_past, to_future = head_of(from_past, b, h, T, H, K), head_of(to_future, b, h, T, H, K)
    whole = head_of(whole, b, h, M, H, K) + m.to(tl.int64) * H * K
    A = tl.zeros([C, C], tl.float32)
    steepest = 0.0
    for channel in range(0, K, BK):
        qs = load_tile(q, m * C, T, H * K, channel, C, BK)  # [C, BK]
        ks = load_tile(k, m * C, T, H * K, channel, C, BK)  # [C, BK]
        gs = bounded(load_tile(g, m * C, T, H * K, channel, C, BK)).to(SUMS)  # [C, BK]
        G = tl.cumsum(gs, 0)  # [C, BK]
        end = last_row(G, C)  # [BK]
        if HARD:
            mild = mild_level(gs, end, C, LEVELS, MILD)
            inside = from_inside(G, mild, C, BK)
            Xq, Xk = (qs * exp(inside)).to(STATE), (ks * exp(-inside)).to(STATE)
            A += tl.where(together(mild, C), tl.dot(Xq, tl.trans(Xk), input_precision=PRECISION), 0.0)
            for level in range(mild, LEVELS):
                X = (tl.where(is_odd(level, C), qs, ks) * to_middle(G, level, C, BK)).to(STATE)
                A += tl.where(apart(level, C), tl.dot(X, tl.trans(X), input_precision=PRECISION), 0.0)
        else:
            Xq = (qs * exp(tl.minimum(G - end[None, :], MILD))).to(STATE)
            Xk = ks * exp(end[None, :] - G)
            A += tl.dot(Xq, tl.trans(Xk.to(STATE)), input_precision=PRECISION)
            store_tile(from_past, scale * qs * exp(G), m * C, T, H * K, channel, C, BK)
            store_tile(to_future, Xk, m * C, T, H * K, channel, C, BK)
            tl.store(whole + channel + tl.arange(0, BK), end.to(tl.float32))
            steepest = tl.maximum(steepest, tl.max(-end, 0).to(tl.float32))
    if not HARD:
        tl.store(hard + tl.program_id(0), (steepest > MILD).to(tl.int8))
    A = causal(A, C) * scale
    store_tile(head_of(scores, b, h, T, H, C), A, m * C, T, H * C, 0, C, C)


class Weighted(NamedTuple):
    """What ``scores_kernel`` makes."""

    scores: Tensor
    from_past: Tensor
    to_future: Tensor
    decay: Decay


def weighted(q: Tensor, k: Tensor, g: Tensor, scale: float, c: Cut) -> Weighted:
    """Scores and weighted queries and keys of all chunks."""
    B, T, H, K = q.shape
    scores = q.new_empty(B, T, H, c.C, dtype=wide_dtype(q))
    from_past, to_future = torch.empty_like(q), torch.empty_like(k)
    whole = q.new_empty(B, c.M, H, K, dtype=torch.float32)
    hard = q.new_empty(c.M * B * H, dtype=torch.int8)
    for launch, is_hard in ((SCORES.of(q, k), False), (HARD_SCORES.of(q, k), True)):
        scores_kernel[(c.M * B * H,)](
            q, k, g, scores, from_past, to_future, whole, hard, scale, T, H, c.M,
            K, min(K, launch.columns), c.C, c.C.bit_length() - 1, is_hard,
            state_dtype(q), decay_dtype(q), mildness(q), precision(q), **launch.options,
        )  # fmt: skip
    return Weighted(scores, from_past, to_future, Decay(whole, CHANNEL.value))
