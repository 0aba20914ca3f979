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
#   layers have the window, where there is one. Without `sliding_window` no layer has one.
#
# | model | layers | query heads | KV heads | head width | window |
# | --- | --- | --- | --- | --- | --- |
# | [Llama 2 7B](https://arxiv.org/abs/2307.09288) | 32 | 32 | 32 | 128 | none |
# | [Llama 3 8B](https://arxiv.org/abs/2407.21783) | 32 | 32 | 8 | 128 | none |
# | [Mistral 7B v0.1](https://arxiv.org/abs/2310.06825) | 32 | 32 | 8 | 128 | 4096, all layers |
# | [Gemma 2 9B](https://arxiv.org/abs/2408.00118) | 42 | 16 | 8 | 256 | 4096, every other layer |
#
# Write the bytes after `tokens` tokens in each of `batch` sequences. Then the other way round: the most
# tokens per sequence that `free_bytes` have room for (0 if not one token fits, `math.inf` if there is no limit);
# `free_bytes` is at most $10^{18}$.
# Before you run the check, rank the four models by their cache at 32,768 tokens and two bytes a number.

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
        if high > 10**40:
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
