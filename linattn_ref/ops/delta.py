"""The delta rule: a key corrects what the state recalls for it, instead of adding to it.

The recurrence, per batch element and head, with ``alpha_t = exp(log_decay_t)``::

    S_t = (I - beta_t k_t^T k_t) (alpha_t * S_{t-1}) + beta_t k_t^T v_t        S in R^{K x V}
    o_t = scale * q_t S_t

so decay comes first: with ``R = alpha_t * S_{t-1}`` what is written is ``beta_t k_t^T (v_t - k_t R)``. At
``beta = 1`` and ``|k| = 1`` the state recalls ``v_t`` exactly afterwards; at ``beta = 2`` it is reflected.
``beta |k|^2`` must stay within 2, or the state grows; keys are normalised by whoever calls.

Arguments are those of linear attention, and ``beta [B, T, H]``, between 0 and 2. FLA's gated delta rule is
``log_decay [B, T, H]``; KDA's is ``[B, T, H, K]``.

Sources: Yang et al. 2024 (arXiv 2406.06484) for the chunk form of the rule without decay, Yang et al. 2024
(arXiv 2412.06464) for decays. The rule ``Diag(alpha) - beta k^T k`` is another one.
"""

from functools import partial

import torch

from linattn_ref.ops.chunks import (
    SUB_CHUNK,
    decayed_scores,
    empty_state,
    left_at_end,
    left_of_start,
    split_time,
)
from linattn_ref.ops.inputs import (
    LinearResult,
    check_chunk_size,
    check_one_token,
    check_qkv,
    compute_dtype,
    require_like,
    require_shape,
    require_tensor,
    require_values,
    run_linear,
)
from linattn_ref.ops.shapes import Float, Tensor, shaped


def recurrent_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    beta: Float[Tensor, "B T H"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Recurrent form: forget, recall, correct, read. Cost per head: T sequential steps, 6 K V operations."""
    check_beta(beta, q, k, v)
    body = partial(_recurrent, beta=beta.to(compute_dtype(q)))
    return run_linear(body, q, k, v, log_decay, scale, initial_state)


def chunk_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    beta: Float[Tensor, "B T H"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Chunk form: one triangular system per chunk, all chunks at once, then a state from chunk to chunk.

    With a decay per channel, chunks are of at most 16 tokens. Cost per head: about T C (3 K + 2 V) + 6 T K V
    operations and T / C sequential steps.
    """
    check_chunk_size(chunk_size)
    check_beta(beta, q, k, v)
    body = partial(_chunk, beta=beta.to(compute_dtype(q)), chunk_size=chunk_size)
    return run_linear(body, q, k, v, log_decay, scale, initial_state)


def step_delta_rule(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    beta: Float[Tensor, "B 1 H"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """One token of the recurrent form, for decoding. Cost per head: 6 K V operations."""
    check_one_token(q)
    check_beta(beta, q, k, v)
    body = partial(_recurrent, beta=beta.to(compute_dtype(q)))
    return run_linear(body, q, k, v, log_decay, scale, state, state_name="state")


def check_beta(beta: Tensor, q: Tensor, k: Tensor, v: Tensor) -> None:
    """``[B, T, H]``, in q's dtype or the one computed in, between 0 and 2."""
    check_qkv(q, k, v)
    require_tensor(beta, "beta")
    require_shape(beta, "beta", tuple(q.shape[:3]))
    require_like(beta, "beta", q, (q.dtype, compute_dtype(q)))
    require_values(beta, "beta", 0.0, 2.0)


# --- bodies: q is scaled; log_decay, written g, is None, [B, T, H, 1] or [B, T, H, K] ------------------


@shaped
def _recurrent(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
    *,
    beta: Float[Tensor, "B T H"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    S = empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        if g is not None:
            S = g[:, t, :, :, None].exp() * S  # forget
        recalled = torch.einsum("bhk,bhkv->bhv", k[:, t], S)
        correction = beta[:, t, :, None] * (v[:, t] - recalled)
        S = S + k[:, t, :, :, None] * correction[:, :, None, :]  # write  [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))  # read
    return torch.stack(outputs, 1), S


@shaped
def _chunk(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
    *,
    beta: Float[Tensor, "B T H"],
    chunk_size: int,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    T, V = v.shape[1], v.shape[3]
    S = empty_state(k, v) if S is None else S
    C = min(chunk_size, T, SUB_CHUNK if g is not None and g.shape[-1] > 1 else T)
    g = torch.zeros_like(k[..., :1]) if g is None else g
    q, k, v, g, beta = (split_time(x, C) for x in (q, k, v, g, beta[..., None]))  # [B, M, C, H, .]
    past, left = left_of_start(g, dim=2), left_at_end(g, dim=2)

    # 1. what each token of a chunk corrects, as a function of the state S before the chunk: U - W S.
    #    u_i = beta_i (v_i - k_i past_i S - sum_{j<i} P_ij u_j), so (I + Diag(beta) P) (U - W S) = ...
    P = _by_chunk(k, k, g).tril(-1)  # [B, M, H, C, C]
    heads_first = lambda x: x.transpose(2, 3)  # [B, M, H, C, .]  # noqa: E731
    wanted = heads_first(beta * torch.cat([v, k * past], -1))
    system = heads_first(beta) * P  # the unit diagonal is implied
    solution = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    U, W = solution.split([V, k.shape[-1]], -1)

    # 2. from chunk to chunk
    reads, scores = heads_first(q * past), _by_chunk(q, k, g)
    keys, kept = heads_first(k * left), past[:, :, -1, :, :, None]
    outputs = []
    for m in range(q.shape[1]):
        u = U[:, m] - W[:, m] @ S  # [B, H, C, V]
        outputs.append(reads[:, m] @ S + scores[:, m] @ u)
        S = kept[:, m] * S + keys[:, m].mT @ u
    return torch.stack(outputs, 1).transpose(2, 3).flatten(1, 2)[:, :T], S


@shaped
def _by_chunk(
    q: Float[Tensor, "B M C H K"], k: Float[Tensor, "B M C H K"], g: Float[Tensor, "B M C H _"]
) -> Float[Tensor, "B M H C C"]:
    """The decayed scores within every chunk."""
    rows = decayed_scores(q.flatten(0, 1), k.flatten(0, 1), g.flatten(0, 1))
    return rows.unflatten(0, q.shape[:2])
