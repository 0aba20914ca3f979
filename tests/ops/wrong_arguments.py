"""What a wrong argument is, ``Bad``, and the rows of wrong arguments that several ops share.

``wrong_heads.py`` and ``wrong_channels.py`` have the rows of single ops; ``Op.wrong`` in the ladder
says which rows are an op's. Rows are for arguments of the sizes below, in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

B, T, H, K, V = 2, 6, 3, 5, 4


@dataclass(frozen=True)
class Bad:
    """A spoilt argument and what the message must say of it.

    Attributes:
        claim: what is wrong, in the name of the test.
        argument: the name of the argument.
        spoil: from the right argument to a wrong one.
        words: what the message must hold, besides the argument's name, "got" and "expected".
        named: the name in the message, where it is not the argument's, as "initial_state.k".
    """

    claim: str
    argument: str
    spoil: Callable[[Any], Any]
    words: tuple[str, ...]
    named: str = ""

    def __str__(self) -> str:
        return f"{self.argument} {self.claim}"


def shape(*sizes: int) -> str:
    """Return sizes as messages print a shape."""
    return str(list(sizes))


def replace_by(value: object) -> Callable[[Any], Any]:
    """Return what puts a value in the place of an argument, whatever that is."""
    return lambda x: value


def in_part(part: str, spoil: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what spoils one part of a state that is a named tuple."""
    return lambda cache: cache._replace(**{part: spoil(getattr(cache, part))})


def beside(name: str, *sizes: int) -> list[Bad]:
    """Return rows for a real argument that stands beside the sequence and has this shape."""
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


def out_of(name: str, low: str, top: str) -> list[Bad]:
    """Return rows for values that must be finite and in a range that 7 and -7 are outside of.

    Args:
        name: of the argument.
        low: how messages say the lower bound, as ">= 0"; empty: there is none.
        top: how they say the upper bound; empty: there is none.
    """
    rows = [Bad("with one NaN", name, lambda x: with_one(x, torch.nan), ("nan",))]
    if low:
        rows.append(Bad("that is negative", name, lambda x: with_one(x, -7.0), ("-7", low)))
    if top:
        rows.append(Bad("that is too large", name, lambda x: with_one(x, 7.0), ("7", top)))
    return rows


def with_one(x: torch.Tensor, value: float) -> torch.Tensor:
    """Return x with its last number replaced."""
    changed = x.clone()
    changed[(-1,) * x.ndim] = value
    return changed


CHUNK = [
    Bad(f"{size!r}", "chunk_size", replace_by(size), (repr(size), "whole number"))
    for size in (0, -1, 16.0, True, None, "16")
]
