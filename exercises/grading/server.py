"""Talk to the process that runs answers: start it, as isolated as the machine allows, and send it jobs."""

import contextlib
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


class Closed(RuntimeError):
    """The run was stopped; what this server was asked has no answer."""


class Server:
    """A process that runs the answers of one submission. It is started with the first job.

    If an answer brings it down it is started again, until it is closed.
    """

    def __init__(self, isolation: str, limits: Limits) -> None:
        self.isolation, self.limits = isolation, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._rest = b""
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
        calls = [
            [c.name, [plain.encode(one) for one in c.arguments], any(b for _, b in c.bounds())] for c in cases
        ]
        job = {"cells": [list(c) for c in cells], "calls": calls, "limits": asdict(self.limits)}
        report = self._report(job | {"definitions": definitions})
        if report["end"] in ("lost", "died"):  # may have been the machine: once more
            report = self._report(job | {"definitions": definitions})
        if report["end"] != "done":
            return [_stopped(self._reason(report["end"]))] * len(cases)
        try:
            found = [decoded(one) for one in json.loads(report["data"])["outcomes"]]
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
        process, folder = self._process, self._folder
        self._process, self._folder, self._rest = None, "", b""
        if process:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, AttributeError):
                    pipe.close()  # type: ignore[union-attr]
        if folder:
            for words in (["chmod", "-R", "u+rwX", folder], ["rm", "-rf", folder]):
                with contextlib.suppress(OSError):
                    subprocess.run(words, stderr=subprocess.DEVNULL, check=False)

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
            if self._rest:
                raise ValueError("report: the process says more than it was asked")
            _, stdin, _ = self._started()
            self._jobs += 1
            stdin.write(json.dumps(job | {"id": self._jobs}).encode() + b"\n")
            stdin.flush()
            report = self._line(time.monotonic() + self.limits.wall + 15)
            if report.get("id") != self._jobs or self._rest:
                raise ValueError("report: not the one that was asked for")
            return report
        except (OSError, ValueError, TimeoutError):
            self._stop()
            if self._closed:
                raise Closed("the run was stopped") from None
            return {"end": "lost"}

    def _start(self) -> None:
        if self._closed:
            raise Closed("the run was stopped")
        self._folder = tempfile.mkdtemp(prefix="linattn-")
        self._process = subprocess.Popen(
            command(self.isolation),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(self._folder),
            cwd=self._folder,
            start_new_session=True,
        )
        try:
            ready = self._line(time.monotonic() + START_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            self._stop()
            if self._closed:
                raise Closed("the run was stopped") from None
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
            if left <= 0 or not select.select([pipe], [], [], min(left, 1.0))[0]:
                if left <= 0 or self._closed:
                    raise TimeoutError("no report")
                continue
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
    quiet = {"MPLBACKEND": "Agg", "PLOTLY_RENDERER": "json", "LINATTN_STATIC": "1"}
    return {**threads, **place, **quiet, "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}


# --- isolation ----------------------------------------------------------------------------------------------


def command(isolation: str) -> list[str]:
    """The command that starts the server; where packages lie is told, as the server sees no user's site."""
    scripts = PACKAGE / "grading" / "answers.py", PACKAGE / "plain.py"
    if isolation == "process":
        return [sys.executable, "-I", *map(str, scripts), *_packages()]
    inside = [f"/grader/{script.name}" for script in scripts]
    return [
        *_bubblewrap(dict(zip(scripts, inside, strict=True))),
        "--",
        sys.executable,
        "-I",
        *inside,
        *_packages(),
    ]


def _bubblewrap(scripts: dict[Path, str]) -> list[str]:
    """No network, no other processes, no files but Python and what it imports, all of that read-only.

    The server is process 1: no process of the sandbox can then read it or end it.
    """
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    words += ["--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):
        words += ["--size", str(SCRATCH), "--tmpfs", path]
    for path in _needed():
        words += ["--ro-bind", path, path]
    if any(PACKAGE.is_relative_to(path) for path in _needed()):
        words += ["--tmpfs", str(PACKAGE), "--remount-ro", str(PACKAGE)]  # installed where Python looks
    for script, inside in scripts.items():
        words += ["--ro-bind", str(script), inside]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in {**_environment("/tmp"), "LINATTN_SANDBOX": "1"}.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", "/tmp"]


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
