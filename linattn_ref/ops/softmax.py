"""Causal softmax attention: three equal forms and a one-token step.

Per batch element and head, with the S tokens of the cache before the T of this call::

    o_t = sum_{j <= S + t} p_tj v_j,     p_tj = exp(scale q_t . k_j) / sum_{i <= S + t} exp(scale q_t . k_i)

Arguments that all forms share:

* ``q, k``: ``[B, T, H, K]``, ``v``: ``[B, T, H, V]``, one floating dtype;
* ``scale``: factor on the scores; None is ``K ** -0.5`` (Vaswani et al. 2017, arXiv 1706.03762);
* ``initial_state``: a ``KVCache`` of the S tokens before, in the dtype of the inputs; None is empty.

All return ``SoftmaxResult(output [B, T, H, V], state KVCache)`` and raise ``ValueError`` naming the
argument, what came and what was expected.

Sources: the restarting recurrence is "going through a book" of arXiv 2406.16690, section 5.4, with a running
maximum added; the chunk form is the online softmax of Milakov and Gimelshein 2018 (arXiv 1805.02867) that
FlashAttention (arXiv 2205.14135) tiles.
"""

from functools import partial

import torch

from linattn_ref.ops.inputs import KVCache, SoftmaxResult, check_chunk_size, check_one_token, run_softmax
from linattn_ref.ops.shapes import Float, Tensor, shaped

# --- the three forms -------------------------------------------------------------------------------------


def parallel_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
) -> SoftmaxResult:
    """Parallel form: the whole table of scores, then a softmax of each row.

    Cost per head: about 2 T (S + T) (K + V) operations in one step; memory T (S + T).
    """
    return run_softmax(_parallel, q, k, v, scale, initial_state)


def recurrent_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
) -> SoftmaxResult:
    """Recurrent form: a pass over the keys, one after the other, which starts again for every query.

    Each query carries a running maximum, denominator and output. Cost per head: S + T sequential steps of
    2 T (K + V) operations; memory T V beside the cache.
    """
    return run_softmax(partial(_over_tiles, tile=1), q, k, v, scale, initial_state)


def chunk_softmax_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    *,
    scale: float | None = None,
    initial_state: KVCache | None = None,
    chunk_size: int = 64,
) -> SoftmaxResult:
    """Chunk form: the same pass, a tile of ``chunk_size`` keys at a time (online softmax).

    Cost per head: (S + T) / C sequential steps, 2 T (S + T) (K + V) operations; memory T (C + V).
    """
    check_chunk_size(chunk_size)
    return run_softmax(partial(_over_tiles, tile=chunk_size), q, k, v, scale, initial_state)


def step_softmax_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    *,
    scale: float | None = None,
    state: KVCache | None = None,
) -> SoftmaxResult:
    """One token against the cache, for decoding. Cost per head: 2 (S + 1) (K + V), growing with S."""
    check_one_token(q)
    return run_softmax(_parallel, q, k, v, scale, state, state_name="state")


# --- their bodies: q is scaled, k and v begin with the cache ------------------------------------------------


@shaped
def _parallel(
    q: Float[Tensor, "B T H K"], k: Float[Tensor, "B L H K"], v: Float[Tensor, "B L H V"]
) -> Float[Tensor, "B T H V"]:
    scores = torch.einsum("bthk,bshk->bhts", q, k)
    scores = scores.masked_fill(_hidden(q, k), -torch.inf)
    return torch.einsum("bhts,bshv->bthv", scores.softmax(-1), v)


@shaped
def _over_tiles(
    q: Float[Tensor, "B T H K"], k: Float[Tensor, "B L H K"], v: Float[Tensor, "B L H V"], *, tile: int
) -> Float[Tensor, "B T H V"]:
    B, T, H, _ = q.shape
    o = q.new_zeros(B, H, T, v.shape[-1])  # running output, not yet divided
    d = q.new_zeros(B, H, T, 1)  # running denominator
    m = q.new_full((B, H, T, 1), -torch.inf)  # running maximum
    for start in range(0, k.shape[1], tile):
        k_tile, v_tile = k[:, start : start + tile], v[:, start : start + tile]  # [B, C, H, .]
        scores = torch.einsum("bthk,bshk->bhts", q, k_tile)
        scores = scores.masked_fill(_hidden(q, k, start, tile), -torch.inf)
        # key 0 is visible to every query, so m is finite from the first tile on
        new_m = torch.maximum(m, scores.detach().amax(-1, keepdim=True))
        weights, shrink = (scores - new_m).exp(), (m - new_m).exp()
        o = shrink * o + torch.einsum("bhts,bshv->bhtv", weights, v_tile)
        d = shrink * d + weights.sum(-1, keepdim=True)
        m = new_m
    return (o / d).movedim(1, 2)


def _hidden(
    q: Float[Tensor, "B T H K"], k: Float[Tensor, "B L H K"], start: int = 0, tile: int | None = None
) -> Tensor:
    """[T, C] mask over keys start, start + 1, ...: true where a key comes after the query.

    Query t stands at position L - T + t.
    """
    T, L = q.shape[1], k.shape[1]
    stop = L if tile is None else min(start + tile, L)
    keys = torch.arange(start, stop, device=q.device)
    return keys > torch.arange(L - T, L, device=q.device)[:, None]
