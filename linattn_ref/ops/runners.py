"""Surround the mathematics of every attention op: check, promote, scale once, run the body.

A body computes in ``promote_types(dtype, float32)`` without a cast in sight: float64 stays float64, half
precision is carried in float32, and the state is float32 at least.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch

from linattn_ref.ops.results import KVCache, LinearResult, SoftmaxResult
from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import (
    check_cache,
    check_log_decay,
    check_qkv,
    check_state,
    choose_compute_dtype,
    resolve_scale,
)


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context with autocast off, on devices that have it: an op chooses its own dtype."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


class LinearBody(Protocol):
    """Describe the mathematics of one form: q scaled; log_decay None, [B, T, H, 1] or [B, T, H, K]."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, S: Tensor | None, /
    ) -> tuple[Tensor, Tensor]:
        """Return the output ``[B, T, H, V]`` and the last state ``[B, H, K, V]``."""


def run_linear(
    body: LinearBody,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    state_name: str = "initial_state",
) -> LinearResult:
    """Check, promote, scale q, run ``body`` with autocast off, and return the output in q's dtype."""
    check_qkv(q, k, v)
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
        check_state(initial_state, q, v, state_name)
    with no_autocast(q.device):
        scaled = q.to(dtype) * resolve_scale(scale, K)
        output, state = body(scaled, k.to(dtype), v.to(dtype), log_decay, initial_state)
    return LinearResult(output.to(q.dtype), state)


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
    state_name: str = "initial_state",
) -> SoftmaxResult:
    """Check, put the cache in front of k and v, promote, scale q, run ``body`` with autocast off."""
    check_qkv(q, k, v)
    cache = KVCache(k, v)
    if initial_state is not None:
        check_cache(initial_state, q, v, state_name)
        cache = KVCache(torch.cat([initial_state[0], k], 1), torch.cat([initial_state[1], v], 1))
    dtype = choose_compute_dtype(q)
    with no_autocast(q.device):
        scaled = q.to(dtype) * resolve_scale(scale, q.shape[-1])
        output = body(scaled, cache.k.to(dtype), cache.v.to(dtype))
    return SoftmaxResult(output.to(q.dtype), cache)
