"""Compute the delta rule in chunk form with no decay, a decay per head, or one per token and head.

Forward: a program takes one head and some columns of V, and walks through the chunks of a segment with the
state, as in ``delta_walks.py``; the output is read on the way::

    o_i = scale (exp(G_i) q_i S + sum_{j <= i} (q_i . k_j) exp(G_i - G_j) u_j)

Backward: the states S, the errors r and the corrections u = beta r are made again; then D walks against time,
and with S before, D after a chunk and all r and dx, chunks are independent::

    dA_ij = scale (do_i . u_j) exp(G_i - G_j), j <= i,   dP_ij = -(dx_i . r_j) exp(G_i - G_j), j < i
    dq_i = scale exp(G_i) do_i S^T + sum_j dA_ij k_j
    dk_i = -exp(G_i) dx_i S^T + sum_j dP_ij beta_j k_j                            where it recalls,
         + exp(G_C - G_i) u_i D^T + sum_j dA_ji q_j + beta_i sum_j dP_ji k_j      where it writes
    dbeta_i = du_i . r_i + k_i . sum_j dP_ji k_j

A log decay's gradient is made of q . dq and k . dk, of all that passes a token: what comes from before the
chunk, what goes beyond it, and pairs, where what recalls has the factor exp(G_i), what writes exp(-G_i).

Source: Yang et al. 2024 (arXiv 2406.06484, section 3) for the chunk form, Yang et al. 2024 (arXiv 2412.06464)
for decays; the gradients are derived here.
"""

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import get_head_decays, load_decay_sums, load_decay_weights, sum_decays
from linattn_kernels.delta_system import ChunkSystems, invert_systems, load_betas
from linattn_kernels.delta_walks import (
    choose_walk_segments,
    find_gradients_after_segments,
    find_states_before_segments,
    get_chunk_decays,
    load_transposed_state,
    walk_gradients,
    walk_states,
)
from linattn_kernels.dtypes import decay_sum_dtype, dot_precision, operand_dtype
from linattn_kernels.hardware import supports_tma_store
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, choose_segments, choose_tokens_per_tile
from linattn_kernels.launches import kernel
from linattn_kernels.packed import find_sequence
from linattn_kernels.states import make_final_state
from linattn_kernels.tiles import (
    NO_DECAY,
    PER_CHANNEL,
    PER_HEAD,
    PER_TOKEN,
    apply_causal_mask,
    exp,
    get_head_pointer,
    get_state_offsets,
    load_decay_sums_between,
    load_initial_state,
    load_tile,
    make_descriptor,
    store_output_tile,
    store_tile,
)

FORWARD = LaunchConfigs(
    half_precision=LaunchConfig(64, 4, 2, programs_per_multiprocessor=2),
    float32=LaunchConfig(16, 8, 1),
    small_heads=LaunchConfig(64, 4, 3, programs_per_multiprocessor=2),
    small_memory=LaunchConfig(32, 4, 2),
)
GRADIENTS = LaunchConfigs(half_precision=LaunchConfig(64, 4, 1), float32=LaunchConfig(16, 4, 1))


@kernel
def forward_kernel(
    q, k, k_to_end,  # descriptors of [B, T, H, K]; with decays per channel q has that from the chunk's start
    scores,  # descriptor of [B, T, H, C], q_i . k_j with decays per channel; nothing with others
    v,  # descriptor of [B, T, H, V]
    inverses,  # descriptor of [B, T, H, C]
    o,  # [B, T, H, V], written; a descriptor if TMA_STORE
    beta,  # [B, T, H]
    g, weights,  # as in ``ChunkDecay``
    starts,  # [B H, N, K, V], the state before each segment, or nothing for an empty one
    sequences, initial_state,  # if PACKED, as in ``packed.py``, and [n H, K, V]
    final_state,  # [B H, K, V] or [n H, K, V], written
    scale, T, H, M, N, chunks_per_segment,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, HAS_STARTS: tl.constexpr, TMA_STORE: tl.constexpr, PACKED: tl.constexpr,
    OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute BV columns of V of one head, through one segment."""
    segment = tl.program_id(1)
    bh, column = tl.program_id(0) // (V // BV), tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    if DECAY != NO_DECAY:
        g = get_chunk_decays(g, b, h, M, H, K, C, DECAY)
    S = load_initial_state(starts, bh.to(tl.int64) * N + segment, 0, column, K, V, K, BV, HAS_STARTS)
    S = tl.trans(S)  # [BV, K]
    block = get_state_offsets(0, column, V, K, BV)
    for m in range(segment * chunks_per_segment, min(segment * chunks_per_segment + chunks_per_segment, M)):
        if PACKED:
            sequence, enters, leaves = find_sequence(sequences, m, M, C, False)
            if enters:
                S = load_transposed_state(initial_state, sequence * H + h, column, K, V, BV)
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = tl.trans(v.load([b, m * C, h * V + column]).reshape(C, BV))  # [BV, C]
        R = inverses.load([b, m * C, h * C]).reshape(C, C)
        betas = load_betas(beta, b, h, m, T, H, C)  # [C]
        recalled = tl.dot(S.to(OPERAND), tl.trans(ks).to(OPERAND), input_precision=PRECISION)  # [BV, C]
        os = tl.dot(S.to(OPERAND), tl.trans(qs).to(OPERAND), input_precision=PRECISION)  # [BV, C]
        if DECAY == PER_CHANNEL:
            A = tl.trans(scores.load([b, m * C, h * C]).reshape(C, C))  # row j, column i
            S *= exp(tl.load(g + tl.cast(m, tl.int64) * H * K))[None, :]
            ks = k_to_end.load([b, m * C, h * K]).reshape(C, K)
        else:
            A = tl.dot(ks, tl.trans(qs), input_precision=PRECISION)
        if DECAY == NO_DECAY:
            A = apply_causal_mask(A, C, True)
        elif DECAY != PER_CHANNEL:
            G, G_end = load_decay_sums(g, m, T, DECAY, C, SUM_DTYPE)  # [C], []
            from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
            A *= exp(load_decay_sums_between(G, C, True))
            recalled *= from_start[None, :]
            os *= from_start[None, :]
            S *= exp(G_end)
        errors = (vs - recalled).to(R.dtype)
        us = tl.dot(errors, tl.trans(R), input_precision=PRECISION) * betas[None, :]  # [BV, C]
        os += tl.dot(us.to(OPERAND), A.to(OPERAND), input_precision=PRECISION)
        if DECAY == PER_HEAD or DECAY == PER_TOKEN:  # noqa: SIM109 - Triton has no "in"
            us *= to_end[None, :]
        S += tl.dot(us.to(OPERAND), ks.to(OPERAND), input_precision=PRECISION)
        store_output_tile(o, tl.trans(os * scale), b, m * C, h, T, H, V, column, C, BV, TMA_STORE)
        if PACKED:
            tl.store(final_state + (sequence * H + h).to(tl.int64) * K * V + block, tl.trans(S), mask=leaves)
    if segment == N - 1 and not PACKED:
        tl.store(final_state + bh.to(tl.int64) * K * V + block, tl.trans(S))


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
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
    decay = sum_decays(g, q, C, weights=True)
    systems = invert_systems(k, beta, decay, C)
    return walk_forward(q, v, systems, None, initial_state, scale, C, sequences)


def walk_forward(
    q: Tensor,
    v: Tensor,
    systems: ChunkSystems,
    scores: Tensor | None,
    initial_state: Tensor | None,
    scale: float,
    C: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return output and final state.

    Args:
        q: ``[B, T, H, K]``; with decays per channel as it reads, with the decay from the start of its chunk.
        v, initial_state, scale, sequences: as for ``forward``.
        systems: keys, betas, decays and inverses.
        scores: ``[B, T, H, C]``, q_i . k_j with decays per channel, None with others.
        C: tokens of a chunk.
    """
    B, T, H, K = q.shape
    V, config = v.shape[-1], FORWARD.choose(q, v)
    BV = min(V, config.block_columns)
    layout = choose_segments(T, C, B * H * (V // BV), config, q, sequences)
    starts, _ = find_states_before_segments(systems, v, initial_state, layout)
    o, final_state = torch.empty_like(v), make_final_state(q, v, initial_state, layout)
    k, k_to_end, beta, decay, inverses = systems
    tma_store, packed = supports_tma_store(q), sequences is not None
    forward_kernel[(B * H * (V // BV), layout.N)](
        *(make_descriptor(x, C, K) for x in (q, k, k_to_end)),
        None if scores is None else make_descriptor(scores, C, C), make_descriptor(v, C, BV),
        make_descriptor(inverses, C, C), make_descriptor(o, C, BV) if tma_store else o, beta, decay.g,
        decay.weights, starts, sequences, initial_state if packed else None, final_state, scale, T, H,
        layout.M, layout.N, layout.chunks_per_segment, K, V, BV, C, decay.kind, starts is not None, tma_store,
        packed, operand_dtype(q), decay_sum_dtype(q), dot_precision(q), **config.triton_options,
    )  # fmt: skip
    return o, final_state


# --- backward ---------------------------------------------------------------------------------------------


@kernel
def gradients_kernel(
    q, k,  # [B, T, H, K]
    do, errors, dx,  # [B, T, H, V]
    beta,  # [B, T, H]
    g, weights,  # as in ``ChunkDecay``
    states, dstates,  # [B H, M, K, V]: S before each chunk, D after it
    dq, dk,  # [B, T, H, K], written
    dbeta,  # [B, T, H], written: the part of pairs
    dg,  # [B, T, H], written where there are decays
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    DECAY: tl.constexpr, OPERAND: tl.constexpr, SUM_DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of q, k and g for one chunk of one head."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    q, k = get_head_pointer(q, b, h, T, H, K), get_head_pointer(k, b, h, T, H, K)
    do, errors = get_head_pointer(do, b, h, T, H, V), get_head_pointer(errors, b, h, T, H, V)
    dx = get_head_pointer(dx, b, h, T, H, V)
    dq, dk = get_head_pointer(dq, b, h, T, H, K), get_head_pointer(dk, b, h, T, H, K)
    betas = load_betas(beta, b, h, m, T, H, C)  # [C]
    state = tl.program_id(0).to(tl.int64) * K * V

    # 1. gradients of the pairs of tokens; the diagonal, where nothing decays, apart
    dA, dP = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    for column in range(0, V, BV):
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        dxs = load_tile(dx, m * C, T, H * V, column, C, BV)  # [C, BV]
        rs = tl.trans(load_tile(errors, m * C, T, H * V, column, C, BV))  # [BV, C]
        dA += tl.dot(dos, rs, input_precision=PRECISION)
        dP -= tl.dot(dxs, rs, input_precision=PRECISION)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    dA *= scale * betas[None, :]
    diagonal = tl.sum(tl.where(i == j, dA, 0.0), 1)  # [C]
    if DECAY != NO_DECAY:
        G, G_end = load_decay_sums(get_head_decays(g, bh, h, M, DECAY, C), m, T, DECAY, C, SUM_DTYPE)
        from_start, to_end = load_decay_weights(weights, bh, m, M, G, G_end, DECAY, C)  # [C]
        between = exp(load_decay_sums_between(G, C))
        dA, dP = dA * between, dP * between
    dA, dP = tl.where(j < i, dA, 0.0).to(OPERAND), tl.where(j < i, dP, 0.0).to(OPERAND)

    # 2. with the states, and in pairs
    dbetas, past_to_future = tl.zeros([C], tl.float32), 0.0
    from_past, to_future = (
        tl.zeros([C], tl.float32),
        tl.zeros([C], tl.float32),
    )  # gradients of their exponents
    for channel in range(0, K, BK):
        dqs, recalls = tl.zeros([C, BK], tl.float32), tl.zeros([C, BK], tl.float32)
        writes = tl.zeros([C, BK], tl.float32)
        for column in range(0, V, BV):
            dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
            dxs = load_tile(dx, m * C, T, H * V, column, C, BV)  # [C, BV]
            us = (load_tile(errors, m * C, T, H * V, column, C, BV) * betas[:, None]).to(OPERAND)
            at = state + get_state_offsets(channel, column, V, BK, BV)
            S, D = tl.load(states + at), tl.load(dstates + at)  # [BK, BV]
            dqs += tl.dot(dos.to(OPERAND), tl.trans(S).to(OPERAND), input_precision=PRECISION)
            recalls -= tl.dot(dxs.to(OPERAND), tl.trans(S).to(OPERAND), input_precision=PRECISION)
            writes += tl.dot(us, tl.trans(D).to(OPERAND), input_precision=PRECISION)
            if DECAY != NO_DECAY:
                past_to_future += tl.sum(tl.sum(S.to(tl.float32) * D.to(tl.float32), 1), 0) * exp(G_end)
        dqs *= scale
        qs = load_tile(q, m * C, T, H * K, channel, C, BK)  # [C, BK]
        ks = load_tile(k, m * C, T, H * K, channel, C, BK)  # [C, BK]
        if DECAY != NO_DECAY:
            dqs, recalls = dqs * from_start[:, None], recalls * from_start[:, None]
            writes *= to_end[:, None]
            to_future += tl.sum(ks * writes, 1)
        dqs += tl.dot(dA, ks.to(OPERAND), input_precision=PRECISION)
        recalls += tl.dot((dP * betas[None, :]).to(OPERAND), ks.to(OPERAND), input_precision=PRECISION)
        pairs = tl.dot(tl.trans(dP), ks.to(OPERAND), input_precision=PRECISION)
        dbetas += tl.sum(ks * pairs, 1)
        pairs = pairs * betas[:, None] + tl.dot(tl.trans(dA), qs.to(OPERAND), input_precision=PRECISION)
        if DECAY != NO_DECAY:
            from_past += tl.sum(qs * dqs + ks * (recalls - pairs), 1)
        writes += pairs
        dqs += diagonal[:, None] * ks
        writes += diagonal[:, None] * qs
        store_tile(dq, dqs, m * C, T, H * K, channel, C, BK)
        store_tile(dk, recalls + writes, m * C, T, H * K, channel, C, BK)
    t = m * C + tl.arange(0, C)
    tl.store(dbeta + (b.to(tl.int64) * T + t) * H + h, dbetas, mask=t < T)
    if DECAY != NO_DECAY:
        # what reaches t, t + 1, ... passes t, and what 0, ..., t - 1 write beyond the chunk: sums in which
        # nothing cancels, since beside a hard decay's gradient all else is large
        dgs = past_to_future + tl.sum(tl.where(j >= i, from_past[None, :], 0.0), 1)
        dgs += tl.sum(tl.where(j < i, to_future[None, :], 0.0), 1)
        tl.store(dg + (b.to(tl.int64) * T + t) * H + h, dgs, mask=t < T)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    """Return the gradients of q, k, v, beta, g (in float32, or None) and the initial state.

    Args:
        q, k, v, beta, g, initial_state, scale, chunk_size, sequences: as for ``forward``.
        do: gradient of the output, ``[B, T, H, V]``, contiguous.
        dstate: gradient of the final state, ``[B, H, K, V]``, or None for zeros; given if ``sequences`` are.
    """
    B, T, H, K = q.shape
    V = v.shape[-1]
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    decay = sum_decays(g, q, C, weights=True)
    systems, layout = invert_systems(k, beta, decay, C), choose_walk_segments(k, v, C, sequences)
    starts, maps = find_states_before_segments(systems, v, initial_state, layout)
    states, errors = walk_states(systems, v, starts, initial_state, layout)
    after = find_gradients_after_segments(systems, q, do, dstate, maps, scale, layout)
    dstates, dv, dbeta, dinitial = walk_gradients(systems, q, do, errors, after, dstate, scale, layout)
    config = GRADIENTS.choose(q, v)
    dq, dk = torch.empty_like(q), torch.empty_like(k)
    dg = None if g is None else q.new_empty(B, T, H, dtype=torch.float32)
    gradients_kernel[(layout.M * B * H,)](
        q, k, do, errors, dv, beta, decay.g, decay.weights, states, dstates, dq, dk, dbeta[-1], dg,
        scale, T, H, layout.M, K, V, min(K, config.block_columns), min(V, config.block_columns), C,
        decay.kind, operand_dtype(q), decay_sum_dtype(q), dot_precision(q), **config.triton_options,
    )  # fmt: skip
    if dg is not None and g is not None and g.ndim == 1:
        dg = dg.sum((0, 1))
    return dq, dk, dv, dbeta.sum(0).to(beta.dtype), dg, dinitial
