"""What the ladder is made of: ``Case``, ``pairwise`` covers of cases, random numbers, and ``Op``.

A leaf is an input that gradients are taken of: a tensor that the ladder draws, by its name.
"""

import itertools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from tests.ops.wrong_arguments import Bad

Tensors = dict[str, Tensor]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One point of the ladder: an op, sizes, and how its inputs are drawn.

    Which pairs of ``decay`` and ``strength`` an op takes is said by ``Op.variants``; what they mean:

    ==================  ============================================  ========================================
    op                  ``decay``                                     ``strength``
    ==================  ============================================  ========================================
    linear attention,   None, or the shape of the log decays:         of the log decays: "mild", "hard",
    rwkv6, rwkv7,       "head" [H], "token" [B, T, H],                "all -50", "zero"; "cliff": -50 for half
    delta rule          "channel" [B, T, H, K]                        of the time, then -1e-4; "drift": from
                                                                      -1e-4 to -50 and back
    softmax attention   None                                          of the scores: "mild", "large", "drift"
    lti_ssm             "real" or "complex" A, B, C                   the method: "zoh", "bilinear", "euler";
                                                                      "hard", "drift": zoh, mixed decays
    selective_scan      the hold: "euler", "exact"                    of the steps: "mild", "hard", "all -50",
                                                                      "slow", "drift"
    wkv                 None                                          of keys and decays: "mild", "large",
                                                                      "hard", "drift"
    ==================  ============================================  ========================================

    Attributes:
        op: name of the op, a key of ``tests.ops.ladder.OPS``.
        T: number of tokens.
        B: number of sequences.
        H: number of heads. Ops on channels have none.
        K: width of queries and keys; for ops on channels the number of channels, D.
        V: width of values; for state space models the numbers of state in a channel, N.
        decay: see above.
        strength: see above.
        start: whether there is an initial state.
        chunk_size: of the forms that have one.
        scale: of the scores; None: the default of the op.
        zeros: whether many numbers, and whole tokens, are exactly zero.
        dtype: of the inputs. ``Op.full`` names those that are float32 at least.
        lengths: of sequences that are packed in the one batch element, T in sum; none: nothing is packed.
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
    lengths: tuple[int, ...] = ()

    @property
    def n_states(self) -> int:
        """Return how many sequences have a state."""
        return len(self.lengths) or self.B

    def __str__(self) -> str:
        extras = [
            self.decay or "no_decay",
            self.strength,
            "start" * self.start,
            "scaled" * (self.scale is not None),
            "zeros" * self.zeros,
            "packed" * bool(self.lengths) + "_".join(map(str, self.lengths)),
        ]
        sizes = f"B{self.B}T{self.T}H{self.H}K{self.K}V{self.V}C{self.chunk_size}"
        dtype = str(self.dtype).removeprefix("torch.")
        return "-".join([self.op, sizes, *filter(None, extras), dtype])

    def generator(self, purpose: str) -> Generator:
        """Return a generator whose numbers depend on the case and the purpose, and on nothing else."""
        return Generator().manual_seed(zlib.crc32(f"{self} {purpose}".encode()))


def pairwise(**factors: Iterable[Any]) -> list[dict[str, Any]]:
    """Return rows in which any two levels of any two factors meet at least once (greedy; deterministic)."""
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
    """Return how many pairs that have not met yet a row would bring together with this level."""
    return sum(frozenset([(name, level), other]) in pairs for other in row.items())


# --- random inputs ----------------------------------------------------------------------------------------


def normal(generator: Generator, *shape: int) -> Tensor:
    """Return standard normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def drift(T: int, low: float, high: float, *trailing: int) -> Tensor:
    """Return numbers that go from ``low`` to ``high`` and back over T tokens, smoothly in their logarithm.

    The result is [T, *trailing], equal along the trailing dimensions.
    """
    way = torch.sin(torch.linspace(0, torch.pi, T, dtype=torch.float64)) ** 2
    return (low * (high / low) ** way).view(T, *[1] * len(trailing)).expand(T, *trailing)


def choice(levels: list[float], generator: Generator, *shape: int) -> Tensor:
    """Return numbers in float64, each one of the levels."""
    return torch.tensor(levels, dtype=torch.float64)[torch.randint(len(levels), shape, generator=generator)]


def with_zeros(x: Tensor, generator: Generator) -> Tensor:
    """Return x with about a third of its numbers, and of its tokens (all dimensions but the last), zero."""
    x = x * (torch.rand(x.shape, generator=generator) > 0.3)
    return x * (torch.rand(*x.shape[:-1], 1, generator=generator) > 0.3)


def qkv(case: Case, generator: Generator) -> Tensors:
    """Return q, k and v, each with zeros if the case has them."""
    head = (case.B, case.T, case.H)
    x = {
        name: normal(generator, *head, width)
        for name, width in zip("qkv", (case.K, case.K, case.V), strict=True)
    }
    if case.zeros:
        x = {name: with_zeros(y, generator) for name, y in x.items()}
    return x


# --- what the ladder knows of an op -----------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """What the ladder must know of an op.

    Inputs are named leaves; an initial state's are called ``initial_state`` or ``initial_state.part``.
    Results are named alike: ``output``, and ``state`` or ``state.part``.

    Attributes:
        inputs: draws the leaves of a case, in float64.
        arguments: makes the arguments of a form out of the leaves.
        state: takes the state that a form returns apart into named results.
        oracle: computes the results from leaves as arrays, by the definition in ``linattn_ref.oracle``.
        step: the op on one token; it calls its initial state ``state``.
        timed: the leaves that have a time dimension, dimension 1. ``log_decay`` is among them, though one
            of shape [H] has no time.
        full: leaves and results that are float32 at least, whatever the dtype of the case.
        variants: the pairs of ``decay`` and ``strength`` that the cases of the ladder have.
        long: for long sequences (``test_length.py``) the decay, and the form that is run in float64.
        wrong: arguments that every form refuses (``test_errors.py``).
        nudge: moves every log decay of a recurrence by eps; an op without decays leaves it out.
        dual: whether the oracle computes with complex numbers, so that slopes come from dual numbers.
    """

    inputs: Callable[[Case, Generator], Tensors]
    arguments: Callable[[Case, Tensors], dict[str, Any]]
    state: Callable[[Any], Tensors]
    oracle: Callable[[Case, Arrays], Arrays]
    step: Callable[..., Any]
    timed: frozenset[str]
    full: frozenset[str]
    variants: tuple[tuple[str | None, str], ...]
    long: tuple[str | None, str]
    wrong: Sequence[Bad]
    nudge: Callable[[Tensors, float], Tensors] = lambda x, eps: x
    dual: bool = False


def single_state(state: Tensor) -> Tensors:
    """Return a state that is one tensor as a named result: an ``Op.state``."""
    return {"state": state}
