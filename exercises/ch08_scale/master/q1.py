# %% [markdown] q1 derive, 4 points, 25 minutes, level 2
# ## An exponent that fades
#
# The best loss at a budget $C$ is $L = E + k\,C^{-\gamma}$. Somebody who does not know of $E$ fits a straight line through
# $\log L$ against $\log C$ and calls minus its slope "the exponent".
#
# 1. Which exponent does he find where the loss is $L$? (Take the slope at that point.)
# 2. He finds $s_1$ where the loss is $L_1$ and $s_2$ where it is $L_2$. What are $E \ge 0$ and $\gamma$?
# 3. By which factor must the budget grow for the loss to go from $L$ to `target`? Return `math.inf` where no budget is
#    enough. Factors may be as large as $10^{200}$.
#
# $\gamma$ may be as small as 0.005; no loss but `target` is below 0.01.

# %% answer q1
def apparent(E, gamma, L):
    """Minus the slope of log L against log C where the loss is L."""
    # BEGIN SOLUTION
    return gamma * (1 - E / L)
    # END SOLUTION


def recover(L1, s1, L2, s2):
    """(E, gamma) from two apparent exponents."""
    # BEGIN SOLUTION
    product = (s1 - s2) / (1 / L2 - 1 / L1)          # gamma E
    gamma = s1 + product / L1
    return product / gamma, gamma
    # END SOLUTION


def more_compute(E, gamma, L, target):
    """What the budget is to be multiplied by."""
    # BEGIN SOLUTION
    if target <= E:
        return math.inf
    return ((L - E) / (target - E)) ** (1 / gamma)
    # END SOLUTION

# %% [markdown] solution q1
# $\frac{\mathrm{d}\log L}{\mathrm{d}\log C} = \frac{1}{L}\frac{\mathrm{d}L}{\mathrm{d}\log C} = -\gamma\,\frac{L-E}{L}$, which is
# $\gamma$ far above $E$ and nothing near it. As a function of $1/L$ the apparent exponent is a straight line, $\gamma - \gamma E\cdot\frac1L$:
# two points give its slope $-\gamma E$ and its intercept $\gamma$. (Between real budgets, with
# noise, $E$ is a small difference of large numbers. So it is hard to know.)
#
# With $\gamma = 0.154$ and $E = 1.69$ it takes 13 times the budget to go from 2.3 to 2.1. Who takes the slope that he found at
# 2.3, 0.041, for a law expects 9 times, and who knows $\gamma$ but forgets $E$ expects 1.8.


# %% checks q1
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
