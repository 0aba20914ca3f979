"""Known answers to question 5: the best delay."""

import numpy as np
import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _powers(A_bar, T):
    """The powers [T, N] of the complex numbers that the pairs stand for."""
    A = torch.view_as_complex(A_bar.contiguous())[None]
    return torch.cat([torch.ones_like(A), A.expand(T - 1, -1)]).cumprod(0)


def _delay(d, T, dtype=torch.float64):
    """The kernel of a delay, as a column."""
    return torch.nn.functional.one_hot(torch.tensor(d), T).to(dtype)[:, None]


def _fit(basis, target):
    """The combination of the columns that is nearest to the target."""
    basis = basis / basis.norm(dim=0)  # what is small for all steps is no noise
    return (basis @ torch.linalg.lstsq(basis, target).solution)[:, 0]


def _best(A_bar, d, T):
    """The right kernel."""
    power = _powers(A_bar, T)
    return _fit(torch.cat([power.real, power.imag], 1), _delay(d, T))


@mistake(
    "The C that you fit are real. Their imaginary parts are free as well, and add Im A_bar^l to the basis.",
    replaces="best_delay",
)
def real_C(A_bar, d, T):
    return _fit(_powers(A_bar, T).real, _delay(d, T))


@mistake(
    "That is a least squares fit of the complex sum: it also presses the imaginary part to 0, which "
    "no one reads.",
    replaces="best_delay",
)
def complex_fit(A_bar, d, T):
    return _fit(_powers(A_bar, T), _delay(d, T, torch.complex128)).real


@mistake(
    "The complex sum is fitted to the delay, and then 2 Re doubles it. Fit the real kernel.",
    replaces="best_delay",
)
def complex_fit_doubled(A_bar, d, T):
    return 2 * _fit(_powers(A_bar, T), _delay(d, T, torch.complex128)).real


@mistake(
    "C = conj(A_bar^d) turns all modes so that they meet at d: a peak, but not the nearest, as the "
    "modes overlap. "
    "Solve the least squares problem.",
    replaces="best_delay",
)
def in_phase_at_d(A_bar, d, T):
    power = _powers(A_bar, T)
    return 2 * (power @ power[d].conj()).real / T


@mistake(
    "Steps behind d count too: you fit l = 0 to d alone, and behind it the kernel does what it likes.",
    replaces="best_delay",
)
def up_to_d(A_bar, d, T):
    power = _powers(A_bar, T)
    basis = torch.cat([power.real, power.imag], 1)
    return (basis @ torch.linalg.lstsq(basis[: d + 1], _delay(d, d + 1), driver="gelsd").solution)[:, 0]


@mistake(
    "The columns b of your basis are not orthonormal: b b^T is no projection. Take those of a QR.",
    replaces="best_delay",
)
def not_orthonormal(A_bar, d, T):
    power = _powers(A_bar, T)
    basis = torch.cat([power.real, power.imag], 1)
    return basis @ basis[d]


@mistake("You count d from the end: the delay is 1 at l = d, counted from 0.", replaces="best_delay")
def from_the_end(A_bar, d, T):
    return _best(A_bar, T - 1 - d, T)


@mistake("The peak stands a step late: a delay of d is 1 at l = d, counted from 0.", replaces="best_delay")
def a_step_late(A_bar, d, T):
    return _best(A_bar, min(d + 1, T - 1), T) if d + 1 < T else 0 * _best(A_bar, d, T)


@mistake(
    "The kernel is scaled so that its peak is 1. That is farther from the delay: what stands beside "
    "it has grown.",
    replaces="best_delay",
)
def peak_of_one(A_bar, d, T):
    k = _best(A_bar, d, T)
    return k / k[d]


@mistake("That is the distance. The sum of squares is asked for, without the root.", replaces="error")
def rooted(A_bar, d, T):
    return (_best(A_bar, d, T) - _delay(d, T)[:, 0]).norm().item()


@mistake("That is the mean over T steps, not the sum.", replaces="error")
def mean(A_bar, d, T):
    return (_best(A_bar, d, T) - _delay(d, T)[:, 0]).square().mean().item()


@mistake(
    "That is what the peak lacks, squared. What stands beside the peak counts as well.", replaces="error"
)
def peak_alone(A_bar, d, T):
    return (1 - _best(A_bar, d, T)[d].item()) ** 2


@mistake(
    "That is the sum of the kernel's squares, the height of its peak: what is reached, not what is missing.",
    replaces="error",
)
def reached(A_bar, d, T):
    return _best(A_bar, d, T).square().sum().item()


@mistake("The peak is squared: the error is 1 - kappa_d, not 1 - kappa_d^2.", replaces="error")
def peak_squared(A_bar, d, T):
    return 1 - _best(A_bar, d, T)[d].item() ** 2


@mistake("That is what stands beside the peak. What the peak lacks counts as well.", replaces="error")
def beside_the_peak(A_bar, d, T):
    k = _best(A_bar, d, T)
    return (k.square().sum() - k[d] ** 2).item()


@mistake("That is the error with real C. Both parts of C are free.", replaces="error")
def error_of_real_C(A_bar, d, T):
    k = _fit(_powers(A_bar, T).real, _delay(d, T))
    return (k - _delay(d, T)[:, 0]).square().sum().item()


@mistake(
    "The formula is right and the numbers are not: X^T X squares the spread of X, and half of the digits are gone. Solve "
    "the least squares problem itself, by QR or `torch.linalg.lstsq`.",
    replaces="best_delay",
)
def normal_equations(A_bar, d, T):
    X = torch.cat([_powers(A_bar, T).real, _powers(A_bar, T).imag], 1)
    return X @ torch.linalg.solve(X.T @ X, X[d])


@mistake(
    "You drop singular values below 1e-4 of the largest. These small ones are no noise: they tell close modes apart. "
    "Keep all.",
    replaces="best_delay",
)
def small_singular_values_dropped(A_bar, d, T):
    X = torch.cat([_powers(A_bar, T).real, _powers(A_bar, T).imag], 1)
    U, S, _ = torch.linalg.svd(X, full_matrices=False)
    U = U[:, S / S[0] > 1e-4]
    return U @ U[d]


@mistake(
    "The least squares problem is the right one. Where the numbers are nearly real, the columns of the imaginary parts are "
    "so small that the solver drops them as noise. Scale all columns to one length, or take a QR.",
    replaces="best_delay",
)
def small_columns_dropped(A_bar, d, T):
    power = _powers(A_bar, T)
    basis = torch.stack([2 * power.real, -2 * power.imag], 2).flatten(1)
    return (basis @ torch.linalg.pinv(basis))[:, d]


@mistake(
    "A power and its conjugate, as two complex columns, are nearly one where a number is nearly real. Take the real and "
    "the imaginary parts.",
    replaces="best_delay",
)
def with_conjugates(A_bar, d, T):
    power = _powers(A_bar, T)
    both = torch.cat([power, power.conj()], 1)  # complex C for each: the best are conjugates
    Q, _ = torch.linalg.qr(both)
    return (Q @ Q[d].conj()).real


@mistake(
    "`A_bar ** l` takes a logarithm, and of a number that is negative and nearly real the angle next to pi keeps hardly "
    "anything of the imaginary part. Multiply step by step: `cumprod`.",
    replaces="best_delay",
)
def powers_by_logarithms(A_bar, d, T):
    power = torch.view_as_complex(A_bar.contiguous()) ** torch.arange(T)[:, None]
    Q, _ = torch.linalg.qr(torch.cat([power.real, power.imag], 1))
    return Q @ Q[d]


@also_right(replaces="best_delay")
def by_least_squares(A_bar, d, T):
    power = _powers(A_bar, T)
    basis = torch.stack([2 * power.real, -2 * power.imag], 2).flatten(1)
    basis = basis / basis.norm(dim=0)
    return (basis @ torch.linalg.pinv(basis))[:, d]


@also_right(replaces="best_delay")
def by_what_no_kernel_has(A_bar, d, T):
    poly = np.ones(1)  # its roots are all numbers and their conjugates: at right angles to all kernels
    for re, im in A_bar.tolist():
        poly = np.convolve(poly, [re**2 + im**2, -2 * re, 1.0])
    more = T - 2 * len(A_bar)
    shifts = np.array([np.pad(poly, (n, more - 1 - n)) for n in range(more)]).reshape(more, T)
    Q, _ = np.linalg.qr(shifts.T)
    return _delay(d, T)[:, 0] - torch.from_numpy(Q @ Q[d])


@also_right(replaces="error")
def by_the_difference(A_bar, d, T):
    return (_best(A_bar, d, T) - _delay(d, T)[:, 0]).square().sum().item()
