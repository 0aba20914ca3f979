# %% [markdown] q5 derive, 3 points, 15 minutes, level 2
# ## Two readers of one book
#
# A key-value cache is split between two processors. Each goes through its part for the same query and ends
# with three things: $m$, the largest score it met, $d = \sum_j e^{x_j - m}$ and
# $u = \sum_j e^{x_j - m} v_j$ over its keys. Derive how two such triples are merged into the one for both
# parts, with $m$ the larger of the two maxima.
#
# A processor may have got no keys at all: its triple is $(-\infty, 0, 0)$, with zeros [V] for $u$. Both may. If your `merge` is
# right, the parts may be merged in any order and any grouping; the chapter reads from left to right only
# because a reader must start somewhere.

# %% answer q5
def merge(a, b):
    """Two triples (m, d, u): number, number, tensor [V] -> one triple."""
    # BEGIN SOLUTION
    m = max(a[0], b[0])
    if m == -math.inf:                       # nothing was read by either
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]
    # END SOLUTION

# %% [markdown] solution q5
# Each part is measured against its own $m$; bringing both to the larger one multiplies its $d$ and its $u$
# by $e^{m_\text{own} - m}$. One of the two factors is always 1. The empty triple is neutral:
# $e^{-\infty} = 0$, and two empty ones must be caught, because $-\infty - (-\infty)$ is no number. In exact
# arithmetic the merge is associative and commutative, which is what lets decoding kernels split a long
# cache over a whole GPU and join the parts in a tree.

# %% checks q5
def _triple(rng, n, at=0.0, V=3):
    """What a reader of n keys ends with, scores near `at`."""
    x = at + 2 * rng.normal(size=n)
    m = float(x.max()) if n else -math.inf
    w = torch.from_numpy(x).sub(m).exp() if n else torch.zeros(0, dtype=torch.float64)
    return m, float(w.sum()), w @ torch.from_numpy(rng.normal(size=(n, V)))


@define_question(INFO["q5"], merge=merge)
def q5(rng):
    calls = []
    for left, right, inputs in (
        ((5, 0.0), (8, 0.0), "5 and 8 keys"),
        ((5, 3.0), (2, -3.0), "the larger maximum first"),
        ((3, -400.0), (4, 500.0), "maxima 900 apart"),
        ((1, 0.0), (1, 0.0), "the same key"),
        ((3, 500.0), (4, -400.0), "maxima 900 apart, the larger first"),
        ((6, 0.0), (0, 0.0), "the second has no keys"),
        ((0, 0.0), (6, 0.0), "the first has no keys"),
        ((4, -900.0), (0, 0.0), "the second has no keys, scores near -900"),
        ((4, -5000.0), (0, 0.0), "the second has no keys, scores near -5000"),
        ((0, 0.0), (4, -5000.0), "the first has no keys, scores near -5000"),
        ((4, 0.0), (3, 0.0), "scores near -50,000"),
        ((3, 0.0), (5, 0.0), "equal maxima, 3 and 5 keys"),
        ((0, 0.0), (0, 0.0), "neither has keys"),
    ):
        V = int(rng.integers(1, 8))
        pair = _triple(rng, *left, V), _triple(rng, *right, V)
        if inputs == "the same key":
            pair = pair[0], (*pair[0][:2], pair[1][2])  # equal maxima
        if inputs.startswith("equal maxima"):
            pair = pair[0], (pair[0][0], *pair[1][1:])
        if inputs.endswith("-50,000"):  # in float32 they are 1 apart, not 0.997
            pair = (-50_000.0015, *pair[0][1:]), (-50_000.9985, *pair[1][1:])
        calls.append(Call("merge", pair, inputs))
    for high, low in ((-50_000.0, -50_000.4), (-1e6, -1e6 - 9e-4), (1.0005, 1.0), (1.0 + 2e-7, 1.0)):
        u, w = torch.from_numpy(rng.normal(size=(2, 3)))
        calls.append(Call("merge", ((high, 1.5, u), (low, 2.5, w)), f"maxima {high:.8g} and {low:.8g}", Close(1e-8)))
    for gap in (5, 9, 13, 20, 28, 36, 42, 50):  # exp(-36) of a million keys is still seen in d
        m, d, u = _triple(rng, 1)
        n = 10**12 if gap > 36 else 10**6
        many = m - gap, float(n), torch.from_numpy(n**0.5 * rng.normal(size=3))
        inputs = f"1 and {n:,} keys, maxima {gap} apart"
        hint = "The smaller weights count too, if there are many: drop none."
        calls.append(Call("merge", ((m, d, u), many), inputs, Close(1e-11), hint=hint))
        other = f"{n:,} and 1 keys, maxima {gap} apart"
        calls.append(Call("merge", (many, (m, d, u)), other, Close(1e-11), hint=hint))
    for _ in range(24):
        V, both = int(rng.integers(1, 5)), []
        start, gap = rng.choice([0.0, 0.0, -800.0, 5000.0]), rng.choice([0.0, 1.0, 30.0, -30.0, 800.0, -800.0])
        for at in (start, start + gap):
            m, d, u = _triple(rng, int(rng.choice([0, 1, 1, 2, 5])), at, V)
            if d and rng.random() < 0.3:
                m = 0.0  # a score like any other
            if rng.random() < 0.3:
                u = 0.0 * u  # as are values of 0
            both.append((m, d, u))
        if both[0][1] and both[1][1] and rng.random() < 0.2:
            both[1] = both[0][0], *both[1][1:]
        inputs = f"m = {both[0][0]:.4g} and {both[1][0]:.4g}, d = {both[0][1]:.3g} and {both[1][1]:.3g}"
        calls.append(Call("merge", tuple(both), inputs))
    u, zero = torch.from_numpy(rng.normal(size=3)), torch.zeros(3, dtype=torch.float64)
    m, more = rng.uniform(0.5, 3.0, size=2).tolist()
    for pair, inputs in (  # keys, though values, scores or both are 0, or the same for both
        (((m, 1.5, zero), (m + more, 2.5, zero)), "the values of both are 0"),
        (((m, 1.5, zero), (m + more, 2.5, u)), "the values of the first are 0"),
        (((m + more, 1.5, u), (m, 2.5, zero)), "the values of the second are 0"),
        (((0.0, 1.5, u), (0.0, 2.5, -2 * u)), "m = 0 in both"),
        (((m, 1.5, u), (-m, 2.5, -2 * u)), "m of opposite signs"),
        (((m, 1.5, u), (m, 2.5, u)), "equal m and u"),
        (((m, 1.5, u), (m, 1.5, u)), "two equal triples"),
    ):
        calls.append(Call("merge", pair, inputs))
    nobody = -math.inf, 0.0, torch.zeros(5, dtype=torch.float64)
    calls.append(Call("merge", (nobody, nobody), "neither has keys, V = 5"))
    return calls
