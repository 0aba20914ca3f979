"""Known answers to question 2: find the misprint."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _parameters(L, D, H, H_kv, F, keys=1.0, mlp=3, out=1):
    """Parameters, with one of the counts changed."""
    return L * ((1 + out) * D * D + keys * 2 * D * (D // H) * H_kv + mlp * D * F)


@mistake("Keys and values have H_kv heads, not H: they are narrower than D.", replaces="n_parameters")
def all_heads_have_keys(L, D, H, H_kv, F):
    return _parameters(L, D, H, H, F)


@mistake("Keys and values have a matrix each.", replaces="n_parameters")
def keys_alone(L, D, H, H_kv, F):
    return _parameters(L, D, H, H_kv, F, 0.5)


@mistake(
    "A gated MLP has three matrices: one for the gate, one beside it, one back.", replaces="n_parameters"
)
def two_matrices_in_the_mlp(L, D, H, H_kv, F):
    return _parameters(L, D, H, H_kv, F, mlp=2)


@mistake("After the heads are merged there is an output matrix.", replaces="n_parameters")
def without_output(L, D, H, H_kv, F):
    return _parameters(L, D, H, H_kv, F, out=0)


@mistake("H_kv heads of width D/H are D H_kv / H wide, not D / H_kv.", replaces="n_parameters")
def divided_by_shared_heads(L, D, H, H_kv, F):
    return L * (2 * D * D + 2 * D * D / H_kv + 3 * D * F)


@mistake("That is one layer.", replaces="n_parameters")
def one_layer(L, D, H, H_kv, F):
    return _parameters(1, D, H, H_kv, F)


def _flops(T, L, D, H, H_kv, F, matrices=6, scores=12.0):
    """Operations, with other factors."""
    return matrices * _parameters(L, D, H, H_kv, F) + scores * L * T * D


@mistake("That is the forward pass. A backward pass costs two more of the same.", replaces="flops_per_token")
def forward_alone(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 2, 4)


@mistake("A multiply-add is two operations.", replaces="flops_per_token")
def multiply_adds(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 3, 6)


@mistake(
    "Beside the scores there are the weighted values, with as many operations.", replaces="flops_per_token"
)
def scores_alone(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 6, 6)


@mistake(
    "That is 6 N: what queries, keys and values do with each other is missing.", replaces="flops_per_token"
)
def six_n(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 6, 0)


@mistake(
    "Sharing keys saves parameters and cache. There are still H tables of scores, each of the full length.",
    replaces="flops_per_token",
)
def fewer_scores(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 6, 12 * H_kv / H)


@mistake(
    "The backward pass of the scores is missing: it has two products for each one.",
    replaces="flops_per_token",
)
def scores_forward_alone(T, L, D, H, H_kv, F):
    return _flops(T, L, D, H, H_kv, F, 6, 4)


@mistake("A token was asked for, not a sequence of T.", replaces="flops_per_token")
def whole_sequence(T, L, D, H, H_kv, F):
    return T * _flops(T, L, D, H, H_kv, F)


@also_right(replaces="n_parameters")
def by_layers_of_torch(L, D, H, H_kv, F):
    with torch.device("meta"):
        sizes = [(D, D), (D, D // H * H_kv), (D, D // H * H_kv), (D, D), (D, F), (D, F), (F, D)]
        layer = [torch.nn.Linear(*size, bias=False) for size in sizes]
    return L * sum(one.weight.numel() for one in layer)


@also_right(replaces="flops_per_token")
def piece_by_piece(T, L, D, H, H_kv, F):
    width = D // H
    forward = sum(2 * H * width * T for _ in ("scores", "values"))
    for rows in (D, H_kv * width, H_kv * width, D, F, F, F):
        forward += 2 * D * rows
    return 3 * L * forward
