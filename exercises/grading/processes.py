"""Limit the processes of answers, wait for their end, and remove all that is left of them.

Like serialization.py this file imports nothing of ours, so that the sandbox of the grader can load it alone.
"""

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from typing import Any

SANDBOXED = bool(os.environ.get("LINATTN_SANDBOX"))  # set by the grader, in a process namespace of our own
SCRATCH = ("/scratch", "/dev/shm")  # all that can be written to in a sandbox; nothing else may lie in there
# System calls that no answer needs: they outlive it, reach other processes, or pass the limit on memory.
FORBIDDEN = (
    *("shmget", "shmat", "semget", "msgget", "mq_open", "add_key", "request_key", "keyctl"),
    *(
        "memfd_create",
        "memfd_secret",
        "unshare",
        "setns",
        "mount",
        "pivot_root",
        "chroot",
        "open_by_handle_at",
    ),
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal"),
    *("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setpriority", "sched_setscheduler", "sched_setattr"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "sethostname", "setdomainname", "quotactl"),
)
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS  # of libseccomp
NOT_EQUAL, MASKED_EQUAL = 1, 7  # comparisons of libseccomp
CLONE_NEWUSER = 0x10000000
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


class Comparison(ctypes.Structure):
    """Compare an argument of a system call, as libseccomp's ``scmp_arg_cmp`` does."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def can_forbid_calls() -> bool:
    """Return whether ``forbid_calls`` can do its work: on Linux, with libseccomp."""
    return _load_libseccomp() is not None


def _load_libseccomp() -> ctypes.CDLL | None:
    """Return libseccomp, or None where there is none."""
    try:
        return ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None


def forbid_calls() -> bool:
    """Refuse this process and all that it starts the calls of ``FORBIDDEN``, and signals to other processes.

    Returns:
        Whether they are refused now; False where there is no Linux or no libseccomp.
    """
    library = _load_libseccomp()
    if library is None:
        return False
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    own = os.getpid()
    conditions = {
        "kill": (REFUSE, Comparison(0, NOT_EQUAL, own, 0)),
        "tgkill": (REFUSE, Comparison(0, NOT_EQUAL, own, 0)),
        "prlimit64": (REFUSE, Comparison(0, NOT_EQUAL, 0, 0)),
        "clone": (REFUSE, Comparison(0, MASKED_EQUAL, CLONE_NEWUSER, CLONE_NEWUSER)),
        "clone3": (UNKNOWN, None),  # its flags cannot be seen; the C library then takes clone
    }
    for name in (*FORBIDDEN, *conditions):
        action, condition = conditions.get(name, (REFUSE, None))
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # this processor has it
            compared = [condition] if condition else []
            array = (Comparison * len(compared))(*compared)
            library.seccomp_rule_add_array(rules, ctypes.c_uint32(action), number, len(compared), array)
    return library.seccomp_load(rules) == 0


@contextlib.contextmanager
def contain() -> Iterator[None]:
    """Keep answers that run as our user from reading this process, and end all that they have started.

    What a worker leaves behind comes to this process, and has ended when the context is left.
    """
    before = set(list_descendants())
    set_process_control(PR_SET_CHILD_SUBREAPER, 1)
    set_process_control(PR_SET_DUMPABLE, 0)
    try:
        yield
    finally:
        kill_descendants(before)
        set_process_control(PR_SET_DUMPABLE, 1)
        set_process_control(PR_SET_CHILD_SUBREAPER, 0)


# --- its end, and after -------------------------------------------------------------------------------------


def wait_for_child(pid: int, deadline: float, memory: int) -> tuple[str, int]:
    """Wait until a child has ended, or must end, and then is ended.

    Args:
        pid: the child.
        deadline: when it must have ended, as ``time.monotonic`` tells it.
        memory: bytes that all processes of the answer together may take.

    Returns:
        "ended", or "wall" or "memory", the limit that was passed; and the status of the child.
    """
    pause, looked = 0.001, time.monotonic()
    while (now := time.monotonic()) < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return "ended", status
        if now - looked > 0.1:
            looked = now
            if measure_memory() > memory:
                return "memory", end_process(pid)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return "wall", end_process(pid)


def end_process(pid: int) -> int:
    """Kill a child if it has not ended, and return its status."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return status


def measure_memory() -> int:
    """Return the bytes that our descendants have in memory, beyond what each has inherited from us."""
    inherited = _measure_own_pages("self")
    pages = (max(0, _measure_own_pages(str(pid)) - inherited) for pid in list_descendants())
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _measure_own_pages(pid: str) -> int:
    """Return the pages of a process that are of no file; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        return resident - shared
    except (OSError, ValueError):
        return 0


def list_descendants() -> list[int]:
    """Return the processes that we have started, and those that they have started."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])  # a name in brackets may hold anything
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        new = children.get(todo.pop(), [])
        found += new
        todo += new
    return found


def reap_orphans() -> None:
    """Kill what the answer started and left behind. Its processes become ours when their parents end."""
    if SANDBOXED:  # all processes we can see are of the answer
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
    kill_descendants()


def kill_descendants(spared: Collection[int] = ()) -> None:
    """Kill all processes that we have started, and those that they have started, but for some."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        left = [pid for pid in list_descendants() if pid not in spared]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)


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
