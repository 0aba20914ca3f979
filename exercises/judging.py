"""Compare an outcome with what was expected, and say in words where and how they differ."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

Outcome = dict[str, Any]  # what ``plain.call`` returns, with the value decoded


class Difference(NamedTuple):
    """The first place where two values differ (such as ``[0][2, 1]``), what came, what was expected."""

    where: str
    got: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"at {self.where} " if self.where else ""
        return f"{place}got {self.got}, expected {self.expected}."


class Comparison(Protocol):
    """Decides whether a value is the expected one."""

    def difference(self, got: Any, want: Any) -> Difference | None:
        """The first difference, or None if the value is accepted."""


@dataclass(frozen=True)
class Close:
    """Numbers, arrays, tuples: ``|got - want| <= tolerance max(1, max|want|)``, NaN only where expected."""

    tolerance: float = 1e-5

    def difference(self, got: Any, want: Any) -> Difference | None:
        if isinstance(want, tuple):
            return _in_tuple(self, got, want)
        a, b = numbers(got), numbers(want)
        if a is None or b is None:
            return Difference("", kind(got), kind(want))
        if a.shape != b.shape:
            return Difference("", kind(got), kind(want), shape_hint(a, b))
        wrong = ~np.isclose(a, b, rtol=0.0, atol=self.tolerance * largest(b), equal_nan=True)
        return _first(a, b, wrong, value_hint(a, b, self.tolerance)) if wrong.any() else None


@dataclass(frozen=True)
class Within:
    """Positive numbers that agree up to a factor: ``want / factor <= got <= want factor``."""

    factor: float

    def difference(self, got: Any, want: Any) -> Difference | None:
        a, b = numbers(got), numbers(want)
        if a is None or b is None or a.shape != b.shape:
            return Difference("", kind(got), kind(want))
        wrong = ~((a >= b / self.factor) & (a <= b * self.factor))
        found = _first(a, b, wrong, "") if wrong.any() else None
        return found and found._replace(expected=f"{found.expected} up to a factor of {self.factor:g}")


@dataclass(frozen=True)
class Exactly:
    """Texts, in capitals or not, and whole numbers."""

    def difference(self, got: Any, want: Any) -> Difference | None:
        if isinstance(got, str) and isinstance(want, str):
            got, want = got.strip().upper(), want.upper()
        same = type(got) is type(want) and got == want
        return None if same else Difference("", repr(got)[:80], "another answer")


def _in_tuple(how: Comparison, got: Any, want: tuple[Any, ...]) -> Difference | None:
    if not isinstance(got, (tuple, list)) or len(got) != len(want):
        return Difference("", kind(got), kind(want))
    for i, pair in enumerate(zip(got, want, strict=True)):
        if found := how.difference(*pair):
            return found._replace(where=f"[{i}]{found.where}")
    return None


def _first(a: np.ndarray, b: np.ndarray, wrong: np.ndarray, hint: str) -> Difference:
    index = np.unravel_index(int(wrong.argmax()), wrong.shape)
    where = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
    pair = float(a[index]), float(b[index])
    whole = all(number.is_integer() and abs(number) < 1e15 for number in pair)
    x, y = (f"{number:,.0f}" if whole else f"{number:.6g}" for number in pair)
    if x == y:
        x, y = (f"{number:.12g}" for number in pair)
    return Difference(where, x, y, hint)


def numbers(value: Any) -> np.ndarray | None:
    """A value as a float64 array; None for what is not made of numbers."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, (tuple, list)) and not _made_of_numbers(value):
        return None
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError, OverflowError):  # ragged lists, whole numbers without end
        return None


def _made_of_numbers(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_made_of_numbers, value))
    return isinstance(value, (int, float, np.ndarray, torch.Tensor))


def kind(value: Any, depth: int = 2) -> str:
    """What a value is, for a message."""
    if value is None:
        return "None"
    if isinstance(value, tuple) and depth:
        return f"({', '.join(kind(one, depth - 1) for one in value[:6])})"
    array = numbers(value)
    if array is None:
        return f"a {type(value).__name__}"
    return f"shape {list(array.shape)}" if array.ndim else "one number"


def largest(want: np.ndarray) -> float:
    finite = np.abs(want[np.isfinite(want)])
    return max(1.0, float(finite.max())) if finite.size else 1.0


# --- hints for what nobody planted --------------------------------------------------------------------------


def shape_hint(got: np.ndarray, want: np.ndarray) -> str:
    if got.shape == want.shape[::-1]:
        return "It has the shape of the transpose."
    if got.size == want.size:
        return "The entries are as many as expected, in another shape."
    return ""


def value_hint(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What a wrong array has in common with the right one, if anything."""
    bound = tolerance * largest(want)

    def near(a: np.ndarray, b: np.ndarray) -> bool:
        return a.size > 1 and bool(np.all(np.abs(a - b) <= bound))

    if not np.isfinite(want).all():
        return ""
    if not np.isfinite(got).all():
        bad = np.count_nonzero(~np.isfinite(got))
        return f"{bad:,} of {got.size:,} entries are NaN or infinite." if got.size > 1 else ""
    if got.ndim == 2 and got.shape[0] == got.shape[1] and near(got.T, want):
        return "It is the transpose of the expected table."
    scale = float((got * want).sum() / max(float((want * want).sum()), 1e-300))
    if near(got, scale * want) and abs(scale) > 1e-3 and abs(scale - 1) > 1e-3:
        return f"Every entry is {scale:.4g} times the expected one."
    if got.ndim and len(got) > 2:
        if near(got[1:], want[:-1]):
            return "It is the expected sequence, one token late."
        if near(got[:-1], want[1:]):
            return "It is the expected sequence, one token early."
    return ""
