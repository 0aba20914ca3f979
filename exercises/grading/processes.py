"""Limit the processes of answers, wait for their end, and remove all that is left of them.

Like serialization.py this file imports nothing of ours, so that the sandbox of the grader can load it alone.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

SANDBOXED = bool(os.environ.get("LINATTN_SANDBOX"))  # set by the grader, in a process namespace of our own
SCRATCH = ("/scratch", "/dev/shm")  # all that can be written to in a sandbox; nothing else may lie in there
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36

# --- before an answer runs ----------------------------------------------------------------------------------


def limit_resources(limits: dict[str, int]) -> None:
    """Limit the time, memory, files and processes that this process may use; it dumps no core.

    Args:
        limits: the fields of ``sandbox.Limits``, by name.
    """
    import resource  # not on Windows, where this module can be imported all the same

    bounds = {
        resource.RLIMIT_CPU: (limits["cpu"], limits["cpu"] + 1),  # a signal, then the end
        resource.RLIMIT_AS: (measure_address_space() + limits["memory"],) * 2,
        resource.RLIMIT_FSIZE: (limits["file"],) * 2,
        resource.RLIMIT_NOFILE: (64, 64),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (count_user_threads() + limits["processes"],) * 2,
    }
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows some only by name
            resource.setrlimit(kind, bound)
    set_process_control(PR_SET_PDEATHSIG, signal.SIGKILL)


def measure_address_space() -> int:
    """Return the bytes of address space of this process now; torch alone maps gigabytes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 40


def count_user_threads() -> int:
    """Return the number of threads of all processes of this user: what the limit on processes counts."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def set_process_control(option: int, value: int) -> None:
    """Call Linux's prctl; elsewhere do nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- its end, and after -------------------------------------------------------------------------------------


def wait_for_child(pid: int, deadline: float) -> int | None:
    """Return the status of a child when it has ended, or None at the deadline."""
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
        for pid in list_children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def list_children() -> Iterator[int]:
    """Yield the processes whose parent we are."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        yield from map(int, file.read().split())


def remove_folder(folder: str) -> None:
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
    # Modes are changed only where they are in the way.
    for words in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        left = [path for path in left if os.path.lexists(path)]
        if left:
            with contextlib.suppress(OSError):
                subprocess.run([*words, "--", *left], stderr=subprocess.DEVNULL, check=False)


def record_condition() -> list[Any]:
    """Return what an answer could change of this process, and so of all answers after it."""
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
