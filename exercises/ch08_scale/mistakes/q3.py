"""Known answers to question 3: the ends of an envelope."""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _columns(C, N, loss, reached=True, ends=False):
    """Yield each budget with the numbers of the best size and its neighbours."""
    for g in range(len(C)):
        column = [row[g] for row in loss]
        s = column.index(min(column))
        if column[s] == math.inf:
            continue
        if ends:
            s = min(max(s, 1), len(N) - 2)
        elif not 0 < s < len(N) - 1:
            continue
        three = column[s - 1 : s + 2]
        if reached and math.inf in three:
            continue
        yield g, s, three


def _vertex(x, y):
    curvature, slope, _ = np.polyfit(np.asarray(x) - x[1], y, 2)
    return float(x[1] - slope / (2 * curvature))


@mistake(
    "At some budgets a neighbour of the best size does not reach it. Skip them: the best size may be one that was "
    "not trained so far."
)
def neighbours_not_asked(C, N, loss):
    found = [(C[g], N[s]) if math.inf in y else (C[g], math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.log(y))))
             for g, s, y in _columns(C, N, loss, reached=False)]  # fmt: skip
    return [c for c, _ in found], [n for _, n in found]


@mistake("That is the best of the sizes that were trained. The minimum of the parabola lies between them.")
def no_parabola(C, N, loss):
    found = [(C[g], N[s]) for g, s, _ in _columns(C, N, loss)]
    return [c for c, _ in found], [n for _, n in found]


@mistake(
    "Where the smallest or the largest size is best, the parabola looks beyond the sizes: skip these budgets."
)
def ends_kept(C, N, loss):
    found = [
        (C[g], math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.log(y))))
        for g, s, y in _columns(C, N, loss, ends=True)
    ]
    return [c for c, _ in found], [n for _, n in found]


@mistake(
    "That parabola goes through N. In logarithms sizes are far more evenly spaced, and the curve is one."
)
def without_logarithm_of_sizes(C, N, loss):
    found = [(C[g], _vertex(np.array(N[s - 1 : s + 2]), np.log(y))) for g, s, y in _columns(C, N, loss)]
    return [c for c, _ in found], [n for _, n in found]


@mistake("That parabola goes through L, not through log L.")
def without_logarithm_of_loss(C, N, loss):
    found = [
        (C[g], math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.array(y)))) for g, s, y in _columns(C, N, loss)
    ]
    return [c for c, _ in found], [n for _, n in found]


@mistake("Those are logarithms of the best sizes.")
def logarithms(C, N, loss):
    found = [(C[g], _vertex(np.log(N[s - 1 : s + 2]), np.log(y))) for g, s, y in _columns(C, N, loss)]
    return [c for c, _ in found], [n for _, n in found]


@mistake("The three sizes are not evenly spaced; that formula is for points that are.")
def evenly_spaced(C, N, loss):
    budgets, sizes = [], []
    for g, s, y in _columns(C, N, loss):
        a, b, c = np.log(y)
        step = (math.log(N[s + 1]) - math.log(N[s - 1])) / 2
        budgets.append(C[g])
        sizes.append(math.exp(math.log(N[s]) + step * (a - c) / (2 * (a - 2 * b + c))))
    return budgets, sizes


@mistake("Sizes that do not reach the budget were left out first, so that another became the neighbour.")
def neighbours_among_those_that_reach(C, N, loss):
    budgets, sizes = [], []
    for g in range(len(C)):
        there = [i for i in range(len(N)) if loss[i][g] < math.inf]
        column = [loss[i][g] for i in there]
        s = column.index(min(column)) if there else 0
        if 0 < s < len(there) - 1:
            x = np.log([N[i] for i in there[s - 1 : s + 2]])
            budgets.append(C[g])
            sizes.append(math.exp(_vertex(x, np.log(column[s - 1 : s + 2]))))
    return budgets, sizes


@mistake("That goes on to the first valley. Losses scatter: the lowest of all may come after it.")
def first_valley(C, N, loss):
    budgets, sizes = [], []
    for g in range(len(C)):
        column = [row[g] for row in loss]
        s = 0
        while s < len(N) - 1 and (column[s] == math.inf or column[s + 1] < column[s]):
            s += 1
        three = column[s - 1 : s + 2] if 0 < s < len(N) - 1 else [math.inf]
        if math.inf not in three:
            budgets.append(C[g])
            sizes.append(math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.log(three))))
    return budgets, sizes


@mistake("Where the largest size is best, one budget is to be skipped, not all that follow: losses scatter.")
def ends_at_the_largest(C, N, loss):
    columns = [[row[g] for row in loss] for g in range(len(C))]
    last = next((g for g, column in enumerate(columns) if min(column) == column[-1] < math.inf), len(C))
    found = [
        (C[g], math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.log(y))))
        for g, s, y in _columns(C[:last], N, loss)
    ]
    return [c for c, _ in found], [n for _, n in found]


@mistake(
    "That is the deepest valley. Find the size with the lowest loss first: if it is the smallest or the largest, "
    "or has no neighbour there, the budget is skipped."
)
def deepest_valley(C, N, loss):
    budgets, sizes = [], []
    for g in range(len(C)):
        column = [row[g] for row in loss]
        inner = [s for s in range(1, len(N) - 1) if column[s] < min(column[s - 1], column[s + 1])]
        inner = [s for s in inner if max(column[s - 1 : s + 2]) < math.inf]
        if inner:
            s = min(inner, key=column.__getitem__)
            budgets.append(C[g])
            sizes.append(math.exp(_vertex(np.log(N[s - 1 : s + 2]), np.log(column[s - 1 : s + 2]))))
    return budgets, sizes


@also_right()
def by_a_formula(C, N, loss):
    budgets, sizes = [], []
    for g, s, y in _columns(C, N, loss):
        x1, x2, x3 = (math.log(n / N[s]) for n in N[s - 1 : s + 2])
        y1, y2, y3 = (math.log(v / y[1]) for v in y)
        top = (x2**2 - x3**2) * y1 + (x3**2 - x1**2) * y2 + (x1**2 - x2**2) * y3
        low = (x2 - x3) * y1 + (x3 - x1) * y2 + (x1 - x2) * y3
        budgets.append(C[g])
        sizes.append(N[s] * math.exp(top / (2 * low)))
    return budgets, sizes


@also_right()
def by_solving(C, N, loss):
    budgets, sizes = [], []
    for g, s, y in _columns(C, N, loss):
        x = np.log(np.array(N[s - 1 : s + 2]) / N[s])
        c = np.linalg.solve(np.stack([x**2, x, np.ones(3)], 1), np.log(y))
        budgets.append(C[g])
        sizes.append(float(N[s] * np.exp(-c[1] / (2 * c[0]))))
    return budgets, sizes
