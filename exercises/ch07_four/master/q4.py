# %% [markdown] q4 derive, 4 points, 25 minutes, level 2
# ## One softmax in how many?
#
# In a hybrid every $m$-th layer has softmax attention and all others TNL's, with gates of rank $D/H$ and blocks of
# $D/H$ tokens; $m = 1$ is softmax attention throughout, and $L$ is as large as you like. Contexts are long, $T >
# 3D/H$. Count as the chapter's table does, with the whole table of scores, a gated MLP of width $8D/3$ and $5/(18D)$ for the small change of both.
#
# 1. What does a token cost, in units of $72LD^2$?
# 2. You have a budget of so many of these units. How many layers may have softmax attention? Give the smallest $m$
#    that keeps within the budget, and 0 if not even TNL throughout does. ($T$ is at most $2^{27}$, and no answer
#    above 12 million. Rounding does not matter: no budget lies within $10^{-9}$ of one where the answer changes.)

# %% answer q4
def relative_cost(T, D, H, every):
    """FLOPs of a token over 72 L D^2; with every = math.inf, TNL alone."""
    # BEGIN SOLUTION
    share = 1 / every
    return 1 + share * T / (6 * D) + (1 - share) / (2 * H) + 5 / (18 * D)
    # END SOLUTION


def smallest_every(T, D, H, budget):
    """The smallest m with relative_cost(T, D, H, m) <= budget."""
    # BEGIN SOLUTION
    left = budget - relative_cost(T, D, H, math.inf)
    more = T / (6 * D) - 1 / (2 * H)        # what a softmax costs more
    return max(1, math.ceil(more / left)) if left > 0 else 0
    # END SOLUTION

# %% [markdown] solution q4
# A share $1/m$ of the layers has the term $T/(6D)$, the others $1/(2H)$. With $m = 8$ it is the formula of
# [MiniMax-01](https://arxiv.org/abs/2501.08313), $1 + \frac{T}{48D} + \frac{7}{16H} + \frac{5}{18D}$. As a function of the share the cost is a straight
# line between its two parents, so $m$ is what a softmax layer costs more, over what the budget leaves beside
# TNL, rounded up.
#
# At 8,192 tokens and $D = 512$, $H = 4$, a budget of 1.5 allows one softmax in seven layers. At $D = 4096$, $H = 32$
# softmax attention throughout costs 1.33. What a hybrid saves, it saves in small models and long contexts.


# %% checks q4
@define_question(INFO["q4"], relative_cost=relative_cost, smallest_every=smallest_every)
def q4(rng):
    exact, calls = Close(1e-9), []
    shapes: list[tuple[int, ...]] = [(8192, 512, 4), (2048, 1536, 12), (131072, 4096, 32)]
    shapes += [tuple(int(n) * 128 for n in rng.integers((8, 2), (100, 20))) for _ in range(2)]
    shapes = [one if len(one) == 3 else (*one, one[1] // 128) for one in shapes]
    shapes += [(8192, 512, 8), (4096, 1024, 4)]  # heads of 64 and of 256
    for H in (1, 1, *rng.integers(1, 33, size=6).tolist()):
        width, more = int(rng.integers(16, 257)), int(10 ** rng.uniform(0, 6.5))
        shapes.append((3 * width + more, H * width, H))
    for T, D, H in shapes:
        for every in (1, int(rng.integers(2, 12)), int(10 ** rng.uniform(4.5, 6)), math.inf):
            inputs = f"T = {T:,}, D = {D:,}, H = {H}, every {every}"
            calls.append(Call("relative_cost", (T, D, H, every), inputs, exact))
    budgets = [(8192, 512, 4, 1.5), (8192, 4096, 32, 1.34), (8192, 4096, 32, 1.2), (8192, 512, 4, 1.1)]
    budgets += [(65536, 1024, 8, float(rng.uniform(1.2, 3))) for _ in range(2)]
    budgets += [(131072, 512, 4, 1.13), (16384, 1024, 16, float(rng.uniform(1.3, 2.5)))]
    for T, D, H in shapes[3:]:
        edge = relative_cost(T, D, H, int(rng.integers(2, 7)))
        budgets += [(T, D, H, edge + 1e-8), (T, D, H, edge - 1e-8)]
        m, far = int(rng.integers(1, 20)), float(10 ** rng.uniform(-7, 0))
        between = (relative_cost(T, D, H, m) + relative_cost(T, D, H, m + 1)) / 2
        above, below = relative_cost(T, D, H, 1) + far, relative_cost(T, D, H, math.inf) - far
        budgets += [(T, D, H, between), (T, D, H, above), (T, D, H, below)]
    throughout = relative_cost(24576, 768, 6, 1)
    budgets += [(24576, 768, 6, throughout + 1e-8), (24576, 768, 6, throughout - 1e-8)]
    throughout = relative_cost(2**24, 512, 4, 1)     # where a small part of a layer costs more than that
    budgets += [(2**24, 512, 4, throughout + 2e-9), (2**24, 512, 4, throughout - 2e-9)]
    throughout = relative_cost(2**27, 64, 4, 1)      # and what costs a part in 10^14 more
    budgets += [(2**27, 64, 4, throughout + 2e-9), (2**27, 64, 4, throughout - 2e-9)]
    budgets += [(8192, 512, 4, 10.0), (8192, 512, 4, relative_cost(8192, 512, 4, math.inf) - 1e-8)]
    edges = (8192, 2048, 16, 1.28e4, 1.32e4), (2**24, 512, 4, 1.3e6, 1.5e6), (400, 2048, 16, 550, 650), (385, 4096, 32, 80, 90), (385, 4096, 32, 138, 142), (385, 49152, 384, 35, 36), (2**27, 64, 4, 1.19e7, 1.2e7)
    far = (relative_cost(2**27, 512, 4, 3_000_000) + relative_cost(2**27, 512, 4, 3_000_001)) / 2
    budgets.append((2**27, 512, 4, far))
    calls.append(Call("relative_cost", (2**24, 512, 4, math.inf), "T = 16,777,216, D = 512, H = 4, every inf", exact))
    for T, D, H, low, high in edges:
        m = int(rng.uniform(low, high))
        between = (relative_cost(T, D, H, m) + relative_cost(T, D, H, m + 1)) / 2
        budgets.append((T, D, H, between))
    for T, D, H, budget in budgets:
        inputs = f"T = {T:,}, D = {D:,}, H = {H}, a budget of {budget:.10g}"
        calls.append(Call("smallest_every", (T, D, H, budget), inputs, exact))
    return calls
