# %% [markdown] q3 diagnose, 4 points, 25 minutes, level 2
# ## Four counters
#
# Four programs count the operations of a training step of a LLaMA, for a token in a context of $T$:
# the multiplications of matrices alone, a multiply-add is two operations, the backward pass costs two forward passes, the whole table of scores
# counts, and embedding and output layer do not. Each is wrong in one way:
#
# - `"I"`: a multiply-add is one operation;
# - `"II"`: the backward pass is left out;
# - `"III"`: only the half of the table of scores that the mask leaves is counted, $T/2$ a token;
# - `"IV"`: the output layer is counted, $D$ times the vocabulary.
#
# For a model of 6 layers, width 512, hidden width 1,536, a vocabulary of 100,280 and a context of 8,192 three of the
# four said what is in `counts`, in millions of operations. Which is which?
#
# Then write what all four say for any model, and what the right one says.

# %% given q3
counts = {"first": 141.6, "second": 273.7, "third": 732.7}

# %% answer q3
first = None
# BEGIN SOLUTION
first = "II"
# END SOLUTION
second = None
# BEGIN SOLUTION
second = "III"
# END SOLUTION
third = None
# BEGIN SOLUTION
third = "IV"
# END SOLUTION


def operations(fault, T, L, D, F, vocabulary):
    """Operations for a token by the counter "I" to "IV", or "none"."""
    # BEGIN SOLUTION
    matrices = L * (4 * D * D + 3 * D * F)
    if fault == "IV":
        matrices += D * vocabulary
    scores = L * 2 * D * T
    if fault == "III":
        scores /= 2
    passes = 1 if fault == "II" else 3
    return passes * (1 if fault == "I" else 2) * (matrices + scores)
    # END SOLUTION

# %% [markdown] solution q3
# The right count is $6\,(L(4D^2 + 3DF) + 2LDT)$, here 424.7 million. **I** says half of it, **II** a third, so a
# ratio tells them apart without knowing the model. **III** takes half of the second term, and **IV** adds $6D$ times the vocabulary, which at
# this size is nearly three quarters of the right count: with a vocabulary of 100,280 the output layer of a small
# model is no detail, and whether it is counted moves small models more than large ones. The study leaves
# it out.


# %% checks q3
@define_question(
    INFO["q3"],
    first=first,
    second=second,
    third=third,
    operations=operations,
    wrong_values={
        "first": {
            "I": "Half of the right count, 424.7, is 212.4.",
            "III": "III counts the matrices in full, 122.7, and half of the scores on top: 273.7.",
            "IV": "IV says more than the right count, 424.7, and not a third of it.",
        },
        "second": {
            "I": "I says half of the right count, 424.7, which is 212.4.",
            "II": "II says a third of the right count, 424.7, which is 141.6.",
            "IV": "With the output layer it would be more than 424.7.",
        },
        "third": {
            "I": "I says half of the right count. This is more than all of it, 424.7.",
            "II": "II says a third of the right count. This is more than all of it, 424.7.",
            "III": "III leaves something out. This is more than the right count, 424.7.",
        },
    },
)
def q3(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    sizes: list[tuple[int, ...]] = [(8192, 6, 512, 1536, 100_280), (1, 1, 8, 20, 50), (3, 1, 8, 8, 1)]
    for _ in range(2):
        sizes.append(tuple(rng.integers((10, 1, 8, 10, 20), (5000, 30, 900, 3000, 90_000)).tolist()))
    sizes += [tuple(one) for one in rng.integers(1, (50, 9, 60, 60, 60), size=(6, 5)).tolist()]  # none larger than others
    for fault in ("none", "I", "II", "III", "IV"):
        for one in sizes:
            inputs = "counter {}, T = {}, L = {}, D = {}, F = {}, a vocabulary of {}".format(fault, *one)
            calls.append(Call("operations", (fault, *one), inputs, Close(1e-12)))
    return calls
