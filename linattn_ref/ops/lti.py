"""Linear time-invariant state space models with a diagonal A: a recurrence, and one long convolution.

Per batch element and channel, with N numbers of state::

    h_t = A_bar h_{t-1} + B_bar u_t,    y_t = C h_t + D u_t

where A_bar, B_bar come from A, B and the step ``delta`` (``ops.discretise``). The same input weights and
decays at every step: nothing depends on the data, so y is the convolution of u with ``K_l = C A_bar^l
B_bar``.

Arguments that both forms share:

* ``u [B, T, D]``; ``delta [D]``, > 0; ``D [D]``, the skip, or None;
* ``A, B, C [D, N]``, all real, or all complex: then every entry stands for itself and its conjugate, and
  y_t = 2 Re(C h_t) + D u_t. The real part of A must be <= 0;
* ``method``: "zoh", "bilinear" or "euler";
* ``initial_state [B, D, N]``, complex if A is, in float32 or complex64 at least; None is zeros.

Sources: Gu et al. 2021 (arXiv 2111.00396, S4), Gu et al. 2022 (arXiv 2206.11893, S4D).
"""

from typing import Protocol

import torch

from linattn_ref.ops.channels import (
    ChannelResult,
    check_beside,
    check_channels,
    check_one_of_channels,
    checked_state,
    complex_dtype,
    width_of_state,
)
from linattn_ref.ops.discretise import Method, discretise
from linattn_ref.ops.inputs import (
    compute_dtype,
    no_autocast,
    require_like,
    require_shape,
    require_tensor,
    require_values,
)
from linattn_ref.ops.shapes import Float, Inexact, Tensor, shaped


def recurrent_lti_ssm(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, " D"],
    A: Inexact[Tensor, "D N"],
    B: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    method: Method = "zoh",
    initial_state: Inexact[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """Recurrent form, token after token. Cost per channel: T sequential steps of 4 N operations."""
    return _run(_recurrent, u, delta, A, B, C, D, method, initial_state)


def convolution_lti_ssm(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, " D"],
    A: Inexact[Tensor, "D N"],
    B: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    method: Method = "zoh",
    initial_state: Inexact[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """Convolution form: a kernel of T numbers per channel, applied by FFT over 2 T points or more, for any T.

    Cost per channel: 2 T N for the kernel, O(T log T) for the FFT; memory T N for the powers of A_bar.
    """
    return _run(_convolution, u, delta, A, B, C, D, method, initial_state)


def step_lti_ssm(
    u: Float[Tensor, "B 1 D"],
    delta: Float[Tensor, " D"],
    A: Inexact[Tensor, "D N"],
    B: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    D: Float[Tensor, " D"] | None = None,
    *,
    method: Method = "zoh",
    state: Inexact[Tensor, "B D N"] | None = None,
) -> ChannelResult:
    """One token of the recurrent form, for decoding. Cost per channel: 4 N operations, whatever T was."""
    check_one_of_channels(u)
    return _run(_recurrent, u, delta, A, B, C, D, method, state, state_name="state")


class _Body(Protocol):
    """One form: u, A_bar, B_bar, C, state -> C h_t for every t, and the last state."""

    def __call__(self, u: Tensor, a: Tensor, b: Tensor, C: Tensor, S: Tensor, /) -> tuple[Tensor, Tensor]: ...


def _run(
    body: _Body,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    method: Method,
    initial_state: Tensor | None,
    state_name: str = "initial_state",
) -> ChannelResult:
    """Check, promote, discretise, run ``body`` with autocast off, add the skip."""
    check_channels(u, "u")
    shape = u.shape[2], width_of_state(A, u.shape[2])
    check_beside(delta, "delta", u, shape[:1])
    require_values(delta, "delta", low=0.0)
    dtype = _check_parameters(u, A, B, C, shape)
    if D is not None:
        check_beside(D, "D", u, shape[:1])
    state = checked_state(initial_state, state_name, u, shape, dtype)
    with no_autocast(u.device):
        x = u.to(compute_dtype(u))
        a, factor = discretise(delta.to(x.dtype)[:, None], A.to(dtype), method)
        y, state = body(x, a, factor * B.to(dtype), C.to(dtype), state)
        y = 2 * y.real if y.is_complex() else y
        if D is not None:
            y = y + D.to(x.dtype) * x
    return ChannelResult(y.to(u.dtype), state)


def _check_parameters(u: Tensor, A: Tensor, B: Tensor, C: Tensor, shape: tuple[int, int]) -> torch.dtype:
    """A, B, C ``[D, N]``, all real or all complex; the dtype of the state."""
    for name, x in (("A", A), ("B", B), ("C", C)):
        if not isinstance(A, Tensor) or not A.is_complex():
            check_beside(x, name, u, shape)
            continue
        require_tensor(x, name)
        require_shape(x, name, shape)
        require_like(x, name, u, (complex_dtype(u),))
    decay = A.real if A.is_complex() else A
    require_values(decay, "A", top=0.0, meaning="real parts <= 0, else the state grows")
    return complex_dtype(u) if A.is_complex() else compute_dtype(u)


# --- bodies -------------------------------------------------------------------------------------------------


@shaped
def _recurrent(
    u: Float[Tensor, "B T D"],
    a: Inexact[Tensor, "D N"],
    b: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    S: Inexact[Tensor, "B D N"],
) -> tuple[Inexact[Tensor, "B T D"], Inexact[Tensor, "B D N"]]:
    outputs = []
    for t in range(u.shape[1]):
        S = a * S + b * u[:, t, :, None]
        outputs.append((C * S).sum(-1))
    return torch.stack(outputs, 1), S


@shaped
def _convolution(
    u: Float[Tensor, "B T D"],
    a: Inexact[Tensor, "D N"],
    b: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    S: Inexact[Tensor, "B D N"],
) -> tuple[Inexact[Tensor, "B T D"], Inexact[Tensor, "B D N"]]:
    T = u.shape[1]
    power = powers(a, T + 1)  # [D, N, T + 1]
    kernel = torch.einsum("dn,dnl->dl", C * b, power[..., :T])
    if kernel.is_complex():
        y = torch.complex(causal_convolution(u, kernel.real), causal_convolution(u, kernel.imag))
    else:
        y = causal_convolution(u, kernel)
    y = y + torch.einsum("dn,dnt,bdn->btd", C, power[..., 1:], S)
    written = torch.einsum("dnt,btd->bdn", power[..., :T].flip(-1), u.to(power.dtype))
    return y, power[..., -1] * S + b * written


def powers(a: Inexact[Tensor, "D N"], n: int) -> Inexact[Tensor, "D N n"]:
    """a^0, ..., a^(n-1), by doubling: no logarithm, so a may be 0."""
    table, top = torch.ones_like(a)[..., None], a[..., None]  # top = a^(entries of the table)
    while table.shape[-1] < n:
        table = torch.cat([table, table * top], -1)
        top = top * top
    return table[..., :n]


def causal_convolution(u: Float[Tensor, "B T D"], kernel: Float[Tensor, "D T"]) -> Float[Tensor, "B T D"]:
    """y_t = sum_l kernel_l u_{t-l}: a product of spectra, over 2 T points so that no end wraps around."""
    T, size = u.shape[1], 2
    while size < 2 * T:  # a power of two is fast for every T
        size *= 2
    spectrum = torch.fft.rfft(u.mT, size) * torch.fft.rfft(kernel, size)
    return torch.fft.irfft(spectrum, size)[..., :T].mT
