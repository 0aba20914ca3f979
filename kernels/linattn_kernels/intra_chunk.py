"""Compute scores with a decay per channel: what a pair of tokens of a chunk is worth, without a state.

A_ij = sum_c q_ic k_jc exp(G_ic - G_jc) for j <= i is no product of matrices, since the weight depends on i, j
and the channel. Split in two, exp(G_i) exp(-G_j), it is one, but overflows under hard decays. What a kernel
may do is split at a token n between the two, exp(G_i - G_n) exp(G_n - G_j): both exponents are <= 0.

So halve the chunk. All pairs with j in the first half and i in the second share the border between the
halves as their n, and are one product. Each half is halved in its turn, down to pairs of neighbours:
log2(C) levels. At every level a token is either in a later half, as i, or in an earlier one, as j, so that
one tile holds both::

    X_i = q_i exp(G_i - G_n) in later halves,   X_j = k_j exp(G_n - G_j) in earlier ones,   A_ij = X_i . X_j

Most decays are not hard. A block of 2^L tokens that keeps at least exp(-MAX_EXPONENT) cannot overflow when
it is split at a place inside it, or at its end, so it needs no further halving: its pairs are one product.
Nearly all chunks are such blocks, and a first run of the kernel takes every chunk to be one. It marks those
that are not as hard, and a second run makes them again, with blocks as large as the decays allow, at worst
single tokens.

Source: the halving is derived here. Yang et al. 2023 (arXiv 2312.06635, section 4) split between sub-chunks
of 16 tokens and sum over the pairs inside them one by one.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import ChunkDecay
from linattn_kernels.dtypes import (
    decay_sum_dtype,
    dot_precision,
    max_split_exponent,
    operand_dtype,
    storage_dtype,
)
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, SegmentLayout
from linattn_kernels.launches import kernel
from linattn_kernels.tiles import (
    PER_CHANNEL,
    apply_causal_mask,
    clamp_log_decay,
    exp,
    get_head_pointer,
    get_last_row,
    load_tile,
    store_tile,
)

SCORES = LaunchConfigs(
    half_precision=LaunchConfig(32, 4, 1, max_registers=128), float32=LaunchConfig(32, 8, 1)
)
HARD_SCORES = LaunchConfigs(half_precision=LaunchConfig(32, 4, 1), float32=LaunchConfig(32, 8, 1))
SCORES_OF_KEYS = LaunchConfigs(
    half_precision=LaunchConfig(32, 4, 1, max_registers=168), float32=LaunchConfig(32, 8, 1)
)

# --- pairs of tokens, level by level ----------------------------------------------------------------------


@triton.jit
def is_in_later_half(level, C: tl.constexpr):
    """Return [C, 1]: whether a token is in a later half at this level, where halves are 2^level long."""
    return ((tl.arange(0, C) >> level) & 1 == 1)[:, None]


@triton.jit
def are_in_two_halves(level, C: tl.constexpr):
    """Return [C, C]: whether i and j are in the two halves of one block of this level, either way round."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return (i ^ j) >> level == 1


@triton.jit
def are_in_same_block(level, C: tl.constexpr):
    """Return [C, C]: whether i and j are in the same block of 2^level tokens."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return (i ^ j) >> level == 0


@triton.jit
def gather_rows(G, rows, C: tl.constexpr, BK: tl.constexpr):
    """Return [C, BK]: row ``rows[i]`` of G at every i."""
    return tl.gather(G, tl.broadcast_to(rows[:, None], [C, BK]), 0)


@triton.jit
def decay_to_border(G, level, C: tl.constexpr, BK: tl.constexpr):
    """Return [C, BK]: the decay between a token and the border of the two halves around it; at most 1."""
    i = tl.arange(0, C)
    last_of_earlier_half = (i >> (level + 1) << (level + 1)) + (1 << level) - 1
    return exp(-tl.abs(G - gather_rows(G, last_of_earlier_half, C, BK)))


@triton.jit
def log_decay_from_middle(G, level, C: tl.constexpr, BK: tl.constexpr):
    """Return [C, BK]: sums of log decays from the middle of a block of 2^level to a token; of either sign."""
    i = tl.arange(0, C)
    return (G - gather_rows(G, (i >> level << level) + (1 << level) // 2, C, BK)).to(tl.float32)


@triton.jit
def find_safe_level(gs, G_end, C: tl.constexpr, LEVELS: tl.constexpr, MAX_EXPONENT: tl.constexpr):
    """Return the highest level whose blocks surely keep at least exp(-MAX_EXPONENT), by two simple bounds."""
    hardest = tl.maximum(tl.max(tl.max(-gs, 1), 0), MAX_EXPONENT / C)
    level = tl.maximum(tl.floor(-tl.log2((hardest / MAX_EXPONENT).to(tl.float32))), 0.0).to(tl.int32)
    return tl.where(tl.max(-G_end, 0) <= MAX_EXPONENT, LEVELS, level)


# --- all scores of a chunk --------------------------------------------------------------------------------


@triton.jit
def compute_hard_scores(
    qs, ks, gs, G, G_end,  # [C, BK], and [BK]
    C: tl.constexpr, BK: tl.constexpr, LEVELS: tl.constexpr, OPERAND: tl.constexpr,
    MAX_EXPONENT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return [C, C], for j <= i: the part of A_ij of these channels, in blocks as large as decays allow."""
    safe_level = find_safe_level(gs, G_end, C, LEVELS, MAX_EXPONENT)
    from_middle = log_decay_from_middle(G, safe_level, C, BK)
    Xq, Xk = (qs * exp(from_middle)).to(OPERAND), (ks * exp(-from_middle)).to(OPERAND)
    same_block = are_in_same_block(safe_level, C)
    A = tl.where(same_block, tl.dot(Xq, tl.trans(Xk), input_precision=PRECISION), 0.0)
    for level in range(safe_level, LEVELS):
        X = tl.where(is_in_later_half(level, C), qs, ks)
        X = (X * decay_to_border(G, level, C, BK)).to(OPERAND)
        two_halves = are_in_two_halves(level, C)
        A += tl.where(two_halves, tl.dot(X, tl.trans(X), input_precision=PRECISION), 0.0)
    return A


@kernel
def scores_kernel(
    q, k, g,  # [B, T, H, K]
    scores,  # [B, T, H, C], written: row i is A_ij of its chunk, scaled
    key_scores,  # [B, T, H, C], written if OF_KEYS: the same with k_i in place of q_i, not scaled
    q_from_start,  # [B, T, H, K], written: scale q_i exp(G_i)
    k_from_start,  # [B, T, H, K], written if OF_KEYS: k_i exp(G_i)
    k_to_end,  # [B, T, H, K], written: k_j exp(G_C - G_j)
    chunk_decays,  # [B, M, H, K], written: G_C
    hard,  # [B H M], written if not HARD: whether a chunk decays too much to be one block
    scale, T, H, M,
    K: tl.constexpr, BK: tl.constexpr, C: tl.constexpr, LEVELS: tl.constexpr, OF_KEYS: tl.constexpr,
    HARD: tl.constexpr, OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, MAX_EXPONENT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute all that one chunk of one head needs no state for; if HARD, the scores of hard chunks again."""
    if HARD:  # noqa: SIM102 - the first is known to the compiler, the second is not
        if tl.load(hard + tl.program_id(0)) == 0:
            return
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    q, k = get_head_pointer(q, b, h, T, H, K), get_head_pointer(k, b, h, T, H, K)
    g = get_head_pointer(g, b, h, T, H, K)
    q_from_start = get_head_pointer(q_from_start, b, h, T, H, K)
    if OF_KEYS:
        k_from_start = get_head_pointer(k_from_start, b, h, T, H, K)
    k_to_end = get_head_pointer(k_to_end, b, h, T, H, K)
    chunk_decays = get_head_pointer(chunk_decays, b, h, M, H, K) + m.to(tl.int64) * H * K
    A, P = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    hardest = 0.0
    for channel in range(0, K, BK):
        qs = load_tile(q, m * C, T, H * K, channel, C, BK)  # [C, BK]
        ks = load_tile(k, m * C, T, H * K, channel, C, BK)  # [C, BK]
        gs = clamp_log_decay(load_tile(g, m * C, T, H * K, channel, C, BK)).to(SUM_DTYPE)  # [C, BK]
        G = tl.cumsum(gs, 0)  # [C, BK]
        G_end = get_last_row(G, C)  # [BK]
        if HARD:
            A += compute_hard_scores(qs, ks, gs, G, G_end, C, BK, LEVELS, OPERAND, MAX_EXPONENT, PRECISION)
            if OF_KEYS:
                P += compute_hard_scores(
                    ks, ks, gs, G, G_end, C, BK, LEVELS, OPERAND, MAX_EXPONENT, PRECISION
                )
        else:
            from_end = exp(tl.minimum(G - G_end[None, :], MAX_EXPONENT))
            from_start = exp(G)
            Xk = ks * exp(G_end[None, :] - G)
            store_tile(k_to_end, Xk, m * C, T, H * K, channel, C, BK)
            Xk = tl.trans(Xk.to(OPERAND))
            A += tl.dot((qs * from_end).to(OPERAND), Xk, input_precision=PRECISION)
            store_tile(q_from_start, scale * qs * from_start, m * C, T, H * K, channel, C, BK)
            if OF_KEYS:
                P += tl.dot((ks * from_end).to(OPERAND), Xk, input_precision=PRECISION)
                store_tile(k_from_start, ks * from_start, m * C, T, H * K, channel, C, BK)
            tl.store(chunk_decays + channel + tl.arange(0, BK), G_end.to(tl.float32))
            hardest = tl.maximum(hardest, tl.max(-G_end, 0).to(tl.float32))
    if not HARD:
        tl.store(hard + tl.program_id(0), (hardest > MAX_EXPONENT).to(tl.int8))
    A = apply_causal_mask(A, C) * scale
    store_tile(get_head_pointer(scores, b, h, T, H, C), A, m * C, T, H * C, 0, C, C)
    if OF_KEYS:
        P = apply_causal_mask(P, C)
        store_tile(get_head_pointer(key_scores, b, h, T, H, C), P, m * C, T, H * C, 0, C, C)


class IntraChunk(NamedTuple):
    """Hold what all chunks have computed without a state.

    Attributes:
        scores: ``[B, T, H, C]``; row i is scale A_ij of its chunk.
        key_scores: the same of keys among themselves, not scaled; None where nobody asked for it.
        q_from_start: ``[B, T, H, K]``, queries with the decay from the start of their chunk, scaled.
        k_from_start: ``[B, T, H, K]``, keys with that decay; None where nobody asked for it.
        k_to_end: ``[B, T, H, K]``, keys with the decay to the end of their chunk.
        decay: sums of log decays over whole chunks.
    """

    scores: Tensor
    key_scores: Tensor | None
    q_from_start: Tensor
    k_from_start: Tensor | None
    k_to_end: Tensor
    decay: ChunkDecay


def compute_intra_chunk(
    q: Tensor, k: Tensor, g: Tensor, scale: float, layout: SegmentLayout, of_keys: bool = False
) -> IntraChunk:
    """Return the scores, and the decayed queries and keys, of all chunks; if ``of_keys``, keys' scores, too.

    All inputs are contiguous.
    """
    B, T, H, K = q.shape
    C, M = layout.C, layout.M
    scores = q.new_empty(B, T, H, C, dtype=storage_dtype(q))
    key_scores = torch.empty_like(scores) if of_keys else None
    q_from_start, k_to_end = torch.empty_like(q), torch.empty_like(k)
    k_from_start = torch.empty_like(k) if of_keys else None
    chunk_decays = q.new_empty(B, M, H, K, dtype=torch.float32)
    hard = q.new_empty(M * B * H, dtype=torch.int8)
    first = SCORES_OF_KEYS if of_keys else SCORES
    for config, is_hard in ((first.choose(q, k), False), (HARD_SCORES.choose(q, k), True)):
        scores_kernel[(M * B * H,)](
            q, k, g, scores, key_scores, q_from_start, k_from_start, k_to_end, chunk_decays, hard,
            scale, T, H, M, K, min(K, config.block_columns), C, C.bit_length() - 1, of_keys, is_hard,
            operand_dtype(q), decay_sum_dtype(q), max_split_exponent(q), dot_precision(q),
            **config.triton_options,
        )  # fmt: skip
    decay = ChunkDecay(chunk_decays, PER_CHANNEL.value)
    return IntraChunk(scores, key_scores, q_from_start, k_from_start, k_to_end, decay)
