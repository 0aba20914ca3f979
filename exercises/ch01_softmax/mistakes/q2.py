"""Known answers to question 2: a loss that is too good."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "This is the suspect, as it was. Change the last key and watch the first output.", replaces="repaired"
)
def as_it_was(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight @ v


@mistake(
    "Right on paper: dividing by the row's sum takes the future out. Where a future key has all the weight, "
    "it divides 0 by 0. Hide the scores before the softmax.",
    replaces="repaired",
)
def divided_afterwards(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake(
    "An epsilon turns 0/0 into 0, and the visible keys still have no weight. Hide the scores before the softmax.",
    replaces="repaired",
)
def divided_with_epsilon(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight / (weight.sum(-1, keepdim=True) + 1e-12) @ v


@mistake("exp overflows above 709. Subtract the maximum of the scores that are visible.", replaces="repaired")
def plain_exponential(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).exp().tril()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake("A score of 0 is not hidden: it has the weight exp(0). Use minus infinity.", replaces="repaired")
def zero_scores(q, k, v):
    return (q @ k.T * q.shape[-1] ** -0.5).tril().softmax(-1) @ v


@mistake(
    "Minus a thousand is not minus infinity: a hidden score near 1000 comes out near 0, beside the visible ones.",
    replaces="repaired",
)
def a_thousand_less(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    return (score - 1e3 * torch.ones_like(score).triu(1)).softmax(-1) @ v


@mistake(
    "A large negative number is not minus infinity: scores near -1000 are below it.", replaces="repaired"
)
def finite_mask(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    return score.masked_fill(torch.ones_like(score).triu(1).bool(), -100.0).softmax(-1) @ v


@mistake(
    "Your mask hides the token itself, and the first token has nothing left to see.", replaces="repaired"
)
def strictly_before(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(0).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@mistake("Your mask is transposed: it hides the past and shows the future.", replaces="repaired")
def past_hidden(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).tril(-1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@mistake("The mask is right, and the scale 1/sqrt K is gone.", replaces="repaired")
def scale_lost(q, k, v):
    score = q @ k.T
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@mistake(
    "A visible score may be exactly 0 too. Hide by place, not by value: make the mask of ones, not of scores.",
    replaces="repaired",
)
def zeros_taken_for_hidden(q, k, v):
    score = (q @ k.T * q.shape[-1] ** -0.5).tril()
    return score.masked_fill(score == 0, -torch.inf).softmax(-1) @ v


@mistake(
    "One maximum for all rows: a row whose scores lie far below it has exponentials of 0 alone, and divides 0 by 0. "
    "Subtract from each row the maximum of its own visible scores.",
    replaces="repaired",
)
def one_maximum_for_all_rows(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    score = score.masked_fill(torch.ones_like(score).triu(1).bool(), -torch.inf)
    weight = (score - score.max()).exp()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake(
    "The token's own score is no maximum: another visible one may be 800 larger, and its exponential overflows.",
    replaces="repaired",
)
def own_score_subtracted(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    seen = score.masked_fill(torch.ones_like(score).triu(1).bool(), -torch.inf)
    weight = (seen - score.diagonal()[:, None]).exp()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake(
    "Your softmax runs over queries. The weights of one query add up to 1 over its keys: dim=-1.",
    replaces="repaired",
)
def softmax_over_queries(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(0) @ v


@mistake("Your mask is upside down: it hides what a token may see, and shows the rest.", replaces="repaired")
def mask_inverted(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    seen = torch.ones_like(score).tril().bool()
    return score.masked_fill(seen, -torch.inf).softmax(-1) @ v


@mistake("The weights are transposed: row t of the output takes the weights of query t.", replaces="repaired")
def weights_transposed(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1).T @ v


@mistake("The scale is 1 over the root of the keys' width. You took that of the values.", replaces="repaired")
def scaled_by_the_values(q, k, v):
    score = q @ k.T * v.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@also_right(replaces="repaired")
def row_by_row(q, k, v):
    rows = []
    for t in range(len(q)):
        x = k[: t + 1] @ q[t] / math.sqrt(len(q[t]))
        w = (x - x.max()).exp()
        rows.append(w @ v[: t + 1] / w.sum())
    return torch.stack(rows)
