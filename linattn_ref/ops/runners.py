"""Surround the mathematics of every attention op: check, promote, scale once, run the body.

A body computes in ``promote_types(dtype, float32)`` without a cast in sight: float64 stays float64, half
precision is carried in float32, and the state is float32 at least.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any, Protocol

import torch

from linattn_ref.ops.chunks import make_empty_state
from linattn_ref.ops.results import KVCache, LinearResult, SoftmaxResult
from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import (
    check_cache,
    check_cu_seqlens,
    check_log_decay,
    check_qkv,
    check_state,
    choose_compute_dtype,
    require,
    resolve_scale,
)

NO_PACKED_CACHE = "None with cu_seqlens: caches of several lengths are no tensor"


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context with autocast off, on devices that have it: an op chooses its own dtype."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def cut_sequences(tokens: Sequence[Any], cu_seqlens: Tensor) -> Iterator[tuple[Any, ...]]:
    """Yield what each packed sequence has of tensors ``[1, T, ...]`` or None; the host waits for offsets."""
    for first, end in pairwise(cu_seqlens.tolist()):
        yield tuple(x if x is None else x[:, first:end] for x in tokens)


# The mathematics of one form: from q, scaled, k, v, the log decays (None, [B, T, H, 1] or [B, T, H, K]), the
# state or None, and what else a token has, as the write strengths of the delta rule, to output and last state
LinearBody = Callable[..., tuple[Tensor, Tensor]]


def run_linear(
    body: LinearBody,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None = None,
    more: tuple[Tensor, ...] = (),
    state_name: str = "initial_state",
) -> LinearResult:
    """Check, promote, scale q, run ``body`` with autocast off, and return the output in q's dtype.

    ``more`` has been checked by the caller.
    """
    check_qkv(q, k, v)
    n_states = q.shape[0] if cu_seqlens is None else check_cu_seqlens(cu_seqlens, q)
    B, T, H, K = q.shape
    dtype = choose_compute_dtype(q)
    if log_decay is not None:
        check_log_decay(log_decay, q)
        log_decay = log_decay.to(dtype)
        if log_decay.ndim == 1:
            log_decay = log_decay.expand(B, T, H)
        if log_decay.ndim == 3:
            log_decay = log_decay[..., None]
    if initial_state is not None:
        check_state(initial_state, q, v, state_name, n_states)
    with no_autocast(q.device):
        scaled = q.to(dtype) * resolve_scale(scale, K)
        tokens: tuple[Any, ...] = scaled, k.to(dtype), v.to(dtype), log_decay, *(x.to(dtype) for x in more)
        if cu_seqlens is None:
            output, state = body(*tokens[:4], initial_state, *tokens[4:])
        else:
            output, state = _run_packed(body, tokens, initial_state, cu_seqlens)
    return LinearResult(output.to(q.dtype), state)


def _run_packed(
    body: LinearBody, tokens: tuple[Any, ...], initial_states: Tensor | None, cu_seqlens: Tensor
) -> tuple[Tensor, Tensor]:
    """Run each sequence alone, from a state of its own; one without tokens keeps it."""
    outputs, states = [], []
    for n, (q, k, v, g, *more) in enumerate(cut_sequences(tokens, cu_seqlens)):
        S = make_empty_state(k, v) if initial_states is None else initial_states[n : n + 1]
        o, S = body(q, k, v, g, S, *more) if q.shape[1] else (v, S)
        outputs.append(o)
        states.append(S)
    return torch.cat(outputs, 1), torch.cat(states)


class SoftmaxBody(Protocol):
    """Describe the mathematics of one form: q scaled, k and v with the S cached tokens in front."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the output ``[B, T, H, V]``."""


def run_softmax(
    body: SoftmaxBody,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    initial_state: KVCache | None,
    cu_seqlens: Tensor | None = None,
    state_name: str = "initial_state",
) -> SoftmaxResult:
    """Check, put the cache in front of k and v, promote, scale q, run ``body`` with autocast off."""
    check_qkv(q, k, v)
    cache = KVCache(k, v)
    if cu_seqlens is not None:
        check_cu_seqlens(cu_seqlens, q)
        require(initial_state is None, state_name, "a cache", NO_PACKED_CACHE)
    if initial_state is not None:
        check_cache(initial_state, q, v, state_name)
        cache = KVCache(torch.cat([initial_state[0], k], 1), torch.cat([initial_state[1], v], 1))
    dtype = choose_compute_dtype(q)
    with no_autocast(q.device):
        scaled = q.to(dtype) * resolve_scale(scale, q.shape[-1])
        tokens = scaled, cache.k.to(dtype), cache.v.to(dtype)
        if cu_seqlens is None:
            output = body(*tokens)
        else:
            sequences = cut_sequences(tokens, cu_seqlens)
            output = torch.cat([body(*qkv) for qkv in sequences if qkv[0].shape[1]], 1)
    return SoftmaxResult(output.to(q.dtype), cache)
