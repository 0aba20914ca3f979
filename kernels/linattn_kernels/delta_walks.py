"""Walk through the chunks of the delta rule with its state, or against time with the gradient of that.

With the inverse R of each chunk's system (``delta_system.py``), x the values less what the state recalls, r
the errors and u the corrections that are written::

    x_i = v_i - exp(G_i) k_i S,   r = R x,   u_i = beta_i r_i
    S <- exp(G_C) S + sum_i exp(G_C - G_i) k_i^T u_i

Against time, D is the gradient of the state after a chunk, do that of the output::

    du_j = scale sum_{i >= j} (q_i . k_j) exp(G_i - G_j) do_i + exp(G_C - G_j) k_j D
    dx_j = sum_i R_ij beta_i du_i                                  which is also the gradient of v_j
    D <- exp(G_C) D + sum_i exp(G_i) (scale q_i^T do_i - k_i^T dx_i)

Few sequences have too few heads for a GPU, so their chunks are cut into segments that are walked through side
by side, as in ``states.py``. But what a segment does to a state is no factor here, it is a matrix::

    S_end = P S + E

P and E come from a walk that begins with the identity in place of a state, and one that begins with nothing.
The gradient of S is P^T times that of S_end, and a part of its own: P serves both directions.

Where sequences are packed, a walk enters each with its own start state (``packed.py``), and what a segment
that enters one does to the state from before it is nothing, whatever P is.

The kernels keep S and D transposed, for the reason given in ``scalar_decay.py``.

Source: Yang et al. 2024 (arXiv 2406.06484, section 3) for the chunk form; the gradients and the segments are
derived here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import get_head_decays, load_decay_sums, load_decay_weights
from linattn_kernels.delta_system import ChunkSystems, load_betas
from linattn_kernels.dtypes import (
    decay_sum_dtype,
    dot_precision,
    map_precision,
    operand_dtype,
    storage_dtype,
)
from linattn_kernels.hardware import supports_tma_store
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, SegmentLayout, choose_segments
from linattn_kernels.launches import kernel
from linattn_kernels.packed import enters_sequence, find_sequence
from linattn_kernels.states import make_final_state
from linattn_kernels.tiles import (
    NO_DECAY,
    PER_CHANNEL,
    apply_causal_mask,
    exp,
    get_head_pointer,
    get_state_offsets,
    load_decay_sums_between,
    load_initial_state,
    make_descriptor,
    store_output_tile,
)

WALK = LaunchConfigs(
    half_precision=LaunchConfig(64, 4, 3, programs_per_multiprocessor=2),
    float32=LaunchConfig(16, 8, 1),
    small_memory=LaunchConfig(64, 4, 2),
)
GRADIENT_WALK = LaunchConfigs(
    half_precision=LaunchConfig(64, 4, 2),
    float32=LaunchConfig(16, 8, 1),
    small_memory=LaunchConfig(32, 4, 2),
)
JOIN_COLUMNS = 32


def choose_walk_segments(k: Tensor, v: Tensor, C: int, sequences: Tensor | None) -> SegmentLayout:
    """Return chunks and segments for walks in both directions through chunks of C tokens."""
    (B, T, H, _), V = k.shape, v.shape[-1]
    config = WALK.choose(k, v)
    return choose_segments(T, C, B * H * (V // min(V, config.block_columns)), config, k, sequences)


# --- the kernels ------------------------------------------------------------------------------------------


@triton.jit
def get_chunk_decays(g, b, h, M, H, K: tl.constexpr, C: tl.constexpr, DECAY: tl.constexpr):
    """Return the pointer to what a walk reads of the decays of a head; with decays per channel K of them."""
    if DECAY == PER_CHANNEL:
        g = get_head_pointer(g, b, h, M, H, K) + tl.arange(0, K)
    else:
        g = get_head_decays(g, b * H + h, h, M, DECAY, C)
    return g


@triton.jit
def load_transposed_state(states, n, column, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    """Return [BV, K]: columns of state n of states [., K, V], transposed; zeros for columns beyond V."""
    block = states + tl.cast(n, tl.int64) * K * V + get_state_offsets(0, column, V, K, BV)
    return tl.trans(tl.load(block, mask=column < V, other=0.0))


@kernel
def states_kernel(
    k, k_to_end,  # descriptors of [B, T, H, K], as in ``ChunkSystems``
    v,  # descriptor of [B, T, H, V]
    inverses,  # descriptor of [B, T, H, C]
    errors,  # [B, T, H, V], written if STORE: r; a descriptor if TMA_STORE
    beta,  # [B, T, H]
    g, weights,  # as in ``ChunkDecay``
    starts,  # [B H, N, K, V], the state before each segment, or nothing for an empty one
    sequences, initial_state,  # if PACKED, as in ``packed.py``, and [n H, K, V]
    states,  # [B H, M, K, V], written if STORE: S before each chunk
    maps, ends,  # [B H, N, K, K] and [B H, N, K, V], written if not STORE: P and E of each segment
    T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, HAS_STARTS: tl.constexpr, STORE: tl.constexpr, TMA_STORE: tl.constexpr,
    PACKED: tl.constexpr, OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Walk through one segment with BV columns of V of one head's state.

    STORE keeps the states before all chunks, and the errors; else what the segment does to a state is kept.
    Columns beyond V are those of its map: they begin with the identity and are given no values.
    """
    segment = tl.program_id(1)
    blocks: tl.constexpr = (V if STORE else V + K) // BV
    bh, column = tl.program_id(0) // blocks, tl.program_id(0) % blocks * BV
    b, h = bh // H, bh % H
    if not STORE and segment == N - 1 and column < V:
        return  # no segment begins with what it ends with; but its map leads back to the one before
    if DECAY != NO_DECAY:
        g = get_chunk_decays(g, b, h, M, H, K, C, DECAY)
    at = bh.to(tl.int64) * N + segment
    if STORE:
        block = states + bh.to(tl.int64) * M * K * V + get_state_offsets(0, column, V, K, BV)
        S = tl.trans(load_initial_state(starts, at, 0, column, K, V, K, BV, HAS_STARTS))  # [BV, K]
    else:
        S = ((column - V + tl.arange(0, BV))[:, None] == tl.arange(0, K)[None, :]).to(tl.float32)
    for m in range(segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)):
        if PACKED:
            sequence, enters, _ = find_sequence(sequences, m, M, C, False)
            if enters:
                S = load_transposed_state(initial_state, sequence * H + h, column, K, V, BV)
        if STORE:
            tl.store(block + tl.cast(m, tl.int64) * K * V, tl.trans(S).to(states.dtype.element_ty))
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = v.load([b, m * C, h * V + column]).reshape(C, BV)
        if not STORE:
            vs = tl.where(column < V, vs, 0.0).to(vs.dtype)
        vs = tl.trans(vs)  # [BV, C]
        R = inverses.load([b, m * C, h * C]).reshape(C, C)
        betas = load_betas(beta, b, h, m, T, H, C)  # [C]
        recalled = tl.dot(S.to(OPERAND), tl.trans(ks).to(OPERAND), input_precision=PRECISION)  # [BV, C]
        if DECAY == PER_CHANNEL:
            S *= exp(tl.load(g + tl.cast(m, tl.int64) * H * K))[None, :]
            ks = k_to_end.load([b, m * C, h * K]).reshape(C, K)
        elif DECAY != NO_DECAY:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
            recalled *= from_start[None, :]
            betas *= to_end
            S *= exp(G_end)
        rs = tl.dot((vs - recalled).to(R.dtype), tl.trans(R), input_precision=PRECISION)  # [BV, C]
        S += tl.dot((rs * betas[None, :]).to(OPERAND), ks.to(OPERAND), input_precision=PRECISION)
        if STORE:
            store_output_tile(errors, tl.trans(rs), b, m * C, h, T, H, V, column, C, BV, TMA_STORE)
    if not STORE:
        if column < V:
            tl.store(ends + at * K * V + get_state_offsets(0, column, V, K, BV), tl.trans(S))
        else:
            tl.store(maps + at * K * K + get_state_offsets(0, column - V, K, K, BV), tl.trans(S))


@kernel
def gradient_states_kernel(
    q, k, k_to_end,  # descriptors of [B, T, H, K]; with decays per channel q has that from the chunk's start
    scores,  # descriptor of [B, T, H, C], scale q_i . k_j with decays per channel; nothing with others
    do, errors,  # descriptors of [B, T, H, V]
    inverses,  # descriptor of [B, T, H, C]
    dv,  # [B, T, H, V], written if STORE: dx; a descriptor if TMA_STORE
    beta,  # [B, T, H]
    dbeta,  # [V / BV, B, T, H], written if STORE: du . r over BV columns
    g, weights,  # as in ``ChunkDecay``
    starts,  # [B H, N, K, V], D after each segment, or nothing for zeros
    sequences, dfinal,  # if PACKED, as in ``packed.py``, and D after each sequence, [n H, K, V]
    dstates,  # [B H, M, K, V], written if STORE: D after each chunk
    dinitial,  # [B H, K, V] or [n H, K, V], written if STORE
    ends,  # [B H, N, K, V], written if not STORE: D before each segment, if it is zero after it
    scale, B, T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, HAS_STARTS: tl.constexpr, STORE: tl.constexpr, TMA_STORE: tl.constexpr,
    PACKED: tl.constexpr, OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Walk through one segment against time with BV columns of one head's D, as ``states_kernel`` does."""
    segment = tl.program_id(1)
    if not STORE and segment == 0:
        return
    bh, column = tl.program_id(0) // (V // BV), tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    if DECAY != NO_DECAY:
        g = get_chunk_decays(g, b, h, M, H, K, C, DECAY)
    if STORE:
        dbeta += (tl.program_id(0) % (V // BV)).to(tl.int64) * B * T * H
    offsets = get_state_offsets(0, column, V, K, BV)
    if STORE:
        block = dstates + bh.to(tl.int64) * M * K * V + offsets
    at = bh.to(tl.int64) * N + segment
    D = tl.trans(load_initial_state(starts, at, 0, column, K, V, K, BV, HAS_STARTS))  # [BV, K]
    begin, end = segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)
    for n in range(begin, end):
        m = begin + end - 1 - n
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, True)
            if enters:
                D = load_transposed_state(dfinal, sequence * H + h, column, K, V, BV)
        if STORE:
            tl.store(block + tl.cast(m, tl.int64) * K * V, tl.trans(D).to(dstates.dtype.element_ty))
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        dos = tl.trans(do.load([b, m * C, h * V + column]).reshape(C, BV))  # [BV, C]
        R = inverses.load([b, m * C, h * C]).reshape(C, C)
        betas = load_betas(beta, b, h, m, T, H, C)  # [C]
        if DECAY == PER_CHANNEL:
            A = scores.load([b, m * C, h * C]).reshape(C, C)  # row i, column j
            k_ends = k_to_end.load([b, m * C, h * K]).reshape(C, K)
        else:
            A = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * scale
            k_ends = ks
        dus = tl.dot(D.to(OPERAND), tl.trans(k_ends).to(OPERAND), input_precision=PRECISION)  # [BV, C]
        if DECAY == PER_CHANNEL:
            D *= exp(tl.load(g + tl.cast(m, tl.int64) * H * K))[None, :]
        elif DECAY == NO_DECAY:
            A = apply_causal_mask(A, C)
        else:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
            A *= exp(load_decay_sums_between(G, C))
            dus *= to_end[None, :]
            D *= exp(G_end)
        dus += tl.dot(dos.to(OPERAND), A.to(OPERAND), input_precision=PRECISION)
        dxs = tl.dot((dus * betas[None, :]).to(R.dtype), R, input_precision=PRECISION)  # [BV, C]
        if STORE:
            rs = tl.trans(errors.load([b, m * C, h * V + column]).reshape(C, BV))  # [BV, C]
            t = m * C + tl.arange(0, C)
            tl.store(dbeta + (b.to(tl.int64) * T + t) * H + h, tl.sum(dus * rs, 0), mask=t < T)
            store_output_tile(dv, tl.trans(dxs), b, m * C, h, T, H, V, column, C, BV, TMA_STORE)
        if DECAY == NO_DECAY:
            dos = (dos * scale).to(qs.dtype)
        elif DECAY != PER_CHANNEL:
            dos = (dos * (scale * from_start)[None, :]).to(qs.dtype)
            dxs *= from_start[None, :]
        D += tl.dot(dos, qs, input_precision=PRECISION)
        D -= tl.dot(dxs.to(ks.dtype), ks, input_precision=PRECISION)
        if PACKED and STORE:
            tl.store(dinitial + (sequence * H + h).to(tl.int64) * K * V + offsets, tl.trans(D), mask=leaves)
    if not STORE:
        tl.store(ends + at * K * V + offsets, tl.trans(D))
    elif segment == 0 and not PACKED:
        tl.store(dinitial + bh.to(tl.int64) * K * V + offsets, tl.trans(D))


@kernel
def join_segments_kernel(
    maps,  # [B H, N, K, K]
    ends,  # [B H, N, K, V]
    first,  # [B H, K, V], what the first begins with, or nothing for zeros
    starts,  # [B H, N, K, V], written: what each segment begins with, in its direction
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr,
    HAS_FIRST: tl.constexpr, PACKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the state before each segment, a segment a step; REVERSE: the gradient after it."""
    bh, column = tl.program_id(0) // (V // BV), tl.program_id(0) % (V // BV) * BV
    S = load_initial_state(first, bh, 0, column, K, V, K, BV, HAS_FIRST)  # [K, BV]
    block, whole = get_state_offsets(0, column, V, K, BV), get_state_offsets(0, 0, K, K, K)
    for n in range(N):
        segment = N - 1 - n if REVERSE else n
        at = bh.to(tl.int64) * N + segment
        tl.store(starts + at * K * V + block, S)
        if n < N - 1:
            if PACKED:
                S = tl.where(enters_sequence(sequences, segment, chunks_per_segment, M, C, REVERSE), 0.0, S)
            P = tl.load(maps + at * K * K + (tl.trans(whole) if REVERSE else whole))
            S = tl.load(ends + at * K * V + block) + tl.dot(P, S, input_precision=PRECISION)


# --- their launchers --------------------------------------------------------------------------------------


def walk_states(
    systems: ChunkSystems,
    v: Tensor,
    starts: Tensor | None,
    initial_state: Tensor | None,
    layout: SegmentLayout,
) -> tuple[Tensor, Tensor]:
    """Return ``[B, H, M, K, V]``, the state before each chunk, and the errors, ``[B, T, H, V]``.

    Args:
        systems: keys, betas, decays and inverses.
        v: ``[B, T, H, V]``, contiguous.
        starts: ``[B, H, N, K, V]``, the state before each segment, or None for empty ones.
        initial_state: ``[n, H, K, V]`` where n sequences are packed; else it does not matter.
        layout: chunks and segments.
    """
    B, _, H, K = systems.k.shape
    states = v.new_empty(B, H, layout.M, K, v.shape[-1], dtype=storage_dtype(v))
    errors = torch.empty_like(v)
    _launch_walk(systems, v, starts, initial_state, states, errors, None, None, layout)
    return states, errors


def find_states_before_segments(
    systems: ChunkSystems, v: Tensor, initial_state: Tensor | None, layout: SegmentLayout
) -> tuple[Tensor | None, Tensor | None]:
    """Return the state before each segment, ``[B, H, N, K, V]`` or None, and the maps ``[B, H, N, K, K]``.

    With one segment that is the initial state, and there are no maps.
    """
    B, _, H, K = systems.k.shape
    packed = layout.sequences is not None  # then chunks take initial states
    if layout.N == 1:
        return None if packed else initial_state, None
    maps = v.new_empty(B, H, layout.N, K, K, dtype=torch.float32)
    ends = v.new_empty(B, H, layout.N, K, v.shape[-1], dtype=torch.float32)
    _launch_walk(systems, v, None, initial_state, None, None, maps, ends, layout)
    return _join_segments(maps, ends, None if packed else initial_state, v, layout), maps


def walk_gradients(
    systems: ChunkSystems,
    q: Tensor,
    do: Tensor,
    errors: Tensor,
    starts: Tensor | None,
    dstate: Tensor | None,
    scale: float,
    layout: SegmentLayout,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return D after each chunk, dv, dbeta in parts and the gradient of the initial state.

    Args:
        systems: keys, betas, decays and inverses.
        q, do: queries and the gradient of the output, contiguous.
        errors: ``[B, T, H, V]``, as ``walk_states`` returns them.
        starts: ``[B, H, N, K, V]``, D after each segment, or None for zeros.
        dstate: ``[n, H, K, V]``, D after each of n packed sequences; else it does not matter.
        scale: factor on the queries.
        layout: chunks and segments.
        scores: ``[B, T, H, C]``, scale q_i . k_j with decays per channel; None with others.

    Returns:
        ``[B, H, M, K, V]``; ``[B, T, H, V]``; ``[P, B, T, H]``, to be summed, whose last part is left to the
        caller; ``[B, H, K, V]``, or of packed sequences ``[n, H, K, V]``.
    """
    (B, T, H, K), V = q.shape, do.shape[-1]
    parts = V // min(V, GRADIENT_WALK.choose(q, do).block_columns) + 1
    dstates = q.new_empty(B, H, layout.M, K, V, dtype=storage_dtype(q))
    dv, dbeta = torch.empty_like(do), q.new_empty(parts, B, T, H, dtype=torch.float32)
    dinitial = make_final_state(q, do, dstate, layout)
    written = dv, dbeta, starts, dstate, dstates, dinitial, None
    _launch_gradient_walk(systems, q, scores, do, errors, *written, scale, layout)
    return dstates, dv, dbeta, dinitial


def find_gradients_after_segments(
    systems: ChunkSystems,
    q: Tensor,
    do: Tensor,
    dstate: Tensor | None,
    maps: Tensor | None,
    scale: float,
    layout: SegmentLayout,
    scores: Tensor | None = None,
) -> Tensor | None:
    """Return D after each segment, ``[B, H, N, K, V]`` or None, from that of the final state and the maps."""
    (B, _, H, K), V = q.shape, do.shape[-1]
    packed = layout.sequences is not None
    if maps is None:
        return None if packed else dstate
    ends = q.new_empty(B, H, layout.N, K, V, dtype=torch.float32)
    nothing = None, None, None, None  # errors, dv, dbeta, starts
    _launch_gradient_walk(systems, q, scores, do, *nothing, dstate, None, None, ends, scale, layout)
    return _join_segments(maps, ends, None if packed else dstate, q, layout, reverse=True)


def _launch_walk(
    systems: ChunkSystems,
    v: Tensor,
    starts: Tensor | None,
    initial_state: Tensor | None,
    states: Tensor | None,
    errors: Tensor | None,
    maps: Tensor | None,
    ends: Tensor | None,
    layout: SegmentLayout,
) -> None:
    """Launch the walk: it writes states and errors, or maps and ends if these are None."""
    k, k_to_end, beta, decay, inverses = systems
    (B, T, H, K), V, C, packed = k.shape, v.shape[-1], layout.C, layout.sequences is not None
    config, tma_store = WALK.choose(k, v), supports_tma_store(k)
    BV = min(V, config.block_columns) if errors is not None else min(K, V, config.block_columns)
    blocks = (V if errors is not None else V + K) // BV
    states_kernel[(B * H * blocks, layout.N)](
        *(make_descriptor(x, C, W) for x, W in ((k, K), (k_to_end, K), (v, BV), (inverses, C))),
        make_descriptor(errors, C, BV) if tma_store and errors is not None else errors, beta, decay.g,
        decay.weights, starts, layout.sequences, initial_state if packed else None, states, maps, ends,
        T, H, layout.M, layout.N, layout.chunks_per_segment, K, V, BV, C, decay.kind, starts is not None,
        errors is not None, tma_store, packed, operand_dtype(k), decay_sum_dtype(k), dot_precision(k),
        **config.triton_options,
    )  # fmt: skip


def _launch_gradient_walk(
    systems: ChunkSystems,
    q: Tensor,
    scores: Tensor | None,
    do: Tensor,
    errors: Tensor | None,
    dv: Tensor | None,
    dbeta: Tensor | None,
    starts: Tensor | None,
    dfinal: Tensor | None,
    dstates: Tensor | None,
    dinitial: Tensor | None,
    ends: Tensor | None,
    scale: float,
    layout: SegmentLayout,
) -> None:
    """Launch the walk against time: it writes dv, dbeta, dstates and dinitial, or ends if these are None."""
    k, k_to_end, beta, decay, inverses = systems
    (B, T, H, K), V, C, packed = k.shape, do.shape[-1], layout.C, layout.sequences is not None
    config, tma_store = GRADIENT_WALK.choose(q, do), supports_tma_store(q)
    BV = min(V, config.block_columns)
    gradient_states_kernel[(B * H * (V // BV), layout.N)](
        *(make_descriptor(x, C, K) for x in (q, k, k_to_end)),
        None if scores is None else make_descriptor(scores, C, C), make_descriptor(do, C, BV),
        None if errors is None else make_descriptor(errors, C, BV), make_descriptor(inverses, C, C),
        make_descriptor(dv, C, BV) if tma_store and dv is not None else dv, beta, dbeta, decay.g,
        decay.weights, starts, layout.sequences, dfinal if packed else None, dstates, dinitial, ends,
        scale, B, T, H, layout.M, layout.N, layout.chunks_per_segment, K, V, BV, C, decay.kind,
        starts is not None, dv is not None, tma_store, packed, operand_dtype(q), decay_sum_dtype(q),
        dot_precision(q), **config.triton_options,
    )  # fmt: skip


def _join_segments(
    maps: Tensor, ends: Tensor, first: Tensor | None, x: Tensor, layout: SegmentLayout, reverse: bool = False
) -> Tensor:
    """Return what each segment begins with, in the direction of the walk, ``[B, H, N, K, V]``."""
    B, H, N, K, V = ends.shape
    BV, starts = min(V, JOIN_COLUMNS), torch.empty_like(ends)
    join_segments_kernel[(B * H * (V // BV),)](
        maps,
        ends,
        first,
        starts,
        layout.sequences,
        layout.M,
        N,
        layout.chunks_per_segment,
        K,
        V,
        BV,
        layout.C,
        reverse,
        first is not None,
        layout.sequences is not None,
        map_precision(x),
    )
    return starts
