"""A point of the ladder, its random numbers, and what the ladder must know of an op."""

import itertools
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

Tensors = dict[str, Tensor]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One point of the ladder.

    ``decay`` is None, "head" [H], "token" [B, T, H] or "channel" [B, T, H, K]; ``strength`` is of the decays
    ("mild", "hard", "all -50", "zero"; "cliff": -50 for half of the time, then -1e-4; "drift": from -1e-4 to
    -50 and back) or of softmax's scores ("mild", "large", "drift"). State space models name their variants in
    the same two fields; they have K channels and V numbers of state in each.
    """

    op: str
    T: int
    B: int = 2
    H: int = 2
    K: int = 5
    V: int = 3
    decay: str | None = None
    strength: str = "mild"
    start: bool = False
    chunk_size: int = 16
    scale: float | None = None
    zeros: bool = False
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        extras = [
            self.decay or "no_decay",
            self.strength,
            "start" * self.start,
            "scaled" * (self.scale is not None),
            "zeros" * self.zeros,
        ]
        sizes = f"B{self.B}T{self.T}H{self.H}K{self.K}V{self.V}C{self.chunk_size}"
        dtype = str(self.dtype).removeprefix("torch.")
        return "-".join([self.op, sizes, *filter(None, extras), dtype])

    def generator(self, purpose: str) -> Generator:
        """Random numbers that depend on the case and the purpose, and on nothing else."""
        return Generator().manual_seed(zlib.crc32(f"{self} {purpose}".encode()))


def pairwise(**factors: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows in which any two levels of any two factors meet at least once (greedy; deterministic)."""
    levels = {name: list(values) for name, values in factors.items()}
    pairs = dict.fromkeys(
        frozenset([(a, i), (b, j)])
        for a, b in itertools.combinations(levels, 2)
        for i in range(len(levels[a]))
        for j in range(len(levels[b]))
    )
    rows = []
    while pairs:
        row = dict(sorted(next(iter(pairs))))
        for name in levels:
            if name not in row:
                met = [_met(pairs, row, name, i) for i in range(len(levels[name]))]
                row[name] = met.index(max(met))
        for pair in itertools.combinations(row.items(), 2):
            pairs.pop(frozenset(pair), None)
        rows.append({name: levels[name][row[name]] for name in levels})
    return rows


def _met(pairs: Mapping[frozenset, Any], row: dict[str, int], name: str, level: int) -> int:
    return sum(frozenset([(name, level), other]) in pairs for other in row.items())


# --- random inputs ----------------------------------------------------------------------------------------


def normal(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def drift(T: int, low: float, high: float, *trailing: int) -> Tensor:
    """Numbers that go from ``low`` to ``high`` and back over T tokens, smoothly in their logarithm."""
    way = torch.sin(torch.linspace(0, torch.pi, T, dtype=torch.float64)) ** 2
    return (low * (high / low) ** way).view(T, *[1] * len(trailing)).expand(T, *trailing)


def qkv(case: Case, generator: Generator) -> Tensors:
    """q, k, v; with ``zeros``, whole tokens and single numbers of each are exactly zero."""
    head = (case.B, case.T, case.H)
    x = {
        name: normal(generator, *head, width)
        for name, width in zip("qkv", (case.K, case.K, case.V), strict=True)
    }
    if case.zeros:
        for name in x:
            x[name] = x[name] * (torch.rand(x[name].shape, generator=generator) > 0.3)
            x[name] = x[name] * (torch.rand(*head, 1, generator=generator) > 0.3)
    return x


# --- what the ladder knows of an op -----------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """What the ladder must know of an op.

    Inputs are named leaves; a start state's are called ``initial_state`` or ``initial_state.part``. Results
    are named alike: ``output``, and ``state`` or ``state.part``.
    """

    inputs: Callable[[Case, Generator], Tensors]
    arguments: Callable[[Case, Tensors], dict[str, Any]]
    state: Callable[[Any], Tensors]
    oracle: Callable[[Case, Arrays], Arrays]
    step: Callable[..., Any]  # one token; its start state is called ``state``
    timed: frozenset[str]  # the leaves that have a time dimension, dimension 1 (a decay [H] has none)
    full: frozenset[str]  # leaves and results that are float32 at least, whatever the dtype
    variants: tuple[tuple[str | None, str], ...]  # kinds and strengths of decays, or of scores
    nudge: Callable[[Tensors, float], Tensors] = lambda x, eps: x  # all decays of a recurrence off by eps
    dual: bool = False  # the oracle computes with complex numbers, so slopes come from dual ones
