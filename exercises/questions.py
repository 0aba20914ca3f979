"""Define a question: what is asked, on which inputs, and the verdict on an answer.

The same ``Question`` judges in a reader's notebook (``check.q1(answer)``, inputs drawn from a public seed)
and in the grader (outcomes from a sandbox, inputs drawn from a secret seed)."""

import contextlib
import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from linattn_exercises.calls import Call, Outcome, find_fault, outcomes_agree, run_call
from linattn_exercises.comparison import Close, Judged, as_numbers, is_letter
from linattn_exercises.kernel_memory import drop_plan
from linattn_exercises.known_mistakes import KnownAnswer, KnownMistake, load_known_answers
from linattn_exercises.launches import list_arguments
from linattn_exercises.recognisers import Case, recognise

PUBLIC_SEED = "public"
MAX_MESSAGE = 1_000  # characters before the hint
SECONDS = 5  # of processor time that a grader gives an answer, if not told otherwise
TIMES_REFERENCE = 8  # or so many times what the reference takes, if that is more, as of kernels
BYTES = 1_000_000_000  # that it lets an answer take, beyond what torch takes
KINDS = ("derive", "implement", "measure", "diagnose")

WrongValues = Mapping[str, Mapping[Any, str]]  # by the name of a value: each wrong one, and what to say to it


class QuestionInfo(NamedTuple):
    """Describe what stands above a question.

    Args:
        set_name: the name of its set's folder, such as "ch01_softmax".
        id: "q1" and so on.
        title: in words.
        kind: one of ``KINDS``.
        points: what a right answer earns; a wrong one earns none.
        minutes: that a reader is expected to need.
        level: 1 (easy) to 3 (hard).
    """

    set_name: str
    id: str
    title: str
    kind: str
    points: int
    minutes: int
    level: int

    @property
    def number(self) -> str:
        """Its number in the book, that of the chapter first: "2.1"."""
        return f"{int(self.set_name[2:4])}.{self.id[1:]}"


class Verdict(NamedTuple):
    """Say whether an answer is right.

    Args:
        right: whether all calls gave what was expected.
        message: the first fault in words with its hint, or how many calls agree.
        mistake: the label of the known mistake that the answer was recognised as, or "".
    """

    right: bool
    message: str
    mistake: str = ""


@dataclass(frozen=True)
class PreparedQuestion:
    """Hold a question whose inputs are drawn.

    Args:
        question: whose inputs they are.
        calls: what is called, in order.
        wanted: the result of the reference for each call.
        mistakes: the known mistakes.
        looked_at: the numbers of the calls in the order in which a fault is looked for, simple ones first.
        seconds: of processor time that the reference took on this machine.
    """

    question: "Question"
    calls: list[Call]
    wanted: list[Any]
    mistakes: list[KnownMistake]
    looked_at: list[int]
    seconds: float
    _outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def allow(self, seconds: int) -> int:
        """Return the processor time that an answer gets on this machine: ``seconds`` or more."""
        return max(seconds, math.ceil(TIMES_REFERENCE * self.seconds))

    def ask_mistake(self, known: KnownMistake, number: int) -> Outcome:
        """Return the outcome of a known mistake for the call of this number; it is called once."""
        place = known.label, number
        if place not in self._outcomes:
            answer = {**self.question.reference, known.name: known.value}
            with warnings.catch_warnings(action="ignore"):  # what a mistake divides by zero is no news
                self._outcomes[place] = run_call(answer, self.calls[number], self.question.own_code)
        return self._outcomes[place]


@dataclass(frozen=True)
class Question:
    """Check answers to one question; calling it checks an answer and prints the verdict.

    Args:
        info: what stands above it.
        reference: the right answer: functions and values, by name, in the order in which they are asked for.
        draw: draws the calls from a random generator.
        own_code: whether the answer must be made of torch's elementary operations, which are watched and
            counted; see ``watch``.
        wrong_values: for a value that is asked for, what to say to each wrong one, such as
            ``{"fault": {"A": "The scale is right. ..."}}``.

    Example:
        >>> from linattn_exercises.ch01_softmax import check
        >>> check.q5(lambda a, b: a)  # doctest: +ELLIPSIS
        Exercise 1.5: 5 and 8 keys: `merge` at ...
    """

    info: QuestionInfo
    reference: Mapping[str, Any]
    draw: Callable[[np.random.Generator], list[Call]]
    own_code: bool = False
    wrong_values: WrongValues = field(default_factory=dict)

    def __hash__(self) -> int:  # dicts have none; prepared questions are kept by question and seed
        return hash((self.info.set_name, self.info.id))

    def __call__(self, *answers: Any, seed: str | int = PUBLIC_SEED) -> None:
        """Check an answer and print the verdict.

        Args:
            answers: the functions or values that the question asks for, in the order in which it names them.
            seed: what inputs are drawn from.

        Raises:
            TypeError: if there are more or fewer than the question asks for.
        """
        if len(answers) != len(self.reference):
            raise TypeError(f"answers: got {len(answers)}, expected {', '.join(self.reference)}")
        most = self.prepare(str(seed)).allow(SECONDS)  # the reference is not counted
        begin = time.process_time()
        with use_one_thread(), PeakMemory() as memory:
            verdict = self.check(dict(zip(self.reference, answers, strict=True)), seed)
        seconds = time.process_time() - begin
        message = ("right. " if verdict.right else "") + verdict.message
        if verdict.right and seconds > most:  # of a wrong answer, known mistakes were run as well
            message += f" But it took {seconds:.0f} s of processor time, and a grader stops after {most}."
        if verdict.right and memory.grown > BYTES:
            message += (
                f" But it took {memory.grown / 1e9:.1f} GB, and a grader stops after {BYTES / 1e9:.0f} GB."
            )
        print(f"Exercise {self.info.number}: {message}")

    def check(self, answer: Mapping[str, Any], seed: str | int = PUBLIC_SEED) -> Verdict:
        """Return the verdict on functions and values of this process.

        Args:
            answer: the functions and values, by name.
            seed: what inputs are drawn from.
        """
        calls = self.prepare(str(seed)).calls
        return self.judge([run_call(answer, call, self.own_code) for call in calls], str(seed))

    def judge(self, outcomes: Sequence[Outcome], seed: str) -> Verdict:
        """Return the verdict on the outcomes of all calls.

        The message names the first call that is wrong. Its hint is the first of these that exists:

        1. that of the known mistake which gives the same outcomes as the answer, on all calls of the
           function;
        2. that of the one known mistake which gives the same array on the call that is wrong, if no other
           does;
        3. what the wrong results have in common with the right ones, see ``recognisers``;
        4. the hint of the call.

        Args:
            outcomes: one for each call, in order, values decoded.
            seed: what the inputs were drawn from.
        """
        return self.judge_on(self.prepare(seed), outcomes)

    @np.errstate(all="ignore")  # an answer may return the largest of numbers
    def judge_on(self, prepared: PreparedQuestion, outcomes: Sequence[Outcome]) -> Verdict:
        """Return the verdict on the outcomes of all calls of a draw, see ``judge``."""
        if len(outcomes) != len(prepared.calls):
            raise ValueError(f"outcomes: got {len(outcomes)}, expected {len(prepared.calls)}")
        for number in prepared.looked_at:
            call, outcome = prepared.calls[number], outcomes[number]
            if not (fault := find_fault(call, outcome, prepared.wanted[number])):
                continue
            known = self._recognise(prepared, outcomes, call.name) or self._recognise_by_one_call(
                prepared, outcome, number
            )
            hint = known.hint if known else self._recognise_kind(prepared, outcomes, number) or call.hint
            message = f"{fault[:MAX_MESSAGE]} {'Hint: ' + hint if hint else ''}".strip()
            return Verdict(False, message, known.label if known else "")
        return Verdict(True, f"{len(outcomes)} cases agree with the reference.")

    @property
    def letters(self) -> set[str]:
        """Return the names of the values that are letters."""
        return {name for name, value in self.reference.items() if is_letter(value)}

    @np.errstate(all="ignore")
    def is_right(self, prepared: PreparedQuestion, outcomes: Sequence[Outcome]) -> bool:
        """Return whether the outcomes of all calls are right, without a look at known mistakes."""
        cases = zip(prepared.calls, outcomes, prepared.wanted, strict=True)
        return not any(find_fault(call, outcome, wanted) for call, outcome, wanted in cases)

    def chooses_wrongly(self, prepared: PreparedQuestion, outcomes: Sequence[Outcome]) -> bool:
        """Return whether a letter is chosen, and it is not the right one."""
        return any(
            call.name in self.letters
            and is_letter(outcome.get("value"))
            and find_fault(call, outcome, wanted)
            for call, outcome, wanted in zip(prepared.calls, outcomes, prepared.wanted, strict=True)
        )

    def prepare(self, seed: str, keep: bool = True) -> PreparedQuestion:
        """Return the question with inputs drawn from a seed; computed once for each seed, if it is kept."""
        return _prepare(self, seed) if keep else _prepare.__wrapped__(self, seed)

    @property
    def known_answers(self) -> list[KnownAnswer]:
        """Return all known answers, wrong and right, in the order of ``mistakes/``; then the wrong values."""
        values = [
            KnownMistake(self.info.id, name, value, f"{name} = {value!r}", hint)
            for name, hints in self.wrong_values.items()
            for value, hint in hints.items()
        ]
        return load_known_answers(self.info.set_name, self.info.id, next(iter(self.reference))) + values

    @property
    def known_mistakes(self) -> list[KnownMistake]:
        """Return the known answers that are wrong."""
        return [known for known in self.known_answers if isinstance(known, KnownMistake)]

    def _recognise(
        self, prepared: PreparedQuestion, outcomes: Sequence[Outcome], name: str
    ) -> KnownMistake | None:
        """Return the first known mistake that agrees with the answer on all calls of a function."""
        numbers = [n for n, call in enumerate(prepared.calls) if call.name == name]
        if all("value" in outcomes[n] and _is_nothing(outcomes[n]["value"]) for n in numbers):
            return None  # many mistakes end in NaN
        for known in prepared.mistakes:
            if known.name == name and all(
                _agree(prepared.calls[n], outcomes[n], prepared.ask_mistake(known, n)) for n in numbers
            ):
                return known
        return None

    def _recognise_by_one_call(
        self, prepared: PreparedQuestion, outcome: Outcome, number: int
    ) -> KnownMistake | None:
        """Return the one known mistake that gives the same on a call, if there is one and no other."""
        call = prepared.calls[number]
        if not isinstance(call.comparison, Close) or "value" not in outcome:
            return None
        if _is_nothing(outcome["value"]):
            return None  # many mistakes end in NaN
        if not _holds_many_numbers(prepared.wanted[number]):
            return None  # a single number may be the same by chance
        alike = [
            known
            for known in prepared.mistakes
            if known.name == call.name and _agree(call, outcome, prepared.ask_mistake(known, number))
        ]
        return alike[0] if len(alike) == 1 else None

    def _recognise_kind(self, prepared: PreparedQuestion, outcomes: Sequence[Outcome], number: int) -> str:
        """Return what the recognisers say of the function that is called in the call of this number."""
        name = prepared.calls[number].name
        function = self.reference[name]
        if not callable(function) or "value" not in outcomes[number]:
            return ""
        if isinstance(prepared.calls[number].comparison, Judged):
            return ""  # the expected value is one right one of many
        names = list_arguments(function)
        cases: list[Case] = []
        first = 0
        for n, (call, outcome) in enumerate(zip(prepared.calls, outcomes, strict=True)):
            if call.name == name and "value" in outcome:
                first = len(cases) if n == number else first
                expected = prepared.wanted[n]
                right = not call.comparison.find_difference(outcome["value"], expected)
                arguments = dict(zip(names, drop_plan(call.arguments), strict=False))
                cases.append(Case(arguments, outcome["value"], expected, right))
        return "" if cases[first].right else recognise(cases, first)


def _agree(call: Call, outcome: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes are the same, and many operations in both, if in one."""
    many = "operations" in call.find_excess(outcome)
    if many and outcome["operations"] < other.get("operations", 0) / 1.5:
        return False  # chunks that are too short are no loop over tokens
    if "value" in outcome and "value" in other and _is_nothing(outcome["value"]):
        return _is_nothing(other["value"])  # NaN is not equal to NaN
    return outcomes_agree(call, outcome, other)


def _is_nothing(value: Any) -> bool:
    """Return whether a result is NaN everywhere."""
    parts = [as_numbers(part) for part in (value if isinstance(value, tuple) else (value,))]
    return all(part is not None and part.size > 0 and bool(np.isnan(part).all()) for part in parts)


def _holds_many_numbers(value: Any) -> bool:
    """Return whether a result has a handful of entries."""
    parts = value if isinstance(value, tuple) else (value,)
    return sum(array.size for array in map(as_numbers, parts) if array is not None) >= 5


class PeakMemory:
    """Measure by how many bytes this process grows at most while the block runs: ``grown``; 0 but on Linux.

    Example:
        >>> with PeakMemory() as memory:
        ...     x = torch.ones(10_000_000)
        >>> memory.grown > 30_000_000 or not Path("/proc/self/clear_refs").exists()
        True
    """

    grown = 0

    def __enter__(self) -> "PeakMemory":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before = self._read("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = max(0, self._read("VmHWM") - self._before)

    def _read(self, name: str) -> int:
        """Return a size from /proc/self/status, in bytes."""
        with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/self/status") as file:
            return 1024 * int(next(line for line in file if line.startswith(name)).split()[1])
        return 0


def define_question(
    info: QuestionInfo,
    *,
    own_code: bool = False,
    wrong_values: WrongValues | None = None,
    **reference: Any,
) -> Callable[[Callable[[np.random.Generator], list[Call]]], Question]:
    """Make a question of the decorated function, which draws its calls.

    Args:
        info: what stands above the question.
        own_code: whether the answer must be made of torch's elementary operations.
        wrong_values: for a value that is asked for, what to say to each wrong one.
        reference: the right answer: functions and values, by name, in the order in which they are asked for.

    Returns:
        A decorator for ``draw(rng) -> list[Call]``.

    Example:
        >>> info = QuestionInfo("ch01_softmax", "q0", "Double", "derive", points=1, minutes=1, level=1)
        >>> @define_question(info, double=lambda x: 2 * x)
        ... def q0(rng):
        ...     return [Call("double", (1.5,), "x = 1.5"), Call("double", (float(rng.normal()),), "drawn")]
        >>> q0(lambda x: x + x)
        Exercise 1.0: right. 2 cases agree with the reference.
    """
    return lambda draw: Question(info, reference, draw, own_code, wrong_values or {})


def _mix(calls: Sequence[Call], reference: Mapping[str, Any], rng: np.random.Generator) -> list[int]:
    """Return numbers of calls in another order: those of each function in theirs, values where they stand.

    So no function can rely on what another one was called with before it.
    """
    places = [n for n, call in enumerate(calls) if callable(reference[call.name])]
    left = {name: [n for n in reversed(places) if calls[n].name == name] for name in reference}
    mixed = list(range(len(calls)))
    for place, other in zip(places, rng.permutation(places).tolist(), strict=True):
        mixed[place] = left[calls[other].name].pop()
    return mixed


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Let torch use one thread, as in a grader: threads that wait for a busy core count as work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _ask_reference(question: Question, call: Call) -> Any:
    """Return the result of the reference; on a machine that it does not run on, say why."""
    outcome = run_call(question.reference, call, question.own_code)
    if "value" not in outcome:
        raise RuntimeError(f"Exercise {question.info.number} cannot be checked here: {outcome['text']}")
    return outcome["value"]


@lru_cache(maxsize=256)
def _prepare(question: Question, seed: str) -> PreparedQuestion:
    """Draw the calls of a question, and call its reference."""
    text = f"{seed}/{question.info.set_name}/{question.info.id}".encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8]))
    drawn = question.draw(rng)
    mixed = _mix(drawn, question.reference, rng)
    calls = [drawn[n] for n in mixed]
    begin = time.thread_time()  # of this thread alone: a grader has others
    with use_one_thread():
        wanted = [_ask_reference(question, call) for call in calls]
    seconds = time.thread_time() - begin
    looked_at = sorted(range(len(calls)), key=mixed.__getitem__)
    return PreparedQuestion(question, calls, wanted, question.known_mistakes, looked_at, seconds)
