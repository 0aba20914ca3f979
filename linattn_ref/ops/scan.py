"""The selective scan of Mamba: a diagonal state space model whose step, input and output depend on the data.

Per batch element and channel, with N numbers of state::

    h_t = exp(Delta_t A) h_{t-1} + B_bar_t u_t,    y_t = C_t h_t + D u_t

* ``u, delta [B, T, D]``; delta > 0 is the step, after its softplus;
* ``A [D, N]``, <= 0; ``B, C [B, T, N]``, shared by all channels; ``D [D]``, the skip, or None;
* ``hold``: "euler" takes ``B_bar_t = Delta_t B_t``, as Mamba's code does; "exact" is the zero-order hold
  ``(exp(Delta_t A) - 1) / A * B_t`` of its paper's equation 4;
* ``initial_state [B, D, N]`` in float32 at least; None is zeros.

The gate is a full D x N matrix for every token, so there is no form made of matrix products: the parallel one
is a scan over pairs (decay, what was written), which compose: first (a, b), then (a', b') is (a' a, a' b +
b').

Source: Gu and Dao 2023 (arXiv 2312.00752, equations 1-4 and algorithm 2).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch.nn.functional import pad

from linattn_ref.ops.channels import (
    ChannelResult,
    check_beside,
    check_channels,
    check_choice,
    check_one_of_channels,
    checked_state,
    width_of_state,
)
from linattn_ref.ops.chunks import delay
from linattn_ref.ops.discretise import discretise
from linattn_ref.ops.inputs import (
    compute_dtype,
    no_autocast,
    require_values,
)
from linattn_ref.ops.shapes import Float, Tensor, shaped

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
    """Recurrent form, token after token. Cost per channel: T sequential steps of 6 N operations."""
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
    """Associative form: a work-efficient scan, about 2 log2(T) sequential steps and 2 T compositions, any T.

    Memory: about 3 T N numbers per channel; Mamba's kernel keeps them on the chip.
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
    """One token of the recurrent form, for decoding. Cost per channel: 6 N operations, whatever T was."""
    check_one_of_channels(u)
    return _run(_recurrent, u, delta, A, B, C, D, hold, state, state_name="state")


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
    check_channels(u, "u")
    batch, T, channels = u.shape
    N = width_of_state(A, channels)
    check_beside(delta, "delta", u, (batch, T, channels))
    require_values(delta, "delta", low=0.0)
    check_beside(A, "A", u, (channels, N))
    require_values(A, "A", top=0.0, meaning="values <= 0, else the state grows")
    for name, x, shape in (("B", B, (batch, T, N)), ("C", C, (batch, T, N)), ("D", D, (channels,))):
        if name != "D" or x is not None:
            check_beside(x, name, u, shape)  # type: ignore[arg-type]
    check_choice(hold, "hold", ("euler", "exact"))
    dtype = compute_dtype(u)
    state = checked_state(initial_state, state_name, u, (channels, N), dtype)
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


@shaped
def _recurrent(
    decay: Float[Tensor, "B T D N"], write: Float[Tensor, "B T D N"], S: Float[Tensor, "B D N"]
) -> Float[Tensor, "B T D N"]:
    states = []
    for t in range(decay.shape[1]):
        S = decay[:, t] * S + write[:, t]
        states.append(S)
    return torch.stack(states, 1)


@shaped
def _associative(
    decay: Float[Tensor, "B T D N"], write: Float[Tensor, "B T D N"], S: Float[Tensor, "B D N"]
) -> Float[Tensor, "B T D N"]:
    first = write[:, :1] + decay[:, :1] * S[:, None]
    return _scan(decay, torch.cat([first, write[:, 1:]], 1))


def _scan(a: Tensor, b: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + b_t from nothing: compose neighbours, scan the pairs, fill in what lies between."""
    T = a.shape[1]
    if T == 1:
        return b
    a, b = (pad(x, (0, 0, 0, 0, 0, T % 2)) for x in (a, b))  # what comes after the end does not matter
    odd = _scan(a[:, 1::2] * a[:, ::2], a[:, 1::2] * b[:, ::2] + b[:, 1::2])  # h_1, h_3, ...
    even = a[:, ::2] * delay(odd, 1) + b[:, ::2]  # h_0, h_2, ...
    return torch.stack([even, odd], 2).flatten(1, 2)[:, :T]
