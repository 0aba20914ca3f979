"""Compare a result with the expected one, and say in words where and how they differ.

A question chooses one of four comparisons for each call: ``Close`` (numbers and arrays), ``Within`` (a
measurement), ``Exactly`` (a letter, a whole number) and ``Judged`` (any value that has a property).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

# A letter that is chosen, as in "C", "(c)", "option C.", "it is C" or "C: the denominator", and what follows
# it; in "A gate is missing" stands an article.
LETTER = r"I{2,3}|IV|VI{0,3}|[A-Z]"  # or a Roman numeral
NOUNS = "ANSWER|CASE|COUNTER|FAULT|LETTER|LINE|MODEL|OPTION|PROGRAM|STATEMENT|STUDY"  # may stand before it
OPENING = r"[\s(]*+"
OPINION = (
    r"(?:I\s+(?:THINK|BELIEVE|GUESS|CHOOSE|PICK|(?:WOULD\s+)?SAY)\s+|I'D\s+SAY\s+|(?:DEFINITELY|SO)[\s,]+)?"
    r"(?:(?:IT(?:\s+(?:IS|MUST\s+BE)|'S)|ONLY)\s+)?"
)
BEFORE = rf"{OPINION}(?:(?:(?:THE|MY)\s+)?(?:{NOUNS})\b(?:\s+IS\b)?[\s:]*)?"
ARTICLE = r"[AI]\s++(?!(?:AND|AS|BECAUSE|IS|OR|SINCE)\b)\w|I'\w"  # or a pronoun
CHOICE = re.compile(rf"{OPENING}{BEFORE}{OPENING}(?!{ARTICLE})({LETTER})\b(.*)", re.DOTALL)
# One more beside it, as in "C or B", "C, B", "C/B", "C > B", "C (B)" and "C? B?"; in "C, a row" and "C and a
# mask" stands an article, in "C, I think" a pronoun; "C: B is not scaled" and "C, D = 8" speak of numbers.
MORE_WORDS = (
    r"(?:OR|AND|ALSO|THEN|VS|VERSUS|PLUS|NO|MAYBE|PERHAPS|POSSIBLY|PROBABLY|ELSE|RATHER|EVEN|NOR|XOR|MORE|LESS"
    r"|LIKELY|CLEARLY)\b"
)
ONE_MORE = re.compile(  # "*+" gives nothing back: a long answer takes no longer than it is
    r"[\s)\],/&+|;>→…—]*+(?:[?.:=–-][\s(\[]*+(?!.\s++\w))?"
    rf"(?:\((?={MORE_WORDS}|[A-Z][)\]]))?(?:{MORE_WORDS}[\s.,(\[]*+)*+(?:(?:{NOUNS})\b[\s(\[]*+)?"
    r"(?![IVX]\s++\w|[B-H]\s*+=)(?:[B-HIVX]++\b|A\b(?!\s++\w))"
)
MAX_CHOICE = 400  # characters of an answer that are read for a letter
# What stands around or behind letters and says nothing: emphasis, quotes, and shares as in "C (60 %)".
MARKS = re.compile(r"[*`\"\[\]]|(?<!\w)'|'(?!\w)|\(?\b\d{1,3}\s?%\)?")


class Difference(NamedTuple):
    """Describe the first place where two values differ.

    Args:
        where: the place, such as ``[0][2, 1]``; "" for a value without parts.
        got: what stands there, or a shape or type.
        expected: what should stand there.
    """

    where: str
    got: str
    expected: str

    def __str__(self) -> str:
        place = f"at {self.where} " if self.where else ""
        return f"{place}got {self.got}, expected {self.expected}."


class Comparison(Protocol):
    """Decide whether a value is the expected one."""

    def find_difference(self, got: Any, expected: Any) -> Difference | None:
        """Return the first difference, or None if the value is accepted."""


@dataclass(frozen=True)
class Close:
    """Accept numbers, arrays and tuples of them that are close to the expected ones.

    The condition is ``|got - expected| <= tolerance * max(1, max|expected|)`` for every entry. The shapes
    must be equal, and NaN and infinities must stand where they are expected; dtypes do not matter, nor do
    lists in place of arrays. Truth values are accepted where an array of them is expected, as are 0 and 1.

    Args:
        tolerance: default 1e-5, for float64 inputs and an answer that may be written in several ways; 1e-12
            asks for the exact number.
    """

    tolerance: float = 1e-5

    def find_difference(self, got: Any, expected: Any) -> Difference | None:
        """Return the first entry that is too far from the expected one, or None."""
        if isinstance(expected, tuple):
            return _find_in_tuple(self, got, expected)
        truths = isinstance(expected, np.ndarray) and expected.dtype == bool
        a, b = as_numbers(got, truths), as_numbers(expected, truths)
        if a is None or b is None:
            return Difference("", describe(got), describe(expected))
        if a.shape != b.shape:
            return Difference("", describe(got), describe(expected))
        wrong = ~np.isclose(a, b, rtol=0.0, atol=self.tolerance * scale_of_tolerance(b), equal_nan=True)
        return _name_first(a, b, wrong) if wrong.any() else None


@dataclass(frozen=True)
class Within:
    """Accept positive numbers that agree up to a factor: ``expected / factor <= got <= expected * factor``.

    Args:
        factor: above 1; 1.05 allows a measurement to be off by 5 %.
    """

    factor: float

    def find_difference(self, got: Any, expected: Any) -> Difference | None:
        """Return the first entry outside of the factor, or None."""
        a, b = as_numbers(got), as_numbers(expected)
        if a is None or b is None or a.shape != b.shape:
            return Difference("", describe(got), describe(expected))
        wrong = ~((a >= b / self.factor) & (a <= b * self.factor)) & (a != b)
        found = _name_first(a, b, wrong) if wrong.any() else None
        if found is None or self.factor < 1.0001:
            return found
        return found._replace(expected=f"{found.expected} up to a factor of {self.factor:g}")


@dataclass(frozen=True)
class Exactly:
    """Accept a text (capitals and spaces around it do not matter) or a whole number that is the expected one.

    Where a letter is expected, words may follow it, as in "C: the denominator"; a second letter may not. A
    whole number may come as an array of one number, or as a float.

    The expected value is not part of the message: it would give the answer away.
    """

    def find_difference(self, got: Any, expected: Any) -> Difference | None:
        """Return that the value is another one, or None."""
        got = written = _find_whole_number(got) if isinstance(expected, int) else got
        if not isinstance(got, (str, int, float)):
            return Difference("", describe(got), "another answer")  # writing it out may take minutes
        if isinstance(got, str) and isinstance(expected, str):
            got, expected = got.strip().upper(), expected.upper()
            got = _find_letter(got) if is_letter(expected) else got
        if type(got) is type(expected) and got == expected:
            return None
        wanted = "another answer"
        if isinstance(got, str) and is_letter(expected) and not is_letter(got):
            wanted = "one letter, and none beside it" if _look_for_choice(got) else "a letter first"
        return Difference("", repr(written)[:80], wanted)


@dataclass(frozen=True)
class Judged:
    """Accept any value that has what is asked for, where there are many right ones.

    Two values count as the same if the same is wrong with them, or nothing. So a known mistake is recognised
    by what it lacks.

    Args:
        find_flaw: says what is wrong with a value, or None. The value is a student's: anything may come.
    """

    find_flaw: Callable[[Any], Difference | None]

    def find_difference(self, got: Any, expected: Any) -> Difference | None:
        """Return what is wrong with the value, or None if nothing is, or the same with the expected one."""
        flaw = self.find_flaw(got)
        if flaw is None:
            lacking = self.find_flaw(expected)
            return lacking and Difference("", "nothing wrong", f"not {lacking.expected}")
        if (lacking := self.find_flaw(expected)) and lacking.expected == flaw.expected:
            return None
        return flaw


def is_letter(value: Any) -> bool:
    """Return whether a value is a text that chooses one letter."""
    return isinstance(value, str) and re.fullmatch(LETTER, _find_letter(value.strip().upper())) is not None


def _look_for_choice(text: str) -> re.Match[str] | None:
    """Return the first letter that a text in capitals chooses, and what follows it, or None."""
    return CHOICE.fullmatch(MARKS.sub(" ", text[:MAX_CHOICE]))


def _find_letter(text: str) -> str:
    """Return the one letter that a text in capitals chooses, or the text itself."""
    found = _look_for_choice(text)
    return found[1] if found and not ONE_MORE.match(found[2]) else text


def _find_whole_number(value: Any) -> Any:
    """Return the whole number that a value is, as an array without axes or a float; or the value itself."""
    if isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 0:
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _find_in_tuple(how: Comparison, got: Any, expected: tuple[Any, ...]) -> Difference | None:
    """Return the first difference between the parts of two tuples; the first may be an array of its parts."""
    if isinstance(got, (np.ndarray, torch.Tensor)) and len(got.shape) and len(got) == len(expected):
        got = list(got)
    if not isinstance(got, (tuple, list)) or len(got) != len(expected):
        return Difference("", describe(got), describe(expected))
    for i, pair in enumerate(zip(got, expected, strict=True)):
        if found := how.find_difference(*pair):
            return found._replace(where=f"[{i}]{found.where}")
    return None


def _name_first(a: np.ndarray, b: np.ndarray, wrong: np.ndarray) -> Difference:
    """Return the first entry of a that is wrong, with as many digits as tell it from b's."""
    index = np.unravel_index(int(wrong.argmax()), wrong.shape)
    where = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
    pair = float(a[index]), float(b[index])
    whole = all(number.is_integer() and abs(number) < 1e15 for number in pair)
    x, y = (f"{number:,.0f}" if whole else f"{number:.6g}" for number in pair)
    if x == y:
        x, y = (f"{number:.12g}" for number in pair)
    return Difference(where, x, y)


def as_numbers(value: Any, truths: bool = False) -> np.ndarray | None:
    """Return a value as a float64 array; None for what is not made of numbers (or ``truths``: True is 1)."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, (tuple, list)) and not _is_made_of_numbers(value):
        return None
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and _is_made_of_numbers(value):  # whole numbers beyond 64 bits
            array = np.asarray(value, np.float64)
        return array.astype(np.float64) if array.dtype.kind in ("fiub" if truths else "fiu") else None
    except (TypeError, ValueError, OverflowError):  # ragged lists, whole numbers without end
        return None


def _is_made_of_numbers(value: Any) -> bool:
    """Return whether a nested list holds numbers, arrays and tensors only."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_made_of_numbers, value))
    return isinstance(value, (int, float, np.ndarray, torch.Tensor))


def describe(value: Any, depth: int = 2) -> str:
    """Return what a value is, for a message: its shape, or its type."""
    if value is None:
        return "None"
    if isinstance(value, tuple) and depth:
        return f"({', '.join(describe(one, depth - 1) for one in value[:6])})"
    array = as_numbers(value)
    if array is None:
        return f"a {type(value).__name__}"
    return f"shape {list(array.shape)}" if array.ndim else "one number"


def scale_of_tolerance(expected: np.ndarray) -> float:
    """Return the largest finite magnitude, at least 1: what a tolerance is relative to."""
    finite = np.abs(expected[np.isfinite(expected)])
    return max(1.0, float(finite.max())) if finite.size else 1.0
