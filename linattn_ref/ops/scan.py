"""Run the selective scan of Mamba: a diagonal state space model whose step, input and output depend on data.

Per batch element and channel, with N numbers of state::

    h_t = exp(Delta_t A) h_{t-1} + B_bar_t u_t,    y_t = C_t h_t + D u_t

The gate is a full D x N matrix for every token, so there is no form made of matrix products: the parallel one
is a scan over pairs (decay, what was written), which compose: first (a, b), then (a', b') is (a' a, a' b +
b').

Source: Gu and Dao 2023 (arXiv 2312.00752, equations 1-4 and algorithm 2).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch.nn.functional import pad

from linattn_ref.ops.chunks import delay
from linattn_ref.ops.discretise import discretise
from linattn_ref.ops.results import ChannelResult
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.shapes import Float, Tensor, check_shapes
from linattn_ref.ops.validation import (
    check_channels,
    check_choice,
    check_one_channel_token,
    check_parameter,
    choose_compute_dtype,
    find_state_width,
    require_values,
    resolve_channel_state,
)

Hold = Literal["euler", "exact"]


def recurrent_selective_scan(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, "B T D"],
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    hold: Hold = "euler",
    initial_state: Float[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """Run Mamba's selective scan token after token.

    Per batch element and channel, with N numbers of state::

        h_t = exp(Delta_t A) h_{t-1} + B_bar_t u_t
        y_t = C_t h_t + D u_t

    Cost per channel: T sequential steps of 6 N operations. Memory: about 3 T N numbers per channel.

    Args:
        u: input, ``[B, T, D]``, any floating dtype.
        delta: steps, ``[B, T, D]``, finite and >= 0, after the softplus, in u's dtype or in float32 (float64
            beside float64).
        A: rates of the N numbers of state, ``[D, N]``, finite and <= 0, dtypes as delta's.
        B: input weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        C: output weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        D: weight of the input in the output (the skip), ``[D]``, or None for none.
        hold: what becomes of B over a step: "euler" takes Delta_t B_t, as Mamba's code does; "exact" the
            zero-order hold (exp(Delta_t A) - 1) / A * B_t of its paper.
        initial_state: the state before the first token, ``[B, D, N]`` in float32 (float64 beside float64).
            None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, T, D]`` in u's dtype, and the state after the last
        token, ``[B, D, N]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4 and algorithm 2.

    Example:
        >>> u = delta = B = C = torch.ones(1, 3, 1)
        >>> output, state = recurrent_selective_scan(u, delta, -torch.ones(1, 1), B, C)
        >>> output.flatten(), list(state.shape)
        (tensor([1.0000, 1.3679, 1.5032]), [1, 1, 1])
    """
    return _run(_recurrent, u, delta, A, B, C, D, hold, initial_state)


def associative_selective_scan(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, "B T D"],
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    hold: Hold = "euler",
    initial_state: Float[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """Run Mamba's selective scan as a tree of compositions.

    Per batch element and channel, with N numbers of state::

        h_t = exp(Delta_t A) h_{t-1} + B_bar_t u_t
        y_t = C_t h_t + D u_t

    Pairs (decay, what was written) compose: first (a, b), then (a', b') is (a' a, a' b + b'). Neighbours are
    composed, the half as many pairs scanned, and what lies between filled in.

    Cost per channel: about 2 log2(T) sequential steps and 2 T N compositions, for any T. Memory: about 3 T N
    numbers per channel; Mamba's kernel keeps them on the chip.

    Args:
        u: input, ``[B, T, D]``, any floating dtype.
        delta: steps, ``[B, T, D]``, finite and >= 0, after the softplus, in u's dtype or in float32 (float64
            beside float64).
        A: rates of the N numbers of state, ``[D, N]``, finite and <= 0, dtypes as delta's.
        B: input weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        C: output weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        D: weight of the input in the output (the skip), ``[D]``, or None for none.
        hold: what becomes of B over a step: "euler" takes Delta_t B_t, as Mamba's code does; "exact" the
            zero-order hold (exp(Delta_t A) - 1) / A * B_t of its paper.
        initial_state: the state before the first token, ``[B, D, N]`` in float32 (float64 beside float64).
            None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, T, D]`` in u's dtype, and the state after the last
        token, ``[B, D, N]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4 and algorithm 2.

    Example:
        >>> u = delta = B = C = torch.ones(1, 3, 1)
        >>> output, state = associative_selective_scan(u, delta, -torch.ones(1, 1), B, C)
        >>> output.flatten(), list(state.shape)
        (tensor([1.0000, 1.3679, 1.5032]), [1, 1, 1])
    """
    return _run(_associative, u, delta, A, B, C, D, hold, initial_state)


def step_selective_scan(
    u: Float[Tensor, "B 1 D"],
    delta: Float[Tensor, "B 1 D"],
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B 1 N"],
    C: Float[Tensor, "B 1 N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    hold: Hold = "euler",
    state: Float[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """Run Mamba's selective scan for one token, from the state that the tokens before it left.

    Per batch element and channel, with N numbers of state::

        h_t = exp(Delta_t A) h_{t-1} + B_bar_t u_t
        y_t = C_t h_t + D u_t

    Cost per channel: 6 N operations, however many tokens came before.

    Args:
        u: input, ``[B, 1, D]``, any floating dtype.
        delta: steps, ``[B, 1, D]``, finite and >= 0, after the softplus, in u's dtype or in float32 (float64
            beside float64).
        A: rates of the N numbers of state, ``[D, N]``, finite and <= 0, dtypes as delta's.
        B: input weights, ``[B, 1, N]``, shared by all channels, dtypes as delta's.
        C: output weights, ``[B, 1, N]``, shared by all channels, dtypes as delta's.
        D: weight of the input in the output (the skip), ``[D]``, or None for none.
        hold: what becomes of B over a step: "euler" takes Delta_t B_t, as Mamba's code does; "exact" the
            zero-order hold (exp(Delta_t A) - 1) / A * B_t of its paper.
        state: the state before the token, ``[B, D, N]`` in float32 (float64 beside float64). None is
            zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, 1, D]`` in u's dtype, and the state after the token,
        ``[B, D, N]`` in float32 (float64 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4 and algorithm 2.

    Example:
        >>> u = delta = B = C = torch.ones(1, 1, 1)
        >>> output, state = step_selective_scan(u, delta, torch.zeros(1, 1), B, C, state=torch.ones(1, 1, 1))
        >>> output.item(), state.item()
        (2.0, 2.0)
    """
    check_one_channel_token(u)
    return _run(_recurrent, u, delta, A, B, C, D, hold, state, state_name="state")


def check_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None, hold: str
) -> tuple[int, int]:
    """Raise unless the arguments of a scan fit each other; return D and N, the shape of the states."""
    check_channels(u, "u")
    batch, T, channels = u.shape
    N = find_state_width(A, channels)
    check_parameter(delta, "delta", u, (batch, T, channels))
    require_values(delta, "delta", low=0.0)
    check_parameter(A, "A", u, (channels, N))
    require_values(A, "A", top=0.0, meaning="values <= 0, else the state grows")
    check_parameter(B, "B", u, (batch, T, N))
    check_parameter(C, "C", u, (batch, T, N))
    if D is not None:
        check_parameter(D, "D", u, (channels,))
    check_choice(hold, "hold", ("euler", "exact"))
    return channels, N


def _run(
    body: Callable[[Tensor, Tensor, Tensor], Tensor],
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    hold: Hold,
    initial_state: Tensor | None,
    state_name: str = "initial_state",
) -> ChannelResult:
    """Check, promote, discretise, run ``body`` with autocast off, read every state."""
    shape, dtype = check_scan(u, delta, A, B, C, D, hold), choose_compute_dtype(u)
    state = resolve_channel_state(initial_state, state_name, u, shape, dtype)
    with no_autocast(u.device):
        x, step = u.to(dtype), delta.to(dtype)[..., None]  # [B, T, D], [B, T, D, 1]
        decay, exact = discretise(step, A.to(dtype), "zoh")  # [B, T, D, N]
        write = (step if hold == "euler" else exact) * B.to(dtype)[:, :, None] * x[..., None]
        h = body(decay, write, state)
        y = torch.einsum("btdn,btn->btd", h, C.to(dtype))
        if D is not None:
            y = y + D.to(dtype) * x
    return ChannelResult(y.to(u.dtype), h[:, -1])


# --- bodies: every state h_t = decay_t h_{t-1} + write_t, from the state S before the first token -----------


@check_shapes
def _recurrent(
    decay: Float[Tensor, "B T D N"], write: Float[Tensor, "B T D N"], S: Float[Tensor, "B D N"]
) -> Float[Tensor, "B T D N"]:
    """Return every state h_t = decay_t h_{t-1} + write_t, one after the other."""
    states = []
    for t in range(decay.shape[1]):
        S = decay[:, t] * S + write[:, t]
        states.append(S)
    return torch.stack(states, 1)


@check_shapes
def _associative(
    decay: Float[Tensor, "B T D N"], write: Float[Tensor, "B T D N"], S: Float[Tensor, "B D N"]
) -> Float[Tensor, "B T D N"]:
    """Return every state, by a scan over pairs (decay, write)."""
    first = write[:, :1] + decay[:, :1] * S[:, None]
    return _scan(decay, torch.cat([first, write[:, 1:]], 1))


def _scan(a: Tensor, b: Tensor) -> Tensor:
    """Return h_t = a_t h_{t-1} + b_t for every t, from h = 0.

    Compose neighbours, scan the pairs, fill in what lies between.
    """
    T = a.shape[1]
    if T == 1:
        return b
    a, b = (pad(x, (0, 0, 0, 0, 0, T % 2)) for x in (a, b))  # what comes after the end does not matter
    odd = _scan(a[:, 1::2] * a[:, ::2], a[:, 1::2] * b[:, ::2] + b[:, 1::2])  # h_1, h_3, ...
    even = a[:, ::2] * delay(odd, 1) + b[:, ::2]  # h_0, h_2, ...
    return torch.stack([even, odd], 2).flatten(1, 2)[:, :T]
