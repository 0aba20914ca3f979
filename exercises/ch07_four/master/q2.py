# %% [markdown] q2 derive, 3 points, 20 minutes, level 1
# ## Find the misprint
#
# In a newer LLaMA several heads of queries share a head of keys and values: $H$ heads of queries of width
# $D/H$, and $H_{kv}$ heads of keys and of values of the same width. $D$ is a multiple of $H$, and $H$ of
# $H_{kv}$. All else is as in the chapter: an output matrix, a gated MLP of hidden width $F$, no biases. Norms and
# embeddings are not counted.
#
# 1. How many parameters have $L$ layers?
# 2. What does a token cost in training, forward and backward, in a context of $T$ tokens, if the whole table of
#    scores is counted? Take the multiplications of matrices alone: projections, MLP, scores, weighted values.
# 3. A report prints the five models in `report`, with their parameters in millions. One number does not belong
#    to its sizes. Which model is it?

# %% given q2
report = {  # L, D, H, H_kv, F, and parameters in millions
    "I": (12, 768, 12, 4, 2048, 75.5),
    "II": (24, 1024, 16, 4, 2816, 270.5),
    "III": (16, 2048, 32, 8, 8192, 1006.6),
    "IV": (28, 3072, 24, 8, 8192, 2818.6),
    "V": (32, 4096, 32, 8, 14336, 6979.3),
}

# %% answer q2
def n_parameters(L, D, H, H_kv, F):
    """Parameters of L layers, without norms."""
    # BEGIN SOLUTION
    return L * (2 * D * D + 2 * D * (D // H) * H_kv + 3 * D * F)
    # END SOLUTION


def flops_per_token(T, L, D, H, H_kv, F):
    """Operations for a token, forward and backward."""
    # BEGIN SOLUTION
    return 6 * n_parameters(L, D, H, H_kv, F) + 12 * L * T * D
    # END SOLUTION


misprint = None
# BEGIN SOLUTION
misprint = "III"
# END SOLUTION

# %% [markdown] solution q2
# Queries and the output matrix have $D^2$ each, keys and values $D\cdot\frac{D}{H}H_{kv}$ each, the MLP
# $3DF$. In training a matrix costs six operations an entry. Sharing keys and values changes nothing in the
# scores: there are still $H$ tables, each query meets every key, $2TD$ operations a token for the scores and
# as many for the values, times three. What shrinks is the cache, by $H/H_{kv}$.
#
# With these formulas the printed parameters are right but for III, where 973.1 million belong to the sizes.
# 1006.6 million would have 16 heads of keys and values. A wrong number of heads in a table is hard to see, since
# it is only in this one term.


# %% checks q2
@define_question(
    INFO["q2"],
    n_parameters=n_parameters,
    flops_per_token=flops_per_token,
    misprint=misprint,
    wrong_values={
        "misprint": {
            "I": "12 layers of 2 D² + 2 D² / 3 + 3 D F are 75.5 million, as printed.",
            "II": "24 layers of 2 D² + 2 D² / 4 + 3 D F are 270.5 million, as printed.",
            "IV": "28 layers of 2 D² + 2 D² / 3 + 3 D F are 2,818.6 million, as printed.",
            "V": "32 layers of 2 D² + 2 D² / 4 + 3 D F are 6,979.3 million, as printed.",
        }
    },
)
def q2(rng):
    exact, calls = Close(1e-12), []
    sizes = [(2, 64, 4, 2, 96), (3, 60, 6, 1, 100), (5, 48, 3, 3, 128), (32, 4096, 32, 8, 14336)]
    for group, H_kv, width, L, F in rng.integers(1, (7, 5, 33, 9, 300), size=(8, 5)).tolist():
        sizes.append((L, group * H_kv * width, group * H_kv, H_kv, F))
    sizes.append((28, 3000, 24, 8, 8191))  # more than float32 counts
    sizes += [(1, 32, 1, 1, 32), (3, 7, 7, 7, 5)]  # one head; heads of width 1
    for one in sizes:
        inputs = "L = {}, D = {}, H = {}, H_kv = {}, F = {}".format(*one)
        calls.append(Call("n_parameters", one, inputs, exact))
    for one in sizes:
        for T in (1, int(rng.integers(2, 5000)), int(rng.integers(10_000, 200_000))):
            inputs = "T = {}, L = {}, D = {}, H = {}, H_kv = {}, F = {}".format(T, *one)
            calls.append(Call("flops_per_token", (T, *one), inputs, exact))
    return [*calls, Call("misprint", (), "", Exactly())]
