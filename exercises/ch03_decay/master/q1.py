# %% [markdown] q1 derive, 4 points, 25 minutes, level 2
# ## From when on is it worth forgetting?
#
# The theorem of this section is about streams without end. Now $T$ pairs have been written, and the oldest
# of $L \le T$ live pairs is asked for, the one of age $L-1$. All else is as in the theorem: the decay is
# $\gamma \in [0, 1]$, and the better $\gamma$ is the one with the larger ratio of signal to noise.
#
# 1. While the text is short, forgetting does harm. From how many pairs on is some $\gamma < 1$ better than
#    $\gamma = 1$? The smallest such $T$, for $L \ge 2$.
# 2. Which $\gamma$ is the best for $T$ pairs, to six digits? `T` is 2 to 1,500, or `math.inf`, and $L$ may be 1 (with
#    $0^0 = 1$).
#
# Written in $g = \gamma^2$, the inverse of the ratio is a sum of powers of $g$. Which of them rise with
# $g$, and which fall?

# %% answer q1
def first_length(L):
    """The smallest number of pairs for which forgetting helps."""
    # BEGIN SOLUTION
    return 2 * L
    # END SOLUTION


def best_decay(L, T):
    """The best gamma for the oldest of L live pairs, after T pairs."""
    # BEGIN SOLUTION
    a = L - 1
    if T < 2 * L and L > 1:
        return 1.0
    if math.inf == T:
        return math.sqrt(1 - 1 / L)
    if a == 0:
        return 0.0
    low, high = 0.0, 1.0                      # of g, by bisection
    for _ in range(60):
        g = (low + high) / 2
        slope = sum((j - a) * g**j for j in range(T))
        low, high = (g, high) if slope < 0 else (low, g)
    return math.sqrt(low)
    # END SOLUTION

# %% [markdown] solution q1
# The inverse of the ratio, times $K$ and plus 1, is $\sum_{j<T} g^{j-a}$ with $a = L - 1$. In $\log g$ it
# is a sum of exponentials, so it is convex and has one minimum. Its derivative is $\sum_j (j-a)\,g^{j-a}$
# (over $\log g$). At $g = 1$ this is $T(T-1)/2 - aT$, which is above 0, so that a smaller $g$ is better,
# exactly if $T > 2a + 1$: from $T = 2L$ on. In words: forgetting helps as soon as the pair that is asked
# for is in the newer half of the text. Where the minimum lies is found by bisection; for $T\to\infty$ it
# tends to the theorem's $g = 1 - 1/L$. The newest pair alone ($L = 1$) is best served by forgetting
# everything else, as soon as there is anything else.

# %% checks q1
@define_question(INFO["q1"], first_length=first_length, best_decay=best_decay)
def q1(rng):
    exact = Close(1e-9)
    calls = [Call("first_length", (L,), f"L = {L}", exact) for L in (2, 3, int(rng.integers(5, 60)), 500)]
    L = int(rng.integers(5, 40))
    fixed = ((4, 11), (9, 200), (2, 5), (2, 20), (1, 30), (1, math.inf))
    many = int(rng.integers(50, 80))
    edge = int(rng.integers(130, 140))  # there the best is next to 1
    long = (int(rng.integers(125, 140)), 1500), (int(rng.integers(20_000, 30_000)), math.inf), (edge, 2 * edge)
    lengths = ((L, math.inf), (L, 2 * L), (L, 2 * L - 1), (L, L), (many, 3 * many), (L, 5 * L), (L, 10 * L))
    short = []
    for few in (1, 2, 3, int(rng.integers(4, 50))):  # texts that end near where forgetting helps
        ends = (few, few + 1, 2 * few - 2, 2 * few - 1, 2 * few, 2 * few + 1, int(rng.integers(2 * few, 20 * few)), 1500)
        short += [(few, T) for T in sorted({max(T, few, 2) for T in ends})]  # of one pair alone no decay is the best
    between = [(L, m * L + 17) for m, L in zip((3, 8), rng.integers(133, 143, 2).tolist())]  # long, and short of the limit
    # so many that no number holds a power of -L
    large = (int(rng.integers(330, 400)), 1439), (int(rng.integers(550, 620)), 1300), (int(rng.integers(720, 740)), 1490)
    nearly = int(rng.integers(700, 750))  # with 2 L pairs the best is nearly 1; with 10 L it is not yet that of no end
    more = (nearly, 2 * nearly), (19, 200), (48, 501), (1500, 1500), (int(rng.integers(950, 1400)), 1499)
    for L, T in (*lengths, *fixed, *long, *short, *between, *large, *more):
        calls.append(Call("best_decay", (L, T), f"L = {L}, T = {T}", Close(6e-7)))
    calls.append(Call("best_decay", (8, 100), "L = 8, T = 100", Close(5e-7)))
    return calls
