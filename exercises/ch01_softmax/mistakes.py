"""Planted answers to ``ch01_softmax``: wrong ones, each with its hint, and right ones written in another way.

A check that meets a wrong result compares it with what these give on the same inputs; that is how it knows which
hint to show. Each function stands alone, as a reader would have written it.
"""

import math

import torch

from linattn_exercises.questions import also_right, mistake

# --- q1: what the square root assumes -------------------------------------------------------------------------


@mistake(
    "q1",
    "That is the size for independent q and k. Here the mean of the score is not 0.",
    of="predicted_size",
)
def only_the_square_root(K, rho):
    return K**0.5


@mistake(
    "q1",
    "That is the mean of the score alone. At rho = 0 it is 0, and yet scores have size sqrt K.",
    of="predicted_size",
)
def only_the_mean(K, rho):
    return rho * K


@mistake(
    "q1",
    "Almost: the variance of one term is not 1. With q = k it is that of a squared normal number, which is 2.",
    of="predicted_size",
)
def variance_of_one(K, rho):
    return math.sqrt(rho**2 * K**2 + K)


@mistake(
    "q1",
    "You took |k|^2 to be K. It is so only on average: its variance is 2 K, and it enters the score.",
    of="predicted_size",
)
def length_of_the_key_fixed(K, rho):
    return math.sqrt(rho**2 * K**2 + (1 - rho**2) * K)


@mistake(
    "q1", "That is the standard deviation. The score has a mean too, and both count.", of="predicted_size"
)
def only_the_spread(K, rho):
    return math.sqrt(K * (1 + rho**2))


@mistake("q1", "That is the mean square itself. Take the root.", of="predicted_size")
def without_the_root(K, rho):
    return rho**2 * K**2 + K * (1 + rho**2)


@mistake("q1", "That is the scaled score. The question is about q . k as it is.", of="predicted_size")
def already_scaled(K, rho):
    return math.sqrt(rho**2 * K + 1 + rho**2)


@mistake("q1", "Samples are a measurement. The prediction is a formula in K and rho.", of="predicted_size")
def prediction_by_samples(K, rho):
    gen = torch.Generator().manual_seed(0)
    k, n = torch.randn(2, 160_000 // K, K, generator=gen, dtype=torch.float64)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).square().mean().sqrt().item()


@mistake("q1", "The formula is the prediction. Draw the vectors and measure.", of="measured_size")
def formula_as_measurement(K, rho, samples, seed):
    return math.sqrt(rho**2 * K**2 + K * (1 + rho**2))


@mistake("q1", "That is the mean of |q . k|. Square first, take the mean, then the root.", of="measured_size")
def mean_of_sizes(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).abs().mean().item()


@mistake("q1", "That is the standard deviation: torch's std subtracts the mean first.", of="measured_size")
def spread_measured(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).std().item()


@mistake(
    "q1", "The noise has the wrong size: entries of q have variance 1 only with the root.", of="measured_size"
)
def noise_without_the_root(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) * n) * k).sum(-1).square().mean().sqrt().item()


@mistake("q1", "That is the mean square. Take the root.", of="measured_size")
def root_forgotten(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).square().mean().item()


@mistake("q1", "You divided by sqrt K. The question is about q . k as it is.", of="measured_size")
def scaled_score(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).div(K**0.5).square().mean().sqrt().item()


@mistake("q1", "The score is a sum over the K entries. You took their mean.", of="measured_size")
def mean_over_entries(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n = torch.randn(2, samples, K, generator=gen)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).mean(-1).square().mean().sqrt().item()


@mistake(
    "q1",
    "You drew q and k apart, so they are independent whatever rho is. The k inside q must be the same k.",
    of="measured_size",
)
def another_key(K, rho, samples, seed):
    gen = torch.Generator().manual_seed(seed)
    k, n, other = torch.randn(3, samples, K, generator=gen)
    return ((rho * other + (1 - rho**2) ** 0.5 * n) * k).sum(-1).square().mean().sqrt().item()


@also_right("q1", of="predicted_size")
def size_of_terms(K, rho):
    pairs = K * (K - 1) * rho**2  # terms q_c k_c q_d k_d with c != d
    return (pairs + K * (2 * rho**2 + 1)) ** 0.5


@also_right("q1", of="measured_size")
def measured_with_numpy(K, rho, samples, seed):
    import numpy as np

    rng = np.random.default_rng(seed)
    k, n = rng.normal(size=(2, samples, K))
    score = np.einsum("sk,sk->s", rho * k + np.sqrt(1 - rho * rho) * n, k)
    return float(np.sqrt(np.mean(score**2)))


# --- q2: a loss that is too good ------------------------------------------------------------------------------


@mistake(
    "q2", "This is the suspect, as it was. Change the last key and watch the first output.", of="repaired"
)
def as_it_was(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight @ v


@mistake(
    "q2",
    "Right on paper: dividing by the row's sum takes the future out. Where a future key has all the weight, "
    "it divides 0 by 0. Hide the scores before the softmax.",
    of="repaired",
)
def divided_afterwards(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake(
    "q2",
    "An epsilon turns 0/0 into 0, and the visible keys still have no weight. Hide the scores before the softmax.",
    of="repaired",
)
def divided_with_epsilon(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).softmax(-1).tril()
    return weight / (weight.sum(-1, keepdim=True) + 1e-12) @ v


@mistake("q2", "exp overflows above 709. Subtract the maximum of the scores that are visible.", of="repaired")
def plain_exponential(q, k, v):
    weight = (q @ k.T * q.shape[-1] ** -0.5).exp().tril()
    return weight / weight.sum(-1, keepdim=True) @ v


@mistake(
    "q2", "0 times infinity is not a number. Put minus infinity in with masked_fill or where.", of="repaired"
)
def infinity_times_a_mask(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    return (score + torch.ones_like(score).triu(1) * -torch.inf).softmax(-1) @ v


@mistake("q2", "A score of 0 is not hidden: it has the weight exp(0). Use minus infinity.", of="repaired")
def zero_scores(q, k, v):
    return (q @ k.T * q.shape[-1] ** -0.5).tril().softmax(-1) @ v


@mistake(
    "q2", "A large negative number is not minus infinity: scores near -1000 are below it.", of="repaired"
)
def finite_mask(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    return score.masked_fill(torch.ones_like(score).triu(1).bool(), -100.0).softmax(-1) @ v


@mistake(
    "q2", "Your mask hides the token itself, and the first token has nothing left to see.", of="repaired"
)
def strictly_before(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(0).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@mistake("q2", "Your mask is transposed: it hides the past and shows the future.", of="repaired")
def past_hidden(q, k, v):
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).tril(-1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@mistake("q2", "The mask is right, and the scale 1/sqrt K is gone.", of="repaired")
def scale_lost(q, k, v):
    score = q @ k.T
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@also_right("q2", of="repaired")
def row_by_row(q, k, v):
    rows = []
    for t in range(len(q)):
        x = k[: t + 1] @ q[t] / math.sqrt(len(q[t]))
        w = (x - x.max()).exp()
        rows.append(w @ v[: t + 1] / w.sum())
    return torch.stack(rows)


# --- q3: the cache of a real model ----------------------------------------------------------------------------


@mistake("q3", "That counts keys or values. Both are kept.", of="cache_bytes")
def keys_alone(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake(
    "q3",
    "That is the chapter's 2 T D for every layer. Real models differ from it in three ways: fewer heads for keys and "
    "values, heads of a width of their own, layers with a window.",
    of="cache_bytes",
)
def as_in_the_chapter(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    return 2 * batch * tokens * config["hidden_size"] * config["num_hidden_layers"] * size


@mistake(
    "q3", "That counts the query heads. Only keys and values are kept: num_key_value_heads.", of="cache_bytes"
)
def query_heads(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * batch * kept * heads * width * size


@mistake(
    "q3",
    "That takes hidden_size over the query heads as the head width. Where head_dim is given, it holds "
    "(in Gemma 2 the two differ).",
    of="cache_bytes",
)
def width_from_hidden_size(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * batch * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake("q3", "You let every layer keep everything. A layer with a window forgets.", of="cache_bytes")
def no_window(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return 2 * batch * config["num_hidden_layers"] * tokens * kv_heads * width * size


@mistake(
    "q3", "You gave every layer the window. Layers of type full_attention keep everything.", of="cache_bytes"
)
def window_everywhere(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    kept = config["num_hidden_layers"] * min(tokens, config.get("sliding_window") or tokens)
    return 2 * batch * kept * kv_heads * width * size


@mistake("q3", "That is one sequence. Each of the batch has a cache of its own.", of="cache_bytes")
def one_sequence(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake("q3", "You took two bytes a number for every model. torch_dtype says how many.", of="cache_bytes")
def always_two_bytes(config, tokens, batch):
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * batch * kept * (config.get("num_key_value_heads") or heads) * width * 2


@mistake(
    "q3",
    "Dividing by the bytes of one token is right only while every layer still grows. A window stops growing.",
    of="most_tokens",
)
def bytes_of_one_token(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return free_bytes // (2 * batch * config["num_hidden_layers"] * kv_heads * width * size)


@mistake("q3", "That is the number for one sequence. The batch shares the memory.", of="most_tokens")
def for_one_sequence(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * (config.get("num_key_value_heads") or heads) * width * size  # a token of one layer
    layers, window = config["num_hidden_layers"], config.get("sliding_window")
    full = (config.get("layer_types") or []).count("full_attention") if window else layers
    if not window or free_bytes < layers * window * one:
        return free_bytes // (layers * one)
    return (free_bytes - (layers - full) * window * one) // (full * one) if full else math.inf


@also_right("q3", of="most_tokens")
def solved_by_hand(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size  # a token of one layer
    layers, window = config["num_hidden_layers"], config.get("sliding_window")
    full = (config.get("layer_types") or []).count("full_attention") if window else layers
    if not window or free_bytes < layers * window * one:
        return free_bytes // (layers * one)
    return (free_bytes - (layers - full) * window * one) // (full * one) if full else math.inf


# --- q4: causal online softmax, over tiles --------------------------------------------------------------------


@mistake("q4", "There is no causal mask: every query saw all keys.")
def sees_the_future(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = q @ k[now].T * K**-0.5
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "Your mask hides the token itself. Key t is visible to query t.")
def hides_itself(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now >= torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "What was gathered before a larger maximum came was not rescaled: neither d nor u.")
def never_rescaled(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        m = torch.maximum(m, x.amax(1, keepdim=True))
        w = (x - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ v[now]
    return u / d, (m + d.log()).flatten()


@mistake(
    "q4", "The denominator is rescaled, the numerator u is not. Both were measured against the old maximum."
)
def numerator_not_rescaled(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "The last tile is dropped when it is shorter than the others.")
def drops_the_last_tile(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T - T % tile).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "The scale 1/sqrt K is missing.")
def without_scale(q, k, v, tile):
    T = len(q)
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "The scale is applied twice: that is 1/K.")
def scaled_twice(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T / K).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "q4",
    "The maximum was taken over hidden keys too. A large hidden score then makes all visible exponentials 0. "
    "Mask before you take the maximum.",
)
def maximum_of_the_hidden(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = q @ k[now].T * K**-0.5
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp() * (now <= torch.arange(T)[:, None])
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "Every tile has the mask of the first. Key c of a tile stands at start + c: mask by position.")
def mask_of_the_first_tile(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for start in range(0, T, tile):
        x = q @ k[start : start + tile].T * K**-0.5
        x = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[start : start + tile], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "u is rescaled, the denominator d is not. Both were measured against the old maximum.")
def denominator_not_rescaled(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "q4",
    "You take the maximum of each tile as the new reference. Where it is minus infinity or smaller than before, "
    "nothing is left to measure against: keep the larger of the two.",
)
def maximum_of_the_tile(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = x.amax(1, keepdim=True)
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "q4", "The running maximum starts at 0. Where all scores are near -1000, all exponentials are then 0."
)
def starts_at_zero(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.zeros(T, 1).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("q4", "No maximum is subtracted, so large scores overflow and small ones vanish.")
def plain_exponentials(q, k, v, tile):
    T, K = q.shape
    d, u = torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        w = (q @ k[now].T * K**-0.5).exp().masked_fill(now > torch.arange(T)[:, None], 0)
        d, u = d + w.sum(1, keepdim=True), u + w @ v[now]
    return u / d, d.log().flatten()


@mistake("q4", "The output is right. The log-sum-exp lacks the maximum that was subtracted.")
def maximum_not_given_back(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, d.log().flatten()


@mistake("q4", "You returned u and d as they are. The output is u / d.")
def not_divided(q, k, v, tile):
    T, K = q.shape
    m, d, u = torch.full((T, 1), -torch.inf).double(), torch.zeros(T, 1).double(), torch.zeros_like(v)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u, (m + d.log()).flatten()


@mistake(
    "q4",
    "The numbers are right, but a tensor is too large: the table of scores, a T x T mask, or a product [T, tile, V].",
)
def whole_table(q, k, v, tile):
    x = q @ k.T * q.shape[1] ** -0.5
    x = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf)
    m = x.amax(1, keepdim=True)
    w = (x - m).exp()
    d = w.sum(1, keepdim=True)
    return w @ v / d, (m + d.log()).flatten()


@also_right("q4")
def query_by_query(q, k, v, tile):
    outputs, sums = [], []
    for t in range(len(q)):
        m, d, u = -math.inf, 0.0, torch.zeros_like(v[0])
        for start in range(0, t + 1, tile):
            keys = slice(start, min(start + tile, t + 1))
            x = k[keys] @ q[t] / math.sqrt(q.shape[1])
            new = max(m, x.max().item())
            shrink, w = math.exp(m - new), (x - new).exp()
            d, u, m = shrink * d + w.sum().item(), shrink * u + w @ v[keys], new
        outputs.append(u / d)
        sums.append(m + math.log(d))
    return torch.stack(outputs), sums


@also_right("q4")
def running_mean(q, k, v, tile):
    T, K = q.shape
    log_sum = torch.full((T,), -torch.inf, dtype=q.dtype)
    mean = torch.zeros_like(v)
    for start in range(0, T, tile):
        late = torch.arange(T)[start:]  # earlier queries see nothing of this tile
        x = q[start:] @ k[start : start + tile].T / K**0.5
        x[late[:, None] < torch.arange(start, start + x.shape[1])] = -torch.inf
        top = x.max(1).values
        w = torch.exp(x - top[:, None])
        tile_sum = top + w.sum(1).log()
        new = torch.logaddexp(log_sum[start:], tile_sum)
        tile_mean = w @ v[start : start + tile] / w.sum(1, keepdim=True)
        keep = torch.exp(log_sum[start:] - new)[:, None]
        mean[start:] = keep * mean[start:] + (1 - keep) * tile_mean
        log_sum[start:] = new
    return mean, log_sum


# --- q5: two readers of one book ------------------------------------------------------------------------------


@mistake("q5", "Added as they are: the two were measured against different maxima.")
def added(a, b):
    return max(a[0], b[0]), a[1] + b[1], a[2] + b[2]


@mistake("q5", "d is rescaled, u is not. Both are sums of exp(x - m).")
def only_d_rescaled(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], a[2] + b[2]


@mistake("q5", "The reference must be the larger maximum; with the smaller one exponentials overflow.")
def smaller_maximum(a, b):
    m = min(a[0], b[0])
    f, g = (torch.tensor(x - m).exp().item() if x > m else 1.0 for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("q5", "The factor is upside down: what has the smaller maximum must shrink, by exp(m_own - m).")
def factor_upside_down(a, b):
    m = max(a[0], b[0])
    f, g = (torch.tensor(m - x).exp().item() for x in (a[0], b[0]))
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("q5", "Right while somebody has read a key. For two empty triples -inf - (-inf) is not a number.")
def nothing_and_nothing(a, b):
    m = max(a[0], b[0])
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


@mistake("q5", "That is the triple of the reader with the larger maximum. The other's keys count too.")
def larger_wins(a, b):
    return a if a[0] >= b[0] else b


@mistake("q5", "u is a sum, not a mean: you merged the outputs u / d, and returned the mean in place of u.")
def merged_means(a, b):
    m = max(a[0], b[0])
    f, g = (math.exp(x - m) if x > -math.inf else 0.0 for x in (a[0], b[0]))
    d = f * a[1] + g * b[1]
    return m, d, (f * a[2] + g * b[2]) / max(d, 1e-300)


@also_right("q5")
def in_logarithms(a, b):
    pair = torch.tensor([a[0], b[0]], dtype=torch.float64)
    m = pair.max()
    f = torch.where(pair == -torch.inf, torch.zeros(2, dtype=torch.float64), (pair - m).exp())
    return m, f[0] * a[1] + f[1] * b[1], f[0] * a[2] + f[1] * b[2]
