"""Talk to the process that runs answers: start it, as isolated as the machine allows, and send it jobs."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from linattn_exercises import plain
from linattn_exercises.judging import Outcome
from linattn_exercises.questions import Case, decoded

ISOLATIONS = ("auto", "bubblewrap", "process")
PACKAGE = Path(plain.__file__).parent
START_SECONDS = 120.0
SCRATCH = 64_000_000  # bytes a sandbox has for files


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


class Server:
    """A process that runs answers, started with the first job, and again if an answer brought it down."""

    def __init__(self, isolation: str, limits: Limits) -> None:
        self.isolation, self.limits = isolation, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._rest = b""

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def outcomes(self, cells: Sequence[tuple[str, bool]], cases: Sequence[Case]) -> list[Outcome]:
        """Run the cells, then call what every case calls; one outcome for each case, whatever happens."""
        calls = [
            [c.name, [plain.encode(one) for one in c.arguments], any(b for _, b in c.bounds())] for c in cases
        ]
        report = self._report(
            {"cells": [list(c) for c in cells], "calls": calls, "limits": asdict(self.limits)}
        )
        if report["end"] != "done":
            return [_stopped(self._reason(report["end"]))] * len(cases)
        try:
            found = [decoded(one) for one in json.loads(report["data"])["outcomes"]]
        except (ValueError, TypeError, KeyError, RecursionError, MemoryError):
            found = []
        if len(found) != len(cases):
            return [_stopped("The answer interfered with the report of its results.")] * len(cases)
        return found

    def stop(self) -> None:
        """End the process and all it started."""
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
        if self._folder:
            self._folder.cleanup()
        self._process, self._folder, self._rest = None, None, b""

    def _reason(self, end: str) -> str:
        limits = self.limits
        reasons = {
            "cpu": f"Stopped after {limits.cpu} seconds of processor time: a loop without end?",
            "wall": f"Stopped after {limits.wall} seconds: it waits for something, or loops without end.",
            "size": "Stopped: it returned too much data.",
            "died": "The process that ran the answer ended before it reported; it was ended from inside, or "
            f"ran out of its {limits.memory // 10**6:,} MB of memory.",
            "lost": "The answer ended the process that runs answers.",
        }
        return reasons.get(end, "The answer could not be run.")

    def _report(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._process is None:
                self._start()
            _, stdin, _ = self._started()
            stdin.write(json.dumps(job).encode() + b"\n")
            stdin.flush()
            return self._line(time.monotonic() + self.limits.wall + 15)
        except (OSError, ValueError, TimeoutError):
            self.stop()
            return {"end": "lost"}

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="linattn-")
        os.chmod(self._folder.name, 0o700)
        self._process = subprocess.Popen(
            command(self.isolation),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(self._folder.name),
            cwd=self._folder.name,
            start_new_session=True,
        )
        try:
            ready = self._line(time.monotonic() + START_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            self.stop()
            raise NoIsolation(f"isolation: {self.isolation!r} does not start here") from error
        if ready != {"end": "ready"}:
            raise NoIsolation(f"isolation: got {ready!r} from the server, expected that it is ready")

    def _started(self) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise OSError("the server is not running")
        return process, process.stdin, process.stdout

    def _line(self, deadline: float) -> dict[str, Any]:
        """The next line from the server; TimeoutError after the deadline, OSError if it has ended."""
        _, _, stdout = self._started()
        pipe = stdout.fileno()
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise TimeoutError("no report")
            if not (part := os.read(pipe, 1 << 20)):
                raise OSError("the server has ended")
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        report = json.loads(line)
        if not isinstance(report, dict) or "end" not in report:
            raise ValueError("report: no dict with an end")
        return report


def _stopped(text: str) -> Outcome:
    return {"error": "Stopped", "text": text, "line": ""}


def _environment(folder: str) -> dict[str, str]:
    """All that an answer may know about the machine it runs on."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    place = {"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "LANG": "C.UTF-8"}
    return {**threads, **place, "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}


# --- isolation ----------------------------------------------------------------------------------------------


def command(isolation: str) -> list[str]:
    """The command that starts the server; where packages lie is told, as the server sees no user's site."""
    script = Path(plain.__file__)
    if isolation == "process":
        return [sys.executable, "-I", str(script), *_packages()]
    inside = "/grader/plain.py"
    words = [*_bubblewrap(), "--ro-bind", str(script), inside, "--chdir", "/tmp"]
    return [*words, "--", sys.executable, "-I", inside, *_packages()]


def _bubblewrap() -> list[str]:
    """No network, no other processes, no files but Python and what it imports, all of that read-only."""
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    words += ["--clearenv", "--cap-drop", "ALL"]
    for path in _needed():
        words += ["--ro-bind", path, path]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):
        words += ["--size", str(SCRATCH), "--tmpfs", path]
    if any(PACKAGE.is_relative_to(path) for path in _needed()):
        words += ["--tmpfs", str(PACKAGE)]  # installed where Python looks: hidden again
    for name, value in {**_environment("/tmp"), "LINATTN_SANDBOX": "1"}.items():
        words += ["--setenv", name, value]
    return words


def _packages() -> list[str]:
    """The folders of installed packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _needed() -> list[str]:
    """What Python needs to start and to import torch and linattn_ref, as far as it exists."""
    system = ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives"]
    homes = [sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parent.parent]
    ours = find_spec("linattn_ref")
    package = [Path(ours.origin).parent] if ours and ours.origin else []
    every = map(str, (*system, *homes, *_packages(), *package))
    return list(dict.fromkeys(path for path in every if os.path.exists(path)))


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
