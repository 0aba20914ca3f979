"""The process that runs answers: ``python -I answers.py PLAIN SITE...``, with the path of plain.py.

It loads torch once, and forks a child for each question. It imports nothing of ours but plain.py, so it can
stand alone in a sandbox. It never reads what an answer gets or gives, since a child inherits its memory. Over
the socket that is its standard input come a line and two open files, and a line goes back:

* the line: ``{"id": n, "wall": seconds}``; back: ``{"id": n, "end": how the child ended}``;
* the first file, the job: ``{"cells": [[source, own], ...], "calls": [[name, arguments, watched], ...]}``,
  and the limits; ``own`` says whether a cell belongs to the question;
* the second file, for the child's report: ``{"outcomes": [...]}``, one for each call.

What an answer does to this process it does to all answers after it. So this process ends, to be started anew,
when its limits or priorities are not what they were.
"""

import ast
import asyncio
import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import linecache
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from typing import Any

if __package__:
    from linattn_exercises import plain
else:  # a script: -I leaves out a user's own packages, and this folder; the grader says where things are
    sys.path += [path for path in sys.argv[2:] if path not in sys.path]
    _spec = importlib.util.spec_from_file_location("plain", sys.argv[1])
    assert _spec is not None and _spec.loader is not None  # noqa: PT018
    plain = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(plain)

SANDBOXED = bool(os.environ.get("LINATTN_SANDBOX"))  # set by the grader, in a process namespace of our own
SCRATCH = ("/scratch", "/dev/shm")  # all that can be written to in a sandbox; nothing else may lie in there
COMMON = "linattn_exercises"  # not available to an answer while it is marked
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)

# --- the cells of a notebook ----------------------------------------------------------------------------


def without_magics(source: str) -> str:
    """The source with what only a notebook understands (%pip, !ls, x = %timeit, f?) made empty statements."""
    try:
        compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        first, _, rest = source.lstrip().partition("\n")
        if first.startswith("%%"):
            timed = re.match(r"%%(time|timeit|capture|prun)\b", first)
            return without_magics(rest) if timed else ""
        return re.sub(r"(?m)^([ \t]*)(?:[%!?].*|\w+ *= *[%!].*|[\w.]+\?+ *)$", r"\1pass", source)


def run_cells(
    cells: list[list[Any]], definitions: bool = False
) -> tuple[types.ModuleType, Any, dict[str, Any]]:
    """Run cells one after the other; some may fail.

    Args:
        definitions: run imports, definitions and assignments only.

    Returns:
        The module they fill, the first failure of a cell of the question, and the functions they defined, of
        each name the last.
    """
    module = types.ModuleType("__main__")
    vars(module).update(display=lambda *_, **__: None, get_ipython=lambda: Anything())
    sys.modules["__main__"] = module  # where pickle looks for the functions of a notebook
    first: dict[str, Any] | None = None
    functions: dict[str, Any] = {}
    for number, (source, own) in enumerate(cells):
        try:
            run_cell(module, f"<answer {number}>", without_magics(source), definitions, functions)
        except BaseException as error:
            if own and first is None:
                first = plain.failure(error)
    return module, first, functions


def run_cell(
    module: types.ModuleType, name: str, source: str, definitions: bool, functions: dict[str, Any]
) -> None:
    """Run a cell, statement by statement: a name or module that is missing must not take the rest with it."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    missing: Exception | None = None
    for statement in compile(source, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT).body:
        if definitions and not isinstance(statement, DEFINITIONS):
            continue
        part = ast.Module([statement], [])
        code = compile(part, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            result = eval(code, vars(module))
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(result)
        except (ModuleNotFoundError, NameError) as error:
            missing = missing or error
        functions |= {key: value for key, value in vars(module).items() if inspect.isfunction(value)}
    if missing is not None:
        raise missing


class Anything:
    """Can be called, and has every attribute; nothing happens."""

    def __call__(self, *_: Any, **__: Any) -> "Anything":
        return self

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Silent(types.ModuleType):
    """Our checks, as an answer sees them while it is marked: whatever it calls does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class SilentChecks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports ``linattn_exercises`` and all below it as silent modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != COMMON:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return Silent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def answer_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run the cells of a job, then its calls.

    A name that was a function and is none any more, where a function is called for, is that function again.
    """
    sys.meta_path.insert(0, SilentChecks())
    module, broken, functions = run_cells(job["cells"], job.get("definitions", False))
    outcomes = []
    for name, arguments, watched in job["calls"]:
        found = vars(module)
        if arguments and not callable(found.get(name)) and name in functions:
            found = found | {name: functions[name]}
        if name not in found and broken is not None:
            outcomes.append(broken | {"missing": name})
        else:
            outcomes.append(plain.call(found, name, arguments, watched))
    return {"outcomes": outcomes}


# --- a child --------------------------------------------------------------------------------------------


def child(job_file: int, report: int, folder: str) -> None:
    """Everything between fork and exit: read the job, shut the doors, run, report."""
    write, dump, leave = os.write, json.dumps, os._exit  # before the answer can replace them
    try:
        with os.fdopen(job_file) as file:
            job = json.load(file)
        os.setsid()
        os.chdir(folder)
        os.environ.update(HOME=folder, TMPDIR=folder)
        tempfile.tempdir = folder
        os.dup2(report, 3)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.closerange(4, 4096)
        limit_resources(job["limits"])
        text = dump(answer_job(job)).encode()
        while text:
            text = text[write(3, text) :]
    finally:
        leave(0)


def limit_resources(limits: dict[str, int]) -> None:
    """Processor seconds, bytes of new memory, bytes of a file, files, processes; no core dumps."""
    import resource  # not on Windows, where this module can be imported all the same

    bounds = {
        resource.RLIMIT_CPU: (limits["cpu"], limits["cpu"] + 1),  # a signal, then the end
        resource.RLIMIT_AS: (address_space() + limits["memory"],) * 2,
        resource.RLIMIT_FSIZE: (limits["file"],) * 2,
        resource.RLIMIT_NOFILE: (64, 64),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (tasks_of_user() + limits["processes"],) * 2,
    }
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows some only by name
            resource.setrlimit(kind, bound)
    control(PR_SET_PDEATHSIG, signal.SIGKILL)


def address_space() -> int:
    """Bytes of address space of this process now; torch alone maps gigabytes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 40


def tasks_of_user() -> int:
    """Threads of all processes of this user: what the limit on processes counts."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


# --- the server -----------------------------------------------------------------------------------------


def run_job(job_file: int, report: int, wall: float) -> str:
    """Fork, wait, clean up. How it ended: "done", "cpu", "wall" or "died"."""
    folder = tempfile.mkdtemp(prefix="answer-")
    pid = os.fork()
    if pid == 0:
        child(job_file, report, folder)
    status = awaited(pid, time.monotonic() + wall)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    late = status is None
    if status is None:
        _, status = os.waitpid(pid, 0)
    reap_orphans()
    remove(folder)
    if late:
        return "wall"
    if not os.WIFSIGNALED(status):
        return "done" if os.fstat(report).st_size else "died"
    return "cpu" if os.WTERMSIG(status) == signal.SIGXCPU else "died"


def awaited(pid: int, deadline: float) -> int | None:
    """The status of a child when it has ended, or None at the deadline."""
    pause = 0.001
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return None


def reap_orphans() -> None:
    """Kill what the answer started and left behind. Its processes become ours when their parents end."""
    if SANDBOXED:  # all processes we can see are of the answer
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        for pid in children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def children() -> Iterator[int]:
    """The processes whose parent we are."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        yield from map(int, file.read().split())


def remove(folder: str) -> None:
    """Remove the folder of an answer, whatever it holds; in a sandbox all that can be written to."""
    folders = [folder]
    if SANDBOXED:
        folders = [entry.path for top in SCRATCH for entry in os.scandir(top)]
    left = []
    for path in folders:
        try:
            os.rmdir(path)
        except OSError:
            left.append(path)
    for words in (
        ["rm", "-rf"],
        ["chmod", "-R", "u+rwX"],
        ["rm", "-rf"],
    ):  # modes only where they are in the way
        left = [path for path in left if os.path.lexists(path)]
        if left:
            with contextlib.suppress(OSError):
                subprocess.run([*words, "--", *left], stderr=subprocess.DEVNULL, check=False)


def condition() -> list[Any]:
    """What an answer could change of this process, and of all that come after it."""
    import resource

    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    found: list[Any] = [resource.getrlimit(kind) for kind in kinds]
    found.append(os.getpriority(os.PRIO_PROCESS, 0))
    if sys.platform == "linux":
        found += [os.sched_getaffinity(0), os.sched_getscheduler(0)]
    for name in ("shm", "sem", "msg") if SANDBOXED else ():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{name}") as file:
            found.append(len(file.readlines()))
    return found


PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36


def control(what: int, value: int) -> None:
    """Linux's prctl; elsewhere nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def warm_up() -> None:
    """Import what answers import, and touch torch once, on one thread, so that a fork finds it ready."""
    import torch

    torch.set_num_threads(1)
    torch.zeros(2, 2).softmax(-1)
    with contextlib.suppress(ImportError):
        import linattn_ref.ops  # noqa: F401
    with plain.Watch():
        torch.zeros(1)


def main() -> None:
    """Serve jobs until input ends. Children cannot read us, and what they leave behind comes to us."""
    control(PR_SET_DUMPABLE, 0)
    control(PR_SET_CHILD_SUBREAPER, 1)
    warm_up()
    channel = socket.socket(fileno=os.dup(0))
    before = condition()
    channel.sendall(b'{"end": "ready"}\n')
    while condition() == before:
        line, files, _, _ = socket.recv_fds(channel, 4096, 2)
        if not line:
            return
        asked = json.loads(line)
        job_file, report = files
        end = run_job(job_file, report, asked["wall"])
        os.close(job_file)
        os.close(report)
        channel.sendall(json.dumps({"id": asked["id"], "end": end}).encode() + b"\n")


if __name__ == "__main__":
    main()
