"""Limit the processes of answers, wait for their end, and remove all that is left of them.

Like serialization.py this file imports nothing of ours, so that the sandbox of the grader can load it alone.
"""

import contextlib
import ctypes
import errno
import functools
import glob
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

SANDBOXED = bool(os.environ.get("LINATTN_SANDBOX"))  # set by the grader, in a process namespace of our own
MAX_FILES = 20_000  # that an answer may make; each takes memory, even an empty one
ROUND = (
    0.1  # seconds between looks at an answer's files and memory, and that a look takes if nothing is amiss
)
TORCH_BYTES = 250_000_000  # of a process that has imported it
PATIENCE_FOR_STOP = 1.0  # seconds
LAST_STARTED = "/proc/sys/kernel/ns_last_pid"  # the number of the process, or thread, that was started last
_ALONE: dict[str, bytes] = {}  # what stands there when there is but one other; it can have no follower
PATIENCE = 4  # times the limit on the clock that an answer may take which has to wait for a core
MODE = 0o700  # of a folder of an answer
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
    *("sched_setaffinity", "sched_setparam"),
    *(
        "fallocate",
        "setxattr",
        "lsetxattr",
        "fsetxattr",
        "ioprio_set",
        "name_to_handle_at",
        "fanotify_init",
        "inotify_add_watch",
    ),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat"),
    *("bind", "listen", "setsockopt"),  # what was sent to a socket that listens stays, and is in no process
    *("vmsplice", "sendmsg", "sendmmsg", "io_setup", "inotify_init", "inotify_init1", "timer_create"),
    "timerfd_create",
    # Of the files that all see: which parts of them are in memory.
    *("fadvise64", "mincore", "preadv2", "readahead"),
    *("sync", "syncfs", "flock", "landlock_create_ruleset", "landlock_add_rule"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "sethostname", "setdomainname", "quotactl"),
    *("quotactl_fd", "syslog"),
)
LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # of filters, in Linux's BPF
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS  # of libseccomp
PASS_OVER = 0x00050000  # the call is not made, and says that it was
NOT_EQUAL, MASKED_EQUAL = 1, 7  # comparisons of libseccomp
COMMAND = 0xFFFFFFFF  # the bits of a command that the kernel looks at
# Calls from this number on, alike on all processors, are answered as by an older kernel: libseccomp may not
# know their names. Among them are new ways to set modes and attributes of files.
FIRST_NEW_CALL = 451
# Of the calls below it that an old libseccomp does not know, the numbers.
NUMBERS = {"pidfd_send_signal": 424, "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435}
NUMBERS |= {"pidfd_getfd": 438, "landlock_create_ruleset": 444, "landlock_add_rule": 445, "memfd_secret": 447}
NUMBERS |= {"quotactl_fd": 443}
SHARED_ANONYMOUS = 0x21  # memory that can be held and not be seen in any process
CLONE_NEWUSER, AF_UNIX = 0x10000000, 1
OTHERS_CLOCK = 0x80000000  # clocks with this bit are those of processes, of threads, and of devices
READING_CLOCKS = ("clock_gettime", "clock_getres", "clock_nanosleep")
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
# Of prctl, what is allowed: what becomes of a process whose parent ends, its name, who may look into it.
# Not: what takes memory of the kernel (filters, tables for futexes) or a core from others.
ALLOWED_PRCTL = (1, 2, 3, 4, 15, 16, 21, 36, 37, 39)
# Of fcntl, what is allowed: copy a number, close it when a program starts, flags, the size of a pipe.
# Not: locks and hints, which the kernel keeps with the file, leases that make others wait, signals.
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
ALLOWED_FCNTL = (0, 1, 2, 3, 4, 1030, 1032)
# Of ioctl, whose commands nobody can list, what is allowed: is this a terminal and how wide, how much is
# there to read, do not wait, close when a program starts.
ALLOWED_IOCTL = ("TCGETS", "TIOCGWINSZ", "FIONREAD", "FIONBIO", "FIOCLEX", "FIONCLEX")
TCGETS2 = 0x802C542A  # as new C libraries ask; alike where it exists but for a few processors
F_SETFL, FORBIDDEN_FLAGS = 4, (0x2000, 0x4000)  # O_ASYNC, O_DIRECT
# Of Landlock, three calls, and the rights to read files and folders.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_VERSION, LANDLOCK_FILES, LANDLOCK_FOLDERS = 1, 4, 8
READABLE_OF_PROC = [
    f"/proc/{name}" for name in ("self", "sys", "cpuinfo", "meminfo", "filesystems", "version")
]
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36

# --- the machine --------------------------------------------------------------------------------------------


def list_cores() -> list[int]:
    """Return the processor cores that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def count_cores() -> int:
    """Return how many cores this process may use at a time, by its control group as well."""
    cores = len(list_cores()) or os.cpu_count() or 1
    return max(1, int(min(cores, find_quota())))


GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def find_quota(top: Path = GROUPS, own: Path = OWN_GROUP) -> float:
    """Return the cores' worth of time that our control group has, or one around it; infinity without a limit.

    Args:
        top: where control groups lie, in version 2.
        own: the file that says which is ours.
    """
    found = [math.inf]
    for place in list_groups(top, own):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (place / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))
    return min(found)


def find_memory(top: Path = GROUPS, own: Path = OWN_GROUP, machine: Path = Path("/proc/meminfo")) -> float:
    """Return the bytes that are free for us, on the machine and in our control groups; infinity if unknown.

    Args:
        top, own: as for ``find_quota``.
        machine: the file that says what is free on the machine.
    """
    found = [math.inf]
    with contextlib.suppress(OSError, ValueError, LookupError):
        lines = dict(line.split(":") for line in machine.read_text().splitlines())
        found.append(1024 * int(lines["MemAvailable"].split()[0]))
    for place in list_groups(top, own):
        with contextlib.suppress(OSError, ValueError):
            taken = int((place / "memory.current").read_text())
            found.append(int((place / "memory.max").read_text()) - taken)
    return min(found)


def list_groups(top: Path, own: Path) -> list[Path]:
    """Return the folders of our control group and of those around it; none where there are no such groups."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        lines = [line.partition("::")[2] for line in own.read_text().splitlines() if line.startswith("0::")]
        for folder in (top / line.strip("/") for line in lines):
            found += [folder, *(one for one in folder.parents if one.is_relative_to(top))]
    return found


def count_jobs(memory: int) -> int:
    """Return how many submissions can be graded at a time: each on a core, each with enough memory.

    Args:
        memory: bytes that one process of an answer may take; all of an answer together may take twice as
            many, and two sandboxes have imported torch.
    """
    each = 2 * (memory + TORCH_BYTES)
    return max(1, int(min(count_cores(), find_memory() // each)))


# Signals that Python itself ignores, and those that a shell or nohup lets a program ignore on purpose.
LEFT_IGNORED = ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP", "SIGTTIN", "SIGTTOU")


def reset_signals() -> None:
    """Let signals do what they do by default, and let none be blocked, whoever has started this process.

    What ignores or blocks them hands that on. Children that end, times that pass and limits must be told.
    """
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if threading.current_thread() is not threading.main_thread():  # no other may say what signals do
        return
    for number in signal.Signals:
        if number.name not in LEFT_IGNORED and signal.getsignal(number) is signal.SIG_IGN:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)


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
        resource.RLIMIT_CORE: (1, 1),  # 0 would still start a program that takes dumps
        resource.RLIMIT_NPROC: (count_user_threads() + limits["processes"],) * 2,
    }
    if hasattr(resource, "RLIMIT_SIGPENDING"):  # the user's, on Linux
        bounds[resource.RLIMIT_SIGPENDING] = (64, 64)
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


def can_hide_other_processes() -> bool:
    """Return whether ``hide_other_processes`` can do its work: on Linux, with Landlock."""
    version = ctypes.c_size_t(0), ctypes.c_size_t(0), LANDLOCK_VERSION
    return sys.platform == "linux" and ctypes.CDLL(None).syscall(LANDLOCK_CREATE, *version) > 0


def hide_other_processes() -> bool:
    """Let this process read of /proc what is about itself, and a few files; return whether that is so now.

    What others do there is a clock for all that they compute. It takes Landlock, which came with Linux 5.13.
    """
    library, reads = ctypes.CDLL(None), ctypes.c_uint64(LANDLOCK_FILES | LANDLOCK_FOLDERS)
    rules = library.syscall(LANDLOCK_CREATE, ctypes.byref(reads), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    shown = [f"/{name}" for name in os.listdir("/") if name != "proc"]
    for path in (*shown, *READABLE_OF_PROC):
        with contextlib.suppress(OSError):
            number = os.open(path, os.O_PATH)
            allowed = LANDLOCK_FILES | (LANDLOCK_FOLDERS if os.path.isdir(path) else 0)
            library.syscall(LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, number), 0)
            os.close(number)
    found = library.syscall(LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)
    return bool(found == 0)


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


def forbid_calls(may_signal: bool = False) -> bool:
    """Refuse this process and all that it starts the calls of ``FORBIDDEN``.

    Args:
        may_signal: whether it may send signals to other processes.

    Returns:
        Whether they are refused now; False where there is no Linux or no libseccomp.
    """
    library = _load_libseccomp()
    if library is None:
        return False
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # and so it stays, see below
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    own = os.getpid()
    rules_of_calls: list[tuple[str, int, list[Comparison]]] = [
        *((name, REFUSE, []) for name in FORBIDDEN),
        *([] if may_signal else [("kill", REFUSE, [Comparison(0, NOT_EQUAL, own, 0)])]),
        # who is about to be stopped goes on if it is told so
        *(
            (name, REFUSE, [Comparison(place, MASKED_EQUAL, COMMAND, signal.SIGCONT)])
            for name, place in (("kill", 1), ("tgkill", 2))
            if not may_signal
        ),
        ("tgkill", REFUSE, [Comparison(0, NOT_EQUAL, own, 0)]),
        ("prlimit64", REFUSE, [Comparison(0, NOT_EQUAL, 0, 0)]),
        ("clone", REFUSE, [Comparison(0, MASKED_EQUAL, CLONE_NEWUSER, CLONE_NEWUSER)]),
        ("socket", REFUSE, [Comparison(0, NOT_EQUAL, AF_UNIX, 0)]),
        ("socketpair", REFUSE, [Comparison(0, NOT_EQUAL, AF_UNIX, 0)]),
        ("mmap", REFUSE, [Comparison(3, MASKED_EQUAL, SHARED_ANONYMOUS, SHARED_ANONYMOUS)]),
        # who says that it wants to hear of no child that ends hides the time which they took
        (
            "rt_sigaction",
            PASS_OVER,
            [Comparison(0, MASKED_EQUAL, COMMAND, signal.SIGCHLD), Comparison(1, NOT_EQUAL, 0, 0)],
        ),
        # the processor time of another process tells what it computes; own clocks have small numbers
        *(
            (name, REFUSE, [Comparison(0, MASKED_EQUAL, OTHERS_CLOCK, OTHERS_CLOCK)])
            for name in READING_CLOCKS
        ),
        ("clone3", UNKNOWN, []),  # its flags cannot be seen; the C library then takes clone
        *(
            (
                "fcntl",
                REFUSE,
                [Comparison(1, MASKED_EQUAL, COMMAND, F_SETFL), Comparison(2, MASKED_EQUAL, flag, flag)],
            )
            for flag in FORBIDDEN_FLAGS
        ),
    ]
    for name, action, compared in rules_of_calls:
        number = library.seccomp_syscall_resolve_name(name.encode())
        number = number if number >= 0 else NUMBERS.get(name, -1)
        if number >= 0:  # this processor has it
            array = (Comparison * len(compared))(*compared)
            library.seccomp_rule_add_array(rules, ctypes.c_uint32(action), number, len(compared), array)
    listed = ("ioctl", "fcntl", "seccomp", "prctl")
    numbers = {name: library.seccomp_syscall_resolve_name(name.encode()) for name in listed}
    return library.seccomp_load(rules) == 0 and _forbid_what_is_not_listed(**numbers)


class _Instruction(ctypes.Structure):
    """Hold an instruction of a filter, Linux's ``sock_filter``."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    """Hold a filter, Linux's ``sock_fprog``."""

    _fields_ = (("length", ctypes.c_uint16), ("first", ctypes.POINTER(_Instruction)))


def _forbid_what_is_not_listed(ioctl: int, fcntl: int, seccomp: int, prctl: int) -> bool:
    """Let calls from ``FIRST_NEW_CALL`` on be unknown; of ioctl, fcntl and prctl refuse what is not allowed.

    Further filters are refused too: they take memory of the kernel that no process is charged for.

    Args:
        ioctl: the number of this call.
        fcntl: the number of this call.
        seccomp: the number of this call.
        prctl: the number of this call.

    Returns:
        Whether that is so now. It takes a filter of our own: one of libseccomp's cannot say "none of these".
    """
    import termios  # not on Windows

    commands = [TCGETS2, *(getattr(termios, name) for name in ALLOWED_IOCTL)]
    option, command = (at + 4 * (sys.byteorder == "big") for at in (16, 24))  # where their 32 bits are
    words = [
        (LOAD, 0, 0, 0),  # the number of the call
        (IF_AT_LEAST, 0, 1, FIRST_NEW_CALL),  # how many to pass over if so, and if not
        (RETURN, 0, 0, UNKNOWN),
        (IF_EQUAL, 0, 1, seccomp),
        (RETURN, 0, 0, REFUSE),
        *_allow_listed(prctl, option, ALLOWED_PRCTL),
        *_allow_listed(ioctl, command, commands),
        *_allow_listed(fcntl, command, ALLOWED_FCNTL),
        (RETURN, 0, 0, ALLOW),
    ]
    program = _Program(len(words), (_Instruction * len(words))(*(_Instruction(*word) for word in words)))
    found = ctypes.CDLL(None).prctl(
        PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), 0, 0
    )
    return bool(found == 0)


def _allow_listed(call: int, place: int, allowed: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the words of a filter that allow a call only for some values of what stands at a place."""
    n = len(allowed)
    return [
        (IF_EQUAL, 0, n + 3, call),
        (LOAD, 0, 0, place),
        *((IF_EQUAL, n - i, 0, value) for i, value in enumerate(allowed)),  # pass over the next return
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]


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


def wait_for_child(
    pid: int, seconds: float, memory: int, ours: int = 1, keepers: Sequence[int] = ()
) -> tuple[str, int]:
    """Wait until a child has ended, or must end, and then is ended.

    Args:
        pid: the child.
        seconds: on the clock that it may take. Those in which it waited for a core that others had do not
            count, up to ``PATIENCE`` times as many in all; but an answer that has started a process of its
            own may wait for that.
        memory: bytes that all processes of the answer together may take.
        ours: processes that we have started ourselves: the answer, and its keeper if it has one.
        keepers: children of which one may have stopped it (``pause_others``), and ended before it told it to
            go on.

    Returns:
        "ended", or the limit that was passed: "wall", "memory" or "files", or "busy", if it had no core for
        too long; and the status of the child.
    """
    begin = looked = time.monotonic()
    end, last = begin + seconds, begin + PATIENCE * seconds
    pause, watch, crowd = 0.001, MemoryWatch(), False

    def extend() -> float:
        """Return the end, later by what it waited."""
        return begin + seconds + (0.0 if crowd else measure_wait(now - begin, ours))

    while (now := time.monotonic()) < end or (end := extend()) > now:
        if now > last:
            return "busy", end_process(pid)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return "ended", status
        if now - looked > ROUND:
            looked = now
            if any(os.waitid(os.P_PID, one, os.WEXITED | os.WNOHANG | os.WNOWAIT) for one in keepers):
                os.kill(pid, signal.SIGCONT)
            crowd = crowd or len(list_descendants()) > ours
            if count_files() > MAX_FILES:
                return "files", end_process(pid)
            if watch.exceeds(memory):
                return "memory", end_process(pid)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return "wall", end_process(pid)


@contextlib.contextmanager
def pause_others() -> Iterator[None]:
    """Let all other processes of a sandbox stand still, except the first, which has started us.

    Else their threads, on a core or in caches that they share with us, see what we compute.

    Raises:
        PermissionError: if one of them does not stop.
    """
    if os.getppid() != 1:
        raise RuntimeError("only within a sandbox, where all processes belong to one answer")
    try:
        os.kill(-1, signal.SIGSTOP)
        end = time.monotonic() + PATIENCE_FOR_STOP
        os.sched_yield()  # on one core they stop now
        while _some_go_on():
            if time.monotonic() > end:
                raise PermissionError("a thread of the answer does not stand still while it is computed")
            os.sched_yield()
        yield
    finally:
        os.kill(-1, signal.SIGCONT)


def _some_go_on() -> bool:
    """Return whether another process of the sandbox, but for the first, may still do something.

    As long as the last process that was started is the only other one, and has one thread, no more are looked
    for.
    """
    last = _read_again(LAST_STARTED)
    if last and _ALONE.get("number") == last:
        return not _is_stopped(_read_again(f"/proc/{int(last)}/stat"))
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and pid not in ("1", str(os.getpid()))]
    threads = [path for pid in others for path in glob.glob(f"/proc/{pid}/task/*/stat")]
    if last and len(threads) == 1 and others == [f"{int(last)}"]:
        _ALONE["number"] = last
    return not all(_is_stopped(_read(path)) for path in threads)


def _is_stopped(stat: bytes) -> bool:
    """Return whether a thread of which this is told is stopped, or has ended."""
    return stat.rpartition(b")")[2][1:2] in (b"T", b"Z", b"X", b"")


def _read(path: str) -> bytes:
    """Return what a small file of /proc says; nothing if it is not there."""
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        return file.read(1000)
    return b""


def _read_again(path: str) -> bytes:
    """Return the same, of a file that stays open."""
    with contextlib.suppress(OSError):
        return os.pread(_open(path), 1000, 0)
    return b""


@functools.cache
def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY)


def measure_wait(seconds: float, ours: int = 2) -> float:
    """Return for how long our descendants have waited for a core that others had.

    An answer and its keeper take turns, so the ``ours`` longest times are added. No more counts than the time
    in which neither a descendant ran nor a thread or a child of theirs that has ended: processes of one
    answer may wait for each other.

    Args:
        seconds: how long they have been there.
        ours: how many of them we have started ourselves.
    """
    waits = []  # of each thread, in nanoseconds
    ran = 0.0
    for pid in list_descendants():
        ran += measure_run(pid)
        for place in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with contextlib.suppress(OSError, ValueError), open(place) as file:
                waits.append(int(file.read().split()[1]))
    return max(0.0, min(sum(sorted(waits)[-ours:]) / 1e9, seconds - ran))


def measure_run(pid: int) -> float:
    """Return for how many seconds a process ran, with threads and children that have ended.

    Children count once they were waited for.
    """
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
        ticks = file.read().rpartition(b")")[2].split()[11:15]  # utime, stime, cutime and cstime
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def end_process(pid: int) -> int:
    """Kill a child if it has not ended; return the status that it has ended with by itself, or 0."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return status


class MemoryWatch:
    """Watch what our descendants take together, in rounds that stay short however many they are.

    Each has inherited our memory. Only if they would take too much with it, which is looked up in a moment,
    the share of each is measured: what it has alone, and its part of what it has with us and with others.
    That takes milliseconds for each, so a round measures as many as there is time for, and takes for the
    others the share that they had, with all that they have got since; a new one is taken to share nothing.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}  # size and share when they were measured; oldest first

    def exceeds(self, memory: int) -> bool:
        """Return whether they take more than so many bytes, by no share that is older than this round."""
        sizes = {pid: measure_process(pid) for pid in list_descendants()}
        if sum(sizes.values()) <= memory:
            return False
        known = {pid: (0, 0) for pid in sizes if pid not in self._known}
        known |= {pid: found for pid, found in self._known.items() if pid in sizes}
        expected = {pid: share + max(0, sizes[pid] - size) for pid, (size, share) in known.items()}
        total, measured, end = sum(expected.values()), 0, time.monotonic() + ROUND
        # What decides comes first: the largest, or what was measured longest ago.
        for pid in sorted(known, key=lambda one: -expected[one]) if total > memory else list(known):
            if measured > memory or (total <= memory and time.monotonic() > end):
                break
            share = measure_share(pid)
            measured, total = measured + share, total + share - expected[pid]
            del known[pid]
            known[pid] = sizes[pid], share
        self._known = known
        return total > memory


def measure_process(pid: int) -> int:
    """Return the bytes of a process that are of no file, with shared and swapped ones; 0 if it is gone.

    The tables by which it finds its memory belong to it: a page of zeros takes nothing but them.
    """
    names = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")
    found = _add_up(f"/proc/{pid}/status", names)
    if found is None:  # its first thread has ended; others may hold all of it
        found = next(
            filter(None, (_add_up(one, names) for one in glob.glob(f"/proc/{pid}/task/*/status"))), 0
        )
    return found


def measure_share(pid: int) -> int:
    """Return the same without what belongs to others; all of it, if the process does not let us look."""
    found = _add_up(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    tables = _add_up(f"/proc/{pid}/status", (b"VmPTE:",))
    return measure_process(pid) if found is None else found + (tables or 0)


def _add_up(path: str, names: tuple[bytes, ...]) -> int | None:
    """Return the sum of those lines of a file in /proc, in bytes; None if it has none or cannot be read."""
    try:
        with open(path, "rb") as file:  # the name of a process may be no text
            found = [1024 * int(line.split()[1]) for line in file if line.startswith(names)]
    except (OSError, ValueError, IndexError):
        return None
    return sum(found) if found else None


def count_files() -> int:
    """Return how many files an answer has made in its sandbox."""
    found = [os.statvfs(top) for top in SCRATCH if SANDBOXED]
    return sum(one.f_files - one.f_ffree for one in found)


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
    """Remove the folder of an answer, whatever it holds; in a sandbox all that can be written to.

    What is left all the same is found by ``record_condition``, and ends the worker.
    """
    tops = SCRATCH if SANDBOXED else (folder,)
    with contextlib.suppress(OSError):
        for top in tops:
            os.chmod(top, MODE)
        os.rmdir(folder)  # mostly there is nothing in it
    # The names of folders alone are given: those of files may be more than a command takes. In a sandbox the
    # folders themselves are mounts, and stay. Modes are changed only where they are in the way.
    for words in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        if any(map(_holds_anything, tops)):
            with contextlib.suppress(OSError):
                subprocess.run([*words, "--", *tops], stderr=subprocess.DEVNULL, check=False)
    for top in SCRATCH if SANDBOXED else ():
        with contextlib.suppress(OSError):
            os.utime(top, (0, 0))


def _holds_anything(folder: str) -> bool:
    """Return whether there is anything to remove: in a sandbox in the folder, else the folder itself."""
    try:
        return bool(os.listdir(folder)) if SANDBOXED else os.path.lexists(folder)
    except OSError:
        return True


def record_condition() -> list[Any]:
    """Return what an answer could change of this process, and so of all answers after it."""
    import resource

    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    found: list[Any] = [resource.getrlimit(kind) for kind in kinds]
    found.append(os.getpriority(os.PRIO_PROCESS, 0))
    if sys.platform == "linux":
        found += [os.sched_getaffinity(0), os.sched_getscheduler(0)]
    for top in SCRATCH if SANDBOXED else ():
        found.append((os.stat(top).st_mode, os.listdir(top), os.listxattr(top)))
    for name in ("shm", "sem", "msg") if SANDBOXED else ():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{name}") as file:
            found.append(len(file.readlines()))
    return found
