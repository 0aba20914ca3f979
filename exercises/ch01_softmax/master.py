# %% [markdown] intro
# # Exercises to chapter 1: softmax attention
#
# Each question has a cell for your answer and a cell that checks it. The check draws inputs from a fixed
# seed, compares your result with a reference, and shows the first entry that is wrong. If it knows the
# mistake, it gives a hint. You can check as often as you like.
#
# The questions follow the sections of the chapter and use its symbols. Vectors are rows, so $k^\top v$ is a
# $K\times V$ matrix. Inputs are float64 tensors unless a question says otherwise; give new tensors the
# dtype of the inputs.
#
# A grader may later run the same questions on other inputs, with 5 seconds of processor time for each. It
# reads the names that the answer cells define, so keep those; you may add cells as you wish.

# %% setup
import math

import torch

# %% checks
from linattn_exercises.judging import Close, Exactly, Within
from linattn_exercises.questions import NO_NOISE, About, Case, asks

# %% [markdown] q1 measure, 3 points, 15 minutes, level 2
# ## What the square root assumes
#
# The scale $1/\sqrt K$ makes scores of size 1 if query and key are *independent*. A trained head has
# queries that look for their keys. Take a key with independent entries of mean 0 and variance 1, normally
# distributed, and a query
#
# $$
# q = \rho\,k + \sqrt{1 - \rho^2}\; \varepsilon,
# $$
#
# where $\varepsilon$ is another such vector, independent of $k$. Each entry of $q$ still has variance 1,
# whatever $\rho \in [0, 1]$; its correlation with the entry of $k$ is $\rho$.
#
# Predict the size $\sqrt{\mathbb E[(q\cdot k)^2]}$ of the unscaled score, as a formula in $K$ and $\rho$.
# Then measure it over `samples` random pairs. The check allows 3 % on the prediction and 5 % on the
# measurement. From about which $\rho$ on does the mean of the score outweigh the rest?

# %% answer q1
def predicted_size(K, rho):
    """The root of the mean square of q . k, as a formula."""
    # BEGIN SOLUTION
    mean, variance = rho * K, K * (1 + rho**2)
    return math.sqrt(mean**2 + variance)
    # END SOLUTION


def measured_size(K, rho, samples, seed):
    """The same, over `samples` random pairs of q and k."""
    gen = torch.Generator().manual_seed(seed)
    # BEGIN SOLUTION
    k, noise = torch.randn(2, samples, K, generator=gen)
    q = rho * k + math.sqrt(1 - rho**2) * noise
    return (q * k).sum(-1).square().mean().sqrt().item()
    # END SOLUTION

# %% [markdown] solution q1
# One term is $q_c k_c = \rho k_c^2 + \sqrt{1-\rho^2}\, \varepsilon_c k_c$, of mean $\rho$ and variance
# $2\rho^2 + (1 - \rho^2) = 1 + \rho^2$. The $K$ terms are independent, so the score has mean $\rho K$ and
# variance $K(1+\rho^2)$, and the mean square is $\rho^2K^2 + K(1 + \rho^2)$. Independent vectors give the
# $\sqrt K$ of the chapter. From about $\rho = 1/\sqrt K$ on the first term is the larger one and the score
# grows like $K$: at $K = 128$ a correlation of 0.09 is enough. So $1/\sqrt K$ is right at initialisation,
# and a head that has learnt to align $q$ with $k$ gets sharper the wider it is. That is the argument for a
# scale of $1/K$ when a width is to be changed without tuning again ([Yang et al.
# 2022](https://arxiv.org/abs/2203.03466)).

# %% checks q1
@asks(ABOUT["q1"], predicted_size=predicted_size, measured_size=measured_size)
def q1(rng):
    pairs = [(2, 0.9), (1, 0.65), (64, 0.0), (128, float(rng.uniform(0.1, 0.3))), (16, 1.0)]
    cases = []
    for K, rho in pairs:
        says, seed = f"K = {K}, rho = {rho:.2f}", int(rng.integers(2**31))
        samples, formula = max(10_000, 80_000 // K), ("predicted_size", (K, rho))
        measured = ("measured_size", (K, rho, 4 * samples, seed))
        cases.append(Case(*formula, says, Within(1.03), measured, entries=16))
        cases.append(Case("measured_size", (K, rho, samples, seed + 1), says, Within(1.05), measured))
        few = f"{says}, 50 samples"
        cases.append(Case("measured_size", (K, rho, 50, seed), few, Close(1e-12), formula, NO_NOISE))
    return cases

# %% [markdown] q2 diagnose, 3 points, 10 minutes, level 1
# ## A loss that is too good
#
# A colleague trains a language model with the attention below. Its loss falls far below that of the
# reference; its generated text is much worse. Every weight of a hidden key is zero; she has checked that.
#
# Find the fault and say which it is:
#
# - `"A"`: the scores have the wrong scale;
# - `"B"`: the softmax runs over queries instead of keys;
# - `"C"`: the denominator counts keys that it should not;
# - `"D"`: the mask hides the token itself;
# - `"E"`: large scores overflow;
# - `"F"`: the mask is transposed.
#
# Then repair it. The check includes sequences in which a future key has a score of about 1000, or visible
# ones of about $-1000$.

# %% given q2
def suspect(q, k, v):                          # [T, K], [T, K], [T, V]
    score = q @ k.T * q.shape[-1] ** -0.5      # [T, T], row = query
    weight = score.softmax(-1).tril()
    return weight @ v

# %% answer q2
fault = None
# BEGIN SOLUTION
fault = "C"
# END SOLUTION


def repaired(q, k, v):
    """Causal softmax attention of one head: [T, K], [T, K], [T, V]."""
    # BEGIN SOLUTION
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    # END SOLUTION

# %% [markdown] solution q2
# C. The mask removes future *values*, but the softmax has already divided by a sum over all keys, future
# ones too. The output shrinks where much is to come: row $t$ is multiplied by the share of weight that lies
# in the past, a number computed from the future. One number per head is enough. The score of the next
# token's key is part of that sum, so a model can learn to read from it which token comes next. In our runs
# chapter 1's small model, trained with this fault, has 0.13 and 0.16 bits per byte in full passes, where
# the right one has 2.94 and 2.97; given the prefix alone, as in generation, it needs 4.2 (two seeds, 240
# steps on a CPU; `python -m linattn_ref.benchmarks late_mask --out DIR` measures it again). Changing the
# future and watching the past, as in the chapter, finds the fault at once; looking at the weights of hidden
# keys does not.
#
# Dividing each row by its sum afterwards repairs it on paper. In floating point it divides 0 by 0 where a
# future key has all the weight.

# %% checks q2
def _two_futures(rng, T, size):
    """q, k, v with a future key whose score is about `size` for all queries before it."""
    q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (4, 4, 3))
    q[:, 0], k[:, 0] = 1.0, 0.0
    k[-2, 0] = 2.0 * size
    return q, k, v


@asks(
    ABOUT["q2"],
    fault=fault,
    repaired=repaired,
    wrong_values={
        "fault": {
            "A": "The scale is 1/sqrt K, as it should be. Change a future key and look at an earlier output.",
            "B": "softmax(-1) runs along a row, over the keys of one query. Look at what a row adds up to instead.",
            "D": "tril() keeps the diagonal, so each token sees itself. What do the rows of `weight` add up to?",
            "E": "torch's softmax subtracts the maximum; it does not overflow. What do the rows add up to?",
            "F": "Row = query, and tril() keeps earlier keys: not transposed. What do the rows add up to?",
        }
    },
)
def q2(rng):
    small = _two_futures(rng, 6, 1.0)
    cases = [Case("fault", (), "", Exactly())]
    cases.append(Case("repaired", small, "T = 6"))
    cases.append(Case("repaired", _two_futures(rng, 9, 1000.0), "T = 9, a future score near 1000"))
    low = _two_futures(rng, 9, 0.0)
    low[1][:-1, 0] = -2000.0  # all scores but the last key's near -1000
    cases.append(Case("repaired", low, "T = 9, visible scores near -1000"))
    return cases

# %% [markdown] q3 derive, 4 points, 20 minutes, level 2
# ## The cache of a real model
#
# How many bytes of KV cache does a published model need? Its configuration says so, if one knows how to
# read it. The fields are named as in Hugging Face's `config.json`; those in brackets may be missing or
# `None`. The rules are slightly simplified.
#
# - `num_hidden_layers`, `num_attention_heads`, `hidden_size`;
# - [`num_key_value_heads`]: heads that keys and values have; as many as queries have, if missing;
# - [`head_dim`]: width of a head; `hidden_size` over the query heads, if missing;
# - `torch_dtype`: `"float32"`, `"bfloat16"`, `"float16"` or `"float8_e4m3fn"`, for cache entries too;
# - [`sliding_window`]: a layer with a window keeps at most that many of the latest tokens;
# - [`layer_types`]: one of `"full_attention"` or `"sliding_attention"` for each layer; if missing, all
#   layers have the window, where there is one.
#
# | model | layers | query heads | KV heads | head width | window |
# | --- | --- | --- | --- | --- | --- |
# | [Llama 2 7B](https://arxiv.org/abs/2307.09288) | 32 | 32 | 32 | 128 | none |
# | [Llama 3 8B](https://arxiv.org/abs/2407.21783) | 32 | 32 | 8 | 128 | none |
# | [Mistral 7B v0.1](https://arxiv.org/abs/2310.06825) | 32 | 32 | 8 | 128 | 4096, all layers |
# | [Gemma 2 9B](https://arxiv.org/abs/2408.00118) | 42 | 16 | 8 | 256 | 4096, every other layer |
#
# Write the bytes after `tokens` tokens in each of `batch` sequences. Then the other way round: the most
# tokens per sequence that `free_bytes` have room for (`math.inf`, if there is no limit). Before you run the
# check, rank the four models by their cache at 32,768 tokens.

# %% answer q3
def cache_bytes(config, tokens, batch):
    """Bytes of keys and values, of all layers and sequences."""
    # BEGIN SOLUTION
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    window = config.get("sliding_window") or math.inf
    layers = config["num_hidden_layers"]
    kinds = config.get("layer_types") or ["sliding_attention"] * layers
    kept = sum(tokens if kind == "full_attention" else min(tokens, window)
               for kind in kinds)
    numbers = 2 * kept * kv_heads * width
    return batch * numbers * size[config["torch_dtype"]]
    # END SOLUTION


def most_tokens(config, free_bytes, batch):
    """The largest number of tokens whose cache fits; math.inf if all do."""
    # BEGIN SOLUTION
    high = 1
    while cache_bytes(config, high, batch) <= free_bytes:
        high *= 2
        if high > 10**15:
            return math.inf
    low = high // 2                 # low fits (0 does), high does not
    while high - low > 1:
        middle = (low + high) // 2
        fits = cache_bytes(config, middle, batch) <= free_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low
    # END SOLUTION

# %% [markdown] solution q3
# A layer that keeps $n$ tokens holds $2n$ vectors of KV heads times head width numbers: two, for keys and
# values. Query heads do not count, which is the point of grouped queries: they divide the cache by four in
# Llama 3. At 32,768 tokens and two bytes a number the four need 17.2, 4.3, 0.5 and 6.3 GB. Gemma writes 2.6
# times as many numbers per token as Llama 3: more layers, and heads twice as wide. Half of its layers stop
# at 4,096 tokens; at 32,768 that saves 4.9 of 11.3 GB. Mistral's cache stops growing altogether. A window
# is a state of fixed size: what leaves it can be reached only through what later layers passed on. (A
# bisection is enough for the other direction, since the cache never shrinks with the number of tokens.)

# %% checks q3
def _config(layers, heads, kv_heads, width, window=None, every_other=False, dtype="bfloat16"):
    config = {"num_hidden_layers": layers, "num_attention_heads": heads, "torch_dtype": dtype}
    config |= {"hidden_size": heads * width, "num_key_value_heads": kv_heads, "head_dim": width}
    if window:
        config["sliding_window"] = window
    if every_other:
        kinds = ("sliding_attention", "full_attention")
        config["layer_types"] = [kinds[layer % 2] for layer in range(layers)]
    return config


@asks(ABOUT["q3"], cache_bytes=cache_bytes, most_tokens=most_tokens)
def q3(rng):
    old = _config(32, 32, 32, 128, dtype="float16")
    del old["num_key_value_heads"]
    old |= {"head_dim": None, "sliding_window": None}
    gemma = _config(42, 16, 8, 256, 4096, every_other=True) | {"hidden_size": 3584}
    layers, heads, kv_heads = (int(n) for n in rng.integers(2, 9, size=3))
    drawn = _config(layers, heads, kv_heads, 64, 100, dtype="float8_e4m3fn")
    exact = Close(1e-12)
    models = {
        "Llama 2 7B": old,
        "Llama 3 8B": _config(32, 32, 8, 128),
        "Mistral 7B v0.1": _config(32, 32, 8, 128, 4096),
        "Gemma 2 9B": gemma,
        "a model in 8 bits with a window of 100": drawn,
    }
    tokens = int(rng.integers(5000, 100_000))
    cases = []
    for name, config in models.items():
        cases.append(Case("cache_bytes", (config, 50, 1), f"{name}, 50 tokens", exact))
        cases.append(Case("cache_bytes", (config, tokens, 3), f"{name}, batch 3, {tokens:,} tokens", exact))
    room = int(rng.integers(4 * 10**9, 20 * 10**9))
    for name, config in models.items():
        says = f"{name}, {room:,} bytes, batch 2"
        cases.append(Case("most_tokens", (config, room, 2), says, Close(1e-12)))
    return cases

# %% [markdown] q4 implement, 5 points, 30 minutes, level 3
# ## Causal online softmax, over tiles
#
# The recursion of the chapter, for all queries of a head at once and with the causal mask: go over the keys
# in tiles of `tile` (the last may be shorter), and carry $m$, $d$ and $u$ for every query. Scores have the
# scale $1/\sqrt K$.
#
# Return two things: the output, and $\ell_t = \log \sum_{j\le t} e^{x_{tj}}$ for every query $t$, the
# *log-sum-exp*. It is the one number per query that [FlashAttention-2](https://arxiv.org/abs/2307.08691)
# keeps for its backward pass, in place of a row of weights.
#
# Scores may be near $1000$ or $-1000$, those of hidden keys too. No tensor may have more entries than $T$
# times the largest of `tile`, $K$ and $V$, and no library function with `softmax` or `logsumexp` in its
# name may be used.

# %% answer q4
def online_softmax(q, k, v, tile):
    """q, k [T, K], v [T, V] -> output [T, V], log-sum-exp [T]."""
    # BEGIN SOLUTION
    T, K = q.shape
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    d = torch.zeros(T, 1, dtype=q.dtype)
    u = torch.zeros(T, v.shape[1], dtype=q.dtype)
    t = torch.arange(T)
    for now in t.split(tile):                        # the keys of a tile
        x = q @ k[now].T * K**-0.5                   # [T, tile]
        x = x.masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d = shrink * d + w.sum(1, keepdim=True)
        u = shrink * u + w @ v[now]
        m = new
    return u / d, (m + d.log()).flatten()
    # END SOLUTION

# %% [markdown] solution q4
# Key 0 is visible to every query, so $m$ is finite after the first tile; from then on a tile that a query
# must not see has $x = -\infty$ throughout, leaves $m$ as it is, and adds zeros. (Kernels skip such tiles,
# which halves the work.) The log-sum-exp is $m + \log d$: the reference that was subtracted comes back.
# With it the weights of any tile can be computed again later, $p_{tj} = e^{x_{tj} - \ell_t}$, without a
# second pass for the denominator.

# %% checks q4
def _head(rng, T, K, V, size=1.0):
    q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V))
    if abs(size) > 1.0:  # scores near `size`, apart by a few units
        q[:, 0], k[:, 0] = 1.0, size * K**0.5
    return q, k, v


@asks(ABOUT["q4"], banned=("softmax", "logsumexp"), online_softmax=online_softmax)
def q4(rng):
    cases = []
    for T, K, V, tile, size in (
        (7, 4, 3, 3, 1.0),
        (12, 5, 2, 4, 1.0),
        (1, 2, 2, 8, 1.0),
        (20, 4, 3, 6, 1000.0),
        (20, 4, 3, 6, -1000.0),
        (200, 4, 3, 16, 1.0),
    ):
        says = f"T = {T}, tiles of {tile}" + (f", scores near {size:.0f}" if abs(size) > 1 else "")
        head = _head(rng, T, K, V, size)
        cases.append(Case("online_softmax", (*head, tile), says, Close(1e-5), entries=T * max(tile, K, V)))
    says = "T = 9, tiles of 4, a hidden score near 1000"
    cases.append(Case("online_softmax", (*_two_futures(rng, 9, 1000.0), 4), says, entries=9 * 4))
    return cases

# %% [markdown] q5 derive, 3 points, 15 minutes, level 2
# ## Two readers of one book
#
# A key-value cache is split between two processors. Each goes through its part for the same query and ends
# with three things: $m$, the largest score it met, $d = \sum_j e^{x_j - m}$ and
# $u = \sum_j e^{x_j - m} v_j$ over its keys. Derive how two such triples are merged into the one for both
# parts, with $m$ the larger of the two maxima.
#
# A processor may have got no keys at all: its triple is $(-\infty, 0, 0)$. Both may. If your `merge` is
# right, the parts may be merged in any order and any grouping; the chapter reads from left to right only
# because a reader must start somewhere.

# %% answer q5
def merge(a, b):
    """Two triples (m, d, u): number, number, tensor [V] -> one triple."""
    # BEGIN SOLUTION
    m = max(a[0], b[0])
    if m == -math.inf:                       # nothing was read by either
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]
    # END SOLUTION

# %% [markdown] solution q5
# Each part is measured against its own $m$; bringing both to the larger one multiplies its $d$ and its $u$
# by $e^{m_\text{own} - m}$. One of the two factors is always 1. The empty triple is neutral:
# $e^{-\infty} = 0$, and two empty ones must be caught, because $-\infty - (-\infty)$ is no number. In exact
# arithmetic the merge is associative and commutative, which is what lets decoding kernels split a long
# cache over a whole GPU and join the parts in a tree.

# %% checks q5
def _triple(rng, n, at=0.0):
    """What a reader of n keys ends with, scores near `at`."""
    x = at + 2 * rng.normal(size=n)
    m = float(x.max()) if n else -math.inf
    w = torch.from_numpy(x).sub(m).exp() if n else torch.zeros(0, dtype=torch.float64)
    return m, float(w.sum()), w @ torch.from_numpy(rng.normal(size=(n, 3)))


@asks(ABOUT["q5"], merge=merge)
def q5(rng):
    cases = []
    for left, right, says in (
        ((5, 0.0), (8, 0.0), "5 and 8 keys"),
        ((5, 3.0), (2, -3.0), "the larger maximum first"),
        ((3, -400.0), (4, 500.0), "maxima 900 apart"),
        ((6, 0.0), (0, 0.0), "the second has no keys"),
        ((0, 0.0), (6, 0.0), "the first has no keys"),
        ((0, 0.0), (0, 0.0), "neither has keys"),
    ):
        cases.append(Case("merge", (_triple(rng, *left), _triple(rng, *right)), says))
    return cases
