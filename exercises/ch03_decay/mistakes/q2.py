"""Known answers to question 2: the half-life of a layer, from outside."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _fit(q, k, v, o, scale=1.0, late=0):
    """The half-life that fits best, on a grid and between its points."""
    age = torch.arange(len(q))[:, None] - torch.arange(len(q)) + late
    scores = scale * q @ k.T

    def error(life):
        decay = (2.0 ** (-age / life)).tril()
        return (decay * scores @ v - o).square().sum().item()

    low, high = 0.0, 7.0
    for _ in range(25):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)


@mistake("That is gamma. The half-life is the number of steps after which gamma^n is one half.")
def gamma_itself(q, k, v, o):
    return 2 ** (-1 / _fit(q, k, v, o))


@mistake("After that many tokens 1/e is left, not a half: multiply by ln 2.")
def mean_life(q, k, v, o):
    return _fit(q, k, v, o) / math.log(2)


@mistake("That is 1/(1 - gamma), the number of tokens in the sum. The half-life is ln 2 / (-ln gamma).")
def window(q, k, v, o):
    return 1 / (1 - 2 ** (-1 / _fit(q, k, v, o)))


@mistake("A slow decay differs from 1 by less than bfloat16 shows in two tokens: use tokens far apart.")
def first_two_tokens(q, k, v, o):
    rest = o[1] - (q[1] @ k[1]) * v[1]
    gamma = ((rest * v[0]).sum() / ((q[1] @ k[0]) * v[0].square().sum())).item()
    return math.log(2) / -math.log(min(max(gamma, 1e-6), 1 - 1e-6))


@mistake("The scores are divided by sqrt K in your fit. Here o = q S, without a scale.")
def with_a_scale(q, k, v, o):
    return _fit(q, k, v, o, scale=q.shape[1] ** -0.5)


@mistake("Half of it: that is where the square of the state has halved. The state itself is asked for.")
def of_the_square(q, k, v, o):
    return _fit(q, k, v, o) / 2


@mistake("Twice as long: that is where a quarter is left.")
def a_quarter(q, k, v, o):
    return 2 * _fit(q, k, v, o)


@mistake("ln 2 is in it already: 2^(-n/h) is one half after h tokens. You multiplied by it once more.")
def shortened_by_ln_2(q, k, v, o):
    return _fit(q, k, v, o) * math.log(2)


@mistake("One decay too many in your fit: a token's own write has not decayed when it is read.")
def one_decay_more(q, k, v, o):
    return _fit(q, k, v, o, late=1)


@mistake("One decay too few in your fit: what a token wrote has decayed once when the next one reads.")
def one_decay_less(q, k, v, o):
    return _fit(q, k, v, o, late=-1)


@mistake(
    "Two tokens say little of a slow decay, in each entry: rounding alone moves it by more. Fit all outputs."
)
def first_two_tokens_by_entries(q, k, v, o):
    rest = o[1] - (q[1] @ k[1]) * v[1]
    gamma = (rest / ((q[1] @ k[0]) * v[0])).mean().abs().item()
    return math.log(2) / -math.log(min(max(gamma, 1e-6), 1 - 1e-6))


@mistake(
    "The output before is not the state: it was read with another query. Carry the state, or fit all outputs."
)
def output_for_state(q, k, v, o):
    rest = o[1:] - (q[1:] * k[1:]).sum(1, keepdim=True) * v[1:]
    gamma = abs(((rest * o[:-1]).sum() / o[:-1].square().sum()).item())
    return math.log(2) / -math.log(min(max(gamma, 1e-6), 1 - 1e-6))


@mistake("A half-life may be up to 300 tokens. Your search ends at 100.")
def search_ends_at_100(q, k, v, o):
    return min(_fit(q, k, v, o), 100.0)


@mistake("A half-life may be much longer than the text. Your search ends at its length.")
def search_ends_with_the_text(q, k, v, o):
    return min(_fit(q, k, v, o), float(len(q)))


@also_right()
def by_least_squares_on_a_grid(q, k, v, o):
    lives = [2 ** (n / 40) for n in range(0, 400)]
    S = torch.zeros(len(lives), q.shape[1], v.shape[1], dtype=q.dtype)
    gamma = torch.tensor([2 ** (-1 / life) for life in lives], dtype=q.dtype)[:, None, None]
    error = torch.zeros(len(lives), dtype=q.dtype)
    for t in range(len(q)):
        S = gamma * S + torch.outer(k[t], v[t])
        error += (q[t] @ S - o[t]).square().sum(-1)
    return lives[int(error.argmin())]
