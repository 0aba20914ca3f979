"""Known answers to question 5: one bad run."""

import math
from itertools import combinations, pairwise
from statistics import median

import numpy as np
import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _medians(N, L, middle=np.median, pairs=None):
    x, y = np.log(N), np.log(L)
    pairs = list(combinations(range(len(x)), 2)) if pairs is None else pairs
    a = -float(middle(np.array([(y[j] - y[i]) / (x[j] - x[i]) for i, j in pairs])))
    return float(np.exp(middle(y + a * x))), a


def _squares(N, L):
    slope, start = np.polyfit(np.log(N), np.log(L), 1)
    return math.exp(start), -float(slope)


def _highest(N, L, law):
    return int((np.log(L) - np.log(law[0]) + law[1] * np.log(N)).argmax())


def _without(N, L, i):
    return _squares(N[:i] + N[i + 1 :], L[:i] + L[i + 1 :])


@mistake("That is least squares, which the bad run pulls. Take the median of the slopes.")
def least_squares(N, L):
    return _squares(N, L)


@mistake("That is the mean of the slopes. The bad run pulls a mean; a median it does not.")
def mean_of_the_slopes(N, L):
    return _medians(N, L, np.mean)


@mistake("torch.median gives the lower of the middle two of an even number, here their mean is asked for.")
def lower_median(N, L):
    return _medians(N, L, lambda values: float(torch.tensor(values).median()))


@mistake("Those are slopes between neighbours alone. Take all pairs.")
def neighbours(N, L):
    return _medians(N, L, pairs=list(pairwise(np.argsort(N).tolist())))


@mistake("a is what falls, minus the median slope: it is above 0.")
def sign(N, L):
    k, a = _medians(N, L)
    return k, -a


@mistake("That is log k.")
def logarithm_of_k(N, L):
    k, a = _medians(N, L)
    return math.log(k), a


@mistake("From the least squares line another run may lie farthest: the bad one has pulled it.", "suspect")
def farthest_from_least_squares(N, L):
    return _highest(N, L, _squares(N, L))


@mistake("That is the run that lies farthest below the line. A bad run has too high a loss.", "suspect")
def farthest_below(N, L):
    k, a = _medians(N, L)
    return int((np.log(L) - np.log(k) + a * np.log(N)).argmin())


@mistake("That is the run with the highest loss, which a small model has without being bad.", "suspect")
def highest_loss(N, L):
    return int(np.argmax(L))


@mistake("Counted from 1: the first run has the index 0.", "suspect")
def from_one(N, L):
    return _highest(N, L, _medians(N, L)) + 1


@mistake("That is the line through all runs, with the bad one.", "refit")
def nothing_left_out(N, L):
    return _squares(N, L)


@mistake("That is the line of medians. Asked was least squares, without the suspect.", "refit")
def medians_again(N, L):
    return _medians(N, L)


@mistake(
    "That leaves out the run with the largest residual from least squares, which may be a good one.", "refit"
)
def another_left_out(N, L):
    return _without(N, L, _highest(N, L, _squares(N, L)))


@mistake("That is the line of medians through the runs that are left.", "refit")
def medians_of_the_rest(N, L):
    i = _highest(N, L, _medians(N, L))
    return _medians(N[:i] + N[i + 1 :], L[:i] + L[i + 1 :])


@mistake("That is the run farthest from the line on either side. A bad run is above it.", "suspect")
def farthest_on_either_side(N, L):
    k, a = _medians(N, L)
    return int(np.abs(np.log(L) - np.log(k) + a * np.log(N)).argmax())


@mistake("That measures in nats. In logarithms another run is farther above the line.", "suspect")
def in_nats(N, L):
    k, a = _medians(N, L)
    return int((np.array(L) - k * np.array(N) ** -a).argmax())


@mistake(
    "That is farthest from a line through the others, by least squares. Take the line of medians.", "suspect"
)
def left_out_in_turn(N, L):
    above = [L[i] / _predict(N[:i] + N[i + 1 :], L[:i] + L[i + 1 :], N[i]) for i in range(len(N))]
    return int(np.argmax(above))


@mistake(
    "From another line, of the neighbours' slopes, or of all runs but one, another run is farthest above. Take "
    "the line of question 1.",
    "suspect",
)
def farthest_from_neighbours(N, L):
    return _highest(N, L, _medians(N, L, pairs=list(pairwise(np.argsort(N).tolist()))))


def _predict(N, L, at):
    k, a = _squares(N, L)
    return k * at**-a


@also_right("robust")
def by_a_loop(N, L):
    x, y = [math.log(n) for n in N], [math.log(v) for v in L]
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i in range(len(x)) for j in range(i)]
    a = -median(slopes)
    return math.exp(median(v + a * u for u, v in zip(x, y, strict=True))), a


@also_right("refit")
def by_deleting(N, L):
    return _without(N, L, _highest(N, L, _medians(N, L)))


@mistake(
    "You look the run up by its loss. Another run may have the same loss; count places, not values.",
    replaces="suspect",
)
def looked_up_by_loss(N, L):
    k, a = _medians(N, L)
    return list(L).index(L[int((np.log(L) - np.log(k) + a * np.log(N)).argmax())])
