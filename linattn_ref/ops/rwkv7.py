"""Apply RWKV-7's recurrence, a generalised delta rule: decay per channel, remove one key, write another.

Per batch element and head, with ``alpha_t = exp(log_decay_t)``, ``removal_t`` and ``rate_t`` in R^K::

    S_t = alpha_t * S_{t-1} - (rate_t * removal_t)^T (removal_t S_{t-1}) + k_t^T v_t        S in R^{K x V}
    o_t = scale * q_t S_t

What is removed was read from the old state, before its decay: the gate is
``Diag(alpha) - (rate removal)^T removal``, where that of the delta rule is ``(I - beta k^T k) Diag(alpha)``.
Without decay, with ``removal = k``, ``rate = beta`` and ``beta v`` for v, the two rules are one. Source: Peng
et al. 2025 (arXiv 2503.14456).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from linattn_ref.ops.chunks import (
    SUB_CHUNK,
    decay_from_start,
    decay_to_end,
    delay,
    make_empty_state,
    score_chunks,
    split_time,
)
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import LinearBody, run_linear
from linattn_ref.ops.shapes import Float, Gates, Keys, State, Tensor, Values, check_shapes
from linattn_ref.ops.validation import (
    check_chunk_size,
    check_one_token,
    check_parameter,
    check_qkv,
    choose_compute_dtype,
    require_values,
)


def recurrent_rwkv7(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    removal: Float[Tensor, "B T H K"],
    rate: Float[Tensor, "B T H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Apply RWKV-7's recurrence token after token: forget and remove, write, read.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} - (rate_t * removal_t)^T (removal_t S_{t-1}) + k_t^T v_t        S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: T sequential steps of about 8 K V operations; memory K V.

    Args:
        q: queries, RWKV's receptance r, ``[B, T, H, K]``, any floating dtype.
        k: keys, what is written under, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        removal: keys that are removed, RWKV-7's kappa, ``[B, T, H, K]``, in q's dtype or in float32 (float64
            beside float64). Longer than 1 they let the state grow: normalise them first.
        rate: what share of each channel of ``removal`` is removed, RWKV-7's in-context learning rate a,
            ``[B, T, H, K]``, finite and between 0 and 2, in q's dtype or in float32 (float64 beside float64).
            RWKV-7 stays below 1; beyond it, the state may grow where decays are hard.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token,
            ``[B, T, H, K]`` one per channel (RWKV-7).
        scale: factor on the queries, a number. None is ``K ** -0.5``; RWKV-7 has 1.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2025, arXiv 2503.14456, and its released code, which takes ``a = -removal`` and
        ``b = rate * removal``.

    Example:
        >>> k = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)  # one key, written and removed three times
        >>> v = torch.arange(1.0, 4.0).view(1, 3, 1, 1)
        >>> output, state = recurrent_rwkv7(k, k, v, removal=k, rate=torch.ones_like(k), scale=1.0)
        >>> output.flatten().tolist(), list(state.shape)
        ([1.0, 2.0, 3.0], [1, 1, 2, 1])
    """
    body = _bind_removal(_recurrent, q, k, v, removal, rate)
    return run_linear(body, q, k, v, log_decay, scale, initial_state)


def chunk_rwkv7(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    removal: Float[Tensor, "B T H K"],
    rate: Float[Tensor, "B T H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Apply RWKV-7's recurrence by chunks: a triangular system per chunk, then a state from chunk to chunk.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} - (rate_t * removal_t)^T (removal_t S_{t-1}) + k_t^T v_t        S in R^{K x V}
        o_t = scale * q_t S_t

    Each token writes twice: v under k, and minus R_i = removal_i S_{i-1}, what it recalls, under
    rate * removal. In a chunk with state S before it, let P and N be the products of its removals with
    rate * removal and with k, decayed from the one token to just before the other, and b_{i-1} the product of
    its decays before token i::

        (I + strict_lower(P)) R = strict_lower(N) V + (removal * b_{i-1}) S

    All systems are solved at once. With a decay per channel, chunks are of at most 16 tokens. Cost per head:
    about T C (8 K + 6 V) + 8 T K V operations and T / C sequential steps.

    A NaN or infinity in a key or value reaches all outputs of its chunk, earlier ones as well (0 x NaN under
    the causal mask is NaN), and none of the chunks before.

    Args:
        q: queries, RWKV's receptance r, ``[B, T, H, K]``, any floating dtype.
        k: keys, what is written under, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        removal: keys that are removed, RWKV-7's kappa, ``[B, T, H, K]``, in q's dtype or in float32 (float64
            beside float64). Longer than 1 they let the state grow: normalise them first.
        rate: what share of each channel of ``removal`` is removed, RWKV-7's in-context learning rate a,
            ``[B, T, H, K]``, finite and between 0 and 2, in q's dtype or in float32 (float64 beside float64).
            RWKV-7 stays below 1; beyond it, the state may grow where decays are hard.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token,
            ``[B, T, H, K]`` one per channel (RWKV-7).
        scale: factor on the queries, a number. None is ``K ** -0.5``; RWKV-7 has 1.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.
        chunk_size: tokens per chunk, at least 1; it changes cost, not results. T need not be a multiple of
            it.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2025, arXiv 2503.14456, and its released code, which takes ``a = -removal`` and
        ``b = rate * removal``.

    Example:
        >>> k = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)  # one key, written and removed three times
        >>> v = torch.arange(1.0, 4.0).view(1, 3, 1, 1)
        >>> output, state = chunk_rwkv7(k, k, v, removal=k, rate=torch.ones_like(k), scale=1.0)
        >>> output.flatten().tolist(), list(state.shape)
        ([1.0, 2.0, 3.0], [1, 1, 2, 1])
    """
    check_chunk_size(chunk_size)
    body = _bind_removal(partial(_chunk, chunk_size=chunk_size), q, k, v, removal, rate)
    return run_linear(body, q, k, v, log_decay, scale, initial_state)


def step_rwkv7(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    removal: Float[Tensor, "B 1 H K"],
    rate: Float[Tensor, "B 1 H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Apply RWKV-7's recurrence to one token, from the state that the tokens before it left.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} - (rate_t * removal_t)^T (removal_t S_{t-1}) + k_t^T v_t        S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: about 8 K V operations, however many tokens came before.

    Args:
        q: queries, RWKV's receptance r, ``[B, 1, H, K]``, any floating dtype.
        k: keys, what is written under, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype.
        removal: keys that are removed, RWKV-7's kappa, ``[B, 1, H, K]``, in q's dtype or in float32 (float64
            beside float64). Longer than 1 they let the state grow: normalise them first.
        rate: what share of each channel of ``removal`` is removed, RWKV-7's in-context learning rate a,
            ``[B, 1, H, K]``, finite and between 0 and 2, in q's dtype or in float32 (float64 beside float64).
            RWKV-7 stays below 1; beyond it, the state may grow where decays are hard.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, 1, H]`` one per token,
            ``[B, 1, H, K]`` one per channel (RWKV-7).
        scale: factor on the queries, a number. None is ``K ** -0.5``; RWKV-7 has 1.
        state: the state before the token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.

    Returns:
        ``LinearResult(output, state)``: output ``[B, 1, H, V]`` in q's dtype, and the state after the
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2025, arXiv 2503.14456, and its released code, which takes ``a = -removal`` and
        ``b = rate * removal``.

    Example:
        >>> k, one = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2), torch.ones(1, 1, 1, 2)
        >>> output, state = step_rwkv7(k, k, 5 * torch.ones(1, 1, 1, 1), removal=k, rate=one, scale=1.0)
        >>> output.item(), state.flatten().tolist()
        (5.0, [5.0, 0.0])
    """
    check_one_token(q)
    body = _bind_removal(_recurrent, q, k, v, removal, rate)
    return run_linear(body, q, k, v, log_decay, scale, state, state_name="state")


def _bind_removal(
    body: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, removal: Tensor, rate: Tensor
) -> LinearBody:
    """Return the body with ``removal`` and with ``rate * removal``, checked and in the dtype computed in."""
    check_qkv(q, k, v)
    for x, name in ((removal, "removal"), (rate, "rate")):
        check_parameter(x, name, q, tuple(q.shape))
    require_values(rate, "rate", 0.0, 2.0)
    removal, rate = (x.to(choose_compute_dtype(q)) for x in (removal, rate))
    return partial(body, removal=removal, eraser=rate * removal)


@check_shapes
def _recurrent(
    q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None, *, removal: Keys, eraser: Keys
) -> tuple[Values, State]:
    """Run the recurrence: q is scaled, g is None, [B, T, H, 1] or [B, T, H, K], eraser = rate * removal."""
    S = make_empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        recalled = torch.einsum("bhk,bhkv->bhv", removal[:, t], S)
        S = S if g is None else g[:, t, :, :, None].exp() * S  # forget
        S = S - eraser[:, t, :, :, None] * recalled[:, :, None, :]  # remove
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]  # write  [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))  # read
    return torch.stack(outputs, 1), S


@check_shapes
def _chunk(
    q: Keys,
    k: Keys,
    v: Values,
    g: Gates | None,
    S: State | None,
    *,
    removal: Keys,
    eraser: Keys,
    chunk_size: int,
) -> tuple[Values, State]:
    """Solve for what every token of a chunk recalls, then go from chunk to chunk."""
    T, V = v.shape[1], v.shape[3]
    S = make_empty_state(k, v) if S is None else S
    limit = min(chunk_size, SUB_CHUNK) if g is not None and g.shape[-1] > 1 else chunk_size
    C = limit if limit < T else T  # not min(limit, T), which a compiled graph would carry into every size
    g = torch.zeros_like(k[..., :1]) if g is None else g
    q, k, v, g, removal, eraser = (split_time(x, C) for x in (q, k, v, g, removal, eraser))
    heads_first = lambda x: x.transpose(2, 3)  # [B, M, H, C, .]  # noqa: E731

    # 1. what each token of a chunk recalls, as a function of the state S before the chunk: U + W S.
    #    The scores of token i + 1 stand in row i, whose decays they have been through; then one row down.
    late = removal.roll(-1, 2)
    P, N = (delay(score_chunks(late, x, g), 1, 3) for x in (eraser, k))  # [B, M, H, C, C], strictly lower
    before = decay_from_start(delay(g, 1, 2), dim=2)
    wanted = torch.cat([N @ heads_first(v), heads_first(removal * before)], -1)
    solution = torch.linalg.solve_triangular(P, wanted, upper=False, unitriangular=True)
    U, W = solution.split([V, k.shape[-1]], -1)

    # 2. from chunk to chunk: two writes, v under k and minus what is recalled under the eraser
    past, left = decay_from_start(g, dim=2), decay_to_end(g, dim=2)
    reads, kept = heads_first(q * past), past[:, :, -1, :, :, None]
    keys = heads_first(torch.cat([k * left, -eraser * left], 2))  # [B, M, H, 2 C, K]
    scores = torch.cat([score_chunks(q, k, g), -score_chunks(q, eraser, g)], -1)  # [B, M, H, C, 2 C]
    outputs = []
    for m in range(q.shape[1]):
        values = torch.cat([v[:, m].transpose(1, 2), U[:, m] + W[:, m] @ S], 2)  # [B, H, 2 C, V]
        outputs.append(reads[:, m] @ S + scores[:, m] @ values)
        S = kept[:, m] * S + keys[:, m].mT @ values
    return torch.stack(outputs, 1).transpose(2, 3).flatten(1, 2)[:, :T], S
