"""Compute linear attention in chunk form with a decay per channel, ``log_decay [B, T, H, K]`` (GLA, HGRN2).

Forward: ``intra_chunk.py`` makes, for all chunks at once, their scores, scale A, and q and k with the decay
from the chunk's start and to its end. Then a kernel walks with the state, as in ``scalar_decay.py``::

    o_i = sum_j scale A_ij v_j + (scale q_i exp(G_i)) S
    S <- exp(G_C) S + sum_j (k_j exp(G_C - G_j))^T v_j

Backward: all that is made again; then states S and their gradients D, from ``states.py``; then all chunks
are independent. v has it as easy as in ``scalar_decay.py``, with the scores in place. For q, k and g the
scores are taken apart as they were made: a chunk of mild decays as one product; a hard one, in a second
run, in blocks and level by level. With B_ij = scale do_i . v_j, in the terms of ``intra_chunk.py``::

    dX_i = sum_j B_ij X_j in later halves,   dX_j = sum_i B_ij X_i in earlier ones

and X_i dX_i, X_j dX_j are the gradients of the exponents. The diagonal, where nothing decays, is kept out of
them: under hard decays the gradient of g is tiny beside it.

Source: Yang et al. 2023 (arXiv 2312.06635, section 4) for the model and its chunk form; the gradients are
derived here.
"""

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.dtypes import (
    decay_sum_dtype,
    dot_precision,
    max_split_exponent,
    operand_dtype,
)
from linattn_kernels.intra_chunk import (
    are_in_same_block,
    are_in_two_halves,
    compute_intra_chunk,
    decay_to_border,
    find_safe_level,
    is_in_later_half,
    log_decay_from_middle,
)
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
    PER_CHANNEL,
    clamp_log_decay,
    exp,
    get_head_pointer,
    get_last_row,
    get_state_offsets,
    load_initial_state,
    load_tile,
    make_descriptor,
    store_tile,
)

FORWARD = LaunchConfigs(
    half_precision=LaunchConfig(128, 4, 2),
    float32=LaunchConfig(16, 8, 1),
    small_memory=LaunchConfig(64, 4, 2),
)
BACKWARD_V = LaunchConfigs(half_precision=LaunchConfig(128, 4, 1), float32=LaunchConfig(16, 8, 1))
BACKWARD_QKG = LaunchConfigs(
    half_precision=LaunchConfig(32, 4, 1, max_registers=168), float32=LaunchConfig(32, 8, 1)
)
HARD_BACKWARD_QKG = LaunchConfigs(half_precision=LaunchConfig(32, 4, 1), float32=LaunchConfig(32, 8, 1))

# --- forward ----------------------------------------------------------------------------------------------


@kernel
def forward_kernel(
    scores,  # descriptor of [B, T, H, C]
    q, k,  # descriptors of [B, T, H, K], decayed: q_from_start and k_to_end
    v, o,  # descriptors of [B, T, H, V]
    chunk_decays,  # [B, M, H, K]
    initial_state,  # [B H, K, V], or nothing for an empty state; if PACKED of each sequence, [n H, K, V]
    sequences,  # of the chunks if PACKED, as in ``packed.py``
    segment_states, segment_decays,  # of segments alone, see ``states.py``
    final_state,  # [B H, K, V] or [n H, K, V]
    H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    HAS_INITIAL_STATE: tl.constexpr, PACKED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute BV columns of V of one head, through one segment."""
    bh, segment = tl.program_id(0) // (V // BV), tl.program_id(1)
    column = tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    chunk_decays = get_head_pointer(chunk_decays, b, h, M, H, K) + tl.arange(0, K)
    block = get_state_offsets(0, column, V, K, BV)
    S = load_state_before_segment(
        initial_state, segment_states, segment_decays, sequences, bh, segment, M, N, chunks_per_segment,
        0, column, K, V, K, BV, C, PER_CHANNEL, False, HAS_INITIAL_STATE, PACKED,
    )  # fmt: skip
    for m in range(segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)):
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, False)
            if enters:
                S = load_initial_state(initial_state, sequence * H + h, 0, column, K, V, K, BV, True)
        A = scores.load([b, m * C, h * C]).reshape(C, C)
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = v.load([b, m * C, h * V + column]).reshape(C, BV)
        os = tl.dot(A, vs.to(OPERAND), input_precision=PRECISION)  # [C, BV]
        os += tl.dot(qs.to(OPERAND), S.to(OPERAND), input_precision=PRECISION)
        o.store([b, m * C, h * V + column], os.to(vs.dtype).reshape(1, C, BV))
        S *= exp(tl.load(chunk_decays + tl.cast(m, tl.int64) * H * K))[:, None]
        S += tl.dot(tl.trans(ks), vs, input_precision=PRECISION)
        if PACKED:
            tl.store(final_state + (sequence * H + h).to(tl.int64) * K * V + block, S, mask=leaves)
    if segment == N - 1 and not PACKED:
        tl.store(final_state + bh.to(tl.int64) * K * V + block, S)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[B, T, H, V]`` and the final state ``[B, H, K, V]``. All inputs are contiguous.

    Packed sequences lie apart, in units of ``chunk_size`` tokens; ``sequences`` and states are as in
    ``packed.py``.
    """
    B, T, H, K = q.shape
    V = v.shape[-1]
    config = FORWARD.choose(q, v)
    BV = min(V, config.block_columns)
    programs = B * H * (V // BV)
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    layout = choose_segments(T, C, programs, config, q, sequences)
    intra = compute_intra_chunk(q, k, g, scale, layout)
    summaries = summarize_segments(intra.k_to_end, v, intra.decay, initial_state, layout)
    o, final_state = torch.empty_like(v), make_final_state(q, v, initial_state, layout)
    forward_kernel[(programs, layout.N)](
        make_descriptor(intra.scores, C, C), make_descriptor(intra.q_from_start, C, K),
        make_descriptor(intra.k_to_end, C, K), make_descriptor(v, C, BV), make_descriptor(o, C, BV),
        intra.decay.g, initial_state, sequences, *summaries, final_state,
        H, layout.M, layout.N, layout.chunks_per_segment, K, V, BV, C, initial_state is not None,
        sequences is not None, operand_dtype(q), dot_precision(q), **config.triton_options,
    )  # fmt: skip
    return o, final_state


# --- backward ---------------------------------------------------------------------------------------------


@kernel
def backward_v_kernel(
    scores,  # [B, T, H, C]
    k,  # [B, T, H, K], decayed: k_to_end
    v, do,  # [B, T, H, V]
    dstates,  # [B H, M, K, V]: gradient of the state after each chunk
    dv,  # [B, T, H, V], written
    dscores,  # [B, T, H, C], written: B_ij of the later i and the earlier j, either way round
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dv_j = sum_i A_ij do_i + exp(G_C - G_j) k_j D and the gradients of the scores of one chunk."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    scores, k = get_head_pointer(scores, b, h, T, H, C), get_head_pointer(k, b, h, T, H, K)
    v, do = get_head_pointer(v, b, h, T, H, V), get_head_pointer(do, b, h, T, H, V)
    dv = get_head_pointer(dv, b, h, T, H, V)
    B = tl.zeros([C, C], tl.float32)
    for column in range(0, V, BV):
        A = load_tile(scores, m * C, T, H * C, 0, C, C)  # [C, C]
        ks = load_tile(k, m * C, T, H * K, 0, C, K)  # [C, K]
        vs = load_tile(v, m * C, T, H * V, column, C, BV)  # [C, BV]
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        block = dstates + tl.program_id(0).to(tl.int64) * K * V + get_state_offsets(0, column, V, K, BV)
        D = tl.load(block)  # [K, BV]
        dvs = tl.dot(tl.trans(A), dos.to(OPERAND), input_precision=PRECISION)
        dvs += tl.dot(ks.to(OPERAND), D, input_precision=PRECISION)
        store_tile(dv, dvs, m * C, T, H * V, column, C, BV)
        B += tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    B = (B * scale).to(dscores.dtype.element_ty)
    dscores = get_head_pointer(dscores, b, h, T, H, C)
    store_tile(dscores, tl.where(j <= i, B, tl.trans(B)), m * C, T, H * C, 0, C, C)


@kernel
def backward_qkg_kernel(
    q, k, g,  # [B, T, H, K]
    v, do,  # [B, T, H, V]
    dscores,  # [B, T, H, C]
    states, dstates,  # [B H, M, K, V]: S before each chunk, D after it; D is zero if there are none
    dq, dk, dg,  # [B, T, H, K], written
    hard,  # [B H M, K / BK], written if not HARD, as in ``scores_kernel``
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    LEVELS: tl.constexpr, HARD: tl.constexpr, HAS_DSTATES: tl.constexpr, OPERAND: tl.constexpr,
    SUM_DTYPE: tl.constexpr, MAX_EXPONENT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of q, k and g for BK channels of one chunk; if HARD, of hard chunks again."""
    if HARD:  # noqa: SIM102 - as in ``scores_kernel``
        if tl.load(hard + tl.program_id(0)) == 0:
            return
    m, bh = tl.program_id(0) // (K // BK) % M, tl.program_id(0) // (K // BK) // M
    channel = tl.program_id(0) % (K // BK) * BK
    b, h = bh // H, bh % H
    v, do = get_head_pointer(v, b, h, T, H, V), get_head_pointer(do, b, h, T, H, V)
    dscores = get_head_pointer(dscores, b, h, T, H, C)
    state = (bh.to(tl.int64) * M + m) * K * V

    # 1. what comes in from the past, what goes out to the future, and what passes through the chunk
    dqs, dks = tl.zeros([C, BK], tl.float32), tl.zeros([C, BK], tl.float32)
    state_dot_dstate = tl.zeros([BK], tl.float32)
    for column in range(0, V, BV):
        vs = load_tile(v, m * C, T, H * V, column, C, BV)  # [C, BV]
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        at = state + get_state_offsets(channel, column, V, BK, BV)
        S = tl.load(states + at)  # [BK, BV]
        dqs += tl.dot(dos.to(OPERAND), tl.trans(S), input_precision=PRECISION)
        if HAS_DSTATES:
            D = tl.load(dstates + at)  # [BK, BV]
            dks += tl.dot(vs.to(OPERAND), tl.trans(D), input_precision=PRECISION)
            state_dot_dstate += tl.sum(S.to(tl.float32) * D.to(tl.float32), 1)
    qs = load_tile(get_head_pointer(q, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    ks = load_tile(get_head_pointer(k, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    gs = load_tile(get_head_pointer(g, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    gs = clamp_log_decay(gs).to(SUM_DTYPE)
    G = tl.cumsum(gs, 0)  # [C, BK]
    G_end = get_last_row(G, C)  # [BK]
    to_end = exp(G_end[None, :] - G)
    dqs *= scale * exp(G)
    dks *= to_end
    dG = qs * dqs - ks * dks  # [C, BK]: gradient of G_i
    k_dot_dk = tl.sum(ks * dks, 0)  # [BK]

    # 2. pairs within the chunk: the diagonal, blocks, then level by level
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    rows = m * C + i
    diagonal = tl.load(dscores + tl.cast(rows, tl.int64) * H * C + i, mask=rows < T, other=0.0)  # [C, 1]
    B = load_tile(dscores, m * C, T, H * C, 0, C, C)  # [C, C]
    dqs += diagonal * ks
    dks += diagonal * qs
    if HARD:
        safe_level = find_safe_level(gs, G_end, C, LEVELS, MAX_EXPONENT)
        from_middle = log_decay_from_middle(G, safe_level, C, BK)
        B = tl.where(are_in_same_block(safe_level, C), B, 0.0).to(dscores.dtype.element_ty)
        weight_q, weight_k = exp(from_middle), exp(-from_middle)
    else:
        tl.store(hard + tl.program_id(0), (tl.max(-G_end, 0) > MAX_EXPONENT).to(tl.int8))
        weight_q, weight_k = exp(tl.minimum(G - G_end[None, :], MAX_EXPONENT)), to_end
    Xq, Xk = (qs * weight_q).to(OPERAND), (ks * weight_k).to(OPERAND)
    dXq = tl.dot(tl.where(j < i, B, 0.0).to(OPERAND), Xk, input_precision=PRECISION)
    dXk = tl.dot(tl.where(j > i, B, 0.0).to(OPERAND), Xq, input_precision=PRECISION)
    dG += Xq * dXq - Xk * dXk
    dqs += dXq * weight_q
    dks += dXk * weight_k
    if HARD:
        for level in range(safe_level, LEVELS):
            # loaded again, since registers are full
            qs = load_tile(get_head_pointer(q, b, h, T, H, K), m * C, T, H * K, channel, C, BK)
            ks = load_tile(get_head_pointer(k, b, h, T, H, K), m * C, T, H * K, channel, C, BK)
            B = load_tile(dscores, m * C, T, H * C, 0, C, C)
            weight, later = decay_to_border(G, level, C, BK), is_in_later_half(level, C)
            X = (tl.where(later, qs, ks) * weight).to(OPERAND)
            B_of_level = tl.where(are_in_two_halves(level, C), B, 0.0).to(OPERAND)
            dX = tl.dot(B_of_level, X, input_precision=PRECISION)
            dG += tl.where(later, X * dX, -X * dX)
            dX *= weight
            dqs += tl.where(later, dX, 0.0)
            dks += tl.where(later, 0.0, dX)
    store_tile(get_head_pointer(dq, b, h, T, H, K), dqs, m * C, T, H * K, channel, C, BK)
    store_tile(get_head_pointer(dk, b, h, T, H, K), dks, m * C, T, H * K, channel, C, BK)

    # 3. g_t is part of G_t, G_{t+1}, ... and of G_C, by which the state and the keys reach the chunk's end
    dg_of_first = exp(G_end) * state_dot_dstate + tl.sum(dG, 0) + k_dot_dk  # [BK]
    dgs = dg_of_first[None, :] - (tl.cumsum(dG, 0) - dG)
    store_tile(get_head_pointer(dg, b, h, T, H, K), dgs, m * C, T, H * K, channel, C, BK)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v, g (in float32) and of the initial state.

    Args:
        q, k, v, g, initial_state, scale, chunk_size, sequences: as in the forward.
        do: gradient of the output, ``[B, T, H, V]``, contiguous.
        dstate: gradient of the final state, ``[B, H, K, V]``, or None for zeros, given if ``sequences`` are.
    """
    B, T, H, K = q.shape
    V = v.shape[-1]
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=32)
    layout = choose_scan_segments(q, v, C, sequences)
    M = layout.M
    intra = compute_intra_chunk(q, k, g, scale, layout)
    states, _ = compute_chunk_states(intra.k_to_end, v, intra.decay, initial_state, layout)
    q_from_start = intra.q_from_start
    dstates, dinitial = compute_chunk_states(q_from_start, do, intra.decay, dstate, layout, reverse=True)
    dv, dscores = torch.empty_like(v), torch.empty_like(intra.scores)
    config = BACKWARD_V.choose(q, v)
    backward_v_kernel[(M * B * H,)](
        intra.scores, intra.k_to_end, v, do, dstates, dv, dscores, scale, T, H, M,
        K, V, min(V, config.block_columns), C, operand_dtype(q), dot_precision(q), **config.triton_options,
    )  # fmt: skip
    dq, dk, dg = compute_gradients_of_pairs(q, k, g, v, do, dscores, states, dstates, scale, C)
    return dq, dk, dv, dg, dinitial


def compute_gradients_of_pairs(
    q: Tensor,
    k: Tensor,
    g: Tensor,
    v: Tensor,
    do: Tensor,
    dscores: Tensor,
    states: Tensor,
    dstates: Tensor | None,
    scale: float,
    C: int,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and g (in float32) in chunks of C tokens.

    Args:
        q, k, g, v, do, scale: as for ``backward``.
        dscores: ``[B, T, H, C]``, gradients of scores, scaled: of the later and the earlier token, either way
            round.
        states: ``[B, H, M, K, V]``, before each chunk.
        dstates: ``[B, H, M, K, V]``, gradients after each chunk, or None for zeros.
        C: tokens of a chunk.
        dtype: of the gradients of q and k. None is that of q.
    """
    (B, T, H, K), V, M = q.shape, v.shape[-1], states.shape[2]
    dq, dk = (torch.empty_like(q, dtype=dtype) for _ in range(2))
    dg = torch.empty_like(q, dtype=torch.float32)
    configs = BACKWARD_QKG.choose(q, v), HARD_BACKWARD_QKG.choose(q, v)  # with the same columns
    BK, BV = min(K, configs[0].block_columns), min(V, configs[0].block_columns)
    hard = q.new_empty(M * B * H * (K // BK), dtype=torch.int8)
    for config, is_hard in zip(configs, (False, True), strict=True):
        backward_qkg_kernel[(M * B * H * (K // BK),)](
            q, k, g, v, do, dscores, states, dstates, dq, dk, dg, hard, scale, T, H, M,
            K, V, BK, BV, C, C.bit_length() - 1, is_hard, dstates is not None,
            operand_dtype(q), decay_sum_dtype(q), max_split_exponent(q), dot_precision(q),
            **config.triton_options,
        )  # fmt: skip
    return dq, dk, dg
