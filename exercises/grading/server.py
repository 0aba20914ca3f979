"""Talk to the process that runs answers: start it, as isolated as the machine allows, and send it jobs."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from types import TracebackType
from typing import Any

from linattn_exercises import plain
from linattn_exercises.cases import Case, decoded
from linattn_exercises.grading.isolation import ISOLATIONS, command, environment
from linattn_exercises.judging import Outcome

START_SECONDS = 120.0


class NoIsolation(RuntimeError):
    """Answers cannot be run here in the way that was asked for."""


@dataclass(frozen=True)
class Limits:
    """What one question of one submission may use."""

    cpu: int = 5  # seconds of processor time
    wall: int = 15  # seconds on the clock
    memory: int = 1_000_000_000  # bytes beyond what torch takes
    file: int = 10_000_000  # bytes of a file
    processes: int = 64


class Closed(RuntimeError):
    """The run was stopped; what this server was asked has no answer."""


class Server:
    """A process that runs answers, started with the first job and again after it ended, until it is closed.

    For each question it gets two open files: one with the job, and an empty one for the report. Nothing of
    one answer is in its memory when it forks for the next.
    """

    def __init__(self, isolation: str, limits: Limits) -> None:
        self.isolation, self.limits = isolation, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._channel: socket.socket | None = None
        self._jobs = 0
        self._closed = False

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def outcomes(
        self, cells: Sequence[tuple[str, bool]], cases: Sequence[Case], definitions: bool = False
    ) -> list[Outcome]:
        """Run the cells, then call what every case calls; one outcome for each case, whatever happens.

        With ``definitions`` only imports, definitions and assignments of the cells are run.
        """
        watched = [any(bound for _, bound in case.bounds()) for case in cases]
        arguments = [[plain.encode(one) for one in case.arguments] for case in cases]
        job = {
            "cells": [list(cell) for cell in cells],
            "calls": [[c.name, *more] for c, *more in zip(cases, arguments, watched, strict=True)],
            "definitions": definitions,
            "limits": asdict(self.limits),
        }
        end, data = self._run(job)
        if end in ("lost", "died"):  # may have been the machine: once more
            end, data = self._run(job)
        if end != "done":
            return [_stopped(self._reason(end))] * len(cases)
        try:
            found = [decoded(one) for one in json.loads(data)["outcomes"]]
        except (ValueError, TypeError, KeyError, RecursionError, MemoryError):
            found = []
        if len(found) != len(cases):
            return [_stopped("The answer interfered with the report of its results.")] * len(cases)
        return found

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

    def _reason(self, end: str) -> str:
        limits = self.limits
        reasons = {
            "cpu": f"Stopped after {limits.cpu} seconds of processor time: a loop without end?",
            "wall": f"Stopped after {limits.wall} seconds: it waits for something, or loops without end.",
            "died": "The process that ran the answer ended before it reported; it was ended from inside, or "
            f"ran out of its {limits.memory // 10**6:,} MB of memory.",
            "lost": "The answer ended the process that runs answers.",
        }
        return reasons.get(end, "The answer could not be run.")

    def _run(self, job: dict[str, Any]) -> tuple[str, bytes]:
        """Send a job; how it ended, and what its process wrote."""
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as report:
            asked.write(json.dumps(job).encode())
            asked.flush()
            asked.seek(0)
            try:
                end = self._ended([asked.fileno(), report.fileno()])
            except (OSError, ValueError, TimeoutError):
                self._stop()
                if self._closed:
                    raise Closed("the run was stopped") from None
                end = "lost"
            return end, os.pread(report.fileno(), self.limits.file + 1, 0)

    def _ended(self, files: list[int]) -> str:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._start()
        assert self._channel is not None
        self._jobs += 1
        line = json.dumps({"id": self._jobs, "wall": self.limits.wall}).encode()
        socket.send_fds(self._channel, [line], files)
        reply = self._line(self.limits.wall + 15)
        if reply.get("id") != self._jobs:
            raise ValueError("reply: not to what was asked")
        return str(reply["end"])

    def _start(self) -> None:
        if self._closed:
            raise Closed("the run was stopped")
        self._folder = tempfile.mkdtemp(prefix="linattn-")
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                command(self.isolation),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(self._folder),
                cwd=self._folder,
                start_new_session=True,
            )
        try:
            ready = self._line(START_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            self._stop()
            if self._closed:
                raise Closed("the run was stopped") from None
            raise NoIsolation(f"isolation: {self.isolation!r} does not start here") from error
        if ready != {"end": "ready"}:
            raise NoIsolation(f"isolation: got {ready!r} from the server, expected that it is ready")

    def _line(self, seconds: float) -> dict[str, Any]:
        """The next line from the server; TimeoutError if none comes in time, OSError if it has ended."""
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            if self._channel is None or time.monotonic() > deadline:
                raise TimeoutError("no reply")
            self._channel.settimeout(1.0)
            try:
                part = self._channel.recv(4096)
            except TimeoutError:
                continue
            if not part:
                raise OSError("the server has ended")
            line += part
        reply = json.loads(line)
        if not isinstance(reply, dict) or "end" not in reply:
            raise ValueError("reply: no dict with an end")
        return reply


def _stopped(text: str) -> Outcome:
    return {"error": "Stopped", "text": text, "line": ""}


# --- the isolation that works here --------------------------------------------------------------------------


@cache
def works(isolation: str) -> bool:
    """Whether an answer can be run here in this way."""
    if isolation == "process":
        return hasattr(os, "fork")
    if not shutil.which("bwrap"):
        return False
    try:
        with Server("bubblewrap", Limits()) as server:
            found = server.outcomes([("x = 1 + 1", True)], [Case("x")])
        return found == [{"value": 2, "entries": 0, "operations": 0}]
    except NoIsolation:
        return False


def chosen(isolation: str) -> str:
    """The isolation to use; "auto" is bubblewrap where it works. NoIsolation if what was asked for fails."""
    if isolation not in ISOLATIONS:
        raise ValueError(f"isolation: got {isolation!r}, expected one of {', '.join(ISOLATIONS)}")
    if not works("process"):
        raise NoIsolation(
            "Grading needs Linux or macOS (on Windows: WSL), because answers run in forked processes."
        )
    if isolation == "auto":
        return "bubblewrap" if works("bubblewrap") else "process"
    if not works(isolation):
        raise NoIsolation(
            "isolation: bubblewrap does not work here: install bwrap, and allow user namespaces."
        )
    return isolation
