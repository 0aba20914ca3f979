# %% [markdown] q5 derive, 3 points, 15 minutes, level 1
# ## From which length on is a state the smaller memory?
#
# A Taylor map to order $p$ has as its features all products of at most $p$ entries of $x\in\mathbb R^K$; an
# entry may occur several times, and the empty product 1 counts. The package's map lists mixed products
# twice, $x_1x_2$ and $x_2x_1$. Keep each once, with a suitable factor: how many features are there, for any
# $K$ and $p$? (The check asks for up to twelve million, of $K$ and $p$ up to 5,000.)
#
# With that map, and a denominator, one head's state is compared with its KV cache. State entries take
# `state_bytes` each, cache entries `cache_bytes`. From how many tokens on is the cache the larger of the
# two?

# %% answer q5
def feature_width(K, order):
    """Features of the Taylor map to `order`, every product once."""
    # BEGIN SOLUTION
    return math.comb(K + order, order)
    # END SOLUTION


def break_even(K, V, order, state_bytes, cache_bytes):
    """The smallest number of tokens whose cache exceeds the state."""
    # BEGIN SOLUTION
    state = feature_width(K, order) * (V + 1) * state_bytes
    return state // ((K + V) * cache_bytes) + 1
    # END SOLUTION

# %% [markdown] solution q5
# A product of at most $p$ of $K$ entries is a way to hand out $p$ places to $K$ entries and a 1 that fills
# what is left: $\binom{K+p}{p}$. For $p = 2$ that is $1 + K + K(K+1)/2$; a product $x_c x_d$ with $c\ne d$
# stands for two and gets the factor $\sqrt2$. At $K = V = 64$, a float32 state and a bfloat16 cache, the
# orders 1, 2 and 3 break even after 67, 2,179 and 48,654 tokens. A better similarity is paid for with a
# longer text before it saves anything. [Based](https://arxiv.org/abs/2402.18668) uses order 2 with
# $K = 16$: 153 features if each product is kept once, 273 as its code keeps them.

# %% checks q5
@define_question(INFO["q5"], feature_width=feature_width, break_even=break_even)
def q5(rng):
    exact, calls = Close(1e-12), []
    few, high = int(rng.integers(3, 9)), int(rng.integers(8, 13))
    widths = ((5, 2), (16, 2), (few, 3), (7, 1), (4, 0), (64, 3), (few, 5), (180, 2), (1, 5), (2, 40), (64, 4))
    # where products of quotients, in one order or another, come out a hair below
    hairs = ((4, 45), (5, 23), (5, 3), (20, 5), (56, 3), (10, 6), (3, 13), (44, 5), (224, 3), (3, 41), (7, 18), (5, 19), (2, 32), (26, 6), (276, 3), (5, 50), (3, 52), (1, 54), (5, 61), (4, 62), (5, 9), (3, 55), (4, 55))
    for K, order in (*widths, *hairs, (int(rng.integers(3, 6)), high)):
        hint = "A quotient of floats may come out a hair below a whole number, and 64 bits may be too few on the way: Python's own whole numbers are divided exactly by //." if (K, order) in hairs else ""
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact, hint=hint))
    hint = "So large a factorial is a whole number and no float, and a recursion so deep ends at Python's limit."
    for K, order in ((2, 1000), (1, 1050), (1, 4897)):
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact, hint=hint))
    hint = "With K = 4,897 a recursion is too deep for Python, and products are more than float32 counts."
    calls.append(Call("feature_width", (4897, 2), "K = 4897, order 2", exact, hint=hint))
    sizes = [(64, 64, 2, 4, 2), (3, 5, 1, 2, 1)]  # of the second, the two are equal for a while
    for order in (0, 1, 2, 3, 4, 5, high):
        most = 40 if order < 6 else 6
        K, V, state, cache = (int(rng.integers(*span)) for span in ((2, most), (2, 80), (2, 9), (1, 5)))
        sizes.append((K, V, order, state, cache))
    for order in (0, 1, 2, 3, 4) * 5:  # small ones, where the two are often equal for a while
        K, V, state, cache = (int(n) for n in rng.integers(1, (7, 7, 9, 5)))
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact))
        sizes.append((K, int(rng.choice([1, V])), order, state, int(rng.choice([state, cache]))))
    # of equal size for a token; a width that is a product of quotients comes out a hair below
    sizes += [(9, 2, 5, 1, 1), (7, 1, 6, 1, 3), (5, 1, 6, 2, 1), (17, 2, 6, 1, 1), (55, 1, 3, 1, 1), (9, 4, 6, 2, 2)]
    sizes += [(3, 2, 3, 2, 3), (2, 14, 3, 8, 3)]
    # a byte less than a whole number of tokens; more bytes than float32 counts; quotients in other orders
    sizes += [(3, 2, 1, 2, 1), (4, 7, 2, 1, 1), (48, 546, 4, 6, 8), (2, 7, 5, 3, 1), (2, 2, 6, 1, 3), (2, 4, 4, 2, 1), (2, 13, 3, 3, 1), (9, 4, 4, 3, 1)]
    sizes.append((12, 64, 12, 8, 1))  # equal after many tokens; a few bytes less than that
    sizes += [(76, 2048, 4, 4, 3), (25, 1000, 6, 4, 1), (38, 116, 6, 4, 3), (49, 119, 5, 7, 5), (35, 109, 2, 8, 5)]
    # ratios of sizes first; division by a ratio
    sizes += [(1, 64, 4, 7, 5), (16, 1, 3, 7, 7), (9, 79, 2, 1, 1), (16, 98, 3, 2, 1), (1, 58, 4, 3, 1), (120, 1, 2, 1, 2), (70, 76, 3, 3, 2)]
    sizes += [(8, 6, 4, 2, 1), (7, 13, 4, 1, 1), (1, 10, 4, 3, 1), (2, 3, 1, 5, 1)]
    sizes += [(7, 14, 5, 7, 2), (32, 12, 4, 8, 3), (12, 14, 5, 2, 3), (17, 32, 4, 7, 1), (1, 2, 2, 7, 3), (1, 2, 0, 5, 1)]
    for K, V, order, state, cache in sizes:
        inputs = f"K = {K}, V = {V}, order {order}, {state} and {cache} bytes"
        calls.append(Call("break_even", (K, V, order, state, cache), inputs, exact))
    return calls
