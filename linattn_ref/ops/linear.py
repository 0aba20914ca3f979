"""Compute linear attention with a general decay, in three equal forms and a one-token step.

The recurrence, per batch element and head, with ``alpha_t = exp(log_decay_t)``::

    S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
    o_t = scale * q_t S_t

``log_decay`` chooses the model: None (linear attention), ``[H]`` (RetNet, TNL, lightning attention),
``[B, T, H]`` (Mamba-2/SSD), ``[B, T, H, K]`` (GLA, HGRN2). FLA calls it g; papers also write log lambda or
-s.

Sources: Katharopoulos et al. 2020 (arXiv 2006.16236) for the recurrence without decay; Yang et
al. 2023 (arXiv 2312.06635, sections 2 and 4) for the chunk form and for decays per channel. Every exponent
here is a sum of log decays, hence <= 0: nothing overflows, however hard the decay.
"""

from collections.abc import Callable
from functools import partial

import torch

from linattn_ref.ops.chunks import (
    SUB_CHUNK,
    compute_decayed_scores,
    decay_from_start,
    decay_to_end,
    make_empty_state,
    pass_states,
    split_time,
)
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import LinearBody, run_linear
from linattn_ref.ops.shapes import Float, Gates, Keys, State, Tensor, Values, check_shapes
from linattn_ref.ops.validation import (
    check_chunk_size,
    check_log_decay,
    check_one_token,
    check_qkv,
    choose_compute_dtype,
    require,
)

# --- the three forms -------------------------------------------------------------------------------------


def recurrent_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
) -> LinearResult:
    """Compute linear attention token after token: forget, write, read. Models decode in this form.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: T sequential steps of 4 K V operations; memory K V.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64). Its shape chooses the model: None is no decay, ``[H]`` one number per head
            (RetNet, TNL), ``[B, T, H]`` one per token (Mamba-2), ``[B, T, H, K]`` one per channel (GLA,
            HGRN2).
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
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.4 (without decay); Yang et al. 2023, arXiv
        2312.06635, sections 2 and 4 (with decays).

    Example:
        >>> q = k = v = torch.ones(1, 4, 1, 2)
        >>> output, state = recurrent_linear_attention(q, k, v, torch.tensor([0.5]).log(), scale=1.0)
        >>> output[0, :, 0, 0], list(state.shape)
        (tensor([2.0000, 3.0000, 3.5000, 3.7500]), [1, 1, 2, 2])
    """
    return run_linear(recurrent_body, q, k, v, log_decay, scale, initial_state, cu_seqlens)


def parallel_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
) -> LinearResult:
    """Compute linear attention from all T x T scores, under a causal mask that also holds the decays.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        o_i = sum_{j <= i} P_ij v_j,     P_ij = scale * sum_c q_ic k_jc alpha_{j+1,c} ... alpha_{i,c}

    and what an initial state adds. It equals the recurrent form.

    Cost per head: 2 T^2 (K + V) operations in one step; memory T^2, with a decay per channel T^2 K.

    A NaN or infinity in a key or value reaches all outputs of the call, earlier ones as well: 0 x NaN
    under the causal mask is NaN.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64). Its shape chooses the model: None is no decay, ``[H]`` one number per head
            (RetNet, TNL), ``[B, T, H]`` one per token (Mamba-2), ``[B, T, H, K]`` one per channel (GLA,
            HGRN2).
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
        Yang et al. 2023, arXiv 2312.06635, sections 2 and 4; with a decay per token also Dao and Gu 2024,
        arXiv 2405.21060 (SSD).

    Example:
        >>> q = k = v = torch.ones(1, 4, 1, 2)
        >>> output, state = parallel_linear_attention(q, k, v, torch.tensor([0.5]).log(), scale=1.0)
        >>> output[0, :, 0, 0], list(state.shape)
        (tensor([2.0000, 3.0000, 3.5000, 3.7500]), [1, 1, 2, 2])
    """
    return run_linear(parallel_body, q, k, v, log_decay, scale, initial_state, cu_seqlens)


def chunk_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Compute linear attention in parallel within chunks, with a state between them. Models train so.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
        o_t = scale * q_t S_t

    With b_i the product of the decays of a chunk up to its token i, and S the state before the chunk::

        O = (Q * b) S + P V                     P within the chunk, as in the parallel form
        S <- b_C * S + (K * b_C / b_j)^T V      every quotient of decays is a product of decays, hence <= 1

    Cost per head: 2 T C (K + V) + 4 T K V operations with C = ``chunk_size``, and about log2(T / C)
    sequential steps that add states of neighbouring chunks; memory T C + (T / C) K V. torch.compile makes a
    graph for every doubling of the number of chunks, torch.export one program for all T up to C.

    A NaN or infinity in a key or value reaches all outputs of its chunk, earlier ones as well (0 x NaN under
    the causal mask is NaN), and none of the chunks before.

    Args:
        q: queries, ``[B, T, H, K]``, any floating dtype.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64). Its shape chooses the model: None is no decay, ``[H]`` one number per head
            (RetNet, TNL), ``[B, T, H]`` one per token (Mamba-2), ``[B, T, H, K]`` one per channel (GLA,
            HGRN2).
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
        Yang et al. 2023, arXiv 2312.06635, sections 2 and 4; with a decay per token also Dao and Gu 2024,
        arXiv 2405.21060 (SSD).

    Example:
        >>> q = k = v = torch.ones(1, 4, 1, 2)
        >>> output, state = chunk_linear_attention(q, k, v, torch.tensor([0.5]).log(), scale=1.0)
        >>> output[0, :, 0, 0], list(state.shape)
        (tensor([2.0000, 3.0000, 3.5000, 3.7500]), [1, 1, 2, 2])
    """
    check_chunk_size(chunk_size)
    return run_linear(
        partial(chunk_body, chunk_size=chunk_size), q, k, v, log_decay, scale, initial_state, cu_seqlens
    )


def step_linear_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Compute linear attention for one token, from the state that the tokens before it left.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
        o_t = scale * q_t S_t

    Cost per head: 4 K V operations, however many tokens came before.

    Args:
        q: queries, ``[B, 1, H, K]``, any floating dtype.
        k: keys, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32 (float64
            beside float64). Its shape chooses the model: None is no decay, ``[H]`` one number per head
            (RetNet, TNL), ``[B, 1, H]`` one per token (Mamba-2), ``[B, 1, H, K]`` one per channel (GLA,
            HGRN2).
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
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.4 (without decay); Yang et al. 2023, arXiv
        2312.06635, sections 2 and 4 (with decays).

    Example:
        >>> q = k = v = torch.ones(1, 1, 1, 2)
        >>> output, state = step_linear_attention(q, k, v, state=torch.ones(1, 1, 2, 2), scale=1.0)
        >>> output.flatten().tolist(), list(state.shape)
        ([4.0, 4.0], [1, 1, 2, 2])
    """
    check_one_token(q)
    return run_linear(recurrent_body, q, k, v, log_decay, scale, state, state_name="state")


def normalised(
    op: Callable[..., LinearResult], q: Tensor, k: Tensor, v: Tensor, *, eps: float = 1e-6, **arguments
) -> LinearResult:
    """Return linear attention divided by the sum of its scores: a weighted mean of the values.

    A column of ones is appended to v, ``op`` runs, and the last column of its output divides the others::

        o_t = (q_t S_t) / (q_t z_t + eps),     z_t = sum of the keys, decayed as S_t is

    Args:
        op: any form of linear attention, from here or from ``linattn_kernels``.
        q: feature maps of queries, ``[B, T, H, K]``, any floating dtype, meant to be >= 0: else a denominator
            may vanish.
        k: feature maps of keys, ``[B, T, H, K]``, in q's dtype, meant to be >= 0.
        v: values, ``[B, T, H, V]``, in q's dtype.
        eps: added to the denominator, as in the authors' code. The sum of a token's scores must be large
            beside it, or outputs shrink towards 0; ``eps=0`` divides exactly.
        arguments: other arguments of ``op``: ``log_decay``, ``initial_state`` (a step: ``state``),
            ``chunk_size``. The scale would cancel and is 1.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, state ``[B, H, K, V + 1]`` in
        float32 (float64 beside float64), whose last column is z.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value, or ``op`` is no form of
            linear attention. The message names it, what came and what was expected.

    Source:
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.4; eps from their code.

    Example:
        >>> q = k = torch.ones(1, 4, 1, 2)
        >>> output, state = normalised(chunk_linear_attention, q, k, v=torch.arange(4.0).view(1, 4, 1, 1))
        >>> output.flatten(), list(state.shape)
        (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [1, 1, 2, 2])
    """
    check_qkv(q, k, v)
    if arguments.get("log_decay") is not None:
        check_log_decay(arguments["log_decay"], q)
        arguments["log_decay"] = arguments["log_decay"].to(choose_compute_dtype(q))
    wide = [
        x.to(choose_compute_dtype(q)) for x in (q, k, v)
    ]  # a sum of scores may exceed half precision's range
    ones = wide[2].new_ones(*v.shape[:-1], 1)
    result = op(*wide[:2], torch.cat([wide[2], ones], -1), scale=1.0, **arguments)
    require(isinstance(result, LinearResult), "op", type(result).__name__, "a form of linear attention")
    extended, state = result
    return LinearResult((extended[..., :-1] / (extended[..., -1:] + eps)).to(q.dtype), state)


# --- their bodies: q is scaled; log_decay, written g, is None, [B, T, H, 1] or [B, T, H, K] ----------------


@check_shapes
def recurrent_body(q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None) -> tuple[Values, State]:
    """Run the recurrence: q is scaled, g is None, [B, T, H, 1] or [B, T, H, K]."""
    S = make_empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        if g is not None:
            S = g[:, t, :, :, None].exp() * S  # forget
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]  # write  [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))  # read
    return torch.stack(outputs, 1), S


@check_shapes
def parallel_body(q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None) -> tuple[Values, State]:
    """Multiply the decayed scores with the values, and add what the start state gives."""
    o = torch.einsum("bhij,bjhv->bihv", compute_decayed_scores(q, k, g), v)
    if g is not None:
        k = k * decay_to_end(g)  # of what t wrote
    written = torch.einsum("bthk,bthv->bhkv", k, v)
    if S is None:
        return o, written
    past = torch.ones_like(q[..., :1]) if g is None else decay_from_start(g)
    o = o + torch.einsum("bthk,bhkv->bthv", q * past, S)
    return o, past[:, -1, :, :, None] * S + written


@check_shapes
def chunk_body(
    q: Keys, k: Keys, v: Values, g: Gates | None, S: State | None, *, chunk_size: int
) -> tuple[Values, State]:
    """Run the parallel body within chunks, then the recurrence from chunk to chunk."""
    B, T = q.shape[:2]
    S = make_empty_state(k, v) if S is None else S
    C = chunk_size if chunk_size < T else T  # a compiled graph would carry min(...) into every size
    q, k, v = (split_time(x, C) for x in (q, k, v))  # [B, M, C, H, .]; zeros at the end write nothing
    g = None if g is None else split_time(g, C)  # and a log decay of 0 forgets nothing

    # 1. within each chunk, all chunks at once: the parallel form from an empty state
    within: LinearBody = parallel_body
    if g is not None and g.shape[-1] > 1 and C > SUB_CHUNK:
        within = partial(chunk_body, chunk_size=SUB_CHUNK)  # the same again, one level down
    g_rows = None if g is None else g.flatten(0, 1)
    o, written = within(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), g_rows, None)
    M = q.shape[1]
    o, written = o.unflatten(0, (B, M)), written.unflatten(0, (B, M))  # [B, M, C, H, V], [B, M, H, K, V]

    # 2. between chunks: the recurrence again, a chunk a step
    states = pass_states(S, written, None if g is None else g.sum(2))  # [B, M + 1, H, K, V]

    # 3. every token reads the state that its chunk began with
    past = q if g is None else q * decay_from_start(g, dim=2)
    o = o + torch.einsum("bnchk,bnhkv->bnchv", past, states[:, :-1])
    return o.flatten(1, 2)[:, :T], states[:, -1]
