"""Run answers in a sandbox: start a worker, as isolated as the machine allows, and send it jobs."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from linattn_exercises.calls import Call, Outcome, decode_outcome
from linattn_exercises.grading.isolation import (
    ISOLATIONS,
    build_command,
    build_environment,
    find_session,
)
from linattn_exercises.grading.processes import MAX_FILES, PATIENCE
from linattn_exercises.grading.reading import Names, UnreadableNotebook
from linattn_exercises.grading.submissions import Submission, decode_submission
from linattn_exercises.questions import BYTES, SECONDS
from linattn_exercises.serialization import MAX_ITEMS, encode
from linattn_exercises.watch import merge_outcomes

START_SECONDS = 120.0
UNREPORTED = "The answer returned more than can be reported, or interfered with the report of its results."
MAX_REPORT = 16_000_000  # bytes of a report that are read; an answer may write no larger file than that
MAX_BRACKETS = 10 * MAX_ITEMS  # that open in an outcome; of an item ``encode`` makes 4, texts may hold some


class IsolationUnavailable(RuntimeError):
    """Say that answers cannot be run here in the way that was asked for."""


@dataclass(frozen=True)
class Limits:
    """Limit what one attempt at a question may use. An answer that is not right gets another attempt or two.

    Args:
        cpu: seconds of processor time of each process; default 5.
        wall: seconds on the clock; default 15. Those in which it waits for a core are not counted.
        memory: bytes of each process beyond what torch takes; default 1 GB.
        file: bytes of the largest file that it may write; default 10 MB.
        processes: how many it may start; default 16.
    """

    cpu: int = SECONDS
    wall: int = 15
    memory: int = BYTES
    file: int = 10_000_000
    processes: int = 16

    def raise_to(self, cpu: int) -> "Limits":
        """Return limits with another processor time, and time on the clock in proportion."""
        return replace(self, cpu=cpu, wall=self.wall * cpu // self.cpu)


class MachineFault(RuntimeError):
    """Say that the machine could not run an answer: no fault of its author."""


class SandboxClosed(RuntimeError):
    """Say that the run was stopped; what this sandbox was asked has no answer."""


class Sandbox:
    """Run answers in a worker process. It is started with the first job, and again after it has ended.

    For each question the worker gets two open files: one with the job, and an empty one for the report.
    Nothing of one answer is in its memory when it forks for the next.

    Args:
        isolation: "bubblewrap" or "process", see ``choose_isolation``.
        limits: what one question may use.
        own_code: whether answers must be their author's own code: the book's package is not there, and all
            that they compute is watched (see ``watch``).
        hidden: folders and files that an answer must not see, wherever they lie.
        core: the processor core that answers run on; None is any.
    """

    def __init__(
        self,
        isolation: str,
        limits: Limits,
        own_code: bool = False,
        hidden: Sequence[Path] = (),
        core: int | None = None,
    ) -> None:
        self.isolation, self.limits, self.own_code, self.hidden = isolation, limits, own_code, hidden
        self.core = core
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._channel: socket.socket | None = None
        self._jobs = 0
        self._closed = False

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(
        self,
        cells: Sequence[tuple[str, bool]],
        calls: Sequence[Call],
        hurried: bool = False,
        limits: Limits | None = None,
    ) -> list[Outcome]:
        """Run the cells, then make the calls.

        Args:
            cells: source, and whether the cell belongs to the question.
            calls: what is called.
            hurried: give the cells half of the time, and each statement but little of what is left of that,
                so that slow experiments beside the answer do not take all of it. Default False.
            limits: what it may use; default those of the sandbox.

        Returns:
            One outcome for each call, whatever happens; of a worker that was stopped, the error "Stopped",
            with "early" if it ended long before its limits, which may have been the machine's doing.

        Raises:
            IsolationUnavailable: if the worker does not start.
            MachineFault: if the machine has no process for it.
            SandboxClosed: if ``close`` was called from another thread.
        """
        limits = limits or self.limits
        arguments = [[encode(x) for x in call.arguments] for call in calls]
        names = [call.name for call in calls]
        job: dict[str, Any] = {
            "cells": [list(cell) for cell in cells],
            "calls": [
                [name, None if self.own_code else own] for name, own in zip(names, arguments, strict=True)
            ],
            "hurried": hurried,
        }
        jobs: list[dict[str, Any]] = [job, {"calls": arguments}] if self.own_code else [job]
        start = time.monotonic()
        end, reports = self._run_job("run", jobs, limits)
        early = end in ("lost", "died") and time.monotonic() - start < limits.wall / 3
        if end == "done":
            return self._load_outcomes(reports, len(calls))
        stopped = _make_stopped(_explain(end, limits))
        return [stopped | {"early": True} if early else stopped] * len(calls)

    def _load_outcomes(self, reports: Sequence[bytes], number_of_calls: int) -> list[Outcome]:
        """Return the outcome of each call by the reports on them."""
        try:
            if reports[0].count(b"\n") != number_of_calls or not reports[0].endswith(b"\n"):
                raise ValueError("report: expected a line for each call")  # before time is spent on it
            kept = dict(map(_load_line, reports[1].splitlines())) if self.own_code else {}
            found = []
            for number, line in enumerate(reports[0].split(b"\n")[:-1]):  # one by one, to save memory
                told = _load_line(line)
                outcome = merge_outcomes(told, kept.get(number)) if self.own_code else told
                found.append(decode_outcome(outcome))
            return found
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
            return [_make_stopped(UNREPORTED)] * number_of_calls

    def read(self, notebook: bytes, names: Names, default_set: str = "") -> Submission:
        """Read a notebook, see ``reading.read_notebook``; nothing in it is run.

        Args:
            notebook: the content of the file.
            names: for every set, from each name that an answer defines to its question.
            default_set: the set of a notebook that does not say which it is.

        Raises:
            UnreadableNotebook: with a message that says what the file is instead.
            IsolationUnavailable: if the worker does not start.
            MachineFault: if the machine has no process for it, or the worker is lost twice.
            SandboxClosed: if ``close`` was called from another thread.
        """
        job = {"names": names, "default_set": default_set}
        end, reports = self._run_job("read", [job], self.limits, notebook)
        if end in ("lost", "died"):
            end, reports = self._run_job("read", [job], self.limits, notebook)
        if end == "lost":  # no answer runs that could have ended it
            raise MachineFault("the process that reads notebooks has ended twice")
        if end != "done":
            raise UnreadableNotebook("The notebook cannot be read within the limits of an answer.")
        try:
            found = json.loads(reports[0])
        except ValueError as error:  # longer than a report may be
            raise UnreadableNotebook("The notebook cannot be read within the limits of an answer.") from error
        if "unreadable" in found:
            raise UnreadableNotebook(found["unreadable"])
        return decode_submission(found["read"])

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        """End the process and all it started. Raises nothing: what an answer left may be hard to remove."""
        process, folder, channel = self._process, self._folder, self._channel
        self._process, self._folder, self._channel = None, "", None
        if process:
            process.kill()
            process.wait()
        if channel:
            channel.close()
        if folder:
            for words in (["rm", "-rf", folder], ["chmod", "-R", "u+rwX", folder], ["rm", "-rf", folder]):
                with contextlib.suppress(OSError):
                    subprocess.run(words, stderr=subprocess.DEVNULL, check=False)

    def _run_job(
        self, kind: str, jobs: Sequence[dict[str, Any]], limits: Limits, notebook: bytes | None = None
    ) -> tuple[str, list[bytes]]:
        """Send a job; return how it ended, and what its processes wrote.

        It ended as the worker says ("done", "cpu", "wall", "memory", "files" or "died"), or the worker itself
        was "lost". What is the machine's fault is raised: see ``MachineFault``.

        Args:
            kind: "run" or "read".
            jobs: what each process of the job is asked.
            limits: what each of them may use.
            notebook: the content of the file to read.
        """
        with contextlib.ExitStack() as stack:
            files, reports = [], []
            for job in jobs:
                text = json.dumps({**job, "limits": asdict(limits)}).encode()
                asked, report = (stack.enter_context(_open_nameless_file(one)) for one in (text, b""))
                files += [asked.fileno(), report.fileno()]
                reports.append(report.fileno())
            if notebook is not None:
                files.append(stack.enter_context(_open_nameless_file(notebook)).fileno())
            try:
                end = self._send_job(kind, files, limits)
            except (OSError, ValueError, TimeoutError):
                self._stop()
                if self._closed:
                    raise SandboxClosed("the run was stopped") from None
                end = "lost"
            if end == "machine":
                self._stop()
                raise MachineFault(
                    "a process for an answer could not be prepared, or could not go on; cores may be busy"
                )
            found = [_read_report(number) for number in reports]
            if end in ("died", "lost") or not all(map(_is_whole, found)):
                _require_space(reports)
            return end, found

    def _send_job(self, kind: str, files: list[int], limits: Limits) -> str:
        """Send the open files of a job, wait, and return how the job ended."""
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._start()
        assert self._channel is not None
        self._jobs += 1
        asked = {"id": self._jobs, "kind": kind, "wall": limits.wall, "memory": 2 * limits.memory}
        try:
            socket.send_fds(self._channel, [json.dumps(asked).encode()], files)
        except BrokenPipeError:
            raise  # the worker has ended
        except OSError as error:
            raise MachineFault(f"an answer could not be sent: {error.strerror or error}") from error
        reply = self._read_line(PATIENCE * limits.wall + 15)
        if reply.get("id") != self._jobs:
            raise ValueError("reply: not to what was asked")
        return str(reply["end"])

    def _start(self) -> None:
        """Start the worker, and wait until it is ready."""
        if self._closed:
            raise SandboxClosed("the run was stopped")
        # In bubblewrap there are other folders, which end with it.
        self._folder = tempfile.mkdtemp(prefix="linattn-") if self.isolation == "process" else ""
        environment = build_environment(self._folder or os.sep, self.own_code, self.core)
        if self.isolation == "bubblewrap":
            environment |= find_session()
        self._channel, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    build_command(self.isolation, self.own_code, self.hidden, self.core),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    cwd=self._folder or os.sep,
                    start_new_session=True,
                )
            except OSError as error:
                where = f": {error.filename}" if error.filename else ""
                reason = f"no process could be started: {error.strerror or error}{where}"
                raise MachineFault(reason) from error
        try:
            ready = self._read_line(START_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            self._stop()
            if self._closed:
                raise SandboxClosed("the run was stopped") from None
            raise IsolationUnavailable(
                f"isolation: got {self.isolation!r}, which does not start here, expected a worker that "
                f"loads torch within {START_SECONDS:.0f} seconds"
            ) from error
        if ready != {"end": "ready"}:
            raise IsolationUnavailable(f"isolation: got {ready!r} from the worker, expected that it is ready")

    def _read_line(self, seconds: float) -> dict[str, Any]:
        """Return the worker's next line; a TimeoutError if none comes in time, an OSError if it has ended."""
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            late = (
                time.monotonic() > deadline
            )  # this process may have been held up: look whether the reply is there
            if self._channel is None:
                raise TimeoutError("no reply")
            self._channel.settimeout(1.0)
            try:
                part = self._channel.recv(4096)
            except TimeoutError:
                if late:
                    raise
                continue
            if not part:
                raise OSError("the worker has ended")
            line += part
        reply = json.loads(line)
        if not isinstance(reply, dict) or "end" not in reply:
            raise ValueError("reply: no dict with an end")
        return reply


def _open_nameless_file(content: bytes) -> BinaryIO:
    """Open a file for a job or a report, where possible in memory: what answers do to it reaches no disk."""
    if hasattr(os, "memfd_create"):
        file: BinaryIO = os.fdopen(os.memfd_create("linattn"), "w+b")
    else:
        file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
    file.write(content)
    file.seek(0)
    return file


def _read_report(number: int) -> bytes:
    """Return what was written to a report; b"" if it cannot be read, whatever was done to it."""
    try:
        return os.pread(number, MAX_REPORT, 0)
    except OSError:
        return b""


def _load_line(line: bytes) -> Any:
    """Return what JSON reads in a line of a report, if no more begins in it than ``encode`` can make.

    Small lists take fifty times as much memory as their brackets do in a report.
    """
    if line.count(b"[") + line.count(b"{") > MAX_BRACKETS:
        raise ValueError(f"report: expected at most {MAX_BRACKETS:,} brackets in a line")
    return json.loads(line)


def _is_whole(report: bytes) -> bool:
    """Return whether a report may have been written to its end."""
    return report.endswith((b"}", b"\n"))


def _require_space(reports: Sequence[int]) -> None:
    """Raise a ``MachineFault`` if there was no room for the reports that are open as these numbers."""
    if hasattr(os, "fstatvfs"):
        found = os.fstatvfs(reports[0])
        taken = sum(os.fstat(number).st_size for number in reports)  # by this answer itself
        if found.f_blocks and found.f_bavail * found.f_frsize + taken < MAX_REPORT:
            raise MachineFault(f"too little space is left for reports in {tempfile.gettempdir()}")


def _explain(end: str, limits: Limits) -> str:
    """Return in words how a job ended that was not done; the ends are those of ``_run_job``."""
    reasons = {
        "cpu": f"Stopped after {limits.cpu} seconds of processor time: too slow, or a loop without end.",
        "wall": f"Stopped after {limits.wall} seconds: it waits for something, or loops without end.",
        "died": "The process that ran the answer ended before it reported; it was ended from inside, or "
        f"ran out of its {limits.memory // 10**6:,} MB of memory.",
        "memory": "Stopped: its processes together took more than "
        f"{2 * limits.memory // 10**6:,} MB of memory.",
        "files": f"Stopped: it made more than {MAX_FILES:,} files.",
        "lost": "The answer ended the process that runs answers.",
    }
    return reasons.get(end, "The answer could not be run.")


def _make_stopped(text: str) -> Outcome:
    """Return the outcome of a call that was never finished."""
    return {"error": "Stopped", "text": text, "line": ""}


# --- the isolation that works here --------------------------------------------------------------------------


@cache
def isolation_works(isolation: str) -> bool:
    """Return whether an answer can be run here in this way; tried once in each process."""
    if isolation == "process":
        return hasattr(os, "fork")
    if not shutil.which("bwrap"):
        return False
    try:
        with Sandbox("bubblewrap", Limits()) as sandbox:
            found = sandbox.run([("x = 1 + 1", True)], [Call("x")])
        return found == [{"value": 2}]
    except IsolationUnavailable:
        return False


def choose_isolation(isolation: str) -> str:
    """Return the isolation to use, which is the one that is asked for, if it works.

    Args:
        isolation: "bubblewrap" (no network, no files but Python's), or "process" (limited in time and memory
            alone: an answer can read and change what you can, marks included).

    Raises:
        ValueError: for another word.
        IsolationUnavailable: if what was asked for does not work here.
    """
    if isolation not in ISOLATIONS:
        raise ValueError(f"isolation: got {isolation!r}, expected one of {', '.join(ISOLATIONS)}")
    if not isolation_works("process"):
        raise IsolationUnavailable(
            "Grading needs Linux or macOS (on Windows: WSL), because answers run in forked processes."
        )
    if not isolation_works(isolation):
        raise IsolationUnavailable(
            "isolation: bubblewrap does not work here. Install bubblewrap and libseccomp2 on Linux, and "
            "allow user namespaces; or ask for `--isolation process` by name: marks are then not protected."
        )
    return isolation
