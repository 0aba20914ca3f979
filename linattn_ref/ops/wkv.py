"""RWKV-4's wkv: a weighted mean of values per channel, older ones decayed, the token itself with a bonus.

Per batch element and channel::

    wkv_t = (sum_{i<t} e^{-(t-1-i) w + k_i} v_i + e^{u + k_t} v_t) / (the same with v = 1)

with a decay rate ``w >= 0`` and a bonus ``u``, both learned. The recurrence carries numerator and denominator
relative to ``e^m``, where m is the largest exponent so far; without it e^k overflows.

Arguments: ``k, v [B, T, D]``, ``w, u [D]``, ``initial_state`` a ``WKVState`` of ``[B, D]`` in float32 at
least; None is nothing read. Source: Peng et al. 2023 (arXiv 2305.13048, published
version, section 3 and appendix D).
"""

from functools import partial
from typing import NamedTuple, Protocol

import torch

from linattn_ref.ops.channels import check_beside, check_channels, check_one_of_channels
from linattn_ref.ops.inputs import (
    check_chunk_size,
    compute_dtype,
    no_autocast,
    require,
    require_like,
    require_shape,
    require_tensor,
    require_values,
)
from linattn_ref.ops.shapes import Float, Tensor, shaped


class WKVState(NamedTuple):
    """What was read: numerator ``a e^m`` and denominator ``b e^m``, all ``[B, D]``; m = -inf is nothing."""

    a: Tensor
    b: Tensor
    m: Tensor


class WKVResult(NamedTuple):
    """Output ``[B, T, D]`` in k's dtype and the state."""

    output: Tensor
    state: WKVState


def recurrent_wkv(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    initial_state: WKVState | None = None,
) -> WKVResult:
    """Recurrent form, token after token: three numbers of state per channel."""
    return _run(_recurrent, k, v, w, u, initial_state)


def parallel_wkv(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    initial_state: WKVState | None = None,
) -> WKVResult:
    """Parallel form: for every channel a softmax over all earlier tokens; memory T^2 per channel."""
    return _run(_parallel, k, v, w, u, initial_state)


def chunk_wkv(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    initial_state: WKVState | None = None,
    chunk_size: int = 16,
) -> WKVResult:
    """Chunk form: the parallel form chunk after chunk, from the state before.

    Work and memory T C per channel and no matrix products, hence the small chunks.
    """
    check_chunk_size(chunk_size)
    return _run(partial(_chunk, chunk_size=chunk_size), k, v, w, u, initial_state)


def step_wkv(
    k: Float[Tensor, "B 1 D"],
    v: Float[Tensor, "B 1 D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    state: WKVState | None = None,
) -> WKVResult:
    """One token of the recurrent form, for decoding."""
    check_one_of_channels(k, "k")
    return _run(_recurrent, k, v, w, u, state, state_name="state")


class _Body(Protocol):
    def __call__(
        self, k: Tensor, v: Tensor, w: Tensor, u: Tensor, state: WKVState, /
    ) -> tuple[Tensor, WKVState]: ...


def _run(
    body: _Body,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    u: Tensor,
    initial_state: WKVState | None,
    state_name: str = "initial_state",
) -> WKVResult:
    """Check, promote, run ``body`` with autocast off."""
    check_channels(k, "k")
    check_channels(v, "v")
    require_shape(v, "v", tuple(k.shape))
    require_like(v, "v", k, (k.dtype,))
    for name, x in (("w", w), ("u", u)):
        check_beside(x, name, k, tuple(k.shape[2:]))
    require_values(w, "w", low=0.0, meaning="decay rates >= 0")
    dtype, shape = compute_dtype(k), (k.shape[0], k.shape[2])
    if initial_state is None:
        nothing = torch.zeros(shape, dtype=dtype, device=k.device)
        initial_state = WKVState(nothing, nothing, torch.full_like(nothing, -torch.inf))
    whole = isinstance(initial_state, tuple) and len(initial_state) == 3
    require(whole, state_name, type(initial_state).__name__, "a WKVState")
    for part, x in zip("abm", initial_state, strict=True):
        require_tensor(x, f"{state_name}.{part}")
        require_shape(x, f"{state_name}.{part}", shape)
        require_like(x, f"{state_name}.{part}", k, (dtype,))
    with no_autocast(k.device):
        o, state = body(k.to(dtype), v.to(dtype), w.to(dtype), u.to(dtype), WKVState(*initial_state))
    return WKVResult(o.to(k.dtype), state)


@shaped
def _recurrent(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    a, b, m = state
    outputs = []
    for t in range(k.shape[1]):
        top = torch.maximum(m, u + k[:, t])  # read, with the bonus
        old, new = (m - top).exp(), (u + k[:, t] - top).exp()
        outputs.append((old * a + new * v[:, t]) / (old * b + new))
        top = torch.maximum(m - w, k[:, t])  # forget and write
        old, new = (m - w - top).exp(), (k[:, t] - top).exp()
        a, b, m = old * a + new * v[:, t], old * b + new, top
    return torch.stack(outputs, 1), WKVState(a, b, m)


@shaped
def _chunk(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
    *,
    chunk_size: int,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    outputs = []
    for k_here, v_here in zip(k.split(chunk_size, 1), v.split(chunk_size, 1), strict=True):
        o, state = _parallel(k_here, v_here, w, u, state)
        outputs.append(o)
    return torch.cat(outputs, 1), state


@shaped
def _parallel(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    T = k.shape[1]
    k, v = (torch.cat([first[:, None], x], 1) for first, x in ((state.m, k), (state.a, v)))
    weight = torch.cat([state.b[:, None], torch.ones_like(v[:, 1:])], 1)  # what stands in the denominator
    i = torch.arange(T + 1, device=k.device)  # 0 is the start state, which was written a token before 1
    age = (i[1:, None] - 1 - i).clamp(min=0)[..., None]  # [T, T + 1, 1]
    seen = (i[1:, None] > i)[..., None]
    own = (i[1:, None] == i)[..., None]
    x = torch.where(own, k[:, None] + u, k[:, None] - age * w).masked_fill(~(seen | own), -torch.inf)
    p = (x - x.amax(2, keepdim=True)).exp()  # [B, T, T + 1, D]
    o = (p * v[:, None]).sum(2) / (p * weight[:, None]).sum(2)
    x = k - (T - i)[:, None] * w  # what is left at the end
    m = x.amax(1)
    p = (x - m[:, None]).exp()
    return o, WKVState((p * v).sum(1), (p * weight).sum(1), m)
