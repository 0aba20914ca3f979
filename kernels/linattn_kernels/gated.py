"""Linear attention in chunk form with a decay per channel, ``log_decay [B, T, H, K]`` (GLA, HGRN2).

Forward: ``pairs.py`` makes, for all chunks at once, their scores, scale A, and q and k weighted by the way to
the chunk's start and end. Then a kernel walks with the state, as in ``linear.py``::

    o_i = sum_j scale A_ij v_j + (scale q_i exp(G_i)) S
    S <- exp(G_C) S + sum_j (k_j exp(G_C - G_j))^T v_j

Backward: all that is made again; then states S and their gradients D, from ``states.py``; then all chunks are
independent. v has it as easy as in ``linear.py``, with the scores in place. For q, k and g the scores are
taken apart as they were made: a mild chunk as one product; a hard one, in a second run, in blocks and level
by level. With B_ij = scale do_i . v_j, in the terms of ``pairs.py``::

    dX_i = sum_j B_ij X_j in odd halves,   dX_j = sum_i B_ij X_i in even ones

and X_i dX_i, X_j dX_j are the gradients of the exponents. The diagonal, where nothing decays, is kept out of
them: under hard decays the gradient of g is tiny beside it.

Source: Yang et al. 2023 (arXiv 2312.06635, section 4) for the model and its chunk form; the gradients are
derived here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.door import decay_dtype, mildness, precision, state_dtype
from linattn_kernels.launches import Launch, Launches, cut, tile_of
from linattn_kernels.pairs import apart, from_inside, is_odd, mild_level, to_middle, together, weighted
from linattn_kernels.states import segments_alone, state_before, states_cut, states_of_chunks
from linattn_kernels.tiles import (
    CHANNEL,
    bounded,
    described,
    exp,
    head_of,
    last_row,
    load_tile,
    square,
    store_tile,
)

FORWARD = Launches(half=Launch(128, 4, 2), full=Launch(16, 8, 1), lean=Launch(64, 4, 2))
BACKWARD_V = Launches(half=Launch(128, 4, 1), full=Launch(16, 8, 1))
BACKWARD = Launches(half=Launch(32, 4, 1, registers=168), full=Launch(32, 8, 1))
HARD_BACKWARD = Launches(half=Launch(32, 4, 1), full=Launch(32, 8, 1))

# --- forward ----------------------------------------------------------------------------------------------


@triton.jit
def forward_kernel(
    scores,  # described [B, T, H, C]
    q, k,  # described [B, T, H, K], weighted: from_past and to_future
    v, o,  # described [B, T, H, V]
    whole,  # [B, M, H, K]
    start,  # [B H, K, V], or nothing for an empty state
    ends, spans,  # of segments alone, see ``states.py``
    end,  # [B H, K, V]
    H, M, N, PER,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    HAS_START: tl.constexpr, STATE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Columns of V of one head, through one segment."""
    bh, segment = tl.program_id(0) // (V // BV), tl.program_id(1)
    column = tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    whole = head_of(whole, b, h, M, H, K) + tl.arange(0, K)
    block = square(0, column, V, K, BV)
    S = state_before(start, ends, spans, bh, segment, N, 0, column, K, V, K, BV, CHANNEL, False, HAS_START)
    for m in range(segment * PER, min(segment * PER + PER, M)):
        A = scores.load([b, m * C, h * C]).reshape(C, C)
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = v.load([b, m * C, h * V + column]).reshape(C, BV)
        os = tl.dot(A, vs.to(STATE), input_precision=PRECISION)  # [C, BV]
        os += tl.dot(qs.to(STATE), S.to(STATE), input_precision=PRECISION)
        o.store([b, m * C, h * V + column], os.to(vs.dtype).reshape(1, C, BV))
        S *= exp(tl.load(whole + tl.cast(m, tl.int64) * H * K))[:, None]
        S += tl.dot(tl.trans(ks), vs, input_precision=PRECISION)
    if segment == N - 1:
        tl.store(end + bh.to(tl.int64) * K * V + block, S)


def forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor | None, scale: float, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Output ``[B, T, H, V]`` and last state ``[B, H, K, V]``; all inputs contiguous."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    launch = FORWARD.of(q, v)
    BV = min(V, launch.columns)
    c = cut(T, tile_of(q, v, chunk_size, full=16), B * H * (V // BV), launch, q)
    w = weighted(q, k, g, scale, c)
    segments = segments_alone(w.to_future, v, w.decay, c)
    o, end = torch.empty_like(v), q.new_empty(B, H, K, V, dtype=torch.float32)
    forward_kernel[(B * H * (V // BV), c.N)](
        described(w.scores, c.C, c.C), described(w.from_past, c.C, K), described(w.to_future, c.C, K),
        described(v, c.C, BV), described(o, c.C, BV), w.decay.g, start, *segments, end, H, c.M, c.N, c.per,
        K, V, BV, c.C, start is not None, state_dtype(q), precision(q), **launch.options,
    )  # fmt: skip
    return o, end


# --- backward ---------------------------------------------------------------------------------------------


@triton.jit
def backward_v_kernel(
    scores,  # [B, T, H, C]
    k,  # [B, T, H, K], weighted: to_future
    v, do,  # [B, T, H, V]
    dstates,  # [B H, M, K, V]: gradient of the state after each chunk
    dv,  # [B, T, H, V], written
    dscores,  # [B, T, H, C], written: B_ij of the later i and the earlier j, either way round
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    STATE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dv_j = sum_i A_ij do_i + exp(G_C - G_j) k_j D, and the gradients of the scores, of one chunk."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    scores, k = head_of(scores, b, h, T, H, C), head_of(k, b, h, T, H, K)
    v, do, dv = head_of(v, b, h, T, H, V), head_of(do, b, h, T, H, V), head_of(dv, b, h, T, H, V)
    B = tl.zeros([C, C], tl.float32)
    for column in range(0, V, BV):
        A = load_tile(scores, m * C, T, H * C, 0, C, C)  # [C, C]
        ks = load_tile(k, m * C, T, H * K, 0, C, K)  # [C, K]
        vs = load_tile(v, m * C, T, H * V, column, C, BV)  # [C, BV]
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        D = tl.load(dstates + tl.program_id(0).to(tl.int64) * K * V + square(0, column, V, K, BV))  # [K, BV]
        dvs = tl.dot(tl.trans(A), dos.to(STATE), input_precision=PRECISION)
        dvs += tl.dot(ks.to(STATE), D, input_precision=PRECISION)
        store_tile(dv, dvs, m * C, T, H * V, column, C, BV)
        B += tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    B = (B * scale).to(dscores.dtype.element_ty)
    store_tile(head_of(dscores, b, h, T, H, C), tl.where(j <= i, B, tl.trans(B)), m * C, T, H * C, 0, C, C)


@triton.jit
def backward_kernel(
    q, k, g,  # [B, T, H, K]
    v, do,  # [B, T, H, V]
    dscores,  # [B, T, H, C]
    states, dstates,  # [B H, M, K, V]: S before each chunk, D after it
    dq, dk, dg,  # [B, T, H, K], written
    hard,  # [B H M, K / BK], written if not HARD, as in ``scores_kernel``
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    LEVELS: tl.constexpr, HARD: tl.constexpr, STATE: tl.constexpr, SUMS: tl.constexpr, MILD: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of q, k and g for some channels of one chunk; HARD makes those of hard chunks again."""
    if HARD:  # noqa: SIM102 - as in ``scores_kernel``
        if tl.load(hard + tl.program_id(0)) == 0:
            return
    m, bh = tl.program_id(0) // (K // BK) % M, tl.program_id(0) // (K // BK) // M
    channel = tl.program_id(0) % (K // BK) * BK
    b, h = bh // H, bh % H
    v, do = head_of(v, b, h, T, H, V), head_of(do, b, h, T, H, V)
    dscores = head_of(dscores, b, h, T, H, C)
    state = (bh.to(tl.int64) * M + m) * K * V

    # 1. what comes in from the past, what goes out to the future, what passes through
    dqs, dks = tl.zeros([C, BK], tl.float32), tl.zeros([C, BK], tl.float32)
    through = tl.zeros([BK], tl.float32)
    for column in range(0, V, BV):
        vs = load_tile(v, m * C, T, H * V, column, C, BV)  # [C, BV]
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        at = state + square(channel, column, V, BK, BV)
        S, D = tl.load(states + at), tl.load(dstates + at)  # [BK, BV]
        dqs += tl.dot(dos.to(STATE), tl.trans(S), input_precision=PRECISION)
        dks += tl.dot(vs.to(STATE), tl.trans(D), input_precision=PRECISION)
        through += tl.sum(S.to(tl.float32) * D.to(tl.float32), 1)
    qs = load_tile(head_of(q, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    ks = load_tile(head_of(k, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    gs = load_tile(head_of(g, b, h, T, H, K), m * C, T, H * K, channel, C, BK)  # [C, BK]
    gs = bounded(gs).to(SUMS)
    G = tl.cumsum(gs, 0)  # [C, BK]
    end = last_row(G, C)  # [BK]
    to_future = exp(end[None, :] - G)
    dqs *= scale * exp(G)
    dks *= to_future
    passing = qs * dqs - ks * dks  # [C, BK]
    all_leave = tl.sum(ks * dks, 0)  # [BK]

    # 2. pairs within the chunk: the diagonal, blocks, then level by level
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    rows = m * C + i
    same = tl.load(dscores + tl.cast(rows, tl.int64) * H * C + i, mask=rows < T, other=0.0)  # [C, 1]
    B = load_tile(dscores, m * C, T, H * C, 0, C, C)  # [C, C]
    dqs += same * ks
    dks += same * qs
    if HARD:
        mild = mild_level(gs, end, C, LEVELS, MILD)
        inside, near = from_inside(G, mild, C, BK), together(mild, C)
        B = tl.where(near, B, 0.0).to(dscores.dtype.element_ty)
        weight_q, weight_k = exp(inside), exp(-inside)
    else:
        tl.store(hard + tl.program_id(0), (tl.max(-end, 0) > MILD).to(tl.int8))
        weight_q, weight_k = exp(tl.minimum(G - end[None, :], MILD)), to_future
    Xq, Xk = (qs * weight_q).to(STATE), (ks * weight_k).to(STATE)
    dXq = tl.dot(tl.where(j < i, B, 0.0).to(STATE), Xk, input_precision=PRECISION)
    dXk = tl.dot(tl.where(j > i, B, 0.0).to(STATE), Xq, input_precision=PRECISION)
    passing += Xq * dXq - Xk * dXk
    dqs += dXq * weight_q
    dks += dXk * weight_k
    if HARD:
        for level in range(mild, LEVELS):
            # loaded again, since registers are full
            qs = load_tile(head_of(q, b, h, T, H, K), m * C, T, H * K, channel, C, BK)
            ks = load_tile(head_of(k, b, h, T, H, K), m * C, T, H * K, channel, C, BK)
            B = load_tile(dscores, m * C, T, H * C, 0, C, C)
            weight, odd = to_middle(G, level, C, BK), is_odd(level, C)
            X = (tl.where(odd, qs, ks) * weight).to(STATE)
            dX = tl.dot(tl.where(apart(level, C), B, 0.0).to(STATE), X, input_precision=PRECISION)
            passing += tl.where(odd, X * dX, -X * dX)
            dX *= weight
            dqs += tl.where(odd, dX, 0.0)
            dks += tl.where(odd, 0.0, dX)
    store_tile(head_of(dq, b, h, T, H, K), dqs, m * C, T, H * K, channel, C, BK)
    store_tile(head_of(dk, b, h, T, H, K), dks, m * C, T, H * K, channel, C, BK)

    # 3. a log decay acts on all that passes it: what rises from there on, has left before, or goes through
    dgs = (exp(end) * through + tl.sum(passing, 0) + all_leave)[None, :] - (tl.cumsum(passing, 0) - passing)
    store_tile(head_of(dg, b, h, T, H, K), dgs, m * C, T, H * K, channel, C, BK)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    start: Tensor | None,
    do: Tensor,
    dend: Tensor | None,
    scale: float,
    chunk_size: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, g (float32) and of the start state, for those of output and last state."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    c = states_cut(q, v, tile_of(q, v, chunk_size, full=32))
    w = weighted(q, k, g, scale, c)
    states, _ = states_of_chunks(w.to_future, v, w.decay, start, c)
    dstates, dstart = states_of_chunks(w.from_past, do, w.decay, dend, c, backward=True)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dg = torch.empty_like(q, dtype=torch.float32)
    dscores = torch.empty_like(w.scores)
    types = state_dtype(q), precision(q)
    launch = BACKWARD_V.of(q, v)
    BV = min(V, launch.columns)
    backward_v_kernel[(c.M * B * H,)](
        w.scores, w.to_future, v, do, dstates, dv, dscores, scale, T, H, c.M, K, V, BV, c.C, *types,
        **launch.options,
    )  # fmt: skip
    launches = BACKWARD.of(q, v), HARD_BACKWARD.of(q, v)  # of the same columns
    BK, BV = min(K, launches[0].columns), min(V, launches[0].columns)
    hard = q.new_empty(c.M * B * H * (K // BK), dtype=torch.int8)
    for launch, is_hard in zip(launches, (False, True), strict=True):
        backward_kernel[(c.M * B * H * (K // BK),)](
            q, k, g, v, do, dscores, states, dstates, dq, dk, dg, hard, scale, T, H, c.M, K, V, BK, BV, c.C,
            c.C.bit_length() - 1, is_hard, types[0], decay_dtype(q), mildness(q), types[1], **launch.options,
        )  # fmt: skip
    return dq, dk, dv, dg, dstart
