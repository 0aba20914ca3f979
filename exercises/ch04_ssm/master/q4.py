# %% [markdown] q4 measure, 4 points, 25 minutes, level 2
# ## What a channel remembers, from its response
#
# A channel with one complex number of state is given a single 1, then zeros. It answers
#
# $$
# y_l = 2\operatorname{Re}(c\,\bar A^{\,l}), \qquad l = 0, \dots, T-1 ,
# $$
#
# rounded to bfloat16 (8 significant bits), as a model would have it. You know neither $c$ nor $\bar A$.
# Measure, to 3 % (aim at 1 %: rounding leaves the check's own answer up to 2 % off), how long the channel remembers and how fast it turns: the half-life of $|\bar A|^l$ and
# the period of the oscillation, both in steps. Half-lives lie between 3 and 300 steps, periods between
# 2.2 and 400, a period is shorter than 12 half-lives, and the response is at least two half-lives, one and
# a half periods and 10 steps long, but no longer than 1,000. (A search is a good answer; go coarsely first,
# then finely: the check has some fifty responses, and a grader 5 seconds for all of them.) How loud it is,
# you do not know either.
#
# On paper four numbers do: any three neighbours satisfy $y_{l+2} = 2\operatorname{Re}(\bar
# A)\,y_{l+1} - |\bar A|^2\,y_l$, which is linear in the two unknowns. Why is a least squares fit of
# this equation to all of $y$ not good enough, although it uses every number there is?

# %% answer q4
def memory(y):
    """Half-life and period in steps, of a response [T]: two numbers."""
    # BEGIN SOLUTION
    windows = y.unfold(0, len(y) // 2, 1)            # each starts one later
    shapes = torch.linalg.svd(windows, full_matrices=False).Vh[:2].T
    step = torch.linalg.lstsq(shapes[:-1], shapes[1:]).solution   # [2, 2]
    A_bar = torch.linalg.eigvals(step)[0]
    half_life = math.log(2) / -math.log(abs(A_bar))
    return half_life, 2 * math.pi / abs(A_bar.angle().item())
    # END SOLUTION

# %% [markdown] solution q4
# In a slow mode three neighbours lie nearly on a line, and what they tell about it is how far they do
# not: a second difference, a two-hundredth of $y$ where the period is 90 steps. Rounding moves each
# number by up to a five-hundredth. More rows do not average this away, since rounded numbers stand on
# *both* sides of the equation: noise in what is multiplied by the unknowns pulls these towards 0. At a
# half-life of 150 and a period of 90 the fit reports a half-life that is 15 % too short, at 250 and 340 a
# fifth of the right one. As in exercise 3.2, slow modes differ in numbers that lie far apart.
#
# Two ways use those. One compares the whole response with $2\operatorname{Re}(c \bar A^l)$: for given
# $\bar A$ the best $c$ is a linear least squares problem, and a search over half-life and period finds
# the smallest error. The other, done here, cuts the response into windows of $T/2$ numbers. Each window
# is a combination of two shapes, the real and the imaginary part of $\bar A^l$, so that but for the
# rounding the matrix of windows has rank 2. Its first two singular vectors are combinations of these
# shapes, with most of the rounding averaged out, and moving them by one step multiplies them by a
# $2\times 2$ matrix whose eigenvalues are $\bar A$ and its conjugate. A matrix of windows is called a
# Hankel matrix. Its rank is the number of numbers of state, conjugates counted: how large a state is can
# be seen from outside.

# %% checks q4
def _between(rng, low, high):
    """A number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@define_question(INFO["q4"], memory=memory)
def q4(rng):
    calls, drawn = [], []
    for _ in range(4):
        life = _between(rng, 3, 300)
        drawn.append((life, _between(rng, 2.2, min(400, 10 * life))))
    ends = [(3.0, _between(rng, 2.2, 30)), (300.0, _between(rng, 50, 400)), (_between(rng, 3, 300), 2.2)]
    ends += [(300.0, _between(rng, 2.3, 8)) for _ in range(3)]  # turns that a coarse grid of periods misses
    slow = [(rng.uniform(34, 50), rng.uniform(380, 400)) for _ in range(4)]  # little of a turn is seen
    slow += [(rng.uniform(280, 300), rng.uniform(380, 400)) for _ in range(4)]  # the first 100 steps do not tell
    late = []
    for _ in range(6):  # most of the response is rounding of next to nothing
        life = _between(rng, 3, 60)
        late.append((life, _between(rng, 2.2, min(400, 10 * life))))
    life = _between(rng, 3, 8)
    over = life, _between(rng, 2.2, 10 * life)  # long before the end
    ends.append((_between(rng, 3.11, 3.14), _between(rng, 2.2, 30)))  # off a grid of quarters
    quiet, loud = drawn[:2]
    plain = []
    for _ in range(4):  # periods of whole steps, and long ones; they begin with 0 or a peak
        life = _between(rng, 3, 150)
        plain.append((life, float(rng.integers(3, min(9, 10 * life)))))
        life = _between(rng, 3, 33)
        plain.append((life, rng.uniform(11, 11.9) * life))
    sine = rng.uniform(20, 60), 8.0  # every zero of it is one of its numbers
    four = rng.uniform(20, 60), 4.0  # every second number is 0
    plain += [sine, four]
    # numbers at a fixed distance, a tenth of 480 or another part, lie whole half turns apart: they tell no angle
    even = [(_between(rng, 60, 240), period) for period in (8.0, 16.0, 17.0, 18.0, 19.0, 20.0, 24.0, 53 / 3)]
    fixed = {  # by half-life and period: T, and the phase at which what is left out, or next to nothing, is needed
        (3.0, 35.0): (53, 200),   # what comes back after it seemed over; the same from elsewhere
        (6.0, 71.4): (108, 195),
        (4.5, 52.2): (79, 180),
        (8.2, 89.7): (135, 180),
        (4.3, 5.5): (10, 90),     # as short as may be
        (5.0, 6.0): (11, 200),
        (250.0, 400.0): (600, 320),  # the first 100 steps do not tell, and windows of 8 or 10 neither
        (300.0, 400.0): (600, 180),
        (34.0, 400.0): (600, 300),
        (32.7, 378.5): (568, 200),
        (28.1, 316.7): (566, 211.2),  # windows of 17 to 20
        (26.03, 311.2): (467, 336.8),
        (3.04, 33.65): (80, 131),  # from one start a search ends elsewhere
        (3.17, 37.4): (142, 129),
        (3.56, 40.8): (155, 132),
        (3.57, 39.5): (150, 296),
    }
    for life, period in (*drawn, *ends, (_between(rng, 40, 300), 400.0), *slow, *late, over, *plain, *even, *fixed):
        T = math.ceil(max(2 * life, 1.5 * period, 10) * _between(rng, 1, 1.5))
        T = 1000 if (life, period) == over else T
        T = int(rng.integers(max(T, 500), 1001)) if (life, period) in late else T
        T = 480 if (life, period) in even else T
        T, degrees = fixed.get((life, period), (T, None))
        l = torch.arange(T, dtype=torch.float64)
        phase = rng.uniform(0, 2 * math.pi)
        phase = math.pi / 2 * int(rng.integers(4)) if (life, period) in plain else phase
        phase = phase if degrees is None else math.radians(degrees)
        phase = {sine: math.pi / 2, four: 0.0}.get((life, period), phase)
        turn = 2 * math.pi * l / period + phase
        size = 10 ** rng.uniform(-3, 2)
        size = {quiet: 1e-8, loud: 1e6}.get((life, period), size)
        size = size if degrees is None else 1.0  # as what is rounded off depends on it
        wave = torch.where(turn.cos().abs() < 1e-9, 0.0, turn.cos())
        y = (size * 2.0 ** (-l / life) * wave).bfloat16().double()
        inputs = f"T = {T}, a half-life of {life:.1f} and a period of {period:.1f}"
        calls.append(Call("memory", (y,), inputs, Within(1.03)))
    return calls
