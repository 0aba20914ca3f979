"""RWKV-6's recurrence: read before writing, with a bonus for the token itself.

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

from linattn_ref.ops.chunks import delay, empty_state
from linattn_ref.ops.inputs import (
    LinearBody,
    LinearResult,
    check_chunk_size,
    check_one_token,
    check_qkv,
    compute_dtype,
    require_like,
    require_shape,
    require_tensor,
    run_linear,
)
from linattn_ref.ops.linear import chunk_body
from linattn_ref.ops.shapes import Float, Tensor, shaped


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
    """Recurrent form: read, forget, write. The log decay is as in linear attention."""
    return run_linear(_with(bonus, q, k, v, _recurrent), q, k, v, log_decay, scale, initial_state)


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
    """Chunk form: linear attention over keys, values and decays one token late, plus the bonus."""
    check_chunk_size(chunk_size)
    body = partial(_chunk, chunk_size=chunk_size)
    return run_linear(_with(bonus, q, k, v, body), q, k, v, log_decay, scale, initial_state)


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
    """One token of the recurrent form, for decoding."""
    check_one_token(q)
    return run_linear(_with(bonus, q, k, v, _recurrent), q, k, v, log_decay, scale, state, state_name="state")


def _with(bonus: Tensor, q: Tensor, k: Tensor, v: Tensor, body: Callable[..., Any]) -> LinearBody:
    """The body with its bonus, checked and in the dtype computed in."""
    check_qkv(q, k, v)
    require_tensor(bonus, "bonus")
    require_shape(bonus, "bonus", tuple(q.shape[2:]))
    require_like(bonus, "bonus", q, (q.dtype, compute_dtype(q)))
    return partial(body, bonus=bonus.to(compute_dtype(q)))


@shaped
def _recurrent(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
    *,
    bonus: Float[Tensor, "H K"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    S = empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        written = k[:, t, :, :, None] * v[:, t, :, None, :]  # [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S + bonus[..., None] * written))  # read
        S = (S if g is None else g[:, t, :, :, None].exp() * S) + written  # forget, write
    return torch.stack(outputs, 1), S


@shaped
def _chunk(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
    *,
    bonus: Float[Tensor, "H K"],
    chunk_size: int,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    g_late = None if g is None else delay(g, 1)  # the first token writes and forgets nothing
    o, S = chunk_body(q, delay(k, 1), delay(v, 1), g_late, S, chunk_size=chunk_size)
    o = o + (q * bonus * k).sum(-1, keepdim=True) * v
    last = torch.einsum("bhk,bhv->bhkv", k[:, -1], v[:, -1])
    return o, (S if g is None else g[:, -1, :, :, None].exp() * S) + last
