"""Known answers to question 4: bounds by design."""

import math

from linattn_exercises.known_mistakes import also_right, mistake
import itertools


def _share(logits):
    """The softmax."""
    top = max(logits)
    share = [math.exp(x - top) for x in logits]
    return [x / sum(share) for x in share]


def _life(bound):
    """The half-life of a gate at its bound."""
    return math.log(2) / -math.log(bound) if 0 < bound < 1 else (0.0 if bound <= 0 else math.inf)


def _centred(x):
    """The list, of mean 0."""
    return [one - sum(x) / len(x) for one in x]


@mistake(
    "That sum begins at m = 0, as it is printed: then the top layer's bound is 1.",
    replaces="shortest_half_life",
)
def printed_sum(logits, layer):
    return _life(min(sum(_share(logits)[: layer + 1]), 1 - 1e-15))


@mistake(
    "The bound of a layer is the sum of the shares up to it, not its own share.",
    replaces="shortest_half_life",
)
def own_share_alone(logits, layer):
    return _life(_share(logits)[layer] if layer else 0.0)


@mistake("That is the mean life, after which 1/e is left.", replaces="shortest_half_life")
def mean_life(logits, layer):
    return _life(sum(_share(logits)[1 : layer + 1])) / math.log(2)


@mistake("That is the bound. How many tokens until a power of it is one half?", replaces="shortest_half_life")
def bound_itself(logits, layer):
    return sum(_share(logits)[1 : layer + 1])


@mistake("The softmax is gone: the logits themselves are no shares.", replaces="shortest_half_life")
def without_softmax(logits, layer):
    return _life(
        min(max(sum(1 / (1 + math.exp(-x)) for x in logits[1 : layer + 1]) / len(logits), 0.0), 1 - 1e-12)
    )


@mistake("Logarithms of the bounds: but the shares are the steps between them.", replaces="logits_for")
def logs_of_bounds(half_lives):
    bounds = [2 ** (-1 / life) for life in half_lives[1:]]
    return _centred([math.log(1 - bounds[-1]), *map(math.log, bounds)])


@mistake("Right up to a constant; the one with mean 0 was asked for.", replaces="logits_for")
def not_centred(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    return [math.log(1 - bounds[-1])] + [math.log(b - a) for a, b in itertools.pairwise(bounds)]


@mistake(
    "A bound of 1 - 1/h leaves half after about 0.7 h tokens. gamma^h = 1/2 means gamma = 2^(-1/h).",
    replaces="logits_for",
)
def linear_bounds(half_lives):
    bounds = [0.0] + [1 - 1 / (life + 1) for life in half_lives[1:]]
    return _centred([math.log(1 - bounds[-1])] + [math.log(b - a) for a, b in itertools.pairwise(bounds)])


@mistake(
    "What is left over, 1 minus the top bound, is the share of layer 0, not of the top layer.",
    replaces="logits_for",
)
def rest_at_the_top(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    return _centred([math.log(b - a) for a, b in itertools.pairwise(bounds)] + [math.log(1 - bounds[-1])])


@also_right(replaces="logits_for")
def from_the_last_layer_down(half_lives):
    left, steps = 1.0, []
    for life in reversed(half_lives[1:]):
        steps.append(left - 2 ** (-1 / life))  # what lies above this bound
        left = 2 ** (-1 / life)
    steps.append(left)
    # steps: above the top, then between bounds, then below the first
    shares = [steps[0], steps[-1], *reversed(steps[1:-1])]
    return _centred([math.log(x) for x in shares])


@also_right(replaces="shortest_half_life")
def by_powers(logits, layer):
    bound = sum(_share(logits)[1 : layer + 1])
    return 1 / -math.log2(bound) if layer else 0.0
