"""A question: what is asked, on which inputs, with which planted mistakes. And the verdict on an answer.

The same ``Question`` judges in a reader's notebook (``check.q1(answer)``, inputs from a known seed) and in
the grader (outcomes from an isolated process, inputs from a secret seed).
"""

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linattn_exercises.cases import Case, answered, fault_of, look_alike
from linattn_exercises.judging import Close, Outcome
from linattn_exercises.planted import Planted, planted_answers
from linattn_exercises.reading import names_used

PUBLIC_SEED = "public"
MAX_MESSAGE = 1_000  # characters before the hint
NO_NOISE = "is the formula to twelve digits; a measurement has noise."
KINDS = ("derive", "implement", "measure", "diagnose")


class About(NamedTuple):
    """What stands above a question. ``level`` is 1 to 3; ``set`` is the name of its package."""

    set: str
    id: str
    title: str
    kind: str
    points: int
    minutes: int
    level: int


class Verdict(NamedTuple):
    """Right or not, in words, and the planted mistake it was recognised as (its function's name)."""

    right: bool
    message: str
    mistake: str = ""


@dataclass(frozen=True)
class Prepared:
    """A question with inputs drawn: cases, expected values, and what each planted mistake would give."""

    cases: list[Case]
    expected: list[Any]
    mistakes: list[tuple[Planted, list[Outcome | None]]]


@dataclass(frozen=True)
class Question:
    """A question; calling it checks an answer and prints the verdict."""

    about: About
    reference: Mapping[str, Any]
    draw: Callable[[np.random.Generator], list[Case]]
    banned: Sequence[str] = ()
    wrong_values: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.about.set, self.about.id))

    def __call__(self, *answers: Any, seed: str | int = PUBLIC_SEED) -> None:
        """Check an answer: the functions or values the question asks for, in the order it names them."""
        if len(answers) != len(self.reference):
            raise TypeError(f"answers: got {len(answers)}, expected {', '.join(self.reference)}")
        verdict = self.check(dict(zip(self.reference, answers, strict=True)), seed)
        print(f"Question {self.about.id[1:]}: {'right. ' if verdict.right else ''}{verdict.message}")

    def check(self, answer: Mapping[str, Any], seed: str | int = PUBLIC_SEED) -> Verdict:
        """The verdict on functions and values of this process."""
        for name, function in answer.items():
            known = f"{name} = {getattr(function, '__name__', name)}"
            if callable(function) and (found := self.forbidden([_source(function), known])):
                return Verdict(False, found)
        cases = self.prepared(str(seed)).cases
        return self.judge([answered(dict(answer), case) for case in cases], str(seed))

    def judge(self, outcomes: Sequence[Outcome], seed: str) -> Verdict:
        """The verdict on the outcomes of all cases, in order, values decoded."""
        prepared = self.prepared(seed)
        for number, (case, outcome) in enumerate(zip(prepared.cases, outcomes, strict=True)):
            if (fault := fault_of(case, outcome, prepared.expected[number])) is None:
                continue
            planted = self._recognise(prepared, outcomes, case.name) or self._resembles(
                prepared, outcome, number
            )
            hint = planted.hint if planted else fault[1] or case.hint
            message = f"{fault[0][:MAX_MESSAGE]} {'Hint: ' + hint if hint else ''}".strip()
            return Verdict(False, message, planted.label if planted else "")
        return Verdict(True, f"{len(outcomes)} cases agree with the reference.")

    def prepared(self, seed: str) -> Prepared:
        """The question with its inputs for a seed; computed once."""
        return _prepare(self, seed)

    def planted(self) -> list[Planted]:
        """All planted answers, wrong and right, in the order of ``mistakes/``; then the wrong values."""
        values = [
            Planted(self.about.id, name, value, hint, f"{name} = {value!r}")
            for name, hints in self.wrong_values.items()
            for value, hint in hints.items()
        ]
        return planted_answers(self.about.set, self.about.id, next(iter(self.reference))) + values

    def forbidden(self, sources: Sequence[str]) -> str:
        """What to say about code that uses a library function which would answer the question, or nothing."""
        used = {
            name
            for name in names_used(sources, self.reference)
            for part in self.banned
            if part in name.lower()
        }
        listed = ", ".join(f"`{name}`" for name in sorted(used)[:5])
        return f"This question asks for your own code, without {listed}." if used else ""

    def _recognise(self, prepared: Prepared, outcomes: Sequence[Outcome], name: str) -> Planted | None:
        for planted, theirs in prepared.mistakes:
            if planted.name == name and all(
                wrong is None or look_alike(case, outcome, wrong)
                for case, outcome, wrong in zip(prepared.cases, outcomes, theirs, strict=True)
            ):
                return planted
        return None

    def _resembles(self, prepared: Prepared, outcome: Outcome, number: int) -> Planted | None:
        """The one mistake that gives the same on the first case that failed, if there is one and no other."""
        case = prepared.cases[number]
        if not isinstance(case.accept, Close) or case.unlike or "value" not in outcome:
            return None
        alike = [
            one
            for one, theirs in prepared.mistakes
            if (wrong := theirs[number]) and look_alike(case, outcome, wrong)
        ]
        return alike[0] if len(alike) == 1 else None


def asks(about: About, *, banned: Sequence[str] = (), wrong_values: Any = None, **reference: Any) -> Callable:
    """Make a question of the function that draws its cases. ``reference``: the right answer, name by name."""
    return lambda draw: Question(about, reference, draw, banned, wrong_values or {})


@lru_cache(maxsize=256)
def _prepare(question: Question, seed: str) -> Prepared:
    text = f"{seed}/{question.about.set}/{question.about.id}".encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8]))
    cases = question.draw(rng)
    reference = dict(question.reference)
    expected = [answered(reference, _expecting(case))["value"] for case in cases]
    wrong = [
        (
            one,
            [answered(reference | {one.name: one.value}, c) if c.name == one.name else None for c in cases],
        )
        for one in question.planted()
        if one.hint
    ]
    return Prepared(cases, expected, wrong)


def _expecting(case: Case) -> Case:
    """The call of the reference that gives what a case expects."""
    name, arguments = case.against or (case.name, case.arguments)
    return Case(name, arguments)


def _source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
