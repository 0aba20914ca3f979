"""Compute one token of softmax attention against a cache, for decoding: every key and value is read once.

A single query gives one program a head, far too few for a GPU. So the cache is cut into N slices that run
side by side. Each leaves what the running softmax would carry after it: maximum m, denominator d and output
o, not yet divided. A second kernel combines them: the same softmax once more, over slices in place of keys::

    m = max_n m_n,     o = sum_n exp(m_n - m) o_n / sum_n exp(m_n - m) d_n     (in the kernels to base 2)

With one query there is nothing for a matrix unit to do: products are sums of elementwise ones.

Sources: combining is associative by Milakov and Gimelshein 2018 (arXiv 1805.02867); cutting a decoder's cache
along its length is the idea of Flash-Decoding (Dao, Haziza, Massa and Sizov 2023).
"""

from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.hardware import count_multiprocessors
from linattn_kernels.launch_config import ceil_div, round_up_to_power_of_2
from linattn_kernels.launches import kernel
from linattn_kernels.operators import kernel_operator
from linattn_kernels.softmax import append_to_cache, chunk_softmax_attention
from linattn_kernels.tiles import LOG2_E, get_head_pointer, load_tile
from linattn_kernels.validation import check_supported
from linattn_ref.ops.results import KVCache, SoftmaxResult
from linattn_ref.ops.shapes import Float
from linattn_ref.ops.validation import check_cache, check_one_token, check_qkv, resolve_scale

OP = "step_softmax_attention"
KEYS_PER_TILE = 16  # of one warp: sums across warps would be most of the work
MAX_SLICES = 64  # so that one tile combines them
PROGRAMS_PER_MULTIPROCESSOR = 32  # so that enough loads are under way
MIN_CAPACITY = 64  # tokens that a new buffer has room for


# --- the kernels -------------------------------------------------------------------------------------------


@kernel(do_not_specialize=["L", "tokens_per_slice"])
def slice_kernel(
    q,  # [B, 1, H, K]
    k, v,  # [B, R, H, K], [B, R, H, V]: L tokens, and free room after them
    os, ds, ms,  # [B H, N, V], [B H, N], [B H, N]
    factor, L, R, H, tokens_per_slice,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the running softmax of slice n of one head, from key n tokens_per_slice on."""
    bh, n = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    k, v = get_head_pointer(k, b, h, R, H, K), get_head_pointer(v, b, h, R, H, V)
    qs = tl.load(q + bh.to(tl.int64) * K + tl.arange(0, K)).to(tl.float32) * factor  # [K]
    o = tl.zeros([V], tl.float32)
    d = tl.zeros([1], tl.float32)
    m = tl.full([1], float("-inf"), tl.float32)
    for j in range(n * tokens_per_slice, min(n * tokens_per_slice + tokens_per_slice, L), C):
        ks = load_tile(k, j, L, H * K, 0, C, K).to(tl.float32)  # [C, K]
        vs = load_tile(v, j, L, H * V, 0, C, V).to(tl.float32)  # [C, V]
        scores = tl.sum(ks * qs[None, :], 1)  # [C]
        scores = tl.where(j + tl.arange(0, C) < L, scores, float("-inf"))
        new_m = tl.maximum(m, tl.max(scores, 0))
        weights, rescale = tl.exp2(scores - new_m), tl.exp2(m - new_m)  # [C], [1]
        o = rescale * o + tl.sum(weights[:, None] * vs, 0)
        d = rescale * d + tl.sum(weights, 0)
        m = new_m
    at = bh.to(tl.int64) * tl.num_programs(1) + n
    tl.store(os + at * V + tl.arange(0, V), o)
    tl.store(ds + at + tl.arange(0, 1), d)
    tl.store(ms + at + tl.arange(0, 1), m)


@kernel(do_not_specialize=["N"])
def combine_slices_kernel(
    os, ds, ms,  # [B H, N, V], [B H, N], [B H, N]
    o,  # [B, 1, H, V]
    N, V: tl.constexpr, MAX_SLICES: tl.constexpr,
):  # fmt: skip
    """Combine all slices of one head."""
    bh = tl.program_id(0)
    n, column = tl.arange(0, MAX_SLICES), tl.arange(0, V)
    at = bh.to(tl.int64) * N + n
    m = tl.load(ms + at, mask=n < N, other=float("-inf"))  # [MAX_SLICES]
    rescale = tl.exp2(m - tl.max(m, 0))
    d = tl.sum(rescale * tl.load(ds + at, mask=n < N, other=0.0), 0)
    parts = tl.load(os + at[:, None] * V + column[None, :], mask=(n < N)[:, None], other=0.0)
    combined = tl.sum(rescale[:, None] * parts, 0) / d  # [V]
    tl.store(o + bh.to(tl.int64) * V + column, combined.to(o.dtype.element_ty))


@kernel_operator("softmax_step")
def softmax_step(q: Tensor, k: Tensor, v: Tensor, L: int, scale: float) -> Tensor:
    """Return the output ``[B, 1, H, V]`` of one query against the first L tokens of k and v."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, _, H, K), (_, R, _, V) = q.shape, v.shape
    C = KEYS_PER_TILE
    tiles = ceil_div(L, C)
    wanted = ceil_div(PROGRAMS_PER_MULTIPROCESSOR * count_multiprocessors(q), B * H)
    tokens_per_slice = ceil_div(tiles, min(tiles, wanted, MAX_SLICES)) * C
    N = ceil_div(L, tokens_per_slice)
    os = q.new_empty(B * H, N, V, dtype=torch.float32)
    ds, ms = q.new_empty(2, B * H, N, dtype=torch.float32)
    o = q.new_empty(B, 1, H, V)
    slice_kernel[(B * H, N)](
        q, k, v, os, ds, ms, scale * LOG2_E.value, L, R, H, tokens_per_slice, K, V, C, num_warps=1
    )
    combine_slices_kernel[(B * H,)](os, ds, ms, o, N, V, MAX_SLICES, num_warps=4)
    return o


@softmax_step.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, L: int, scale: float) -> Tensor:
    return q.new_empty(*q.shape[:3], v.shape[-1])


# --- a cache that grows in place ---------------------------------------------------------------------------


@dataclass
class CacheBuffer:
    """Hold the memory that a cache grows in.

    Attributes:
        k: ``[B, capacity, H, K]``.
        v: ``[B, capacity, H, V]``.
        used: tokens that have been written.
    """

    k: Tensor
    v: Tensor
    used: int


class GrowingCache(KVCache):
    """Hold a ``KVCache`` whose tensors are the front of a ``CacheBuffer``.

    A cache without a buffer is never written into.

    Attributes:
        buffer: the memory, which later caches of the same sequence may share.
    """

    buffer: CacheBuffer


def append_token(cache: KVCache | None, k: Tensor, v: Tensor) -> GrowingCache:
    """Return the cache with one more token, written in place if the room right after it is still free.

    Otherwise the tokens move into buffers for the next power of two: about log2(n) times in n steps.
    """
    S = 0 if cache is None else cache[0].shape[1]
    buffer = getattr(cache, "buffer", None)
    frozen = buffer is not None and buffer.k.is_inference() and not torch.is_inference_mode_enabled()
    if buffer is None or frozen or buffer.used != S or buffer.k.shape[1] == S:
        capacity = round_up_to_power_of_2(max(MIN_CAPACITY, S + 1))
        longer = [x.new_empty(x.shape[0], capacity, *x.shape[2:]) for x in (k, v)]
        buffer = CacheBuffer(longer[0], longer[1], used=S)
        if cache is not None:
            buffer.k[:, :S], buffer.v[:, :S] = cache
    buffer.k[:, S : S + 1], buffer.v[:, S : S + 1], buffer.used = k, v, S + 1
    grown = GrowingCache(buffer.k[:, : S + 1], buffer.v[:, : S + 1])
    grown.buffer = buffer
    return grown


def step_softmax_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    *,
    scale: float | None = None,
    state: KVCache | None = None,
) -> SoftmaxResult:
    """Compute one token of softmax attention by Triton kernels: ``linattn_ref.ops.step_softmax_attention``.

    Per batch element and head, with the S tokens of the cache before this one::

        o = sum_{j <= S + 1} p_j v_j
        p_j = exp(scale q . k_j) / sum_{i <= S + 1} exp(scale q . k_i)

    Cost per head: 2 (S + 1) (K + V) operations. It runs where ``chunk_softmax_attention`` runs.

    The cache that comes back lies in a buffer with free room, and the next step writes its token in place
    after it. That uses the room up: a second step from the same cache is as right as the first, but copies
    it all. A cache from elsewhere is copied once, and never written into. Where a gradient is wanted, the
    step is ``chunk_softmax_attention`` and copies the cache every time; under ``torch.compile`` it copies
    too, since compiled functions have no side effects.

    A NaN or infinity in a key or value stays in the cache and may reach all later outputs of its head. In a
    query it reaches the output of its own token alone.

    Args:
        q: queries, ``[B, 1, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype; V is 16, 32, 64 or 128.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the dtype of
            the inputs, as an earlier call returned it. None is an empty cache.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, 1, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        1 tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Milakov and Gimelshein 2018, arXiv 1805.02867, for combining parts of a softmax; Flash-Decoding (Dao,
        Haziza, Massa and Sizov 2023) for slices of the cache.

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> q = k = v = torch.zeros(1, 1, 1, 16)
        >>> output, cache = step_softmax_attention(q, k, v + 2)
        >>> output, cache = step_softmax_attention(q, k, v + 4, state=cache)
        >>> output[0, 0, 0, 0].item(), list(cache.k.shape)
        (3.0, [1, 2, 1, 16])
    """
    check_one_token(q)
    check_qkv(q, k, v)
    check_supported(OP, q, v)
    if state is not None:
        check_cache(state, q, v, "state")
    factor = resolve_scale(scale, q.shape[-1])
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *(state or ())))
    if wants_gradient:
        return chunk_softmax_attention(q, k, v, scale=scale, initial_state=state)
    if torch.compiler.is_compiling():
        cache = append_to_cache(state, k, v)
        return SoftmaxResult(softmax_step(q, cache.k, cache.v, cache.k.shape[1], factor), cache)
    grown = append_token(state, k, v)
    return SoftmaxResult(softmax_step(q, grown.buffer.k, grown.buffer.v, grown.buffer.used, factor), grown)
