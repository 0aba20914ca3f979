"""Known answers to question 1: the largest stable step."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _bounds(A):
    """The largest stable step of Euler's method for each mode."""
    A = torch.view_as_complex(A.contiguous())
    return -2 * A.real / A.abs() ** 2


def _step(bound, theta):
    """The bound of Euler's method, carried over to theta."""
    return math.inf if theta >= 0.5 else float(bound) / (1 - 2 * theta)


@mistake(
    "That is the bound of the mode with the largest |A|. Another mode has a lower one: compute all of them.",
    replaces="largest_step",
)
def fastest_mode(A, theta):
    return _step(_bounds(A)[A.norm(dim=1).argmax()], theta)


@mistake(
    "That is the bound of the mode that decays most slowly. Another has a lower one: compute all of them.",
    replaces="largest_step",
)
def slowest_mode(A, theta):
    return _step(_bounds(A)[A[:, 0].argmax()], theta)


@mistake("Up to there some mode is stable. All of them must be: take the minimum.", replaces="largest_step")
def any_mode(A, theta):
    return _step(_bounds(A).max(), theta)


@mistake("2/|A| is the bound of a real A. An imaginary part lowers it further.", replaces="largest_step")
def as_if_real(A, theta):
    return _step((2 / A.norm(dim=1)).min(), theta)


@mistake("The imaginary parts are missing: they turn 1 + x away from 0.", replaces="largest_step")
def real_parts_alone(A, theta):
    return _step((2 / -A[:, 0]).min(), theta)


@mistake("|A| is to be squared: the bound is -2 Re A/|A|^2.", replaces="largest_step")
def not_squared(A, theta):
    return _step((-2 * A[:, 0] / A.norm(dim=1)).min(), theta)


@mistake(
    "Denominator and numerator both have theta: their squares differ by (1 - 2 theta)|x|^2, not (1 - theta).",
    replaces="largest_step",
)
def one_theta(A, theta):
    return math.inf if theta >= 0.5 else _bounds(A).min().item() / (1 - theta)


@mistake(
    "Above theta = 1/2 the bound is negative. What does the inequality say there?", replaces="largest_step"
)
def negative_above_a_half(A, theta):
    return math.inf if theta == 0.5 else _bounds(A).min().item() / (1 - 2 * theta)


@mistake(
    "Above theta = 1/2 you take the size of 1 - 2 theta. With its sign the inequality holds for every step.",
    replaces="largest_step",
)
def size_of_the_factor(A, theta):
    return math.inf if theta == 0.5 else _bounds(A).min().item() / abs(1 - 2 * theta)


@mistake("Half of it: |1 + x|^2 = 1 + 2 Re x + |x|^2, with a 2.", replaces="largest_step")
def half_of_it(A, theta):
    return _step(_bounds(A).min() / 2, theta)


@mistake("Stable, but not the smallest: modes that decay allow a little less.", replaces="smallest_theta")
def always_bilinear(A, delta):
    return 0.5


@mistake("Below 0 where Euler itself is stable. There the smallest theta is 0.", replaces="smallest_theta")
def not_clamped(A, delta):
    return (0.5 - (_bounds(A) / (2 * delta)).min()).item()


@mistake(
    "That is what the easiest mode needs. Every mode sets a bound: take the largest.",
    replaces="smallest_theta",
)
def easiest_mode(A, delta):
    return max(0.0, (0.5 - (_bounds(A) / (2 * delta)).max()).item())


@mistake(
    "That is what the mode with the largest |A| needs. Another needs more: compute all of them.",
    replaces="smallest_theta",
)
def theta_of_the_fastest(A, delta):
    return max(0.0, (0.5 - _bounds(A)[A.norm(dim=1).argmax()] / (2 * delta)).item())


@mistake(
    "That theta belongs to an A without imaginary part: 1/2 - 1/(Delta |A|).",
    replaces="smallest_theta",
)
def theta_as_if_real(A, delta):
    return max(0.0, (0.5 - 1 / (delta * A.norm(dim=1))).max().item())


@mistake(
    "Delta is missing: x = Delta A, so that Re x/|x|^2 is Re A/(Delta |A|^2).", replaces="smallest_theta"
)
def without_delta(A, delta):
    return max(0.0, (0.5 - (_bounds(A) / 2).min()).item())


@mistake(
    "The bound counts twice: theta = 1/2 - bound/(2 Delta), with Euler's bound.", replaces="smallest_theta"
)
def bound_twice(A, delta):
    return max(0.0, (0.5 - _bounds(A).min() / delta).item())


@also_right(replaces="largest_step")
def by_inverses(A, theta):
    A = torch.view_as_complex(A.contiguous())
    return math.inf if theta >= 0.5 else 2 * (-1 / A).real.min() / (1 - 2 * theta)


@also_right(replaces="largest_step")
def by_bisection(A, theta):
    A = torch.view_as_complex(A.contiguous())

    def stable(delta):
        x = delta * A
        return ((1 + (1 - theta) * x) / (1 - theta * x)).abs().max() <= 1

    low, high = 1e-9, 1e9
    if stable(high):
        return math.inf
    for _ in range(120):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


@also_right(replaces="smallest_theta")
def theta_by_bisection(A, delta):
    x = delta * torch.view_as_complex(A.contiguous())
    low, high = 0.0, 1.0
    if (1 + x).abs().max() <= 1:
        return low
    for _ in range(60):
        theta = (low + high) / 2
        fine = bool(((1 + (1 - theta) * x) / (1 - theta * x)).abs().max() <= 1)
        low, high = (low, theta) if fine else (theta, high)
    return high


@mistake(
    "A mode that does not turn can decide as well: without an imaginary part the bound is 2 over its size.",
    replaces="largest_step",
)
def modes_that_turn(A, theta):
    turning = A[A[:, 1] != 0]
    return _step(_bounds(turning if len(turning) else A).min(), theta)
