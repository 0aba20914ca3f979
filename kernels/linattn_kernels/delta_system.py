"""Invert the triangular system of every chunk: what tokens of a chunk correct, before a state is known.

The delta rule writes k_i^T beta_i r_i, where r_i is the error of what the state recalls for k_i. Within a
chunk that starts with the state S, earlier tokens of the chunk have written too::

    r_i = x_i - sum_{j < i} L_ij r_j,   x_i = v_i - exp(G_i) k_i S,   L_ij = (k_i . k_j) exp(G_i - G_j) beta_j

so r = R x with R = (I + L)^-1, which needs keys, betas and decays alone: all chunks have theirs at once.

R is made in blocks: the series I - L + L^2 - ... of a whole chunk has terms of 10^17, which cancel. Blocks of
two on the diagonal are inverted at sight; then two neighbours at a time become one block, twice as large, for
which only the corner below the diagonal is new::

    (A 0)^-1   (  A^-1            0  )
    (B D)    = ( -D^-1 B A^-1   D^-1 )

Source: the system is that of Yang et al. 2024 (arXiv 2406.06484, section 3.2), written for the errors, so
that nothing is divided by beta.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import ChunkDecay, get_head_decays, load_decay_sums
from linattn_kernels.dtypes import decay_sum_dtype, dot_precision, inverse_precision, storage_dtype
from linattn_kernels.intra_chunk import are_in_two_halves
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, ceil_div
from linattn_kernels.launches import kernel
from linattn_kernels.tiles import (
    PER_CHANNEL,
    PER_HEAD,
    PER_TOKEN,
    exp,
    get_head_pointer,
    load_decay_sums_between,
    load_tile,
    store_tile,
)

INVERT = LaunchConfigs(half_precision=LaunchConfig(128, 4, 1), float32=LaunchConfig(32, 4, 1))


@triton.jit
def load_betas(beta, b, h, m, T, H, C: tl.constexpr):
    """Return beta [C] of chunk m in float32; zeros beyond T, which write nothing."""
    t = m * C + tl.arange(0, C)
    return tl.load(beta + (b.to(tl.int64) * T + t) * H + h, mask=t < T, other=0.0).to(tl.float32)


@triton.jit
def merge_blocks(X, L, in_corner, PRECISION: tl.constexpr):
    """Return the inverses of blocks twice as large, from X, those of the blocks."""
    B = tl.where(in_corner, L, 0.0)
    return X - tl.dot(tl.dot(X, B, input_precision=PRECISION), X, input_precision=PRECISION)


@triton.jit
def invert_unit_lower(L, C: tl.constexpr, LEVELS: tl.constexpr, PRECISION: tl.constexpr):
    """Return (I + L)^-1 [C, C] for L [C, C] in float32, which is zero on and above the diagonal."""
    N: tl.constexpr = C // 16
    n, i = tl.arange(0, N), tl.arange(0, 16)
    on_diagonal = (n[:, None] == n[None, :])[:, None, :, None]  # [N, 1, N, 1]
    blocks = tl.sum(tl.where(on_diagonal, tl.reshape(L, [N, 16, N, 16]), 0.0), 2)  # [N, 16, 16]
    identity = (i[:, None] == i[None, :]).to(tl.float32)[None, :, :]
    X = identity - tl.where(are_in_two_halves(0, 16)[None, :, :], blocks, 0.0)  # blocks of two
    for level in tl.static_range(1, 4):  # blocks of 2^level become blocks of twice that
        X = merge_blocks(X, blocks, are_in_two_halves(level, 16)[None, :, :], PRECISION)
    X = tl.reshape(tl.where(on_diagonal, X[:, :, None, :], 0.0), [C, C])
    for level in tl.static_range(4, LEVELS):
        X = merge_blocks(X, L, are_in_two_halves(level, C), PRECISION)
    return X


@kernel
def invert_systems_kernel(
    k,  # [B, T, H, K]
    scores,  # [B, T, H, C], k_i . k_j with decays per channel; nothing with others
    beta,  # [B, T, H]
    g,  # as in ``ChunkDecay``
    inverses,  # [B, T, H, C], written: row i is that of its chunk
    T, H, M,
    K: tl.constexpr, BK: tl.constexpr, C: tl.constexpr, LEVELS: tl.constexpr,
    DECAY: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr, INVERSE_PRECISION: tl.constexpr,
):  # fmt: skip
    """Invert the system of one chunk of one head."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    if DECAY == PER_CHANNEL:
        L = load_tile(get_head_pointer(scores, b, h, T, H, C), m * C, T, H * C, 0, C, C).to(tl.float32)
    else:
        k = get_head_pointer(k, b, h, T, H, K)
        L = tl.zeros([C, C], tl.float32)
        for channel in range(0, K, BK):
            ks = load_tile(k, m * C, T, H * K, channel, C, BK)  # [C, BK]
            L += tl.dot(ks, tl.trans(ks), input_precision=PRECISION)
    if DECAY == PER_HEAD or DECAY == PER_TOKEN:  # noqa: SIM109 - Triton has no "in"
        G, _ = load_decay_sums(get_head_decays(g, bh, h, M, DECAY, C), m, T, DECAY, C, SUM_DTYPE)
        L *= exp(load_decay_sums_between(G, C))
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    L = tl.where(j < i, L * load_betas(beta, b, h, m, T, H, C)[None, :], 0.0)
    X = invert_unit_lower(L, C, LEVELS, INVERSE_PRECISION)
    store_tile(get_head_pointer(inverses, b, h, T, H, C), X, m * C, T, H * C, 0, C, C)


class ChunkSystems(NamedTuple):
    """Hold what walks through the chunks need of keys and betas.

    Attributes:
        k: ``[B, T, H, K]``; with decays per channel as it recalls, decayed from the start of its chunk.
        k_to_end: the same; with decays per channel as it writes, decayed to the end of its chunk.
        beta: ``[B, T, H]``.
        decay: log decays for chunks of C tokens, with weights.
        inverses: ``[B, T, H, C]``; row i is that of its chunk's R.
    """

    k: Tensor
    k_to_end: Tensor
    beta: Tensor
    decay: ChunkDecay
    inverses: Tensor


def invert_systems(
    k: Tensor,
    beta: Tensor,
    decay: ChunkDecay,
    C: int,
    k_to_end: Tensor | None = None,
    scores: Tensor | None = None,
) -> ChunkSystems:
    """Return the systems of all chunks of C tokens, 16, 32 or 64. All inputs are contiguous.

    With decays per channel ``k_to_end`` and ``scores``, k_i . k_j ``[B, T, H, C]``, have to be given.
    """
    B, T, H, K = k.shape
    M, config = ceil_div(T, C), INVERT.choose(k, k)
    inverses = k.new_empty(B, T, H, C, dtype=storage_dtype(k))
    invert_systems_kernel[(M * B * H,)](
        k, scores, beta, decay.g, inverses, T, H, M, K, min(K, config.block_columns), C, C.bit_length() - 1,
        decay.kind, decay_sum_dtype(k), dot_precision(k), inverse_precision(k), **config.triton_options,
    )  # fmt: skip
    return ChunkSystems(k, k if k_to_end is None else k_to_end, beta, decay, inverses)
