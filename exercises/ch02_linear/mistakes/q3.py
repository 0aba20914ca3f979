"""Known answers to question 3: the denominator that vanishes."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "Numbers just above -1 are 2^-bits apart. Half of that, 2^-(bits + 1), already rounds to -1.",
    replaces="zero_below",
)
def without_the_half(bits):
    return -bits * math.log(2)


@mistake("That is in powers of two. e^x = 2^y means x = y log 2.", replaces="zero_below")
def in_powers_of_two(bits):
    return -(bits + 1.0)


@mistake("The size is right. x is negative.", replaces="zero_below")
def wrong_sign(bits):
    return (bits + 1) * math.log(2)


@mistake(
    "That is the spacing of numbers at 1. Just above -1, on the side of 0, they are twice as dense.",
    replaces="zero_below",
)
def spacing_above_one(bits):
    return -(bits - 1) * math.log(2)


@mistake(
    "The features are still 0, as in the suspect: they are rounded before anything else can help.",
    replaces="repaired",
)
def unchanged(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "An epsilon turns NaN into 0. The output is a mean of values, and 0 is not that mean.",
    replaces="repaired",
)
def epsilon(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / (weight.sum(-1, keepdim=True) + 1e-6)


@mistake(
    "A floor under the features makes small ones all alike: the weights are no longer right.",
    replaces="repaired",
)
def floor(q, k, v):
    a, b = ((torch.nn.functional.elu(x) + 1).clamp(min=1e-6) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("NaN replaced by 0 is still the wrong output, only harder to notice.", replaces="repaired")
def nan_hidden(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return (weight @ v / weight.sum(-1, keepdim=True)).nan_to_num(0.0)


@mistake(
    "The features are right now. Near -60 their products still vanish: e^-120 is no float32. "
    "What can be multiplied into numerator and denominator?",
    replaces="repaired",
)
def two_branches(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("float64 moves the limit from -17 to -37. It does not remove it.", replaces="repaired")
def suspect_in_double(q, k, v):
    a, b = (torch.nn.functional.elu(x.double()) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return (weight @ v.double() / weight.sum(-1, keepdim=True)).float()


@mistake("A floor under the denominator turns NaN into 0, which is not the mean either.", replaces="repaired")
def floor_under_the_denominator(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True).clamp(min=1e-30)


@mistake(
    "One maximum for all queries cancels, and does not lift a query that is small beside another: products vanish there.",
    replaces="repaired",
)
def one_maximum_for_all_queries(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    weight = ((a - a.max()).exp() @ b.exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "One maximum for all keys cancels, but early keys are then lost beside a later, larger one.",
    replaces="repaired",
)
def one_maximum_for_all_keys(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    weight = (a.exp() @ (b - b.max()).exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "One maximum for all queries and one for all keys cancel, and lift nothing that is small beside others of its kind. "
    "Each query may have a factor of its own.",
    replaces="repaired",
)
def one_maximum_for_each_kind(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = ((a / a.max()) @ (b / b.max()).T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("A factor for each key does not cancel: it changes how much that key counts.", replaces="repaired")
def every_key_rescaled(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    a, b = ((x - x.amax(-1, keepdim=True)).exp() for x in (a, b))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "Not only zeros are wrong: just above the edge elu(x) + 1 has one or two digits left. Use e^x for all x < 0.",
    replaces="repaired",
)
def only_zeros_replaced(q, k, v):
    def feature(x):
        f = torch.nn.functional.elu(x) + 1
        return torch.where(f == 0, x.exp(), f)

    a, b = feature(q), feature(k)
    weight = (a / a.amax(-1, keepdim=True) @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("Where an entry is exactly 0, both of your branches give 0. elu(0) + 1 is 1.", replaces="repaired")
def zero_in_neither_branch(q, k, v):
    q, k = q.double(), k.double()
    a, b = ((x > 0) * (x + 1) + (x < 0) * x.clamp(max=0).exp() for x in (q, k))
    weight = (a @ b.T).tril()
    return (weight @ v.double() / weight.sum(-1, keepdim=True)).float()


@mistake(
    "The constant is so large that sums of the largest features overflow. A factor of its own brings each query to a "
    "size of 1.",
    replaces="repaired",
)
def one_constant_for_all(q, k, v):
    a, b = (2.0**58 * torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@also_right(replaces="repaired")
def in_double(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q.double(), k.double()))
    weight = (a @ b.T).tril()
    return (weight @ v.double() / weight.sum(-1, keepdim=True)).float()


@also_right(replaces="repaired")
def as_a_softmax(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    score = (a[:, None] + b).logsumexp(-1)  # the logarithm of the weight
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v
