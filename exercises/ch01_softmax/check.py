"""Checks of ``ch01_softmax``, generated from master/*.py by ``make exercises``: edit those."""


import math

import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "0e43be05a8ce"
INFO = {
    "q1": QuestionInfo(
        "ch01_softmax", "q1", 'What the square root assumes',
        "measure", points=3, minutes=15, level=2,
    ),
    "q2": QuestionInfo(
        "ch01_softmax", "q2", 'A loss that is too good',
        "diagnose", points=3, minutes=10, level=1,
    ),
    "q3": QuestionInfo(
        "ch01_softmax", "q3", 'The cache of a real model',
        "derive", points=4, minutes=20, level=2,
    ),
    "q4": QuestionInfo(
        "ch01_softmax", "q4", 'Causal online softmax, over tiles',
        "implement", points=5, minutes=30, level=3,
    ),
    "q5": QuestionInfo(
        "ch01_softmax", "q5", 'Two readers of one book',
        "derive", points=3, minutes=15, level=2,
    ),
}


# --- q1: What the square root assumes ---


def draw(n, K, seed=0):
    """k and epsilon [n, K] of n pairs."""
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, K, generator=gen, dtype=torch.float64)


def predicted_size(K, rho):
    """The root of the mean square of q . k, as a formula."""
    mean, variance = rho * K, K * (1 + rho**2)
    return math.sqrt(mean**2 + variance)


def measured_size(k, noise, rho):
    """The same over n pairs: k [n, K], noise [n, K]."""
    q = rho * k + math.sqrt(1 - rho**2) * noise
    return (q * k).sum(-1).square().mean().sqrt().item()


@define_question(INFO["q1"], predicted_size=predicted_size, measured_size=measured_size)
def q1(rng):
    calls = []
    for K, rho in [(2, 0.9), (1, 0.65), (64, 0.0), (128, float(rng.uniform(0.1, 0.3))), (16, 1.0)]:
        inputs = f"K = {K}, rho = {rho:.2f}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
        n = int(rng.integers(300, 700))
        k, noise = torch.from_numpy(rng.normal(size=(2, n, K)))
        calls.append(Call("measured_size", (k, noise, rho), f"{n} pairs, {inputs}"))
    k, noise = torch.from_numpy(rng.normal(size=(2, 1, 3)))  # nearly the same, and not the same
    for rho in (0.999995, 1.0):
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: 1, K = 3, rho = {rho:g}"))
    k, noise = torch.from_numpy(rng.uniform((0.5, 3), (1, 4), size=(3, 2))).T.reshape(2, 1, 3)
    for rho in (1 - 5e-7, 1 - 9e-10):
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: 1, K = 3, rho = {rho:.10g}"))
    k, noise = torch.from_numpy(rng.uniform((0.009, 0.004), (0.011, 0.006))).reshape(2, 1, 1)  # one score, near 1e-4
    calls.append(Call("measured_size", (k, noise, 0.6), "pairs: 1, K = 1, rho = 0.6, small entries", Within(1.00001)))
    for n in (1, 1, 2, 3, 4):  # few pairs, few entries
        K, rho = 3 if n == 3 else int(rng.integers(1, 6)), float(rng.choice([0.0, 1.0, rng.uniform(0, 1), rng.uniform(0, 1)]))
        k, noise = torch.from_numpy(rng.normal(size=(2, n, K)))
        inputs = f"K = {K}, rho = {rho:.2f}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: {n}, {inputs}"))
    # too wide for samples: more memory than a process can address, so that no machine tries
    wide, less = int(10 ** rng.uniform(14.5, 15)), int(rng.integers(150_000, 2_000_000))
    alike = [(K, float(rng.uniform(0.5, 2)) / K**0.5) for K in (wide, less)]  # mean and spread count alike
    usual = int(10 ** rng.uniform(3, 5))
    few = (usual, float(rng.uniform(0.2, 1))), (usual, float(rng.uniform(0.01, 0.05)) / usual**0.5)  # one is small beside the other
    K = int(rng.integers(1_000, 3_000))
    between = [(K, float(rng.uniform(*span) / K) ** 0.5) for span in ((100, 200), (200, 300))]
    # many entries and no small rho: the spread still counts in the fourth digit
    tall = [(K, float(rng.uniform(*span)) / K**0.5) for K, span in ((12_000, (12, 20)), (120_000, (10, 20)), (1_500_000, (20, 30)))]
    ends = (10**15, 3e-10), (1000, 0.999995)  # nearly 0, and nearly 1
    # where the mean is 10^3 spreads, and where the spread is 10^3 means
    nearly = (int(rng.integers(780_000, 820_000)), float(rng.uniform(0.93, 0.97))), (10**15, float(rng.uniform(6e-11, 9.5e-11)))
    for K, rho in [*ends, *nearly, (wide, float(rng.uniform(0.1, 0.3))), (wide, 0.0), (less, 0.0), *alike, *few, *between, *tall]:
        inputs = f"K = {K:,}, rho = {rho:.6g}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
    return calls


# --- q2: A loss that is too good ---


def suspect(q, k, v):                          # [T, K], [T, K], [T, V]
    score = q @ k.T * q.shape[-1] ** -0.5      # [T, T], row = query
    weight = score.softmax(-1).tril()
    return weight @ v


fault = "C"


def repaired(q, k, v):
    """Causal softmax attention of one head: [T, K], [T, K], [T, V]."""
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def _two_futures(rng, T, size, K=4):
    """q, k, v with a future key whose score is about `size` for all queries before it."""
    q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, 3))
    q[:, 0], k[:, 0] = 1.0, 0.0
    k[-2, 0] = K**0.5 * size
    return q, k, v


def _far_apart(rng, T, S, K=4, V=3):
    """q, k, v with scores 800 apart or equal. What is large for some queries is small for others.

    The largest and the smallest stand in the middle.
    """
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    level = torch.from_numpy(rng.integers(1, 4, size=S)).double()
    level[S // 2 - 1], level[S // 2] = 0.0, 4.0
    q[:, 0], k[:, 0] = torch.from_numpy(rng.choice([-1.0, 1.0], size=T)), 800 * K**0.5 * level
    return q, k, v


def _mixed(rng, T, S, K, V):
    """q, k, v with scores of a few levels, in any order; some keys twice, some rows of zeros."""
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    if rng.random() < 0.6:
        level = rng.choice([-3000.0, -800.0, 0.0, 0.0, 1000.0, 3000.0], size=S if rng.random() < 0.6 else 1)
        q[:, 0], k[:, 0] = 1.0, torch.from_numpy(level) * K**0.5
        q[rng.random(T) < rng.choice([0.0, 0.4]), 0] = -1.0
    for rows in (q, k):
        if rng.random() < 0.3:
            rows[rng.integers(len(rows))] = 0.0
    k[rng.integers(S)] = k[rng.integers(S)].clone()
    return q, k, v


CLOSE = Close(3e-7)  # results may be stored in float32; a small number in the denominator shows


@define_question(
    INFO["q2"],
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
    small = _two_futures(rng, 6, 1.0, 7)
    calls = [Call("fault", (), "", Exactly())]
    calls.append(Call("repaired", small, "T = 6", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 9, 1000.0), "T = 9, a future score near 1000", CLOSE))
    low = _two_futures(rng, 9, 0.0)
    low[1][:-1, 0] = -6000.0  # all scores but the last key's near -3000
    calls.append(Call("repaired", low, "T = 9, visible scores near -3000", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 5, 738.0), "T = 5, a future score near 738", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 9, 1e6), "T = 9, a future score near a million", CLOSE))
    zeros = _two_futures(rng, 9, 1.0)
    zeros[0][5], zeros[1][2] = 0.0, 0.0  # scores that are exactly 0, visible ones and hidden ones
    calls.append(Call("repaired", zeros, "T = 9, a query and a key of zeros", CLOSE))
    far = _two_futures(rng, 9, 0.0)
    far[1][:, 0] = -200_000.0
    calls.append(Call("repaired", far, "T = 9, all scores near -100,000", CLOSE))
    rising = _two_futures(rng, 9, 0.0)
    rising[0][1::2, 0], rising[1][:, 0] = -1.0, torch.arange(9) * 800.0  # and falling for every other query
    calls.append(Call("repaired", rising, "T = 9, each visible score 400 above or below the one before", CLOSE))
    calls.append(Call("repaired", _far_apart(rng, 40, 40), "T = 40, visible scores up to 3200 apart", CLOSE))
    for T, V in ((5, 1), (1, 3), (100, 3)):
        single = [torch.from_numpy(rng.normal(size=(T, n))) for n in (4, 4, V)]
        calls.append(Call("repaired", tuple(single), f"T = {T}, V = {V}", CLOSE))
    for K in (1, 1, 1, 2, 3, 4, 5) * 2:
        T, V = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        calls.append(Call("repaired", _mixed(rng, T, T, K, V), f"T = {T}, K = {K}, V = {V}", CLOSE))
    return calls


# --- q3: The cache of a real model ---


def cache_bytes(config, tokens, batch):
    """Bytes of keys and values, of all layers and sequences."""
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


def most_tokens(config, free_bytes, batch):
    """The largest number of tokens whose cache fits; math.inf if all do."""
    high = 1
    while cache_bytes(config, high, batch) <= free_bytes:
        high *= 2
        if high > 10**40:
            return math.inf
    low = high // 2                 # low fits (0 does), high does not
    while high - low > 1:
        middle = (low + high) // 2
        fits = cache_bytes(config, middle, batch) <= free_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low


def _config(layers, heads, kv_heads, width, window=None, kinds=(), dtype="bfloat16"):
    config = {"num_hidden_layers": layers, "num_attention_heads": heads, "torch_dtype": dtype}
    config |= {"hidden_size": heads * width, "num_key_value_heads": kv_heads, "head_dim": width}
    if window:
        config["sliding_window"] = window
    if kinds:
        config["layer_types"] = [f"{kind}_attention" for kind in kinds]
    return config


def _any_config(rng):
    """A small configuration; each field that may be missing or None is, by chance."""
    layers, kv_heads, groups = (int(n) for n in rng.integers(1, (7, 4, 4)))
    heads, width, window = kv_heads * groups, int(rng.choice([1, 8, 20])), int(rng.choice([1, 2, 5, 100]))
    kinds = rng.choice(["full", "sliding"], size=layers, p=rng.choice([[1, 0], [0, 1], [0.5, 0.5]]))
    dtype = str(rng.choice(["float32", "bfloat16", "float16", "float8_e4m3fn"]))
    config = _config(layers, heads, kv_heads, width, window, kinds.tolist(), dtype)
    for name in ("num_key_value_heads", "head_dim", "sliding_window", "layer_types"):
        if rng.random() < 0.2:
            del config[name]
        elif rng.random() < 0.2:
            config[name] = None
    if config.get("head_dim"):
        config["hidden_size"] += int(rng.choice([0, heads, 7]))
    return config


@define_question(INFO["q3"], cache_bytes=cache_bytes, most_tokens=most_tokens)
def q3(rng):
    old = _config(32, 32, 32, 128, dtype="float16")
    del old["num_key_value_heads"]
    old |= {"head_dim": None, "sliding_window": None, "layer_types": None}
    gemma = _config(42, 16, 8, 256, 4096, ("sliding", "full") * 21) | {"hidden_size": 3584}
    layers, heads, kv_heads, full = (int(n) for n in rng.integers(2, 9, size=4))
    drawn = _config(layers, heads, kv_heads, 64, 100, dtype="float8_e4m3fn") | {"num_key_value_heads": None}
    kinds = ["full"] * full + ["sliding"] * (full + int(rng.integers(3, 9)))  # never as many of one as of the other
    mixed = _config(len(kinds), 4, 2, 32, 300, rng.permutation(kinds).tolist(), dtype="float32")
    del mixed["head_dim"]
    unused = _config(4, 4, 2, 32, None, ["sliding", "full"] * 2)
    nulls = _config(3, 4, 2, 16, 150) | {"layer_types": None}
    windowless = unused | {"sliding_window": None}
    sliding = _config(5, 4, 4, 8, 200, ["sliding"] * 5)
    exact, to_a_token = Close(1e-12), Close(1e-17)
    models = {
        "Llama 2 7B": old,
        "Llama 3 8B": _config(32, 32, 8, 128),
        "Mistral 7B v0.1": _config(32, 32, 8, 128, 4096),
        "Gemma 2 9B": gemma,
        "a model in 8 bits with a window of 100": drawn,
        f"{full} of {len(kinds)} layers without a window": mixed,
        "layers of two types, and no window": unused,
        "layers of two types, window None": windowless,
        "a window of 150, layer types None": nulls,
        "all layers with a window of 200": sliding,
        "a window of 200, and all layers full": _config(5, 4, 4, 8, 200, ["full"] * 5),
        "all layers sliding, and no window": _config(5, 4, 4, 8, None, ["sliding"] * 5),
    }
    for full in (0, 1, 3, 4):  # one layer without a window, first, last, or among the others
        kinds = ["full" if layer == full else "sliding" for layer in range(5)]
        models[f"layer {full} alone without a window"] = _config(5, 4, 4, 8, 200, kinds)
    tokens = int(rng.integers(5000, 100_000))
    calls = []
    for name, config in models.items():
        calls.append(Call("cache_bytes", (config, 50, 1), f"{name}, 50 tokens", exact))
        calls.append(Call("cache_bytes", (config, tokens, 3), f"{name}, batch 3, {tokens:,} tokens", exact))
    calls.append(Call("cache_bytes", (gemma, 0, 2), "Gemma 2 9B, no tokens", exact))
    room = int(rng.integers(4 * 10**9, 20 * 10**9))
    rooms = [(name, config, room) for name, config in models.items()]
    for config in (models["Llama 3 8B"], unused):
        rooms += [("much room", config, 10**17), ("very much room", config, 10**18)]
    small = mixed, drawn  # rooms that end before any window is full
    rooms += [("a model with windows", one, 3 * cache_bytes(one, n, 1)) for one in small for n in (20, 0)]
    rooms += [("not one token of two sequences", one, cache_bytes(one, 1, 2) - 1) for one in (mixed, models["Llama 3 8B"])]
    for one, window in ((mixed, 300), (gemma, 4096)):  # near a window that is full, beside layers without one
        rooms += [(f"room for {n:,} tokens", one, cache_bytes(one, n, 2)) for n in (window - 1, window + 1)]
        rooms.append((f"a byte less than {window + 1:,} tokens take", one, cache_bytes(one, window + 1, 2) - 1))
    sevens = _config(7, 14, 7, 16)  # bytes of a token by whose reciprocal a product may come out a hair below
    rooms += [(f"room for {n:,} tokens", sevens, cache_bytes(sevens, n, 2)) for n in (1, 1_000)]
    many = 38_146_972_656  # a quotient of more digits than a number of 64 bits has
    rooms.append((f"a byte less than {many:,} tokens take", models["Llama 3 8B"], cache_bytes(models["Llama 3 8B"], many, 2) - 1))
    rooms += [(f"a byte less than {many:,} tokens take", one, cache_bytes(one, many, 2) - 1) for one in (old, gemma)]
    rooms.append(("very much room", _config(1, 1, 1, 8, dtype="float8_e4m3fn"), 10**18))
    for title, config, free in rooms:
        inputs = f"{title}, {free:,} bytes, batch 2"
        calls.append(Call("most_tokens", (config, free, 2), inputs, Exactly() if free == 10**18 else to_a_token))
    one = _config(1, 1, 1, 1, dtype="float8_e4m3fn")  # two bytes a token: as many as there can be
    calls.append(Call("most_tokens", (one, 10**18, 1), f"one layer of width 1, {10**18:,} bytes, batch 1", Exactly()))
    for low, high in ((20, 30), (35, 60)):  # a float of these bytes is above them, or below
        free = 10**18 - 2 * int(rng.integers(low, high))
        calls.append(Call("most_tokens", (one, free, 1), f"one layer of width 1, {free:,} bytes, batch 1", Exactly()))
    full = cache_bytes(sliding, 200, 7)  # room for all that these layers ever keep, and for one byte less
    for free in (full, full - 1):
        inputs = f"all layers with a window of 200, {free:,} bytes, batch 7"
        calls.append(Call("most_tokens", (sliding, free, 7), inputs, to_a_token))
    for _ in range(150):
        config, batch = _any_config(rng), int(rng.integers(1, 4))
        window = config.get("sliding_window") or 50
        near = int(rng.choice([0, 1, 2, window - 1, window, window + 1, 2 * window, rng.integers(10**9)]))
        calls.append(Call("cache_bytes", (config, near, batch), f"{config}, batch {batch}, {near} tokens", exact))
        room = max(0, cache_bytes(config, near, batch) + int(rng.choice([-1, 0, 0, 1, rng.integers(1000)])))
        calls.append(Call("most_tokens", (config, room, batch), f"{config}, {room} bytes, batch {batch}", to_a_token))
    return calls


# --- q4: Causal online softmax, over tiles ---


def online_softmax(q, k, v, tile):
    """q [T, K], k [S, K], v [S, V] -> output [T, V], log-sum-exp [T]."""
    (T, K), S = q.shape, len(k)
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    d = torch.zeros(T, 1, dtype=q.dtype)
    u = torch.zeros(T, v.shape[1], dtype=q.dtype)
    t = torch.arange(S - T, S)                       # positions of queries
    for now in torch.arange(S).split(tile):          # keys of a tile
        x = q @ k[now].T * K**-0.5                   # [T, tile]
        x = x.masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d = shrink * d + w.sum(1, keepdim=True)
        u = shrink * u + w @ v[now]
        m = new
    return u / d, (m + d.log()).flatten()


def _head(rng, T, S, K, V, size=1.0):
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    if abs(size) > 1.0:  # scores near `size`, apart by a few units
        q[:, 0], k[:, 0] = 1.0, size * K**0.5
    return q, k, v


@define_question(INFO["q4"], own_code=True, online_softmax=online_softmax)
def q4(rng):
    cases = []
    for T, S, K, V, tile, size in (
        (7, 7, 4, 3, 3, 1.0),
        (12, 12, 5, 2, 4, 1.0),
        (1, 1, 2, 2, 8, 1.0),
        (5, 5, 1, 1, 1, 1.0),
        (1, 6, 3, 2, 2, 1.0),
        (20, 20, 4, 3, 6, 9000.0),
        (20, 20, 4, 3, 6, -9000.0),
        (200, 200, 4, 3, 16, 1.0),
        (6, 11, 4, 3, 4, 1.0),
        (10, 300, 6, 1, 12, 1.0),
        (40, 300, 2, 1, 100, 1.0),
        (2, 100, 2, 1, 2, 1.0),
        (3, 5, 2, 2, 5, 1.0),  # all keys in one tile, some in the future
        (3, 5, 2, 2, 8, 1.0),
        (4, 4, 2, 3, 9, 1.0),
        (3, 9, 4, 3, 4, 1.0),  # the last tile is short, and hidden keys stand in two before it as well
        (9, 21, 4, 3, 5, 1.0),
    ):
        inputs = f"T = {T}, " + (f"S = {S}, " if S > T else "") + f"tiles of {tile}"
        inputs += f", scores near {size:.0f}" if abs(size) > 1 else ""
        cases.append((*_head(rng, T, S, K, V, size), tile, inputs))
    cases.append((*_two_futures(rng, 9, 1000.0), 4, "T = 9, tiles of 4, a hidden score near 1000"))
    q, k, v = _two_futures(rng, 9, 6000.0)
    k[[*range(7), 8], 0] -= 12_000.0
    cases.append((q, k, v, 4, "T = 9, tiles of 4, visible scores near -6000, a hidden one near 6000"))
    q, k, v = _head(rng, 9, 9, 4, 3)
    q[5], k[3] = 0.0, 0.0  # scores that are exactly 0, visible ones and hidden ones
    cases.append((q, k, v, 4, "T = 9, tiles of 4, a query and a key of zeros"))
    cases.append((*_far_apart(rng, 12, 20), 4, "T = 12, S = 20, tiles of 4, scores up to 3200 apart"))
    for at in (0, 1580):  # far above the scores of the others, which are many, before them or after
        q, k, v = _head(rng, 4, 1600, 4, 3)
        q[:, 0], k[:, 0] = 2.0, 0.0
        k[at, 0] = ahead = float(rng.uniform(21, 23))
        cases.append((q, k, v, 48, f"T = 4, S = 1600, tiles of 48, key {at + 1} some {ahead:.0f} above all others"))
    q, k, v = _head(rng, 4, 1600, 4, 3)
    k *= 0.1  # no tile has one that comes nearer
    q[:, 0], k[:, 0] = 2.0, 0.0
    v[1:], v[0] = v[1:] + 1.0, -1.0  # the others differ from the loud one, so what is left of them is seen
    k[0, 0] = ahead = float(rng.uniform(24, 25))
    cases.append((q, k, v, 48, f"T = 4, S = 1600, tiles of 48, key 1 some {ahead:.0f} above all others"))
    # Many keys and wide heads: too many scores to keep, too wide to compute twice; features have no meaning alone.
    q, k, v = _far_apart(rng, 60, 1600, 64, 2)
    q[:, 1], k[:, 1] = 0.0, 1e5 * torch.from_numpy(rng.choice([-1.0, 1.0], size=1600))
    turn = torch.linalg.qr(torch.from_numpy(rng.normal(size=(64, 64)))).Q
    inputs = "T = 60, S = 1600, tiles of 48, scores up to 3200 apart, larger entries of keys that cancel"
    cases.append((q @ turn, k @ turn, v, 48, inputs))
    q, k, v = _head(rng, 12, 12, 2, 3)
    q[:], sign = 1.0, torch.ones(12, dtype=q.dtype)
    sign[::2] = -1.0
    k += 1000.0 * torch.stack([sign, -sign], 1)  # so q . k is small
    cases.append((q, k, v, 4, "T = 12, tiles of 4, entries of keys near 1000 that cancel in the score"))
    for T in (1, 1, 2, 3, 4, 5):  # any sizes; tiles that end where the mask begins, or after the last key
        more, K, V = (int(n) for n in rng.integers((0, 1, 1), (4, 5, 5)))
        S, tile = T + more, int(rng.choice([1, 2, 3, max(1, more), more + 1, T + more, T + more + 1]))
        cases.append((*_mixed(rng, T, S, K, V), tile, f"T = {T}, S = {S}, K = {K}, V = {V}, tiles of {tile}"))
    calls = []
    for q, k, v, tile, inputs in cases:
        (T, K), (S, V) = q.shape, v.shape
        entries, tiles = max(T, tile) * max(tile + 1, K, V + 1), -(-S // tile)
        work = T * tiles * (tile * (K + V + 24) + 8 * (V + 4))
        bounds = {"entries": entries, "integers": max(entries, 2 * S), "truths": 8 * entries}
        bounds |= {"held": 12 * entries, "positions": 2 * (entries + S)}
        bounds |= {"operations": 40 * tiles + 40, "work": work}
        calls.append(Call("online_softmax", (q, k, v, tile), inputs, Close(1e-8), bounds=bounds))
    return calls


# --- q5: Two readers of one book ---


def merge(a, b):
    """Two triples (m, d, u): number, number, tensor [V] -> one triple."""
    m = max(a[0], b[0])
    if m == -math.inf:                       # nothing was read by either
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]


def _triple(rng, n, at=0.0, V=3):
    """What a reader of n keys ends with, scores near `at`."""
    x = at + 2 * rng.normal(size=n)
    m = float(x.max()) if n else -math.inf
    w = torch.from_numpy(x).sub(m).exp() if n else torch.zeros(0, dtype=torch.float64)
    return m, float(w.sum()), w @ torch.from_numpy(rng.normal(size=(n, V)))


@define_question(INFO["q5"], merge=merge)
def q5(rng):
    calls = []
    for left, right, inputs in (
        ((5, 0.0), (8, 0.0), "5 and 8 keys"),
        ((5, 3.0), (2, -3.0), "the larger maximum first"),
        ((3, -400.0), (4, 500.0), "maxima 900 apart"),
        ((1, 0.0), (1, 0.0), "the same key"),
        ((3, 500.0), (4, -400.0), "maxima 900 apart, the larger first"),
        ((6, 0.0), (0, 0.0), "the second has no keys"),
        ((0, 0.0), (6, 0.0), "the first has no keys"),
        ((4, -900.0), (0, 0.0), "the second has no keys, scores near -900"),
        ((4, -5000.0), (0, 0.0), "the second has no keys, scores near -5000"),
        ((0, 0.0), (4, -5000.0), "the first has no keys, scores near -5000"),
        ((4, 0.0), (3, 0.0), "scores near -50,000"),
        ((3, 0.0), (5, 0.0), "equal maxima, 3 and 5 keys"),
        ((0, 0.0), (0, 0.0), "neither has keys"),
    ):
        V = int(rng.integers(1, 8))
        pair = _triple(rng, *left, V), _triple(rng, *right, V)
        if inputs == "the same key":
            pair = pair[0], (*pair[0][:2], pair[1][2])  # equal maxima
        if inputs.startswith("equal maxima"):
            pair = pair[0], (pair[0][0], *pair[1][1:])
        if inputs.endswith("-50,000"):  # in float32 they are 1 apart, not 0.997
            pair = (-50_000.0015, *pair[0][1:]), (-50_000.9985, *pair[1][1:])
        calls.append(Call("merge", pair, inputs))
    for high, low in ((-50_000.0, -50_000.4), (-1e6, -1e6 - 9e-4), (1.0005, 1.0), (1.0 + 2e-7, 1.0)):
        u, w = torch.from_numpy(rng.normal(size=(2, 3)))
        calls.append(Call("merge", ((high, 1.5, u), (low, 2.5, w)), f"maxima {high:.8g} and {low:.8g}", Close(1e-8)))
    for gap in (5, 9, 13, 20, 28, 36, 42, 50):  # exp(-36) of a million keys is still seen in d
        m, d, u = _triple(rng, 1)
        n = 10**12 if gap > 36 else 10**6
        many = m - gap, float(n), torch.from_numpy(n**0.5 * rng.normal(size=3))
        inputs = f"1 and {n:,} keys, maxima {gap} apart"
        hint = "The smaller weights count too, if there are many: drop none."
        calls.append(Call("merge", ((m, d, u), many), inputs, Close(1e-11), hint=hint))
        other = f"{n:,} and 1 keys, maxima {gap} apart"
        calls.append(Call("merge", (many, (m, d, u)), other, Close(1e-11), hint=hint))
    for _ in range(24):
        V, both = int(rng.integers(1, 5)), []
        start, gap = rng.choice([0.0, 0.0, -800.0, 5000.0]), rng.choice([0.0, 1.0, 30.0, -30.0, 800.0, -800.0])
        for at in (start, start + gap):
            m, d, u = _triple(rng, int(rng.choice([0, 1, 1, 2, 5])), at, V)
            if d and rng.random() < 0.3:
                m = 0.0  # a score like any other
            if rng.random() < 0.3:
                u = 0.0 * u  # as are values of 0
            both.append((m, d, u))
        if both[0][1] and both[1][1] and rng.random() < 0.2:
            both[1] = both[0][0], *both[1][1:]
        inputs = f"m = {both[0][0]:.4g} and {both[1][0]:.4g}, d = {both[0][1]:.3g} and {both[1][1]:.3g}"
        calls.append(Call("merge", tuple(both), inputs))
    u, zero = torch.from_numpy(rng.normal(size=3)), torch.zeros(3, dtype=torch.float64)
    m, more = rng.uniform(0.5, 3.0, size=2).tolist()
    for pair, inputs in (  # keys, though values, scores or both are 0, or the same for both
        (((m, 1.5, zero), (m + more, 2.5, zero)), "the values of both are 0"),
        (((m, 1.5, zero), (m + more, 2.5, u)), "the values of the first are 0"),
        (((m + more, 1.5, u), (m, 2.5, zero)), "the values of the second are 0"),
        (((0.0, 1.5, u), (0.0, 2.5, -2 * u)), "m = 0 in both"),
        (((m, 1.5, u), (-m, 2.5, -2 * u)), "m of opposite signs"),
        (((m, 1.5, u), (m, 2.5, u)), "equal m and u"),
        (((m, 1.5, u), (m, 1.5, u)), "two equal triples"),
    ):
        calls.append(Call("merge", pair, inputs))
    nobody = -math.inf, 0.0, torch.zeros(5, dtype=torch.float64)
    calls.append(Call("merge", (nobody, nobody), "neither has keys, V = 5"))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
