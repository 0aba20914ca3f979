"""A question: what is asked, on which inputs, with which planted mistakes. And the verdict on an answer.

The same ``Question`` judges in a reader's notebook (``check.q1(answer)``, inputs from a known seed) and in
the grader (outcomes from an isolated process, inputs from a secret seed).
"""

import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linattn_exercises.judging import Close, Comparison, Outcome
from linattn_exercises.plain import call, decode, encode
from linattn_exercises.reading import names_used

CLOSE = Close()
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


@dataclass(frozen=True)
class Case:
    """One call of an answer.

    Args:
        name: the function of the answer that is called, or the value that is read (without arguments).
        arguments: plain data, see ``plain.encode``.
        says: the inputs in words, for the message.
        accept: how the result is compared.
        against: what gives the expected result, if not ``name`` itself: another function of the reference,
            and the arguments it is called with.
        unlike: said if the result *is* the expected one, for a call that must not give it.
        entries: of the largest tensor that torch may make in this call; 0 is any size.
        operations: that torch may do in this call; 0 is any number.
        hint: said when the case fails and no planted mistake fits.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    says: str = ""
    accept: Comparison = CLOSE
    against: tuple[str, tuple[Any, ...]] | None = None
    unlike: str = ""
    entries: int = 0
    operations: int = 0
    hint: str = ""

    def bounds(self) -> list[tuple[str, int]]:
        """What torch may do in this call; 0 is no bound."""
        return [("entries", self.entries), ("operations", self.operations)]


class Verdict(NamedTuple):
    """Right or not, in words, and the planted mistake it was recognised as (its function's name)."""

    right: bool
    message: str
    mistake: str = ""


@dataclass(frozen=True)
class Planted:
    """A planted answer: in place of ``name`` of the right one, ``value``; no ``hint`` if it is right too."""

    question: str
    name: str
    value: Any
    hint: str
    label: str


def mistake(question: str, hint: str, of: str = "") -> Callable[[Callable], Callable]:
    """Plant a wrong answer and the hint for whoever makes it. ``of``: the function it replaces."""
    return lambda function: _plant(function, Planted(question, of, function, hint, function.__name__))


def also_right(question: str, of: str = "") -> Callable[[Callable], Callable]:
    """Plant a right answer that is written in another way."""
    return lambda function: _plant(function, Planted(question, of, function, "", function.__name__))


def _plant(function: Callable, planted: Planted) -> Callable:
    vars(function).setdefault("__planted__", []).append(planted)
    return function


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
        return self.judge([_answered(dict(answer), case) for case in cases], str(seed))

    def judge(self, outcomes: Sequence[Outcome], seed: str) -> Verdict:
        """The verdict on the outcomes of all cases, in order, values decoded."""
        prepared = self.prepared(seed)
        for number, (case, outcome) in enumerate(zip(prepared.cases, outcomes, strict=True)):
            if (fault := _fault(case, outcome, prepared.expected[number])) is None:
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
        """All planted answers, wrong and right, in the order of ``mistakes.py``."""
        module = importlib.import_module(f"linattn_exercises.{self.about.set}.mistakes")
        found = [one for value in vars(module).values() for one in getattr(value, "__planted__", [])]
        mine = [one for one in found if one.question == self.about.id]
        values = [
            Planted(self.about.id, name, value, hint, f"{name} = {value!r}")
            for name, hints in self.wrong_values.items()
            for value, hint in hints.items()
        ]
        only = next(iter(self.reference))
        return [replace(one, name=one.name or only) for one in mine] + values

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
                wrong is None or _alike(case, outcome, wrong)
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
            if (wrong := theirs[number]) and _alike(case, outcome, wrong)
        ]
        return alike[0] if len(alike) == 1 else None


def asks(about: About, *, banned: Sequence[str] = (), wrong_values: Any = None, **reference: Any) -> Callable:
    """Make a question of the function that draws its cases. ``reference``: the right answer, name by name."""
    return lambda draw: Question(about, reference, draw, banned, wrong_values or {})


# --- outcomes -------------------------------------------------------------------------------------------


def _answered(answer: dict[str, Any], case: Case) -> Outcome:
    """Call an answer in this process, through plain data as the grader does; its arguments are copies."""
    return decoded(
        call(
            answer,
            case.name,
            [encode(one) for one in case.arguments],
            any(bound for _, bound in case.bounds()),
        )
    )


def decoded(outcome: Any) -> Outcome:
    """An outcome with its value decoded; what is no outcome is a ValueError."""
    if not isinstance(outcome, dict):
        raise ValueError("outcome: not a dict")
    if "value" in outcome:
        counts = {name: outcome.get(name, 0) for name in ("entries", "operations")}
        if not all(type(count) is int for count in counts.values()):
            raise ValueError("outcome: counts are no whole numbers")
        return {"value": decode(outcome["value"]), **counts}
    return {
        name: str(outcome[name])[:400] for name in ("error", "text", "line", "missing") if name in outcome
    }


def _fault(case: Case, outcome: Outcome, want: Any) -> tuple[str, str] | None:
    """What is wrong with an outcome, and a hint; None if nothing is."""
    inputs = f"{case.says}: " if case.says else ""
    if "value" not in outcome:
        return _failed(case, outcome, inputs), ""
    if outcome["value"] is None:
        return f"`{case.name}` is not answered yet: it gave None.", ""
    found = case.accept.difference(outcome["value"], want)
    if case.unlike:
        return None if found else (f"{inputs}`{case.name}` {case.unlike}", "")
    if found:
        return f"{inputs}`{case.name}` {found}", found.hint
    did = {"entries": "made a tensor of {:,} entries", "operations": "took {:,} torch operations"}
    for name, bound in case.bounds():
        if outcome[name] > bound > 0:
            much = did[name].format(outcome[name])
            return f"{inputs}right, but `{case.name}` {much}, expected at most {bound:,}.", ""
    return None


def _failed(case: Case, outcome: Outcome, inputs: str) -> str:
    error, text, line = (outcome.get(name, "") for name in ("error", "text", "line"))
    if error == "NotImplementedError" and not text:
        return f"`{case.name}` is not answered yet."
    if error == "Missing":
        return f"`{case.name}` is not defined; its cell is missing, or did not run."
    if error == "Stopped":
        return text
    if error == "MemoryError" or "allocate memory" in text:
        return f"{inputs}`{case.name}` needs more memory than it may use."
    raised = f"raised {error}{f' in the line `{line}`' if line else ''}: {text}".rstrip(": ")
    if outcome.get("missing"):
        return f"`{outcome['missing']}` is not defined: its cell {raised}."
    if error == "TypeError" and text.startswith("returned"):
        return f"{inputs}`{case.name}` {text}."
    return f"{inputs}`{case.name}` {raised}."


def _alike(case: Case, outcome: Outcome, wrong: Outcome) -> bool:
    if case.unlike:
        return True  # every other result will do, so this one tells nothing
    if "value" in outcome and "value" in wrong:
        excess = [[one[name] > bound > 0 for name, bound in case.bounds()] for one in (outcome, wrong)]
        return excess[0] == excess[1] and case.accept.difference(outcome["value"], wrong["value"]) is None
    return "error" in outcome and outcome.get("error") == wrong.get("error")


@lru_cache(maxsize=256)
def _prepare(question: Question, seed: str) -> Prepared:
    text = f"{seed}/{question.about.set}/{question.about.id}".encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8]))
    cases = question.draw(rng)
    reference = dict(question.reference)
    expected = [_answered(reference, _expecting(case))["value"] for case in cases]
    wrong = [
        (
            one,
            [_answered(reference | {one.name: one.value}, c) if c.name == one.name else None for c in cases],
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
