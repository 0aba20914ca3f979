"""Known answers to question 2: design or model?"""

import math
from itertools import pairwise

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("That is b, the exponent of tokens. Asked was that of sizes.")
def exponent_of_tokens(N, first, last):
    return math.log(last / first) / math.log(N[-1] * last / (N[0] * first))


@mistake("Budgets span the sizes as well: C = 6 N D, so the ratios of N and of D are multiplied.")
def sizes_over_tokens(N, first, last):
    return math.log(N[-1] / N[0]) / math.log(last / first)


@mistake("The smallest model is evaluated at `first` as well: the lowest budget is not at `last`.")
def all_at_the_end(N, first, last):
    return math.log(N[-1] / N[0]) / math.log(N[-1] / N[0])


@mistake("Ratios, not their logarithms: an exponent is a slope in logarithms.")
def without_logarithms(N, first, last):
    return (N[-1] / N[0]) / (N[-1] * last / (N[0] * first))


@mistake("Between the ends the staircase may have any steps: only the first and the last size count.")
def neighbours_alone(N, first, last):
    steps = [math.log(b / a) for a, b in pairwise(N)]
    step = sum(steps) / len(steps)
    return step / (step + math.log(last / first))


@mistake(
    "A factor that falls narrows the span of budgets: it multiplies the costs, here it divides.", "with_cost"
)
def factor_divides(N, first, last, factor):
    budgets = N[-1] / factor[-1] * last / (N[0] / factor[0] * first)
    return math.log(N[-1] / N[0]) / math.log(budgets)


@mistake("The factor changes what a run costs, not how many parameters it has.", "with_cost")
def factor_on_the_sizes_too(N, first, last, factor):
    sizes = N[-1] * factor[-1] / (N[0] * factor[0])
    return math.log(sizes) / math.log(sizes * last / first)


@mistake("That leaves the factors out.", "with_cost")
def no_factor(N, first, last, factor):
    return exponent(N, first, last)


@mistake("Take the factors of the smallest and of the largest size, not the mean of all.", "with_cost")
def mean_factor(N, first, last, factor):
    mean = sum(factor) / len(factor)
    budgets = N[-1] * mean * last / (N[0] * first)
    return math.log(N[-1] / N[0]) / math.log(budgets)


@mistake(
    "A share would end at 1. This slope may be above it: where a cost falls with the size, sizes can span more than "
    "budgets.",
    "with_cost",
)
def taken_for_a_share(N, first, last, factor):
    budgets = N[-1] * factor[-1] * last / (N[0] * factor[0] * first)
    return min(1.0, math.log(N[-1] / N[0]) / math.log(budgets))


def exponent(N, first, last):
    sizes = math.log(N[-1] / N[0])
    return sizes / (sizes + math.log(last / first))


@mistake("That is the first evaluation for 1 - a: there the roles of N and D are swapped.", "first_for")
def for_b(N, last, a):
    return last / (N[-1] / N[0]) ** (1 / (1 - a) - 1)


@mistake("That is last over first. Asked was the first.", "first_for")
def ratio_alone(N, last, a):
    return (N[-1] / N[0]) ** (1 / a - 1)


@mistake("log r = (1/a - 1) log n: you left out the 1, that is the ratio of budgets.", "first_for")
def ratio_of_budgets(N, last, a):
    return last / (N[-1] / N[0]) ** (1 / a)


@mistake("log r = (1/a - 1) log n. You have a times it, a power of 1 - a.", "first_for")
def power_without_division(N, last, a):
    return last / (N[-1] / N[0]) ** (1 - a)


@mistake("The first evaluation comes before the last: divide, do not multiply.", "first_for")
def after_the_last(N, last, a):
    return last * (N[-1] / N[0]) ** (1 / a - 1)


@also_right("design_exponent")
def by_base_ten(N, first, last):
    return math.log10(N[-1] / N[0]) / math.log10(6 * N[-1] * last / (6 * N[0] * first))


@also_right("first_for")
def by_search(N, last, a):
    low, high = 0.0, 2000.0
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if exponent(N, 1.0, math.exp(min(middle, 700))) > a else (low, middle)
    return last / math.exp(low)
