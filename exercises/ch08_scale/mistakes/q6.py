"""Known answers to question 6: spend a budget."""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _split(C, A, B, alpha, beta):
    N = ((alpha * A) / (beta * B) * (C / 6) ** beta) ** (1 / (alpha + beta))
    return N, C / (6 * N)


@mistake("N D is C/6, not C: each parameter costs six operations a token.")
def six_forgotten(C, A, B, alpha, beta):
    N = ((alpha * A) / (beta * B) * C**beta) ** (1 / (alpha + beta))
    return N, C / N


@mistake("That splits the loss, not its slope: the parts are not equal but in the ratio beta to alpha.")
def equal_parts(C, A, B, alpha, beta):
    N = (A / B * (C / 6) ** beta) ** (1 / (alpha + beta))
    return N, C / (6 * N)


@mistake("The ratio is upside down: at the best split alpha A N^-alpha = beta B D^-beta.")
def ratio_upside_down(C, A, B, alpha, beta):
    N = ((beta * B) / (alpha * A) * (C / 6) ** beta) ** (1 / (alpha + beta))
    return N, C / (6 * N)


@mistake("N grows with the power beta/(alpha + beta) of the budget, that of the *other* part.")
def exponents_swapped(C, A, B, alpha, beta):
    N = ((alpha * A) / (beta * B) * (C / 6) ** alpha) ** (1 / (alpha + beta))
    return N, C / (6 * N)


@mistake("Asked was (N, D), in this order.")
def other_order(C, A, B, alpha, beta):
    return _split(C, A, B, alpha, beta)[::-1]


@mistake("There are not so many tokens.", "split_scarce")
def as_if_there_were_more(C, A, B, alpha, beta, most):
    return _split(C, A, B, alpha, beta)


@mistake("With less to read the budget buys a larger model: all of it is spent.", "split_scarce")
def size_kept(C, A, B, alpha, beta, most):
    N, D = _split(C, A, B, alpha, beta)
    return N, min(D, most)


@mistake("Where there are more tokens than the best split needs, they need not be read.", "split_scarce")
def always_all(C, A, B, alpha, beta, most):
    return C / (6 * most), most


@mistake("With `most` tokens the size is C/(6 most): six operations a parameter and token.", "split_scarce")
def six_forgotten_where_scarce(C, A, B, alpha, beta, most):
    N, D = _split(C, A, B, alpha, beta)
    return (N, D) if most >= D else (C / most, most)


@mistake("That is how many times the tokens. Compute is that times the share.", "price")
def tokens_alone(share, alpha, beta):
    left = 1 - beta / (alpha + beta) * share**-alpha
    return math.inf if left <= 0 else (alpha / (alpha + beta) / left) ** (1 / beta)


@mistake(
    "The part of the size is beta/(alpha + beta) of L - E, that of the data alpha/(alpha + beta).", "price"
)
def parts_swapped(share, alpha, beta):
    left = 1 - alpha / (alpha + beta) * share**-alpha
    return math.inf if left <= 0 else share * (beta / (alpha + beta) / left) ** (1 / beta)


@mistake("That takes the two parts to be equal, which they are where alpha = beta.", "price")
def equal_parts_in_the_price(share, alpha, beta):
    left = 1 - share**-alpha / 2
    return math.inf if left <= 0 else share * (0.5 / left) ** (1 / beta)


@mistake("Where the size alone costs more than all of L - E, no data is enough: return math.inf.", "price")
def never_out_of_reach(share, alpha, beta):
    left = 1 - beta / (alpha + beta) * share**-alpha
    return share * (alpha / (alpha + beta) / abs(left)) ** (1 / beta)


@mistake("A smaller model makes the first part larger: share^-alpha, not share^alpha.", "price")
def sign_of_the_power(share, alpha, beta):
    left = 1 - beta / (alpha + beta) * share**alpha
    return math.inf if left <= 0 else share * (alpha / (alpha + beta) / left) ** (1 / beta)


@also_right("split")
def by_search(C, A, B, alpha, beta):
    low, high = 0.0, 60.0  # of log N; the slope of the loss rises
    for _ in range(200):
        x = (low + high) / 2
        y = math.log(C / 6) - x
        falls = alpha * A * math.exp(-alpha * x) > beta * B * math.exp(-beta * y)
        low, high = (x, high) if falls else (low, x)
    return math.exp(low), C / 6 / math.exp(low)


@also_right("split_scarce")
def by_the_smaller(C, A, B, alpha, beta, most):
    D = float(np.minimum(_split(C, A, B, alpha, beta)[1], most))
    return C / (6 * D), D


@also_right("price")
def by_an_example(share, alpha, beta):
    C = 6e20  # any budget, A and B
    N, D = _split(C, 1.0, 1.0, alpha, beta)
    left = N**-alpha + D**-beta - (share * N) ** -alpha
    if left <= 1e-12 * N**-alpha:
        return math.inf
    return share * left ** (-1 / beta) / D
