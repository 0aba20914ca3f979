"""Known answers to question 4: two sizes up."""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _alpha(N, L, low=1e-3, high=5.0):
    wanted = (L[0] - L[1]) / (L[1] - L[2])
    for _ in range(100):
        middle = (low + high) / 2
        x1, x2, x3 = (n**-middle for n in N)
        low, high = (middle, high) if (x1 - x2) / (x2 - x3) < wanted else (low, middle)
    return low


@mistake("That is the line, without E: by it the loss falls for ever at the same rate.")
def no_floor(N, L, target):
    slope, start = np.polyfit(np.log(N), np.log(L), 1)
    return math.exp(start + slope * math.log(target))


@mistake("r^alpha = (L1 - L2)/(L2 - L3) holds where the sizes have a common ratio. These have not.")
def common_ratio(N, L, target):
    alpha = math.log((L[0] - L[1]) / (L[1] - L[2])) / (math.log(N[2] / N[0]) / 2)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)


@mistake("That is what falls, without E: add the floor.")
def floor_forgotten(N, L, target):
    alpha = _alpha(N, L)
    return (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha) * target**-alpha


@mistake("That is E, which no size reaches. Asked was the loss at the target.")
def the_floor(N, L, target):
    alpha = _alpha(N, L)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] - A * N[0] ** -alpha


@mistake("Here the part that falls grows with N: the exponent has the wrong sign.")
def sign_of_the_exponent(N, L, target):
    alpha = _alpha(N, L)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**alpha - N[0] ** alpha)


@mistake("That line goes through L, not through log L.", "by_line")
def loss_without_logarithm(N, L, target):
    slope, start = np.polyfit(np.log(N), L, 1)
    return float(start + slope * math.log(target))


@mistake("That line goes through the last two points alone.", "by_line")
def last_two(N, L, target):
    slope = math.log(L[2] / L[1]) / math.log(N[2] / N[1])
    return L[2] * (target / N[2]) ** slope


@mistake("That line goes through the first and the last point.", "by_line")
def ends_alone(N, L, target):
    slope = math.log(L[2] / L[0]) / math.log(N[2] / N[0])
    return L[2] * (target / N[2]) ** slope


@mistake("That is the logarithm of the loss.", "by_line")
def logarithm(N, L, target):
    slope, start = np.polyfit(np.log(N), np.log(L), 1)
    return float(start + slope * math.log(target))


@mistake("That line goes through log L against N, which is not the law.", "by_line")
def sizes_without_logarithm(N, L, target):
    slope, start = np.polyfit(N, np.log(L), 1)
    return math.exp(start + slope * target)


@mistake("That looks for alpha up to 1 alone. It may be anything from 0.001 to 5.")
def alpha_up_to_one(N, L, target):
    alpha = min(_alpha(N, L), 1.0)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)


@mistake("That looks for alpha from 0.02 on alone. Where L falls nearly as a line in log N it is smaller.")
def alpha_not_small(N, L, target):
    alpha = _alpha(N, L, 0.02)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)


@also_right()
def by_newton_on_a_grid(N, L, target):
    wanted = math.log((L[0] - L[1]) / (L[1] - L[2]))

    def off(alpha):
        x1, x2, x3 = (math.exp(-alpha * math.log(n / N[1])) for n in N)
        return math.log((x1 - x2) / (x2 - x3)) - wanted

    grid = np.linspace(1e-3, 5, 400)
    i = max(k for k in range(399) if off(grid[k]) < 0)
    a, b = float(grid[i]), float(grid[i + 1])
    for _ in range(60):
        c = (a + b) / 2
        a, b = (c, b) if off(c) < 0 else (a, c)
    x = [(n / N[1]) ** -a for n in N]
    A = (L[0] - L[1]) / (x[0] - x[1])
    return L[1] + A * ((target / N[1]) ** -a - 1)


@also_right("by_line")
def by_sums(N, L, target):
    x, y = [math.log(n) for n in N], [math.log(v) for v in L]
    mx, my = sum(x) / 3, sum(y) / 3
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)
    return math.exp(my + slope * (math.log(target) - mx))
