"""Wrong in, clear error out: a ValueError that names the argument, what came, and what was expected."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from ladder import OPS, inputs_of
from ladder_cases import Case

from linattn_ref.ops import FORMS
from linattn_ref.ops.linear import parallel_body

B, T, H, K, V = 2, 6, 3, 5, 4
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Bad:
    """A spoilt argument and the words that the message must hold besides the argument's name."""

    claim: str
    argument: str
    spoil: Callable[[Any], Any]
    words: tuple[str, ...]
    named: str = ""  # the name in the message, where it is not the argument's

    def __str__(self) -> str:
        return f"{self.argument} {self.claim}"


def shape(*sizes: int) -> str:
    return str(list(sizes))


def replace_by(value: object) -> Callable[[Any], Any]:
    return lambda x: value


def in_part(part: str, spoil: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Spoil one part of a cache."""
    return lambda cache: cache._replace(**{part: spoil(getattr(cache, part))})


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
    Bad("with one positive number", "log_decay", lambda x: put(x, 0.25), ("0.25", "<= 0")),
    Bad("with one NaN", "log_decay", lambda x: put(x, torch.nan), ("nan",)),
    Bad("with one minus infinity", "log_decay", lambda x: put(x, -torch.inf), ("-inf", "finite")),
]
CHUNK = [
    Bad(f"{size!r}", "chunk_size", replace_by(size), (repr(size), "whole number"))
    for size in (0, -1, 16.0, True, None, "16")
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
S = 9
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
TWO_TOKENS = [
    Bad("of two tokens", name, lambda x: torch.cat([x, x], 1), ("one token",)) for name in ("q", "u", "k")
]


def beside(name: str, *sizes: int, double: bool = True) -> list[Bad]:
    """Rows for a real argument of one shape that stands beside the sequence."""
    shorter = (*sizes[:-1], sizes[-1] - 1)
    return [
        Bad("that is no tensor", name, lambda x: x.tolist(), ("list", "torch.Tensor")),
        Bad("that is too short", name, lambda x: x[..., :-1], (shape(*shorter), shape(*sizes))),
        Bad("with a dimension more", name, lambda x: x[None], (shape(1, *sizes), shape(*sizes))),
        Bad("of integers", name, lambda x: x.long(), ("torch.int64", "torch.float32")),
        Bad("in float64", name, lambda x: x.double(), ("torch.float64", "torch.float32")),
        Bad("of half precision", name, lambda x: x.bfloat16(), ("torch.bfloat16", "torch.float32")),
        Bad("on another device", name, lambda x: x.to("meta"), ("meta", "cpu")),
    ]


def channels(name: str) -> list[Bad]:
    """Rows for the sequence of channels itself, [B, T, D]."""
    return [
        Bad("that is no tensor", name, lambda x: x.tolist(), ("list", "torch.Tensor")),
        Bad("that is None", name, lambda x: None, ("NoneType", "torch.Tensor")),
        Bad("of one sequence", name, lambda x: x[0], (shape(T, K), "[B, T, D]")),
        Bad("without tokens", name, lambda x: x[:, :0], (shape(B, 0, K), "no empty dimension")),
        Bad("of integers", name, lambda x: x.long(), ("torch.int64", "floating")),
    ]


def out_of(name: str, low: str, top: str) -> list[Bad]:
    """Rows for values that must be finite, and within bounds that 7 and -7 are outside of."""
    rows = [Bad("with one NaN", name, lambda x: one(x, torch.nan), ("nan",))]
    if low:
        rows.append(Bad("that is negative", name, lambda x: one(x, -7.0), ("-7", low)))
    if top:
        rows.append(Bad("that is too large", name, lambda x: one(x, 7.0), ("7", top)))
    return rows


def one(x: torch.Tensor, value: float) -> torch.Tensor:
    """x with its last number replaced."""
    changed = x.clone()
    changed[(-1,) * x.ndim] = value
    return changed


D, N = K, V
BONUS = beside("bonus", H, K)
BETA = [*beside("beta", B, T, H), *out_of("beta", ">= 0", "<= 2")]
SSM_STATE = beside("initial_state", B, D, N)
STEPS = out_of("delta", ">= 0", "")
A_ROWS = [
    *(bad for bad in beside("A", D, N) if bad.claim not in ("that is too short", "with a dimension more")),
    Bad("with a channel less", "A", lambda x: x[1:], (shape(D - 1, N), f"D = {D}")),
    Bad("with a dimension more", "A", lambda x: x[None], (shape(1, D, N), "[D, N]")),
    *out_of("A", "", "<= 0"),
]
LTI = [
    *channels("u"),
    *beside("delta", D),
    *STEPS,
    *A_ROWS,
    *(bad for name in "BC" for bad in beside(name, D, N)),
    *(
        Bad("that is complex beside a real A", name, lambda x: x + 0j, ("torch.complex64", "torch.float32"))
        for name in "BC"
    ),
    Bad("that is complex beside real B and C", "A", lambda x: x + 0j, ("torch.float32", "complex64"), "B"),
    *beside("D", D),
    Bad("that is unknown", "method", lambda x: "hold", ("'hold'", "'zoh'", "'bilinear'", "'euler'")),
    *SSM_STATE,
]
SCAN = [
    *channels("u"),
    *beside("delta", B, T, D),
    *STEPS,
    *A_ROWS,
    *(bad for name in "BC" for bad in beside(name, B, T, N)),
    *beside("D", D),
    Bad("that is unknown", "hold", lambda x: "zoh", ("'zoh'", "'euler'", "'exact'")),
    *SSM_STATE,
]
WKV = [
    *channels("k"),
    *CHUNK,
    Bad("of another width", "v", lambda x: x[..., :-1], (shape(B, T, D - 1), shape(B, T, D))),
    Bad("of half precision", "v", lambda x: x.half(), ("torch.float16", "torch.float32")),
    *beside("w", D),
    *out_of("w", ">= 0", ""),
    *beside("u", D),
    Bad("that is one tensor", "initial_state", lambda s: s.a, ("Tensor", "WKVState")),
    *(
        Bad(f"whose {part} {bad.claim}", "initial_state", in_part(part, bad.spoil), bad.words, bad.argument)
        for part in "abm"
        for bad in beside(f"initial_state.{part}", B, D)
    ),
]


def put(x: torch.Tensor, value: float) -> torch.Tensor:
    """x with one number replaced."""
    changed = x.clone()
    changed[1, -1, 0, 1] = value
    return changed


def good(op: str, tokens: int) -> Arguments:
    """Arguments that every form of the op takes, as the table above expects them."""
    decay, strength = ("channel", "mild") if "log_decay" in OPS[op].timed else OPS[op].variants[0]
    sizes = {"B": B, "H": H, "K": K, "V": V}
    case = Case(
        op, T=tokens, **sizes, decay=decay, strength=strength, start=True, scale=0.5, dtype=torch.float32
    )
    return OPS[op].arguments(case, inputs_of(case))


HEADS = [*QKV, *OTHER_SHAPES, *WIDTHS, *DECAY, *CHUNK, *SCALE]
TABLES = {
    "softmax_attention": [*HEADS, *CACHE],
    "linear_attention": [*HEADS, *STATE],
    "rwkv6": [*HEADS, *STATE, *BONUS],
    "delta_rule": [*HEADS, *STATE, *BETA],
    "lti_ssm": LTI,
    "selective_scan": SCAN,
    "wkv": WKV,
}


def table(op: str) -> list[Bad]:
    return TABLES[op]


FORM_ROWS = [
    pytest.param(form.function, form.op, bad, id=f"{form.op}-{form.form}-{bad}")
    for form in FORMS
    for bad in table(form.op)
    if bad.argument in inspect.signature(form.function).parameters
]


@pytest.mark.parametrize(("function", "op", "bad"), FORM_ROWS)
def test_form_refuses(function: Callable, op: str, bad: Bad) -> None:
    arguments = good(op, T)
    function(**arguments)  # right without the fault
    arguments[bad.argument] = bad.spoil(arguments.get(bad.argument))
    with pytest.raises(ValueError, match=f"^{re.escape(bad.named or bad.argument)}: got ") as raised:
        function(**arguments)
    assert_explains(str(raised.value), bad.words)


def assert_explains(message: str, words: tuple[str, ...]) -> None:
    missing = [word for word in ("expected", *words) if word not in message]
    assert not missing, f"{message!r} does not say {missing}"


def leading(op: str) -> str:
    """The first argument of an op: its sequence."""
    return next(iter(inspect.signature(OPS[op].step).parameters))


NEEDS_TWO_TOKENS = {"of another length", "with one token"}
STEP_ROWS = [
    pytest.param(op, bad, id=f"{op}-{bad}")
    for op in OPS
    for bad in (next(two for two in TWO_TOKENS if two.argument in leading(op)), *table(op))
    if bad.argument.replace("initial_state", "state") in inspect.signature(OPS[op].step).parameters
    and bad.claim not in NEEDS_TWO_TOKENS
]


@pytest.mark.parametrize(("op", "bad"), STEP_ROWS)
def test_step_refuses(op: str, bad: Bad) -> None:
    """A step takes T = 1 and calls its start ``state``; else its errors are those of the forms."""
    step, arguments = OPS[op].step, good(op, 1)
    arguments["state"] = arguments.pop("initial_state")
    step(**arguments)
    argument = bad.argument.replace("initial_state", "state")
    name = bad.named.replace("initial_state", "state") or argument
    arguments[argument] = bad.spoil(arguments[argument])
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}: got .*expected "):
        step(**arguments)


def test_table_has_a_row_for_every_argument() -> None:
    for form in FORMS:
        tested = {bad.argument for bad in table(form.op)}
        assert set(inspect.signature(form.function).parameters) <= tested


def test_message_without_the_expected_words_is_caught() -> None:
    with pytest.raises(AssertionError, match="does not say"):
        assert_explains("k: got shape [1, 2], expected the shape of q", ("[2, 2]",))


def test_internal_functions_enforce_their_annotations_under_pytest() -> None:
    q = torch.ones(B, T, H, K)
    parallel_body(q, q, q, None, None)
    with pytest.raises(TypeError, match=r"shape|dimension|annotation|hint"):
        parallel_body(q, q, q[:, :-1], None, None)
