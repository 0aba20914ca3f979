"""Run answers in a process of its own: ``python -I sandbox_worker.py SERIALIZATION PROCESSES SITE...``.

The first two arguments are the paths of serialization.py and processes.py, the others are folders of
installed packages. The worker imports nothing else of ours, so it can stand alone in a sandbox. (The grader
imports this file too, as a module, for ``strip_magics``.)

It loads torch once, and forks a child for each question. It never reads what an answer gets or gives, since a
child inherits its memory. Over the socket that is its standard input come a line and two open files, and a
line goes back:

* the line: ``{"id": n, "wall": seconds}``; back: ``{"id": n, "end": how the child ended}``;
* the first file, the job: ``{"cells": [[source, own], ...], "calls": [[name, arguments, counted], ...]}``,
  the limits, and ``definitions_only``; ``own`` says whether a cell belongs to the question;
* the second file, for the child's report: ``{"outcomes": [...]}``, one for each call.

What an answer does to this process it does to all answers after it. So this process ends, to be started anew,
when its limits or priorities are not what they were.
"""

import ast
import asyncio
import contextlib
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
import sys
import tempfile
import time
import types
from typing import Any

if __package__:
    from linattn_exercises import serialization
    from linattn_exercises.grading import processes
else:  # a script: -I leaves out a user's own packages, and this folder; the grader says where things are

    def _load(path: str) -> types.ModuleType:
        """Import a file by its path."""
        spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    sys.path += [path for path in sys.argv[3:] if path not in sys.path]
    serialization, processes = map(_load, sys.argv[1:3])

HIDDEN_PACKAGE = "linattn_exercises"  # not available to an answer while it is graded
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)

# --- the cells of a notebook ----------------------------------------------------------------------------


def strip_magics(source: str) -> str:
    """Return the source without what only a notebook understands, such as %pip, !ls, x = %timeit and f?."""
    try:
        compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        first, _, rest = source.lstrip().partition("\n")
        if first.startswith("%%"):
            timed = re.match(r"%%(time|timeit|capture|prun)\b", first)
            return strip_magics(rest) if timed else ""
        return re.sub(r"(?m)^([ \t]*)(?:[%!?].*|\w+ *= *[%!].*|[\w.]+\?+ *)$", r"\1pass", source)


def run_cells(
    cells: list[list[Any]], definitions_only: bool = False
) -> tuple[types.ModuleType, Any, dict[str, Any]]:
    """Run cells one after the other; some may fail.

    Args:
        cells: source, and whether the cell belongs to the question.
        definitions_only: run imports, definitions and assignments only.

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
            run_cell(module, f"<answer {number}>", strip_magics(source), definitions_only, functions)
        except BaseException as error:
            if own and first is None:
                first = serialization.describe_exception(error)
    return module, first, functions


def run_cell(
    module: types.ModuleType, name: str, source: str, definitions_only: bool, functions: dict[str, Any]
) -> None:
    """Run a cell, statement by statement: a name or module that is missing must not take the rest with it."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    missing: Exception | None = None
    for statement in compile(source, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT).body:
        if definitions_only and not isinstance(statement, DEFINITIONS):
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
    """Accept every call and every attribute, and do nothing."""

    def __call__(self, *_: Any, **__: Any) -> "Anything":
        return self

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class SilentModule(types.ModuleType):
    """Stand for our checks while an answer is graded: whatever the answer calls does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class SilentImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import ``linattn_exercises`` and all below it as silent modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != HIDDEN_PACKAGE:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return SilentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def run_calls(job: dict[str, Any]) -> dict[str, Any]:
    """Run the cells of a job, then its calls, and return the report.

    A name that was a function and is none any more, where a function is called for, is that function again.
    """
    sys.meta_path.insert(0, SilentImporter())
    module, broken, functions = run_cells(job["cells"], job.get("definitions_only", False))
    outcomes = []
    for name, arguments, counted in job["calls"]:
        found = vars(module)
        if arguments and not callable(found.get(name)) and name in functions:
            found = found | {name: functions[name]}
        if name not in found and broken is not None:
            outcomes.append(broken | {"missing": name})
        else:
            outcomes.append(serialization.call_answer(found, name, arguments, counted))
    return {"outcomes": outcomes}


# --- a child --------------------------------------------------------------------------------------------


def run_child(job_file: int, report: int, folder: str) -> None:
    """Do everything between fork and exit: read the job, give up what is open, run the answer, report."""
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
        processes.limit_resources(job["limits"])
        text = dump(run_calls(job)).encode()
        while text:
            text = text[write(3, text) :]
    finally:
        leave(0)


# --- the worker -----------------------------------------------------------------------------------------


def run_job(job_file: int, report: int, wall: float) -> str:
    """Fork a child for a job, wait, clean up, and return how it ended: "done", "cpu", "wall" or "died"."""
    folder = tempfile.mkdtemp(prefix="answer-")
    pid = os.fork()
    if pid == 0:
        run_child(job_file, report, folder)
    status = processes.wait_for_child(pid, time.monotonic() + wall)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    late = status is None
    if status is None:
        _, status = os.waitpid(pid, 0)
    processes.reap_orphans()
    processes.remove_folder(folder)
    if late:
        return "wall"
    if not os.WIFSIGNALED(status):
        return "done" if os.fstat(report).st_size else "died"
    return "cpu" if os.WTERMSIG(status) == signal.SIGXCPU else "died"


def warm_up() -> None:
    """Import what answers import, and touch torch once, on one thread, so that a fork finds it ready."""
    import torch

    torch.set_num_threads(1)
    torch.zeros(2, 2).softmax(-1)
    with contextlib.suppress(ImportError):
        import linattn_ref.ops  # noqa: F401
    with serialization.OperationCounter():
        torch.zeros(1)


def main() -> None:
    """Serve jobs until input ends. Children cannot read us, and what they leave behind comes to us."""
    processes.set_process_control(processes.PR_SET_DUMPABLE, 0)
    processes.set_process_control(processes.PR_SET_CHILD_SUBREAPER, 1)
    warm_up()
    channel = socket.socket(fileno=os.dup(0))
    before = processes.record_condition()
    channel.sendall(b'{"end": "ready"}\n')
    while processes.record_condition() == before:
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
