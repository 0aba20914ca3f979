"""Apply the delta rule: a key corrects what the state recalls for it, instead of adding to it.

The recurrence, per batch element and head, with ``alpha_t = exp(log_decay_t)``::

    S_t = (I - beta_t k_t^T k_t) (alpha_t * S_{t-1}) + beta_t k_t^T v_t        S in R^{K x V}
    o_t = scale * q_t S_t

so decay comes first: with ``R = alpha_t * S_{t-1}`` what is written is ``beta_t k_t^T (v_t - k_t R)``. At
``beta = 1`` and ``|k| = 1`` the state recalls ``v_t`` exactly afterwards; at ``beta = 2`` it is reflected.

Sources: Yang et al. 2024 (arXiv 2406.06484) for the chunk form of the rule without decay, Yang et al. 2024
(arXiv 2412.06464) for decays. The rule ``Diag(alpha) - beta k^T k`` is another one.
"""

from functools import partial

import torch

from linattn_ref.ops.chunks import (
    SUB_CHUNK,
    decay_from_start,
    decay_to_end,
    make_empty_state,
    score_chunks,
    split_time,
)
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import run_linear
from linattn_ref.ops.shapes import Float, Gates, Keys, State, Tensor, Values, check_shapes
from linattn_ref.ops.validation import (
    check_chunk_size,
    check_one_token,
    check_parameter,
    check_qkv,
    require_values,
)


def recurrent_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    beta: Float[Tensor, "B T H"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
) -> LinearResult:
    """Apply the delta rule token after token: forget, recall, correct, read.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        R   = alpha_t * S_{t-1}                          decay comes first
        S_t = R + beta_t k_t^T (v_t - k_t R)             S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: T sequential steps of 6 K V operations; memory K V.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype. ``beta |k|^2`` must stay within 2, or the state grows:
            normalise keys to length 1 first.
        v: values, ``[B, T, H, V]``, in q's dtype.
        beta: write strengths, ``[B, T, H]``, finite and between 0 and 2, in q's dtype or in float32 (float64
            beside float64). At 1 and |k| = 1 the state recalls v_t exactly afterwards; at 2 it is reflected.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token (FLA's
            gated delta rule), ``[B, T, H, K]`` one per channel (KDA).
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone; states are ``[n, H, K, V]``.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Yang et al. 2024, arXiv 2406.06484 (without decay); Yang et al. 2024, arXiv 2412.06464 (with decays).
        The rule ``Diag(alpha) - beta k^T k`` is another one.

    Example:
        >>> k = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)  # one key, written three times
        >>> v = torch.arange(1.0, 4.0).view(1, 3, 1, 1)
        >>> output, state = recurrent_delta_rule(k, k, v, beta=torch.ones(1, 3, 1), scale=1.0)
        >>> output.flatten().tolist(), list(state.shape)
        ([1.0, 2.0, 3.0], [1, 1, 2, 1])
    """
    check_beta(beta, q, k, v)
    return run_linear(_recurrent, q, k, v, log_decay, scale, initial_state, cu_seqlens, (beta,))


def chunk_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    beta: Float[Tensor, "B T H"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Apply the delta rule by chunks: one triangular system per chunk, then a state from chunk to chunk.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        R   = alpha_t * S_{t-1}                          decay comes first
        S_t = R + beta_t k_t^T (v_t - k_t R)             S in R^{K x V}
        o_t = scale * q_t S_t

    In a chunk with state S before it, P the decayed products of its keys and b_i the product of its decays up
    to i::

        (I + Diag(beta) strict_lower(P)) X = Diag(beta) (V - (K * b) S)      X: what each token corrects

    All systems are solved at once, for the columns of V and of K * b. With a decay per channel, chunks are of
    at most 16 tokens. Cost per head: about T C (3 K + 2 V) + 6 T K V operations and T / C sequential steps.

    A NaN or infinity in a key or value reaches all outputs of its chunk, earlier ones as well (0 x NaN under
    the causal mask is NaN), and none of the chunks before.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype. ``beta |k|^2`` must stay within 2, or the state grows:
            normalise keys to length 1 first.
        v: values, ``[B, T, H, V]``, in q's dtype.
        beta: write strengths, ``[B, T, H]``, finite and between 0 and 2, in q's dtype or in float32 (float64
            beside float64). At 1 and |k| = 1 the state recalls v_t exactly afterwards; at 2 it is reflected.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, T, H]`` one per token (FLA's
            gated delta rule), ``[B, T, H, K]`` one per channel (KDA).
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32 (float64 beside float64),
            as an earlier call returned it. None is zeros.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone; states are ``[n, H, K, V]``.
        chunk_size: tokens per chunk, at least 1; it changes cost, not results. T need not be a multiple of
            it.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Yang et al. 2024, arXiv 2406.06484 (without decay); Yang et al. 2024, arXiv 2412.06464 (with decays).
        The rule ``Diag(alpha) - beta k^T k`` is another one.

    Example:
        >>> k = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)  # one key, written three times
        >>> v = torch.arange(1.0, 4.0).view(1, 3, 1, 1)
        >>> output, state = chunk_delta_rule(k, k, v, beta=torch.ones(1, 3, 1), scale=1.0)
        >>> output.flatten().tolist(), list(state.shape)
        ([1.0, 2.0, 3.0], [1, 1, 2, 1])
    """
    check_chunk_size(chunk_size)
    check_beta(beta, q, k, v)
    body = partial(_chunk, chunk_size=chunk_size)
    return run_linear(body, q, k, v, log_decay, scale, initial_state, cu_seqlens, (beta,))


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
    """Apply the delta rule to one token, from the state that the tokens before it left.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        R   = alpha_t * S_{t-1}                          decay comes first
        S_t = R + beta_t k_t^T (v_t - k_t R)             S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: 6 K V operations, however many tokens came before.

    Args:
        q: queries, ``[B, 1, H, K]``, any floating dtype.
        k: keys, ``[B, 1, H, K]``, in q's dtype. ``beta |k|^2`` must stay within 2, or the state grows:
            normalise keys to length 1 first.
        v: values, ``[B, 1, H, V]``, in q's dtype.
        beta: write strengths, ``[B, 1, H]``, finite and between 0 and 2, in q's dtype or in float32 (float64
            beside float64). At 1 and |k| = 1 the state recalls v_t exactly afterwards; at 2 it is reflected.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64): None is no decay, ``[H]`` one number per head, ``[B, 1, H]`` one per token (FLA's
            gated delta rule), ``[B, 1, H, K]`` one per channel (KDA).
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
        Yang et al. 2024, arXiv 2406.06484 (without decay); Yang et al. 2024, arXiv 2412.06464 (with decays).
        The rule ``Diag(alpha) - beta k^T k`` is another one.

    Example:
        >>> k = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
        >>> output, state = step_delta_rule(k, k, 5 * torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1), scale=1.0)
        >>> output.item(), state.flatten().tolist()
        (5.0, [5.0, 0.0])
    """
    check_one_token(q)
    check_beta(beta, q, k, v)
    return run_linear(_recurrent, q, k, v, log_decay, scale, state, more=(beta,), state_name="state")


def check_beta(beta: Tensor, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless beta is ``[B, T, H]``, in q's dtype or the one computed in, between 0 and 2."""
    check_qkv(q, k, v)
    check_parameter(beta, "beta", q, tuple(q.shape[:3]))
    require_values(beta, "beta", 0.0, 2.0)


# --- bodies: q is scaled; log_decay, written g, is None, [B, T, H, 1] or [B, T, H, K] ------------------


@check_shapes
def _recurrent(
    q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None, beta: Float[Tensor, "B T H"]
) -> tuple[Values, State]:
    """Run the recurrence: q is scaled, g is None, [B, T, H, 1] or [B, T, H, K]."""
    S = make_empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        if g is not None:
            S = g[:, t, :, :, None].exp() * S  # forget
        recalled = torch.einsum("bhk,bhkv->bhv", k[:, t], S)
        correction = beta[:, t, :, None] * (v[:, t] - recalled)
        S = S + k[:, t, :, :, None] * correction[:, :, None, :]  # write  [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))  # read
    return torch.stack(outputs, 1), S


@check_shapes
def _chunk(
    q: Keys,
    k: Keys,
    v: Values,
    g: Gates | None,
    S: State | None,
    beta: Float[Tensor, "B T H"],
    *,
    chunk_size: int,
) -> tuple[Values, State]:
    """Solve for the corrections of every chunk, then go from chunk to chunk."""
    T, V = v.shape[1], v.shape[3]
    S = make_empty_state(k, v) if S is None else S
    limit = min(chunk_size, SUB_CHUNK) if g is not None and g.shape[-1] > 1 else chunk_size
    C = limit if limit < T else T  # not min(limit, T), which a compiled graph would carry into every size
    g = torch.zeros_like(k[..., :1]) if g is None else g
    q, k, v, g, beta = (split_time(x, C) for x in (q, k, v, g, beta[..., None]))  # [B, M, C, H, .]
    past, left = decay_from_start(g, dim=2), decay_to_end(g, dim=2)

    # 1. what each token of a chunk corrects, as a function of the state S before the chunk: U - W S.
    #    u_i = beta_i (v_i - k_i past_i S - sum_{j<i} P_ij u_j), so (I + Diag(beta) P) (U - W S) = ...
    P = score_chunks(k, k, g).tril(-1)  # [B, M, H, C, C]
    heads_first = lambda x: x.transpose(2, 3)  # [B, M, H, C, .]  # noqa: E731
    wanted = heads_first(beta * torch.cat([v, k * past], -1))
    system = heads_first(beta) * P  # the unit diagonal is implied
    solution = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    U, W = solution.split([V, k.shape[-1]], -1)

    # 2. from chunk to chunk
    reads, scores = heads_first(q * past), score_chunks(q, k, g)
    keys, kept = heads_first(k * left), past[:, :, -1, :, :, None]
    outputs = []
    for m in range(q.shape[1]):
        u = U[:, m] - W[:, m] @ S  # [B, H, C, V]
        outputs.append(reads[:, m] @ S + scores[:, m] @ u)
        S = kept[:, m] * S + keys[:, m].mT @ u
    return torch.stack(outputs, 1).transpose(2, 3).flatten(1, 2)[:, :T], S
