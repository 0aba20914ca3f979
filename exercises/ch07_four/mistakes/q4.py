"""Known answers to question 4: one softmax in how many."""

import math

from linattn_exercises.known_mistakes import also_right, mistake


def _cost(T, D, H, every, table=6, keep=False, small=True, gate=2.0):
    """The cost with one term changed."""
    share = 1 / every
    linear = 1 if keep else 1 - share
    return 1 + share * T / (table * D) + linear / (gate * H) + (5 / (18 * D) if small else 0)


@mistake(
    "A layer with softmax attention has no state of TNL: that term is for the others.",
    replaces="relative_cost",
)
def linear_part_in_all_layers(T, D, H, every):
    return _cost(T, D, H, every, keep=True)


@mistake("The whole table is to be counted, with its masked half.", replaces="relative_cost")
def half_of_the_table(T, D, H, every):
    return _cost(T, D, H, every, 12)


@mistake(
    "The gates are missing: 1/(3H) for blocks and states, and 1/(6H) for gates.", replaces="relative_cost"
)
def without_gates(T, D, H, every):
    return _cost(T, D, H, every, gate=3.0)


@mistake("5/(18D) for rotations and products is part of both.", replaces="relative_cost")
def without_the_small_term(T, D, H, every):
    return _cost(T, D, H, every, small=False)


@mistake("Every m-th layer is one of m, not one beside m others.", replaces="relative_cost")
def one_beside_m(T, D, H, every):
    return _cost(T, D, H, every + 1)


@mistake(
    "You have the shares the wrong way round: 1/m of the layers have softmax attention.",
    replaces="relative_cost",
)
def shares_swapped(T, D, H, every):
    share = 1 / every
    return 1 + (1 - share) * T / (6 * D) + share / (2 * H) + 5 / (18 * D)


@mistake("math.inf is allowed: then no layer has softmax attention.", replaces="relative_cost")
def whole_numbers_alone(T, D, H, every):
    return _cost(T, D, H, int(every))


def _every(T, D, H, budget, rounding=math.ceil):
    """The answer with another rounding."""
    left = budget - _cost(T, D, H, math.inf)
    more = T / (6 * D) - 1 / (2 * H)
    return max(1, rounding(more / left)) if left > 0 else 0


@mistake("Rounded down, the budget is exceeded.", replaces="smallest_every")
def rounded_down(T, D, H, budget):
    return _every(T, D, H, budget, math.floor)


@mistake("To the nearest is not within the budget every time.", replaces="smallest_every")
def rounded_to_the_nearest(T, D, H, budget):
    return _every(T, D, H, budget, round)


@mistake("m counts layers. What you have is to be rounded up.", replaces="smallest_every")
def not_rounded(T, D, H, budget):
    return _every(T, D, H, budget, float)


@mistake("If not even TNL fits, the answer is 0.", replaces="smallest_every")
def infinite_if_nothing_fits(T, D, H, budget):
    return _every(T, D, H, budget) or math.inf


@mistake(
    "A softmax takes the place of TNL's attention. It costs T/(6D) - 1/(2H) more.", replaces="smallest_every"
)
def whole_softmax_as_extra(T, D, H, budget):
    left = budget - _cost(T, D, H, math.inf)
    return 0 if left < 0 else max(1, math.ceil(T / (6 * D) / left))


@mistake(
    "TNL costs more than 1: what is left of the budget is less than budget - 1.", replaces="smallest_every"
)
def all_above_one_is_left(T, D, H, budget):
    more = T / (6 * D) - 1 / (2 * H)
    return 0 if budget < _cost(T, D, H, math.inf) else max(1, math.ceil(more / (budget - 1)))


@mistake(
    "Heads are not 128 wide in every model: the rank of the gates and the blocks are D/H.", "relative_cost"
)
def heads_of_128(T, D, H, every):
    return _cost(T, D, D / 128, every)


@mistake(
    "Rounded to three digits first, a budget that is missed by less counts as kept: round up what you have.",
    replaces="smallest_every",
)
def rounded_before_rounding_up(T, D, H, budget):
    return _every(T, D, H, budget, lambda m: math.ceil(round(m, 3)))


@mistake(
    "However little is left beside TNL, there are layers enough for one softmax: L is as large as you like.",
    replaces="smallest_every",
)
def little_taken_for_nothing(T, D, H, budget):
    left = budget - _cost(T, D, H, math.inf)
    return math.inf if 0 < left < 1e-4 else _every(T, D, H, budget)


@also_right(replaces="smallest_every")
def by_search(T, D, H, budget):
    if _cost(T, D, H, math.inf) > budget:
        return 0
    low, high = 0, 1
    while _cost(T, D, H, high) > budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _cost(T, D, H, middle) > budget else (low, middle)
    return high


@also_right(replaces="relative_cost")
def as_a_mean_of_layers(T, D, H, every):
    softmax, linear = T / (6 * D), 1 / (2 * H)
    if every == math.inf:
        return 1 + linear + 5 / (18 * D)
    return 1 + (softmax + (every - 1) * linear) / every + 5 / (18 * D)
