"""Compute linear attention in chunk form with no decay, a decay per head, or one per token and head.

Forward: a program takes one head and some columns of V, and walks through the chunks of a segment. The state
stays on the chip, and o is written once. Within a chunk, as in ``linattn_ref.ops.linear``::

    o_i = scale (exp(G_i) q_i S + sum_{j <= i} (q_i . k_j) exp(G_i - G_j) v_j)
    S <- exp(G_C) S + sum_j exp(G_C - G_j) k_j^T v_j

The kernel keeps S transposed, and o with it: S^T q_i^T, v^T A^T and v^T k have the state and the decayed
values on the left, where the matrix unit takes a factor from registers; on the right it would have to be
written to shared memory first, in every chunk.

Backward, by passes: each gradient is linear attention again, one with time and two against it::

    dq_i = scale sum_{j <= i} (do_i . v_j) exp(G_i - G_j) k_j        do, v, k in place of q, k, v
    dk_j = scale sum_{i >= j} (v_j . do_i) exp(G_i - G_j) q_i        v, do, q
    dv_j = scale sum_{i >= j} (k_j . q_i) exp(G_i - G_j) do_i        k, q, do

The pass of dq begins with the initial state, transposed; that of dv with E = D / scale, where D is the
gradient of the final state, since a pass multiplies by scale all that it reads; that of dk with E
transposed. Against time, the weights change places and the table is transposed::

    o_i = scale (exp(G_C - G_i) q_i S + sum_{j >= i} (q_i . k_j) exp(G_j - G_i) v_j)
    S <- exp(G_C) S + sum_j exp(G_j) k_j^T v_j

So the same kernel makes all three, and no state is kept. It does so where that is faster; the gradient of a
decay needs states from before and after every chunk, and float32 is slow here.

Backward, chunk by chunk: the states S before each chunk are made again, the gradients D of the states after
each chunk come from the same recurrence against time (``states.py``), and then all chunks are independent.
With A_ij = (q_i . k_j) exp(G_i - G_j) and B_ij = (do_i . v_j) exp(G_i - G_j), both for j <= i::

    dv_j = scale sum_i A_ij do_i + exp(G_C - G_j) k_j D
    dq_i = scale (sum_j B_ij k_j + exp(G_i) do_i S^T)
    dk_j = scale sum_i B_ij q_i + exp(G_C - G_j) v_j D^T

The gradient of a log decay g_t is the sum of all that passes token t: from the past into this chunk, from
this chunk into the future, from past to future, and from any j < t to any i >= t of this chunk. Sums begin
anew in every chunk and leave the diagonal out. So the error of one gradient is a rounding of others in its
chunk, but not of those of the whole sequence, nor of the diagonal, beside which a hard decay's is tiny.

Source: Yang et al. 2023 (arXiv 2312.06635, section 2) for the chunk form; the gradients are derived here.
"""

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import (
    ChunkDecay,
    get_head_decays,
    load_decay_sums,
    load_decay_weights,
    sum_decays,
)
from linattn_kernels.dtypes import decay_sum_dtype, dot_precision, operand_dtype
from linattn_kernels.hardware import pdl_options, supports_pdl, supports_tma_store
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, choose_segments, choose_tokens_per_tile
from linattn_kernels.launches import kernel
from linattn_kernels.packed import find_sequence
from linattn_kernels.states import (
    choose_scan_segments,
    compute_chunk_states,
    load_state_before_segment,
    make_final_state,
    summarize_segments,
)
from linattn_kernels.tiles import (
    NO_DECAY,
    PER_HEAD,
    PER_TOKEN,
    apply_causal_mask,
    clamp_log_decay,
    exp,
    exp_few_registers,
    get_state_offsets,
    load_decay_sums_between,
    load_initial_state,
    make_descriptor,
    store_output_tile,
    wait_for_previous_kernel,
)

FORWARD = LaunchConfigs(
    half_precision=LaunchConfig(128, 8, 3),
    float32=LaunchConfig(16, 8, 1),
    small_heads=LaunchConfig(64, 4, 3, programs_per_multiprocessor=2),
    small_memory=LaunchConfig(64, 4, 2, programs_per_multiprocessor=2),
)
DKDV = LaunchConfig(64, 4, 3, programs_per_multiprocessor=2)
BACKWARD_CHUNKS = LaunchConfigs(
    half_precision=LaunchConfig(64, 4, 2),
    float32=LaunchConfig(32, 8, 1),
    small_heads=LaunchConfig(64, 4, 1, max_registers=168),
)
MIN_SCALE = 1e-30  # a gradient in float32 can be divided by this and anything larger

# --- forward, and passes of the backward --------------------------------------------------------------------


@kernel
def forward_kernel(
    q, k,  # descriptors of [B, T, H, K]
    v,  # descriptor of [B, T, H, V]
    o,  # [B, T, H, V], written; a descriptor if TMA_STORE
    g, weights,  # as in ``ChunkDecay``
    initial_state,  # [B H, K, V], or nothing for an empty state; if PACKED of each sequence, [n H, K, V]
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    segment_states, segment_decays,  # of segments alone, see ``states.py``
    final_state,  # [B H, K, V] or [n H, K, V]
    scale, T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, REVERSE: tl.constexpr, HAS_INITIAL_STATE: tl.constexpr, TMA_STORE: tl.constexpr,
    PACKED: tl.constexpr, OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Compute BV columns of V of one head, through one segment; REVERSE: against time."""
    wait_for_previous_kernel(PDL)
    bh, segment = tl.program_id(0) // (V // BV), tl.program_id(1)
    column = tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    if DECAY != NO_DECAY:
        g = get_head_decays(g, bh, h, M, DECAY, C)
    if DECAY == PER_HEAD:
        G = tl.arange(0, C).to(SUM_DTYPE) * clamp_log_decay(tl.load(g)).to(SUM_DTYPE)
        decay_between = exp(
            load_decay_sums_between(G, C, not REVERSE)
        )  # [C, C]: row j, column i; in all chunks
    block = get_state_offsets(0, column, V, K, BV)
    S = load_state_before_segment(
        initial_state, segment_states, segment_decays, sequences, bh, segment, M, N, chunks_per_segment,
        0, column, K, V, K, BV, C, DECAY, REVERSE, HAS_INITIAL_STATE, PACKED,
    )  # fmt: skip
    S = tl.trans(S)  # [BV, K]
    begin, end = segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)
    for n in range(begin, end):
        m = begin + end - 1 - n if REVERSE else n
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, REVERSE)
            if enters:
                S = tl.trans(
                    load_initial_state(initial_state, sequence * H + h, 0, column, K, V, K, BV, True)
                )
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = v.load([b, m * C, h * V + column]).reshape(C, BV)
        A = tl.dot(ks, tl.trans(qs), input_precision=PRECISION)  # [C, C]: row j, column i
        os = tl.dot(S.to(OPERAND), tl.trans(qs).to(OPERAND), input_precision=PRECISION)  # [BV, C]
        vs = tl.trans(vs)  # [BV, C]
        if DECAY == NO_DECAY:
            A = apply_causal_mask(A, C, not REVERSE)
            os += tl.dot(vs.to(OPERAND), A.to(OPERAND), input_precision=PRECISION)
        else:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
            if REVERSE:
                from_start, to_end = to_end, from_start
            if DECAY == PER_TOKEN:
                decay_between = exp(load_decay_sums_between(G, C, not REVERSE))
            A *= decay_between
            os = os * from_start[None, :] + tl.dot(vs.to(OPERAND), A.to(OPERAND), input_precision=PRECISION)
            vs = (vs * to_end[None, :]).to(vs.dtype)
            S *= exp(G_end)
        store_output_tile(o, tl.trans(os * scale), b, m * C, h, T, H, V, column, C, BV, TMA_STORE)
        S += tl.dot(vs, ks, input_precision=PRECISION)
        if PACKED:
            tl.store(final_state + (sequence * H + h).to(tl.int64) * K * V + block, tl.trans(S), mask=leaves)
    if segment == (0 if REVERSE else N - 1) and not PACKED:
        tl.store(final_state + bh.to(tl.int64) * K * V + block, tl.trans(S))


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[B, T, H, V]`` and the final state ``[B, H, K, V]``. All inputs are contiguous.

    Packed sequences lie apart, in units of ``chunk_size`` tokens; ``sequences`` and states are as in
    ``packed.py``.
    """
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    return attend(q, k, v, sum_decays(g, q, C, weights=True), initial_state, scale, C, sequences)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: ChunkDecay,
    initial_state: Tensor | None,
    scale: float,
    C: int,
    sequences: Tensor | None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return output and final state of linear attention, with time or, if ``reverse``, against it.

    Args:
        q, k, v, initial_state, scale: as for ``forward``, or other letters for a pass of the backward.
        decay: log decays for chunks of C tokens, with weights.
        C: tokens of a chunk.
        sequences: as for ``forward``.
        reverse: whether to go against time; the final state is then that before the first token.
    """
    B, T, H, K = q.shape
    V = v.shape[-1]
    config = FORWARD.choose(q, v)
    BV = min(V, config.block_columns)
    programs = B * H * (V // BV)
    layout = choose_segments(T, C, programs, config, q, sequences)
    summaries = summarize_segments(k, v, decay, initial_state, layout, reverse=reverse)
    o, final_state = torch.empty_like(v), make_final_state(q, v, initial_state, layout)
    tma_store = supports_tma_store(q) and decay.kind != PER_TOKEN.value  # it: pointers (NOTES.md)
    forward_kernel[(programs, layout.N)](
        *(make_descriptor(x, C, W) for x, W in ((q, K), (k, K), (v, BV))),
        make_descriptor(o, C, BV) if tma_store else o, decay.g, decay.weights, initial_state, sequences,
        *summaries, final_state, scale, T, H, layout.M, layout.N, layout.chunks_per_segment, K, V, BV, C,
        decay.kind, reverse, initial_state is not None, tma_store, sequences is not None,
        operand_dtype(q), decay_sum_dtype(q), dot_precision(q), supports_pdl(q),
        **config.triton_options, **pdl_options(q),
    )  # fmt: skip
    return o, final_state


# --- backward ---------------------------------------------------------------------------------------------


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    needs_dg: bool,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    """Return the gradients of q, k, v, g (float32, or None) and the initial state, by passes where it can.

    Where the initial state is None, its gradient has no meaning and is to be ignored.

    Args:
        q, k, v, g, initial_state, scale, chunk_size, sequences: as for ``forward``.
        do: gradient of the output, ``[B, T, H, V]``, contiguous.
        dstate: gradient of the final state, ``[B, H, K, V]``, or None for zeros, given if ``sequences`` are.
        needs_dg: whether the gradient of g is wanted.
    """
    if needs_dg or abs(scale) < MIN_SCALE or q.dtype == torch.float32:
        return backward_by_chunks(
            q, k, v, g, initial_state, do, dstate, scale, chunk_size, needs_dg, sequences
        )
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    decay = sum_decays(g, q, C, weights=True)
    E = None if dstate is None else dstate / scale
    dq, _ = attend(do, v, k, decay, transpose_state(initial_state), scale, C, sequences)
    if max(q.shape[-1], v.shape[-1]) <= DKDV.block_columns:
        dk, dv, E_before = compute_dkdv(q, k, v, do, decay, E, scale, C, sequences)
    else:
        dk, _ = attend(v, do, q, decay, transpose_state(E), scale, C, sequences, reverse=True)
        dv, E_before = attend(k, q, do, decay, E, scale, C, sequences, reverse=True)
    return dq, dk, dv, None, E_before if initial_state is None else scale * E_before


@kernel
def dkdv_kernel(
    q, k,  # descriptors of [B, T, H, K]
    v, do,  # descriptors of [B, T, H, V]
    dk,  # [B, T, H, K], written; a descriptor if TMA_STORE
    dv,  # [B, T, H, V], likewise
    g, weights,  # as in ``ChunkDecay``
    initial_E,  # [B H, K, V], E after the last token, or nothing for zeros; if PACKED [n H, K, V]
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    segment_states, segment_decays,  # of segments alone, see ``states.py``
    final_E,  # [B H, K, V] or [n H, K, V], written: E before the first token
    scale, T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, HAS_INITIAL_E: tl.constexpr, TMA_STORE: tl.constexpr, PACKED: tl.constexpr,
    OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Make both passes against time at once, where one program has room for all columns; they share E."""
    bh, segment = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    if DECAY != NO_DECAY:
        g = get_head_decays(g, bh, h, M, DECAY, C)
    E = load_state_before_segment(
        initial_E, segment_states, segment_decays, sequences, bh, segment, M, N, chunks_per_segment,
        0, 0, K, V, K, V, C, DECAY, True, HAS_INITIAL_E, PACKED,
    )  # fmt: skip
    block = get_state_offsets(0, 0, V, K, V)
    begin, end = segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)
    for n in range(begin, end):
        m = begin + end - 1 - n
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, True)
            if enters:
                E = load_initial_state(initial_E, sequence * H + h, 0, 0, K, V, K, V, True)
        qs, ks = q.load([b, m * C, h * K]).reshape(C, K), k.load([b, m * C, h * K]).reshape(C, K)
        vs, dos = v.load([b, m * C, h * V]).reshape(C, V), do.load([b, m * C, h * V]).reshape(C, V)
        A = tl.dot(ks, tl.trans(qs), input_precision=PRECISION)  # [C, C]: k_j . q_i, row j, column i
        B = tl.dot(vs, tl.trans(dos), input_precision=PRECISION)  # [C, C]: v_j . do_i
        dvs = tl.dot(ks.to(OPERAND), E.to(OPERAND), input_precision=PRECISION)  # [C, V]
        dks = tl.dot(vs.to(OPERAND), tl.trans(E.to(OPERAND)), input_precision=PRECISION)  # [C, K]
        if DECAY == NO_DECAY:
            A, B = apply_causal_mask(A, C, True), apply_causal_mask(B, C, True)
        else:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
            decay_between = exp(load_decay_sums_between(G, C, True))
            A, B = A * decay_between, B * decay_between
            dvs, dks = dvs * to_end[:, None], dks * to_end[:, None]
            E *= exp(G_end)
        dvs += tl.dot(A.to(OPERAND), dos.to(OPERAND), input_precision=PRECISION)
        dks += tl.dot(B.to(OPERAND), qs.to(OPERAND), input_precision=PRECISION)
        store_output_tile(dv, dvs * scale, b, m * C, h, T, H, V, 0, C, V, TMA_STORE)
        store_output_tile(dk, dks * scale, b, m * C, h, T, H, K, 0, C, K, TMA_STORE)
        if DECAY != NO_DECAY:
            dos = (dos * from_start[:, None]).to(dos.dtype)
        E += tl.dot(tl.trans(qs), dos, input_precision=PRECISION)
        if PACKED:
            tl.store(final_E + (sequence * H + h).to(tl.int64) * K * V + block, E, mask=leaves)
    if segment == 0 and not PACKED:
        tl.store(final_E + bh.to(tl.int64) * K * V + block, E)


def compute_dkdv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    decay: ChunkDecay,
    E: Tensor | None,
    scale: float,
    C: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of k and v, and E before the first token; the E given is that after the last."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    layout = choose_segments(T, C, B * H, DKDV, q, sequences)
    summaries = summarize_segments(q, do, decay, E, layout, reverse=True)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    E_before = make_final_state(q, v, E, layout)
    tma_store = supports_tma_store(q)
    dkdv_kernel[(B * H, layout.N)](
        *(make_descriptor(x, C, K) for x in (q, k)), *(make_descriptor(x, C, V) for x in (v, do)),
        *(make_descriptor(x, C, W) if tma_store else x for x, W in ((dk, K), (dv, V))),
        decay.g, decay.weights, E, sequences, *summaries, E_before, scale, T, H, layout.M, layout.N,
        layout.chunks_per_segment, K, V, C, decay.kind, E is not None, tma_store, sequences is not None,
        operand_dtype(q), decay_sum_dtype(q), dot_precision(q), **DKDV.triton_options,
    )  # fmt: skip
    return dk, dv, E_before


def transpose_state(state: Tensor | None) -> Tensor | None:
    """Return [B, H, V, K], contiguous, for a state [B, H, K, V]."""
    return None if state is None else state.mT.contiguous()


# --- backward, chunk by chunk -------------------------------------------------------------------------------


@kernel
def backward_chunks_kernel(
    q, k,  # descriptors of [B, T, H, K]
    v, do,  # descriptors of [B, T, H, V]
    g,  # as in ``ChunkDecay``
    states, dstates,  # [B H, M, K, V]: S before each chunk, D after it
    dq, dk,  # descriptors of [B, T, H, K], written
    dv,  # descriptor of [B, T, H, V], written
    dg,  # [B, T, H], written
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, NEEDS_DG: tl.constexpr,
    OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute all gradients of one chunk of one head."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    first = m * C  # token
    states += tl.program_id(0).to(tl.int64) * K * V
    dstates += tl.program_id(0).to(tl.int64) * K * V

    # 1. scores of pairs within the chunk, and their gradients
    A, B = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    for column in range(0, K, BK):
        qs = q.load([b, first, h * K + column]).reshape(C, BK)  # [C, BK]
        ks = k.load([b, first, h * K + column]).reshape(C, BK)  # [C, BK]
        A += tl.dot(qs, tl.trans(ks), input_precision=PRECISION)
    for column in range(0, V, BV):
        vs = v.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
        dos = do.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
        B += tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
    if DECAY == NO_DECAY:
        A, B = apply_causal_mask(A * scale, C), apply_causal_mask(B * scale, C)
    else:
        g = get_head_decays(g, bh, h, M, DECAY, C)
        G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
        from_start, to_end = exp_few_registers(G) * scale, exp_few_registers(G_end - G)  # [C]
        decay_between = exp_few_registers(load_decay_sums_between(G, C)) * scale
        A *= decay_between
        if NEEDS_DG:
            i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
            dA_A = tl.where(j < i, A * B, 0.0)
            q_dot_dq, k_dot_dk = tl.sum(dA_A, 1) - tl.sum(dA_A, 0), tl.zeros([C], tl.float32)
            state_dot_dstate = tl.zeros([BK], tl.float32)
        B *= decay_between
    A, B = A.to(OPERAND), B.to(OPERAND)

    # 2. queries and keys
    for row in range(0, K, BK):
        dqs, dks = tl.zeros([C, BK], tl.float32), tl.zeros([C, BK], tl.float32)
        for column in range(0, V, BV):
            vs = v.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
            dos = do.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
            at = get_state_offsets(row, column, V, BK, BV)
            S, D = tl.load(states + at), tl.load(dstates + at)  # [BK, BV]
            dqs += tl.dot(dos.to(OPERAND), tl.trans(S), input_precision=PRECISION)
            dks += tl.dot(vs.to(OPERAND), tl.trans(D), input_precision=PRECISION)
            if NEEDS_DG:
                state_dot_dstate += tl.sum(S.to(tl.float32) * D.to(tl.float32), 1)
        qs = q.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
        ks = k.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
        if DECAY == NO_DECAY:
            dqs *= scale
        else:
            dqs *= from_start[:, None]
            dks *= to_end[:, None]
        if NEEDS_DG:
            q_dot_dq += tl.sum(qs * dqs, 1)
            k_dot_dk += tl.sum(ks * dks, 1)
        dqs += tl.dot(B, ks.to(OPERAND), input_precision=PRECISION)
        dks += tl.dot(tl.trans(B), qs.to(OPERAND), input_precision=PRECISION)
        dq.store([b, first, h * K + row], dqs.to(dq.dtype).reshape(1, C, BK))
        dk.store([b, first, h * K + row], dks.to(dk.dtype).reshape(1, C, BK))
    if NEEDS_DG:
        dgs = tl.cumsum(q_dot_dq, 0, reverse=True) + (tl.cumsum(k_dot_dk, 0) - k_dot_dk)
        dgs += exp_few_registers(G_end) * tl.sum(state_dot_dstate, 0)
        t = m * C + tl.arange(0, C)
        tl.store(dg + (b.to(tl.int64) * T + t) * H + h, dgs, mask=t < T)

    # 3. values
    for column in range(0, V, BV):
        dvs = tl.zeros([C, BV], tl.float32)
        for row in range(0, K, BK):
            ks = k.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
            D = tl.load(dstates + get_state_offsets(row, column, V, BK, BV))  # [BK, BV]
            dvs += tl.dot(ks.to(OPERAND), D, input_precision=PRECISION)
        dos = do.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
        if DECAY != NO_DECAY:
            dvs *= to_end[:, None]
        dvs += tl.dot(tl.trans(A), dos.to(OPERAND), input_precision=PRECISION)
        dv.store([b, first, h * V + column], dvs.to(dv.dtype).reshape(1, C, BV))


def backward_by_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    needs_dg: bool,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    """Return the gradients of q, k, v, g (float32, or None) and the initial state, chunk by chunk.

    Args:
        q, k, v, g, initial_state, do, dstate, scale, chunk_size, needs_dg, sequences: as for ``backward``.
    """
    B, T, H, K = q.shape
    V = v.shape[-1]
    config = BACKWARD_CHUNKS.choose(q, v)
    BK, BV = min(K, config.block_columns), min(V, config.block_columns)
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=32)
    layout = choose_scan_segments(q, v, C, sequences)
    M = layout.M
    decay = sum_decays(g, q, C)
    states, _ = compute_chunk_states(k, v, decay, initial_state, layout)
    dstates, dinitial = compute_chunk_states(q, do, decay, dstate, layout, factor=scale, reverse=True)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dg = q.new_empty(B, T, H, dtype=torch.float32) if needs_dg else None
    backward_chunks_kernel[(M * B * H,)](
        *(make_descriptor(x, C, W) for x, W in ((q, BK), (k, BK), (v, BV), (do, BV))),
        decay.g, states, dstates,
        *(make_descriptor(x, C, W) for x, W in ((dq, BK), (dk, BK), (dv, BV))),
        dg, scale, T, H, M, K, V, BK, BV, C, decay.kind, needs_dg,
        operand_dtype(q), decay_sum_dtype(q), dot_precision(q), **config.triton_options,
    )  # fmt: skip
    if dg is not None and decay.kind == PER_HEAD.value:
        dg = dg.sum((0, 1))
    return dq, dk, dv, dg, dinitial
