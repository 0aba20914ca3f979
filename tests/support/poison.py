"""Allocators of torch whose fresh memory holds NaN, so that reading it cannot go unnoticed."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._device import _device_constructors

ALLOCATORS = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
)


def poisoned_allocators() -> Iterator[tuple[Any, str, Callable[..., Tensor]]]:
    """Yield owner and name of every function that allocates, and what to put in its place."""
    _device_constructors()  # torch makes this list once and keeps it: before there is poison in it
    for owner, name in ALLOCATORS:
        yield owner, name, _poisoned(getattr(owner, name))


def _poisoned(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that allocates as this one does, and fills with NaN what can hold it."""

    @functools.wraps(allocate)
    def poisoned(*args: Any, **kwargs: Any) -> Tensor:
        x = allocate(*args, **kwargs)
        with torch.no_grad():
            return x.fill_(torch.nan) if x.is_floating_point() or x.is_complex() else x

    return poisoned
