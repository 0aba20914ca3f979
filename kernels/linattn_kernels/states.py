"""Compute the states between chunks: the recurrence of the chunk form, one chunk a step, in either direction.

Over the chunks of C tokens, with G_i the sum of log decays in a chunk up to token i, and G_C over all of it::

    S_{m+1} = exp(G_C) S_m + sum_i exp(G_C - G_i) k_i^T v_i           states, in the direction of time
    D_m = exp(G_C) D_{m+1} + scale sum_i exp(G_i) q_i^T do_i          their gradients, against it

A chunk reads the state before it, S_m, and is told by the gradient of the state after it, D_{m+1}: what is
kept of either scan is what a chunk begins with. One kernel makes both: x is k or q, y is v or do, and the
weights count from the chunk's end or its start.

A single sequence has few heads and many chunks, too few programs for a GPU. So the chunks are cut into N
segments that run side by side. That takes a scan before: what each segment alone ends with, from an empty
state. A program then makes the state that its segment begins with by the same recurrence, a segment a step.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import ChunkDecay, get_head_decays, load_decay_sums
from linattn_kernels.dtypes import decay_sum_dtype, dot_precision, storage_dtype
from linattn_kernels.hardware import supports_pdl
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, SegmentLayout, choose_segments
from linattn_kernels.launches import kernel
from linattn_kernels.packed import enters_sequence, find_sequence
from linattn_kernels.tiles import (
    NO_DECAY,
    PER_CHANNEL,
    allow_next_kernel,
    exp,
    get_head_pointer,
    get_state_offsets,
    load_initial_state,
    make_descriptor,
)

SCAN = LaunchConfigs(
    half_precision=LaunchConfig(128, 8, 3),
    float32=LaunchConfig(32, 4, 1, programs_per_multiprocessor=4),
    small_heads=LaunchConfig(64, 4, 3, programs_per_multiprocessor=3),
    small_memory=LaunchConfig(64, 4, 2, programs_per_multiprocessor=4),
)


def choose_scan_segments(x: Tensor, y: Tensor, C: int, sequences: Tensor | None) -> SegmentLayout:
    """Return chunks and segments for a scan that keeps all states, where a program has one block of them."""
    (B, T, H, K), V = x.shape, y.shape[-1]
    config = SCAN.choose(x, y)
    blocks = (K // min(K, config.block_columns)) * (V // min(V, config.block_columns))
    return choose_segments(T, C, B * H * blocks, config, x, sequences)


class SegmentSummaries(NamedTuple):
    """Hold what each segment alone does to a state: it decays, then a state is added.

    The last segment, in the direction of the scan, has no summary: no other begins with its end.

    Attributes:
        states: ``[B, H, N, K, V]``, what is added.
        log_decays: ``[B, H, N, 1 or K]``, sums over the segment.
    """

    states: Tensor
    log_decays: Tensor


# --- the kernels ------------------------------------------------------------------------------------------


@triton.jit
def load_state_before_segment(
    initial_state,  # [B H, K, V], or nothing for an empty state
    segment_states,  # [B H, N, K, V]
    segment_decays,  # [B H, N, K] or [B H, N, 1]
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    bh, segment, M, N, chunks_per_segment, row, column,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, REVERSE: tl.constexpr, HAS_INITIAL_STATE: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Return [BK, BV]: a block of the state that a segment begins with: the recurrence, a segment a step.

    If PACKED, a walk enters a sequence with the first chunk of all, and takes the initial state there.
    """
    S = load_initial_state(initial_state, bh, row, column, K, V, BK, BV, HAS_INITIAL_STATE and not PACKED)
    for n in range(N - 1 - segment if REVERSE else segment):
        other = N - 1 - n if REVERSE else n
        at = bh.to(tl.int64) * N + other
        if PACKED:
            S = tl.where(enters_sequence(sequences, other, chunks_per_segment, M, C, REVERSE), 0.0, S)
        if DECAY == PER_CHANNEL:
            S *= exp(tl.load(segment_decays + at * K + row + tl.arange(0, BK)))[:, None]
        elif DECAY != NO_DECAY:
            S *= exp(tl.load(segment_decays + at))
        S += tl.load(segment_states + at * K * V + get_state_offsets(row, column, V, BK, BV))
    return S


@kernel
def state_scan_kernel(
    x,  # descriptor of [B, T, H, K]
    y,  # descriptor of [B, T, H, V]
    g,  # as in ``ChunkDecay``
    initial_state,  # [B H, K, V], or nothing for an empty state; if PACKED of each sequence, [n H, K, V]
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    states,  # [B H, M, K, V], written if STORE_STATES: what each chunk starts with, in the scan's direction
    final_state,  # [B H, K, V] or [n H, K, V], written if STORE_STATES
    segment_states,  # [B H, N, K, V]: of each segment alone; written if not STORE_STATES
    segment_decays,  # [B H, N, K] or [B H, N, 1]: log decay over each segment; written if not STORE_STATES
    factor,  # of every write
    T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr,
    REVERSE: tl.constexpr,  # against time
    HAS_INITIAL_STATE: tl.constexpr,
    STORE_STATES: tl.constexpr,  # all states of all segments; else only what each segment alone ends with
    PACKED: tl.constexpr,
    SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute a block [BK, BV] of the states of one head, through one segment."""
    allow_next_kernel(PDL)
    bh, segment = tl.program_id(0), tl.program_id(1)
    row, column = tl.program_id(2) // (V // BV) * BK, tl.program_id(2) % (V // BV) * BV
    b, h = bh // H, bh % H
    last_segment = 0 if REVERSE else N - 1
    if not STORE_STATES and segment == last_segment:
        return  # no segment starts with what it ends with
    if DECAY == PER_CHANNEL:
        g = get_head_pointer(g, b, h, M, H, K) + row + tl.arange(0, BK)
        segment_decay = tl.zeros([BK], tl.float32)
    elif DECAY != NO_DECAY:
        g = get_head_decays(g, bh, h, M, DECAY, C)
        segment_decay = tl.zeros([1], tl.float32)
    block = get_state_offsets(row, column, V, BK, BV)
    if STORE_STATES:
        S = load_state_before_segment(
            initial_state, segment_states, segment_decays, sequences, bh, segment, M, N, chunks_per_segment,
            row, column, K, V, BK, BV, C, DECAY, REVERSE, HAS_INITIAL_STATE, PACKED,
        )  # fmt: skip
    else:
        S = tl.zeros([BK, BV], tl.float32)
    states += bh.to(tl.int64) * M * K * V
    begin, end = segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)
    for n in range(begin, end):
        m = begin + end - 1 - n if REVERSE else n
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, REVERSE)
            if enters:
                S = load_initial_state(initial_state, sequence * H + h, row, column, K, V, BK, BV, True)
        if STORE_STATES:
            tl.store(states + tl.cast(m, tl.int64) * K * V + block, S.to(states.dtype.element_ty))
        xs = tl.trans(x.load([b, m * C, h * K + row]).reshape(C, BK))  # [BK, C]
        ys = y.load([b, m * C, h * V + column]).reshape(C, BV)
        if DECAY == PER_CHANNEL:
            G_end = tl.load(g + tl.cast(m, tl.int64) * H * K)  # [BK]
            S *= exp(G_end)[:, None]
            segment_decay += G_end
        elif DECAY != NO_DECAY:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            xs = (xs * exp(G if REVERSE else G_end - G)[None, :]).to(xs.dtype)
            S *= exp(G_end)
            segment_decay += G_end.to(tl.float32)
        S += factor * tl.dot(xs, ys, input_precision=PRECISION)
        if PACKED and STORE_STATES:
            tl.store(final_state + (sequence * H + h).to(tl.int64) * K * V + block, S, mask=leaves)
    if STORE_STATES:
        if segment == last_segment and not PACKED:
            tl.store(final_state + bh.to(tl.int64) * K * V + block, S)
    else:
        at = bh.to(tl.int64) * N + segment
        tl.store(segment_states + at * K * V + block, S)
        if DECAY == PER_CHANNEL:
            tl.store(segment_decays + at * K + row + tl.arange(0, BK), segment_decay)
        elif DECAY != NO_DECAY:
            tl.store(segment_decays + at + tl.arange(0, 1), segment_decay)


# --- their launchers --------------------------------------------------------------------------------------


def make_final_state(q: Tensor, v: Tensor, initial_state: Tensor | None, layout: SegmentLayout) -> Tensor:
    """Return room for the final state ``[B, H, K, V]``, of packed sequences ``[n, H, K, V]``.

    It then begins as the initial state, which a sequence without tokens keeps.
    """
    if layout.sequences is not None and initial_state is not None:
        return initial_state.clone()
    B, _, H, K = q.shape
    return q.new_empty(B, H, K, v.shape[-1], dtype=torch.float32)


@functools.cache
def make_nothing(device: torch.device) -> Tensor:
    """Return a tensor without numbers, for pointers that nothing follows; a new one takes the host 4 us."""
    return torch.empty(0, device=device)


def summarize_segments(
    x: Tensor,
    y: Tensor,
    decay: ChunkDecay,
    initial_state: Tensor | None,
    layout: SegmentLayout,
    factor: float = 1,
    reverse: bool = False,
) -> SegmentSummaries:
    """Return what each segment of x and y alone does to a state; empty if there is one segment only.

    Args:
        x, y, decay, initial_state, layout, factor, reverse: as for ``compute_chunk_states``; of an initial
            state only those that packed sequences begin with matter.
    """
    B, _, H, K = x.shape
    N = layout.N
    if N == 1:
        nothing = make_nothing(x.device)
        return SegmentSummaries(nothing, nothing)
    states = x.new_empty(B, H, N, K, y.shape[-1], dtype=torch.float32)
    log_decays = x.new_empty(B, H, N, K if decay.kind == PER_CHANNEL.value else 1, dtype=torch.float32)
    summaries = SegmentSummaries(states, log_decays)
    given = initial_state if layout.sequences is not None else None
    _launch_state_scan(x, y, decay, given, states, states, summaries, layout, factor, reverse, store=False)
    return summaries


def compute_chunk_states(
    x: Tensor,
    y: Tensor,
    decay: ChunkDecay,
    initial_state: Tensor | None,
    layout: SegmentLayout,
    factor: float = 1,  # Triton compiles the integer 1 in, so that it costs nothing
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return ``[B, H, M, K, V]``, the state that each chunk begins with, and ``[B, H, K, V]``, the final one.

    Args:
        x: ``[B, T, H, K]``, k or q; contiguous.
        y: ``[B, T, H, V]``, v or do; contiguous.
        decay: log decays for chunks of ``layout.C`` tokens.
        initial_state: ``[B, H, K, V]`` in float32, or None for zeros; must be given for packed sequences.
        layout: chunks and segments.
        factor: of everything that is written into a state.
        reverse: whether to go against time: a chunk then begins at its last token.
    """
    B, _, H, K = x.shape
    V = y.shape[-1]
    summaries = summarize_segments(x, y, decay, initial_state, layout, factor, reverse)
    states = x.new_empty(B, H, layout.M, K, V, dtype=storage_dtype(x))
    final_state = make_final_state(x, y, initial_state, layout)
    _launch_state_scan(
        x, y, decay, initial_state, states, final_state, summaries, layout, factor, reverse, store=True
    )
    return states, final_state


def _launch_state_scan(
    x: Tensor,
    y: Tensor,
    decay: ChunkDecay,
    initial_state: Tensor | None,
    states: Tensor,
    final_state: Tensor,
    summaries: SegmentSummaries,
    layout: SegmentLayout,
    factor: float,
    reverse: bool,
    store: bool,
) -> None:
    """Launch the scan: with ``store`` it writes states and final state, else the summaries."""
    B, T, H, K = x.shape
    V, C, M, N = y.shape[-1], layout.C, layout.M, layout.N
    config = SCAN.choose(x, y)
    BK, BV = min(K, config.block_columns), min(V, config.block_columns)
    state_scan_kernel[(B * H, N, (K // BK) * (V // BV))](
        make_descriptor(x, C, BK), make_descriptor(y, C, BV), decay.g, initial_state, layout.sequences,
        states, final_state, *summaries, factor, T, H, M, N, layout.chunks_per_segment, K, V, BK, BV, C,
        decay.kind, reverse, initial_state is not None, store, layout.sequences is not None,
        decay_sum_dtype(x), dot_precision(x), supports_pdl(x), **config.triton_options,
    )  # fmt: skip
