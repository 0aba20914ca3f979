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


def _reach(logits, layer, first, last, whole=0):
    """The half-life of a bound that is a sum of shares from `first` to `last`, of those from `whole` on."""
    if layer == 0:
        return 0.0
    share = _share(logits)
    return -math.log(2) / math.log(sum(share[first:last]) / sum(share[whole:]))


@mistake(
    "The sum begins at m = 1: the share of layer 0 stays outside, or the top layer's bound is 1.",
    replaces="shortest_half_life",
)
def share_of_layer_0_included(logits, layer):
    return _reach(logits, layer, 0, layer + 1)


@mistake("Your sum runs from 0 to l - 1. It runs from 1 to l.", replaces="shortest_half_life")
def one_layer_early(logits, layer):
    return _reach(logits, layer, 0, layer)


@mistake("Your sum ends at l - 1. The layer's own share is part of its bound.", replaces="shortest_half_life")
def own_share_left_out(logits, layer):
    return _reach(logits, layer, 1, layer)


@mistake(
    "The softmax runs over all layers, layer 0 too. You divided by the others alone.",
    replaces="shortest_half_life",
)
def softmax_without_layer_0(logits, layer):
    return _reach(logits, layer, 1, layer + 1, 1)


@mistake(
    "1/(1 - gamma) is the number of tokens in the sum. The half-life is ln 2/(-ln gamma).",
    replaces="shortest_half_life",
)
def tokens_in_the_sum(logits, layer):
    return 1 / (1 - sum(_share(logits)[1 : layer + 1])) if layer else 0.0


@mistake("The sign is missing: the logarithm of a bound below 1 is negative.", replaces="shortest_half_life")
def sign_lost(logits, layer):
    return -_reach(logits, layer, 1, layer + 1)


@mistake(
    "With a logarithm to base 2 there is no ln 2 above it: h is 1 over -log2 gamma.",
    replaces="shortest_half_life",
)
def two_bases(logits, layer):
    return _reach(logits, layer, 1, layer + 1) * math.log(2)


@mistake(
    "Layer 0 has the bound 0, whose logarithm does not exist. Its half-life is 0.",
    replaces="shortest_half_life",
)
def layer_0_forgotten(logits, layer):
    return -math.log(2) / math.log(sum(_share(logits)[1 : layer + 1]))


@mistake("e^(-1/h) leaves 1/e after h tokens. One half is left if gamma = 2^(-1/h).", replaces="logits_for")
def bounds_of_mean_lives(half_lives):
    bounds = [0.0] + [math.exp(-1 / life) for life in half_lives[1:]]
    return _centred([math.log(1 - bounds[-1])] + [math.log(b - a) for a, b in itertools.pairwise(bounds)])


@mistake(
    "2^(-h) is what is left after h tokens of half-life 1. The bound is 2^(-1/h).", replaces="logits_for"
)
def half_life_as_exponent(half_lives):
    bounds = [0.0] + [0.5**life for life in half_lives[1:]]
    p = [1 - bounds[-1]] + [b - a for a, b in itertools.pairwise(bounds)]
    return _centred([math.log(x) for x in p])


@mistake(
    "1 - 1/(2h) is no half after h tokens, only near it. gamma^h = 1/2 is gamma = 2^(-1/h).",
    replaces="logits_for",
)
def bounds_of_half_a_step(half_lives):
    bounds = [0.0] + [1 - 1 / (2 * life) for life in half_lives[1:]]
    p = [1 - bounds[-1]] + [b - a for a, b in itertools.pairwise(bounds)]
    return _centred([math.log(x) for x in p])


@mistake("The one with mean 0 was asked for. In yours the first number is 0.", replaces="logits_for")
def first_is_zero(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    logs = [math.log(1 - bounds[-1])] + [math.log(b - a) for a, b in itertools.pairwise(bounds)]
    return [x - logs[0] for x in logs]


@mistake(
    "log(p/(1 - p)) inverts a sigmoid. A softmax is inverted by log p, up to a constant.",
    replaces="logits_for",
)
def sigmoid_inverted(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    p = [1 - bounds[-1]] + [b - a for a, b in itertools.pairwise(bounds)]
    return _centred([math.log(x / (1 - x)) for x in p])


@mistake("Those are the shares. The softmax makes them of their logarithms.", replaces="logits_for")
def shares_themselves(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    return _centred([1 - bounds[-1]] + [b - a for a, b in itertools.pairwise(bounds)])


@mistake("The logarithm of a softmax is to base e. Yours is to base 2.", replaces="logits_for")
def logarithms_to_base_two(half_lives):
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    p = [1 - bounds[-1]] + [b - a for a, b in itertools.pairwise(bounds)]
    return _centred([math.log2(x) for x in p])


@mistake(
    "exp overflows above 709, and logits may be larger. Subtract the largest first; the softmax stays as it is.",
    replaces="shortest_half_life",
)
def softmax_that_overflows(logits, layer):
    if layer == 0:
        return 0.0
    share = [math.exp(x) for x in logits]
    return -math.log(2) / math.log(sum(share[1 : layer + 1]) / sum(share))


@mistake(
    "Your bound ends at 0.999. It may come nearer to 1, up to one part in a million: half-lives are long then.",
    replaces="shortest_half_life",
)
def bound_ends_at_0_999(logits, layer):
    return _life(min(sum(_share(logits)[1 : layer + 1]), 0.999))


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
