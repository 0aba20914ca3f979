"""States: the recurrence of the chunk form, one chunk a step, forwards or backwards in time.

Over the chunks of C tokens, with G_i the sum of log decays in a chunk up to token i, and G_C over all of it::

    S_{m+1} = exp(G_C) S_m + sum_i exp(G_C - G_i) k_i^T v_i           states, in the direction of time
    D_m = exp(G_C) D_{m+1} + scale sum_i exp(G_i) q_i^T do_i          their gradients, against it

A chunk reads the state before it, S_m, and is told by the gradient of the state after it, D_{m+1}: what is
kept of either walk is what a chunk begins with. One kernel makes both: x is k or q, y is v or do, and the
weights count from the chunk's end or its start.

A single sequence has few heads and many chunks, too few programs for a GPU. So the chunks are cut into N
segments that run side by side. That takes a walk before: what each segment alone ends with, from an empty
state. A program then makes the state that its segment begins with by the same recurrence, a segment a step.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import Decay, decays_of_head, sums_of_decays
from linattn_kernels.door import decay_dtype, overlaps, precision, wide_dtype
from linattn_kernels.launches import Cut, Launch, Launches, cut
from linattn_kernels.tiles import (
    CHANNEL,
    NONE,
    described,
    exp,
    first_state,
    head_of,
    next_may_begin,
    square,
)

WALK = Launches(
    half=Launch(128, 8, 3),
    full=Launch(32, 4, 1, resident=4),
    small=Launch(64, 4, 3, resident=3),
    lean=Launch(64, 4, 2, resident=4),
)


def states_cut(x: Tensor, y: Tensor, C: int) -> Cut:
    """Chunks and segments for walks that keep their states: a program has a block of them."""
    (B, T, H, K), V = x.shape, y.shape[-1]
    launch = WALK.of(x, y)
    blocks = (K // min(K, launch.columns)) * (V // min(V, launch.columns))
    return cut(T, C, B * H * blocks, launch, x)


class Segments(NamedTuple):
    """What each segment alone does to a state: forgets ``[B, H, N, 1 or K]``, then adds ``[B, H, N, K, V]``.

    Nothing is there of the last one, in the direction of the walk: no other begins with its end.
    """

    ends: Tensor
    spans: Tensor


# --- the kernels ------------------------------------------------------------------------------------------


@triton.jit
def state_before(
    start,  # [B H, K, V], or nothing for an empty state
    ends,  # [B H, N, K, V]
    spans,  # [B H, N, K] or [B H, N, 1]
    bh, segment, N, row, column,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    KIND: tl.constexpr, BACKWARD: tl.constexpr, HAS_START: tl.constexpr,
):  # fmt: skip
    """[BK, BV]: a block of the state that a segment begins with: the recurrence, with a segment a step."""
    S = first_state(start, bh, row, column, K, V, BK, BV, HAS_START)
    for n in range(N - 1 - segment if BACKWARD else segment):
        at = bh.to(tl.int64) * N + (N - 1 - n if BACKWARD else n)
        if KIND == CHANNEL:
            S *= exp(tl.load(spans + at * K + row + tl.arange(0, BK)))[:, None]
        elif KIND != NONE:
            S *= exp(tl.load(spans + at))
        S += tl.load(ends + at * K * V + square(row, column, V, BK, BV))
    return S


@triton.jit
def walk_kernel(
    x,  # described [B, T, H, K]
    y,  # described [B, T, H, V]
    g,  # as in ``Decay``
    start,  # [B H, K, V], or nothing for an empty state
    states,  # [B H, M, K, V], written if STORE: what each chunk starts with, in the direction of the walk
    end,  # [B H, K, V], written if STORE
    ends,  # [B H, N, K, V]: of each segment alone; written if not STORE
    spans,  # [B H, N, K] or [B H, N, 1]: log decay over each segment; written if not STORE
    factor,  # of every write
    T, H, M, N, PER,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    KIND: tl.constexpr,
    BACKWARD: tl.constexpr,  # against time
    HAS_START: tl.constexpr,
    STORE: tl.constexpr,  # all states of all segments; else only what each segment alone ends with
    SUMS: tl.constexpr, PRECISION: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """A block [BK, BV] of the states of one head, through one segment."""
    next_may_begin(EARLY)
    bh, segment = tl.program_id(0), tl.program_id(1)
    row, column = tl.program_id(2) // (V // BV) * BK, tl.program_id(2) % (V // BV) * BV
    b, h = bh // H, bh % H
    last_segment = 0 if BACKWARD else N - 1
    if not STORE and segment == last_segment:
        return  # nobody starts with what it ends with
    if KIND == CHANNEL:
        g = head_of(g, b, h, M, H, K) + row + tl.arange(0, BK)
        span = tl.zeros([BK], tl.float32)
    elif KIND != NONE:
        g = decays_of_head(g, bh, h, M, KIND, C)
        span = tl.zeros([1], tl.float32)
    block = square(row, column, V, BK, BV)
    if STORE:
        S = state_before(
            start, ends, spans, bh, segment, N, row, column, K, V, BK, BV, KIND, BACKWARD, HAS_START
        )
    else:
        S = tl.zeros([BK, BV], tl.float32)
    states += bh.to(tl.int64) * M * K * V
    begin, past_end = segment * PER, min(segment * PER + PER, M)
    for n in range(begin, past_end):
        m = begin + past_end - 1 - n if BACKWARD else n
        if STORE:
            tl.store(states + tl.cast(m, tl.int64) * K * V + block, S.to(states.dtype.element_ty))
        xs = tl.trans(x.load([b, m * C, h * K + row]).reshape(C, BK))  # [BK, C]
        ys = y.load([b, m * C, h * V + column]).reshape(C, BV)
        if KIND == CHANNEL:
            whole = tl.load(g + tl.cast(m, tl.int64) * H * K)  # [BK]
            S *= exp(whole)[:, None]
            span += whole
        elif KIND != NONE:
            G, whole = sums_of_decays(g, m, T, KIND, C, SUMS)  # [C], []
            xs = (xs * exp(G if BACKWARD else whole - G)[None, :]).to(xs.dtype)
            S *= exp(whole)
            span += whole.to(tl.float32)
        S += factor * tl.dot(xs, ys, input_precision=PRECISION)
    if STORE:
        if segment == last_segment:
            tl.store(end + bh.to(tl.int64) * K * V + block, S)
    else:
        at = bh.to(tl.int64) * N + segment
        tl.store(ends + at * K * V + block, S)
        if KIND == CHANNEL:
            tl.store(spans + at * K + row + tl.arange(0, BK), span)
        elif KIND != NONE:
            tl.store(spans + at + tl.arange(0, 1), span)


# --- their launchers --------------------------------------------------------------------------------------


def segments_alone(
    x: Tensor, y: Tensor, decay: Decay, c: Cut, factor: float = 1, backward: bool = False
) -> Segments:
    """Of x ``[B, T, H, K]`` and y ``[B, T, H, V]``; empty if there is one segment, which needs no other."""
    B, _, H, K = x.shape
    N = c.N if c.N > 1 else 0
    ends = x.new_empty(B, H, N, K, y.shape[-1], dtype=torch.float32)
    spans = x.new_empty(B, H, N, K if decay.kind == CHANNEL.value else 1, dtype=torch.float32)
    segments = Segments(ends, spans)
    if N:
        _walk(x, y, decay, None, ends, ends, segments, c, factor, backward, store=False)
    return segments


def states_of_chunks(
    x: Tensor,
    y: Tensor,
    decay: Decay,
    start: Tensor | None,
    c: Cut,
    factor: float = 1,  # the integer is known when the kernel is compiled, and costs nothing there
    backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """``[B, H, M, K, V]``, the state that each chunk begins with, and ``[B, H, K, V]``, the last one's end.

    Args:
        x, y: ``[B, T, H, K]`` and ``[B, T, H, V]``, what is written; contiguous.
        start: ``[B, H, K, V]`` in float32, or None.
        backward: against time: a chunk then begins at its last token.
    """
    B, _, H, K = x.shape
    V = y.shape[-1]
    segments = segments_alone(x, y, decay, c, factor, backward)
    states = x.new_empty(B, H, c.M, K, V, dtype=wide_dtype(x))
    end = x.new_empty(B, H, K, V, dtype=torch.float32)
    _walk(x, y, decay, start, states, end, segments, c, factor, backward, store=True)
    return states, end


def _walk(
    x: Tensor,
    y: Tensor,
    decay: Decay,
    start: Tensor | None,
    states: Tensor,
    end: Tensor,
    segments: Segments,
    c: Cut,
    factor: float,
    backward: bool,
    store: bool,
) -> None:
    B, T, H, K = x.shape
    V = y.shape[-1]
    launch = WALK.of(x, y)
    BK, BV = min(K, launch.columns), min(V, launch.columns)
    walk_kernel[(B * H, c.N, (K // BK) * (V // BV))](
        described(x, c.C, BK), described(y, c.C, BV), decay.g, start, states, end, *segments, factor,
        T, H, c.M, c.N, c.per, K, V, BK, BV, c.C, decay.kind, backward, start is not None, store,
        decay_dtype(x), precision(x), overlaps(x), **launch.options,
    )  # fmt: skip
