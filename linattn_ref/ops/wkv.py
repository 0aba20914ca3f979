"""Compute RWKV-4's wkv: a weighted mean of values per channel, with a decay and a bonus for the token itself.

Per batch element and channel::

    wkv_t = (sum_{i<t} e^{-(t-1-i) w + k_i} v_i + e^{u + k_t} v_t) / (the same with v = 1)

with a decay rate ``w >= 0`` and a bonus ``u``, both learned. The recurrence carries numerator and denominator
relative to ``e^m``, where m is the largest exponent so far; without it e^k overflows.

Source: Peng et al. 2023 (arXiv 2305.13048, published version, section 3 and appendix D).
"""

from functools import partial
from typing import Protocol

import torch

from linattn_ref.ops.results import WKVResult, WKVState
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.shapes import Float, Tensor, check_shapes
from linattn_ref.ops.validation import (
    check_channels,
    check_chunk_size,
    check_one_channel_token,
    check_parameter,
    choose_compute_dtype,
    require,
    require_like,
    require_shape,
    require_tensor,
    require_values,
)


def recurrent_wkv(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    initial_state: WKVState | None = None,
) -> WKVResult:
    """Compute RWKV-4's weighted mean token after token, with three numbers of state per channel.

    Per batch element and channel::

        wkv_t = (sum_{i<t} p_ti v_i + p_tt v_t) / (sum_{i<t} p_ti + p_tt)
        p_ti = exp(k_i - (t - 1 - i) w),   p_tt = exp(k_t + u)

    Numerator and denominator are carried relative to e^m, with m the largest exponent so far: else e^k
    overflows. Cost per channel: T sequential steps; memory 3.

    Args:
        k: keys, the exponents of the weights, ``[B, T, D]``, any floating dtype.
        v: values, ``[B, T, D]``, in k's dtype.
        w: decay rate of each channel, ``[D]``, finite and >= 0, in k's dtype or in float32 (float64 beside
            float64): the natural logarithm of the decay is -w.
        u: bonus of a token for itself, ``[D]``, dtypes as w's.
        initial_state: the ``WKVState`` before the first token, three tensors ``[B, D]`` in float32 (float64
            beside float64), as an earlier call returned it. None: nothing was read.

    Returns:
        ``WKVResult(output, state)``: output ``[B, T, D]`` in k's dtype, and the ``WKVState`` after the last
        token, three tensors ``[B, D]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2023, arXiv 2305.13048, published version, section 3 and appendix D.

    Example:
        >>> k, v = torch.zeros(1, 3, 1), torch.arange(3.0).view(1, 3, 1)
        >>> output, state = recurrent_wkv(k, v, w=torch.zeros(1), u=torch.zeros(1))  # the mean so far
        >>> output.flatten(), state.b.item()
        (tensor([0.0000, 0.5000, 1.0000]), 3.0)
    """
    return _run(_recurrent, k, v, w, u, initial_state)


def parallel_wkv(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    *,
    initial_state: WKVState | None = None,
) -> WKVResult:
    """Compute RWKV-4's weighted mean as a softmax over all earlier tokens, for every channel.

    Per batch element and channel::

        wkv_t = (sum_{i<t} p_ti v_i + p_tt v_t) / (sum_{i<t} p_ti + p_tt)
        p_ti = exp(k_i - (t - 1 - i) w),   p_tt = exp(k_t + u)

    Cost per channel: about T^2 operations in one step; memory T^2.

    A NaN or infinity in a value reaches all outputs of its channel, earlier ones as well: a weight of 0 x NaN
    is NaN. In a key it reaches no earlier output.

    Args:
        k: keys, the exponents of the weights, ``[B, T, D]``, any floating dtype.
        v: values, ``[B, T, D]``, in k's dtype.
        w: decay rate of each channel, ``[D]``, finite and >= 0, in k's dtype or in float32 (float64 beside
            float64): the natural logarithm of the decay is -w.
        u: bonus of a token for itself, ``[D]``, dtypes as w's.
        initial_state: the ``WKVState`` before the first token, three tensors ``[B, D]`` in float32 (float64
            beside float64), as an earlier call returned it. None: nothing was read.

    Returns:
        ``WKVResult(output, state)``: output ``[B, T, D]`` in k's dtype, and the ``WKVState`` after the last
        token, three tensors ``[B, D]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2023, arXiv 2305.13048, published version, section 3 and appendix D.

    Example:
        >>> k, v = torch.zeros(1, 3, 1), torch.arange(3.0).view(1, 3, 1)
        >>> output, state = parallel_wkv(k, v, w=torch.zeros(1), u=torch.zeros(1))  # the mean so far
        >>> output.flatten(), state.b.item()
        (tensor([0.0000, 0.5000, 1.0000]), 3.0)
    """
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
    """Compute RWKV-4's weighted mean by chunks: the parallel form chunk after chunk, from the state before.

    Per batch element and channel::

        wkv_t = (sum_{i<t} p_ti v_i + p_tt v_t) / (sum_{i<t} p_ti + p_tt)
        p_ti = exp(k_i - (t - 1 - i) w),   p_tt = exp(k_t + u)

    Work and memory T C per channel with C = ``chunk_size``, and no matrix products, hence the small chunks.

    A NaN or infinity in a value reaches all outputs of its channel in the chunk, earlier ones as well (a
    weight of 0 x NaN is NaN), and none of the chunks before. In a key it reaches no earlier output.

    Args:
        k: keys, the exponents of the weights, ``[B, T, D]``, any floating dtype.
        v: values, ``[B, T, D]``, in k's dtype.
        w: decay rate of each channel, ``[D]``, finite and >= 0, in k's dtype or in float32 (float64 beside
            float64): the natural logarithm of the decay is -w.
        u: bonus of a token for itself, ``[D]``, dtypes as w's.
        initial_state: the ``WKVState`` before the first token, three tensors ``[B, D]`` in float32 (float64
            beside float64), as an earlier call returned it. None: nothing was read.
        chunk_size: tokens per chunk, at least 1; it changes cost, not results. T need not be a multiple of
            it.

    Returns:
        ``WKVResult(output, state)``: output ``[B, T, D]`` in k's dtype, and the ``WKVState`` after the last
        token, three tensors ``[B, D]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2023, arXiv 2305.13048, published version, section 3 and appendix D.

    Example:
        >>> k, v = torch.zeros(1, 3, 1), torch.arange(3.0).view(1, 3, 1)
        >>> output, state = chunk_wkv(k, v, w=torch.zeros(1), u=torch.zeros(1))  # the mean so far
        >>> output.flatten(), state.b.item()
        (tensor([0.0000, 0.5000, 1.0000]), 3.0)
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
    """Compute RWKV-4's weighted mean for one token, from the state that the tokens before it left.

    Per batch element and channel::

        wkv_t = (sum_{i<t} p_ti v_i + p_tt v_t) / (sum_{i<t} p_ti + p_tt)
        p_ti = exp(k_i - (t - 1 - i) w),   p_tt = exp(k_t + u)

    Cost per channel: a few operations, however many tokens came before.

    Args:
        k: keys, the exponents of the weights, ``[B, 1, D]``, any floating dtype.
        v: values, ``[B, 1, D]``, in k's dtype.
        w: decay rate of each channel, ``[D]``, finite and >= 0, in k's dtype or in float32 (float64 beside
            float64): the natural logarithm of the decay is -w.
        u: bonus of a token for itself, ``[D]``, dtypes as w's.
        state: the ``WKVState`` before the token, three tensors ``[B, D]`` in float32 (float64 beside
            float64), as an earlier call returned it. None: nothing was read.

    Returns:
        ``WKVResult(output, state)``: output ``[B, 1, D]`` in k's dtype, and the ``WKVState`` after the token,
        three tensors ``[B, D]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Peng et al. 2023, arXiv 2305.13048, published version, section 3 and appendix D.

    Example:
        >>> k, v, nothing = torch.zeros(1, 1, 1), torch.full((1, 1, 1), 4.0), torch.zeros(1)
        >>> before = WKVState(a=torch.zeros(1, 1), b=torch.full((1, 1), 3.0), m=torch.zeros(1, 1))
        >>> output, state = step_wkv(k, v, w=nothing, u=nothing, state=before)  # after three values of 0
        >>> output.item(), state.b.item()
        (1.0, 4.0)
    """
    check_one_channel_token(k, "k")
    return _run(_recurrent, k, v, w, u, state, state_name="state")


class _Body(Protocol):
    """Describe one form: k, v, w, u and a state give the output and the last state."""

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
        check_parameter(x, name, k, tuple(k.shape[2:]))
    require_values(w, "w", low=0.0, meaning="decay rates >= 0")
    dtype, shape = choose_compute_dtype(k), (k.shape[0], k.shape[2])
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


@check_shapes
def _recurrent(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    """Run the recurrence: read with the bonus, then forget and write."""
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


@check_shapes
def _chunk(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
    *,
    chunk_size: int,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    """Run the parallel form on one chunk after the other."""
    outputs = []
    for k_here, v_here in zip(k.split(chunk_size, 1), v.split(chunk_size, 1), strict=True):
        o, state = _parallel(k_here, v_here, w, u, state)
        outputs.append(o)
    return torch.cat(outputs, 1), state


@check_shapes
def _parallel(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    w: Float[Tensor, " D"],
    u: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    """Take the softmax of all tokens so far, the start state as one more token before the first."""
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
