"""Run answers in a process of its own.

``python -I sandbox_worker.py MODULE.py... SITE...``: the first arguments are paths of modules of ours that
the worker needs, in the order in which they are loaded, the others are folders of installed packages. The
worker imports nothing else of ours, so it can stand alone in a sandbox.

It loads torch once, and forks a child for each job. It never reads what an answer gets or gives, since a
child inherits its memory. Over the socket that is its standard input come a line and open files, and a line
goes back:

* the line: ``{"id": n, "kind": kind, "wall": seconds, "memory": bytes}``; back: ``{"id": n, "end": how the
  child ended}``;
* the first file, the job; the second, for the child's report.

There are two kinds of jobs:

* "run" an answer: ``{"cells": [[source, own], ...], "calls": [[name, arguments], ...]}``, the limits, and
  ``hurried``; ``own`` says whether a cell belongs to the question. The report has a line for each call, its
  outcome. Where operations are watched, arguments are None; two more files then are job
  and report of another child, the keeper (see watch.py): ``{"calls": [arguments, ...]}``, and a line
  ``[number, outcome]`` for each call that ended.
* "read" a notebook, the third file: ``{"names": ..., "default_set": ...}``, see reading.py.

What an answer does to this process it does to all answers after it. So this process ends, to be started anew,
when its limits or priorities are not what they were.
"""

import ast
import asyncio
import codeop
import contextlib
import errno
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import linecache
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

if __package__:
    from linattn_exercises import launches, serialization, watch
    from linattn_exercises.grading import processes, reading
else:  # a script: -I leaves out a user's own packages, and this folder; the grader says where things are

    def _load(path: str) -> types.ModuleType:
        """Import a file by its path."""
        name = os.path.basename(path).removesuffix(".py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    _scripts = [path for path in sys.argv[1:] if path.endswith(".py")]
    sys.path += [path for path in sys.argv[1:] if path not in (*_scripts, *sys.path)]
    _loaded = dict(zip(map(os.path.basename, _scripts), map(_load, _scripts), strict=True))
    serialization, launches, watch, reading, processes = (
        _loaded[f"{_name}.py"] for _name in ("serialization", "launches", "watch", "reading", "processes")
    )

HIDDEN_PACKAGE = "linattn_exercises"  # not available to an answer while it is graded
FAILED = 75  # the exit status of a keeper that could not write its notes
LARGE_SHARES = 2  # of the time that is left, one for each import and each class
SHARES = 5  # one for each assignment
SMALL_SHARES = 20  # one for each loop and each call by itself, which are more often experiments
FOR_CELLS = 0.5  # of the time of an attempt; the rest is kept for the calls, however many statements are slow

# --- the cells of a notebook ----------------------------------------------------------------------------


def run_cells(
    cells: list[list[Any]], clock: "Clock | None" = None, wanted: Collection[str] = ()
) -> tuple[types.ModuleType, Any, dict[str, Any]]:
    """Run cells one after the other; some may fail.

    Args:
        cells: source, and whether the cell belongs to the question.
        clock: stops statements that take too long beside the others; default None.
        wanted: the names that are called afterwards; default none.

    Returns:
        The module they fill, the first failure of a cell of the question, and the functions that the wanted
        names have been, of each the last.
    """
    kernel = Kernel(clock, wanted, any("asyncio" in source for source, _ in cells))
    sys.modules["__main__"] = kernel.module  # where pickle looks for the functions of a notebook
    first: dict[str, Any] | None = None
    for number, (source, own) in enumerate(cells):
        try:
            failure = kernel.run_cell(f"<answer {number}>", reading.strip_magics(source))
        except BaseException as error:  # it does not compile
            failure = serialization.describe_exception(error)
        if own and first is None:
            first = failure
    return kernel.module, first, kernel.functions


class Kernel:
    """Run cells as the kernel of a notebook does.

    Its ``module`` is what they fill, its ``functions`` those that the wanted names have been, of each the
    last.

    Args:
        clock: stops statements that take too long beside the others, or None.
        wanted: the names that are called afterwards.
        has_loop: whether there is a loop of asyncio before a cell awaits something; it has open files.
    """

    def __init__(self, clock: "Clock | None", wanted: Collection[str], has_loop: bool) -> None:
        self.module = types.ModuleType("__main__")
        vars(self.module).update(display=lambda *_, **__: None, get_ipython=lambda: Anything())
        self.functions: dict[str, Any] = {}
        self._clock, self._wanted, self._has_loop = clock, wanted, has_loop
        # One for all cells, as what one has started another may wait for. It is not closed, which would wait
        # for all of that: the process ends with it.
        self._runner = asyncio.Runner()
        # As in IPython: what is imported from __future__ holds from then on.
        self._compiler = codeop.Compile()
        self._compiler.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def run_cell(self, name: str, source: str) -> dict[str, Any] | None:
        """Run a cell, statement by statement, and return its first failure.

        What works in a notebook may fail here, without a network, a screen, a GPU, a file that lies beside
        it, and must not take the rest of its cell with it.
        """
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        first: dict[str, Any] | None = None
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | self._compiler.flags, True)
        for statement in itertools.chain.from_iterable(map(split_import, tree.body)):
            code = self._compiler(ast.Module([statement], []), name, "exec")  # type: ignore[arg-type]  # a tree
            try:
                with self._clock.limit(find_shares(statement)) if self._clock else contextlib.nullcontext():
                    self._run_statement(code)
            except BaseException as error:
                # Described at once: an exception holds on to all that its frames hold.
                told = serialization.describe_exception(error)
                first = first or (told | {"error": "TimeoutError"} if isinstance(error, TooLong) else told)
                if not isinstance(error, Exception | TooLong):  # such as SystemExit
                    break
            found = {name: vars(self.module).get(name) for name in self._wanted}
            self.functions |= {name: value for name, value in found.items() if inspect.isfunction(value)}
        return first

    def _run_statement(self, code: types.CodeType) -> None:
        """Run a statement, and what it awaits.

        In IPython all run in a loop, where ``create_task`` works and ``asyncio.run`` does not. Here both
        work: a statement that misses the loop runs again where one is shown. What it starts goes on where a
        later one awaits.
        """
        if self._has_loop:
            asyncio.set_event_loop(self._runner.get_loop())
        try:
            result = eval(code, vars(self.module))
        except RuntimeError as error:
            if str(error) != "no running event loop":
                raise
            asyncio._set_running_loop(self._runner.get_loop())
            try:
                result = eval(code, vars(self.module))
            finally:
                asyncio._set_running_loop(None)
        if code.co_flags & inspect.CO_COROUTINE:
            self._runner.run(result)


def find_shares(statement: ast.stmt) -> int:
    """Return into how many parts the time that is left is divided, of which a statement gets one."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return LARGE_SHARES
    return SHARES if isinstance(statement, ast.Assign | ast.AnnAssign) else SMALL_SHARES


def split_import(statement: ast.stmt) -> list[ast.stmt]:
    """Return a statement, or for ``import a, b`` one for each module: the first may be missing here."""
    if not isinstance(statement, ast.Import):
        return [statement]
    return [ast.copy_location(ast.Import([alias]), statement) for alias in statement.names]


class TooLong(BaseException):
    """Say that a statement took too long; no ``Exception``, since code may pass over all of these."""


class Clock:
    """Share out the time of cells: each statement may take a part of what is left.

    Args:
        cpu: seconds of processor time.
        wall: seconds on the clock.
    """

    def __init__(self, cpu: float, wall: float) -> None:
        self._ends = {
            (signal.ITIMER_PROF, signal.SIGPROF, time.process_time): time.process_time() + cpu,
            (signal.ITIMER_REAL, signal.SIGALRM, time.monotonic): time.monotonic() + wall,
        }

    @contextlib.contextmanager
    def limit(self, shares: int) -> Iterator[None]:
        """Raise ``TooLong`` in the code within if it takes longer than one of the shares of what is left."""
        try:
            for (timer, number, tell), end in self._ends.items():
                signal.signal(number, self._stop)
                signal.setitimer(timer, max(0.01, (end - tell()) / shares))
            yield
        finally:
            for timer, _, _ in self._ends:
                signal.setitimer(timer, 0)

    def _stop(self, number: int, frame: object) -> None:
        for timer, _, _ in self._ends:  # or the other one goes off while this is on its way
            signal.setitimer(timer, 0)
        raise TooLong("it takes too long beside the answer")


class Anything:
    """Accept every call and every attribute, and do nothing; hold nothing, and be true."""

    def __call__(self, *_: Any, **__: Any) -> "Anything":
        return self

    __getitem__ = __add__ = __radd__ = __call__

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __format__(self, form: str) -> str:
        return ""


class SilentModule(types.ModuleType):
    """Stand for our checks while an answer is graded: whatever the answer calls does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class SilentImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a package and all below it as modules that do nothing, or refuse.

    Args:
        package: its name.
        make: makes a module from its name.
    """

    def __init__(self, package: str, make: Callable[[str], types.ModuleType]) -> None:
        self.package, self.make = package, make

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != self.package:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return self.make(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Refused:
    """Stand for a function of a library where own code is asked for: it can be imported, not called."""

    def __init__(self, library: str) -> None:
        self._library = library

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise PermissionError(watch.REFUSED.format(self._library))

    def __getattr__(self, name: str) -> "Refused":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class RefusedModule(types.ModuleType):
    """Stand for a library where own code is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Refused(self.__name__.split(".")[0])


def run_calls(job: dict[str, Any], ask: watch.Ask | None = None) -> dict[str, Any]:
    """Run the cells of a job, then its calls, and return the report.

    A name that was a function and is none any more, where a function is called for, is that function again.

    Args:
        job: see the head of this file.
        ask: sends requests to the keeper, if the calls are watched.
    """
    sys.meta_path.insert(0, SilentImporter(HIDDEN_PACKAGE, SilentModule))
    for library in watch.LIBRARIES if ask else ():
        sys.meta_path.insert(0, SilentImporter(library, RefusedModule))
    limits = job["limits"] if job.get("hurried") else {}
    clock = Clock(FOR_CELLS * limits["cpu"], FOR_CELLS * limits["wall"]) if limits else None
    keep_running()
    module, broken, functions = run_cells(job["cells"], clock, {name for name, _ in job["calls"]})
    import torch  # as it was warmed up

    torch.set_default_device(None)  # a student's GPU is not here
    link = watch.Link(ask) if ask else None
    outcomes = []
    for number, (name, arguments) in enumerate(job["calls"]):
        found = vars(module)
        if arguments != [] and not callable(found.get(name)) and name in functions:
            found = found | {name: functions[name]}
        if name not in found and broken is not None:
            outcomes.append(broken | {"missing": name})
        else:
            call = partial(link.call, number) if link else None
            outcome = serialization.call_answer(found, name, arguments, call)
            lacks = broken is not None and outcome.get("error") == "NameError"
            outcomes.append(outcome | {"cause": broken} if lacks else outcome)
    return {"outcomes": outcomes}


def keep_running() -> None:
    """Let what would end a notebook's kernel end a cell: in Colab, some restart it after an installation."""
    own, leave, kill = os.getpid(), os._exit, os.kill

    def stay(status: int = 0) -> NoReturn:
        if os.getpid() != own:  # a child of the answer
            leave(status)
        raise SystemExit(status)

    os._exit, os.abort = stay, stay
    os.kill = lambda pid, number: stay() if pid == own == os.getpid() else kill(pid, number)


# --- a child --------------------------------------------------------------------------------------------


def run_child(
    work: Callable[[dict[str, Any], int], Sequence[Any]],
    files: list[int],
    folder: str,
    ready: int,
    may_signal: bool,
) -> None:
    """Do everything between fork and exit: read the job, give up what is open, work, report.

    Args:
        work: is given the job and the report, and returns what is to be written there, each in a line.
        files: the job, the report, and what else stays open, as number 4.
        folder: where the child works.
        ready: is written to before the work begins: what fails before that is not the fault of an answer.
        may_signal: see ``processes.forbid_calls``.
    """
    write, dump, leave = (
        os.write,
        partial(json.dumps, ensure_ascii=False),
        os._exit,
    )  # before an answer can replace them
    try:
        with os.fdopen(os.dup(files[0])) as file:
            job = json.load(file)
        os.setsid()
        os.chdir(folder)
        os.environ.update(HOME=folder, TMPDIR=folder)
        tempfile.tempdir = folder
        null = os.open(os.devnull, os.O_RDWR)
        kept = [os.dup(number) for number in (null, null, null, *files[1:], ready)]  # none below those
        first = os.dup(null)
        if first < 64:
            os.closerange(first, 64)
        for place, number in enumerate(kept):
            os.dup2(number, place)
        os.closerange(len(kept), 4096)
        processes.limit_resources(job["limits"])
        if processes.SANDBOXED and "cells" in job:
            processes.hide_other_processes()
        if not processes.forbid_calls(may_signal) and processes.SANDBOXED:
            return
        os.write(len(kept) - 1, b"1")
        os.close(len(kept) - 1)
        result = work(job, 3)
        text = "".join([f"{dump(one)}\n" for one in result]).encode("utf-8", "surrogatepass")
        while text:
            text = text[write(3, text) :]
    finally:
        leave(0)


def run_answer(job: dict[str, Any], report: int, watched: bool) -> Sequence[Any]:
    """Run an answer, and return its outcomes; if it is watched, the keeper listens at number 4."""
    processes.set_process_control(processes.PR_SET_DUMPABLE, 1)  # the worker may measure its memory
    for generator in (random.seed, sys.modules["numpy"].random.seed, sys.modules["torch"].manual_seed):
        generator(0)  # every attempt draws the same: several attempts would be several guesses
    if not watched:
        return run_calls(job)["outcomes"]
    channel = socket.socket(fileno=4)

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        watch.send(channel, request)
        reply = watch.receive(channel)
        if reply is None:
            raise ConnectionError("the process that keeps the tensors has ended")
        return reply

    return run_calls(job, ask)["outcomes"]


def keep_tensors(job: dict[str, Any], report: int) -> Sequence[Any]:
    """Keep the tensors of an answer, and note the outcome of each call that has ended."""
    pause = processes.pause_others if processes.SANDBOXED else contextlib.nullcontext

    def note(number: int, outcome: dict[str, Any]) -> None:
        text = json.dumps([number, outcome]).encode() + b"\n"
        try:
            while text:
                text = text[os.write(report, text) :]
        except OSError as error:
            if error.errno != errno.EFBIG:  # that one is of what the answer has returned
                os._exit(FAILED)
            raise

    watch.serve(watch.Keeper(job["calls"]), socket.socket(fileno=4), note, pause)
    return ()


def read_notebook(job: dict[str, Any], report: int) -> Sequence[Any]:
    """Read the notebook that is open as number 4."""
    gc.disable()  # to look for circles in the tree of a large cell takes longer than to make it
    with os.fdopen(4, "rb") as file:
        try:
            return [{"read": reading.read_notebook(file.read(), job["names"], job["default_set"])}]
        except reading.UnreadableNotebook as error:
            return [{"unreadable": str(error)}]


# --- the worker -----------------------------------------------------------------------------------------


def run_job(kind: str, files: list[int], wall: float, memory: int) -> str:
    """Do a job in a child, clean up, and return how it ended.

    The ends are "done", "cpu", "wall", "memory", "files", "died", and "machine" if the work has not even
    begun, the keeper has failed, or others had the cores for too long.
    """
    try:
        folder = tempfile.mkdtemp(prefix="answer-")
        begun, pids = start_job(kind, files, folder, wall)
    except OSError:  # no folder, no pipe, no process: the grader will end us
        processes.reap_orphans()
        return "machine"
    end, status = processes.wait_for_child(pids[0], wall, memory, len(pids), pids[1:])
    patience = 1.0 if end == "ended" else 0.0  # of the keeper, which ends when the answer has
    late = [processes.wait_for_child(pid, patience, memory, len(pids))[1] for pid in pids[1:]]
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pids[0], signal.SIGKILL)
    processes.reap_orphans()
    processes.remove_folder(folder)
    with os.fdopen(begun, "rb") as pipe:
        if not pipe.read() or any(
            os.waitstatus_to_exitcode(one) in (FAILED, -signal.SIGKILL) for one in late
        ):
            return "machine"
    if end != "ended":
        return "machine" if end == "busy" else end
    if any(os.WIFSIGNALED(one) and os.WTERMSIG(one) == signal.SIGXCPU for one in (status, *late)):
        return "cpu"
    return "done" if not os.WIFSIGNALED(status) and os.fstat(files[1]).st_size else "died"


def start_job(kind: str, files: list[int], folder: str, wall: float) -> tuple[int, list[int]]:
    """Start the processes of a job.

    Returns:
        A pipe in which there is something to read if the work has begun; and the processes, the keeper last.

    Raises:
        OSError: if one of them cannot be started.
    """
    begun, ready = os.pipe()
    try:
        if kind == "read":
            return begun, [start_child(read_notebook, files, folder, ready)]
        if len(files) == 2:
            return begun, [start_child(partial(run_answer, watched=False), files, folder, ready)]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            keeper_files = [*files[2:], ours.fileno()]
            keeper = start_child(keep_tensors, keeper_files, folder, ready, may_signal=True)
            if not select.select([begun], [], [], wall)[0]:
                raise TimeoutError("the keeper has not begun")
            os.read(begun, 1)
            answer_files = [*files[:2], theirs.fileno()]
            answer = start_child(partial(run_answer, watched=True), answer_files, folder, ready)
            return begun, [answer, keeper]
    finally:
        os.close(ready)


def start_child(
    work: Callable[[dict[str, Any], int], Sequence[Any]],
    files: list[int],
    folder: str,
    ready: int,
    may_signal: bool = False,
) -> int:
    """Fork a child that works, see ``run_child``, and return its number."""
    pid = os.fork()
    if pid == 0:
        run_child(work, files, folder, ready, may_signal)
    return pid


def warm_up() -> None:
    """Import what answers import, and touch torch once, on one thread, so that a fork finds it ready."""
    import torch

    torch.set_num_threads(1)
    torch.set_num_threads = lambda nthreads: None
    torch.zeros(2, 2).softmax(-1)
    with contextlib.suppress(ImportError):
        if os.environ.get("LINATTN_OWN_CODE"):
            launches.use_interpreter()
        else:
            import linattn_ref.ops  # noqa: F401
    watch.watch_call({"f": lambda x: x + 1}, "f", [serialization.encode(torch.zeros(1))])


def main() -> None:
    """Serve jobs until input ends. Children cannot read us, and what they leave behind comes to us."""
    processes.reset_signals()
    processes.set_process_control(processes.PR_SET_DUMPABLE, 0)
    processes.set_process_control(processes.PR_SET_CHILD_SUBREAPER, 1)
    if processes.SANDBOXED and not processes.can_forbid_calls():
        return
    if core := os.environ.get("LINATTN_CORE"):
        os.sched_setaffinity(0, {int(core)})
    warm_up()
    channel = socket.socket(fileno=os.dup(0))
    processes.remove_folder(tempfile.mkdtemp(prefix="answer-"))  # as after each answer
    before = processes.record_condition()
    channel.sendall(b'{"end": "ready"}\n')
    while processes.record_condition() == before:
        line, files, _, _ = socket.recv_fds(channel, 4096, 4)
        if not line:
            return
        asked = json.loads(line)
        end = run_job(asked["kind"], files, asked["wall"], asked["memory"])
        for number in files:
            os.close(number)
        channel.sendall(json.dumps({"id": asked["id"], "end": end}).encode() + b"\n")


if __name__ == "__main__":
    main()
