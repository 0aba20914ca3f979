"""Linear attention in chunk form, with no decay, a decay per head, or one per token and head.

Forward: a program takes one head and some columns of V, and walks through the chunks of a segment. The state
stays on the chip, and o is written once. Within a chunk, as in ``linattn_ref.ops.linear``::

    o_i = scale (exp(G_i) q_i S + sum_{j <= i} (q_i . k_j) exp(G_i - G_j) v_j)
    S <- exp(G_C) S + sum_j exp(G_C - G_j) k_j^T v_j

The kernel keeps S turned, and o with it: S^T q_i^T, v^T A^T and v^T k have the state and the weighted values
on the left, where the matrix unit takes a factor from registers; on the right it would have to be written to
shared memory first, in every chunk.

Backward: each gradient is linear attention again, one with time and two against it::

    dq_i = scale sum_{j <= i} (do_i . v_j) exp(G_i - G_j) k_j        do, v, k in place of q, k, v
    dk_j = scale sum_{i >= j} (v_j . do_i) exp(G_i - G_j) q_i        v, do, q
    dv_j = scale sum_{i >= j} (k_j . q_i) exp(G_i - G_j) do_i        k, q, do

The pass of dq begins with the start state, turned; that of dv with E = D / scale, where D is the gradient of
the last state, since a pass multiplies by scale all that it reads; that of dk with E turned. Against time,
the weights change places and the table turns::

    o_i = scale (exp(G_C - G_i) q_i S + sum_{j >= i} (q_i . k_j) exp(G_j - G_i) v_j)
    S <- exp(G_C) S + sum_j exp(G_j) k_j^T v_j

So the same kernel makes all three, and no state is kept. It does so where that is faster; the gradient of a
decay needs states from before and after every chunk, and float32 is slow here: see ``linear_chunks.py``.

Source: Yang et al. 2023 (arXiv 2312.06635, section 2) for the chunk form; the gradients are derived here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels import linear_chunks
from linattn_kernels.decays import Decay, decays_of_head, summed, sums_of_decays, weights_of_chunk
from linattn_kernels.door import decay_dtype, engine_writes, launched_early, precision, state_dtype
from linattn_kernels.launches import Launch, Launches, cut, tile_of
from linattn_kernels.states import segments_alone, state_before
from linattn_kernels.tiles import (
    HEAD,
    NONE,
    TOKEN,
    bounded,
    causal,
    described,
    exp,
    square,
    sums_between,
    wait_for_kernel_before,
    write_tile,
)

FORWARD = Launches(
    half=Launch(128, 8, 3),
    full=Launch(16, 8, 1),
    small=Launch(64, 4, 3, resident=2),
    lean=Launch(64, 4, 2, resident=2),
)
DKDV = Launch(64, 4, 3, resident=2)
LEAST_SCALE = 1e-30  # that a gradient in float32 can be divided by

# --- forward ----------------------------------------------------------------------------------------------


@triton.jit
def forward_kernel(
    q, k,  # described [B, T, H, K]
    v,  # described [B, T, H, V]
    o,  # [B, T, H, V], written; described if ENGINE
    g, weights,  # as in ``Decay``
    start,  # [B H, K, V], or nothing for an empty state
    ends, spans,  # of segments alone, see ``states.py``
    end,  # [B H, K, V]
    scale, T, H, M, N, PER,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    KIND: tl.constexpr, BACKWARD: tl.constexpr, HAS_START: tl.constexpr, ENGINE: tl.constexpr,
    STATE: tl.constexpr, SUMS: tl.constexpr, PRECISION: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Columns of V of one head, through one segment; BACKWARD: against time."""
    wait_for_kernel_before(EARLY)
    bh, segment = tl.program_id(0) // (V // BV), tl.program_id(1)
    column = tl.program_id(0) % (V // BV) * BV
    b, h = bh // H, bh % H
    if KIND != NONE:
        g = decays_of_head(g, bh, h, M, KIND, C)
    if KIND == HEAD:
        G = tl.arange(0, C).to(SUMS) * bounded(tl.load(g)).to(SUMS)
        between = exp(sums_between(G, C, not BACKWARD))  # [C, C]: row j, column i; in all chunks
    block = square(0, column, V, K, BV)
    S = state_before(start, ends, spans, bh, segment, N, 0, column, K, V, K, BV, KIND, BACKWARD, HAS_START)
    S = tl.trans(S)  # [BV, K]
    begin, past_end = segment * PER, min(segment * PER + PER, M)
    for n in range(begin, past_end):
        m = begin + past_end - 1 - n if BACKWARD else n
        qs = q.load([b, m * C, h * K]).reshape(C, K)
        ks = k.load([b, m * C, h * K]).reshape(C, K)
        vs = v.load([b, m * C, h * V + column]).reshape(C, BV)
        A = tl.dot(ks, tl.trans(qs), input_precision=PRECISION)  # [C, C]: row j, column i
        os = tl.dot(S.to(STATE), tl.trans(qs).to(STATE), input_precision=PRECISION)  # [BV, C]
        vs = tl.trans(vs)  # [BV, C]
        if KIND == NONE:
            A = causal(A, C, not BACKWARD)
            os += tl.dot(vs.to(STATE), A.to(STATE), input_precision=PRECISION)
        else:
            G, whole = sums_of_decays(g, m, T, KIND, C, SUMS)  # [C], []
            since, until = weights_of_chunk(weights, bh, m, M, G, whole, KIND, C)  # [C]
            if BACKWARD:
                since, until = until, since
            if KIND == TOKEN:
                between = exp(sums_between(G, C, not BACKWARD))
            A *= between
            os = os * since[None, :] + tl.dot(vs.to(STATE), A.to(STATE), input_precision=PRECISION)
            vs = (vs * until[None, :]).to(vs.dtype)
            S *= exp(whole)
        write_tile(o, tl.trans(os * scale), b, m * C, h, T, H, V, column, C, BV, ENGINE)
        S += tl.dot(vs, ks, input_precision=PRECISION)
    if segment == (0 if BACKWARD else N - 1):
        tl.store(end + bh.to(tl.int64) * K * V + block, tl.trans(S))


def forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor | None, scale: float, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Output ``[B, T, H, V]`` and last state ``[B, H, K, V]``; all inputs contiguous."""
    C = tile_of(q, v, chunk_size, full=16)
    return attended(q, k, v, summed(g, q, C, weights=True), start, scale, C)


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Decay,
    start: Tensor | None,
    scale: float,
    C: int,
    backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """The same, with the decays of chunks of C tokens; against time, if ``backward``."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    launch = FORWARD.of(q, v)
    BV = min(V, launch.columns)
    c = cut(T, C, B * H * (V // BV), launch, q)
    segments = segments_alone(k, v, decay, c, backward=backward)
    o, end = torch.empty_like(v), q.new_empty(B, H, K, V, dtype=torch.float32)
    engine = engine_writes(q) and decay.kind != TOKEN  # there, pointers are faster (NOTES.md)
    forward_kernel[(B * H * (V // BV), c.N)](
        *(described(x, c.C, W) for x, W in ((q, K), (k, K), (v, BV))), described(o, c.C, BV) if engine else o,
        decay.g, decay.weights, start, *segments, end, scale, T, H, c.M, c.N, c.per, K, V, BV, c.C,
        decay.kind, backward, start is not None, engine,
        state_dtype(q), decay_dtype(q), precision(q), **launch.options, **launched_early(q),
    )  # fmt: skip
    return o, end


# --- backward ---------------------------------------------------------------------------------------------


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    start: Tensor | None,
    do: Tensor,
    dend: Tensor | None,
    scale: float,
    chunk_size: int,
    needs_dg: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    """Gradients of q, k, v, g (float32, or None) and the start state, for those of output and last state.

    That of a start state which is None has no meaning.
    """
    if needs_dg or abs(scale) < LEAST_SCALE or q.dtype == torch.float32:
        return linear_chunks.backward(q, k, v, g, start, do, dend, scale, chunk_size, needs_dg)
    C = tile_of(q, v, chunk_size, full=16)
    decay = summed(g, q, C, weights=True)
    E = None if dend is None else dend / scale
    dq, _ = attended(do, v, k, decay, turned(start), scale, C)
    if max(q.shape[-1], v.shape[-1]) <= DKDV.columns:
        dk, dv, before = dkdv(q, k, v, do, decay, E, scale, C)
    else:
        dk, _ = attended(v, do, q, decay, turned(E), scale, C, backward=True)
        dv, before = attended(k, q, do, decay, E, scale, C, backward=True)
    return dq, dk, dv, None, before if start is None else scale * before


@triton.jit
def dkdv_kernel(
    q, k,  # described [B, T, H, K]
    v, do,  # described [B, T, H, V]
    dk,  # [B, T, H, K], written; described if ENGINE
    dv,  # [B, T, H, V], the same
    g, weights,  # as in ``Decay``
    start,  # [B H, K, V], or nothing for an empty state
    ends, spans,  # of segments alone, see ``states.py``
    end,  # [B H, K, V]
    scale, T, H, M, N, PER,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr,
    KIND: tl.constexpr, HAS_START: tl.constexpr, ENGINE: tl.constexpr,
    STATE: tl.constexpr, SUMS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Both passes against time at once, where one program has room for all columns; they share E."""
    bh, segment = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    if KIND != NONE:
        g = decays_of_head(g, bh, h, M, KIND, C)
    E = state_before(start, ends, spans, bh, segment, N, 0, 0, K, V, K, V, KIND, True, HAS_START)
    begin, past_end = segment * PER, min(segment * PER + PER, M)
    for n in range(begin, past_end):
        m = begin + past_end - 1 - n
        qs, ks = q.load([b, m * C, h * K]).reshape(C, K), k.load([b, m * C, h * K]).reshape(C, K)
        vs, dos = v.load([b, m * C, h * V]).reshape(C, V), do.load([b, m * C, h * V]).reshape(C, V)
        A = tl.dot(ks, tl.trans(qs), input_precision=PRECISION)  # [C, C]: k_j . q_i, row j, column i
        B = tl.dot(vs, tl.trans(dos), input_precision=PRECISION)  # [C, C]: v_j . do_i
        dvs = tl.dot(ks.to(STATE), E.to(STATE), input_precision=PRECISION)  # [C, V]
        dks = tl.dot(vs.to(STATE), tl.trans(E.to(STATE)), input_precision=PRECISION)  # [C, K]
        if KIND == NONE:
            A, B = causal(A, C, True), causal(B, C, True)
        else:
            G, whole = sums_of_decays(g, m, T, KIND, C, SUMS)  # [C], []
            until, since = weights_of_chunk(weights, bh, m, M, G, whole, KIND, C)  # [C]
            between = exp(sums_between(G, C, True))
            A, B = A * between, B * between
            dvs, dks = dvs * since[:, None], dks * since[:, None]
            E *= exp(whole)
        dvs += tl.dot(A.to(STATE), dos.to(STATE), input_precision=PRECISION)
        dks += tl.dot(B.to(STATE), qs.to(STATE), input_precision=PRECISION)
        write_tile(dv, dvs * scale, b, m * C, h, T, H, V, 0, C, V, ENGINE)
        write_tile(dk, dks * scale, b, m * C, h, T, H, K, 0, C, K, ENGINE)
        if KIND != NONE:
            dos = (dos * until[:, None]).to(dos.dtype)
        E += tl.dot(tl.trans(qs), dos, input_precision=PRECISION)
    if segment == 0:
        tl.store(end + bh.to(tl.int64) * K * V + square(0, 0, V, K, V), E)


def dkdv(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, decay: Decay, E: Tensor | None, scale: float, C: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of k and v, and E before the first token; the E given is that behind the last."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    c = cut(T, C, B * H, DKDV, q)
    segments = segments_alone(q, do, decay, c, backward=True)
    dk, dv, before = torch.empty_like(k), torch.empty_like(v), q.new_empty(B, H, K, V, dtype=torch.float32)
    engine = engine_writes(q)
    dkdv_kernel[(B * H, c.N)](
        *(described(x, c.C, K) for x in (q, k)), *(described(x, c.C, V) for x in (v, do)),
        *(described(x, c.C, W) if engine else x for x, W in ((dk, K), (dv, V))),
        decay.g, decay.weights, E, *segments, before, scale, T, H, c.M, c.N, c.per, K, V, c.C, decay.kind,
        E is not None, engine, state_dtype(q), decay_dtype(q), precision(q), **DKDV.options,
    )  # fmt: skip
    return dk, dv, before


def turned(state: Tensor | None) -> Tensor | None:
    """[B, H, V, K] of [B, H, K, V]."""
    return None if state is None else state.mT.contiguous()
