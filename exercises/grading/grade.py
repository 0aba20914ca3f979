"""Grade submissions: several at a time, each once; marks that were given are kept when the run is stopped."""

import contextlib
import functools
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import linattn_exercises
from linattn_exercises.calls import Outcome
from linattn_exercises.grading.draws import Draws
from linattn_exercises.grading.processes import count_jobs, list_cores
from linattn_exercises.grading.reading import UnreadableNotebook
from linattn_exercises.grading.sandbox import (
    Limits,
    Sandbox,
    SandboxClosed,
    choose_isolation,
)
from linattn_exercises.grading.submissions import Others, Submission, SubmissionFile, Until, load_submission
from linattn_exercises.questions import PreparedQuestion, Question
from linattn_exercises.serialization import encode, make_printable
from linattn_exercises.sets import SETS, load_check
from linattn_ref.training.files import write_atomically

NO_NAME = {"NameError", "Missing"}  # errors of an attempt that another cell may mend
Cells = list[tuple[str, bool]]  # see ``Submission.select_cells``
MAX_ANSWERS = 2  # that may be right and differ from attempt to attempt: one, and what it was mended to
# Which cells of other questions are run, and whether what stands after the check is; in this order, since an
# experiment after the check may take the place of the answer.
ATTEMPTS: tuple[tuple[Others, Until], ...] = (
    ("none", "asked"),
    ("earlier", "asked"),
    ("none", "end"),
    ("earlier", "end"),
    ("all", "end"),
)
AS_CHECKED: tuple[Others, Until] = ("earlier", "asked")  # of these, what a check saw
RIGHT_ONCE = "The answer is right on some inputs, and on others it is not, or does not come to its end."
CUT = "Where its slow cells were cut short:"
RUN_FILE = "run.json"  # in the folder of marks: the seed, if it was drawn, and which seeds answers may know
LOCK_FILE = "run.lock"  # in the folder of marks: empty, and locked while a run goes on
KEPT_FOLDER = "kept"  # in the folder of marks: a file for each submission that is graded
SEED_DRAWN_ANEW = "A new seed is drawn: answers that ran without bubblewrap may know the one of before"
SEED_KNOWN = (
    "This seed was used without bubblewrap, so answers may know it, and may have made marks with it: choose "
    "another"
)


class Mark(NamedTuple):
    """Hold the mark for one question of one submission: a row of marks.csv.

    Args:
        submission: the name it goes by.
        chapter: the set that it answers, such as "ch01_softmax"; "" if that is not known.
        question: "q1" and so on; "" if none was found.
        points: ``max_points`` for a right answer, or 0.
        max_points: what a right answer earns.
        message: the verdict in words, for the author.
    """

    submission: str
    chapter: str
    question: str
    points: int
    max_points: int
    message: str


@dataclass(frozen=True)
class GradedSubmission:
    """Hold the marks of one submission.

    Args:
        name: the name it goes by.
        marks: one for each question of its set.
        note: for its author, such as that it was written for an earlier version of the set.
        fault: what went wrong in the grader itself; such marks are not kept for the next run.
    """

    name: str
    marks: list[Mark]
    note: str = ""
    fault: str = ""


class Grader:
    """Grade into a folder, and go on where an earlier run into the same folder stopped.

    Args:
        out: the folder for marks and feedback; made if it is not there.
        seed: the secret from which inputs are drawn; "" is that of the earlier run, or a new one if there is
            none or answers may know it.
        isolation: "bubblewrap" or "process", see ``choose_isolation``.
        limits: what one question may use; default ``Limits()``.
        jobs: submissions graded at a time; 0 is one for each core that we may use, as far as there is memory.
        default_set: the set of notebooks that do not say which they answer; "" if it is not known.
        hidden: what no answer may see, besides ``out`` and the folders of the submissions. In a folder among
            these no link to a submission is followed.

    Its ``warning`` says what is amiss with the seed, or is "".

    Raises:
        ValueError: if there is no such set or isolation, or ``jobs`` is negative.
        IsolationUnavailable: if the isolation does not work here.
    """

    def __init__(
        self,
        out: Path,
        *,
        seed: str = "",
        isolation: str = "bubblewrap",
        limits: Limits | None = None,
        jobs: int = 0,
        default_set: str = "",
        hidden: Sequence[Path] = (),
    ) -> None:
        if default_set and default_set not in SETS:
            raise ValueError(f"set: got {default_set!r}, expected one of {', '.join(SETS)}")
        if jobs < 0:
            raise ValueError(f"jobs: got {jobs}, expected 1 or more, or 0 for one per core")
        self.out, self.default_set, self.limits = out, default_set, limits or Limits()
        self.isolation = choose_isolation(isolation)
        self.jobs = jobs or count_jobs(self.limits.memory)
        _make_folder(out)
        (out / KEPT_FOLDER).mkdir(exist_ok=True)
        self.seed, self.warning = self._choose_seed(seed)
        self.note_run()
        self.checks = {name: load_check(name) for name in SETS}
        self.answer_names = {  # for every set, from each name that an answer defines to its question
            name: {key: one.info.id for one in module.QUESTIONS for key in one.reference}
            for name, module in self.checks.items()
        }
        self._local = threading.local()  # the sandboxes of each thread, by whether own code is asked for
        self._tops = [path for path in hidden if path.is_dir()]
        self._given_hidden = [path.resolve() for path in hidden]
        self._hidden = self._given_hidden  # what no answer may see
        self._cores = iter(list_cores() if self.jobs <= len(list_cores()) else [])  # one for each thread
        self._sandboxes: list[Sandbox] = []  # those of all threads, to be closed
        self._stopped = False
        self._code = _hash_code()

    def grade(
        self,
        files: Sequence[SubmissionFile],
        on_graded: Callable[[GradedSubmission, bool], None] = lambda graded, was_kept: None,
    ) -> list[GradedSubmission]:
        """Grade submissions, and keep the marks of each for a later run.

        If an exception stops it, submissions that are finished have been kept, and no other.

        Args:
            files: the submissions, see ``find_submissions``.
            on_graded: called with each as it is ready, and with whether an earlier run had graded it.

        Returns:
            One for each file, in the order of the files.
        """
        results: dict[str, GradedSubmission] = {}
        todo = []
        alone = dict.fromkeys(file.path.parent.resolve() for file in files if self._find_top(file) is None)
        self._hidden = [self.out, *self._given_hidden, *alone]
        for file in files:
            if kept := self._load_kept(file):
                results[file.name] = kept
                on_graded(kept, True)
            else:
                todo.append(file)
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for future in as_completed([pool.submit(self._grade_and_keep, file) for file in todo]):
                    graded = future.result()
                    results[graded.name] = graded
                    on_graded(graded, False)
            except BaseException:
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                for sandbox in self._sandboxes:
                    sandbox.close()
                self._sandboxes, self._local = [], threading.local()
        return [results[file.name] for file in files]

    # --- one submission ---------------------------------------------------------------------------------

    def _grade_and_keep(self, file: SubmissionFile) -> GradedSubmission:
        """Grade a submission and write its marks for a later run, unless the grader failed."""
        try:
            found = self._load_content(file)  # once: what is kept for a content must be the marks of that
            digest = self._hash_inputs(file, found)
            graded = self._grade(file, found)
            if self._stopped:
                raise SandboxClosed("the run was stopped")
            marks = [mark._asdict() for mark in graded.marks]
            content = {"digest": digest, "note": graded.note, "marks": marks}
            kept = json.dumps({**content, "signature": self.sign(content)}, indent=1) + "\n"
            write_atomically({self._kept_path(file): kept})
            return graded
        except SandboxClosed:
            raise
        except Exception as error:  # one submission must not stop the class
            fault = make_printable(f"{type(error).__name__}: {error}")
            return GradedSubmission(
                file.name, [Mark(file.name, "", "", 0, 0, f"Could not be graded: {fault}")], "", fault
            )

    def _load_content(self, file: SubmissionFile) -> bytes | UnreadableNotebook:
        """Return the content of a file, or what keeps it from being read."""
        try:
            return load_submission(file.path, self._find_top(file))
        except UnreadableNotebook as error:
            return error

    def _grade(self, file: SubmissionFile, found: bytes | UnreadableNotebook) -> GradedSubmission:
        """Return the marks of a submission, in whose file this was found."""
        try:
            if isinstance(found, UnreadableNotebook):
                raise found
            submission = self._get_sandbox(own_code=False).read(found, self.answer_names, self.default_set)
        except UnreadableNotebook as error:
            return GradedSubmission(file.name, self._mark_unreadable(file, str(error)))
        module = self.checks[submission.set_name]
        notebook = self._hash_inputs(file, found)
        marks = [self._mark(file, submission, question, notebook) for question in module.QUESTIONS]
        other = submission.version and submission.version != module.VERSION
        version = submission.version if re.fullmatch("[0-9a-f]{1,12}", submission.version) else "unknown"
        notes = [f"Written for version {version}, graded with {module.VERSION}."] if other else []
        if others := " and ".join(submission.other_sets):
            notes.append(f"A notebook is graded for one set: of {others} hand in another.")
        return GradedSubmission(file.name, marks, " ".join(notes))

    def _mark_unreadable(self, file: SubmissionFile, message: str) -> list[Mark]:
        """Give no points, for every question of the set that was handed out, if it is known."""
        if not self.default_set:
            return [Mark(file.name, "", "", 0, 0, message)]
        infos = [question.info for question in self.checks[self.default_set].QUESTIONS]
        return [Mark(file.name, self.default_set, info.id, 0, info.points, message) for info in infos]

    def _mark(self, file: SubmissionFile, submission: Submission, question: Question, notebook: str) -> Mark:
        """Return the mark for one question."""
        info = question.info
        try:
            right, message = self._judge_submission(submission, question, notebook)
        except (MemoryError, RecursionError):
            right, message = False, "The answer returned more than can be compared."
        points = info.points if right else 0
        return Mark(file.name, info.set_name, info.id, points, info.points, make_printable(message))

    def _judge_submission(
        self, submission: Submission, question: Question, notebook: str
    ) -> tuple[bool, str]:
        """Return whether an answer is right, and what is said of it; see ``_try_attempts``.

        ``notebook`` tells it from others, see ``Draws``.
        """
        if not any(own for _, own in submission.select_cells(question.info.id)):
            names = ", ".join(f"`{name}`" for name in question.reference)
            return False, f"No answer found: no cell defines {names}."
        return self._try_attempts(submission, question, Draws(question, self.seed, notebook))

    def _try_attempts(self, submission: Submission, question: Question, draws: Draws) -> tuple[bool, str]:
        """Return whether one of several attempts is right, and the message of the first that tells most.

        The attempts differ in the cells that are run, see ``_list_attempts``. If one takes too long it is
        made again with little time for each statement of the cells, and so are those after it that run the
        same or more; if that takes too long as well with the cells of the question alone, it is the answer
        that does. No attempt begins after three limits on the clock, and none after two that gave different
        values, or one that chose a wrong letter: more would be guesses. One in which a call gave nothing
        cannot be right, so it is no guess. Nor does one begin after a stub, if no cell elsewhere may fill it.
        """
        stubs_stay = not submission.is_asked_elsewhere(question.info.id)
        message, lacks_a_name, begin = "", True, time.monotonic()
        slow: set[Others] = set()  # which cells of other questions were run in attempts that took too long
        answers: set[str] = set()  # see ``_summarise``
        ended: list[Cells] = []  # the cells of attempts that came to their end
        attempts = _list_attempts(submission, question)
        for number, (cells, others) in enumerate(attempts):
            if cells in ended or (others == "all" and not lacks_a_name):
                continue
            while True:
                if message and time.monotonic() - begin > 3 * self.limits.wall:
                    return False, message
                hurried = "none" in slow or (others != "none" and bool(slow))
                outcomes, prepared, can_earn = self._run_attempt(question, cells, draws, hurried, answers)
                judge = functools.partial(question.judge_on, prepared, outcomes)  # it may take seconds
                if can_earn and question.is_right(prepared, outcomes):
                    return True, judge().message
                errors = {one.get("error") for one in outcomes}
                if question.chooses_wrongly(prepared, outcomes):
                    return False, f"{message} {CUT} {judge().message}" if hurried else judge().message
                if not message or (lacks_a_name and "Stopped" not in errors):
                    found = judge()  # the later one tells more than that a name is missing
                    message = RIGHT_ONCE if found.right else found.message
                if "Stopped" not in errors:
                    lacks_a_name = bool(errors & NO_NAME)
                    ended.append(cells)
                    break
                if hurried and others == "none":
                    return False, message
                slow.add(others)
                if hurried or any(cells == later for later, _ in attempts[number + 1 :]):
                    break
            if (errors == {"NotImplementedError"} and stubs_stay) or len(answers) >= MAX_ANSWERS:
                break
        return False, message

    def _run_attempt(
        self, question: Question, cells: Cells, draws: Draws, hurried: bool, answers: set[str]
    ) -> tuple[list[Outcome], PreparedQuestion, bool]:
        """Return the outcomes of an attempt, the inputs that it was given, and whether it can earn the point.

        Where operations are watched, the first run alone can earn it on the inputs that it is given. What
        comes after that is given the same ones, to compare the two. The first answer that differs from one
        before, and is right there, runs once more, on inputs that no run has seen; and again on others, if
        that run did not come to its end.

        ``answers``: those of the attempts before; what is new is added.
        """
        can_earn = draws.common is None or not draws.are_watched
        prepared = draws.common = draws.common or draws.draw()
        outcomes = self._run(question, cells, prepared, hurried)
        if any("early" in one for one in outcomes):  # which may have been the machine's doing
            can_earn = not draws.are_watched
            outcomes = self._run(question, cells, prepared, hurried)
        gave = _summarise(outcomes)
        is_new = bool(gave - answers) and len(answers) < MAX_ANSWERS
        answers |= gave
        if can_earn or not is_new or draws.are_used or not question.is_right(prepared, outcomes):
            return outcomes, prepared, can_earn
        draws.are_used = True
        for _ in range(2):
            prepared = draws.draw()
            outcomes = self._run(question, cells, prepared, hurried)
            if not any(one.get("error") == "Stopped" for one in outcomes):
                break
        return outcomes, prepared, True

    def _run(
        self, question: Question, cells: Cells, prepared: PreparedQuestion, hurried: bool
    ) -> list[Outcome]:
        """Return the outcomes of a run on these inputs."""
        limits = self.limits.raise_to(prepared.allow(self.limits.cpu))
        return self._get_sandbox(question.own_code).run(cells, prepared.calls, hurried, limits)

    def _get_sandbox(self, own_code: bool) -> Sandbox:
        """Return the sandbox of this thread for questions that ask for own code, or for the others."""
        own: dict[bool, Sandbox] = vars(self._local).setdefault("sandboxes", {})
        if own_code not in own:
            if not hasattr(self._local, "core"):
                self._local.core = next(self._cores, None)
            own[own_code] = Sandbox(self.isolation, self.limits, own_code, self._hidden, self._local.core)
            self._sandboxes.append(own[own_code])
            if self._stopped:  # after all others were closed
                raise SandboxClosed("the run was stopped")
        return own[own_code]

    # --- what an earlier run did --------------------------------------------------------------------------

    def _load_kept(self, file: SubmissionFile) -> GradedSubmission | None:
        """Return the marks of an earlier run, if nothing that they depend on has changed."""
        try:
            content = json.loads(self._kept_path(file).read_bytes())
            signature = content.pop("signature")
            digest = self._hash_inputs(file, self._load_content(file))
            if content["digest"] == digest and hmac.compare_digest(signature, self.sign(content)):
                return GradedSubmission(
                    file.name, [Mark(**mark) for mark in content["marks"]], content["note"]
                )
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError):
            pass  # never graded, or the file is damaged: grade it
        return None

    def _find_top(self, file: SubmissionFile) -> Path | None:
        """Return the folder in which a submission was found; None for a file that was given itself."""
        return next((top for top in self._tops if file.path.is_relative_to(top)), None)

    def _kept_path(self, file: SubmissionFile) -> Path:
        """Return the file that keeps the marks of a submission."""
        return self.out / KEPT_FOLDER / f"{hashlib.sha256(os.fsencode(file.name)).hexdigest()[:24]}.json"

    def _hash_inputs(self, file: SubmissionFile, found: bytes | UnreadableNotebook) -> str:
        """Return a hash of all that marks depend on: content, name, settings, and the code that grades."""
        content = found if isinstance(found, bytes) else str(found).encode()
        settings = [file.name, self.seed, self.isolation, self.default_set, asdict(self.limits), self._code]
        return hashlib.sha256(json.dumps(settings).encode() + b"\0" + content).hexdigest()

    def sign(self, content: Any) -> str:
        """Return a signature of plain data, which cannot be made without the seed."""
        text = json.dumps(content, sort_keys=True).encode()
        return hmac.new(self.seed.encode(), text, hashlib.sha256).hexdigest()

    def _choose_seed(self, given: str) -> tuple[str, str]:
        """Return the seed, and a warning: one that answers may know is not taken from the run before."""
        drawn, known = self._load_run()
        protects = self.isolation != "process"
        if given:
            return given, SEED_KNOWN if protects and _mark_seed(given) in known else ""
        if drawn and not (protects and _mark_seed(drawn) in known):
            return drawn, ""
        seed = secrets.token_hex(16)
        self._write_run(seed, known)
        return seed, SEED_DRAWN_ANEW if drawn else ""

    def note_run(self) -> None:
        """Note that answers may know this seed and the one in the folder, if they run without bubblewrap.

        They can change the note as well, so it is written once more when all of them have ended.
        """
        if self.isolation == "process":
            drawn, known = self._load_run()
            self._write_run(drawn, sorted({*known, *map(_mark_seed, filter(None, [drawn, self.seed]))}))

    def _load_run(self) -> tuple[str, list[str]]:
        """Return the seed that an earlier run into this folder has drawn, and marks of seeds that are known.

        What is damaged is passed over."""
        try:
            found = json.loads((self.out / RUN_FILE).read_bytes())
            seed, known = found.get("seed"), found.get("known")
        except (OSError, ValueError, AttributeError, RecursionError):
            return "", []
        marks = [one for one in known if isinstance(one, str)] if isinstance(known, list) else []
        return seed if isinstance(seed, str) and seed.isascii() else "", marks

    def _write_run(self, seed: str, known: Sequence[str]) -> None:
        """Write what ``_load_run`` reads, for nobody else to read."""
        mask = os.umask(0o077)
        try:
            write_atomically({self.out / RUN_FILE: json.dumps({"seed": seed, "known": known}) + "\n"})
        finally:
            os.umask(mask)


@contextlib.contextmanager
def hold_folder(out: Path) -> Iterator[None]:
    """Hold a folder of marks for one run, so that no other writes into it; make it if it is not there.

    It is free again when the context is left, or the process has ended in whatever way. Where files cannot be
    locked, nothing is held.

    Raises:
        ValueError: if another run holds it.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    _make_folder(out)
    number = os.open(out / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)  # no program that we start inherits it
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise ValueError(
            f"out: got {str(out)!a}, into which another run grades; wait for its end or choose another folder"
        ) from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(number)


def _make_folder(out: Path) -> None:
    """Make the folder of marks if it is not there, for nobody else to read."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)


def _list_attempts(submission: Submission, question: Question) -> list[tuple[Cells, Others]]:
    """Return which cells to run in each attempt, and which cells of other questions are among them.

    In order, up to the check of the question: its cells and those before the first question; all cells, as a
    reader has run them. Then both with what stands after the check, the second up to the last cell of the
    question. At last all cells, which is for a name that is missing still. Those that are alike are tried
    once.

    A letter counts once, so where there is one the attempt that runs what the check saw comes first; and, if
    it takes too long there, in its place among the others as well.
    """
    attempts: list[tuple[Cells, Others]] = []
    for others, until in ATTEMPTS:
        cells = submission.select_cells(question.info.id, others, until)
        if all(cells != tried for tried, _ in attempts):
            attempts.append((cells, others))
    seen = submission.select_cells(question.info.id, *AS_CHECKED)
    if question.letters and seen != attempts[0][0]:
        attempts.insert(0, (seen, AS_CHECKED[0]))
    return attempts


def _summarise(outcomes: Sequence[Outcome]) -> set[str]:
    """Return a hash of the values that an attempt gave; the empty set if a call gave none."""
    values = [one.get("value") for one in outcomes]
    if any(value is None for value in values):
        return set()
    return {hashlib.sha256(json.dumps([encode(value) for value in values]).encode()).hexdigest()}


def _mark_seed(seed: str) -> str:
    """Return what a seed is known by and cannot be told from."""
    return hmac.new(seed.encode(), b"known", hashlib.sha256).hexdigest()


def _hash_code() -> str:
    """Return a hash of all Python files of the exercises."""
    folder = Path(linattn_exercises.__file__).parent
    files = sorted(folder.rglob("*.py"))
    parts = [f"{file.relative_to(folder).as_posix()}\0{file.read_text('utf-8')}" for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
