"""Define what a disagreement is, measure it, and provide what the pairs of functions share.

Everything is float64 unless it says otherwise, one batch element, one head; inputs come from one fixed seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from linattn_ref.ops.linear import recurrent_linear_attention

Inputs = Callable[[Generator], tuple[Any, ...]]


def relative(one: Tensor, other: Tensor) -> float:
    """max|one - other| / max(1, max|other|)."""
    return ((one - other).abs().max() / other.abs().max().clamp(min=1)).item()


def absolute(one: Tensor, other: Tensor) -> float:
    """max|one - other|, in the unit of the two."""
    return (one - other).abs().max().item()


def of_each(one: Tensor, other: Tensor) -> float:
    """max|one - other| / |other|, entry by entry."""
    return ((one - other).abs() / other.abs()).max().item()


@dataclass(frozen=True)
class Disagreement:
    """Describe two readings of one thing.

    Args:
        key: unique, for ``find``; title: a few words; subject: the section of the page.
        what: where the two differ.
        one, other: functions of the same inputs; the docstring is the source.
        ours: which one this book uses, and why.
        inputs: what the two are measured on; unit: what the number counts; difference: how it is taken.
        equal_when, equal_inputs: the special case in which the two agree, if there is one.
        unsettled: what the sources leave open.
    """

    key: str
    title: str
    what: str
    one: Callable[..., Tensor]
    other: Callable[..., Tensor]
    ours: str
    inputs: Inputs
    subject: str
    unit: str = "times the largest output"
    difference: Callable[[Tensor, Tensor], float] = relative
    equal_when: str = ""
    equal_inputs: Inputs | None = None
    unsettled: str = ""


def measure(entry: Disagreement, inputs: Inputs | None = None) -> float:
    """Measure how far apart the two functions of an entry are, on its inputs or on others."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        drawn = (inputs or entry.inputs)(generator)
        return entry.difference(entry.one(*drawn), entry.other(*drawn))


# --- inputs -------------------------------------------------------------------------------------------------


def fixed(*values: Any) -> Inputs:
    """Return inputs that are not drawn."""
    return lambda g: values


def draw(g: Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def qkv(g: Generator, T: int = 16, K: int = 4, V: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    return draw(g, 1, T, 1, K), draw(g, 1, T, 1, K), draw(g, 1, T, 1, V)


def count(T: int) -> Tensor:
    """1, ..., T as [1, T, 1, 1]."""
    return torch.arange(1, T + 1, dtype=torch.float64)[None, :, None, None]


def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None) -> Tensor:
    """Plain linear attention, no scale and no denominator [1, T, H, V]."""
    return recurrent_linear_attention(q, k, v, log_decay, scale=1.0).output
