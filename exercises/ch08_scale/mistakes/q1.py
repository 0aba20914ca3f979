"""Known answers to question 1: an exponent that fades."""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("That is the exponent of L - E. The one of L is smaller wherever E is above 0.")
def gamma_itself(E, gamma, L):
    return gamma


@mistake("The slope of log L is the slope of L over L: divide by L, not by L - E.")
def divided_by_what_is_left(E, gamma, L):
    return gamma * (1 - E / L) * L / (L - E) ** 2 * (L - E) / L


@mistake("That is the slope of L itself against log C. For log L divide by L.")
def slope_of_the_loss(E, gamma, L):
    return gamma * (L - E)


@mistake("Asked was minus the slope: a falling loss has an exponent above 0.")
def with_its_sign(E, gamma, L):
    return -gamma * (1 - E / L)


@mistake("That is the part of the loss that E is. What falls is the other part.")
def the_part_of_the_floor(E, gamma, L):
    return gamma * E / L


@mistake("Those are gamma E and gamma: divide the first by the second.", replaces="recover")
def product_not_divided(L1, s1, L2, s2):
    product = (s1 - s2) / (1 / L2 - 1 / L1)
    return product, s1 + product / L1


@mistake("The apparent exponent is a straight line in 1/L, not in L.", replaces="recover")
def line_in_the_loss(L1, s1, L2, s2):
    slope = (s2 - s1) / (L2 - L1)
    gamma = s1 - slope * L1
    return -slope / gamma, gamma


@mistake("E has the wrong sign: the exponent falls with 1/L, by gamma E.", replaces="recover")
def sign_of_the_floor(L1, s1, L2, s2):
    product = (s1 - s2) / (1 / L2 - 1 / L1)
    gamma = s1 + product / L1
    return -product / gamma, gamma


@mistake("Asked was (E, gamma), in this order.", replaces="recover")
def other_order(L1, s1, L2, s2):
    product = (s1 - s2) / (1 / L2 - 1 / L1)
    gamma = s1 + product / L1
    return gamma, product / gamma


@mistake("What falls as a power is L - E: take E off both losses.", replaces="more_compute")
def without_the_floor(E, gamma, L, target):
    return (L / target) ** (1 / gamma)


@mistake("Upside down: a lower loss takes a larger budget.", replaces="more_compute")
def upside_down(E, gamma, L, target):
    return math.inf if target <= E else ((target - E) / (L - E)) ** (1 / gamma)


@mistake("The loss falls as C^-gamma, so C goes as the power 1/gamma.", replaces="more_compute")
def power_not_inverted(E, gamma, L, target):
    return math.inf if target <= E else ((L - E) / (target - E)) ** gamma


@mistake("That takes the slope where it starts for a law; on the way it fades.", replaces="more_compute")
def by_the_apparent_exponent(E, gamma, L, target):
    return math.inf if target <= E else (L / target) ** (1 / (gamma * (1 - E / L)))


@mistake("No budget reaches E, nor what is below it: return math.inf.", replaces="more_compute")
def floor_can_be_passed(E, gamma, L, target):
    return abs((L - E) / ((target - E) or 1e-300)) ** (1 / gamma)


@mistake(
    "Every loss above E is reached, however near to E it is: only E itself and what is below are not.",
    replaces="more_compute",
)
def nothing_near_the_floor(E, gamma, L, target):
    return math.inf if target < E + 0.02 else ((L - E) / (target - E)) ** (1 / gamma)


@also_right(replaces="recover")
def by_solving(L1, s1, L2, s2):
    gamma, product = np.linalg.solve([[1, -1 / L1], [1, -1 / L2]], [s1, s2])
    return float(product / gamma), float(gamma)


@also_right(replaces="more_compute")
def by_logarithms(E, gamma, L, target):
    if target <= E:
        return math.inf
    return math.exp((math.log(L - E) - math.log(target - E)) / gamma)
