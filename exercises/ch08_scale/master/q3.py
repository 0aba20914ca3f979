# %% [markdown] q3 implement, 5 points, 30 minutes, level 3
# ## The ends of an envelope
#
# Write isoFLOP for curves that are read off at common budgets. `loss[s][g]` is the loss of the size `N[s]` at the budget `C[g]`,
# `math.inf` where that run does not reach the budget (it was not evaluated so early, or has ended). For each budget:
#
# 1. Find the size with the lowest loss. (All others are larger, by a part in 2.5 billion or more.)
# 2. Skip the budget if that is the smallest or the largest size, or if one of its two neighbours does not reach the budget: the
#    best size may be one that nobody trained. A budget that no run reaches is skipped too.
# 3. Put the parabola through the three points $(\log N, \log L)$. Its minimum is the best size at that budget.
#
# Sizes are not evenly spaced, in logarithms either. There are 3 to 7 of them and at most 21 budgets, and not every budget is skipped.
# Losses are below 300 where a run reaches the budget.

# %% answer q3
def iso_flop(C, N, loss):
    """(budgets, best sizes), lists; C [G] and N [S] rising, loss [S][G]."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q3
# A neighbour that does not reach the budget is the trap: without it the size in the middle is best because the
# other was not trained far enough. In the chapter's staircase most points are of this kind. For a parabola through three unevenly spaced
# points there is a formula, but `polyfit` through three points is exact, and centring keeps it accurate.


# %% checks q3
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
