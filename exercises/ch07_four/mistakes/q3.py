"""Known answers to question 3: four counters."""

from linattn_exercises.known_mistakes import also_right, mistake


def _count(fault, T, L, D, F, vocabulary, change=""):
    """The counts, with one thing changed."""
    mlp = 2 if change == "two" else 3
    attention = 3 if change == "no output" else 4
    matrices = L * (attention * D * D + mlp * D * F)
    scores = L * D * T * (1 if change == "one product" else 2)
    out = D * vocabulary
    if fault == "III" and change != "III as none":
        scores, matrices = (
            (scores / 2, matrices / 2) if change == "III halves all" else (scores / 2, matrices)
        )
    if fault == "IV":
        matrices += {"IV twice": 2 * out, "IV each layer": L * out}.get(change, out)
    if fault == "IV" and change == "IV forward":
        matrices -= out * 2 / 3
    passes = {"II as two": 2}.get(change, 1) if fault == "II" else 3
    return passes * (1 if fault == "I" else 2) * (matrices + scores)


@mistake("A gated MLP has three matrices.", replaces="operations")
def two_matrices(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "two")


@mistake(
    "There are four matrices of D x D: for queries, keys, values, and the output.", replaces="operations"
)
def without_output_matrix(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "no output")


@mistake("Scores and weighted values are two products of the same size.", replaces="operations")
def one_product(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "one product")


@mistake("III counts the matrices in full. Only the table of scores has a mask.", replaces="operations")
def c_halves_all(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "III halves all")


@mistake("III is written here like the right counter.", replaces="operations")
def c_as_none(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "III as none")


@mistake("II leaves out the backward pass whole: one pass of three is left.", replaces="operations")
def b_leaves_two_passes(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "II as two")


@mistake("IV counts the output layer. The embedding is looked up and costs nothing.", replaces="operations")
def d_counts_both_ends(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "IV twice")


@mistake("The output layer is there once, not in each layer.", replaces="operations")
def d_in_each_layer(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "IV each layer")


@mistake("The output layer has a backward pass as well.", replaces="operations")
def d_forward_alone(fault, T, L, D, F, vocabulary):
    return _count(fault, T, L, D, F, vocabulary, "IV forward")


@mistake("That is for a sequence of T tokens. One token was asked for.", replaces="operations")
def whole_sequence(fault, T, L, D, F, vocabulary):
    return T * _count(fault, T, L, D, F, vocabulary)


@also_right(replaces="operations")
def by_the_right_count(fault, T, L, D, F, vocabulary):
    six_n = 6 * L * D * (4 * D + 3 * F)
    table = 12 * L * D * T
    changed = {"I": -(six_n + table) / 2, "II": -(six_n + table) * 2 / 3, "III": -table / 2}
    changed |= {"IV": 6 * D * vocabulary, "none": 0}
    return six_n + table + changed[fault]


@also_right(replaces="operations")
def piece_by_piece(fault, T, L, D, F, vocabulary):
    layer = [D * D] * 4 + [D * F] * 3 + [T * D * (0.5 if fault == "III" else 1)] * 2
    total = L * sum(layer) + (D * vocabulary if fault == "IV" else 0)
    return total * (1 if fault == "I" else 2) * (1 if fault == "II" else 3)
