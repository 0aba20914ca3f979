# %% [markdown] q3 diagnose, 4 points, 25 minutes, level 3
# ## The denominator that vanishes
#
# A model with the attention below trains for a while and then returns NaN, in float32 as in bfloat16. All
# features of `elu(x) + 1` are positive on paper, so the denominator cannot be zero, on paper. Find the
# fault:
#
# - `"A"`: terms of both signs cancel in the denominator;
# - `"B"`: rounding makes `elu(x) + 1` exactly zero for every $x$ below some number;
# - `"C"`: the features overflow;
# - `"D"`: the causal mask leaves a query without any key;
# - `"E"`: the sum of the denominator is taken over queries instead of keys.
#
# Below which $x$ (to seven digits) does it strike, if `elu(x)` is rounded to the nearest number, and so is the sum, and numbers have `bits` significant bits (24 in float32, 11 in float16, 8
# in bfloat16)? And repair it, so that entries of $q$ and $k$ between $-60$ and $5$ give the right output in
# float32, to four digits. Think about what may be multiplied into numerator and denominator without
# changing the output.

# %% given q3
def suspect(q, k, v):                  # [T, K], [T, K], [T, V], float32
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)

# %% answer q3
fault = None
# BEGIN SOLUTION
fault = "B"
# END SOLUTION


def zero_below(bits):
    """The x at and below which elu(x) + 1 comes out as exactly 0."""
    # BEGIN SOLUTION
    return -(bits + 1) * math.log(2)
    # END SOLUTION


def repaired(q, k, v):
    """Causal normalised linear attention with the map elu(x) + 1."""
    # BEGIN SOLUTION
    def log_feature(x):
        return torch.where(x > 0, x.clamp(min=0).log1p(), x)

    a, b = log_feature(q), log_feature(k)
    a = (a - a.amax(-1, keepdim=True)).exp()   # cancels in the fraction
    weight = (a @ b.exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)
    # END SOLUTION

# %% [markdown] solution q3
# B. For $x < 0$ the code rounds $e^x - 1$. Numbers just above $-1$ are $2^{-p}$ apart if there are $p$
# significant bits, so everything with $e^x \le 2^{-(p+1)}$ becomes $-1$: below $-17.3$ in float32, $-8.3$
# in float16 and $-6.2$ in bfloat16. Evaluating $e^x$ itself moves the fault from $-17$ to where *products*
# of features vanish: for $q$ and $k$ near $-60$ each term is $e^{-120}$, and float32 ends near $e^{-103}$.
# There the freedom of the fraction helps. Multiplying all features of one query by the same number changes
# numerator and denominator alike; taking $e^{-\max}$ makes its largest feature 1. (A common factor for all
# keys cancels as well, but a key can be near $-60$ while a later one is near 5. A factor for each key does
# not cancel: it is a weight.)
#
# An added $\varepsilon$ turns NaN into 0, which is no repair: the output should be a mean of values. Two
# branches in float64 are right here too, and cost what float64 costs.

# %% checks q3
def _entries(rng, T, low, high, K=4, V=3):
    q, k = (torch.from_numpy(rng.uniform(low, high, (T, K))).float() for _ in range(2))
    return q, k, torch.from_numpy(rng.normal(size=(T, V))).float()


def _two_levels(rng, part):
    """All entries near -60, but those of every second query, of the later keys, or of both, near 5."""
    q, k, v = _entries(rng, 12, -60, -58)
    if part != "keys":
        q[1::2] += 63.0
    if part != "queries":
        k[6:] += 63.0
    return q, k, v


@define_question(
    INFO["q3"],
    fault=fault,
    zero_below=zero_below,
    repaired=repaired,
    wrong_values={
        "fault": {
            "A": "No feature is negative, so nothing cancels. Print the features of x = -20.",
            "C": "Features grow like x, and entries stay below 5. Print the features of x = -20.",
            "D": "tril() keeps the diagonal: every query has at least itself. Print the features of x = -20.",
            "E": "Row = query, and sum(-1) runs over keys, as it should. Print the features of x = -20.",
        }
    },
)
def q3(rng):
    others = (2, int(rng.integers(3, 8)), int(rng.integers(12, 24)), 53, 64, 113)
    calls = [Call("fault", (), "", Exactly())]
    calls += [Call("zero_below", (bits,), f"{bits} bits", Close(1e-6)) for bits in (24, 11, 8, *others)]
    cases = ((12, -2, 5), (1, -60, 5), (9, -25, -18), (12, -16, -8), (12, -60, -50), (20, -60, 5))
    for n, (T, low, high) in enumerate((*cases, (100, -60, 5), (100, 4, 5))):
        inputs = f"T = {T}, entries from {low} to {high}"
        calls.append(Call("repaired", _entries(rng, T, low, high, 2 + n, 8 - n), inputs, Close(1e-4)))
    zeros = _entries(rng, 12, -2, 5)
    zeros[0][::2, 0], zeros[1][::3, 1] = 0.0, 0.0
    calls.append(Call("repaired", zeros, "T = 12, entries from -2 to 5, some of them 0", Close(1e-4)))
    ones = _entries(rng, 12, -2, 5, 1)
    ones[0][::2], ones[1][::3] = 0.0, 0.0  # similarities of exactly 1, whose logarithm is 0
    calls.append(Call("repaired", ones, "T = 12, K = 1, some entries 0", Close(1e-4)))
    apart = _entries(rng, 12, -60, -58)
    apart[0][:, 0] += 63.0
    apart[1][:, 1] += 63.0  # the large channel of a query meets only small ones
    calls.append(Call("repaired", apart, "T = 12, queries near 5 in channel 0, keys in channel 1", Close(1e-4)))
    for part, inputs in (
        ("queries", "some queries near -60, all keys"),
        ("keys", "queries and early keys near -60"),
        ("both", "some queries and early keys near -60, the others near 5"),
    ):
        calls.append(Call("repaired", _two_levels(rng, part), inputs, Close(1e-4)))
    for T, K, least, most in ((30, 1, -10, -9.2), (30, 2, -10, -9.2), (12, 1, -60, -59)):
        inputs = f"T = {T}, K = {K}, entries from {least} to {most}"
        calls.append(Call("repaired", _entries(rng, T, least, most, K), inputs, Close(1e-4)))
    while True:  # where the sum of elu(x) and 1 has four digits left, and differs in the fourth
        near = _entries(rng, 4, -9, -8.4, 1)
        near[2].sign_()[1] = -near[2][0]
        if (suspect(*near) - repaired(*near)).abs().max() > 1.5e-4:
            break
    calls.append(Call("repaired", near, "T = 4, K = 1, entries from -9 to -8.4", Close(1e-4)))
    for top in (-46, -42, -37, -30, -20):  # products that vanish, though no query is as small as a key
        q, k, v = _entries(rng, 8, top - 3, top, 2)
        k = torch.from_numpy(rng.uniform(-60, -58, k.shape)).float()
        calls.append(Call("repaired", (q, k, v), f"T = 8, queries near {top}, keys near -59", Close(1e-4)))
    for low, high in ((-60, 5), (-60, 5), (-60, -58), (-20, -14), (-2, 5)) * 2:  # any sizes, entries alike
        T, K, V = (int(n) for n in rng.integers(1, 6, size=3))
        q, k, v = _entries(rng, T, low, high, K, V)
        for x in (q, k):
            x[rng.random((T, K)) < rng.choice([0.0, 0.4])] = float(rng.choice([-60, 0, 5]))
        inputs = f"T = {T}, K = {K}, V = {V}, entries from {low} to {high}, perhaps some of -60, 0 or 5"
        calls.append(Call("repaired", (q, k, v), inputs, Close(1e-4)))
    return calls
