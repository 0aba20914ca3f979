"""The backward of linear attention chunk by chunk, with no decay, one per head, or one per token and head.

The states S before each chunk are made again, the gradients D of the states after each chunk come from the
same recurrence against time (``states.py``), and then all chunks are independent. With A_ij = (q_i . k_j)
exp(G_i - G_j) and B_ij = (do_i . v_j) exp(G_i - G_j), both for j <= i::

    dv_j = scale sum_i A_ij do_i + exp(G_C - G_j) k_j D
    dq_i = scale (sum_j B_ij k_j + exp(G_i) do_i S^T)
    dk_j = scale sum_i B_ij q_i + exp(G_C - G_j) v_j D^T

The gradient of a log decay g_t is the sum of all that passes token t: from the past into this chunk, from
this chunk into the future, from past to future, and from any j < t to any i >= t of this chunk. Sums begin
anew in every chunk and leave the diagonal out. So the error of one gradient is a rounding of others in its
chunk, but not of those of the whole sequence, nor of the diagonal, beside which a hard decay's is tiny.

The gradients are derived here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.decays import decays_of_head, summed, sums_of_decays
from linattn_kernels.door import decay_dtype, precision, state_dtype
from linattn_kernels.launches import Launch, Launches, tile_of
from linattn_kernels.states import states_cut, states_of_chunks
from linattn_kernels.tiles import (
    HEAD,
    NONE,
    causal,
    described,
    square,
    sums_between,
    thrifty_exp,
)

BACKWARD = Launches(half=Launch(64, 4, 2), full=Launch(32, 8, 1), small=Launch(64, 4, 1, registers=168))


@triton.jit
def backward_kernel(
    q, k,  # described [B, T, H, K]
    v, do,  # described [B, T, H, V]
    g,  # as in ``Decay``
    states, dstates,  # [B H, M, K, V]: S before each chunk, D after it
    dq, dk,  # described [B, T, H, K], written
    dv,  # described [B, T, H, V], written
    dg,  # [B, T, H], written
    scale, T, H, M,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
    KIND: tl.constexpr, NEEDS_DG: tl.constexpr,
    STATE: tl.constexpr, SUMS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """All gradients of one chunk of one head."""
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
    if KIND == NONE:
        A, B = causal(A * scale, C), causal(B * scale, C)
    else:
        g = decays_of_head(g, bh, h, M, KIND, C)
        G, whole = sums_of_decays(g, m, T, KIND, C, SUMS)  # [C], []
        from_past, to_future = thrifty_exp(G) * scale, thrifty_exp(whole - G)  # [C]
        between = thrifty_exp(sums_between(G, C)) * scale
        A *= between
        if NEEDS_DG:
            i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
            pairs = tl.where(j < i, A * B, 0.0)
            rises, leaves = tl.sum(pairs, 1) - tl.sum(pairs, 0), tl.zeros([C], tl.float32)
            through = tl.zeros([BK], tl.float32)
        B *= between
    A, B = A.to(STATE), B.to(STATE)

    # 2. queries and keys
    for row in range(0, K, BK):
        dqs, dks = tl.zeros([C, BK], tl.float32), tl.zeros([C, BK], tl.float32)
        for column in range(0, V, BV):
            vs = v.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
            dos = do.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
            at = square(row, column, V, BK, BV)
            S, D = tl.load(states + at), tl.load(dstates + at)  # [BK, BV]
            dqs += tl.dot(dos.to(STATE), tl.trans(S), input_precision=PRECISION)
            dks += tl.dot(vs.to(STATE), tl.trans(D), input_precision=PRECISION)
            if NEEDS_DG:
                through += tl.sum(S.to(tl.float32) * D.to(tl.float32), 1)
        qs = q.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
        ks = k.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
        if KIND == NONE:
            dqs *= scale
        else:
            dqs *= from_past[:, None]
            dks *= to_future[:, None]
        if NEEDS_DG:
            rises += tl.sum(qs * dqs, 1)
            leaves += tl.sum(ks * dks, 1)
        dqs += tl.dot(B, ks.to(STATE), input_precision=PRECISION)
        dks += tl.dot(tl.trans(B), qs.to(STATE), input_precision=PRECISION)
        dq.store([b, first, h * K + row], dqs.to(dq.dtype).reshape(1, C, BK))
        dk.store([b, first, h * K + row], dks.to(dk.dtype).reshape(1, C, BK))
    if NEEDS_DG:
        dgs = tl.cumsum(rises, 0, reverse=True) + (tl.cumsum(leaves, 0) - leaves)
        dgs += thrifty_exp(whole) * tl.sum(through, 0)
        t = m * C + tl.arange(0, C)
        tl.store(dg + (b.to(tl.int64) * T + t) * H + h, dgs, mask=t < T)

    # 3. values
    for column in range(0, V, BV):
        dvs = tl.zeros([C, BV], tl.float32)
        for row in range(0, K, BK):
            ks = k.load([b, first, h * K + row]).reshape(C, BK)  # [C, BK]
            D = tl.load(dstates + square(row, column, V, BK, BV))  # [BK, BV]
            dvs += tl.dot(ks.to(STATE), D, input_precision=PRECISION)
        dos = do.load([b, first, h * V + column]).reshape(C, BV)  # [C, BV]
        if KIND != NONE:
            dvs *= to_future[:, None]
        dvs += tl.dot(tl.trans(A), dos.to(STATE), input_precision=PRECISION)
        dv.store([b, first, h * V + column], dvs.to(dv.dtype).reshape(1, C, BV))


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
    """Gradients of q, k, v, g (float32, or None) and the start state, for those of output and last state."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    launch = BACKWARD.of(q, v)
    BK, BV = min(K, launch.columns), min(V, launch.columns)
    c = states_cut(q, v, tile_of(q, v, chunk_size, full=32))
    decay = summed(g, q, c.C)
    states, _ = states_of_chunks(k, v, decay, start, c)
    dstates, dstart = states_of_chunks(q, do, decay, dend, c, factor=scale, backward=True)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dg = q.new_empty(B, T, H, dtype=torch.float32) if needs_dg else None
    backward_kernel[(c.M * B * H,)](
        *(described(x, c.C, W) for x, W in ((q, BK), (k, BK), (v, BV), (do, BV))), decay.g, states, dstates,
        *(described(x, c.C, W) for x, W in ((dq, BK), (dk, BK), (dv, BV))), dg, scale, T, H, c.M,
        K, V, BK, BV, c.C, decay.kind, needs_dg,
        state_dtype(q), decay_dtype(q), precision(q), **launch.options,
    )  # fmt: skip
    if dg is not None and decay.kind == HEAD:
        dg = dg.sum((0, 1))
    return dq, dk, dv, dg, dstart
