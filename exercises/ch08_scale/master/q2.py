# %% [markdown] q2 derive, 4 points, 25 minutes, level 2
# ## Design or model?
#
# A study trains models of the sizes `N` (rising) on one text, evaluates each from `first` tokens on to `last` (which may be the same), and fits
# $N \propto C^a$ to *all* of the lowest curve.
#
# 1. What is the slope of the staircase from its first end to its last, by the chapter's formula, if $C = 6ND$?
# 2. And if a model of the size `N[i]` costs `factor[i]` times $6ND$? (From the first evaluation of the smallest size to the last of the largest.)
# 3. You want this slope to be `a`, with the same sizes and the same `last`, and $C = 6ND$. From which token on (a real
#    number above 1) do you evaluate?
#    The largest size is 1.25 times the smallest or more, `last` at most $10^{14}$, and in 2 no last budget is within 8 % of the first.
# 4. Four studies with $C = 6ND$ print the `a` of their fits in `studies`. In three of them it is close to what the design gives. Which
#    one is far from it?

# %% given q2
studies = {  # N, first, last, a
    "A": ([1e6, 3e6, 1e7, 3e7, 1e8], 1e8, 1e10, 0.51),
    "B": ([2e7, 1e8, 4e8, 2e9], 1e10, 3e11, 0.59),
    "C": ([5e7, 1e8, 2e8, 5e8], 5e9, 2e11, 0.55),
    "D": ([1e5, 1e6, 1e7, 1e8], 2e7, 4e8, 0.68),
}

# %% answer q2
def design_exponent(N, first, last):
    """The slope from end to end if C = 6 N D."""
    # BEGIN SOLUTION
    sizes = math.log(N[-1] / N[0])
    return sizes / (sizes + math.log(last / first))
    # END SOLUTION


def with_cost(N, first, last, factor):
    """The same if a model of size N[i] costs factor[i] times 6 N D."""
    # BEGIN SOLUTION
    budgets = N[-1] * factor[-1] * last / (N[0] * factor[0] * first)
    return math.log(N[-1] / N[0]) / math.log(budgets)
    # END SOLUTION


def first_for(N, last, a):
    """The first evaluation with which the slope is a."""
    # BEGIN SOLUTION
    return last / (N[-1] / N[0]) ** (1 / a - 1)
    # END SOLUTION


found = None
# BEGIN SOLUTION
found = "C"
# END SOLUTION

# %% [markdown] solution q2
# The staircase starts at the smallest size and its first evaluation, $C_{\min} = 6N_{\min}D_{\text{first}}$, and ends at the largest and its last.
# For the slope from end to end nothing in between matters. With a factor the two ends cost
# $f_{\min}$ and $f_{\max}$ times as much, and a factor that falls with the size makes $a$ larger, even above 1. Solving
# $a = \frac{\log n}{\log n + \log r}$ for $r = D_{\text{last}}/D_{\text{first}}$ gives $\log r = (\frac1a - 1)\log n$.
#
# A gives 0.50, B 0.58 and D 0.70. C gives 0.38 and prints 0.55. A least squares line through a staircase may be off
# the slope of its ends by a tenth, not by 0.17.


# %% checks q2
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
