"""Recognise kinds of mistakes that are not planted: a factor, a shift, a sign, a mask, a power of the decay.

Each recogniser states a fact about wrong results, and asks what the fact may come from. ``recognise`` tries
those of one array first, then those of all calls of a function together.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from linattn_exercises.comparison import as_numbers

NEAR = 1e-6  # how well a fact must hold, relative to the largest expected entry
FEW = 3  # calls that a fact about single numbers must hold in
EXTREME = 1e6  # times the second largest number, above which a call tells nothing about that argument


@dataclass(frozen=True)
class Case:
    """Hold one call of a function and what came of it.

    Args:
        arguments: by the names of the parameters.
        got: the result.
        expected: the result of the reference.
        right: whether the result was accepted.
    """

    arguments: Mapping[str, Any]
    got: Any
    expected: Any
    right: bool


def recognise(cases: Sequence[Case], first: int) -> str:
    """Return what the wrong results have in common with the right ones, or "".

    Args:
        cases: all calls of a function that have a result.
        first: the number of the case that is wrong and is told to the author.
    """
    case = cases[first]
    swapped = _find_swapped_parts(case)
    if swapped:
        return swapped
    if single := _find_single_part(case):
        return single
    part, got, expected = _take_wrong_part(case.got, case.expected)
    if got is None or expected is None:
        return ""
    far = part is not None and not _agree(got, expected)  # else all parts are nearly right
    name = f"Part {part + 1} of the result: " if part is not None and far else ""
    if got.shape != expected.shape:
        found = compare_shapes(got, expected)
    elif expected.size > 1:
        found = compare_arrays(got, expected, case.arguments)
    else:
        found = compare_numbers(list(_list_numbers(cases, part)))
    return name + found if found else ""


# --- one array ----------------------------------------------------------------------------------------------


def compare_shapes(got: np.ndarray, expected: np.ndarray) -> str:
    """Return a hint on an array of a wrong shape, or ""."""
    if got.ndim > 1 and got.shape == expected.shape[::-1]:
        return "It has the shape of the transpose."
    if got.squeeze().shape == expected.squeeze().shape:
        return "The numbers of entries agree, but there is an axis of length 1 too many or too few."
    if found := _find_missing_rows(got, expected):
        return found
    if got.size == expected.size:
        return "The entries are as many as expected, in another shape."
    if got.ndim == expected.ndim - 1 and got.shape in (expected.shape[1:], expected.shape[:-1]):
        return "An axis is missing: is it summed over, or only its last entry kept?"
    if got.ndim == expected.ndim and all(
        abs(a - b) <= 1 for a, b in zip(got.shape, expected.shape, strict=True)
    ):
        return "An axis is longer or shorter by one: count its first and its last entry."
    return ""


def _find_missing_rows(got: np.ndarray, expected: np.ndarray) -> str:
    """Say that the rows of a result are right, and its last ones missing."""
    n, rows = len(got) if got.ndim else 0, len(expected) if expected.ndim else 0
    if not 1 < n < rows or not expected[:n].any() or not _is_near(got, expected[:n]):
        return ""
    lost = "the last one is" if rows - n == 1 else f"the last {rows - n} are"
    return f"The first {n} rows are right, {lost} missing: is a last part dropped that is shorter?"


def compare_arrays(got: np.ndarray, expected: np.ndarray, arguments: Mapping[str, Any]) -> str:
    """Return what a wrong array has in common with the right one, or "".

    Args:
        got: the result, of the same shape.
        expected: the result of the reference; more than one entry.
        arguments: those of the call, by name; a factor may be one of their sizes.
    """
    if not np.isfinite(expected).all():
        return "" if np.isfinite(got).all() else _describe_not_finite(got)
    if not np.isfinite(got).all():
        return _describe_not_finite(got)
    if _is_near(got, expected):
        return _find_small_error(got, expected, arguments)
    tests: tuple[Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], str], ...] = (
        _find_transpose,
        _find_factor,
        _find_offset,
        _find_function,
        _find_order,
        _find_small_error,
        _find_triangle,
        _find_wrong_axis,
        _find_factors_of_rows,
        _find_first_wrong_row,
    )
    return next((found for test in tests if (found := test(got, expected, arguments))), "")


def _is_near(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays agree, relative to the largest entry of the second."""
    if a.shape != b.shape or not np.isfinite(a).all() or not np.isfinite(b).all():
        return False
    return bool(np.all(np.abs(a - b) <= NEAR * max(float(np.abs(b).max(initial=0.0)), 1e-300)))


def _describe_not_finite(got: np.ndarray) -> str:
    """Say how many entries are no numbers, and from which row on."""
    bad = ~np.isfinite(got)
    rows = np.flatnonzero(bad.reshape(len(got), -1).any(1)) if got.ndim else np.zeros(1)
    where = f", the first in row {rows[0]}" if got.ndim and rows[0] else ""
    kind = (
        "NaN" if np.isnan(got[bad]).all() else "infinite" if np.isinf(got[bad]).all() else "NaN or infinite"
    )
    cause = "0/0, or infinity times 0 or minus infinity" if "NaN" in kind else "an exponential that overflows"
    if "NaN" not in kind and np.isneginf(got[bad]).any():
        cause += ", or minus infinity that never goes through exp"
    return f"{bad.sum():,} of {got.size:,} entries are {kind}{where}: look for {cause}."


def _find_transpose(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    if got.ndim == 2 and got.shape[0] == got.shape[1] and _is_near(got.T, expected):
        return "It is the transpose of the expected table."
    return ""


def _find_factor(got: np.ndarray, expected: np.ndarray, arguments: Mapping[str, Any]) -> str:
    factor = float((got * expected).sum() / max(float((expected * expected).sum()), 1e-300))
    if not _is_near(got, factor * expected) or abs(factor) < 1e-9:
        return ""
    if abs(factor + 1) < NEAR:
        return "Every entry has the wrong sign."
    much = f"{factor:.4g}" if abs(factor - 1) > 1e-3 else f"{factor:.9g}"
    return _end(f"Every entry is {much} times the expected one{_name_factor(factor, _list_sizes(arguments))}")


def _end(sentence: str) -> str:
    """Return a sentence with a full stop, unless it is a question."""
    return sentence if sentence.endswith("?") else f"{sentence}."


def _name_factor(factor: float, sizes: Mapping[str, float]) -> str:
    """Return what a factor may be, after a comma, or "".

    Args:
        factor: the factor.
        sizes: numbers of the call by their names in words.
    """
    logarithms = {
        "ln 2": math.log(2),
        "1/ln 2": 1 / math.log(2),
        "ln 10": math.log(10),
        "1/ln 10": 1 / math.log(10),
    }
    for text, value in logarithms.items():
        if abs(factor / value - 1) < NEAR:
            return f", that is {text}: a logarithm or a power of another base?"
    powers = {"": 1.0, "the root of ": 0.5, "the square of ": 2.0}
    found = []
    for name, size in sizes.items():
        for text, power in powers.items():
            if size > 1 and abs(factor / size**power - 1) < NEAR:
                found.append(f"{text}{name}")
            if size > 1 and abs(factor * size**power - 1) < NEAR:
                found.append(f"1 over {text}{name}")
    if not found:
        return ""
    return f", that is {' or '.join(found[:2])}: is something scaled twice, or not at all?"


def _list_sizes(arguments: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the arguments, and the lengths of arrays, by their names in words."""
    found: dict[str, float] = {}
    for name, value in arguments.items():
        array = as_numbers(value) if not isinstance(value, dict) else None
        if array is None:
            continue
        if array.ndim == 0:
            found[f"`{name}`"] = abs(float(array))
        for axis, length in enumerate(array.shape):
            if length not in found.values():
                found[f"{length}, the length of axis {axis} of `{name}`"] = length
    return found


def _find_offset(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    shift = float((got - expected).mean())
    if not _is_near(got - shift, expected):
        return ""
    return f"Every entry is too {'large' if shift > 0 else 'small'} by {abs(shift):.4g}."


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the square of the expected one: is a root missing?": np.square,
    "the root of the expected one: is a root too many?": np.sqrt,
    "one over the expected one.": np.reciprocal,
    "the exponential of the expected one: is a logarithm missing?": np.exp,
    "the logarithm of the expected one: is an exponential missing?": np.log,
    "the magnitude of the expected one: its sign is lost.": np.abs,
    "the expected one, rounded down.": np.floor,
    "the expected one, rounded up.": np.ceil,
}


def _find_function(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    with np.errstate(all="ignore"):
        for text, function in FUNCTIONS.items():
            if _is_near(got, function(expected)):
                return f"Every entry is {text}"
    return ""


def _find_order(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    n = len(got)
    if n > 2 and _is_near(got[1:], expected[:-1]):
        return "It is the expected sequence, one token late."
    if n > 2 and _is_near(got[:-1], expected[1:]):
        return "It is the expected sequence, one token early."
    if n > 2 and _is_near(got[::-1], expected):
        return "It is the expected sequence, back to front."
    if n > 2 and _is_near(got, expected.cumsum(0)):
        return "It is the running sum of what is expected."
    if n > 2 and _is_near(got.cumsum(0), expected):
        return "Its running sum is what is expected."
    if got.size > 3 and _is_near(np.sort(got, None), np.sort(expected, None)):
        return "The entries are right, but in another order."
    return ""


def _find_triangle(got: np.ndarray, expected: np.ndarray, arguments: Mapping[str, Any]) -> str:
    if got.ndim != 2 or got.shape[0] != got.shape[1] or len(got) < 3 or np.triu(expected, 1).any():
        return ""
    wrong = np.abs(got - expected) > NEAR * np.abs(expected).max()
    if wrong.any() and not np.tril(wrong).any():
        return "Right on and below the diagonal; above it, where the future stands, there should be zeros."
    if wrong.any() and not (wrong & ~np.eye(len(got), dtype=bool)).any():
        return "Right everywhere but on the diagonal, where each token meets itself."
    if wrong.any() and not np.diag(wrong).any() and not np.triu(wrong, 1).any():
        n, below = wrong.sum(), len(got) * (len(got) - 1) // 2
        found = f"Right on the diagonal; of {below:,} entries below it {n:,} are wrong."
        return _find_blocks(wrong, arguments) or found
    return ""


def _find_blocks(wrong: np.ndarray, arguments: Mapping[str, Any]) -> str:
    """Say that entries of a table are wrong within parts of a length that is given, or between them alone."""
    n = len(wrong)
    for name, length in arguments.items():
        if type(length) is not int or not 1 < length < n:
            continue
        place = np.arange(n) // length
        same = place[:, None] == place
        if not (wrong & same).any():
            where = f"Right within each `{name}`, wrong from one to another"
            return f"{where}: look at the blocks below the diagonal."
        if not (wrong & ~same).any():
            return (
                f"Right from one `{name}` to another, wrong within each: look at the blocks on the diagonal."
            )
    return ""


def _find_wrong_axis(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    if got.ndim != 2 or min(got.shape) < 2:
        return ""
    ones = np.ones(1)
    if _is_near(expected.sum(1), np.broadcast_to(ones, len(expected))) and _is_near(
        got.sum(0), np.broadcast_to(ones, got.shape[1])
    ):
        return "Columns add up to 1 where rows should: the sum is taken over the wrong axis."
    return ""


def _find_factors_of_rows(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    if got.ndim != 2 or min(got.shape) < 2 or len(got) < 3:
        return ""
    for kind, a, b in (("row", got, expected), ("column", got.T, expected.T)):
        norm = (b * b).sum(1)
        factor = (a * b).sum(1) / np.maximum(norm, 1e-300)
        if (norm == 0).any() or not _is_near(a, factor[:, None] * b):
            continue
        lost = np.abs(factor) <= NEAR
        if lost.any() and np.abs(factor[~lost] - 1).max(initial=0.0) <= NEAR:
            return _describe_lost(lost, kind)
        ratio = factor[1:] / np.where(factor[:-1] == 0, np.nan, factor[:-1])
        if np.isfinite(ratio).all() and np.ptp(ratio) <= 1e-4 * abs(ratio).max() and abs(ratio[0] - 1) > 1e-4:
            return (
                f"Each {kind} is the expected one times a power of {ratio[0]:.4g}: a decay to a wrong power?"
            )
        return f"Each {kind} is the expected one times a number of its own: what is each divided by?"
    return ""


def _describe_lost(lost: np.ndarray, kind: str) -> str:
    """Say which rows or columns are 0, where all others are right."""
    n = int(lost.sum())
    if lost[-n:].all():
        which = f"The last {kind} is" if n == 1 else f"The last {n} {kind}s are"
        return f"{which} 0, the others right: is a last part dropped that is shorter?"
    return f"{f'One {kind} is' if n == 1 else f'{n} {kind}s are'} 0, the others right: is a part left out?"


def _find_first_wrong_row(got: np.ndarray, expected: np.ndarray, arguments: Mapping[str, Any]) -> str:
    wrong = np.abs(got - expected) > NEAR * max(float(np.abs(expected).max()), 1e-300)
    rows = wrong.reshape(len(got), -1).any(1)
    n = len(rows)
    if n < 3:
        return ""
    if rows[:-1].all() and not rows[-1]:
        return (
            "The last row alone is right. If rows are tokens, it may see everything: "
            "do the others see their future?"
        )
    first = int(rows.argmax())
    if first == 0 or not rows.any():
        return ""
    error = np.abs(got - expected).reshape(n, -1).max(1)
    if error[:first].max() > error[first] / 100:
        return ""  # it grows from row to row: none is the first
    lengths = [
        name
        for name, value in arguments.items()
        if type(value) is int and 1 < value < n and first % value == 0 and rows[first : first + value].any()
    ]
    if lengths:
        name = lengths[0]
        times = first // arguments[name]
        many = f"as many as `{name}`" if times == 1 else f"{times} times `{name}`"
        return f"The first {first} rows are right, {many}: look at what is handed on."
    if first == n - 1:
        return "All rows but the last are right."
    if first == 1:
        return "The first row alone is right. If rows are tokens, what is wrong needs more than one to show."
    return f"The first {first} rows are right."


def _find_small_error(got: np.ndarray, expected: np.ndarray, _: Mapping[str, Any]) -> str:
    error = np.abs(got - expected).max() / max(float(np.abs(expected).max()), 1e-300)
    if error > 0.02:
        return ""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        narrow = torch.from_numpy(np.array(got)).to(dtype).double().numpy()
        if np.array_equal(narrow, got) and not np.array_equal(np.float32(expected), expected):
            name = str(dtype).removeprefix("torch.")
            return f"The entries are {name} numbers, off by {error:.1g} of the largest: keep the dtype."
    if 1e-9 < error < 1e-5:
        return _describe_few_digits(error)
    if error > 1e-3:
        return ""
    return (
        f"No entry is off by more than {error:.1g} of the largest: is something computed in a narrower "
        "dtype, a search or a series stopped early, a number cut off (`clamp`), or do large terms cancel?"
    )


def _describe_few_digits(error: float) -> str:
    """Say what a result comes from that is right to six or seven digits, and to no more."""
    digits = min(7, round(-math.log10(error)))
    return (
        f"It agrees to {digits} digits, about as many as float32 has. Is some step done in float32, as in "
        "`torch.arange(n).exp()` or `torch.tensor(0.1)`, a search or series stopped early, a number cut off "
        "(`clamp`), or a small one added?"
    )


# --- parts of a tuple ---------------------------------------------------------------------------------------


def _take_wrong_part(got: Any, expected: Any) -> tuple[int | None, np.ndarray | None, np.ndarray | None]:
    """Return the number of the first part that is wrong (None if there are no parts), and both as arrays."""
    if not isinstance(expected, tuple):
        return None, as_numbers(got), as_numbers(expected)
    if not isinstance(got, (tuple, list)) or len(got) != len(expected):
        return None, None, None
    pairs = [(as_numbers(a), as_numbers(b)) for a, b in zip(got, expected, strict=True)]
    for number, (x, y) in enumerate(pairs):
        if x is None or y is None or not _agree(x, y):
            return number, x, y
    errors = [_measure_error(x, y) for x, y in pairs]  # type: ignore[arg-type]
    worst = int(np.argmax(errors))
    return (worst, *pairs[worst]) if errors[worst] > 0 else (None, None, None)


def _measure_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Return by how much an array is off, relative to its largest entry; infinities aside."""
    finite = np.isfinite(got) & np.isfinite(expected)
    error = np.abs(got[finite] - expected[finite]).max(initial=0.0)
    return float(error) / max(_largest(expected), 1e-300)


def _agree(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays are the same, infinities included."""
    return a.shape == b.shape and bool(
        np.allclose(a, b, rtol=0, atol=1e-5 * max(1.0, _largest(b)), equal_nan=True)
    )


def _largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _find_swapped_parts(case: Case) -> str:
    """Say that the parts of a tuple are right, in another order."""
    if not isinstance(case.expected, tuple) or not isinstance(case.got, (tuple, list)):
        return ""
    got, expected = ([as_numbers(one) for one in parts] for parts in (case.got, case.expected))
    if len(got) != len(expected) or any(one is None for one in (*got, *expected)):
        return ""
    pairs = [[_agree(a, b) for b in expected] for a in got]  # type: ignore[arg-type]
    orders = itertools.permutations(range(len(pairs)))  # its own first, and each part once
    found = [all(pairs[i][j] for i, j in enumerate(order)) for order in orders]
    return "The parts of the result are right, but in another order." if any(found) and not found[0] else ""


def _find_single_part(case: Case) -> str:
    """Say that a result is one part of the tuple that is expected."""
    if not isinstance(case.expected, tuple) or isinstance(case.got, (tuple, list)):
        return ""
    got, parts = as_numbers(case.got), [as_numbers(part) for part in case.expected]
    for number, part in enumerate(parts):
        if got is not None and part is not None and _agree(got, part):
            return f"That is part {number + 1} of the result. There are {len(parts)}: return all of them."
    return ""


# --- single numbers, over all calls -------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberCase:
    """Hold a call whose result is a number.

    Args:
        arguments: by name, dicts taken apart.
        got: the result.
        expected: the result of the reference.
        right: whether the call was accepted.
    """

    arguments: Mapping[str, Any]
    got: float
    expected: float
    right: bool


def _list_numbers(cases: Sequence[Case], part: int | None) -> Iterator[NumberCase]:
    """Yield the calls whose result, or whose part of the result, is a finite number."""
    for case in cases:
        got, expected = case.got, case.expected
        if part is not None:
            if not isinstance(got, (tuple, list)) or not isinstance(expected, tuple) or len(got) <= part:
                continue
            got, expected = got[part], expected[part]
        a, b = as_numbers(got), as_numbers(expected)
        single = a is not None and b is not None and a.size == b.size == 1
        if single and np.isfinite(a).all() and np.isfinite(b).all():
            yield NumberCase(_flatten(case.arguments), float(a.item()), float(b.item()), case.right)


def _flatten(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the entries of dicts beside them."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        found |= value if isinstance(value, dict) else {name: value}
    return found


def compare_numbers(cases: Sequence[NumberCase]) -> str:
    """Return what wrong numbers have in common with the right ones over several calls, or ""."""
    wrong = [case for case in cases if not case.right]
    if len({case.expected for case in cases}) < FEW:
        return ""
    tests = (
        _find_common_factor,
        _find_common_offset,
        _find_few_digits,
        _find_common_function,
        _find_rounding,
        _find_condition,
        _find_near_miss,
    )
    return next((found for test in tests if (found := test(cases, wrong))), "")


def _find_common_factor(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    cases = [case for case in cases if case.expected != 0 or case.got != 0]
    if len(wrong) < FEW or any(case.expected == 0 or case.got == 0 for case in cases):
        return ""
    ratios = np.array([case.got / case.expected for case in cases])
    much = f"{ratios.mean():.4g}"
    if (spread := _measure_spread(ratios)) < 0.02 and abs(ratios.mean() - 1) > 3 * spread and much != "1":
        if much == "-1":
            return "Every result has the wrong sign."
        return _end(
            f"Every result is {_about(spread)}{much} times the expected one{_name_plain(ratios, spread)}"
        )
    for name, values in _list_varied(cases):
        for text, power in (("", 1.0), ("the root of ", 0.5), ("the square of ", 2.0)):
            for sign, words in ((1, "times"), (-1, "divided by")):
                rest = ratios / values ** (sign * power)
                if (spread := _measure_spread(rest)) < 0.005:
                    factor = "" if abs(rest.mean() - 1) < 0.01 else f"{rest.mean():.4g} times "
                    return f"Every result is {factor}the expected one {words} {text}`{name}`."
    return ""


def _name_plain(ratios: np.ndarray, spread: float) -> str:
    """Return what a factor that all results share may be."""
    return _name_factor(float(ratios.mean()), {}) if spread < NEAR else ""


def _about(spread: float) -> str:
    """Return "about " for what does not hold exactly."""
    return "" if spread < 1e-4 else "about "


def _measure_spread(values: np.ndarray) -> float:
    """Return how far apart numbers are, relative to their mean."""
    mean = float(np.abs(values.mean()))
    return float(np.ptp(values)) / mean if np.isfinite(values).all() and mean else math.inf


def _list_varied(cases: Sequence[NumberCase]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the finite positive numbers among the arguments that are not the same in all calls, by name."""
    for name in cases[0].arguments:
        values = [case.arguments.get(name) for case in cases]
        if (
            all(isinstance(one, (int, float)) and 0 < one < math.inf for one in values)
            and len(set(values)) > 1
        ):
            yield name, np.array(values, dtype=float)


def _find_common_offset(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    if len(wrong) < FEW:
        return ""
    shifts = np.array([case.got - case.expected for case in cases])
    exact = np.array([max(1e-9, 1e-12 * abs(case.expected)) for case in cases])  # less is rounding
    if np.ptp(shifts) <= exact.max() < abs(shifts[0]):
        return f"Every result is too {'large' if shifts[0] > 0 else 'small'} by {abs(shifts[0]):.4g}."
    for name, values in _list_varied(cases):
        if (values > exact).sum() < FEW:
            continue
        for sign, words in ((1, "large"), (-1, "small")):
            if (np.abs(shifts - sign * values) <= exact).all():
                return f"Every result is too {words} by `{name}`."
    return ""


def _find_common_function(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    if len(wrong) < FEW:
        return ""
    got, expected = (np.array([getattr(case, name) for case in cases]) for name in ("got", "expected"))
    with np.errstate(all="ignore"):
        for text, function in FUNCTIONS.items():
            if _is_near(
                got / np.where(expected == 0, 1, expected),
                function(expected) / np.where(expected == 0, 1, expected),
            ):
                return f"Every result is {text}"
    return ""


def _find_few_digits(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    errors = [abs(case.got - case.expected) for case in wrong]
    if all(error.is_integer() and error <= FEW for error in errors):
        return ""  # counts that are off by one
    error = max(x / max(abs(case.expected), 1e-300) for x, case in zip(errors, wrong, strict=True))
    return _describe_few_digits(error) if 1e-9 < error < 1e-5 else ""


def _find_rounding(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    """Say that results are right when they are made whole."""
    if len({case.expected for case in wrong}) < FEW:
        return ""
    ways = {"down": math.floor, "up": math.ceil}
    for way, function in ways.items():
        if all(not case.got.is_integer() and function(case.got) == case.expected for case in wrong):
            return f"Rounded {way} to a whole number, every result is right."
    return ""


def _find_near_miss(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    """Say by how much results are off at most, if that is little."""
    if len(wrong) < FEW or any(case.expected == 0 or case.expected.is_integer() for case in wrong):
        return ""
    error = max(abs(case.got / case.expected - 1) for case in wrong)
    if error > 0.02:
        return ""
    return (
        f"No result is off by more than {100 * error:.2g} %: is a search too coarse, a formula not exact, "
        "or a small term left out?"
    )


def _find_condition(cases: Sequence[NumberCase], wrong: Sequence[NumberCase]) -> str:
    """Say which argument tells the calls that are right from those that are wrong, if it is one alone."""
    extreme = [id(case) for case in _list_extremes(cases)]
    right = [case for case in cases if case.right and id(case) not in extreme]
    if len(wrong) < 2 or len(right) < 2:
        return ""
    if any(not math.isclose(case.got, case.expected, rel_tol=1e-3) for case in right):
        return ""  # what counts as right is off as well: where the bound is passed is chance
    found = []
    for name in dict.fromkeys(key for case in cases for key in case.arguments):
        good, bad = ([_simplify(case.arguments.get(name)) for case in some] for some in (right, wrong))
        if (
            "?" not in (*good, *bad)
            and not set(good) & set(bad)
            and (text := _describe_split(name, good, bad))
        ):
            found.append(text)
    return found[0] if len(found) == 1 else ""


def _list_extremes(cases: Sequence[NumberCase]) -> list[NumberCase]:
    """Return the calls with a number far beyond those of the others: there a wrong term may not be seen."""
    found = []
    for name in dict.fromkeys(key for case in cases for key in case.arguments):
        numbers = [(case.arguments.get(name), case) for case in cases]
        finite = [(x, case) for x, case in numbers if isinstance(x, (int, float)) and math.isfinite(x)]
        largest = sorted({x for x, _ in finite})[-2:]
        if len(largest) == 2 and largest[1] > EXTREME * largest[0] > 0:
            found += [case for x, case in finite if x == largest[1]]
    return found


def _describe_split(name: str, good: Sequence[Any], bad: Sequence[Any]) -> str:
    """Say how the values of an argument in right calls differ from those in wrong ones, or return ""."""
    if all(isinstance(one, (int, float)) for one in (*good, *bad)):
        if max(good) < min(bad):
            return f"Right where `{name}` is at most {max(good):g}, wrong where it is {min(bad):g} or more."
        if min(good) > max(bad):
            return f"Right where `{name}` is at least {min(good):g}, wrong where it is {max(bad):g} or less."
    if "missing" in (*set(good), *set(bad)) and 1 in (len(set(good)), len(set(bad))):
        alone = good if len(set(good)) == 1 else bad
        where = "missing" if alone[0] == "missing" else f"{alone[0]}"
        return f"{'Right' if alone is good else 'Wrong'} where `{name}` is {where}, and only there."
    if len(set(bad)) == 1:
        return f"Wrong where `{name}` is {bad[0]}, and only there."
    if len(set(good)) == 1:
        return f"Right where `{name}` is {good[0]}, and only there."
    return ""


def _simplify(value: Any) -> Any:
    """Return a number or a text as it is, "missing", or "?" for what cannot be compared."""
    if value is None:
        return "missing"
    return value if isinstance(value, (int, float, str)) else "given" if isinstance(value, list) else "?"
