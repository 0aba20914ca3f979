"""Compute causal softmax attention, a tile of queries against a tile of keys at a time.

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

Packed sequences (``cu_seqlens``) stay where they are: each query knows the token that its sequence begins
with and sees no key before it, each key the token before which its sequence ends; loops begin and end there.

Exponentials are powers of 2, which is what the hardware has: scores and lse carry a factor log2(e).

Sources: Milakov and Gimelshein 2018 (arXiv 1805.02867) for the running softmax; FlashAttention-2 (Dao 2023,
arXiv 2307.08691, section 3) for lse alone kept and tiles side by side; there, however, many add to one dq.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.dtypes import dot_precision
from linattn_kernels.hardware import has_large_shared_memory
from linattn_kernels.launch_config import ceil_div
from linattn_kernels.launches import kernel
from linattn_kernels.operators import kernel_operator
from linattn_kernels.tiles import LOG2_E, get_head_pointer, load_tile, store_tile
from linattn_kernels.validation import (
    SOFTMAX_CHUNK_SIZES,
    check_packed,
    check_supported,
    check_supported_chunk_size,
)
from linattn_ref.ops.results import KVCache, SoftmaxResult
from linattn_ref.ops.runners import NO_PACKED_CACHE, no_autocast
from linattn_ref.ops.shapes import Float
from linattn_ref.ops.validation import check_cache, check_qkv, require, resolve_scale

OP = "chunk_softmax_attention"


class TileConfig(NamedTuple):
    """Hold what a kernel is compiled for, beside head widths.

    Attributes:
        Q: queries of a tile.
        C: keys of a tile.
        num_warps: warps of a program.
        num_stages: stages of the pipeline that loads ahead.
    """

    Q: int
    C: int
    num_warps: int
    num_stages: int


def choose_tiles(q: Tensor, v: Tensor, chunk_size: int, loop_over: str) -> TileConfig:
    """Return tiles that fit the registers and the shared memory, for a loop over "keys" or over "queries"."""
    if q.dtype == torch.float32:  # no matrix unit is exact, and without one operands fill the registers
        return TileConfig(16, chunk_size if has_large_shared_memory(q) else min(chunk_size, 64), 8, 1)
    if not has_large_shared_memory(q):
        return TileConfig(32, chunk_size, 8, 2)
    elements = chunk_size * (q.shape[-1] + v.shape[-1])  # in a tile of keys and values
    if loop_over == "keys":
        return TileConfig(128, chunk_size, 8, 3 if elements <= 64 * 256 else 2)
    return TileConfig(32, chunk_size, 8, 3) if elements > 64 * 128 else TileConfig(64, chunk_size, 4, 2)


# --- the kernels: k and v have L tokens, q and o the last T of them ----------------------------------------


@triton.jit
def compute_scores(
    rows, columns, queries, keys, begins, factor,
    MASKED: tl.constexpr, PACKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the scores of all rows with all columns: -inf where a query does not see a key.

    If MASKED a key may come after the query, if PACKED before ``begins``, where the query's sequence begins.
    """
    scores = tl.dot(rows, tl.trans(columns), input_precision=PRECISION) * factor
    if MASKED:
        scores = tl.where(keys <= queries, scores, float("-inf"))
    if PACKED:
        scores = tl.where(keys >= begins, scores, float("-inf"))
    return scores


@triton.jit
def find_first_key(starts, first, t, T, C: tl.constexpr, PACKED: tl.constexpr):
    """Return the tile of the first key that queries see, and where the sequence of each begins, [Q, 1]."""
    if PACKED:
        first_key = tl.load(starts + first) // C * C
        begins = tl.load(starts + t, mask=t < T, other=0)[:, None]
    else:
        first_key = 0
        begins = t[:, None]
    return first_key, begins


@kernel
def forward_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, o,  # [B, L, H, V], [B, T, H, V]
    lse,  # [B, H, T]
    starts,  # [T] if PACKED: the token that the sequence of each token begins with
    factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the output of a tile of queries of one head; the tiles with the most keys go first."""
    bh, first = tl.program_id(0) % BH, (tl.cdiv(T, Q) - 1 - tl.program_id(0) // BH) * Q
    b, h = bh // H, bh % H
    q, k = get_head_pointer(q, b, h, T, H, K), get_head_pointer(k, b, h, L, H, K)
    v, o = get_head_pointer(v, b, h, L, H, V), get_head_pointer(o, b, h, T, H, V)
    t = first + tl.arange(0, Q)
    queries = (L - T + t)[:, None]  # [Q, 1], positions
    qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
    os = tl.zeros([Q, V], tl.float32)  # running output, not yet divided
    d = tl.zeros([Q], tl.float32)  # running denominator
    m = tl.full([Q], float("-inf"), tl.float32)  # running maximum
    first_masked = (L - T + first + 1) // C * C  # every query sees all keys before this one
    last = min(L - T + first + Q, L)
    first_key, begins = find_first_key(starts, first, t, T, C, PACKED)
    for MASKED in tl.static_range(2):
        for j in range(first_masked if MASKED else first_key, last if MASKED else first_masked, C):
            ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
            vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
            keys = (j + tl.arange(0, C))[None, :]
            scores = compute_scores(
                qs, ks, queries, keys, begins, factor, MASKED, PACKED, PRECISION
            )  # [Q, C]
            # key 0 is visible to every query, so m is finite from the first tile on
            new_m = tl.maximum(m, tl.max(scores, 1))
            if PACKED:  # but not to queries whose sequence begins after the tile
                new_m = tl.where(new_m == float("-inf"), 0.0, new_m)
            weights, rescale = tl.exp2(scores - new_m[:, None]), tl.exp2(m - new_m)
            os = rescale[:, None] * os + tl.dot(weights.to(vs.dtype), vs, input_precision=PRECISION)
            d = rescale * d + tl.sum(weights, 1)
            m = new_m
    store_tile(o, os / d[:, None], first, T, H * V, 0, Q, V)
    tl.store(lse + bh.to(tl.int64) * T + t, m + tl.log2(d), mask=t < T)


@kernel
def dq_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, o, do,  # [B, L, H, V], [B, T, H, V], [B, T, H, V]
    lse, delta,  # [B, H, T]; delta is written
    dq,  # [B, T, H, K]
    starts,  # [T] if PACKED, as in ``forward_kernel``
    scale, factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a tile of queries, in the loop of the forward."""
    bh, first = tl.program_id(0) % BH, (tl.cdiv(T, Q) - 1 - tl.program_id(0) // BH) * Q
    b, h = bh // H, bh % H
    q, k = get_head_pointer(q, b, h, T, H, K), get_head_pointer(k, b, h, L, H, K)
    v, o = get_head_pointer(v, b, h, L, H, V), get_head_pointer(o, b, h, T, H, V)
    do, dq = get_head_pointer(do, b, h, T, H, V), get_head_pointer(dq, b, h, T, H, K)
    t = first + tl.arange(0, Q)
    at = bh.to(tl.int64) * T + t
    queries = (L - T + t)[:, None]  # [Q, 1]
    qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
    dos = load_tile(do, first, T, H * V, 0, Q, V)  # [Q, V]
    lses = tl.load(lse + at, mask=t < T, other=float("inf"))[:, None]  # [Q, 1]; weights are 0 beyond T
    deltas = tl.sum(dos.to(tl.float32) * load_tile(o, first, T, H * V, 0, Q, V).to(tl.float32), 1)  # [Q]
    tl.store(delta + at, deltas, mask=t < T)
    dqs = tl.zeros([Q, K], tl.float32)
    first_masked = (L - T + first + 1) // C * C
    last = min(L - T + first + Q, L)
    first_key, begins = find_first_key(starts, first, t, T, C, PACKED)
    for MASKED in tl.static_range(2):
        for j in range(first_masked if MASKED else first_key, last if MASKED else first_masked, C):
            ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
            vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
            keys = (j + tl.arange(0, C))[None, :]
            scores = compute_scores(
                qs, ks, queries, keys, begins, factor, MASKED, PACKED, PRECISION
            )  # [Q, C]
            weights = tl.exp2(scores - lses)
            dweights = tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
            dscores = weights * (dweights - deltas[:, None])
            dqs += tl.dot(dscores.to(ks.dtype), ks, input_precision=PRECISION)
    store_tile(dq, dqs * scale, first, T, H * K, 0, Q, K)


@triton.jit
def accumulate_dot(total, a, b, PRECISION: tl.constexpr):
    """Return total + a b. In float32 the product is made first: else T roundings into the total add up."""
    if a.dtype == tl.float32:
        return tl.fma(tl.dot(a, b, input_precision=PRECISION), 1.0, total)  # a plus would be fused with it
    return total + tl.dot(a, b, input_precision=PRECISION)


@kernel
def dkdv_kernel(
    q, k,  # [B, T, H, K], [B, L, H, K]
    v, do,  # [B, L, H, V], [B, T, H, V]
    lse, delta,  # [B, H, T]
    dk, dv,  # [B, L, H, K], [B, L, H, V]
    starts, ends,  # [T] if PACKED: where the sequence of each token begins, and where it has ended
    scale, factor, T, L, H, BH,
    K: tl.constexpr, V: tl.constexpr, Q: tl.constexpr, C: tl.constexpr, PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a tile of keys, in a loop over the queries that see them.

    Scores and weights are transposed: [C, Q].
    """
    bh, j = tl.program_id(0) % BH, tl.program_id(0) // BH * C
    b, h = bh // H, bh % H
    q, do = get_head_pointer(q, b, h, T, H, K), get_head_pointer(do, b, h, T, H, V)
    k, dk = get_head_pointer(k, b, h, L, H, K), get_head_pointer(dk, b, h, L, H, K)
    v, dv = get_head_pointer(v, b, h, L, H, V), get_head_pointer(dv, b, h, L, H, V)
    keys = (j + tl.arange(0, C))[:, None]  # [C, 1]
    ks = load_tile(k, j, L, H * K, 0, C, K)  # [C, K]
    vs = load_tile(v, j, L, H * V, 0, C, V)  # [C, V]
    dks = tl.zeros([C, K], tl.float32)
    dvs = tl.zeros([C, V], tl.float32)
    first_query = max(j - (L - T), 0) // Q * Q  # the tile of the first query that sees a key
    end = T  # no later query sees a key
    if PACKED:
        end = tl.load(ends + min(j + C, T) - 1)
    first_unmasked = min(tl.cdiv(max(j + C - 1 - (L - T), 0), Q) * Q, end)  # tiles from here on see all keys
    for MASKED in tl.static_range(2):
        for first in range(first_query if MASKED else first_unmasked, first_unmasked if MASKED else end, Q):
            t = first + tl.arange(0, Q)
            _, begins = find_first_key(starts, first, t, T, C, PACKED)
            at = bh.to(tl.int64) * T + t
            qs = load_tile(q, first, T, H * K, 0, Q, K)  # [Q, K]
            dos = load_tile(do, first, T, H * V, 0, Q, V)  # [Q, V]
            lses = tl.load(lse + at, mask=t < T, other=float("inf"))[None, :]  # [1, Q]
            deltas = tl.load(delta + at, mask=t < T, other=0.0)[None, :]  # [1, Q]
            queries = (L - T + t)[None, :]
            scores = compute_scores(
                ks, qs, queries, keys, tl.trans(begins), factor, MASKED, PACKED, PRECISION
            )  # [C, Q]
            weights = tl.exp2(scores - lses)
            dvs = accumulate_dot(dvs, weights.to(dos.dtype), dos, PRECISION)
            dweights = tl.dot(vs, tl.trans(dos), input_precision=PRECISION)
            dscores = weights * (dweights - deltas)
            dks = accumulate_dot(dks, dscores.to(qs.dtype), qs, PRECISION)
    store_tile(dk, dks * scale, j, L, H * K, 0, C, K)
    store_tile(dv, dvs, j, L, H * V, 0, C, V)


# --- their launchers, as operators of PyTorch --------------------------------------------------------------


@kernel_operator("softmax_forward")
def softmax_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts: Tensor | None,
    ends: Tensor | None,
    scale: float,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[B, T, H, V]`` and log2(sum_j exp(scores_tj)) of each query, ``[B, H, T]``.

    ``starts`` and ``ends`` ``[T]``, of packed sequences, say where that of each token begins, and has ended.
    """
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, T, H, K), (_, L, _, V) = q.shape, v.shape
    o, lse = q.new_empty(B, T, H, V), q.new_empty(B, H, T, dtype=torch.float32)
    config = choose_tiles(q, v, chunk_size, loop_over="keys")
    forward_kernel[(B * H * ceil_div(T, config.Q),)](
        q, k, v, o, lse, starts, scale * LOG2_E.value, T, L, H, B * H, K, V, config.Q, config.C,
        starts is not None, dot_precision(q), num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return o, lse


@softmax_forward.register_fake
def _(q, k, v, starts, ends, scale, chunk_size):
    B, T, H, _ = q.shape
    return q.new_empty(B, T, H, v.shape[-1]), q.new_empty(B, H, T, dtype=torch.float32)


@kernel_operator("softmax_backward")
def softmax_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts: Tensor | None,
    ends: Tensor | None,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    scale: float,
    chunk_size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v. It has no gradient of its own, so a second derivative raises."""
    q, k, v, o, do = (x.contiguous() for x in (q, k, v, o, do))
    (B, T, H, K), (_, L, _, V) = q.shape, v.shape
    dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
    config = choose_tiles(q, v, chunk_size, loop_over="keys")
    dq_kernel[(B * H * ceil_div(T, config.Q),)](
        q, k, v, o, do, lse, delta, dq, starts, scale, scale * LOG2_E.value, T, L, H, B * H,
        K, V, config.Q, config.C, starts is not None, dot_precision(q),
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    config = choose_tiles(q, v, chunk_size, loop_over="queries")
    dkdv_kernel[(B * H * ceil_div(L, config.C),)](
        q, k, v, do, lse, delta, dk, dv, starts, ends, scale, scale * LOG2_E.value, T, L, H, B * H,
        K, V, config.Q, config.C, starts is not None, dot_precision(q),
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return dq, dk, dv


@softmax_backward.register_fake
def _(q, k, v, starts, ends, o, lse, do, scale, chunk_size):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save_for_backward(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs, the output and one number a query."""
    *tensors, ctx.scale, ctx.chunk_size = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, do: Tensor | None, dlse: None) -> tuple[Tensor | None, ...]:
    """Return the gradients of all inputs of ``softmax_forward``, None where there is none."""
    if do is None:
        return (None,) * 7
    return *softmax_backward(*ctx.saved_tensors, do, ctx.scale, ctx.chunk_size), None, None, None, None


softmax_forward.register_autograd(_backward, setup_context=_save_for_backward)


def find_bounds(cu_seqlens: Tensor, T: int) -> tuple[Tensor, Tensor]:
    """Return for each of T packed tokens where its sequence begins, and where it has ended, ``[T]`` each."""
    ends = cu_seqlens.to(torch.int32)[1:].contiguous()
    n = torch.searchsorted(ends, torch.arange(T, dtype=torch.int32, device=ends.device), right=True)
    return torch.nn.functional.pad(ends, (1, 0))[n], ends[n]


def append_to_cache(cache: KVCache | None, k: Tensor, v: Tensor) -> KVCache:
    """Return a new cache: k and v after those of ``cache``."""
    if cache is None:
        return KVCache(k, v)
    with no_autocast(k.device):  # autocast to bfloat16 has no rule for torch.cat of float16
        return KVCache(torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1))


def chunk_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
) -> SoftmaxResult:
    """Compute causal softmax attention by fused Triton kernels: ``linattn_ref.ops.chunk_softmax_attention``.

    Per batch element and head, with the S tokens of the cache before the T of this call::

        o_t = sum_{j <= S + t} p_tj v_j
        p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

    It runs on NVIDIA GPUs of compute capability 8.0 or later (tuned and tested on Hopper), has gradients of
    all tensors but no second derivatives, and works under autocast and ``torch.compile``. A tensor that is
    not contiguous is copied. Cost per head: 2 T (S + T / 2) (K + V) operations, half of the table for an
    empty cache. Memory: T (V + 1) numbers beside the inputs, forward and backward.

    A NaN or infinity in a value reaches earlier outputs, back to the tile of queries (16 to 128 of them) in
    which the first token of its tile of ``chunk_size`` keys lies (a weight of 0 x NaN is NaN). In a key it
    reaches no earlier output. Packed sequences that share a tile are no bound for a NaN in a value.

    Args:
        q: queries, ``[B, T, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype; V is 16, 32, 64 or 128.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the
            dtype of the inputs, as an earlier call returned it. None is an empty cache.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone, from an empty cache. On a GPU the numbers are not checked, unless
            the environment has ``LINATTN_CHECK_VALUES=1``: the host does not wait.
        chunk_size: keys of a tile, 16, 32, 64 or 128; it changes cost and rounding.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        T tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Milakov and Gimelshein 2018, arXiv 1805.02867 (online softmax); Dao 2023, arXiv 2307.08691, section 3
        (FlashAttention-2); the sums of the gradients are ordered as in the head of ``softmax.py``.

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> q = k = torch.zeros(1, 4, 1, 16)  # equal scores: the mean of the values so far
        >>> v = torch.arange(4.0).view(1, 4, 1, 1).expand(1, 4, 1, 16)
        >>> output, cache = chunk_softmax_attention(q, k, v)
        >>> output[0, :, 0, 0].tolist(), list(cache.k.shape)
        ([0.0, 0.5, 1.0, 1.5], [1, 4, 1, 16])
    """
    check_qkv(q, k, v)
    check_supported(OP, q, v)
    check_supported_chunk_size(OP, chunk_size, SOFTMAX_CHUNK_SIZES)
    bounds: tuple[Tensor | None, Tensor | None] = None, None
    if cu_seqlens is not None:
        check_packed(cu_seqlens, q)
        require(initial_state is None, "initial_state", "a cache", NO_PACKED_CACHE)
        bounds = find_bounds(cu_seqlens, q.shape[1])
    if initial_state is not None:
        check_cache(initial_state, q, v)
    cache = append_to_cache(initial_state, k, v)
    o, _ = softmax_forward(q, cache.k, cache.v, *bounds, resolve_scale(scale, q.shape[-1]), chunk_size)
    return SoftmaxResult(o, cache)
