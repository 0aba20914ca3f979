"""Run linear time-invariant state space models with a diagonal A: a recurrence and a long convolution.

Per batch element and channel, with N numbers of state::

    h_t = A_bar h_{t-1} + B_bar u_t,    y_t = C h_t + D u_t

where A_bar, B_bar come from A, B and the step ``delta`` (``ops.discretise``). The same input weights and
decays at every step: nothing depends on the data, so y is the convolution of u with ``K_l = C A_bar^l
B_bar``. A, B and C are all real, or all complex: then every entry stands for itself and its conjugate, and
y_t = 2 Re(C h_t) + D u_t.

Sources: Gu et al. 2021 (arXiv 2111.00396, S4), Gu et al. 2022 (arXiv 2206.11893, S4D).
"""

from typing import Protocol

import torch

from linattn_ref.ops.discretise import Method, discretise
from linattn_ref.ops.results import ChannelResult
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.shapes import Float, Inexact, Tensor, check_shapes
from linattn_ref.ops.validation import (
    check_channels,
    check_one_channel_token,
    check_parameter,
    choose_complex_dtype,
    choose_compute_dtype,
    find_state_width,
    require_like,
    require_shape,
    require_tensor,
    require_values,
    resolve_channel_state,
)


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
    """Run a linear time-invariant state space model token after token.

    Per batch element and channel, with N numbers of state::

        h_t = A_bar h_{t-1} + B_bar u_t
        y_t = C h_t + D u_t              complex: y_t = 2 Re(C h_t) + D u_t

    A_bar and B_bar come from A, B and ``delta``. A complex entry stands for itself and its conjugate.

    Cost per channel: T sequential steps of 4 N operations; memory N.

    Args:
        u: input, ``[B, T, D]``, any floating dtype.
        delta: step of each channel, ``[D]``, finite and >= 0, in u's dtype or in float32 (float64 beside
            float64), in the unit of time in which A is a rate.
        A: rates of the N numbers of state, ``[D, N]``: real, in u's dtype or in float32 (float64 beside
            float64), or complex64 (complex128 beside float64). Real parts are finite and <= 0.
        B: input weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        C: output weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        D: weight of the input in the output (the skip), ``[D]``, real, or None for none.
        method: how A and B are discretised: "zoh" (zero-order hold, exact for an input that is constant over
            each step), "bilinear" or "euler"; see ``discretise``.
        initial_state: the state before the first token, ``[B, D, N]``, in float32 or complex64 (float64 or
            complex128 beside float64), complex if A is. None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, T, D]`` in u's dtype, and the state after the last
        token, ``[B, D, N]`` in float32 or complex64 (float64 or complex128 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2 (S4); Gu et al. 2022, arXiv 2206.11893 (S4D, diagonal A).

    Example:
        >>> u, delta, A = torch.ones(1, 3, 1), torch.ones(1), -torch.ones(1, 1)
        >>> output, state = recurrent_lti_ssm(u, delta, A, B=torch.ones(1, 1), C=torch.ones(1, 1))
        >>> output.flatten(), list(state.shape)
        (tensor([0.6321, 0.8647, 0.9502]), [1, 1, 1])
    """
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
    """Run a linear time-invariant state space model as one long convolution, by FFT.

    Per batch element and channel, with N numbers of state::

        h_t = A_bar h_{t-1} + B_bar u_t
        y_t = C h_t + D u_t              complex: y_t = 2 Re(C h_t) + D u_t

    A_bar and B_bar come from A, B and ``delta``. A complex entry stands for itself and its conjugate.

    Unrolled, y is the convolution of u with the kernel K_l = C A_bar^l B_bar, plus what the initial state
    adds.

    Cost per channel: 2 T N for the kernel, O(T log T) for the FFT over 2 T points or more; memory T N for the
    powers of A_bar.

    A NaN or infinity in u reaches all outputs of its channel, earlier ones as well: a spectrum mixes all
    tokens.

    Args:
        u: input, ``[B, T, D]``, any floating dtype.
        delta: step of each channel, ``[D]``, finite and >= 0, in u's dtype or in float32 (float64 beside
            float64), in the unit of time in which A is a rate.
        A: rates of the N numbers of state, ``[D, N]``: real, in u's dtype or in float32 (float64 beside
            float64), or complex64 (complex128 beside float64). Real parts are finite and <= 0.
        B: input weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        C: output weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        D: weight of the input in the output (the skip), ``[D]``, real, or None for none.
        method: how A and B are discretised: "zoh" (zero-order hold, exact for an input that is constant over
            each step), "bilinear" or "euler"; see ``discretise``.
        initial_state: the state before the first token, ``[B, D, N]``, in float32 or complex64 (float64 or
            complex128 beside float64), complex if A is. None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, T, D]`` in u's dtype, and the state after the last
        token, ``[B, D, N]`` in float32 or complex64 (float64 or complex128 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2 (S4); Gu et al. 2022, arXiv 2206.11893 (S4D, diagonal A).

    Example:
        >>> u, delta, A = torch.ones(1, 3, 1), torch.ones(1), -torch.ones(1, 1)
        >>> output, state = convolution_lti_ssm(u, delta, A, B=torch.ones(1, 1), C=torch.ones(1, 1))
        >>> output.flatten(), list(state.shape)
        (tensor([0.6321, 0.8647, 0.9502]), [1, 1, 1])
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
    """Run a linear time-invariant state space model for one token, from the state before it.

    Per batch element and channel, with N numbers of state::

        h_t = A_bar h_{t-1} + B_bar u_t
        y_t = C h_t + D u_t              complex: y_t = 2 Re(C h_t) + D u_t

    A_bar and B_bar come from A, B and ``delta``. A complex entry stands for itself and its conjugate.

    Cost per channel: 4 N operations, however many tokens came before.

    Args:
        u: input, ``[B, 1, D]``, any floating dtype.
        delta: step of each channel, ``[D]``, finite and >= 0, in u's dtype or in float32 (float64 beside
            float64), in the unit of time in which A is a rate.
        A: rates of the N numbers of state, ``[D, N]``: real, in u's dtype or in float32 (float64 beside
            float64), or complex64 (complex128 beside float64). Real parts are finite and <= 0.
        B: input weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        C: output weights, ``[D, N]``, complex if and only if A is, dtypes as A's.
        D: weight of the input in the output (the skip), ``[D]``, real, or None for none.
        method: how A and B are discretised: "zoh" (zero-order hold, exact for an input that is constant over
            each step), "bilinear" or "euler"; see ``discretise``.
        state: the state before the token, ``[B, D, N]``, in float32 or complex64 (float64 or complex128
            beside float64), complex if A is. None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, 1, D]`` in u's dtype, and the state after the token,
        ``[B, D, N]`` in float32 or complex64 (float64 or complex128 beside float64).

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype, device or value. The message names it, what
            came and what was expected.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2 (S4); Gu et al. 2022, arXiv 2206.11893 (S4D, diagonal A).

    Example:
        >>> u, delta, A = torch.ones(1, 1, 1), torch.ones(1), torch.zeros(1, 1)
        >>> one = torch.ones(1, 1)
        >>> output, state = step_lti_ssm(u, delta, A, B=one, C=one, state=torch.full((1, 1, 1), 5.0))
        >>> output.item(), state.item()
        (6.0, 6.0)
    """
    check_one_channel_token(u)
    return _run(_recurrent, u, delta, A, B, C, D, method, state, state_name="state")


class _Body(Protocol):
    """Describe one form: u, A_bar, B_bar, C and a state give C h_t for every t, and the last state."""

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
    shape = u.shape[2], find_state_width(A, u.shape[2])
    check_parameter(delta, "delta", u, shape[:1])
    require_values(delta, "delta", low=0.0)
    dtype = _check_parameters(u, A, B, C, shape)
    if D is not None:
        check_parameter(D, "D", u, shape[:1])
    state = resolve_channel_state(initial_state, state_name, u, shape, dtype)
    with no_autocast(u.device):
        x = u.to(choose_compute_dtype(u))
        a, factor = discretise(delta.to(x.dtype)[:, None], A.to(dtype), method)
        y, state = body(x, a, factor * B.to(dtype), C.to(dtype), state)
        y = 2 * y.real if y.is_complex() else y
        if D is not None:
            y = y + D.to(x.dtype) * x
    return ChannelResult(y.to(u.dtype), state)


def _check_parameters(u: Tensor, A: Tensor, B: Tensor, C: Tensor, shape: tuple[int, int]) -> torch.dtype:
    """Return the dtype of the state, and raise unless A, B, C are ``[D, N]``, all real or complex."""
    for name, x in (("A", A), ("B", B), ("C", C)):
        if not isinstance(A, Tensor) or not A.is_complex():
            check_parameter(x, name, u, shape)
            continue
        require_tensor(x, name)
        require_shape(x, name, shape)
        require_like(x, name, u, (choose_complex_dtype(u),))
    decay = A.real if A.is_complex() else A
    require_values(decay, "A", top=0.0, meaning="real parts <= 0, else the state grows")
    return choose_complex_dtype(u) if A.is_complex() else choose_compute_dtype(u)


# --- bodies -------------------------------------------------------------------------------------------------


@check_shapes
def _recurrent(
    u: Float[Tensor, "B T D"],
    a: Inexact[Tensor, "D N"],
    b: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    S: Inexact[Tensor, "B D N"],
) -> tuple[Inexact[Tensor, "B T D"], Inexact[Tensor, "B D N"]]:
    """Run the recurrence."""
    outputs = []
    for t in range(u.shape[1]):
        S = a * S + b * u[:, t, :, None]
        outputs.append((C * S).sum(-1))
    return torch.stack(outputs, 1), S


@check_shapes
def _convolution(
    u: Float[Tensor, "B T D"],
    a: Inexact[Tensor, "D N"],
    b: Inexact[Tensor, "D N"],
    C: Inexact[Tensor, "D N"],
    S: Inexact[Tensor, "B D N"],
) -> tuple[Inexact[Tensor, "B T D"], Inexact[Tensor, "B D N"]]:
    """Convolve u with the kernel of the system, and add what the start state gives."""
    T = u.shape[1]
    power = compute_powers(a, T + 1)  # [D, N, T + 1]
    kernel = torch.einsum("dn,dnl->dl", C * b, power[..., :T])
    if kernel.is_complex():
        y = torch.complex(convolve_causally(u, kernel.real), convolve_causally(u, kernel.imag))
    else:
        y = convolve_causally(u, kernel)
    y = y + torch.einsum("dn,dnt,bdn->btd", C, power[..., 1:], S)
    written = torch.einsum("dnt,btd->bdn", power[..., :T].flip(-1), u.to(power.dtype))
    return y, power[..., -1] * S + b * written


def compute_powers(a: Inexact[Tensor, "D N"], n: int) -> Inexact[Tensor, "D N n"]:
    """Return a^0, ..., a^(n-1), by doubling: no logarithm, so a may be 0."""
    table, top = torch.ones_like(a)[..., None], a[..., None]  # top = a^(entries of the table)
    while table.shape[-1] < n:
        table = torch.cat([table, table * top], -1)
        top = top * top
    return table[..., :n]


def convolve_causally(u: Float[Tensor, "B T D"], kernel: Float[Tensor, "D T"]) -> Float[Tensor, "B T D"]:
    """Return y_t = sum_l kernel_l u_{t-l}, per channel.

    It is a product of spectra, over 2 T points or more so that no end wraps around.
    """
    T, size = u.shape[1], 2
    while size < 2 * T:  # a power of two is fast for every T
        size *= 2
    spectrum = torch.fft.rfft(u.mT, size) * torch.fft.rfft(kernel, size)
    return torch.fft.irfft(spectrum, size)[..., :T].mT
