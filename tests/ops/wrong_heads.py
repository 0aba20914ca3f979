"""Wrong arguments of the ops whose sequences have heads."""

import torch

from tests.ops.wrong_arguments import (
    CHUNK,
    B,
    Bad,
    H,
    K,
    T,
    V,
    beside,
    in_part,
    out_of,
    replace_by,
    shape,
    with_one,
)

QKV = [
    bad
    for name, width, letter in (("q", K, "K"), ("k", K, "K"), ("v", V, "V"))
    for bad in (
        Bad("that is no tensor", name, lambda x: x.tolist(), ("list", "torch.Tensor")),
        Bad("that is an array", name, lambda x: x.numpy(), ("ndarray", "torch.Tensor")),
        Bad("that is None", name, lambda x: None, ("NoneType", "torch.Tensor")),
        Bad("without heads", name, lambda x: x[:, :, 0], (shape(B, T, width), f"[B, T, H, {letter}]")),
        Bad("with five dimensions", name, lambda x: x[None], (shape(1, B, T, H, width), "four dimensions")),
        Bad("of integers", name, lambda x: x.long(), ("torch.int64", "floating")),
        Bad("that is complex", name, lambda x: x.to(torch.complex64), ("torch.complex64", "floating")),
        Bad("without tokens", name, lambda x: x[:, :0], (shape(B, 0, H, width), "no empty dimension")),
        Bad("of width zero", name, lambda x: x[..., :0], (shape(B, T, H, 0), "no empty dimension")),
        Bad("without batch", name, lambda x: x[:0], (shape(0, T, H, width), "no empty dimension")),
    )
]
OTHER_SHAPES = [
    bad
    for name, width in (("k", K), ("v", V))
    for bad in (
        Bad("of another batch", name, lambda x: x[:1], (shape(1, T, H, width), f"[{B}, {T}, {H}, ")),
        Bad("of another length", name, lambda x: x[:, :1], (shape(B, 1, H, width), f"[{B}, {T}, {H}, ")),
        Bad("with one head", name, lambda x: x[:, :, :1], (shape(B, T, 1, width), f"[{B}, {T}, {H}, ")),
        Bad("heads first", name, lambda x: x.transpose(1, 2), (shape(B, H, T, width), f"[{B}, {T}, {H}, ")),
        Bad("of another dtype", name, lambda x: x.double(), ("torch.float64", "torch.float32")),
        Bad("of half precision", name, lambda x: x.bfloat16(), ("torch.bfloat16", "torch.float32")),
        Bad("on another device", name, lambda x: x.to("meta"), ("meta", "cpu")),
    )
]
WIDTHS = [
    Bad("of width one", "k", lambda x: x[..., :1], (shape(B, T, H, 1), shape(B, T, H, K))),
    Bad("wider than q", "k", lambda x: torch.cat([x, x], -1), (shape(B, T, H, 2 * K), shape(B, T, H, K))),
]
DECAY = [
    Bad("that is a number", "log_decay", lambda x: -0.1, ("float", "torch.Tensor")),
    Bad("without dimension", "log_decay", lambda x: x[0, 0, 0, 0], (shape(), shape(B, T, H))),
    Bad("for one head of many", "log_decay", lambda x: x[0, 0, :1, 0], (shape(1), shape(H))),
    Bad("for every token alone", "log_decay", lambda x: x[0, :, 0, 0], (shape(T), shape(H))),
    Bad("without batch", "log_decay", lambda x: x[0, :, :, 0], (shape(T, H), shape(B, T, H))),
    Bad("with one token", "log_decay", lambda x: x[:, :1, :, 0], (shape(B, 1, H), shape(B, T, H))),
    Bad("with one head", "log_decay", lambda x: x[:, :, :1, 0], (shape(B, T, 1), shape(B, T, H))),
    Bad("of width one", "log_decay", lambda x: x[..., :1], (shape(B, T, H, 1), shape(B, T, H, K))),
    Bad("heads first", "log_decay", lambda x: x.transpose(1, 2), (shape(B, H, T, K), shape(B, T, H, K))),
    Bad("of integers", "log_decay", lambda x: x.long(), ("torch.int64", "torch.float32")),
    Bad("in float64", "log_decay", lambda x: x.double(), ("torch.float64", "torch.float32")),
    Bad(
        "in bfloat16 beside float32", "log_decay", lambda x: x.bfloat16(), ("torch.bfloat16", "torch.float32")
    ),
    Bad("on another device", "log_decay", lambda x: x.to("meta"), ("meta", "cpu")),
    Bad("that grows", "log_decay", lambda x: x.abs(), ("largest value", "<= 0")),
    Bad("with one positive number", "log_decay", lambda x: with_one(x, 0.25), ("0.25", "<= 0")),
    Bad("with one NaN", "log_decay", lambda x: with_one(x, torch.nan), ("nan",)),
    Bad("with one minus infinity", "log_decay", lambda x: with_one(x, -torch.inf), ("-inf", "finite")),
]
SCALE = [
    Bad("that is a string", "scale", lambda x: "0.5", ("str", "number")),
    Bad("that is a tensor", "scale", lambda x: torch.tensor(0.5), ("Tensor", "number")),
    Bad("that is a truth value", "scale", lambda x: True, ("bool", "number")),
    Bad("that is complex", "scale", lambda x: 1j, ("complex", "number")),
]
STATE = [
    Bad("that is no tensor", "initial_state", lambda x: x.tolist(), ("list", "torch.Tensor")),
    Bad("without batch", "initial_state", lambda x: x[0], (shape(H, K, V), shape(B, H, K, V))),
    Bad("of batch one", "initial_state", lambda x: x[:1], (shape(1, H, K, V), shape(B, H, K, V))),
    Bad("of one head", "initial_state", lambda x: x[:, :1], (shape(B, 1, K, V), shape(B, H, K, V))),
    Bad("values first", "initial_state", lambda x: x.mT, (shape(B, H, V, K), shape(B, H, K, V))),
    Bad("of width one", "initial_state", lambda x: x[..., :1], (shape(B, H, K, 1), shape(B, H, K, V))),
    Bad("in half precision", "initial_state", lambda x: x.half(), ("torch.float16", "torch.float32")),
    Bad("in float64", "initial_state", lambda x: x.double(), ("torch.float64", "torch.float32")),
    Bad("of integers", "initial_state", lambda x: x.long(), ("torch.int64", "torch.float32")),
    Bad("on another device", "initial_state", lambda x: x.to("meta"), ("meta", "cpu")),
]
S = 9  # tokens in the cache
CACHE = [
    Bad("that is one tensor", "initial_state", lambda c: c.k, ("Tensor", "KVCache")),
    Bad("of three parts", "initial_state", lambda c: (*c, c.k), ("tuple", "KVCache")),
    *(
        Bad(claim, "initial_state", in_part(part, f), words, name)
        for part, width, name in (("k", K, "initial_state.k"), ("v", V, "initial_state.v"))
        for claim, f, words in (
            (f"whose {part} is no tensor", lambda x: x.tolist(), ("list", "torch.Tensor")),
            (f"whose {part} has no batch", lambda x: x[0], (shape(S, H, width),)),
            (f"whose {part} has batch one", lambda x: x[:1], (shape(1, S, H, width), shape(B, S, H, width))),
            (
                f"whose {part} has one head",
                lambda x: x[:, :, :1],
                (shape(B, S, 1, width), shape(B, S, H, width)),
            ),
            (f"whose {part} is too narrow", lambda x: x[..., :1], (shape(B, S, H, 1), shape(B, S, H, width))),
            (f"whose {part} is float64", lambda x: x.double(), ("torch.float64", "torch.float32")),
            (f"whose {part} is elsewhere", lambda x: x.to("meta"), ("meta", "cpu")),
        )
    ),
    Bad(
        "with fewer values than keys",
        "initial_state",
        lambda c: c._replace(v=c.v[:, :-1]),
        (shape(B, S - 1, H, V), shape(B, S, H, V)),
        "initial_state.v",
    ),
]
PACKED = [
    Bad(claim, "cu_seqlens", replace_by(value), words)
    for claim, value, words in (
        ("that is a list", [0, T], ("list", "torch.Tensor")),
        ("with two dimensions", torch.tensor([[0, T]]), (shape(1, 2), "[n + 1]")),
        ("of one offset", torch.tensor([0]), (shape(1), "[n + 1]")),
        ("in float32", torch.tensor([0.0, T]), ("torch.float32", "torch.int32")),
        ("on another device", torch.tensor([0, T], device="meta"), ("meta", "cpu")),
        ("that begins late", torch.tensor([1, T]), (shape(1, T), "0")),
        ("that ends early", torch.tensor([0, T - 1]), (shape(0, T - 1), str(T))),
        ("that falls", torch.tensor([0, 4, 3, T]), (shape(0, 4, 3, T), "do not fall")),
    )
] + [Bad("in a batch", "cu_seqlens", replace_by(torch.tensor([0, T])), (shape(B, T, H, K), "one batch"), "q")]
BONUS = beside("bonus", H, K)
REMOVAL = [*beside("removal", B, T, H, K), *beside("rate", B, T, H, K), *out_of("rate", ">= 0", "<= 2")]
BETA = [*beside("beta", B, T, H), *out_of("beta", ">= 0", "<= 2")]
ON_HEADS = [*QKV, *OTHER_SHAPES, *WIDTHS, *DECAY, *CHUNK, *SCALE]
