"""Causal softmax attention, a tile of queries against a tile of keys at a time.

Forward: a program takes one tile of queries of one head and walks over the keys that they see. It carries the
running maximum m, denominator d and output o of ``linattn_ref.ops.chunk_softmax_attention``, so the table of
scores never leaves the chip. Beside the output it keeps one number a query, log(sum_j exp(scores_tj)).

Backward: with that number a tile of weights p_tj = exp(scores_tj - lse_t) is made again where it is needed.
With do the gradient of the output, and delta_t = do_t . o_t::

    dv_j = sum_t p_tj do_t
    dscores_tj = p_tj (do_t . v_j - delta_t)
    dq_t = scale sum_j dscores_tj k_j,     dk_j = scale sum_t dscores_tj q_t

dq is a sum over keys and dk, dv are sums over queries. So one kernel owns queries and another owns keys, each
number is written by one program, and every run gives the same bits.

Exponentials are powers of 2, which is what the hardware has: scores and lse carry a factor log2(e).

Sources: Milakov and Gimelshein 2018 (arXiv 1805.02867) for the running softmax; FlashAttention-2 (Dao 2023,
arXiv 2307.08691, section 3) for lse alone kept and tiles side by side; there, however, many add to one dq.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.door import CHUNKS, check_chunk, check_kernel, on_device_of_q, precision
from linattn_kernels.launches import roomy
from linattn_kernels.tiles import LOG2_E, head_of, load_tile, store_tile
from linattn_ref.ops.results import KVCache, SoftmaxResult
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.shapes import Float
from linattn_ref.ops.validation import check_cache, check_qkv, scale_or_default

TILES = (*CHUNKS, 128)  # of keys


class Plan(NamedTuple):
    """What a kernel is compiled for, beside widths: Q queries and C keys a tile, warps, pipeline stages."""

    Q: int
    C: int
    num_warps: int
    num_stages: int


def plan(q: Tensor, v: Tensor, chunk_size: int, over: str) -> Plan:
    """Tiles that fit the registers and the shared memory, for a walk over "keys" or over "queries"."""
    if q.dtype == torch.float32:  # no matrix unit is exact, and without one operands fill the registers
        return Plan(16, chunk_size if roomy(q) else min(chunk_size, 64), 8, 1)
    if not roomy(q):
        return Plan(32, chunk_size, 8, 2)
    numbers = chunk_size * (q.shape[-1] + v.shape[-1])  # in a tile of keys and values
    if over == "keys":
        return Plan(128, chunk_size, 8, 3 if numbers <= 64 * 256 else 2)
    return Plan(32, chunk_size, 8, 3) if numbers > 64 * 128 else Plan(64, chunk_size, 4, 2)


# --- the kernels: k and v have L tokens, q and o the last T of them ----------------------------------------


@triton.jit
def scores_of(rows, columns, queries, keys, factor, HIDES: tl.constexpr, PRECISION: tl.constexpr):
    """Scores of all rows with all columns, and -inf where a key comes after the query."""
    scores = tl.dot(rows, tl.trans(columns), input_precision=PRECISION) * factor
    if HIDES:
        scores = tl.where(keys <= queries, scores, float("-inf"))
    return scores


@triton.jit
def forward_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, o,  # [B, L, H, V], [B, T, H, V]
    lse,  # [B, H, T]
    factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of queries of one head; the tiles with the most keys go first."""
    bh, first = tl.program_id(0) % BH, (tl.cdiv(T, Q) - 1 - tl.program_id(0) // BH) * Q
    b, h = bh // H, bh % H
    q, k = head_of(q, b, h, T, H, K), head_of(k, b, h, L, H, K)
    v, o = head_of(v, b, h, L, H, V), head_of(o, b, h, T, H, V)
    t = first + tl.arange(0, Q)
    queries = (L - T + t)[:, None]  # [Q, 1], positions
    qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
    os = tl.zeros([Q, V], tl.float32)  # running output, not yet divided
    d = tl.zeros([Q], tl.float32)  # running denominator
    m = tl.full([Q], float("-inf"), tl.float32)  # running maximum
    seen = (L - T + first + 1) // C * C  # tiles up to here are seen whole by every query
    last = min(L - T + first + Q, L)
    for HIDES in tl.static_range(2):
        for j in range(seen if HIDES else 0, last if HIDES else seen, C):
            ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
            vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
            keys = (j + tl.arange(0, C))[None, :]
            scores = scores_of(qs, ks, queries, keys, factor, HIDES, PRECISION)  # [Q, C]
            # key 0 is visible to every query, so m is finite from the first tile on
            new_m = tl.maximum(m, tl.max(scores, 1))
            weights, shrink = tl.exp2(scores - new_m[:, None]), tl.exp2(m - new_m)
            os = shrink[:, None] * os + tl.dot(weights.to(vs.dtype), vs, input_precision=PRECISION)
            d = shrink * d + tl.sum(weights, 1)
            m = new_m
    store_tile(o, os / d[:, None], first, T, H * V, 0, Q, V)
    tl.store(lse + bh.to(tl.int64) * T + t, m + tl.log2(d), mask=t < T)


@triton.jit
def dq_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, o, do,  # [B, L, H, V], [B, T, H, V], [B, T, H, V]
    lse, delta,  # [B, H, T]; delta is written
    dq,  # [B, T, H, K]
    scale, factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries: the walk of the forward again."""
    bh, first = tl.program_id(0) % BH, (tl.cdiv(T, Q) - 1 - tl.program_id(0) // BH) * Q
    b, h = bh // H, bh % H
    q, k, v = head_of(q, b, h, T, H, K), head_of(k, b, h, L, H, K), head_of(v, b, h, L, H, V)
    o, do, dq = head_of(o, b, h, T, H, V), head_of(do, b, h, T, H, V), head_of(dq, b, h, T, H, K)
    t = first + tl.arange(0, Q)
    at = bh.to(tl.int64) * T + t
    queries = (L - T + t)[:, None]  # [Q, 1]
    qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
    dos = load_tile(do, first, T, H * V, 0, Q, V)  # [Q, V]
    lses = tl.load(lse + at, mask=t < T, other=float("inf"))[:, None]  # [Q, 1]; weights are 0 beyond T
    deltas = tl.sum(dos.to(tl.float32) * load_tile(o, first, T, H * V, 0, Q, V).to(tl.float32), 1)  # [Q]
    tl.store(delta + at, deltas, mask=t < T)
    dqs = tl.zeros([Q, K], tl.float32)
    seen = (L - T + first + 1) // C * C
    last = min(L - T + first + Q, L)
    for HIDES in tl.static_range(2):
        for j in range(seen if HIDES else 0, last if HIDES else seen, C):
            ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
            vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
            keys = (j + tl.arange(0, C))[None, :]
            weights = tl.exp2(scores_of(qs, ks, queries, keys, factor, HIDES, PRECISION) - lses)  # [Q, C]
            dweights = tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
            dscores = weights * (dweights - deltas[:, None])
            dqs += tl.dot(dscores.to(ks.dtype), ks, input_precision=PRECISION)
    store_tile(dq, dqs * scale, first, T, H * K, 0, Q, K)


@triton.jit
def added(total, a, b, PRECISION: tl.constexpr):
    """total + a b. In float32 the product is made first: T numbers, each rounded into the total, add up."""
    if a.dtype == tl.float32:
        return tl.fma(tl.dot(a, b, input_precision=PRECISION), 1.0, total)  # a plus would be fused again
    return total + tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def dkdv_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, do,  # [B, L, H, V], [B, T, H, V]
    lse, delta,  # [B, H, T]
    dk, dv,  # [B, L, H, K], [B, L, H, V]
    scale, factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of keys: a walk over the queries that see them. Tables are transposed."""
    bh, j = tl.program_id(0) % BH, tl.program_id(0) // BH * C
    b, h = bh // H, bh % H
    q, do = head_of(q, b, h, T, H, K), head_of(do, b, h, T, H, V)
    k, dk = head_of(k, b, h, L, H, K), head_of(dk, b, h, L, H, K)
    v, dv = head_of(v, b, h, L, H, V), head_of(dv, b, h, L, H, V)
    keys = (j + tl.arange(0, C))[:, None]  # [C, 1]
    ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
    vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
    dks = tl.zeros([C, K], tl.float32)
    dvs = tl.zeros([C, V], tl.float32)
    begin = max(j - (L - T), 0) // Q * Q  # the tile of the first query that sees a key
    whole = min(tl.cdiv(max(j + C - 1 - (L - T), 0), Q) * Q, T)  # tiles from here on see all keys
    for HIDES in tl.static_range(2):
        for first in range(begin if HIDES else whole, whole if HIDES else T, Q):
            t = first + tl.arange(0, Q)
            at = bh.to(tl.int64) * T + t
            qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
            dos = load_tile(do, first, T, H * V, 0, Q, V)  # [Q, V]
            lses = tl.load(lse + at, mask=t < T, other=float("inf"))[None, :]  # [1, Q]
            deltas = tl.load(delta + at, mask=t < T, other=0.0)[None, :]  # [1, Q]
            queries = (L - T + t)[None, :]
            weights = tl.exp2(scores_of(ks, qs, queries, keys, factor, HIDES, PRECISION) - lses)  # [C, Q]
            dvs = added(dvs, weights.to(dos.dtype), dos, PRECISION)
            dweights = tl.dot(vs, tl.trans(dos), input_precision=PRECISION)
            dscores = weights * (dweights - deltas)
            dks = added(dks, dscores.to(qs.dtype), qs, PRECISION)
    store_tile(dk, dks * scale, j, L, H * K, 0, C, K)
    store_tile(dv, dvs, j, L, H * V, 0, C, V)


# --- their launchers, as operators of PyTorch --------------------------------------------------------------


@torch.library.custom_op("linattn::softmax_forward", mutates_args=())
@on_device_of_q
def softmax_forward(q: Tensor, k: Tensor, v: Tensor, scale: float, chunk_size: int) -> tuple[Tensor, Tensor]:
    """Output ``[B, T, H, V]`` and the base-2 logarithm of each query's denominator, ``[B, H, T]``."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, T, H, K), (_, L, _, V) = q.shape, v.shape
    o, lse = q.new_empty(B, T, H, V), q.new_empty(B, H, T, dtype=torch.float32)
    p = plan(q, v, chunk_size, over="keys")
    forward_kernel[(B * H * triton.cdiv(T, p.Q),)](
        q, k, v, o, lse, scale * LOG2_E.value, T, L, H, B * H,
        K, V, p.Q, p.C, precision(q), num_warps=p.num_warps, num_stages=p.num_stages,
    )  # fmt: skip
    return o, lse


@softmax_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, scale: float, chunk_size: int) -> tuple[Tensor, Tensor]:
    B, T, H, _ = q.shape
    return q.new_empty(B, T, H, v.shape[-1]), q.new_empty(B, H, T, dtype=torch.float32)


@torch.library.custom_op("linattn::softmax_backward", mutates_args=())
@on_device_of_q
def softmax_backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, scale: float, chunk_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v. It has no gradient of its own, so a second derivative raises."""
    q, k, v, o, do = (x.contiguous() for x in (q, k, v, o, do))
    (B, T, H, K), (_, L, _, V) = q.shape, v.shape
    dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
    p = plan(q, v, chunk_size, over="keys")
    dq_kernel[(B * H * triton.cdiv(T, p.Q),)](
        q, k, v, o, do, lse, delta, dq, scale, scale * LOG2_E.value, T, L, H, B * H,
        K, V, p.Q, p.C, precision(q), num_warps=p.num_warps, num_stages=p.num_stages,
    )  # fmt: skip
    p = plan(q, v, chunk_size, over="queries")
    dkdv_kernel[(B * H * triton.cdiv(L, p.C),)](
        q, k, v, do, lse, delta, dk, dv, scale, scale * LOG2_E.value, T, L, H, B * H,
        K, V, p.Q, p.C, precision(q), num_warps=p.num_warps, num_stages=p.num_stages,
    )  # fmt: skip
    return dq, dk, dv


@softmax_backward.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, scale: float, chunk_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.scale, ctx.chunk_size = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, do: Tensor | None, dlse: None) -> tuple[Tensor | None, ...]:
    if do is None:
        return None, None, None, None, None
    return *softmax_backward(*ctx.saved_tensors, do, ctx.scale, ctx.chunk_size), None, None


softmax_forward.register_autograd(_backward, setup_context=_keep)


def joined(cache: KVCache | None, k: Tensor, v: Tensor) -> KVCache:
    """Keys and values behind those of the cache."""
    if cache is None:
        return KVCache(k, v)
    with no_autocast(k.device):  # it has no rule for float16 under a bfloat16 autocast
        return KVCache(torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1))


def chunk_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
    chunk_size: int = 64,
) -> SoftmaxResult:
    """``linattn_ref.ops.chunk_softmax_attention`` as fused kernels; ``chunk_size`` is the tile of keys.

    Cost per head: 2 T (S + T / 2) (K + V) operations, half of the table for an empty cache. Memory: T (V + 1)
    numbers beside the inputs, forward and backward.
    """
    check_qkv(q, k, v)
    check_kernel("chunk_softmax_attention", q, v)
    check_chunk("chunk_softmax_attention", chunk_size, TILES)
    if initial_state is not None:
        check_cache(initial_state, q, v)
    cache = joined(initial_state, k, v)
    o, _ = softmax_forward(q, cache.k, cache.v, scale_or_default(scale, q.shape[-1]), chunk_size)
    return SoftmaxResult(o, cache)
