"""Known answers to question 2: discretise and convolve."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _hold(x):
    """(e^x - 1)/x, by its series and by the formula."""
    near = torch.where(x.abs() < 0.1, x, 0.0)
    series = 1 + near / 2 * (1 + near / 3 * (1 + near / 4 * (1 + near / 5 * (1 + near / 6 * (1 + near / 7)))))
    far = torch.where(x.abs() < 0.1, 1.0, x)
    return torch.where(x.abs() < 0.1, series, (far.exp() - 1) / far)


def _kernel(delta, A, B, C, T, first=0, factor=2, B_bar=None, conjugate=False):
    """The kernel, with places to go wrong."""
    A, B, C = (torch.view_as_complex(x) for x in (A, B, C))
    x = delta * A
    B = delta * _hold(x) * B if B_bar is None else B_bar(delta, A, B)
    l = torch.arange(first, T + first)
    return factor * ((l[:, None] * x).exp() @ ((C.conj() if conjugate else C) * B)).real


def _convolve(u, kernel, n, norm=None):
    """A product of spectra, on a circle of n places."""
    a, b = torch.fft.rfft(u, n, norm=norm), torch.fft.rfft(kernel, n, norm=norm)
    return torch.fft.irfft(a * b, n, norm=norm)[: len(u)]


@mistake("A complex number of state stands for its conjugate, too: 2 Re, not Re.", replaces="kernel")
def without_the_2(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, factor=1)


@mistake(
    "That is twice the magnitude. A number and its conjugate add up to twice the real part.",
    replaces="kernel",
)
def magnitude(delta, A, B, C, T):
    A, B, C = (torch.view_as_complex(x) for x in (A, B, C))
    power = (torch.arange(T)[:, None] * delta * A).exp()
    return 2 * (power @ (C * delta * _hold(delta * A) * B)).abs()


@mistake("B is missing: B_bar is (e^x - 1)/A times B.", replaces="kernel")
def without_B(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: delta * _hold(delta * A))


@mistake(
    "For A = 0 the formula of B_bar divides 0 by 0, and near 0 the difference loses its digits. "
    "What is its limit?",
    replaces="kernel",
)
def as_written(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: ((delta * A).exp() - 1) / A * B)


@mistake(
    "A = 0 is right. Next to it, e^x - 1 loses its digits: at x = 1e-13 three are left. Use expm1 "
    "or a series.",
    replaces="kernel",
)
def zero_alone_is_cared_for(delta, A, B, C, T):
    def B_bar(delta, A, B):
        safe = torch.where(A == 0, 1.0, A)
        return torch.where(A == 0, delta, ((delta * A).exp() - 1) / safe) * B

    return _kernel(delta, A, B, C, T, B_bar=B_bar)


@mistake(
    "The threshold is too high: at |x| = 1e-3 B_bar = Delta B is right to three digits. Use more "
    "terms of the series.",
    replaces="kernel",
)
def high_threshold(delta, A, B, C, T):
    def B_bar(delta, A, B):
        small = (delta * A).abs() < 1e-2
        safe = torch.where(small, 1.0, A)
        return torch.where(small, delta, ((delta * A).exp() - 1) / safe) * B

    return _kernel(delta, A, B, C, T, B_bar=B_bar)


@mistake(
    "The first tap is C B_bar: what a token writes is read at once, before it decays.", replaces="kernel"
)
def a_decay_too_many(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, first=1)


@mistake(
    "That is Euler's B_bar, Delta B. The zero-order hold lets B decay within the step.", replaces="kernel"
)
def euler(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: delta * B)


@mistake("B is not discretised.", replaces="kernel")
def plain_B(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: B)


@mistake(
    "That is the bilinear method's B_bar, beside the zero-order hold's A_bar.",
    replaces="kernel",
)
def bilinear(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: delta * B / (1 - delta * A / 2))


@mistake(
    "B_bar has one Delta too many: (e^x - 1)/A is a time already.",
    replaces="kernel",
)
def delta_twice(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, B_bar=lambda delta, A, B: delta**2 * _hold(delta * A) * B)


@mistake("C is conjugated on the way, as by `vdot`. The output is C times the state.", replaces="kernel")
def conjugate_C(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T, conjugate=True)


@mistake(
    "On a circle of T places the end leaks into the beginning. Pad with zeros to 2T - 1 places or more.",
    replaces="convolve",
)
def circular(u, kernel):
    return _convolve(u, kernel, len(u))


@mistake("One zero more does not help: two sequences of T reach up to place 2T - 2.", replaces="convolve")
def one_more(u, kernel):
    return _convolve(u, kernel, len(u) + 1)


@mistake(
    "1.5 T places are too few: what reaches beyond them comes round. Two sequences of T need 2T - 1.",
    replaces="convolve",
)
def one_and_a_half(u, kernel):
    return _convolve(u, kernel, 3 * len(u) // 2)


@mistake("That is the whole convolution, with its tail. The output has T tokens.", replaces="convolve")
def with_its_tail(u, kernel):
    n = 2 * len(u) - 1
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(kernel, n), n)


@mistake(
    "One spectrum is conjugated: that is a correlation, and tokens see what comes after them.",
    replaces="convolve",
)
def correlation(u, kernel):
    n = 2 * len(u)
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(kernel, n).conj(), n)[: len(u)]


@mistake(
    "Transforms of norm='ortho' are divided by the root of n, three times here: a convolution wants "
    "the default.",
    replaces="convolve",
)
def orthonormal(u, kernel):
    return _convolve(u, kernel, 2 * len(u), "ortho")


@mistake("The last T of the whole convolution are its tail. The first T are asked for.", replaces="convolve")
def the_tail(u, kernel):
    n = 2 * len(u) - 1
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(kernel, n), n)[-len(u) :]


@mistake(
    "A series for small steps is cut short, or used too far from 0: at |Delta A| = 0.005 two terms are right "
    "to five digits only.",
    replaces="kernel",
)
def two_terms_for_small_steps(delta, A, B, C, T):
    def B_bar(delta, A, B):
        x = delta * A
        exact = ((delta * A).exp() - 1) / torch.where(A == 0, 1.0, A)
        return torch.where(x.abs() < 1e-2, delta * (1 + x / 2), exact) * B

    return _kernel(delta, A, B, C, T, B_bar=B_bar)


@mistake(
    "B_bar = Delta B belongs to A = 0. A mode whose real part alone is 0 does not decay, but it turns: use the formula.",
    replaces="kernel",
)
def oscillator_as_an_integrator(delta, A, B, C, T):
    return _kernel(
        delta,
        A,
        B,
        C,
        T,
        B_bar=lambda delta, A, B: delta * torch.where(A.real == 0, 1.0, _hold(delta * A)) * B,
    )


@also_right(replaces="kernel")
def by_expm1_of_parts(delta, A, B, C, T):
    A, B, C = (torch.view_as_complex(x) for x in (A, B, C))
    x = delta * A
    a, b = x.real, x.imag
    real = a.expm1() * b.cos() - 2 * (b / 2).sin() ** 2  # of e^x - 1
    change = torch.complex(real, a.exp() * b.sin())
    B_bar = torch.where(A == 0, delta * B, change / torch.where(A == 0, 1.0, A) * B)
    state, taps = C * B_bar, []
    powers = torch.ones(1, dtype=A.dtype)[:, None] * torch.ones_like(A)
    size = 1
    while size < T:  # doubling: powers 0 to 2 size - 1
        powers = torch.cat([powers, powers * (size * x).exp()])
        size *= 2
    taps = 2 * (powers[:T] @ state).real
    return taps


@also_right(replaces="kernel")
def by_a_series(delta, A, B, C, T):
    return _kernel(delta, A, B, C, T)


@also_right(replaces="kernel")
def by_sinh(delta, A, B, C, T):
    def B_bar(delta, A, B):
        half = torch.where(A == 0, 1.0, delta * A / 2)
        ratio = torch.where(A == 0, 1.0, half.sinh() / half)
        return delta * (delta * A / 2).exp() * ratio * B

    return _kernel(delta, A, B, C, T, B_bar=B_bar)


@also_right(replaces="convolve")
def shortest_circle(u, kernel):
    n = 2 * len(u) - 1
    return torch.fft.ifft(torch.fft.fft(u, n) * torch.fft.fft(kernel, n)).real[: len(u)]


@also_right(replaces="convolve")
def in_halves(u, kernel):
    m, n = len(u) // 2, 2 * len(u)
    spectrum = torch.fft.rfft(kernel, n)
    if len(u) <= 4096:
        return torch.fft.irfft(torch.fft.rfft(u, n) * spectrum, n)[: len(u)]
    late = torch.fft.irfft(torch.fft.rfft(u[:m], n) * spectrum, n)[m : len(u)]
    first, second = in_halves(u[:m], kernel[:m]), in_halves(u[m:], kernel[: len(u) - m])
    return torch.cat([first, second + late])
