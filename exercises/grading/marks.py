"""Grade submissions: several at a time, each once, nothing lost when the run is stopped."""

import hashlib
import importlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import linattn_exercises
from linattn_exercises import SETS, plain
from linattn_exercises.grading.answers import without_magics
from linattn_exercises.grading.entries import Entry
from linattn_exercises.grading.server import Closed, Limits, NoIsolation, Server, chosen
from linattn_exercises.grading.submissions import MAX_BYTES, Submission, Unreadable, read
from linattn_exercises.judging import Outcome
from linattn_exercises.questions import Question, Verdict
from linattn_ref.training.files import write_atomically

RUN = "run.json"
KEPT = "kept"


class Mark(NamedTuple):
    """The mark for one question of one submission."""

    submission: str
    chapter: str
    question: str
    points: int
    max_points: int
    message: str


@dataclass(frozen=True)
class Graded:
    """The marks of one submission; ``note`` is for its author, ``fault`` if the grader itself failed."""

    name: str
    marks: list[Mark]
    note: str = ""
    fault: str = ""


class Grader:
    """Grades into a folder, and goes on where an earlier run into the same folder stopped.

    Args:
        out: the folder for marks and feedback.
        seed: the secret from which inputs are drawn; empty is that of the earlier run, or a new one.
        isolation: "auto", "bubblewrap" or "process".
        jobs: submissions graded at a time.
        default: the set of notebooks that do not say which they answer.
    """

    def __init__(
        self,
        out: Path,
        *,
        seed: str = "",
        isolation: str = "auto",
        limits: Limits | None = None,
        jobs: int = 0,
        default: str = "",
    ) -> None:
        if default and default not in SETS:
            raise ValueError(f"set: got {default!r}, expected one of {', '.join(SETS)}")
        if jobs < 0:
            raise ValueError(f"jobs: got {jobs}, expected 1 or more")
        self.out, self.default, self.limits = out, default, limits or Limits()
        self.isolation = chosen(isolation)
        self.jobs = jobs or os.cpu_count() or 1
        (out / KEPT).mkdir(parents=True, exist_ok=True)
        self.seed = seed or self._drawn_seed()
        self.sets = {name: importlib.import_module(f"linattn_exercises.{name}.check") for name in SETS}
        self.names = {
            name: {key: one.about.id for one in module.QUESTIONS for key in one.reference}
            for name, module in self.sets.items()
        }
        self._local = threading.local()
        self._servers: list[Server] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._code = _code_digest()

    def grade(self, every: Sequence[Entry], done: Callable[[Graded, bool], None]) -> list[Graded]:
        """Grade all entries. ``done`` is told each as it comes, and whether an earlier run had graded it.

        If it is stopped by an exception, nothing that was still being graded is kept.
        """
        results: dict[str, Graded] = {}
        todo = []
        for entry in every:
            if kept := self._kept(entry):
                results[entry.name] = kept
                done(kept, True)
            else:
                todo.append(entry)
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for future in as_completed([pool.submit(self._grade_and_keep, entry) for entry in todo]):
                    graded = future.result()
                    results[graded.name] = graded
                    done(graded, False)
            except BaseException:
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                for server in self._servers:
                    server.close()
                self._servers, self._local = [], threading.local()
        return [results[entry.name] for entry in every]

    # --- one submission ---------------------------------------------------------------------------------

    def _grade_and_keep(self, entry: Entry) -> Graded:
        try:
            digest = self._digest(entry)
            graded = self._grade(entry)
            if self._stopped:
                raise Closed("the run was stopped")
            content = {
                "digest": digest,
                "note": graded.note,
                "marks": [mark._asdict() for mark in graded.marks],
            }
            write_atomically({self._file(entry): json.dumps(content, indent=1) + "\n"})
            return graded
        except (Closed, NoIsolation):
            raise
        except Exception as error:  # one submission must not stop the class
            fault = plain.printable(f"{type(error).__name__}: {error}")
            return Graded(
                entry.name, [Mark(entry.name, "", "", 0, 0, f"Could not be graded: {fault}")], "", fault
            )

    def _grade(self, entry: Entry) -> Graded:
        try:
            submission = read(entry.path, self.names, self.default)
        except Unreadable as error:
            return Graded(entry.name, self._unreadable(entry, str(error)))
        module = self.sets[submission.set]
        server = self._server()
        marks = [self._mark(entry, submission, question, server) for question in module.QUESTIONS]
        other = submission.version and submission.version != module.VERSION
        note = f"Written for version {submission.version}, graded with {module.VERSION}." if other else ""
        return Graded(entry.name, marks, note)

    def _unreadable(self, entry: Entry, message: str) -> list[Mark]:
        """No points, for every question of the set that was handed out, if it is known."""
        if not self.default:
            return [Mark(entry.name, "", "", 0, 0, message)]
        questions = self.sets[self.default].QUESTIONS
        return [Mark(entry.name, self.default, q.about.id, 0, q.about.points, message) for q in questions]

    def _mark(self, entry: Entry, submission: Submission, question: Question, server: Server) -> Mark:
        about = question.about
        try:
            right, message = self._verdict(submission, question, server)
        except (MemoryError, RecursionError):
            right, message = False, "The answer returned more than can be compared."
        points = about.points if right else 0
        return Mark(entry.name, about.set, about.id, points, about.points, plain.printable(message))

    def _verdict(self, submission: Submission, question: Question, server: Server) -> tuple[bool, str]:
        """Right if one of up to three attempts is; the message is that of the first that finds the answer.

        The cells of the question and those before the first question; if that is not right, all cells; if it
        took too long, only imports, definitions and assignments of the first.
        """
        id = question.about.id
        cells, every = submission.of(id), submission.of(id, rest=True)
        if found := question.forbidden([without_magics(source) for source, _ in every]):
            return False, found
        with self._lock:  # draws inputs and expected values, the first time
            cases = question.prepared(self.seed).cases
        if not any(own for _, own in cells):
            return (
                False,
                f"No answer found: no cell defines {', '.join(f'`{n}`' for n in question.reference)}.",
            )
        outcomes = server.outcomes(cells, cases)
        verdict = self._judged(question, outcomes)
        errors = {one.get("error") for one in outcomes}
        if verdict.right:
            return True, verdict.message
        if verdict.mistake or errors == {"NotImplementedError"}:
            return False, verdict.message
        stopped = "Stopped" in errors
        again = server.outcomes(cells, cases, definitions=True) if stopped else server.outcomes(every, cases)
        second = self._judged(question, again)
        lost = errors & {"NameError", "Missing"} and not {"Stopped"} & {one.get("error") for one in again}
        shown = second if second.right or lost else verdict
        return shown.right, shown.message

    def _judged(self, question: Question, outcomes: list[Outcome]) -> Verdict:
        with self._lock:
            return question.judge(outcomes, self.seed)

    def _server(self) -> Server:
        """The server of this thread."""
        if not hasattr(self._local, "server"):
            self._local.server = Server(self.isolation, self.limits)
            self._servers.append(self._local.server)
            if self._stopped:  # after all others were closed
                raise Closed("the run was stopped")
        return self._local.server

    # --- what an earlier run did --------------------------------------------------------------------------

    def _kept(self, entry: Entry) -> Graded | None:
        try:
            content = json.loads(self._file(entry).read_bytes())
            if content["digest"] == self._digest(entry):
                return Graded(entry.name, [Mark(**mark) for mark in content["marks"]], content["note"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # never graded, or the file is damaged: grade it
        return None

    def _file(self, entry: Entry) -> Path:
        return self.out / KEPT / f"{hashlib.sha256(os.fsencode(entry.name)).hexdigest()[:24]}.json"

    def _digest(self, entry: Entry) -> str:
        """Of all that marks depend on: the file, the name, the seed, the limits, the code that grades."""
        try:
            large = entry.path.stat().st_size > MAX_BYTES
            content = b"large" if large else entry.path.read_bytes()
        except OSError:
            content = b""
        settings = json.dumps([entry.name, self.seed, self.default, asdict(self.limits), self._code])
        return hashlib.sha256(settings.encode() + b"\0" + content).hexdigest()

    def _drawn_seed(self) -> str:
        """The seed of the run before into this folder, or a new one, which is kept for the next."""
        file = self.out / RUN
        try:
            seed = json.loads(file.read_bytes())["seed"]
            if isinstance(seed, str) and seed:
                return seed
        except (OSError, ValueError, KeyError, TypeError):
            pass
        seed = secrets.token_hex(16)
        write_atomically({file: json.dumps({"seed": seed}) + "\n"})
        file.chmod(0o600)
        return seed


def _code_digest() -> str:
    folder = Path(linattn_exercises.__file__).parent
    files = sorted(folder.rglob("*.py"))
    parts = [f"{file.relative_to(folder).as_posix()}\0{file.read_text('utf-8')}" for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def questions(name: str) -> dict[str, Question]:
    """The questions of a set, by id."""
    module: Any = importlib.import_module(f"linattn_exercises.{name}.check")
    return {question.about.id: question for question in module.QUESTIONS}
