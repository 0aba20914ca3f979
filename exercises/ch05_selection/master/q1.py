# %% [markdown] q1 derive, 4 points, 25 minutes, level 2
# ## How loud can a token be?
#
# One number of Mamba's state has a rate $a > 0$, and each token takes a step $\Delta_t$ of its own:
#
# $$
# S_t = e^{-a\Delta_t}\, S_{t-1} + w(\Delta_t)\, u_t, \qquad S_0 = 0, \qquad |u_t| \le 1 .
# $$
#
# With the hold, as in the paper, $w(\Delta) = (1 - e^{-a\Delta})/a$. With Euler's rule, as in the code,
# $w(\Delta) = \Delta$.
#
# 1. Which step keeps the share `keep` of the state, $0 < \mathtt{keep} < 1$?
# 2. Inputs may be anything up to 1 in magnitude, and every step anything between `low` $> 0$ and `high`.
#    How large can $|S_t|$ become, after any number of tokens? Return the supremum, the smallest number
#    that no sequence exceeds. `hold` is `"exact"` or `"euler"`.
#
# For Euler's rule a plan suggests itself: many small steps, which fill the state and take little away,
# then a large one, which writes loudly. Is that the best one can do?
#
# All arguments are Python numbers. No step that is asked for is above $10^6$, and $a\,\mathtt{high}$ is 700 at most; $a$ lies
# between $10^{-11}$ and $10^3$, and `keep` between $10^{-300}$ and $1 - 10^{-14}$. The check compares nine digits of
# any state and any step, however small, and fewer where a `keep` next to 1 does not have them.

# %% answer q1
def step_for(keep, a):
    """The step with which the state keeps this share."""
    # BEGIN SOLUTION
    return -math.log(keep) / a
    # END SOLUTION


def largest_state(a, low, high, hold):
    """The supremum of |S_t|: any inputs, any steps in [low, high]."""
    # BEGIN SOLUTION
    if hold == "exact":
        return 1 / a
    return high / -math.expm1(-a * high)
    # END SOLUTION

# %% [markdown] solution q1
# With the hold, $a S_t = e^{-a\Delta_t}\,(a S_{t-1}) + (1 - e^{-a\Delta_t})\,u_t$ is a weighted mean. So
# $|aS_t|$ never exceeds 1, and comes as near to it as one likes: the supremum is $1/a$, whatever the
# steps are.
#
# With Euler's rule and equal steps the state tends to the fixed point $F(\Delta) =
# \Delta/(1-e^{-a\Delta})$, which rises with $\Delta$. No mixture does better than the largest step: if
# $|S_{t-1}| \le F(\mathtt{high})$, then
#
# $$
# |S_t| \le e^{-a\Delta_t} F(\mathtt{high}) + \Delta_t
# = F(\mathtt{high}) - \bigl(1 - e^{-a\Delta_t}\bigr)\bigl(F(\mathtt{high}) - F(\Delta_t)\bigr)
# \le F(\mathtt{high}) .
# $$
#
# (The next state is convex in the step, so the best step is always one of the two ends. Once the state is
# above $F(\mathtt{low})$, a small step lowers it.) The plan of small steps and one large one ends at
# $e^{-a\,\mathtt{high}}F(\mathtt{low}) + \mathtt{high}$, which is less; a second large step improves on
# it.
#
# In units of the hold's $1/a$ the limit is $r/(1-e^{-r})$ with $r = a\,\mathtt{high}$, or
# $-\ln(\mathtt{keep})/(1 - \mathtt{keep})$ for the share that the largest step keeps. A gate that closes
# to one percent makes a token 4.7 times as loud, one that closes to a millionth 13.8 times: only the
# logarithm of the share counts. So Euler's rule has no bound of its own, and still nothing explodes; what
# bounds the state is the largest step that the layer takes.

# %% checks q1
@define_question(INFO["q1"], step_for=step_for, largest_state=largest_state)
def q1(rng):
    exact = Close(1e-9)
    calls = []
    shares = [(0.5, 1.0), (0.01, 4.0), (0.9, 0.5), (1e-6, 1e-3), (0.01, 2.0), (1e-30, 3.0), (0.9997, 3.0), (1e-6, 1.4e-5)]
    shares += [(1 - float(rng.uniform(2e-5, 6e-5)), 1e-3), (1 - 1e-6, 1e-6), (1 - 1e-10, 1e-6), (1 - 2**-44, 1e-6), (1e-300, 3.0)]
    shares += [(1 - 1e-12, float(rng.uniform(8, 12))), (0.99999, 1.01e-11), (0.5, 999.0), (1 - 2e-7, float(rng.uniform(900, 999)))]
    shares += [(1 - off, float(rng.uniform(1, 9))) for off in (5e-7, 9e-8, 9e-5)]  # a series ends too early
    shares += [(float(10 ** -(10 ** rng.uniform(-3, 1.4))), float(10 ** rng.uniform(-3, 2))) for _ in range(30)]
    for keep, a in (*shares, (float(rng.uniform(0.999, 0.9999)), int(rng.integers(2, 9)))):
        calls.append(Call("step_for", (keep, a), f"keep = {keep:.3g}, a = {a:.3g}", Within(1 + max(1e-9, 2e-16 / (1 - keep)))))  # a step may be tiny
    near = 1 - 99 * 2**-53                           # 1.1e-14 below 1: 1 / keep is off by 1 %, and a bisection by half of that
    calls.append(Call("step_for", (near, 1.01e-11), "keep = 1 - 1.1e-14, a = 1.01e-11", Within(1.007)))
    limits = [(1.0, 0.1, 3.0), (0.5, 0.2, 1.0), (16.0, 0.01, 0.1), (2.0, 0.7, 0.7), (0.01, 0.01, 0.1), (1e-4, 0.01, 0.1), (3.0, 0.5, 233.0), (2, 1, 3), (1e-4, 1e-3, 5e-3), (1.0, 1e-4, 8e-4), (0.5, 0.01, 0.14), (3.0, 0.5, 6.69)]
    for _ in range(30):
        a = float(10 ** rng.uniform(-3, 2))
        high = float(10 ** rng.uniform(-5, 2.84)) / a
        limits.append((a, high * float(rng.choice((1.0, rng.uniform(0.001, 1.0)))), high))
    limits += [(1.01e-11, 0.1, 1e3), (1.01e-11, 0.1, 300.0), (990.0, 1e-6, 0.7)]
    for a, low, high in limits:
        for hold in ("exact", "euler"):
            inputs = f'a = {a:.3g}, steps from {low:.3g} to {high:.3g}, "{hold}"'
            calls.append(Call("largest_state", (a, low, high, hold), inputs, exact))
    return calls
