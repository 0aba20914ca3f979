"""What both comparisons share: a case, a row, gradients under fixed upstream ones."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Numbers = dict[str, Tensor]
Rows = list[dict[str, Any]]
DTYPES = (torch.float32, torch.bfloat16)
ERROR = "max|theirs - ours| / max(1, max|ours|), ours in float64 on the same rounded inputs"


class Case(NamedTuple):
    """What is compared at once, and how it is called in the output."""

    label: str
    compare: Callable[[], Rows]


class Study(NamedTuple):
    """A comparison: the result it is kept as, what can be compared, and the code that it measures."""

    result: str
    option: str
    names: Sequence[str]
    cases: Callable[[str], Iterator[Case]]
    columns: Mapping[str, str]
    sources: tuple[str, ...]


def measured(quantity: str, got: Tensor | None, want: Tensor) -> dict[str, Any]:
    """The cells of a row that are numbers; no error where there is nothing to compare or it is not finite."""
    size = want.double().abs().max()
    error = math.nan if got is None else ((got - want).double().abs().max() / size.clamp(min=1)).item()
    return {"quantity": quantity, "error": error if math.isfinite(error) else None, "size": size.item()}


def gradients(found: Numbers, upstream: Numbers, leaves: Numbers) -> Numbers:
    """Of sum(found upstream), for every leaf that it depends on."""
    loss = torch.stack([(found[name].double() * y).sum() for name, y in upstream.items()]).sum()
    of = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {f"gradient of {name}": g for name, g in zip(leaves, of, strict=True) if g is not None}


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
