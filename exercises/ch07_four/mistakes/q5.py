"""Known answers to question 5: a law, counted anew."""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _line(x, y):
    """The intercept and the slope of the least squares line."""
    slope, start = np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)
    return float(start), float(slope)


def _compute(first, second, C):
    """The compute with which the second reaches the loss of the first at C."""
    (k1, a1), (k2, a2) = first, second
    return (k2 / (k1 * C**-a1)) ** (1 / a2)


@mistake("The law is k C^-a: a is what falls, so it is above 0.", replaces="fit")
def sign_of_the_slope(compute, loss):
    start, slope = _line(np.log(compute), np.log(loss))
    return math.exp(start), slope


@mistake("The line meets C = 1 at log k: k is its exponential.", replaces="fit")
def logarithm_of_k(compute, loss):
    start, slope = _line(np.log(compute), np.log(loss))
    return start, -slope


@mistake("That line goes through L, not through log L.", replaces="fit")
def loss_without_logarithm(compute, loss):
    start, slope = _line(np.log(compute), loss)
    return start, -slope


@mistake("With logarithms to base 10 k is a power of 10, not of e.", replaces="fit")
def base_ten(compute, loss):
    start, slope = _line(np.log10(compute), np.log10(loss))
    return math.exp(start), -slope


@mistake("That line goes through the first and the last point alone.", replaces="fit")
def ends_alone(compute, loss):
    a = -(math.log(loss[-1]) - math.log(loss[0])) / (math.log(compute[-1]) - math.log(compute[0]))
    return loss[0] * compute[0] ** a, a


@mistake("That is the line of log C against log L: it takes the errors to be in C.", replaces="fit")
def axes_swapped(compute, loss):
    start, slope = _line(np.log(loss), np.log(compute))
    return math.exp(-start / slope), -1 / slope


@mistake(
    "Runs that cost more stand further right: the curve rises at each C. You let it fall.",
    replaces="recounted",
)
def moved_left(k, a, factor):
    return k * factor**-a, a


@mistake("The factor is one of compute. In the loss it is factor^a.", replaces="recounted")
def factor_on_the_loss(k, a, factor):
    return k * factor, a


@mistake("The same factor for all runs moves the line and does not turn it.", replaces="recounted")
def exponent_changed(k, a, factor):
    return k, a * factor


@mistake("One of them is to be multiplied, k, by factor^a.", replaces="recounted")
def nothing_changed(k, a, factor):
    return k, a


@mistake("That is the compute itself; asked was for it over C.", replaces="compute_needed")
def not_over_c(first, second, C):
    return _compute(first, second, C)


@mistake("Upside down: that is C over what the second needs.", replaces="compute_needed")
def upside_down(first, second, C):
    return C / _compute(first, second, C)


@mistake("That is the ratio of losses at C. A little loss is a lot of compute.", replaces="compute_needed")
def ratio_of_losses(first, second, C):
    (k1, a1), (k2, a2) = first, second
    return k2 * C**-a2 / (k1 * C**-a1)


@mistake(
    "The second moves along its own curve: the exponent to invert is its own.", replaces="compute_needed"
)
def exponent_of_the_first(first, second, C):
    (k1, a1), (k2, a2) = first, second
    return (k2 * C**-a2 / (k1 * C**-a1)) ** (1 / a1)


@mistake("That is what the first needs to reach the second's loss.", replaces="compute_needed")
def other_way_round(first, second, C):
    return _compute(second, first, C) / C


@also_right(replaces="fit")
def by_polyfit(compute, loss):
    start, slope = _line(np.log(compute), np.log(loss))
    return math.exp(start), -slope


@also_right(replaces="compute_needed")
def by_bisection(first, second, C):
    (k1, a1), (k2, a2) = first, second
    wanted = math.log(k1) - a1 * math.log(C)
    low, high = -700.0, 700.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.log(k2) - a2 * middle > wanted else (low, middle)
    return math.exp(low - math.log(C))
