"""Compute causal softmax attention, in three equal forms and a one-token step.

Per batch element and head, with the S tokens of the cache before the T of this call::

    o_t = sum_{j <= S + t} p_tj v_j,     p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

Sources: Vaswani et al. 2017 (arXiv 1706.03762); the restarting recurrence is "going through a book" of arXiv
2406.16690, section 5.4, with a running maximum added; the chunk form is the online softmax of Milakov and
Gimelshein 2018 (arXiv 1805.02867) that FlashAttention (arXiv 2205.14135) tiles.
"""

from functools import partial

import torch

from linattn_ref.ops.results import KVCache, SoftmaxResult
from linattn_ref.ops.runners import run_softmax
from linattn_ref.ops.shapes import Float, Keys, Tensor, Values, check_shapes
from linattn_ref.ops.validation import check_chunk_size, check_one_token

# --- the three forms -------------------------------------------------------------------------------------


def parallel_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
    cu_seqlens: Tensor | None = None,
) -> SoftmaxResult:
    """Compute causal softmax attention from the whole table of scores, then a softmax of each row.

    Per batch element and head, with the S tokens of the cache before the T of this call::

        o_t = sum_{j <= S + t} p_tj v_j
        p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

    Cost per head: about 2 T (S + T) (K + V) operations in one step; memory T (S + T).

    A NaN or infinity in a value reaches all outputs of the call, earlier ones as well: a weight of 0 x NaN is
    NaN. In a key it reaches no earlier output.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the
            dtype of the inputs, as an earlier call returned it. None is an empty cache.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone, from an empty cache.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        T tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    Example:
        >>> q = k = torch.zeros(1, 4, 1, 2)  # equal scores: the mean of the values so far
        >>> output, cache = parallel_softmax_attention(q, k, v=torch.arange(4.0).view(1, 4, 1, 1))
        >>> output.flatten(), list(cache.k.shape)
        (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [1, 4, 1, 2])
    """
    return run_softmax(_parallel, q, k, v, scale, initial_state, cu_seqlens)


def recurrent_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
    cu_seqlens: Tensor | None = None,
) -> SoftmaxResult:
    """Compute causal softmax attention in a pass over all keys, restarted for every query.

    Per batch element and head, with the S tokens of the cache before the T of this call::

        o_t = sum_{j <= S + t} p_tj v_j
        p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

    Each query carries a running maximum, denominator and output. Cost per head: S + T sequential steps of 2 T
    (K + V) operations; memory T V beside the cache.

    A NaN or infinity in a value reaches all outputs of the call, earlier ones as well: a weight of 0 x NaN is
    NaN. In a key it reaches no earlier output.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the
            dtype of the inputs, as an earlier call returned it. None is an empty cache.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone, from an empty cache.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        T tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        arXiv 2406.16690, section 5.4 ("going through a book"), with a running maximum added.

    Example:
        >>> q = k = torch.zeros(1, 4, 1, 2)  # equal scores: the mean of the values so far
        >>> output, cache = recurrent_softmax_attention(q, k, v=torch.arange(4.0).view(1, 4, 1, 1))
        >>> output.flatten(), list(cache.k.shape)
        (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [1, 4, 1, 2])
    """
    return run_softmax(partial(_over_tiles, tile=1), q, k, v, scale, initial_state, cu_seqlens)


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
    """Compute causal softmax attention in a pass over tiles of keys (online softmax).

    Per batch element and head, with the S tokens of the cache before the T of this call::

        o_t = sum_{j <= S + t} p_tj v_j
        p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

    Cost per head: (S + T) / C sequential steps with C = ``chunk_size``, 2 T (S + T) (K + V) operations;
    memory T (C + V).

    A NaN or infinity in a value reaches all outputs of the call, earlier ones as well: a weight of 0 x NaN is
    NaN. In a key it reaches no earlier output.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the
            dtype of the inputs, as an earlier call returned it. None is an empty cache.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone, from an empty cache.
        chunk_size: keys per tile, at least 1; it changes cost, not results. S + T need not be a multiple of
            it.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        T tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Milakov and Gimelshein 2018, arXiv 1805.02867 (online softmax); Dao et al. 2022, arXiv 2205.14135
        (FlashAttention, which tiles it).

    Example:
        >>> q = k = torch.zeros(1, 4, 1, 2)  # equal scores: the mean of the values so far
        >>> output, cache = chunk_softmax_attention(q, k, v=torch.arange(4.0).view(1, 4, 1, 1))
        >>> output.flatten(), list(cache.k.shape)
        (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [1, 4, 1, 2])
    """
    check_chunk_size(chunk_size)
    return run_softmax(partial(_over_tiles, tile=chunk_size), q, k, v, scale, initial_state, cu_seqlens)


def step_softmax_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    *,
    scale: float | None = None,
    state: KVCache | None = None,
) -> SoftmaxResult:
    """Compute causal softmax attention for one token against the cache.

    Per batch element and head, with the S tokens of the cache before the T of this call::

        o_t = sum_{j <= S + t} p_tj v_j
        p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

    Cost per head: 2 (S + 1) (K + V) operations, growing with S.

    Args:
        q: queries, ``[B, 1, H, K]``, any floating dtype.
        k: keys, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        state: ``KVCache`` of the S tokens before, ``k [B, S, H, K]`` and ``v [B, S, H, V]`` in the dtype of
            the inputs, as an earlier call returned it. None is an empty cache.

    Returns:
        ``SoftmaxResult(output, state)``: output ``[B, 1, H, V]`` in q's dtype, and the ``KVCache`` of all S +
        1 tokens.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    Example:
        >>> q = k = torch.zeros(1, 1, 1, 2)
        >>> cache = KVCache(k=torch.zeros(1, 3, 1, 2), v=torch.zeros(1, 3, 1, 1))
        >>> output, cache = step_softmax_attention(q, k, v=torch.full((1, 1, 1, 1), 4.0), state=cache)
        >>> output.item(), list(cache.k.shape)
        (1.0, [1, 4, 1, 2])
    """
    check_one_token(q)
    return run_softmax(_parallel, q, k, v, scale, state, state_name="state")


# --- their bodies: q is scaled, k and v begin with the cache ------------------------------------------------


@check_shapes
def _parallel(q: Keys, k: Float[Tensor, "B L H K"], v: Float[Tensor, "B L H V"]) -> Values:
    """Take the softmax of all scores at once: q is scaled, k and v begin with the cache."""
    scores = torch.einsum("bthk,bshk->bhts", q, k)
    scores = scores.masked_fill(_make_causal_mask(q, k), -torch.inf)
    return torch.einsum("bhts,bshv->bthv", scores.softmax(-1), v)


@check_shapes
def _over_tiles(q: Keys, k: Float[Tensor, "B L H K"], v: Float[Tensor, "B L H V"], *, tile: int) -> Values:
    """Go over tiles of keys with a running maximum, denominator and output per query."""
    B, T, H, _ = q.shape
    o = q.new_zeros(B, H, T, v.shape[-1])  # running output, not yet divided
    d = q.new_zeros(B, H, T, 1)  # running denominator
    m = q.new_full((B, H, T, 1), -torch.inf)  # running maximum
    for start in range(0, k.shape[1], tile):
        k_tile, v_tile = k[:, start : start + tile], v[:, start : start + tile]  # [B, C, H, .]
        scores = torch.einsum("bthk,bshk->bhts", q, k_tile)
        scores = scores.masked_fill(_make_causal_mask(q, k, start, tile), -torch.inf)
        # key 0 is visible to every query, so m is finite from the first tile on
        new_m = torch.maximum(m, scores.detach().amax(-1, keepdim=True))
        weights, shrink = (scores - new_m).exp(), (m - new_m).exp()
        o = shrink * o + torch.einsum("bhts,bshv->bhtv", weights, v_tile)
        d = shrink * d + weights.sum(-1, keepdim=True)
        m = new_m
    return (o / d).movedim(1, 2)


def _make_causal_mask(
    q: Float[Tensor, "B T H K"], k: Float[Tensor, "B L H K"], start: int = 0, tile: int | None = None
) -> Tensor:
    """Return the mask [T, C] over keys start, start + 1, ...: true where a key comes after the query.

    Query t stands at position L - T + t.
    """
    T, L = q.shape[1], k.shape[1]
    stop = L if tile is None else min(start + tile, L)
    keys = torch.arange(start, stop, device=q.device)
    return keys > torch.arange(L - T, L, device=q.device)[:, None]
