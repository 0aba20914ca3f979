"""Known answers to question 5: two readers of one book."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("Added as they are: the two were measured against different maxima.")
def added(a, b):
    return max(a[0], b[0]), a[1] + b[1], a[2] + b[2]


@mistake("d is rescaled, u is not. Both are sums of exp(x - m).")
def only_d_rescaled(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], a[2] + b[2]


@mistake("The reference must be the larger maximum; with the smaller one exponentials overflow.")
def smaller_maximum(a, b):
    m = min(a[0], b[0])
    f, g = (torch.tensor(x - m).exp().item() if x > m else 1.0 for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("The factor is upside down: what has the smaller maximum must shrink, by exp(m_own - m).")
def factor_upside_down(a, b):
    m = max(a[0], b[0])
    f, g = (torch.tensor(m - x).exp().item() for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("The factors are exchanged: each part shrinks by exp(m_own - m), with its own maximum.")
def factors_exchanged(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    return m, g * a[1] + f * b[1], g * a[2] + f * b[2]


@mistake(
    "u is a sum already: weighed by its d once more, and divided by the new d, it is no triple of the chapter's."
)
def taken_for_means(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    d = f * a[1] + g * b[1]
    return m, d, (f * a[1] * a[2] + g * b[1] * b[2]) / max(d, 1e-300)


@mistake(
    "The maximum of an empty part is minus infinity, not 0: with 0 it outdoes a part whose scores are negative."
)
def empty_maximum_of_zero(a, b):
    m = max(x if x > -math.inf else 0.0 for x in (a[0], b[0]))
    if a[0] == b[0] == -math.inf:
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("Right while somebody has read a key. For two empty triples -inf - (-inf) is not a number.")
def nothing_and_nothing(a, b):
    m = max(a[0], b[0])
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake(
    "torch.tensor makes float32 of a Python number, with seven digits: of a maximum near -50,000 two stand after the "
    "point. Give dtype=torch.float64, or take math.exp."
)
def in_float32(a, b):
    first, second = torch.tensor(a[0]), torch.tensor(b[0])
    m = torch.maximum(first, second)
    if m == -torch.inf:
        return a
    f, g = (first - m).exp(), (second - m).exp()
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("That is the triple of the reader with the larger maximum. The other's keys count too.")
def larger_wins(a, b):
    return a if a[0] >= b[0] else b


@mistake("u is a sum, not a mean: you merged the outputs u / d, and returned the mean in place of u.")
def merged_means(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    d = f * a[1] + g * b[1]
    return m, d, (f * a[2] + g * b[2]) / max(d, 1e-300)


@mistake(
    "The u of two empty parts is a row of V zeros, as every u is: return one of the two triples as it is."
)
def empty_without_width(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return m, 0.0, 0.0
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("What is far below the larger maximum counts too, if there are many such keys: drop no part.")
def far_part_dropped(a, b):
    if a[0] < b[0]:
        a, b = b, a
    if a[0] == -math.inf or a[0] - b[0] > 14:
        return a
    g = math.exp(b[0] - a[0])
    return a[0], a[1] + g * b[1], a[2] + g * b[2]


@mistake("u is rescaled, d is not. Both are sums of exp(x - m).")
def only_u_rescaled(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    return m, a[1] + b[1], f * a[2] + g * b[2]


@mistake("Only the first part is rescaled. Either of the two may have the smaller maximum.")
def only_the_first_rescaled(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    f = math.exp(a[0] - m)
    return m, f * a[1] + b[1], f * a[2] + b[2]


@mistake("Only the second part is rescaled. The first may have the smaller maximum just as well.")
def only_the_second_rescaled(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    g = math.exp(b[0] - m)
    return m, a[1] + g * b[1], a[2] + g * b[2]


@mistake("m is the larger of the two maxima. You took the logarithm of a sum of exponentials.")
def log_sum_for_the_maximum(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    n = m + math.log(math.exp(a[0] - m) + math.exp(b[0] - m))
    f, g = math.exp(a[0] - n), math.exp(b[0] - n)
    return n, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("If one part is empty, the result is the other part. You returned the empty one.")
def empty_part_returned(a, b):
    for part in (a, b):
        if part[0] == -math.inf:
            return part
    m = max(a[0], b[0])
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake(
    "exp(m) is 0 for very small scores and overflows for large ones. Only differences of maxima go through exp."
)
def plain_exponentials(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    f, g = math.exp(a[0]), math.exp(b[0])
    return m, (f * a[1] + g * b[1]) / math.exp(m), (f * a[2] + g * b[2]) / math.exp(m)


@also_right()
def in_logarithms(a, b):
    pair = torch.tensor([a[0], b[0]], dtype=torch.float64)
    m = pair.max()
    f = torch.where(pair == -torch.inf, torch.zeros(2, dtype=torch.float64), (pair - m).exp())
    return m, f[0] * a[1] + f[1] * b[1], f[0] * a[2] + f[1] * b[2]
