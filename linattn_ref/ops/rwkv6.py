"""Apply RWKV-6's recurrence: read before writing, with a bonus for the token itself.

Per batch element and head, with ``alpha_t = exp(log_decay_t)`` and a learned ``bonus`` u in R^K::

    o_t = scale * q_t (S_{t-1} + (u * k_t)^T v_t)
    S_t = alpha_t * S_{t-1} + k_t^T v_t

Linear attention with the decay one token late: what token j wrote has been through the decays of
j + 1, ..., t - 1 when token t reads it. Source: Peng et al. 2024 (arXiv 2404.05892, section 4).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from linattn_ref.ops.chunks import delay, make_empty_state
from linattn_ref.ops.linear import chunk_body
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import LinearBody, run_linear
from linattn_ref.ops.shapes import Float, Gates, Keys, State, Tensor, Values, check_shapes
from linattn_ref.ops.validation import (
    check_chunk_size,
    check_one_token,
    check_parameter,
    check_qkv,
    choose_compute_dtype,
)


def recurrent_rwkv6(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    bonus: Float[Tensor, "H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Apply RWKV-6's recurrence token after token: read, forget, write.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        o_t = scale * q_t (S_{t-1} + (bonus * k_t)^T v_t)        S in R^{K x V}
        S_t = alpha_t * S_{t-1} + k_t^T v_t

    Cost per head: T sequential steps of about 6 K V operations; memory K V.

    Args:
        q: queries, RWKV's receptance r, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        bonus: the factor u on a token's own key, ``[H, K]``, in q's dtype or in float32 (float64 beside
            float64).
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token, ``[B,
            T, H, K]`` one per channel (RWKV-6).
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2024, arXiv 2404.05892, section 4.

    Example:
        >>> q = k = v = torch.ones(1, 3, 1, 1)
        >>> output, state = recurrent_rwkv6(q, k, v, bonus=torch.full((1, 1), 0.5))
        >>> output.flatten().tolist(), state.item()
        ([0.5, 1.5, 2.5], 3.0)
    """
    return run_linear(_bind_bonus(bonus, q, k, v, _recurrent), q, k, v, log_decay, scale, initial_state)


def chunk_rwkv6(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    bonus: Float[Tensor, "H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Apply RWKV-6's recurrence by chunks: linear attention one token late, plus the bonus.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        o_t = scale * q_t (S_{t-1} + (bonus * k_t)^T v_t)        S in R^{K x V}
        S_t = alpha_t * S_{t-1} + k_t^T v_t

    Keys, values and decays are delayed by a token. Cost per head: that of ``chunk_linear_attention``.

    A NaN or infinity in a key or value reaches all outputs of its chunk, earlier ones as well (0 x NaN under
    the causal mask is NaN), and none of the chunks before.

    Args:
        q: queries, RWKV's receptance r, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        bonus: the factor u on a token's own key, ``[H, K]``, in q's dtype or in float32 (float64 beside
            float64).
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token, ``[B,
            T, H, K]`` one per channel (RWKV-6).
        scale: factor on the queries, a number. None is ``K ** -0.5``.
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
        Peng et al. 2024, arXiv 2404.05892, section 4.

    Example:
        >>> q = k = v = torch.ones(1, 3, 1, 1)
        >>> output, state = chunk_rwkv6(q, k, v, bonus=torch.full((1, 1), 0.5))
        >>> output.flatten().tolist(), state.item()
        ([0.5, 1.5, 2.5], 3.0)
    """
    check_chunk_size(chunk_size)
    body = partial(_chunk, chunk_size=chunk_size)
    return run_linear(_bind_bonus(bonus, q, k, v, body), q, k, v, log_decay, scale, initial_state)


def step_rwkv6(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    bonus: Float[Tensor, "H K"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Apply RWKV-6's recurrence to one token, from the state that the tokens before it left.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        o_t = scale * q_t (S_{t-1} + (bonus * k_t)^T v_t)        S in R^{K x V}
        S_t = alpha_t * S_{t-1} + k_t^T v_t

    Cost per head: about 6 K V operations, however many tokens came before.

    Args:
        q: queries, RWKV's receptance r, ``[B, 1, H, K]``, any floating dtype.
        k: keys, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype.
        bonus: the factor u on a token's own key, ``[H, K]``, in q's dtype or in float32 (float64 beside
            float64).
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, 1, H]`` one per token, ``[B,
            1, H, K]`` one per channel (RWKV-6).
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        state: the state before the token, ``[B, H, K, V]`` in float32 (float64 beside float64), as an
            earlier call returned it. None is zeros.

    Returns:
        ``LinearResult(output, state)``: output ``[B, 1, H, V]`` in q's dtype, and the state after the token,
        ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2024, arXiv 2404.05892, section 4.

    Example:
        >>> q = k = v = torch.ones(1, 1, 1, 1)
        >>> output, state = step_rwkv6(q, k, v, torch.full((1, 1), 0.5), state=torch.ones(1, 1, 1, 1))
        >>> output.item(), state.item()
        (1.5, 2.0)
    """
    check_one_token(q)
    return run_linear(
        _bind_bonus(bonus, q, k, v, _recurrent), q, k, v, log_decay, scale, state, state_name="state"
    )


def _bind_bonus(bonus: Tensor, q: Tensor, k: Tensor, v: Tensor, body: Callable[..., Any]) -> LinearBody:
    """Return the body with its bonus, checked and in the dtype computed in."""
    check_qkv(q, k, v)
    check_parameter(bonus, "bonus", q, tuple(q.shape[2:]))
    return partial(body, bonus=bonus.to(choose_compute_dtype(q)))


@check_shapes
def _recurrent(
    q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None, *, bonus: Float[Tensor, "H K"]
) -> tuple[Values, State]:
    """Run the recurrence: q is scaled, g is None, [B, T, H, 1] or [B, T, H, K]."""
    S = make_empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        written = k[:, t, :, :, None] * v[:, t, :, None, :]  # [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S + bonus[..., None] * written))  # read
        S = (S if g is None else g[:, t, :, :, None].exp() * S) + written  # forget, write
    return torch.stack(outputs, 1), S


@check_shapes
def _chunk(
    q: Keys,
    k: Keys,
    v: Values,
    g: Gates | None,
    S: State | None,
    *,
    bonus: Float[Tensor, "H K"],
    chunk_size: int,
) -> tuple[Values, State]:
    """Run linear attention on delayed keys, values and decays, and add each token's own bonus."""
    g_late = None if g is None else delay(g, 1)  # the first token writes and forgets nothing
    o, S = chunk_body(q, delay(k, 1), delay(v, 1), g_late, S, chunk_size=chunk_size)
    o = o + (q * bonus * k).sum(-1, keepdim=True) * v
    last = torch.einsum("bhk,bhv->bhkv", k[:, -1], v[:, -1])
    return o, (S if g is None else g[:, -1, :, :, None].exp() * S) + last
