"""Run an answer and turn what it returns into plain data. This file is also the process that runs answers.

As a module it gives the checks ``encode``, ``decode`` and ``call``. As a script, ``python -I plain.py``, it
is the server of the grader: it loads torch once, reads one job a line from standard input, forks a child for
each and writes one line of plain data. It imports nothing of ours, so it can stand alone in a sandbox.

* a job: ``{"cells": [[source, own], ...], "calls": [[name, arguments, watched], ...], "limits": {...}}``;
  ``own`` says whether a cell belongs to the question;
* a report: ``{"end": how the child ended, "data": what it sent}``, that is ``{"outcomes": [...]}``.
"""

import ast
import base64
import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import json
import os
import re
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any

if __name__ == "__main__":  # -I leaves out a user's own packages; the grader says where they are
    sys.path += [path for path in sys.argv[1:] if path not in sys.path]

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = ("float64", "float32", "int64", "int32", "bool")
MAX_ENTRIES = 4_000_000  # of one array
MAX_BITS = 4_096  # of one whole number
MAX_TEXT = 2_000  # characters of a text, an error, a line of code
MAX_REPORT = 64_000_000  # bytes of what a child may send
SANDBOXED = bool(os.environ.get("LINATTN_SANDBOX"))  # set by the grader, in a process namespace of our own
COMMON = "linattn_exercises"  # not available to an answer while it is marked


# --- plain data ---------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """None, numbers, texts, lists, tuples, dicts, arrays and tensors as JSON data; TypeError for the rest."""
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise TypeError(
            f"returned a whole number of {value.bit_length():,} bits, expected at most {MAX_BITS:,}"
        )
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str(value)[:MAX_TEXT]
    if isinstance(value, torch.Tensor):
        wide = value.dtype not in (torch.float64, torch.float32) and value.dtype.is_floating_point
        plain = value.detach().cpu().float() if wide else value.detach().cpu()
        return {"tensor": _encode_array(plain.numpy())}
    if isinstance(value, np.ndarray):
        return {"array": _encode_array(value)}
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return encode(value.item() if isinstance(value, np.generic) else float(value))
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(name), encode(one)] for name, one in value.items()]}
    raise TypeError(
        f"returned a {type(value).__name__}, expected numbers, texts, arrays, tensors or tuples of them"
    )


def decode(data: Any) -> Any:
    """The value that ``encode`` was given. Data that ``encode`` cannot have made is a ValueError."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("data: not made by encode")
    ((kind, content),) = data.items()
    if kind in ("tuple", "list") and isinstance(content, list):
        values = [decode(one) for one in content]
        return tuple(values) if kind == "tuple" else values
    if kind == "dict" and isinstance(content, list) and all(_is_pair(one) for one in content):
        return {decode(name): decode(one) for name, one in content}
    if kind in ("array", "tensor"):
        array = _decode_array(content)
        return torch.from_numpy(array) if kind == "tensor" else array
    raise ValueError("data: not made by encode")


def _is_pair(data: Any) -> bool:
    return isinstance(data, list) and len(data) == 2 and isinstance(data[0], (str, int, float, bool))


def _encode_array(array: np.ndarray) -> list[Any]:
    if array.dtype.name not in DTYPES:
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, casting="same_kind")
    if array.size > MAX_ENTRIES:
        raise TypeError(f"returned an array of {array.size:,} entries, expected at most {MAX_ENTRIES:,}")
    return [
        array.dtype.name,
        list(array.shape),
        base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    ]


def _decode_array(content: Any) -> np.ndarray:
    try:
        name, shape, data = content
        if name not in DTYPES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError("data: not made by encode")
        flat = np.frombuffer(base64.b64decode(data, validate=True), dtype=name)
        return flat.reshape(shape).copy()
    except TypeError as error:
        raise ValueError("data: not made by encode") from error


# --- one call -----------------------------------------------------------------------------------------------


class Watch(TorchDispatchMode):
    """Counts torch operations, and remembers the size of the largest tensor that one of them made."""

    entries = 0
    operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(one, torch.Tensor):
                self.entries = max(self.entries, one.numel())
        return result


def call(namespace: dict[str, Any], name: str, arguments: list[Any], watched: bool) -> dict[str, Any]:
    """The outcome of one call: ``{"value": ...}`` or ``{"error": kind, "text": what, "line": where}``.

    If it is watched, with the entries of the largest tensor and the number of torch operations.

    A name that is no function is its own value, if there are no arguments.
    """
    if name not in namespace:
        return {"error": "Missing", "text": f"`{name}` is not defined", "line": ""}
    try:
        with (watch := Watch()) if watched else contextlib.nullcontext():
            answer = namespace[name]
            value = answer(*map(decode, arguments)) if callable(answer) or arguments else answer
        outcome = {"value": encode(value)}
        seen = {"entries": watch.entries, "operations": watch.operations} if watched else {}
        return outcome | seen
    except BaseException as error:  # also SystemExit: an answer must not end the process that reports
        return failure(error)


def failure(error: BaseException) -> dict[str, Any]:
    """An exception as plain data; ``line`` is the answer's own line that raised."""
    try:
        text = str(error)
    except Exception:
        text = ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    line = [frame.line for frame in frames if frame.filename == frames[0].filename][-1] if frames else ""
    if isinstance(error, SyntaxError):
        line = error.text or ""
    name = next(known for known in type(error).__mro__ if known.__module__ == "builtins").__name__
    return {"error": name, "text": text[:MAX_TEXT], "line": (line or "").strip()[:MAX_TEXT]}


# --- the cells of a notebook ----------------------------------------------------------------------------


def without_magics(source: str) -> str:
    """The source with the lines that only a notebook understands (%pip, !ls) made empty statements."""
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError):
        if source.lstrip().startswith("%%"):
            return ""
        return re.sub(r"(?m)^([ \t]*)[%!?].*$", r"\1pass", source)


def run_cells(cells: list[list[Any]]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The namespace after all cells (they may fail), and the first failure of a cell of the question."""
    namespace: dict[str, Any] = {"__name__": "__main__", "display": lambda *_, **__: None}
    first = None
    for number, (source, own) in enumerate(cells):
        name = f"<answer {number}>"
        try:
            code = without_magics(source)
            _lines(name, code)
            exec(compile(code, name, "exec"), namespace)
        except BaseException as error:
            if own and first is None:
                first = failure(error)
    return namespace, first


def _lines(name: str, source: str) -> None:
    import linecache

    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


class Silent(types.ModuleType):
    """Our checks, as an answer sees them while it is marked: every name is a function that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


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


# --- a child --------------------------------------------------------------------------------------------


def answer_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run the cells of a job, then its calls."""
    sys.meta_path.insert(0, SilentChecks())
    namespace, broken = run_cells(job["cells"])
    if broken is not None and not all(name in namespace for name, _, _ in job["calls"]):
        return {"outcomes": [broken for _ in job["calls"]]}
    return {"outcomes": [call(namespace, *one) for one in job["calls"]]}


def child(job: dict[str, Any], report: int, folder: str) -> None:
    """Everything between fork and exit: shut the doors, run, report."""
    write, dump, leave = os.write, json.dumps, os._exit  # before the answer can replace them
    import resource  # not on Windows, where the checks must work all the same

    try:
        os.setsid()
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.dup2(report, 3)
        os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        limit_resources(job["limits"])
        text = dump(answer_job(job)).encode()
        while text:
            text = text[write(3, text) :]
    finally:
        leave(0)


def limit_resources(limits: dict[str, int]) -> None:
    """Processor seconds, bytes of new memory, bytes of a file, files, processes; no core dumps."""
    import resource

    bounds = {
        resource.RLIMIT_CPU: (limits["cpu"], limits["cpu"] + 1),  # a signal, then the end
        resource.RLIMIT_AS: (address_space() + limits["memory"],) * 2,
        resource.RLIMIT_FSIZE: (limits["file"],) * 2,
        resource.RLIMIT_NOFILE: (64, 64),
        resource.RLIMIT_CORE: (0, 0),
    }
    if hasattr(resource, "RLIMIT_NPROC"):
        bounds[resource.RLIMIT_NPROC] = (tasks_of_user() + limits["processes"],) * 2
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows some only by name
            resource.setrlimit(kind, bound)


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


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Fork, wait, clean up. ``end`` is "done", "cpu", "wall", "memory", "size" or "died"."""
    folder = tempfile.mkdtemp(prefix="answer-")
    inlet, outlet = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(inlet)
        child(job, outlet, folder)
    os.close(outlet)
    data, end = collect(inlet, time.monotonic() + job["limits"]["wall"])
    os.close(inlet)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    reap_orphans()
    remove(folder)
    return {
        "end": end if end != "done" else how_it_ended(status, data),
        "data": data.decode("ascii", "replace"),
    }


def collect(inlet: int, deadline: float) -> tuple[bytes, str]:
    """All that the child sends until it closes, the deadline passes or it sends too much."""
    data = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([inlet], [], [], left)[0]:
            return bytes(data), "wall"
        part = os.read(inlet, 1 << 20)
        if not part:
            return bytes(data), "done"
        data += part
        if len(data) > MAX_REPORT:
            return b"", "size"


def how_it_ended(status: int, data: bytes) -> str:
    if data:
        return "done"
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return "cpu" if killed == signal.SIGXCPU else "died"


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
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        yield from map(int, file.read().split())


def remove(folder: str) -> None:
    """Remove the folder of an answer, whatever modes it gave to what is in it. In a sandbox, all of /tmp."""
    folders = [folder]
    if SANDBOXED:
        folders = [entry.path for top in ("/tmp", "/dev/shm") for entry in os.scandir(top)]
    for path in folders:
        for top, names, _ in os.walk(path):
            for name in names:
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(top, name), stat.S_IRWXU, follow_symlinks=False)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def harden() -> None:
    """On Linux: children cannot read or stop us through /proc, and what they leave behind comes to us."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def warm_up() -> None:
    """Import what answers import, and touch torch once, on one thread, so that a fork finds it ready."""
    torch.set_num_threads(1)
    torch.zeros(2, 2).softmax(-1)
    with contextlib.suppress(ImportError):
        import linattn_ref.ops  # noqa: F401
    with Watch():
        torch.zeros(1)


def main() -> None:
    harden()
    warm_up()
    inlet, outlet = os.dup(0), os.dup(1)
    answer = os.fdopen(outlet, "w")
    print(json.dumps({"end": "ready"}), file=answer, flush=True)
    for line in os.fdopen(inlet):
        print(json.dumps(run_job(json.loads(line))), file=answer, flush=True)


if __name__ == "__main__":
    main()
