"""Linear attention with a general decay: three equal forms and a one-token step.

The recurrence, per batch element and head, with ``alpha_t = exp(log_decay_t)``::

    S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
    o_t = scale * q_t S_t

``log_decay`` chooses the model: None (linear attention), ``[H]`` (RetNet, TNL, lightning attention),
``[B, T, H]`` (Mamba-2/SSD), ``[B, T, H, K]`` (GLA, HGRN2). FLA calls it g; papers also
write log lambda or -s.

Arguments that all forms share:

* ``q, k``: ``[B, T, H, K]``, ``v``: ``[B, T, H, V]``, one floating dtype;
* ``log_decay``: natural logarithms, <= 0; None is no decay; float32 is welcome beside half precision;
* ``scale``: factor on the scores; None is ``K ** -0.5``;
* ``initial_state``: ``[B, H, K, V]`` in float32 (float64 beside float64); None is zeros.

All return ``LinearResult(output [B, T, H, V], state [B, H, K, V])`` and raise ``ValueError`` naming the
argument, what came and what was expected.

Sources: Katharopoulos et al. 2020 (arXiv 2006.16236) for the recurrence without decay; Yang et
al. 2023 (arXiv 2312.06635, sections 2 and 4) for the chunk form and for decays per channel. Every exponent
here is a sum of log decays, hence <= 0: nothing overflows, however hard the decay.
"""

from collections.abc import Callable
from functools import partial

import torch

from linattn_ref.ops.chunks import (
    SUB_CHUNK,
    carry,
    decayed_scores,
    empty_state,
    left_at_end,
    left_of_start,
    split_time,
)
from linattn_ref.ops.inputs import (
    LinearBody,
    LinearResult,
    check_chunk_size,
    check_log_decay,
    check_one_token,
    check_qkv,
    compute_dtype,
    require,
    run_linear,
)
from linattn_ref.ops.shapes import Float, Tensor, shaped

# --- the three forms -------------------------------------------------------------------------------------


def recurrent_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Recurrent form: forget, write, read, token after token. How a model decodes.

    Cost per head: T sequential steps of 4 K V operations; memory K V.
    """
    return run_linear(recurrent_body, q, k, v, log_decay, scale, initial_state)


def parallel_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """Parallel form: all T x T scores at once, a causal mask that also holds the decay, no softmax.

    Cost per head: 2 T^2 (K + V) operations in one step; memory T^2, with a decay per channel T^2 K.
    """
    return run_linear(parallel_body, q, k, v, log_decay, scale, initial_state)


def chunk_linear_attention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Chunk form: parallel within chunks of C tokens, a state between chunks. How a model trains.

    T need not be a multiple of ``chunk_size``. Cost per head: 2 T C (K + V) + 4 T K V operations, and
    about log2(T / C) sequential steps that add states of neighbouring chunks; memory T C + (T / C) K V.
    """
    check_chunk_size(chunk_size)
    return run_linear(partial(chunk_body, chunk_size=chunk_size), q, k, v, log_decay, scale, initial_state)


def step_linear_attention(
    q: Float[Tensor, "B 1 H K"],
    k: Float[Tensor, "B 1 H K"],
    v: Float[Tensor, "B 1 H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> LinearResult:
    """One token of the recurrent form, for decoding. Cost per head: 4 K V operations, whatever T was."""
    check_one_token(q)
    return run_linear(recurrent_body, q, k, v, log_decay, scale, state, state_name="state")


def normalised(
    op: Callable[..., LinearResult], q: Tensor, k: Tensor, v: Tensor, *, eps: float = 1e-6, **arguments
) -> LinearResult:
    """Divide each output by the sum of its scores: append a column of ones to v, run ``op``, divide.

    The state is ``[B, H, K, V + 1]``; its last column is the sum of the keys, the z of Katharopoulos et
    al. 2020. ``eps`` is added to the denominator, as in their code. The scale cancels and is 1.

    Args:
        op: any form of linear attention; ``arguments`` go to it (log_decay, initial_state, chunk_size).
        q, k: feature maps of queries and keys, meant to be >= 0 (else a denominator may vanish). The sum of
            their scores must be large beside ``eps``, or outputs shrink towards 0; ``eps=0`` divides exactly.
    """
    check_qkv(q, k, v)
    if arguments.get("log_decay") is not None:
        check_log_decay(arguments["log_decay"], q)
        arguments["log_decay"] = arguments["log_decay"].to(compute_dtype(q))
    wide = [x.to(compute_dtype(q)) for x in (q, k, v)]  # a sum of scores may exceed half precision's range
    ones = wide[2].new_ones(*v.shape[:-1], 1)
    result = op(*wide[:2], torch.cat([wide[2], ones], -1), scale=1.0, **arguments)
    require(isinstance(result, LinearResult), "op", type(result).__name__, "a form of linear attention")
    extended, state = result
    return LinearResult((extended[..., :-1] / (extended[..., -1:] + eps)).to(q.dtype), state)


# --- their bodies: q is scaled; log_decay, written g, is None, [B, T, H, 1] or [B, T, H, K] ----------------


@shaped
def recurrent_body(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    S = empty_state(k, v) if S is None else S
    outputs = []
    for t in range(q.shape[1]):
        if g is not None:
            S = g[:, t, :, :, None].exp() * S  # forget
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]  # write  [B, H, K, V]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))  # read
    return torch.stack(outputs, 1), S


@shaped
def parallel_body(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    o = torch.einsum("bhij,bjhv->bihv", decayed_scores(q, k, g), v)
    if g is not None:
        k = k * left_at_end(g)  # of what t wrote
    written = torch.einsum("bthk,bthv->bhkv", k, v)
    if S is None:
        return o, written
    past = torch.ones_like(q[..., :1]) if g is None else left_of_start(g)
    o = o + torch.einsum("bthk,bhkv->bthv", q * past, S)
    return o, past[:, -1, :, :, None] * S + written


@shaped
def chunk_body(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H _"] | None,
    S: Float[Tensor, "B H K V"] | None,
    *,
    chunk_size: int,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    B, T = q.shape[:2]
    S = empty_state(k, v) if S is None else S
    C = min(chunk_size, T)
    q, k, v = (split_time(x, C) for x in (q, k, v))  # [B, M, C, H, .]; zeros at the end write nothing
    g = None if g is None else split_time(g, C)  # and a log decay of 0 forgets nothing

    # 1. within each chunk, all chunks at once: the parallel form from an empty state
    within: LinearBody = parallel_body
    if g is not None and g.shape[-1] > 1 and C > SUB_CHUNK:
        within = partial(chunk_body, chunk_size=SUB_CHUNK)  # the same again, one level down
    g_rows = None if g is None else g.flatten(0, 1)
    o, written = within(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), g_rows, None)
    o, written = o.unflatten(0, (B, -1)), written.unflatten(0, (B, -1))  # [B, M, C, H, V], [B, M, H, K, V]

    # 2. between chunks: the recurrence again, a chunk a step
    states = carry(S, written, None if g is None else g.sum(2))  # [B, M + 1, H, K, V]

    # 3. every token reads the state that its chunk began with
    past = q if g is None else q * left_of_start(g, dim=2)
    o = o + torch.einsum("bnchk,bnhkv->bnchv", past, states[:, :-1])
    return o.flatten(1, 2)[:, :T], states[:, -1]
