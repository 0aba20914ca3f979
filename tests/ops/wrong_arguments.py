"""A wrong argument, the words its error must hold, and the rows that several ops share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

B, T, H, K, V = 2, 6, 3, 5, 4


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


def beside(name: str, *sizes: int) -> list[Bad]:
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


CHUNK = [
    Bad(f"{size!r}", "chunk_size", replace_by(size), (repr(size), "whole number"))
    for size in (0, -1, 16.0, True, None, "16")
]
