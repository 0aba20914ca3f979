# %% [markdown] q5 diagnose, 4 points, 25 minutes, level 2
# ## One bad run
#
# Among the runs of a study one went wrong, and nobody noticed: its loss is too high. A least squares line through the logarithms is
# pulled towards it. There is a line that is not: take the slopes between *all pairs* of runs and their *median* (Theil and Sen).
#
# 1. `robust(N, L)`: $(k, a)$ of $L = k\,N^{-a}$, where $-a$ is the median of the slopes of $\log L$ against $\log N$ over all pairs, and
#    $\log k$ the median of $\log L + a\log N$ over the runs. The median of an even number is the mean of the middle two; $a > 0$.
#    There are 3 to 11 runs, no two of one size, and the largest is at least 1 % larger than the smallest, also without the suspect.
# 2. `suspect(N, L)`: the index of the run that lies farthest above that line, in logarithms.
# 3. `refit(N, L)`: $(k, a)$ of the least squares line without that run.

# %% answer q5
def robust(N, L):
    """(k, a) by medians; N and L are lists of one length."""
    # BEGIN SOLUTION
    x, y = np.log(N), np.log(L)
    i, j = np.triu_indices(len(x), 1)
    a = -np.median((y[j] - y[i]) / (x[j] - x[i]))
    return float(np.exp(np.median(y + a * x))), float(a)
    # END SOLUTION


def suspect(N, L):
    """The index of the run that is farthest above the line."""
    # BEGIN SOLUTION
    k, a = robust(N, L)
    above = np.log(L) - np.log(k) + a * np.log(N)
    return int(above.argmax())
    # END SOLUTION


def refit(N, L):
    """(k, a) by least squares, without the suspect."""
    # BEGIN SOLUTION
    kept = np.arange(len(N)) != suspect(N, L)
    slope, start = np.polyfit(np.log(N)[kept], np.log(L)[kept], 1)
    return math.exp(start), -float(slope)
    # END SOLUTION

# %% [markdown] solution q5
# With six runs there are fifteen slopes, five of which contain the bad run; the middle one is a slope between two good runs, or
# near one. With least squares the bad run also lies *near* the line, since it has pulled it, most of all at an end: that is
# why the largest residual from the least squares line can be that of a good run. `torch.median` returns the lower of the middle two, which is
# another line.
#
# Is one allowed to leave a run out? Only if one says so, and says what the fit is with it. Better is to look at its curve, and
# best to train it again.


# %% checks q5
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
