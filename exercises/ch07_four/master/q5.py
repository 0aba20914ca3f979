# %% [markdown] q5 measure, 4 points, 25 minutes, level 2
# ## A law, counted anew
#
# Losses of models that were best at their budgets of compute $C$ are to be described by $L = k\,C^{-a}$.
#
# 1. Fit it: the least squares line through $\log L$ against $\log C$. (Budgets span 10 % or more, and lie
#    between $10^{-9}$ and $10^{22}$; no loss is below $10^{-6}$.)
# 2. You find that each of the runs had cost `factor` times as much as was counted, the same factor for all. What
#    is the law for compute that is counted right?
# 3. Two laws: how many times the compute of the first does the second need to reach the loss that the first one
#    reaches at $C$? (Below 1, it needs less. Answers lie between $10^{-46}$ and $10^{156}$; $C$ is at least 0.001, and no exponent below 0.05.)
# 4. Before you run the check: by the paper's fits, $3.7087\,C^{-0.0798}$ for LLaMA and $3.5391\,C^{-0.0768}$ for
#    TNL, how much of LLaMA's compute does TNL need at $C = 1$ to reach LLaMA's loss, which is 4.8 % above its own?

# %% answer q5
def fit(compute, loss):
    """(k, a) of L = k C^-a; two lists of the same length."""
    # BEGIN SOLUTION
    x = torch.tensor(compute, dtype=torch.float64).log()
    y = torch.tensor(loss, dtype=torch.float64).log()
    x_off, y_off = x - x.mean(), y - y.mean()
    slope = (x_off * y_off).sum() / x_off.square().sum()
    return (y.mean() - slope * x.mean()).exp().item(), -slope.item()
    # END SOLUTION


def recounted(k, a, factor):
    """(k, a) if every run costs factor times as much."""
    # BEGIN SOLUTION
    return k * factor**a, a
    # END SOLUTION


def compute_needed(first, second, C):
    """What second needs to reach first's loss at C, over C; laws (k, a)."""
    # BEGIN SOLUTION
    (k1, a1), (k2, a2) = first, second
    log_needed = (math.log(k2 / k1) + a1 * math.log(C)) / a2
    return math.exp(log_needed - math.log(C))
    # END SOLUTION

# %% [markdown] solution q5
# A run at $C$ is in truth a run at $C' = fC$, so $L = k\,(C'/f)^{-a} = k f^a\,C'^{-a}$. A factor that is the same
# for all runs leaves the exponent alone and moves the curve to the right. If the factor depends on
# the size, as the masked half does (LLaMA's cost without it is 0.64 of the whole at 70M and 0.88 at 7B), one end
# moves further than the other, and the *exponent* changes. That is what a convention of counting can do to a law.
#
# For 3. solve $k_2 C_2^{-a_2} = k_1 C^{-a_1}$. As exponents are small, a little loss is a lot of compute:
# at $C = 1$ TNL's law lies 4.6 % below LLaMA's, and reaches LLaMA's loss with $(3.5391/3.7087)^{1/0.0768} =
# 0.54$ of its compute. That is why a factor of 0.64 in the count matters.


# %% checks q5
@define_question(INFO["q5"], fit=fit, recounted=recounted, compute_needed=compute_needed)
def q5(rng):
    exact, calls = Close(1e-7), []
    for n, low, high in ((6, -2.0, 2.0), (2, 0.0, 1.0), (30, -1.0, 3.0)):
        logs = rng.uniform(low, high, n).tolist()
        if n > 2:
            logs[3] = logs[2]                  # two runs of one budget
        else:
            logs[1] = logs[0] + float(rng.uniform(0.05, 1) * rng.choice((-1, 1)))
        k, a = float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))
        compute = [10.0**x for x in logs]
        loss = [k * c**-a * float(e) for c, e in zip(compute, rng.uniform(0.97, 1.03, n))]
        calls.append(Call("fit", (compute, loss), f"{n} points", exact))
    for start in (-3, 0, 3, 18) * 3:  # in any order and unit, with and without noise; at an edge losses may be alike or rise
        n = int(rng.integers(2, 12))
        logs = start + rng.uniform(0.5, 4) * rng.permutation(n) / n
        logs[n - 1 : 2 : -2] = logs[0]
        a, noise = rng.choice((0.0, rng.uniform(-0.1, 0), rng.uniform(0, 0.3))), rng.choice((0.0, 0.01, 0.1)) * rng.normal(size=n)
        compute, loss = 10.0**logs, rng.uniform(1, 30) * 10.0 ** (noise - a * logs)
        loss *= max(1.0, 1.01e-6 / loss.min())
        calls.append(Call("fit", (compute.tolist(), loss.tolist()), f"{n} points from C = 1e{start:g} on, a = {a:.2g} but for noise", exact))
    calls.append(Call("fit", ([1.0, 10.0, 100.0, 1000.0], [3.0] * 4), "4 points of one loss", exact))
    calls.append(Call("fit", ([1.0, 1.05, 1.101], [3.0, 2.985, 2.975]), "3 points, budgets that are nearly the same", exact))
    calls.append(Call("fit", ([1e18, 1.05e18, 1.101e18], [3.0, float(rng.uniform(2.984, 2.986)), 2.971]), "3 points, C from 1e18 to 1.101e18", Close(1e-6)))
    calls.append(Call("fit", ([1.0, 10.0, 100.0], [1.0, 1.0, 1.0]), "3 points, each loss is 1", exact))
    calls.append(Call("fit", ([1e-9, 1e-8, 1e-7, 1e-6], [30.0, 25.0, 21.0, 17.0]), "4 points, C from 1e-9 to 1e-6", exact))
    calls.append(Call("fit", ([1e17, 1e19, 1e20, 1e22], [1.8e-5, 5e-6, 2e-6, 1.01e-6]), "4 points, losses from 1.8e-5 to 1.01e-6", exact))
    calls.append(Call("recounted", (18.12, 1.43, 145.85), "k = 18.12, a = 1.43, a factor of 145.85", exact))
    for factor in (2.0, 0.5, 1.0, float(rng.uniform(3, 9))):
        k, a = float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))
        calls.append(Call("recounted", (k, a, factor), f"k = {k:.3g}, a = {a:.3g}, a factor of {factor:.3g}", exact))
    for a in (1.0, 1.5, *rng.uniform(0.01, 2, size=8).tolist()):
        k, factor = (float(10**x) for x in rng.uniform((-1, -3), (2, 3)))
        calls.append(Call("recounted", (k, a, factor), f"k = {k:.3g}, a = {a:.3g}, a factor of {factor:.3g}", exact))
    laws = [((3.7087, 0.0798), (3.5391, 0.0768), 1.0), ((3.7087, 0.0798), (3.5391, 0.0768), 100.0)]
    for _ in range(3):
        one, other = ((float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))) for _ in range(2))
        laws.append((one, other, float(10 ** rng.uniform(-2, 3))))
    laws.append((laws[2][0], laws[2][0], 7.0))
    for first, second, C in laws:
        text = " and ".join(f"{k:.3g} C^-{a:.3g}" for k, a in (first, second))
        calls.append(Call("compute_needed", (first, second, C), f"{text}, C = {C:.3g}", exact))
    small, large = (20.0, 0.06), (60.0, 0.05)        # C in FLOPs; what is needed is far from C
    for first, second in ((small, large), (large, small)):
        text = f"{first[0]:g} C^-{first[1]:g} and {second[0]:g} C^-{second[1]:g}, C = 1e21"
        calls.append(Call("compute_needed", (first, second, 1e21), text, Within(1.0000001)))
    calls.append(Call("compute_needed", ((1.0, 0.3), (60.0, 0.05), 1e24), "1 C^-0.3 and 60 C^-0.05, C = 1e24", Within(1.0000001)))
    calls.append(Call("compute_needed", ((60.0, 0.3), (1.0, 0.05), 0.01), "60 C^-0.3 and 1 C^-0.05, C = 0.01", Within(1.0000001)))
    for first, second in (((3.7, 0.3), (3.5, 0.0501)), ((3.7, 0.0501), (3.5, 0.3))):
        text = f"{first[0]:g} C^-{first[1]:g} and {second[0]:g} C^-{second[1]:g}, C = 0.00101"
        calls.append(Call("compute_needed", (first, second, 0.00101), text, Within(1.0000001)))
    for n in range(54):  # laws of any kind, some with the same k or a
        first, second = ((float(rng.uniform(1, 60)), float(rng.uniform(0.05, 0.3))) for _ in range(2))
        second = (first[0] if n % 3 == 1 else second[0]), (first[1] if n % 3 == 2 else second[1])
        C = float(10 ** rng.uniform(*((-3, 0), (0, 3), (15, 24))[n // 18]))
        text = f"{first[0]:.3g} C^-{first[1]:.3g} and {second[0]:.3g} C^-{second[1]:.3g}, C = {C:.3g}"
        calls.append(Call("compute_needed", (first, second, C), text, Within(1.0000001)))
    for compute, loss, text in (
        ([1e-9, 3e-9, 9e-9], [30.0, 25.0, 21.0], "3 points, C from 1e-9 to 9e-9"),
        ([1.0, 1.05, 1.101], [3.0, 2.999999, 2.9999981], "3 points, budgets and losses that are nearly the same"),
        ([1e6, 1e7, 1e8], [1.9e-6, 1.5e-6, 1.1e-6], "3 points, losses from 1.9e-6 to 1.1e-6"),
        ([1.0, 1.05, 1.101], [1.06e-6, 1.0599993e-6, 1.0599988e-6], "3 points, budgets and losses that are nearly the same, losses near 1e-6"),
    ):
        unit = float(rng.uniform(0.96, 1.04))
        calls.append(Call("fit", (compute, [unit * one for one in loss]), text, exact))
    k, a = float(rng.uniform(3, 4)), float(rng.uniform(0.051, 0.055))
    for second in ((0.95 * k, a + 9e-10), (k * 1.000008, a * 1.000005)):  # nearly one exponent, and nearly one law
        text = f"{k:.3g} C^-{a:.3g} and {second[0]:.6g} C^-{second[1]:.12g}, C = 1e21"
        calls.append(Call("compute_needed", ((k, a), second, 1e21), text, Within(1.0000001)))
    return calls
