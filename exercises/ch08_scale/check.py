"""Checks of ``ch08_scale``, generated from master/*.py by ``make exercises``: edit those."""


import math

import numpy as np
import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "3fdf8dc1c791"
INFO = {
    "q1": QuestionInfo(
        "ch08_scale", "q1", 'An exponent that fades',
        "derive", points=4, minutes=25, level=2,
    ),
    "q2": QuestionInfo(
        "ch08_scale", "q2", 'Design or model?',
        "derive", points=4, minutes=25, level=2,
    ),
    "q3": QuestionInfo(
        "ch08_scale", "q3", 'The ends of an envelope',
        "implement", points=5, minutes=30, level=3,
    ),
    "q4": QuestionInfo(
        "ch08_scale", "q4", 'Two sizes up',
        "measure", points=4, minutes=30, level=2,
    ),
    "q5": QuestionInfo(
        "ch08_scale", "q5", 'One bad run',
        "diagnose", points=4, minutes=25, level=2,
    ),
    "q6": QuestionInfo(
        "ch08_scale", "q6", 'Spend a budget',
        "derive", points=4, minutes=30, level=3,
    ),
}


# --- q1: An exponent that fades ---


def apparent(E, gamma, L):
    """Minus the slope of log L against log C where the loss is L."""
    return gamma * (1 - E / L)


def recover(L1, s1, L2, s2):
    """(E, gamma) from two apparent exponents."""
    product = (s1 - s2) / (1 / L2 - 1 / L1)          # gamma E
    gamma = s1 + product / L1
    return product / gamma, gamma


def more_compute(E, gamma, L, target):
    """What the budget is to be multiplied by."""
    if target <= E:
        return math.inf
    return ((L - E) / (target - E)) ** (1 / gamma)


@define_question(INFO["q1"], apparent=apparent, recover=recover, more_compute=more_compute)
def q1(rng):
    exact, calls = Close(1e-9), []

    def draw(n):                             # others for each function: what one is given is not another's result
        return [(float(rng.uniform(0.3, 1.8)), float(rng.uniform(0.05, 0.4)), float(rng.uniform(2, 4))) for _ in range(n)]

    for E, gamma, L in [(1.69, 0.154, 2.1), (0.0, 0.1, 3.0), *draw(3)]:
        text = f"E = {E:.3g}, gamma = {gamma:.3g}, a loss of {L:.3g}"
        calls.append(Call("apparent", (E, gamma, L), text, exact))
    ratios = rng.uniform((1.05, 1.05, 1.002, 1.05, 1.05, 1.5), (1.5, 1.5, 1.02, 1.5, 1.5, 3.0)).tolist()
    first = [(E, float(rng.uniform(0.1, 0.3)), 3.1) for E in (0.0, float(10 ** rng.uniform(-3.7, -1)))]
    for (E, gamma, L1), ratio in zip([*first, *draw(4)], ratios):
        L2 = ratio * L1
        s1, s2 = (gamma * (1 - E / L) for L in (L1, L2))
        text = f"exponents {s1:.4g} at a loss of {L1:.3g} and {s2:.4g} at {L2:.3g}"
        calls.append(Call("recover", (L1, s1, L2, s2), text, Close(1e-7)))
        calls.append(Call("recover", (L2, s2, L1, s1), f"{text}, the other way round", Close(1e-7)))
    E, gamma, L1 = rng.uniform((0.2, 0.1, 3.0), (0.4, 0.3, 4.0)).tolist()
    L2 = L1 * (1 + float(rng.uniform(2e-6, 4e-6)))   # nearly the same place: exponents differ by less than 1e-6
    s1, s2 = (gamma * (1 - E / L) for L in (L1, L2))
    calls.append(Call("recover", (L1, s1, L2, s2), "two losses that are nearly the same", Close(1e-6)))
    L2 = L1 * (1 + float(rng.uniform(1e-8, 1.5e-8)))
    s1, s2 = (gamma * (1 - E / L) for L in (L1, L2))
    calls.append(Call("recover", (L1, s1, L2, s2), "two losses that are the same to eight digits", Close(1e-6)))
    E, gamma, L1 = 10 ** float(rng.uniform(-6, -5.9)), float(rng.uniform(0.1, 0.3)), 3.1
    L2 = L1 * (1 + float(rng.uniform(3e-7, 4e-7)))  # exponents differ in their twelfth digit, and differ
    s1, s2 = (gamma * (1 - E / L) for L in (L1, L2))
    calls.append(Call("recover", (L1, s1, L2, s2), "little of the loss is E, and two losses are nearly the same", Close(1e-7)))
    for E, L, target in ((0.0, 2.0, 1e-15), (0.0, 2.0, 2e-100), (1.0, 3.0, 1 + 2.0**-46), (1.0, 3.0, 1 + 2.0**-52)):  # a hair above the floor, and exactly so
        calls.append(Call("more_compute", (E, 0.5, L, target), f"E = {E:g}, gamma = 0.5, from {L:g} to E + {target - E:.2g}", Close(1e-7)))
    for E, gamma, L, target in ((1.69, 0.01, 1.6905, 1.6901), (1.0, 0.005, 1.02, 1.01)):  # factors of 8e69 and 2e60
        calls.append(Call("more_compute", (E, gamma, L, target), f"E = {E:g}, gamma = {gamma:g}, from {L:g} to {target:g}", Close(1e-7)))
    for E, gamma, L in [(0.0, 0.1, 3.0), *draw(4)]:
        gamma = max(gamma, 0.0545)                   # no factor above 10^200
        near = 10 ** float(rng.uniform(-10.5, -10)) if E else 1e-12  # almost at the floor
        for target in (*(E + part * (L - E) for part in (0.4, 0.9, 1.7, near)), L, E, 0.8 * E):
            text = f"E = {E:.3g}, gamma = {gamma:.3g}, from {L:.3g} to {target:.8g}"
            calls.append(Call("more_compute", (E, gamma, L, target), text, Close(1e-7)))
    E, gamma, L = 0.004, 0.00501, 0.0101             # as small as they may be
    points = [(loss, gamma * (1 - E / loss)) for loss in (L, 1.5 * L)]
    text = f"E = {E:g}, gamma = {gamma:g}, a loss of {L:g}"
    calls.append(Call("apparent", (E, gamma, L), text, Close(1e-12)))
    calls.append(Call("recover", (*points[0], *points[1]), f"{text}, and one of {1.5 * L:g}", Close(1e-9)))
    calls.append(Call("more_compute", (E, gamma, L, 0.008), f"{text}, to 0.008", Close(1e-7)))
    for n in range(270):                             # losses below 1 and above 10, most or little of which is E; any gamma
        E, above, gamma = (10 ** rng.uniform((-2, -2, -2.3), (1, 1, 0.5))).tolist()
        E = E if rng.random() < 0.85 else 0.0
        L, ratio = E + above, float(rng.uniform(1.05, 4.0))
        text = f"E = {E:.3g}, gamma = {gamma:.3g}, a loss of {L:.3g}"
        if n % 3 == 0:
            calls.append(Call("apparent", (E, gamma, L), text, exact))
        elif n % 3 == 1:
            points = [(loss, gamma * (1 - E / loss)) for loss in (L, ratio * L)]
            (L1, s1), (L2, s2) = points if rng.random() < 0.5 else points[::-1]
            text = f"exponents {s1:.4g} at a loss of {L1:.3g} and {s2:.4g} at {L2:.3g}"
            calls.append(Call("recover", (L1, s1, L2, s2), text, Close(1e-7)))
        else:
            target = float(rng.choice((E + above / ratio, E + above * ratio, E / ratio, E, L)))
            calls.append(Call("more_compute", (E, gamma, L, target), f"{text}, to {target:.4g}", Close(1e-7)))
    E, gamma, L1 = rng.uniform((0.004, 0.1, 0.0101), (0.006, 0.3, 0.0103)).tolist()
    L2 = L1 * (1 + float(rng.uniform(4e-8, 6e-8)))   # so small that they differ by less than 1e-9
    s1, s2 = (gamma * (1 - E / L) for L in (L1, L2))
    calls.append(Call("recover", (L1, s1, L2, s2), "two losses near 0.01 that are nearly the same", Close(1e-6)))
    for more in rng.uniform((1e-5, 4e-10), (1.2e-5, 8e-10)).tolist():  # hardly another loss, and another budget
        text = f"E = 1.69, gamma = 0.01, from 1.6905 to 1.6905 + {more:.2g}"
        calls.append(Call("more_compute", (1.69, 0.01, 1.6905, 1.6905 + more), text, Close(1e-7)))
    return calls


# --- q2: Design or model? ---


studies = {  # N, first, last, a
    "A": ([1e6, 3e6, 1e7, 3e7, 1e8], 1e8, 1e10, 0.51),
    "B": ([2e7, 1e8, 4e8, 2e9], 1e10, 3e11, 0.59),
    "C": ([5e7, 1e8, 2e8, 5e8], 5e9, 2e11, 0.55),
    "D": ([1e5, 1e6, 1e7, 1e8], 2e7, 4e8, 0.68),
}


def design_exponent(N, first, last):
    """The slope from end to end if C = 6 N D."""
    sizes = math.log(N[-1] / N[0])
    return sizes / (sizes + math.log(last / first))


def with_cost(N, first, last, factor):
    """The same if a model of size N[i] costs factor[i] times 6 N D."""
    budgets = N[-1] * factor[-1] * last / (N[0] * factor[0] * first)
    return math.log(N[-1] / N[0]) / math.log(budgets)


def first_for(N, last, a):
    """The first evaluation with which the slope is a."""
    return last / (N[-1] / N[0]) ** (1 / a - 1)


found = "C"


@define_question(
    INFO["q2"],
    design_exponent=design_exponent,
    with_cost=with_cost,
    first_for=first_for,
    found=found,
    wrong_values={
        "found": {
            "A": "Two decades of sizes, two of tokens: the design gives 0.50, and 0.51 is printed.",
            "B": "A factor of 100 in size and of 30 in tokens: the design gives 0.58.",
            "D": "Three decades of sizes and a factor of 20 in tokens: the design gives 0.70.",
        }
    },
)
def q2(rng):
    exact, calls = Close(1e-9), []

    def draw():
        N = np.sort(10 ** rng.uniform(5, 9, int(rng.integers(3, 7)))).tolist()
        while N[-1] < 1.3 * N[0]:
            N = np.sort(10 ** rng.uniform(5, 9, len(N))).tolist()
        last = float(10 ** rng.uniform(9, 12))
        return N, last / float(rng.uniform(3, 300)), last

    for n in range(4):
        N, first, last = draw()
        text = f"{len(N)} sizes from {N[0]:.2g} to {N[-1]:.2g}, tokens from {first:.2g} to {last:.2g}"
        calls.append(Call("design_exponent", (N, first, last), text, exact))
        factor = np.sort(rng.uniform(1, 4, len(N)))[:: -1 if n % 2 else 1].tolist()
        calls.append(Call("with_cost", (N, first, last, factor), f"{text}, factors {factor[0]:.2f} to {factor[-1]:.2f}", exact))
        back = float(rng.uniform(*((0.8, 0.99), (0.1, 0.7), (0.1, 0.7), (0.002, 0.01))[n]))
        a = design_exponent(N, last ** (1 - back), last)  # of a first evaluation after a token or more
        calls.append(Call("first_for", (N, last, a), f"{len(N)} sizes from {N[0]:.2g} to {N[-1]:.2g}, a = {a:.2f}", Within(1.0000001)))
    for fall in (2.5, 4.0):                          # sizes that span more than the budgets do
        N, last = [1e6, 4e6, float(rng.uniform(1e7, 4e7))], float(10 ** rng.uniform(9, 12))
        first, factor = last / float(rng.uniform(1.2, 2.2)), [fall, float(rng.uniform(1, fall)), 1.0]
        text = f"3 sizes from 1e+06 to {N[-1]:.2g}, tokens from {first:.2g} to {last:.2g}"
        calls.append(Call("with_cost", (N, first, last, factor), f"{text}, factors {fall} to 1", exact))
    for middle, ends in ((4.0, 1.0), (1.0, 4.0)):    # the dearest run is of no largest size, the cheapest of no smallest
        N = [1e6, 1e6 * float(rng.uniform(1.4, 1.6)), 2e6]
        last = float(10 ** rng.uniform(9, 12))
        arguments = (N, last / float(rng.uniform(2, 30)), last, [ends, middle, ends])
        calls.append(Call("with_cost", arguments, f"3 sizes, factors {ends}, {middle} and {ends}", exact))
    for fall, text in ((10.0, "below the first"), (5.5, "hardly above the first")):
        arguments = ([1e6, 4e6], 1e10, 1.5e10, [fall, 1.0])
        calls.append(Call("with_cost", arguments, f"2 sizes, factors {fall} and 1: the last budget is {text}", exact))
    for _ in range(90):                              # two sizes or more, near or far; a few tokens more or many; factors in no order
        n_sizes, low, span = int(rng.integers(2, 7)), float(rng.uniform(4, 9)), float(10 ** rng.uniform(-1, 0.7))
        N = np.sort(10 ** (low + np.array([0, span, *rng.uniform(0, span, n_sizes - 2)]))).tolist()
        factor, last = (10 ** rng.uniform(-1, 1, n_sizes)).tolist(), float(10 ** rng.uniform(9, 14))
        factor = factor if rng.random() < 0.8 else factor[:1] * n_sizes
        back, another = (10 ** 10 ** rng.uniform(-1.5, 0.6, 2)).tolist()
        first = last / back
        text = f"{n_sizes} sizes from {N[0]:.2g} to {N[-1]:.2g}, tokens from {first:.2g} to {last:.2g}"
        calls.append(Call("design_exponent", (N, first, last), text, exact))
        a = design_exponent(N, last / another, last)
        calls.append(Call("first_for", (N, last, a), f"{n_sizes} sizes from {N[0]:.2g} to {N[-1]:.2g}, a = {a:.3g}", Within(1.0000001)))
        least = 1.5 * N[0] * factor[0] / (N[-1] * back)  # where the last run ends at a larger budget than the first
        factor[-1] = max(factor[-1], least) if rng.random() < 0.8 else float(rng.uniform(0.1, 0.4)) * least
        calls.append(Call("with_cost", (N, first, last, factor), f"{text}, factors {factor[0]:.2f} to {factor[-1]:.2f}", exact))
    N, first, last = draw()
    text = f"{len(N)} sizes from {N[0]:.2g} to {N[-1]:.2g}"
    calls.append(Call("design_exponent", (N, last, last), f"{text}, one evaluation of each", exact))
    calls.append(Call("first_for", (N, last, 1.0), f"{text}, a = 1", Within(1.0000001)))
    least = design_exponent(N, float(rng.uniform(1.001, 1.05)), last)
    calls.append(Call("first_for", (N, last, least), f"{text}, a = {least:.3g}", Within(1.0000001)))
    for near in ([1e6, 1.3e6], [1e6, 1.2501e6]):
        least = design_exponent(near, 1.5, 1e14)
        calls.append(Call("first_for", (near, 1e14, least), f"2 sizes near each other, a = {least:.3g}", Within(1.0000001)))
    calls.append(Call("design_exponent", (near, 1e8, 1e10), "2 sizes near each other", exact))
    calls.append(Call("with_cost", (near, 1e8, 1e10, [2.0, 1.5]), "2 sizes near each other, factors 2 and 1.5", exact))
    cheaper = [float(rng.uniform(2, 4)), 1.0]
    calls.append(Call("with_cost", ([1e6, 1e7], last, last, cheaper), f"2 sizes, one evaluation of each, factors {cheaper[0]:.2f} and 1", exact))
    near = [1e6, 1e6 * float(rng.uniform(1.29, 1.31))]  # nearly one evaluation, nearly one factor, nearly 1
    first = 1e10 * (1 - float(rng.uniform(4e-6, 6e-6)))
    calls.append(Call("design_exponent", (near, first, 1e10), "2 sizes, tokens from nearly 1e10 to 1e10", exact))
    factor = [1.0, 1.0 + float(rng.uniform(6e-6, 8e-6))]
    calls.append(Call("with_cost", (near, first, 1e10, factor), "2 sizes, tokens from nearly 1e10 to 1e10, factors that are nearly 1", exact))
    for near in rng.uniform((7e-7, 8e-8), (9e-7, 9.5e-8)).tolist():
        calls.append(Call("first_for", ([1e6, 1e9], 1e10, 1 - near), f"2 sizes, 1e6 and 1e9, a = {1 - near:.10f}", Within(1.0000001)))
    calls.append(Call("found", (), "", Exactly()))
    return calls


# --- q3: The ends of an envelope ---


def iso_flop(C, N, loss):
    """(budgets, best sizes), lists; C [G] and N [S] rising, loss [S][G]."""
    budgets, sizes = [], []
    for g in range(len(C)):
        column = [row[g] for row in loss]
        s = column.index(min(column))
        three = column[s - 1 : s + 2] if s > 0 else []
        if len(three) < 3 or math.inf in three:
            continue
        x = np.log(N[s - 1 : s + 2])
        centre = x[1]
        curvature, slope, _ = np.polyfit(x - centre, np.log(three), 2)
        budgets.append(C[g])
        sizes.append(math.exp(centre - slope / (2 * curvature)))
    return budgets, sizes


COLUMNS = (                                       # losses of five sizes at a budget
    (3.0, 2.5, 2.6, 2.3, 2.4),                    # two valleys, the right one deeper
    (3.0, 2.6, 2.5, 2.45, 2.4),                   # the largest is best
    (3.0, math.inf, 2.0, 2.5, 2.6),               # a gap on the left
    (2.4, 2.45, 2.5, 2.6, 3.0),                   # the smallest is best
    (3.0, 2.4, 2.2, 2.3, 2.5),
    (math.inf,) * 5,                              # nobody is there
    (2.4, 2.3, 2.6, 2.5, 3.0),                    # two valleys, the left one deeper
    (2.6, 2.5, 2.0, math.inf, 3.0),               # a gap on the right
    (2.2, 2.6, 2.4, 2.5, 3.0),                    # the smallest is best, and there is a valley too
    (3.0, 2.5, 2.4, 2.6, 2.2),                    # the largest is
    (2.6, 2.4, 2.5, 2.2, math.inf),               # the best is beside a gap, and there is a valley too
    (3.0, 2.6, 2.4, 2.2, 2.5),                    # the last budget counts, too
)


@define_question(INFO["q3"], iso_flop=iso_flop)
def q3(rng):
    calls = []
    for text, n_sizes, n_budgets in (("5 sizes", 5, 12), ("3 sizes", 3, 21), ("7 sizes", 7, 20)):
        low, high = (0.8, 1.2) if n_sizes == 3 else (0.3, 1.4)
        x = rng.uniform(low, high, n_sizes).cumsum() * 2.0 + 12.0
        budgets = np.linspace(0, 1, n_budgets)
        best = x[0] + (x[-1] - x[0]) * budgets ** float(rng.uniform(0.8, 1.3))
        log_loss = 0.02 * (x[:, None] - best) ** 2 + 0.004 * (x[:, None] - best) ** 3 / 3 - 0.3 * budgets
        log_loss += 0.8 + 0.002 * rng.normal(size=log_loss.shape)
        loss = np.exp(log_loss)
        for s in range(n_sizes):                  # runs begin late if large, and end early if small
            middle = (x[s] - x[0]) / (x[-1] - x[0])
            loss[s, (budgets < min(middle, 0.9) - 0.45) | (budgets > max(middle, 0.15) + 0.4)] = math.inf
        if n_sizes == 7:                          # a run that was not evaluated at one budget, next to the best size
            g = next(g for g in range(6, n_budgets) if 2 <= loss[:, g].argmin() <= 4)
            s = int(loss[:, g].argmin())
            loss[s + 1, g] = math.inf
            loss[s + 2, g] = min(loss[s + 2, g], 1.02 * loss[s, g])
        C = (10 ** (18 + 3 * budgets)).tolist()
        arguments = (C, np.exp(x).tolist(), loss.tolist())
        calls.append(Call("iso_flop", arguments, f"{text}, {n_budgets} budgets", Within(1.00001)))
    for n in range(120):                          # losses below 1 and above 10 in any order, gaps anywhere, sizes near or far
        n_sizes, n_budgets = int(rng.integers(3, 8)), int(rng.integers(1, 9))
        ranks = rng.permuted(np.tile(np.arange(n_sizes), (n_budgets, 1)), axis=1)
        reached = rng.random(ranks.shape) < rng.choice((0.75, 0.95))
        g, s = int(rng.integers(n_budgets)), int(rng.integers(1, n_sizes - 1))
        ranks[g], reached[g, s - 1 : s + 2] = abs(np.arange(n_sizes) - s), True  # one that is not skipped
        step = 10 ** rng.uniform(*((-6, -5) if n % 6 == 0 else (-5, -0.3)))  # valleys may be flat; or some losses are equal
        loss = 1 + step * (ranks + rng.uniform(0, 0.2, ranks.shape) * rng.integers(2))
        loss *= 10 ** rng.uniform(-1.5, 1.5)
        C = np.sort(10 ** rng.uniform(17, 24, n_budgets)).tolist()
        N = np.exp((rng.uniform(0.1, 1, n_sizes) * 10 ** rng.uniform(-0.5, 0.5)).cumsum() + rng.uniform(1, 20)).tolist()
        arguments = (C, N, np.where(reached, loss, math.inf).T.tolist())
        calls.append(Call("iso_flop", arguments, f"{n_sizes} sizes, {n_budgets} budgets, losses of {loss.min():.2g} or more", Within(1.00001)))
    loss = np.array(COLUMNS).T + rng.uniform(-0.02, 0.02, (5, len(COLUMNS)))
    C = np.sort(10 ** rng.uniform(18, 21, len(COLUMNS))).tolist()
    N = np.exp(rng.uniform(0.6, 2.8, 5).cumsum() + 14.0).tolist()
    text = f"5 sizes, {len(COLUMNS)} budgets: valleys, gaps, and a budget that nobody reaches"
    calls.append(Call("iso_flop", (C, N, loss.tolist()), text, Within(1.00001)))
    loss = rng.uniform((140, 85, 280), (160, 95, 298)).tolist()
    N = np.exp(rng.uniform(0.9, 1.1, 3).cumsum() + 14.0).tolist()
    calls.append(Call("iso_flop", ([1e18], N, [[one] for one in loss]), "3 sizes, losses of 85 to 298", Within(1.00001)))
    for spacing, height in ((2.8, 2e-8), (3.1, 5e-9)):  # sizes far apart, losses nearly alike: it is a valley
        N = np.exp(14 + spacing * rng.uniform(0.95, 1.05, 3).cumsum()).tolist()
        loss = 10 ** rng.uniform(-1, 1) * (1 + height * rng.uniform(0.8, 1.2, 3) * [1, 0, 1])
        calls.append(Call("iso_flop", ([1e18], N, [[one] for one in loss.tolist()]), f"3 sizes, losses that differ by a part in {1 / height:.0e}", Within(1.001)))  # few digits are left
    for start, spacing in ((14, 3.1), (1, 24.0)):     # as nearly as they may be; a loss of 1 leaves the most digits
        N = np.exp(start + spacing * rng.uniform(0.95, 1.05, 3).cumsum()).tolist()
        loss = 1 + rng.uniform(4.02e-10, 5e-10, 3) * [1, 0, 1]
        calls.append(Call("iso_flop", ([1e18], N, [[one] for one in loss.tolist()]), f"3 sizes e^{spacing:g} apart, losses of 1 that differ by a part in two billion", Within(1.001)))
    for uneven, spacing, last in ((9e-4, 2.8, 2.2), (9e-6, 8.0, 2.02)):  # sizes that are nearly at equal distances
        N = np.exp(14 + spacing * np.array([0, 1, 2 + uneven * rng.uniform(0.9, 1.05)])).tolist()
        loss = [[3.0], [2.0], [last + float(rng.uniform(0, 0.005))]]
        calls.append(Call("iso_flop", ([1e18], N, loss), "3 sizes at nearly equal distances", Within(1.00001)))
    # two valleys again: of that whose lowest size is not the best, the parabola goes lower
    loss = np.array([(6.0, 2.5, 2.56, 2.4, 2.56), (2.56, 2.4, 2.56, 2.5, 6.0)]).T + rng.uniform(-0.01, 0.01, (5, 2))
    N = np.exp(rng.uniform(0.9, 1.1, 5).cumsum() + 14.0).tolist()
    calls.append(Call("iso_flop", (C[:2], N, loss.tolist()), "5 sizes, 2 budgets, 2 valleys at each", Within(1.00001)))
    return calls


# --- q4: Two sizes up ---


small = ([195_648, 792_704, 2_215_872], [1.3898, 1.2493, 1.1789])


def by_curve(N, L, target):
    """E + A target^-alpha through three points; N and L are lists."""
    def gaps(alpha):
        x1, x2, x3 = (n**-alpha for n in N)
        return (x1 - x2) / (x2 - x3)

    wanted = (L[0] - L[1]) / (L[1] - L[2])
    low, high = 1e-3, 5.0
    for _ in range(100):
        alpha = (low + high) / 2
        low, high = (alpha, high) if gaps(alpha) < wanted else (low, alpha)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)


def by_line(N, L, target):
    """The line through log L against log N."""
    slope, start = np.polyfit(np.log(N), np.log(L), 1)
    return math.exp(start + slope * math.log(target))


@define_question(INFO["q4"], by_curve=by_curve, by_line=by_line)
def q4(rng):
    calls = [
        Call("by_curve", (*small, 14_171_136.0), "HGRN2 on novels, 14.17 million", Close(1e-6)),
        Call("by_line", (*small, 14_171_136.0), "HGRN2 on novels, 14.17 million", Close(1e-9)),
    ]
    for n in range(6):
        N = (10 ** (5 + np.array([0.0, *rng.uniform(0.3, 0.9, 2)]).cumsum())).tolist()
        E, alpha = float(rng.uniform(0.2, 1.5)), float(rng.uniform(0.15, 0.9))
        A = float(rng.uniform(0.8, 4.0))
        if n == 3:
            E, alpha = -0.3, 0.12
        if n == 4:                                # nearly a line of L against log N
            alpha = float(rng.uniform(0.00105, 0.0012))
            A = float(rng.uniform(0.25, 0.35)) / alpha
            E = 3 - A
        if n == 5:                                # nearly at E
            E, alpha = 0.5, float(rng.uniform(4.7, 4.9))
        L = [E + A * (x / N[0]) ** -alpha for x in N]
        target = N[2] * float(rng.uniform(3, 60))
        text = f"sizes {N[0]:.2g}, {N[1]:.3g}, {N[2]:.3g}, target {target:.3g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    steep = [1e5, 1e6, 1e7], [20.0, 14.0, 8.0140753], 3e7  # the line of L against log N bends hardly at all, and E is far below 0
    calls.append(Call("by_curve", steep, "losses 20, 14 and 8.0140753 at sizes 1e5, 1e6 and 1e7, target 3e7", Close(1e-6)))
    bent = [55066605608.539925, 900803795702.4282, 3510780174807.6763], [23.15528030541025, 16.49834716226581, 13.80335602039046], 2.1012380895871453e17
    calls.append(Call("by_curve", bent, "losses 23.2, 16.5 and 13.8 at sizes 5.5e10, 9.01e11 and 3.51e12, target 2.1e17", Close(1e-6)))
    calls.append(Call("by_curve", ([4.3e7, 7.18e7, 3.05e8], [98.5, 74.6, 29.0], 1.27e9), "losses 98.5, 74.6 and 29 at sizes 4.3e7, 7.18e7 and 3.05e8, target 1.27e9", Close(1e-6)))
    between = [192339867.41372275, 3241000108.336169, 29426429559.205917], [46.82924534652531, 37.760927562142875, 31.016817068858842], 2684241446305785.5
    calls.append(Call("by_curve", between, "losses 46.8, 37.8 and 31 at sizes 1.9e8, 3.24e9 and 2.94e10, target 2.7e15", Close(1e-6)))  # 30 halvings are too few
    alike = [303725, 305245, 584476439], [8.9999986, 8.9930585, 3.1483243], 5844764390000.0
    calls.append(Call("by_curve", alike, "losses 9, 8.99 and 3.15 at sizes 303,725, 305,245 and 5.8e8, target 5.8e12", Close(1e-6)))  # two points nearly in one
    for _ in range(60):                           # sizes of any magnitude, near or far; losses below 1 and above 5, E below 0 or not
        N = (10 ** (rng.uniform(2, 11) + np.array([0.0, *rng.uniform(0.152, 1.5, 2)]).cumsum())).tolist()
        alpha, last, part = (10 ** rng.uniform((-2, -1.3, -1), (0.2, 1.5, 1.5))).tolist()
        L = [last + part * last * ((x / N[0]) ** -alpha - (N[2] / N[0]) ** -alpha) for x in N]
        target = N[2] * float(10 ** rng.uniform(0.01, 5))
        text = f"losses {L[0]:.3g}, {L[1]:.3g}, {L[2]:.3g} at sizes {N[0]:.2g}, {N[1]:.3g}, {N[2]:.3g}, target {target:.3g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    first = 3 * float(rng.uniform(0.95, 1.05))
    for N, steps, target in (                      # the smallest steps, in losses and in sizes
        ([1e6, 1e7, 1e8], (1.33e-6, 1.1e-6 * float(rng.uniform(0.97, 1.03))), 1e13),
        ([1e13, 1.4e13, 2e13], (0.05, 0.044 * float(rng.uniform(0.97, 1.03))), 3e13),
    ):
        L = [first, first * (1 - steps[0]), first * (1 - steps[0] - steps[1])]
        text = f"losses that fall by {steps[0]:.3g} and {steps[1]:.3g} of {first:.3g} at sizes {N[0]:g}, {N[1]:g} and {N[2]:g}, target {target:g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    for more in rng.uniform((4e-4, 7e-6), (6e-4, 9e-6)).tolist():  # sizes that have nearly a common ratio
        N, L = [1e6, 1e7, 1e8 * (1 + more)], [4.0, 3.0, float(rng.uniform(2.3, 2.5))]
        text = f"losses 4, 3 and {L[2]:.3g} at sizes 1e6, 1e7 and {N[2]:.8g}, target 1e11"
        calls.append(Call("by_curve", (N, L, 1e11), text, Close(1e-6)))
    unit, target = (rng.uniform((0.98, 3.6e12), (1.02, 3.8e12))).tolist()  # two points nearly in one again, and a loss that hardly falls there
    L = [unit * one for one in (1.02, 1.0199985037087276, 0.40955102512429203)]
    text = f"losses {L[0]:.9g}, {L[1]:.9g} and {L[2]:.3g} at sizes 5,979,233, 5,979,259 and 4.4e7, target {target:.3g}"
    calls.append(Call("by_curve", ([5979233.0, 5979259.0, 44382881.0], L, target), text, Close(1e-6)))
    return calls


# --- q5: One bad run ---


def robust(N, L):
    """(k, a) by medians; N and L are lists of one length."""
    x, y = np.log(N), np.log(L)
    i, j = np.triu_indices(len(x), 1)
    a = -np.median((y[j] - y[i]) / (x[j] - x[i]))
    return float(np.exp(np.median(y + a * x))), float(a)


def suspect(N, L):
    """The index of the run that is farthest above the line."""
    k, a = robust(N, L)
    above = np.log(L) - np.log(k) + a * np.log(N)
    return int(above.argmax())


def refit(N, L):
    """(k, a) by least squares, without the suspect."""
    kept = np.arange(len(N)) != suspect(N, L)
    slope, start = np.polyfit(np.log(N)[kept], np.log(L)[kept], 1)
    return math.exp(start), -float(slope)


def _runs_with_close_sizes(rng):
    """(N, L) of six runs, shuffled; another run is farthest above the line that other medians give."""
    x = np.array([0.0, 1.18, 1.88, 2.01, 2.24, 3.57]) * rng.uniform(0.95, 1.05)
    above = np.array([-0.017, 0.05, 0.005, -0.004, -0.014, -0.003]) * rng.uniform(0.9, 1.1)
    k, a, first = rng.uniform((3, 0.05, 11.5), (9, 0.2, 13.0))
    order = rng.permutation(6)
    return np.exp(first + x[order]).tolist(), (k * np.exp(above - a * (first + x)))[order].tolist()


def _scattered_runs(rng):
    """(N, L) of five runs in no order; another is farthest above a line of magnitudes, or of some slopes alone."""
    x = np.array([0.584, 0.885, 0.0, 0.76, 3.021]) * rng.uniform(0.98, 1.02)
    above = np.array([-0.0192, -0.005, 0.1161, -0.0835, 0.0827]) * rng.uniform(0.98, 1.02)
    k, a, first = rng.uniform((3, 0.11, 11.5), (9, 0.13, 13.0))
    return np.exp(first + x).tolist(), (k * np.exp(above - a * (first + x))).tolist()


def _runs_that_rise(rng):
    """(N, L) of four runs, some slopes above 0; another is farthest above a line of those below 0 alone."""
    x = np.array([0.0, 1.616, 1.907, 2.195]) * rng.uniform(0.98, 1.02)
    above = np.array([0.0516, -0.0708, -0.0329, 0.0521]) * rng.uniform(0.98, 1.02)
    k, a, first = rng.uniform((3, 0.115, 11.5), (9, 0.125, 13.0))
    order = rng.permutation(4)
    return np.exp(first + x[order]).tolist(), (k * np.exp(above - a * (first + x)))[order].tolist()


def _any_runs(rng):
    """(N, L) of 3 to 11 runs that scatter little or much, in any order; one is farthest above the line."""
    while True:
        n = int(rng.integers(3, 12))
        steps = rng.uniform(0.1, 1, n) * 10 ** rng.uniform(-0.5, 0.5)
        steps[rng.integers(1, n)] *= rng.choice((1.0, 1.0, 1.0, 1e-2, 1e-5))  # two may be nearly of one size
        x = rng.uniform(2, 20) + steps.cumsum()
        x = (x, x[::-1], rng.permutation(x))[rng.integers(3)]
        level, slope, scatter, bad = 10 ** rng.uniform((-2, -1.5, -3, -2), (1.5, 0, 0.2, 0))
        y = np.log(level) - slope * (x - x.mean()) + scatter * rng.normal(size=n)
        one, other = rng.permutation(n)[:2]
        y[one] += rng.choice((-bad, 0, bad))
        y[other] = y[one] if rng.random() < 0.3 else y[other]  # two of one loss, or three
        if y[other] == y[one] and rng.random() < 0.5:
            y[rng.integers(n)] = y[one]
        N, L = np.exp(x).tolist(), np.exp(y).tolist()
        with np.errstate(over="ignore", invalid="ignore"):  # a k beyond all numbers: not these
            k, a = robust(N, L)
            above = np.sort(y + a * x - np.log(k))
            kept = np.delete(x, (y + a * x).argmax())
            if a > 0.01 and above[-1] - above[-2] > 1e-5 and np.ptp(kept) > 0.01:
                return N, L


def _runs_of_nearly_one_size(rng, first):
    """(N, L) of five runs; the sizes of two differ by one parameter, and one of these is the bad run."""
    N = np.array([first, first + 1, *(first * np.exp(rng.uniform(0.8, 1.2, 3).cumsum()))])
    L = 8 * (N / first) ** -rng.uniform(0.05, 0.2) * np.exp(0.004 * rng.normal(size=5))
    L[rng.integers(2)] *= 1.1
    return N.tolist(), L.tolist()


def _runs_near_one_size(rng):
    """(N, L) of five runs within little more than 1 %; one is far above the line, which falls."""
    while True:
        N = float(rng.uniform(1e6, 1e7)) * (1 + np.array([0.0, 0.0001, 0.0049, 0.01012, 0.0102]))
        L = 5 * N**-0.1 * np.exp(1e-4 * rng.uniform(-1, 1, 5))
        L[rng.integers(5)] *= 1.05
        if robust(N, L)[1] > 0.01:
            return N.tolist(), L.tolist()


def _runs_that_hardly_fall(rng, sizes, losses):
    """(N, L) of runs in any order, of which one is the bad run."""
    N, L = float(rng.uniform(1e6, 2e6)) * np.array(sizes), float(rng.uniform(0.95, 1.05)) * np.array(losses)
    L[rng.integers(len(L))] *= 1.05
    order = rng.permutation(len(N))
    return N[order].tolist(), L[order].tolist()


def _runs_with_a_twin(rng, earlier):
    """(N, L) of runs; one before or behind the suspect, not beside it, has the same loss."""
    while True:
        N, L = _any_runs(rng)
        bad = suspect(N, L)
        twins = [n for n, loss in enumerate(L) if loss == L[bad] and n != bad]
        if any(n < bad - 1 if earlier else n > bad + 1 for n in twins):
            return N, L


def _runs_for_this_median(rng, center, kept):
    """(N, L) of runs; another is farthest above the line by another center, or by the slopes that `kept` keeps."""
    while True:
        N, L = _any_runs(rng)
        x, y = np.log(N), np.log(L)
        i, j = np.triu_indices(len(x), 1)
        slopes = (y[j] - y[i]) / (x[j] - x[i])
        if kept(slopes).any() and (y - center(slopes[kept(slopes)]) * x).argmax() != suspect(N, L):
            return N, L


def _lower(values):
    return np.sort(values)[(len(values) - 1) // 2]


def _of_different(values):
    return np.median(np.unique(values))


def _upper(values):
    return -_lower(-values)


def _runs_with_a_rival(rng, rounded, gap):
    """(N, L) of runs, of which one is by `gap` or two above another; with the rounded a or numbers the other is."""
    while True:
        N, L = _any_runs(rng)
        bad, (k, a) = suspect(N, L), robust(N, L)
        above = np.log(L) + a * np.log(N) - np.log(k)
        L[bad] *= float(np.exp(np.sort(above)[-2] - above[bad] + gap * rng.uniform(1, 2)))
        k, a = robust(N, L)
        above = np.log(L) + a * np.log(N) - np.log(k)
        first, second = np.sort(above)[:-3:-1]
        if len(N) > 3 and a > 0.01 and first - second > 0.55 * gap and rounded(np.log(N), np.log(L), np.log(k), a).argmax() != above.argmax():
            return N, L


_ROUNDED = (
    lambda x, y, level, a: y + round(a, 4) * x - level,
    lambda x, y, level, a: (y + a * x - level).round(4),
    lambda x, y, level, a: y.round(4) + a * x.round(4) - level,
)
_NEARLY_EQUAL = (
    lambda x, y, level, a: y + round(a, 6) * x - level,
    lambda x, y, level, a: (y + a * x - level).round(6),
    lambda x, y, level, a: np.exp(y).astype(np.float32) / np.exp(level - a * x).astype(np.float32),
    lambda x, y, level, a: y.astype(np.float32) - np.float32(level) + np.float32(a) * x.astype(np.float32),
    lambda x, y, level, a: np.isclose(y + a * x - level, max(y + a * x - level)),
    lambda x, y, level, a: y + a * x > level + max(y + a * x - level) - 1e-6,
)


def _ask(inputs, text):
    return [
        Call("robust", inputs, text, Close(1e-7)),
        Call("suspect", inputs, text, Exactly()),
        Call("refit", inputs, text, Close(1e-7)),
    ]


@define_question(INFO["q5"], robust=robust, suspect=suspect, refit=refit)
def q5(rng):
    calls = []
    for n, places in ((6, (0, 5)), (6, (0, 5)), (5, range(5)), (8, (7,)), (4, (3,)), (7, (6,)), (9, (3, 4, 5, 6)), (9, (3, 4, 5, 6)), (6, range(6)), (10, range(10))):
        place = int(rng.choice(places))
        x = np.log(1e5) + np.sort(rng.uniform(0.4, 1.5, n)).cumsum()
        if n == 7:                                # the bad run is far from the others, and pulls the line to itself
            x[-1] += 9.0
        order = rng.permutation(n)
        k, a = float(rng.uniform(3, 9)), float(rng.uniform(0.05, 0.2))
        loss = k * np.exp(-a * x) * np.exp(0.002 * rng.normal(size=n))
        loss[place] *= float(rng.uniform(1.05, 1.2)) if n < 9 else 1.06 if n == 9 else 1.009
        if n == 9:                                # the smallest is far below the line, and makes the next one look high
            loss[0] *= 0.4
        if n == 4:                                # in the order of their sizes, too
            order = np.arange(n)
        if n == 8:                                # in nats the smallest run is farther above, in logarithms the largest
            k, a = 40.0, 0.25
            loss = k * np.exp(-a * x)
            loss[0], loss[-1] = 1.06 * loss[0], 1.12 * loss[-1]
        inputs = (np.exp(x)[order].tolist(), loss[order].tolist())
        text = f"{n} runs"
        calls += _ask(inputs, text)
    calls += _ask(_runs_with_close_sizes(rng), "6 runs, some of nearly the same size")
    calls += _ask(_runs_that_rise(rng), "4 runs, some of which are larger and not better")
    calls += _ask(_scattered_runs(rng), "5 runs that scatter")
    for first, turn in ((1e9, 1), (4e9, -1), (2e12, 1), (2e12, -1)):
        N, L = _runs_of_nearly_one_size(rng, first)
        calls += _ask((N[::turn], L[::turn]), "5 runs, two sizes of which differ by one parameter")
    for _ in range(2):
        calls += _ask(_runs_near_one_size(rng), "5 runs within 1 % of one size")
    alike = [1.0, 1.0101, 1.02, 1.03, 1.0402], [5.0, 4.99999, 4.99998, 4.99997, 4.99996]
    calls += _ask(_runs_that_hardly_fall(rng, *alike), "5 runs within 4 % of one size, losses that are nearly the same")
    faint = [1.0, 10.0, 100.0, 300.0, 1_000.0], [1.9e-6, 1.6e-6, 1.3e-6, 1.2e-6, 1.1e-6]
    calls += _ask(_runs_that_hardly_fall(rng, *faint), "5 runs, losses near 1e-6")
    calls += _ask(([1e6, 1e7, 1e8, 1e9], [2.0, 1.0, 1.0, 1.0]), "4 runs, a loss of 2 and three of 1")
    for earlier in (True, True, False, False):
        N, L = _runs_with_a_twin(rng, earlier)
        calls += _ask((N, L), f"{len(N)} runs, another has the loss of the one that is farthest above")
    for center, kept in ((_lower, np.isfinite), (_upper, np.isfinite), (np.median, np.abs), (_of_different, np.isfinite)):
        for _ in range(3):                        # the middle two are two, slopes of 0 are slopes, and two of one value are two
            N, L = _runs_for_this_median(rng, center, lambda slopes, kept=kept: kept(slopes) > 0)
            calls += _ask((N, L), f"{len(N)} runs, the median of whose slopes decides")
    for rounded, gap in [*((rounded, 2e-5) for rounded in _ROUNDED * 2), *((rounded, 2e-8) for rounded in _NEARLY_EQUAL)]:
        N, L = _runs_with_a_rival(rng, rounded, gap)
        calls += _ask((N, L), f"{len(N)} runs, one of which is hardly above another")
    for _ in range(100):
        N, L = _any_runs(rng)
        calls += _ask((N, L), f"{len(N)} runs, sizes {min(N):.2g} to {max(N):.2g}, losses {min(L):.3g} to {max(L):.3g}")
    return calls


# --- q6: Spend a budget ---


def split(C, A, B, alpha, beta):
    """The best (N, D) for a budget of C FLOPs."""
    ratio = (alpha * A) / (beta * B)
    N = (ratio * (C / 6) ** beta) ** (1 / (alpha + beta))
    return N, C / (6 * N)


def split_scarce(C, A, B, alpha, beta, most):
    """The same with at most so many tokens."""
    N, D = split(C, A, B, alpha, beta)
    return (N, D) if most >= D else (C / (6 * most), most)


def price(share, alpha, beta):
    """Compute over the budget for the same loss at share of the size."""
    size, data = beta / (alpha + beta), alpha / (alpha + beta)
    left = 1 - size * share**-alpha
    if left <= 0:
        return math.inf
    return share * (data / left) ** (1 / beta)


@define_question(INFO["q6"], split=split, split_scarce=split_scarce, price=price)
def q6(rng):
    calls, tight = [], Within(1.000001)
    surfaces = [(406.4, 410.7, 0.34, 0.28)]
    for _ in range(7):
        surfaces.append((*rng.uniform(10, 900, 2).tolist(), *rng.uniform(0.15, 0.6, 2).tolist()))
    for n, (A, B, alpha, beta) in enumerate(surfaces):
        C = float(10 ** rng.uniform(17, 24))
        text = f"C = {C:.3g}, A = {A:.4g}, B = {B:.4g}, alpha = {alpha:.3g}, beta = {beta:.3g}"
        if n % 2 == 0:
            calls.append(Call("split", (C, A, B, alpha, beta), text, tight))
            continue
        N = ((alpha * A) / (beta * B) * (C / 6) ** beta) ** (1 / (alpha + beta))
        for factor in rng.uniform((0.005, 0.2, 0.9992, 0.999993, 1.0001, 2.0), (0.02, 0.5, 0.9999, 0.999997, 1.001, 6.0)).tolist():
            most = factor * C / (6 * N)
            calls.append(Call("split_scarce", (C, A, B, alpha, beta, most), f"{text}, {most:.4g} tokens", tight))
    for C, surface in ((1e24, (900.0, 10.0, 0.15, 0.6)), (1e17, (10.0, 900.0, 0.6, 0.15))):  # far from balanced
        calls.append(Call("split", (C, *surface), f"C = {C:.3g}, A, B, alpha, beta = {surface}", tight))
    steep = tuple(rng.uniform(0.15, 0.155, 2).tolist())  # near the limit the price is 1e20 and more
    for alpha, beta in [(0.34, 0.28), (0.076, 0.095), steep] + [tuple(rng.uniform(0.15, 0.6, 2).tolist()) for _ in range(2)]:
        limit = (beta / (alpha + beta)) ** (1 / alpha)
        above = (10 ** rng.uniform((0.1, 0.2, 0.6), (0.17, 0.6, 1.5))).tolist()
        for share in (1.0, limit ** float(rng.uniform(0.1, 0.9)), *above, 1.00101 * limit, 0.99899 * limit):
            text = f"{share:.4g} of the size, alpha = {alpha:.3g}, beta = {beta:.3g}"
            calls.append(Call("price", (share, alpha, beta), text, Close(1e-7)))
    near = 1.0011 * 0.5 ** (1 / 0.065)         # a price of 3e54
    calls.append(Call("price", (near, 0.065, 0.065), f"{near:.4g} of the size, alpha = beta = 0.065", Close(1e-7)))
    far = 1.0011 * 0.5 ** (1 / 0.0462)         # 8e79
    calls.append(Call("price", (far, 0.0462, 0.0462), f"{far:.4g} of the size, alpha = beta = 0.0462", Close(1e-7)))
    size = (1 / 1.0402) ** (1 / 0.0402)       # the smallest exponent there is, and what the least data can mend
    calls.append(Call("price", (1.00101 * size, 0.0402, 1.0), f"{1.00101 * size:.4g} of the size, alpha = 0.0402, beta = 1", Close(1e-7)))
    calls.append(Call("price", (1e6, 0.0402, 0.0402), "1,000,000 of the size, alpha = beta = 0.0402", Close(1e-7)))  # with next to no data
    alpha = float(rng.uniform(0.28, 0.32))
    for beta in (alpha * (1 + 2.5e-6), alpha * (1 + 8e-7)):  # nearly the same, and not the same
        text = f"alpha = {alpha:.9g}, beta = {beta:.9g}"
        calls.append(Call("split", (1e21, 400.0, 410.0, alpha, beta), f"C = 1e21, A = 400, B = 410, {text}", tight))
        calls.append(Call("price", (0.12, alpha, beta), f"0.12 of the size, {text}", Close(1e-7)))
    small = rng.uniform(100, 300, 2)          # of a budget so small, its sixth is no whole number
    C = 6.0 * (int(small.prod()) + float(rng.uniform(0.3, 0.7)))
    calls.append(Call("split", (C, *surfaces[0]), f"C = {C:.8g}, A, B, alpha, beta = {surfaces[0]}", tight))
    for _ in range(180):                      # any best size and number of tokens, exponents near 0 and above 1, equal ones
        A, alpha, beta, N, D = (10 ** rng.uniform((-2, -1.2, -1.2, 2, 2), (4, 0.2, 0.2, 14, 14))).tolist()
        beta = alpha if rng.random() < 0.3 else beta
        C, B = 6 * N * D, alpha * A * N**-alpha / (beta * D**-beta)
        text = f"C = {C:.3g}, A = {A:.4g}, B = {B:.4g}, alpha = {alpha:.3g}, beta = {beta:.3g}"
        calls.append(Call("split", (C, A, B, alpha, beta), text, tight))
        most = D * float(10 ** (4 * rng.uniform(-1, 1) ** 3))
        calls.append(Call("split_scarce", (C, A, B, alpha, beta, most), f"{text}, {most:.4g} tokens", tight))
        alpha, beta = (10 ** rng.uniform(-1.2, 0.2, 2)).tolist()
        beta = alpha if rng.random() < 0.3 else beta
        limit = (beta / (alpha + beta)) ** (1 / alpha)
        share = float(rng.choice((limit * rng.uniform(0.1, 0.998), 1.002 * limit ** rng.random(), 1.0, 10 ** rng.uniform(0, 6))))
        text = f"{share:.4g} of the size, alpha = {alpha:.3g}, beta = {beta:.3g}"
        calls.append(Call("price", (share, alpha, beta), text, Close(1e-7)))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5, q6,)
