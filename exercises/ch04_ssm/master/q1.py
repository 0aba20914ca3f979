# %% [markdown] q1 derive, 4 points, 25 minutes, level 2
# ## The largest stable step
#
# Euler's method and the bilinear one are members of a family, the generalised bilinear transform of [Gu
# et al. 2021](https://arxiv.org/abs/2110.13985):
#
# $$
# \bar A = \frac{1 + (1 - \theta)\,\Delta A}{1 - \theta\,\Delta A}, \qquad 0 \le \theta \le 1 ,
# $$
#
# with $\theta = 0$ for Euler and $\theta = \tfrac12$ for the bilinear method; $\theta = 1$ is called
# backward Euler. In continuous time every mode of the channel decays, since $\operatorname{Re} A_n < 0$.
# A step is *stable* if it lets none of them grow: $|\bar A_n| \le 1$ for all $n$.
#
# 1. Up to which step is the channel stable? Return `math.inf` where every step is. (No other
#    bound is above $10^8$, none below $10^{-9}$; $-\operatorname{Re} A_n$ is at least $10^{-4}\,|A_n|$, and a $\theta$ below
#    $\tfrac12$ is below it by $3\cdot10^{-13}$ or more.)
# 2. The other way round: the step is given. Which is the smallest $\theta \in [0, 1]$ that makes it
#    stable?
#
# Which of the $N$ modes decides? It may be neither the one that turns fastest nor the one that
# decays most slowly.

# %% answer q1
def largest_step(A, theta):
    """The largest stable step; A [N, 2], pairs, real parts below 0."""
    # BEGIN SOLUTION
    if theta >= 0.5:
        return math.inf
    re, im = A.T
    return (-2 * re / (re**2 + im**2)).min().item() / (1 - 2 * theta)
    # END SOLUTION


def smallest_theta(A, delta):
    """The smallest theta in [0, 1] at which the step delta is stable."""
    # BEGIN SOLUTION
    re, im = A.T
    least = (0.5 + re / (delta * (re**2 + im**2))).max().item()
    return max(0.0, least)
    # END SOLUTION

# %% [markdown] solution q1
# Write $x = \Delta A$ and compare the squares of numerator and denominator:
#
# $$
# |1 + (1-\theta)x|^2 - |1 - \theta x|^2 = 2\operatorname{Re} x + (1 - 2\theta)\,|x|^2 .
# $$
#
# With $\operatorname{Re} x < 0$ this is never positive for $\theta \ge \tfrac12$. Below, mode $n$ allows
# steps up to $-2\operatorname{Re} A_n/((1-2\theta)|A_n|^2)$, and the channel as many as its worst mode.
# Since $-\operatorname{Re} A/|A|^2 = \operatorname{Re}(-1/A)$, the mode that decides is the one whose
# $-1/A$ has the smallest *real part*. Of modes with one decay rate it is the one that oscillates fastest.
# At one frequency $\omega$ it is the slowest or the quickest to decay: the bound is highest at a decay
# rate of $\omega$. Solved for $\theta$, the condition is $\theta \ge \tfrac12 + \operatorname{Re}
# A_n/(\Delta |A_n|^2)$.
#
# S4D-Lin has $A_n = -\tfrac12 + i\pi n$. Its 32nd mode, $n = 31$, allows Euler a step of $1.05\cdot
# 10^{-4}$, while steps are drawn from $10^{-3}$ to $10^{-1}$ when training starts. All of them blow up
# with Euler, and at $\Delta = 10^{-3}$ a $\theta$ of 0.447 would do: nothing much below the bilinear
# $\tfrac12$ helps a mode that oscillates. The zero-order hold has $|\bar A| = e^{\Delta \operatorname{Re}
# A}$ and needs no condition.

# %% checks q1
def _modes(rng):
    """A slow mode, a fast one, and one between them, whose bound is the lowest: in any order."""
    slow = complex(-rng.uniform(0.01, 0.03), rng.uniform(0.25, 0.35))
    fast = complex(-rng.uniform(25, 35), rng.uniform(10, 12))
    between = complex(-rng.uniform(0.3, 0.6), rng.uniform(6, 9))
    quiet = complex(-rng.uniform(1, 2), rng.uniform(0, 1))
    return as_pairs([(slow, fast, between, quiet)[n] for n in rng.permutation(4)])


def _slow_one_decides(rng):
    """Six modes, of which the smallest one, which turns, has the lowest bound."""
    modes = [complex(-rng.uniform(3, 9), rng.uniform(0, 1)) for _ in range(6)]
    modes[int(rng.integers(6))] = complex(-rng.uniform(5e-4, 1e-3), rng.uniform(0.25, 0.35))
    return as_pairs(modes)


def _tiny_one_decides(rng):
    """Six modes, of which one that hardly decays has the lowest bound, at a size of less than 1e-3 of the largest."""
    A, turns = torch.from_numpy(-rng.uniform((3, 0), (9, 1), size=(6, 2))), float(rng.uniform(2.5e-4, 8e-4))
    turns *= A.norm(dim=1).max().item()
    A[int(rng.integers(6))] = torch.tensor([-float(rng.uniform(1.01e-4, 1.2e-4)), 1.0]).double() * turns
    return A


def _no_extreme_decides(rng):
    """Five modes, of which the last allows least and has neither the largest nor the smallest part, size or angle."""
    modes = torch.tensor([[-0.01, 0.3], [-30, 11], [-2, 20], [-0.5, 10], [-1, 14.5]], dtype=torch.float64)
    near = modes * torch.from_numpy(rng.uniform(0.995, 1.005, size=(5, 2))) * float(rng.uniform(0.5, 2))
    return near[torch.from_numpy(rng.permutation(5))]


@define_question(INFO["q1"], largest_step=largest_step, smallest_theta=smallest_theta)
def q1(rng):
    exact, calls = Close(1e-7), []
    lin = as_pairs([complex(-0.5, math.pi * n) for n in range(6)])
    real = as_pairs([complex(-n - 1.0, 0.0) for n in range(4)])
    one = as_pairs([complex(-rng.uniform(0.2, 1), rng.uniform(1, 3))])
    drawn = [_modes(rng) for _ in range(4)]
    small = _slow_one_decides(rng)
    long = as_pairs([complex(-rng.uniform(0.8e-4, 1.2e-4), rng.uniform(0, 2e-5)) for _ in range(2)])
    low = float(rng.uniform(0.1, 0.4))
    below = [(one, 0.0), (real, 0.0), (lin, low), (drawn[0], 0.0), (drawn[1], low), (drawn[2], 0.45)]
    below += [(small, 0.0), (long, 0.0), (long, low), (long, 0.499), (drawn[3], 0.499)]
    far = 10 ** float(rng.uniform(7.6, 7.95))  # nearly as far as a bound may lie
    below.append((long, 0.5 - largest_step(long, 0.0) / far / 2))
    below.append((torch.tensor([[-30.0, 11.0], [-0.5, 7.0]], dtype=torch.float64), 0.5 - 4e-7))  # nearly 1/2
    gentle = [torch.tensor([[-damping, 1.0], [-3.0, 1.0]], dtype=torch.float64) for damping in (5e-4, 1.0001e-4)]  # each step adds next to nothing
    below.append((gentle[0], 0.0))
    turned = torch.tensor([[-0.5, -7.0], [-1.5, 0.4], [-0.02, -0.3], [-30.0, 1.0]], dtype=torch.float64)
    many = as_pairs([complex(-0.5, math.pi * n) for n in range(int(rng.integers(64, 80)))])
    many = many[torch.from_numpy(rng.permutation(len(many)))]
    alike = torch.tensor([[-1.5, 0.1], [-1.0, 1.0]], dtype=torch.float64) * float(rng.uniform(0.5, 2))
    stiff = [  # a mode that does not turn, or hardly, decides beside one that does
        as_pairs([complex(-rng.uniform(4, 6), rng.uniform(6, 7)), complex(-rng.uniform(25, 35), turns)][:: int(rng.choice([-1, 1]))])
        for turns in (0.0, rng.uniform(3, 6))
    ]
    below += [(A, theta) for A in stiff for theta in (0.0, low)]
    inner = _no_extreme_decides(rng)
    below += [(inner, 0.0), (inner, low)]
    below += [(alike, 0.0), (turned, 0.0), (many, low), (drawn[3], 0.49999)]
    for scale in (1e-3, 1.0, 1e3):  # two modes whose bounds are 3 % apart, of which one turns more than it decays
        for bounds in ((1.0, 1.03), (1.03, 1.0)):
            angles = [math.radians(rng.uniform(*ends)) for ends in ((20, 30), (65, 75))]
            sizes = [2 * math.cos(angle) / bound / scale for angle, bound in zip(angles, bounds)]
            pair = [size * complex(-math.cos(angle), math.sin(angle)) for size, angle in zip(sizes, angles)]
            below.append((as_pairs(pair), 0.0))
    fast, slow = (torch.tensor([mode], dtype=torch.float64) for mode in ([-300.0, 4e5], [-2.5e-8, 0.0]))
    below += [(fast, 0.0), (slow, 0.0)]
    # parts so small, a threshold takes them for 0
    below += [(torch.tensor([mode], dtype=torch.float64), 0.0) for mode in ([-1e-7, 3e-7], [-1e-12, 4e-10], [-4e-15, 1e-11])]
    hardly = torch.tensor([[-1.0001e-4, 1.0]], dtype=torch.float64)  # as little damped as a mode may be
    below.append((hardly, 0.0))
    tiny = _tiny_one_decides(rng)
    below += [(tiny, 0.0), (tiny, low)]
    for A, theta in (*below, (one, 0.5), (drawn[0], 0.75), (drawn[3], 1.0)):
        how = Within(1 + 1e-6) if theta < 0.5 else exact  # a step may be tiny
        calls.append(Call("largest_step", (A, theta), f"{len(A)} modes, theta = {theta:.5g}", how))
    calls.append(Call("largest_step", (fast, 0.5 - 1e-10), "1 modes, theta = 0.5 - 1e-10", Within(1.01)))
    calls.append(Call("largest_step", (fast, 0.5 - 4e-12), "1 modes, theta = 0.5 - 4e-12", Within(1.01)))
    calls.append(Call("largest_step", (fast, 0.5 - 3.0005e-13), "1 modes, theta = 0.5 - 3e-13", Within(1.01)))
    near = float(rng.uniform(0.02, 0.04))
    steps = [(one, 5.0), (real, 1.0), (lin, 0.1), (drawn[0], near), (drawn[1], 0.3), (drawn[2], 1e-3)]
    faint = torch.tensor([[-1.0, 100.0], [-2.0, 1.0]], dtype=torch.float64) * float(rng.uniform(0.8, 1.2))
    steps += [(1e-4 * faint, 10.0), (1e-7 * faint, 10.0), (1e-7 * faint, 1e4), (many, 1e-3)]
    steps.append((torch.tensor([[-2e-8, 1e-7]], dtype=torch.float64), 1e7))
    steps.append((torch.tensor([[-1.0, 1.0]], dtype=torch.float64), float(rng.uniform(1.1e6, 2e6))))  # nearly 1/2
    steps += [(A, times * largest_step(A, 0.0)) for A in stiff for times in (1.5, 1.002, 1.0001, 1.000001)]
    steps += [(fast, times * largest_step(fast, 0.0)) for times in (1.2, 1.0001, 1.000001)]  # a hair above the bound is above it
    steps += [(tiny, times * largest_step(tiny, 0.0)) for times in (1.1, 1.5)]
    steps += [(inner, times * largest_step(inner, 0.0)) for times in (1.2, 3.0)]
    steps += [(gentle[1], times * largest_step(gentle[1], 0.0)) for times in (1.000003, 1.00001, 1.02, 1.2)]
    steps += [(hardly, times * largest_step(hardly, 0.0)) for times in (1.0001, 1.5)]
    steps += [(torch.tensor([mode], dtype=torch.float64), delta) for mode, delta in (([-1e-12, 1e-9], 1e7), ([-1e-9, 5e-9], 1e9))]
    for A, delta in (*steps, (small, 0.05), (turned, 0.3), (alike, 4.0)):
        calls.append(Call("smallest_theta", (A, delta), f"{len(A)} modes, delta = {delta:.3g}", exact))
    for _ in range(60):  # any modes: one or more, fast or slow, some of which do not turn, or turn backwards
        sizes = 10 ** rng.uniform(-1.5, 1.5, size=(int(rng.integers(1, 7)), 2)) * 10 ** rng.uniform(-3, 4)
        signs = [(-1, int(rng.choice([-1, 0, 0, 1]))) for _ in sizes]
        A = torch.from_numpy(sizes * signs)
        theta = float(rng.choice([0, 0.5, 1, rng.uniform(0, 0.5), rng.uniform(0.5, 1)], p=[0.2, 0.1, 0.1, 0.5, 0.1]))
        how = Within(1 + 1e-6) if theta < 0.5 else exact
        calls.append(Call("largest_step", (A, theta), f"{len(A)} modes, theta = {theta:.5g}", how))
        times = rng.choice([rng.uniform(0.5, 0.99), rng.uniform(1.01, 3), 10 ** rng.uniform(0.5, 5)])
        delta = largest_step(A, 0.0) * float(times)
        calls.append(Call("smallest_theta", (A, delta), f"{len(A)} modes, delta = {delta:.3g}", exact))
    return calls
