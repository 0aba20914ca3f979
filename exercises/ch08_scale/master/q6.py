# %% [markdown] q6 derive, 4 points, 30 minutes, level 3
# ## Spend a budget
#
# On a surface $L = E + A\,N^{-\alpha} + B\,D^{-\beta}$ with $C = 6ND$:
#
# 1. What are the best $N$ and $D$ for a budget $C$?
# 2. There are only `most` tokens, none of which may be read twice. What are the best $N$ and $D$ now? All of the budget is spent.
# 3. A model of `share` times the best size is to reach the loss that the best model of the budget reaches. By which factor does that cost
#    more? The answer depends on $\alpha$ and $\beta$ alone. Return `math.inf` if no number of tokens is enough
#    (`share` is at least 0.1 % away from where that begins; prices may reach $10^{80}$, exponents lie between 0.04 and 1.6, and `share` is at most $10^6$).

# %% answer q6
def split(C, A, B, alpha, beta):
    """The best (N, D) for a budget of C FLOPs."""
    # BEGIN SOLUTION
    ratio = (alpha * A) / (beta * B)
    N = (ratio * (C / 6) ** beta) ** (1 / (alpha + beta))
    return N, C / (6 * N)
    # END SOLUTION


def split_scarce(C, A, B, alpha, beta, most):
    """The same with at most so many tokens."""
    # BEGIN SOLUTION
    N, D = split(C, A, B, alpha, beta)
    return (N, D) if most >= D else (C / (6 * most), most)
    # END SOLUTION


def price(share, alpha, beta):
    """Compute over the budget for the same loss at share of the size."""
    # BEGIN SOLUTION
    size, data = beta / (alpha + beta), alpha / (alpha + beta)
    left = 1 - size * share**-alpha
    if left <= 0:
        return math.inf
    return share * (data / left) ** (1 / beta)
    # END SOLUTION

# %% [markdown] solution q6
# At the best split $\alpha A N^{-\alpha} = \beta B D^{-\beta}$; with $D = C/(6N)$ that is $N^{\alpha+\beta} = \frac{\alpha A}{\beta B}(C/6)^{\beta}$. With scarce data
# the loss still has a single valley along the line of the budget, so its lowest allowed point is the edge: read everything once, in a model that is larger than one
# would like.
#
# For 3.: at the best split the two parts of $L - E$ are in the ratio $\beta : \alpha$. The first becomes $s^{-\alpha}$ times as large, the second must become
# $r^{-\beta}$ times, such that $\frac{\beta}{\alpha+\beta}s^{-\alpha} + \frac{\alpha}{\alpha+\beta}r^{-\beta} = 1$, and compute is $s\,r$ times as large. Where the first part alone is
# 1 or more, below a tenth of the size at $0.34$ and $0.28$, no data mends it.


# %% checks q6
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
