"""Known answers to question 3: how large is a state, from outside?"""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _blocks(M, rows=0, columns=0):
    """The blocks below and left of each place, shifted."""
    return [M[t + rows :, : t + columns] for t in range(1, len(M)) if t + rows < len(M)]


def _values(x):
    """The singular values."""
    return torch.linalg.svdvals(x)


def _rank(x, M):
    """The number of singular values that are no errors."""
    return int((_values(x) > 1e-4 * M.abs().max()).sum())


@mistake("The rank of M counts its diagonal, what tokens do to themselves, and is full for any state.")
def whole_table(M):
    return _rank(M, M)


@mistake(
    "Below the diagonal stands all that passes between tokens, but not through one place. Cut the sequence at a "
    "place, and look at what passes there."
)
def below_the_diagonal(M):
    return _rank(M.tril(-1), M)


@mistake("In the middle, as it happens, less may pass than elsewhere: try every place.")
def middle_alone(M):
    return _rank(M[len(M) // 2 :, : len(M) // 2], M)


@mistake("The errors of the measurement are counted as well: every block of them has full rank.")
def errors_counted(M):
    return max(int(torch.linalg.matrix_rank(x)) for x in _blocks(M))


@mistake(
    "Relative to the largest of its own block a block of nothing but errors has full rank. Compare with the largest "
    "entry of M."
)
def relative_to_the_block(M):
    return max(int((_values(x) > 1e-4 * _values(x)[0]).sum()) for x in _blocks(M))


@mistake("The block contains the diagonal: what a token does to itself needs no state.")
def with_the_diagonal(M):
    return max(_rank(x, M) for x in _blocks(M, columns=1))


@mistake("Your blocks leave out a token: t inputs lie to the left of the place, and the outputs begin at t.")
def a_token_is_missing(M):
    return max([_rank(x, M) for x in _blocks(M, rows=1)], default=0)


@mistake("That is the sum over all places. The state is used again and again: its largest size is asked for.")
def sum_over_places(M):
    return sum(_rank(x, M) for x in _blocks(M))


@mistake("That is where the least passes. A state must be large enough for the place where most does.")
def smallest_place(M):
    return min(_rank(x, M) for x in _blocks(M))


@mistake(
    "Above the diagonal M is 0. Rows are outputs and columns inputs: the later rows, the earlier columns."
)
def later_inputs(M):
    return max(_rank(M[:t, t:], M) for t in range(1, len(M)))


@mistake("That is what the first t tokens do to each other. What do they do to the later ones?")
def among_the_first(M):
    return max(_rank(M[:t, :t], M) for t in range(1, len(M)))


@mistake(
    "One too late: n numbers meet the first n singular values, the next one is missed.",
    replaces="least_error",
)
def one_too_late(M, n):
    return max((_values(x)[n + 1].item() for x in _blocks(M) if len(_values(x)) > n + 1), default=0.0)


@mistake(
    "The sum of what remains is the error of no single input. For one it is the largest that remains.",
    replaces="least_error",
)
def sum_of_the_rest(M, n):
    return max(_values(x)[n:].sum().item() for x in _blocks(M))


@mistake("One too early: with n numbers the first n singular values can be met.", replaces="least_error")
def one_too_early(M, n):
    return max((_values(x)[max(n - 1, 0)].item() for x in _blocks(M) if len(_values(x)) >= n), default=0.0)


@mistake("M itself may have full rank with any state. Take its blocks.", replaces="least_error")
def of_the_whole_table(M, n):
    return _values(M)[n].item() if n < len(M) else 0.0


@mistake(
    "That is the bound of the place in the middle. Others may give a larger one.", replaces="least_error"
)
def of_the_middle(M, n):
    values = _values(M[len(M) // 2 :, : len(M) // 2])
    return values[n].item() if n < len(values) else 0.0


@mistake(
    "The root of the sum of squares is the error of all inputs together, in the Frobenius norm. One input is asked for.",
    replaces="least_error",
)
def frobenius(M, n):
    return max(_values(x)[n:].norm().item() for x in _blocks(M))


@mistake("The largest place decides, not the sum over places.", replaces="least_error")
def summed(M, n):
    return sum(_values(x)[n].item() for x in _blocks(M) if len(_values(x)) > n)


@mistake(
    "That is a share of the largest singular value. The error itself is asked for.", replaces="least_error"
)
def as_a_share(M, n):
    return max(
        ((_values(x)[n] / _values(x)[0]).item() for x in _blocks(M) if len(_values(x)) > n), default=0.0
    )


@mistake(
    "The block contains the diagonal, and a token's own input may reach its output directly.",
    replaces="least_error",
)
def error_with_the_diagonal(M, n):
    return max((_values(x)[n].item() for x in _blocks(M, columns=1) if len(_values(x)) > n), default=0.0)


@mistake("The largest entry is meant by magnitude: a table may have no entry above 0.")
def largest_with_its_sign(M):
    return max(int((_values(x) > 1e-4 * M.max()).sum()) for x in _blocks(M))


@mistake("Compared with the diagonal alone, which is 0 where tokens do not reach their own outputs.")
def relative_to_the_diagonal(M):
    return max(int((_values(x) > 1e-4 * M.diag().abs().max()).sum()) for x in _blocks(M))


@mistake(
    "A place is left out: the last token alone can lie to the right of it, which matters where there are two."
)
def last_place_left_out(M):
    return max((_rank(M[t:, :t], M) for t in range(1, len(M) - 1)), default=0)


@mistake(
    "Relative to the largest singular value, of a block or of M, a faint channel beside a strong one is not counted: a "
    "norm grows with the number of tokens. The largest entry of M is what errors are measured by."
)
def faint_beside_strong(M):
    least = 1e-5 * M.abs().max().item()
    return max(int(torch.linalg.matrix_rank(x, atol=least, rtol=1e-3)) for x in _blocks(M))


@mistake(
    "Where one entry is far larger than all others, the root mean square says little about it. Errors are measured by "
    "the largest entry."
)
def relative_to_the_mean_square(M):
    return max((int((_values(x) > 3e-4 * M.square().mean().sqrt()).sum()) for x in _blocks(M)), default=0)


@mistake(
    "With a state as large as that of `state_size` the errors in M remain. They are singular values too, and M is taken "
    "as it is.",
    replaces="least_error",
)
def nothing_beyond_the_size(M, n):
    blocks = _blocks(M)
    if n >= max((_rank(x, M) for x in blocks), default=0):
        return 0.0
    return max((_values(x)[n].item() for x in blocks if len(_values(x)) > n), default=0.0)


@mistake("That looks at places in the middle half. What passes may be largest near an end: try every place.")
def middle_half(M):
    T = len(M)
    places = range(max(1, T // 4), min(T - 1, T - T // 4) + 1)
    return max((_rank(M[t:, :t], M) for t in places if t < T), default=0)


@also_right()
def by_elimination(M):
    most = 0
    for t in range(1, len(M)):
        block, size = M[t:, :t].clone() / M.abs().max(), 0
        while block.numel():
            lengths = block.norm(dim=1)
            if lengths.max() < 3e-5:  # what is left are errors
                break
            row = block[lengths.argmax()] / lengths.max()
            block, size = block - torch.outer(block @ row, row), size + 1
        most = max(most, size)
    return most


@also_right()
def by_the_rank_with_a_tolerance(M):
    atol = float(3e-4 * M.abs().max())
    ranks = [torch.linalg.matrix_rank(M[t:, :t], atol=atol, rtol=0.0) for t in range(1, len(M))]
    return max((int(rank) for rank in ranks), default=0)


@also_right(replaces="least_error")
def by_eigenvalues(M, n):
    most = 0.0
    for t in range(n + 1, len(M) - n):
        block = M[t:, :t]
        gram = block @ block.T if len(block) < t else block.T @ block
        values = torch.linalg.eigvalsh(gram).flip(0)
        most = max(most, values[n].clamp(min=0).sqrt().item())
    return most
