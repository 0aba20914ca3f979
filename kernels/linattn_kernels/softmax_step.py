"""One token of softmax attention against a cache, for decoding: every key and value is read once.

A single query gives one program a head, far too few for a GPU. So the cache is cut into N slices that run
side by side. Each leaves what the running softmax would carry after it: maximum m, denominator d and output
o, not yet divided. A second kernel joins them: the same softmax once more, over slices in place of keys::

    m = max_n m_n,     o = sum_n exp(m_n - m) o_n / sum_n exp(m_n - m) d_n     (in the kernels to base 2)

With one query there is nothing for a matrix unit to do: products are sums of elementwise ones.

Sources: the join is associative by Milakov and Gimelshein 2018 (arXiv 1805.02867); cutting a decoder's cache
along its length is the idea of Flash-Decoding (Dao, Haziza, Massa and Sizov 2023).
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.door import check_kernel, multiprocessors, on_device_of_q
from linattn_kernels.softmax import chunk_softmax_attention, joined
from linattn_kernels.tiles import LOG2_E, head_of, load_tile
from linattn_ref.ops.results import KVCache, SoftmaxResult
from linattn_ref.ops.shapes import Float
from linattn_ref.ops.validation import check_cache, check_one_token, check_qkv, scale_or_default

C = 16  # keys in a tile, of one warp: sums across warps would be most of the work
MOST = 64  # slices at most, so that one tile joins them
WAVES = 32  # programs for each multiprocessor, so that enough loads are under way
SMALLEST = 64  # tokens that a new buffer has room for


# --- the kernels -------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["L", "PER"])
def slice_kernel(
    q,  # [B, 1, H, K]
    k, v,  # [B, R, H, K], [B, R, H, V]: L tokens, and room behind them
    os, ds, ms,  # [B H, N, V], [B H, N], [B H, N]
    factor, L, R, H, PER,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Keys n PER, ..., n PER + PER - 1 of one head."""
    bh, n = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    k, v = head_of(k, b, h, R, H, K), head_of(v, b, h, R, H, V)
    qs = tl.load(q + bh.to(tl.int64) * K + tl.arange(0, K)).to(tl.float32) * factor  # [K]
    o = tl.zeros([V], tl.float32)
    d = tl.zeros([1], tl.float32)
    m = tl.full([1], float("-inf"), tl.float32)
    for j in range(n * PER, min(n * PER + PER, L), C):
        ks = load_tile(k, j, L, H * K, 0, C, K).to(tl.float32)  # [C, K]
        vs = load_tile(v, j, L, H * V, 0, C, V).to(tl.float32)  # [C, V]
        scores = tl.sum(ks * qs[None, :], 1)  # [C]
        scores = tl.where(j + tl.arange(0, C) < L, scores, float("-inf"))
        new_m = tl.maximum(m, tl.max(scores, 0))
        weights, shrink = tl.exp2(scores - new_m), tl.exp2(m - new_m)  # [C], [1]
        o = shrink * o + tl.sum(weights[:, None] * vs, 0)
        d = shrink * d + tl.sum(weights, 0)
        m = new_m
    at = bh.to(tl.int64) * tl.num_programs(1) + n
    tl.store(os + at * V + tl.arange(0, V), o)
    tl.store(ds + at + tl.arange(0, 1), d)
    tl.store(ms + at + tl.arange(0, 1), m)


@triton.jit(do_not_specialize=["N"])
def join_kernel(
    os, ds, ms,  # [B H, N, V], [B H, N], [B H, N]
    o,  # [B, 1, H, V]
    N, V: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """All slices of one head."""
    bh = tl.program_id(0)
    n, column = tl.arange(0, MOST), tl.arange(0, V)
    at = bh.to(tl.int64) * N + n
    m = tl.load(ms + at, mask=n < N, other=float("-inf"))  # [MOST]
    shrink = tl.exp2(m - tl.max(m, 0))
    d = tl.sum(shrink * tl.load(ds + at, mask=n < N, other=0.0), 0)
    parts = tl.load(os + at[:, None] * V + column[None, :], mask=(n < N)[:, None], other=0.0)  # [MOST, V]
    joined = tl.sum(shrink[:, None] * parts, 0) / d  # [V]
    tl.store(o + bh.to(tl.int64) * V + column, joined.to(o.dtype.element_ty))


@torch.library.custom_op("linattn::softmax_step", mutates_args=())
@on_device_of_q
def softmax_step(q: Tensor, k: Tensor, v: Tensor, L: int, scale: float) -> Tensor:
    """Output ``[B, 1, H, V]`` of one query against the first L tokens of k and v."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, _, H, K), (_, R, _, V) = q.shape, v.shape
    tiles, wanted = triton.cdiv(L, C), triton.cdiv(WAVES * multiprocessors(q), B * H)
    per = triton.cdiv(tiles, min(tiles, wanted, MOST)) * C
    N = triton.cdiv(L, per)
    os = q.new_empty(B * H, N, V, dtype=torch.float32)
    ds, ms = q.new_empty(2, B * H, N, dtype=torch.float32)
    o = q.new_empty(B, 1, H, V)
    slice_kernel[(B * H, N)](q, k, v, os, ds, ms, scale * LOG2_E.value, L, R, H, per, K, V, C, num_warps=1)
    join_kernel[(B * H,)](os, ds, ms, o, N, V, MOST, num_warps=4)
    return o


@softmax_step.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, L: int, scale: float) -> Tensor:
    return q.new_empty(*q.shape[:3], v.shape[-1])


# --- a cache that grows in place ---------------------------------------------------------------------------


@dataclass
class Room:
    """Buffers ``[B, capacity, H, K]`` and ``[B, capacity, H, V]``, and how many tokens are in them."""

    k: Tensor
    v: Tensor
    used: int


class GrowingCache(KVCache):
    """A ``KVCache`` whose tensors are the front of a ``Room``. Only what knows its room grows in place."""

    room: Room


def grow(cache: KVCache | None, k: Tensor, v: Tensor) -> GrowingCache:
    """The cache with one more token, in place if there is room right behind it that nobody has taken yet.

    Otherwise the tokens move into buffers for the next power of two: about log2(n) times in n steps.
    """
    S = 0 if cache is None else cache[0].shape[1]
    room = getattr(cache, "room", None)
    frozen = room is not None and room.k.is_inference() and not torch.is_inference_mode_enabled()
    if room is None or frozen or room.used != S or room.k.shape[1] == S:
        capacity = triton.next_power_of_2(max(SMALLEST, S + 1))
        longer = [x.new_empty(x.shape[0], capacity, *x.shape[2:]) for x in (k, v)]
        room = Room(longer[0], longer[1], used=S)
        if cache is not None:
            room.k[:, :S], room.v[:, :S] = cache
    room.k[:, S : S + 1], room.v[:, S : S + 1], room.used = k, v, S + 1
    grown = GrowingCache(room.k[:, : S + 1], room.v[:, : S + 1])
    grown.room = room
    return grown


def step_softmax_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    *,
    scale: float | None = None,
    state: KVCache | None = None,
) -> SoftmaxResult:
    """``linattn_ref.ops.step_softmax_attention`` as fused kernels. Cost per head: 2 (S + 1) (K + V).

    The cache that comes back lies in a buffer with room, and the next step writes its token in place behind
    it. That uses the room up: a second step from the same cache is as right as the first, but copies it all.
    A cache from elsewhere is copied once, and never written into.

    Where a gradient is wanted, the step is ``chunk_softmax_attention`` and copies the cache every time; under
    ``torch.compile`` it copies too, since compiled functions have no side effects.
    """
    check_one_token(q)
    check_qkv(q, k, v)
    check_kernel("step_softmax_attention", q, v)
    if state is not None:
        check_cache(state, q, v, "state")
    factor = scale_or_default(scale, q.shape[-1])
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *(state or ())))
    if wants_gradient:
        return chunk_softmax_attention(q, k, v, scale=scale, initial_state=state)
    if torch.compiler.is_compiling():
        cache = joined(state, k, v)
        return SoftmaxResult(softmax_step(q, cache.k, cache.v, cache.k.shape[1], factor), cache)
    grown = grow(state, k, v)
    return SoftmaxResult(softmax_step(q, grown.room.k, grown.room.v, grown.room.used, factor), grown)
