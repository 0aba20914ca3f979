"""Known answers to question 3: the cache of a real model."""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("That counts keys or values. Both are kept.", replaces="cache_bytes")
def keys_alone(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake(
    "That is the chapter's 2 T D for every layer. Real models differ from it in three ways: fewer heads for keys and "
    "values, heads of a width of their own, layers with a window.",
    replaces="cache_bytes",
)
def as_in_the_chapter(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    return 2 * batch * tokens * config["hidden_size"] * config["num_hidden_layers"] * size


@mistake(
    "That counts the query heads. Only keys and values are kept: num_key_value_heads.", replaces="cache_bytes"
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
    "That takes hidden_size over the query heads as the head width. Where head_dim is given, it holds "
    "(in Gemma 2 the two differ).",
    replaces="cache_bytes",
)
def width_from_hidden_size(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * batch * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake("You let every layer keep everything. A layer with a window forgets.", replaces="cache_bytes")
def no_window(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return 2 * batch * config["num_hidden_layers"] * tokens * kv_heads * width * size


@mistake(
    "You gave every layer the window. Layers of type full_attention keep everything.", replaces="cache_bytes"
)
def window_everywhere(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    kept = config["num_hidden_layers"] * min(tokens, config.get("sliding_window") or tokens)
    return 2 * batch * kept * kv_heads * width * size


@mistake("That is one sequence. Each of the batch has a cache of its own.", replaces="cache_bytes")
def one_sequence(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * kept * (config.get("num_key_value_heads") or heads) * width * size


@mistake(
    "You took every second layer for one with a window. layer_types says of each layer what it is.",
    replaces="cache_bytes",
)
def half_of_the_layers(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    window = config.get("sliding_window") or math.inf
    layers = config["num_hidden_layers"]
    sliding = layers // 2 if config.get("layer_types") else layers
    kept = sliding * min(tokens, window) + (layers - sliding) * tokens
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake(
    "A field may be there and hold None. `config.get(name, default)` then gives None; `or` takes the default.",
    replaces="cache_bytes",
)
def default_for_missing_alone(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * config.get("num_key_value_heads", heads) * width * size[config["torch_dtype"]]


@mistake(
    "Without layer_types all layers have the window. That every other one has it is so in Gemma 2, which says so.",
    replaces="cache_bytes",
)
def every_other_layer(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["sliding_attention", "full_attention"] * 50
    kinds = kinds[: config["num_hidden_layers"]]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake("The window is one for each sequence. You gave one to the whole batch.", replaces="cache_bytes")
def window_for_the_batch(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(batch * tokens if kind == "full_attention" else min(batch * tokens, window) for kind in kinds)
    return 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake(
    "hidden_size is shared out among the query heads; you divided it by the heads of keys and values.",
    replaces="cache_bytes",
)
def width_from_key_heads(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // kv_heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake(
    "You took the windows' share off as if they were full. Where the memory ends earlier, all layers still grow.",
    replaces="most_tokens",
)
def windows_always_full(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size[config["torch_dtype"]]
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    sliding = kinds.count("sliding_attention") if window else 0
    if sliding == len(kinds):
        return math.inf if free_bytes >= sliding * window * one else free_bytes // (sliding * one)
    left = free_bytes - (sliding * window * one if sliding else 0)
    return max(0, left // ((len(kinds) - sliding) * one))


def _read_cache(config, batch):
    """Return the bytes of a cache as a function of its tokens, the window, and the kinds of layers."""
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size[config["torch_dtype"]]
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    sliding = kinds.count("sliding_attention") if window else 0

    def held(n):
        return one * ((len(kinds) - sliding) * n + (sliding * min(n, window) if sliding else 0))

    return held, window, kinds


@mistake(
    "A large number is no infinity: a full-attention layer ends somewhere, if far off. Look for a layer without window.",
    replaces="most_tokens",
)
def a_million_is_no_limit(config, free_bytes, batch):
    held, _, _ = _read_cache(config, batch)
    low, high = 0, 2**20
    if held(high) <= free_bytes:
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) <= free_bytes else (low, middle)
    return low


@mistake("You took two bytes a number for every model. torch_dtype says how many.", replaces="cache_bytes")
def always_two_bytes(config, tokens, batch):
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or tokens
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return 2 * batch * kept * (config.get("num_key_value_heads") or heads) * width * 2


@mistake(
    "Dividing by the bytes of one token is right only while every layer still grows. A window stops growing.",
    replaces="most_tokens",
)
def bytes_of_one_token(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return free_bytes // (2 * batch * config["num_hidden_layers"] * kv_heads * width * size)


@mistake("That is the number for one sequence. The batch shares the memory.", replaces="most_tokens")
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


@mistake(
    "Without layer_types all layers have the window, where there is one. You gave it to none of them.",
    replaces="cache_bytes",
)
def window_by_layer_types_alone(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake(
    "Without sliding_window no layer has a window. You gave such models one of 4096.", replaces="cache_bytes"
)
def window_by_default(config, tokens, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or 4096
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake("Those are bits. A byte has eight of them.", replaces="cache_bytes")
def bits_for_bytes(config, tokens, batch):
    size = {"float32": 32, "bfloat16": 16, "float16": 16, "float8_e4m3fn": 8}
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window") or math.inf
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    kept = sum(tokens if kind == "full_attention" else min(tokens, window) for kind in kinds)
    return batch * 2 * kept * kv_heads * width * size[config["torch_dtype"]]


@mistake(
    "There is no limit only if every layer has a window. Where one layer keeps everything, its cache grows on, "
    "if more slowly.",
    replaces="most_tokens",
)
def no_limit_beyond_a_window(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size  # a token of one layer
    layers, window = config["num_hidden_layers"], config.get("sliding_window")
    full = (config.get("layer_types") or []).count("full_attention") if window else layers
    if full == layers or free_bytes < layers * window * one:
        return free_bytes // (layers * one)
    return math.inf


@mistake(
    "Where all layers have a window and all windows fit, any number of tokens fits: math.inf, not the window.",
    replaces="most_tokens",
)
def window_for_no_limit(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    one = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size  # a token of one layer
    layers, window = config["num_hidden_layers"], config.get("sliding_window")
    full = (config.get("layer_types") or []).count("full_attention") if window else layers
    if not window or free_bytes < layers * window * one:
        return free_bytes // (layers * one)
    return (free_bytes - (layers - full) * window * one) // (full * one) if full else window


@mistake("There may be room for something, and still for no token: then it is 0.", replaces="most_tokens")
def one_token_at_least(config, free_bytes, batch):
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}[config["torch_dtype"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    full = sum(kind == "full_attention" or window is None for kind in kinds)
    each = 2 * batch * (config.get("num_key_value_heads") or heads) * width * size
    others = len(kinds) - full

    def fits(n):
        return each * (full * n + others * min(n, window or n)) <= free_bytes

    if full == 0 and fits(window):
        return math.inf
    low, high = 1, 2
    while fits(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low if free_bytes > 0 else 0


@also_right(replaces="most_tokens")
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


@mistake(
    "There is no limit only if every layer has a window. Look at all of them, not at some.",
    replaces="most_tokens",
)
def first_and_last_layer_alone(config, free_bytes, batch):
    held, window, kinds = _read_cache(config, batch)
    if window and kinds[0] == kinds[-1] == "sliding_attention" and held(window) <= free_bytes:
        return math.inf
    low, high = 0, 1
    while held(high) <= free_bytes:
        low, high = high, 2 * high
        if high > 10**40:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) <= free_bytes else (low, middle)
    return low
