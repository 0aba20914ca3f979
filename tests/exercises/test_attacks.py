"""What got through once: attacks on marks, on other students and on the grader, and what must come of each.

A sample writes to nothing but a file of its own in the test's folder."""

import json
import os
import platform
import re
import signal
import stat
import statistics
import subprocess
import sys
import time
import tracemalloc
import unicodedata
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from linattn_exercises import serialization
from linattn_exercises.calls import Call, decode_outcome
from linattn_exercises.grading import (
    GradedSubmission,
    Mark,
    isolation,
    processes,
    sandbox,
    sandbox_worker,
    tables,
)
from linattn_exercises.grading.reading import MAX_BYTES, UnreadableNotebook
from linattn_exercises.grading.sandbox import Limits, MachineFault, Sandbox, _load_line, isolation_works
from linattn_exercises.grading.submissions import find_submissions, open_submission
from linattn_exercises.known_mistakes import KnownMistake
from linattn_exercises.questions import PUBLIC_SEED, Question
from linattn_exercises.sets import load_questions
from linattn_ref.cli import main
from tests.exercises.gradebook import OPTIONS, TOTAL, grade, make_grader, points, write
from tests.exercises.notebooks import (
    QUESTIONS,
    answer_cell,
    hand_in,
    keep_questions,
    name_of,
    notebook,
    source_of,
)
from tests.exercises.test_grading import answer_differently
from tests.exercises.undeserved import CHUNKED, ONLINE, UNDESERVED

pytestmark = pytest.mark.slow
LIMITS = Limits(cpu=3, wall=12)
MERGE = load_questions("ch01_softmax")["q5"]
REFUSALS = ("OSError", "PermissionError", "FileNotFoundError", "errno 1", "errno 38")


def start(own_code: bool, hidden: tuple[Path, ...] = (), limits: Limits = LIMITS) -> Sandbox:
    """Return a sandbox of bubblewrap; without it this test is skipped, in CI it fails."""
    if not isolation_works("bubblewrap"):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("bubblewrap does not work here")
    return Sandbox("bubblewrap", limits, own_code, hidden)


@pytest.fixture(scope="module")
def boxes():
    """The sandboxes for questions that ask for own code (True), and for the others."""
    with start(False) as other, start(True) as own:
        yield {False: other, True: own}


@pytest.fixture(scope="module")
def patient_boxes():
    """The same, with time for an answer that loops over tokens, on a slow machine too."""
    limits = Limits(cpu=12, wall=60)
    with start(False, limits=limits) as other, start(True, limits=limits) as own:
        yield {False: other, True: own}


def judge(boxes, question: Question, source: str, seed: str = "s") -> tuple[bool, str]:
    """Return whether an answer is right in the sandbox, and the message."""
    outcomes = boxes[question.own_code].run(
        [("import math\nimport torch\n" + source, True)], question.prepare(seed).calls
    )
    verdict = question.judge(outcomes, seed)
    return verdict.right, verdict.message


# Ends a process for good: ``os._exit`` ends a cell in the sandbox.
EXIT = "__import__('ctypes').CDLL(None)._exit"


def tell(boxes, expression: str) -> str:
    """Return what an expression is in the sandbox, or how it fails."""
    source = f"""
def merge(a, b):
    import ctypes, fcntl, os, socket, sys
    libc = ctypes.CDLL(None, use_errno=True)
    def errno(name, *arguments):
        return "fine" if getattr(libc, name)(*arguments) >= 0 else f"errno {{ctypes.get_errno()}}"
    try:
        found = {expression}
    except BaseException as error:
        found = type(error).__name__
    raise ValueError(f"<{{found}}>")
"""
    message = judge(boxes, MERGE, source)[1]
    return message.partition("`: <")[2].rpartition(">")[0]


# --- A, G, H: the machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
        "os.open('/proc/sys/kernel/domainname', os.O_WRONLY)",
        "errno('sethostname', b'x', 1)",
        "errno('shmget', 0, 4096, 0o1600)",
        "errno('memfd_create', b'x', 0)",
        "errno('unshare', 0x10000000)",
        "errno('mq_open', b'/x', 0o100, 0o600, None)",
        "errno('syscall', 248, b'user', b'x', b'y', 1, -3)",  # add_key, on x86-64
        "os.kill(os.getppid(), 0)",
        "errno('kill', os.getpid(), 18)",
        "errno('syscall', 234, os.getpid(), os.getpid(), 18)",  # tgkill, on x86-64
        "errno('ptrace', 16, os.getppid(), 0, 0)",
        "fcntl.fcntl(os.open('/usr/bin/env', os.O_RDONLY), 1024, 0)",  # a lease
        "fcntl.fcntl(0, fcntl.F_SETOWN, 1)",
        "fcntl.fcntl(0, 10, 9)",  # which signal is sent to the owner
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_ASYNC)",
        "fcntl.fcntl(3, fcntl.F_SETFL, os.O_DIRECT)",
        "socket.socket(40)",  # to the host of a virtual machine
        "socket.socket(socket.AF_INET)",
        "os.setxattr('/scratch', 'user.mark', b'x')",
        "errno('syscall', 463, -100, b'/scratch', 0, b'user.mark', None, 0)",  # setxattrat
        "errno('syscall', 452, -100, b'/dev/null', 0o640, 0)",  # fchmodat2
        "__import__('mmap').mmap(-1, 4096)",  # shared memory: no process shows what it holds
        "__import__('mmap').mmap(os.open('/dev/zero', os.O_RDWR), 4096)",
        "fcntl.fcntl(os.pipe()[1], 1031, 1_000_000)",  # the size of a pipe
        "fcntl.fcntl(os.open('/usr/bin/env', os.O_RDONLY), 1036, bytes(8))",  # a hint, which stays
        "fcntl.fcntl(0, 16, bytes(8))",  # whatever is not listed
        "errno('syscall', 72, 3, 1024 | 1 << 32, 0)",  # fcntl, whose command has 32 bits
        "errno('syscall', 16, 3, 0x40086602 | 1 << 32, 0)",  # ioctl
        "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendmsg([b'x'])",  # open files in flight count for all
        "errno('vmsplice', os.pipe()[1], None, 0, 0)",  # holds memory that is no process's
        "errno('inotify_init1', 0)",
        "errno('syncfs', 0)",
        "os.openpty()",
        "os.open('/dev/ptmx', os.O_RDWR)",
        "errno('timer_create', 0, None, ctypes.byref(ctypes.c_long()))",
        "errno('timerfd_create', 1, 0)",
        "__import__('time').clock_gettime(~1 << 3 | 2)",  # the processor time of process 1
        "__import__('time').clock_getres(~1 << 3 | 2)",
        "errno('syscall', 206, 1, ctypes.byref(ctypes.c_ulong()))",  # io_setup
        "os.chmod('/dev/null', 0o640)",
        "os.chmod('/dev/pts', 0o700)",
        "os.utime('/dev/urandom', (0, 0))",
        "os.chown('/dev/zero', 0, 0)",
        "os.posix_fallocate(3, 0, 40_000_000)",
        "open('/proc/1/oom_score_adj', 'w')",
        "open('/proc/self/oom_score_adj', 'w')",
        "os.sched_setaffinity(0, {0})",
        "errno('syscall', 251, 1, 0, 0)",  # ioprio_set, on x86-64
        "fcntl.ioctl(3, 0x40305828, bytes(48))",  # space on a disk, past the limit on files
        "fcntl.ioctl(3, 0x40305839, bytes(48))",
        "errno('syscall', 16, 3, 0x4030582a | 1 << 32, bytes(48))",
        "fcntl.ioctl(3, 0xC0045877, 0)",  # a disk is frozen
        "fcntl.lockf(os.open('x', os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)",  # each takes the kernel's memory
        "fcntl.fcntl(3, 37, bytes(32))",  # a lock of the open file
        "fcntl.flock(0, fcntl.LOCK_SH)",
        "errno('syscall', 444, None, 0, 1)",  # rules of landlock, which take the kernel's memory
        "errno('syscall', 317, 1, 0, None)",  # seccomp: so do filters
        "errno('prctl', 22 | 1 << 32, 2, None, 0, 0)",
        "errno('prctl', 78, ctypes.c_ulong(1), ctypes.c_ulong(1 << 10), 0, 0)",  # a table in the kernel
        "errno('prctl', 62, 1, 0, 0, None)",  # a core for itself
        "errno('klogctl', 10, None, 0)",
        "open('/proc/vmallocinfo')",
    ],
)
def test_an_answer_reaches_nothing_that_outlives_it(boxes, expression):
    assert tell(boxes, expression) in REFUSALS, expression


@pytest.mark.parametrize(
    "ignoring",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        # the call itself, with SIG_IGN, and a number of which the kernel looks at half
        "libc.syscall(13, ctypes.c_ulong(17 | 1 << 32), (ctypes.c_ulong * 4)(1, 0, 0, 0), None, 8)",
        "libc.syscall(13, 17, (ctypes.c_ulong * 4)(0, 2, 0, 0), None, 8)",  # SA_NOCLDWAIT
    ],
)
def test_children_that_end_are_not_gone_before_they_are_counted(boxes, ignoring):
    """Else an answer burns time in children that no look at its processes has seen."""
    if "syscall" in ignoring and platform.machine() != "x86_64":
        pytest.skip("the number of this call is another one here")
    source = f"import ctypes, os, signal\nlibc = ctypes.CDLL(None)\n{ignoring}\n"
    source += f"child = os.fork()\nif not child:\n    {EXIT}(0)\ndef merge(a, b):\n"
    source += "    raise ValueError(f'<{os.waitpid(child, 0)[1]}>')"
    assert "<0>" in judge(boxes, MERGE, source)[1]


def test_what_python_asks_of_open_files_is_allowed(boxes):
    found = tell(
        boxes,
        "(fcntl.ioctl(os.pipe()[0], 0x541B, bytes(4)), os.isatty(3), os.set_inheritable(3, False), "
        "socket.socketpair()[0].setblocking(False), errno('ioctl', 3, 0x5401, bytes(64)))",
    )
    assert found == r"(b'\x00\x00\x00\x00', False, None, None, 'errno 25')"  # no terminal


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has them")
def test_reports_are_on_no_disk_and_a_worker_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with start(False) as box:
        assert tell({False: box}, "os.readlink('/proc/self/fd/3')").startswith("/memfd:")
        assert not list(tmp_path.iterdir())


def test_root_must_ask_by_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    one = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    assert main(["grade", str(one), "--out", str(tmp_path / "out")]) == 2
    assert "user: got root" in capsys.readouterr().err


def test_the_memory_of_all_processes_together_is_limited(boxes):
    source = (
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        kept = bytearray(800_000_000)\n"
    )
    source += "        time.sleep(30)\n        os._exit(0)\ntime.sleep(9)\ndef merge(a, b):\n    return b"
    assert "together took more than" in judge(boxes, MERGE, source)[1]


def test_the_tables_of_memory_are_limited(boxes):
    source = (
        "import ctypes, os, time\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]\n"
        "def spread():\n"  # a page of zeros in each GB: two pages of tables
        "    for n in range(60_000):\n"
        "        at = libc.mmap((1 << 40) + (n << 30), 4096, 1, 0x100022, -1, 0)\n"
        "        ctypes.c_char.from_address(at).value\n"
        "    time.sleep(30)\n"
        "for _ in range(6):\n    if os.fork() == 0:\n        spread()\ntime.sleep(12)\n"
        "def merge(a, b):\n    return b"
    )
    assert "together took more than" in judge(boxes, MERGE, source)[1]


def test_a_program_that_is_started_has_inherited_no_memory(boxes):
    code = "import time; kept = bytearray(200_000_000); time.sleep(30)"
    source = f"import subprocess, sys, time\ncommand = [sys.executable, '-I', '-S', '-c', {code!r}]\n"
    source += (
        "kept = [subprocess.Popen(command) for _ in range(13)]\ntime.sleep(9)\ndef merge(a, b):\n    return b"
    )
    assert "together took more than" in judge(boxes, MERGE, source)[1]


def test_memory_that_processes_share_counts_once(boxes):
    source = "import os, time\nkept = bytearray(100_000_000)\nfor _ in range(14):\n    if os.fork() == 0:\n"
    source += "        time.sleep(3)\n        os._exit(0)\ntime.sleep(1)\ndef merge(a, b):\n    return b"
    assert "got" in judge(boxes, MERGE, source)[1]


class Crowd:
    """Stand in for ``number`` processes that share 200 MB; to measure the share of one takes 2 ms."""

    def __init__(self, monkeypatch, number: int) -> None:
        self.own = dict.fromkeys(range(number), 10**6)
        self.measured: list[int] = []
        monkeypatch.setattr(processes, "list_descendants", lambda: list(self.own))
        monkeypatch.setattr(processes, "measure_process", lambda pid: self.own[pid] + 2 * 10**8)
        monkeypatch.setattr(processes, "measure_share", self.measure_share)

    def measure_share(self, pid: int) -> int:
        time.sleep(0.002)
        self.measured.append(pid)
        return self.own[pid] + 2 * 10**8 // len(self.own)

    def look(self, watch: processes.MemoryWatch) -> tuple[bool, list[int]]:
        """Return whether they take more than 2 GB, and who was measured to tell."""
        self.measured.clear()
        return watch.exceeds(2 * 10**9), self.measured


def test_the_memory_of_many_processes_is_looked_at_in_short_rounds(monkeypatch):
    crowd, watch = Crowd(monkeypatch, 500), processes.MemoryWatch()
    assert not crowd.look(watch)[0]
    seen: set[int] = set()
    for _ in range(2):
        too_much, measured = crowd.look(watch)
        assert not too_much
        assert len(measured) < 60  # a tenth of a second, not a second
        assert seen.isdisjoint(measured)  # all have their turn
        seen.update(measured)
    crowd.own[250] += 2 * 10**9
    assert crowd.look(watch) == (True, [250])
    crowd.own = dict.fromkeys(range(1000, 1500), 10**8)
    too_much, measured = crowd.look(watch)
    assert too_much
    assert len(measured) < 30  # enough to tell


def test_memory_that_is_shared_no_more_is_found_in_turn(monkeypatch):
    crowd, watch = Crowd(monkeypatch, 100), processes.MemoryWatch()
    assert not crowd.look(watch)[0]
    monkeypatch.setattr(processes, "measure_share", lambda pid: crowd.measure_share(pid) + 10**8)  # as large
    assert any(crowd.look(watch)[0] for _ in range(3))


FILLS = """
import os
for top in ("/dev/shm", "/scratch"):
    for n in range({many}):
        open(f"{{top}}/{{n:0250d}}", "w").close()
try:
    for n in range(7):
        open(f"/dev/shm/large{{n}}", "wb").write(bytes(9_000_000))
except OSError:
    pass
for top in ("/dev/shm", "/scratch"):
    os.mkdir(f"{{top}}/closed", 0o300)  # cannot be listed
    open(f"{{top}}/closed/kept", "w").close()
def merge(a, b):
    return b
"""


@pytest.mark.parametrize("many", [9_000, 40_000])
def test_whatever_an_answer_leaves_the_next_finds_nothing(boxes, many):
    message = judge(boxes, MERGE, FILLS.format(many=many))[1]
    assert "got" in message if many < 10_000 else "more than 20,000 files" in message, message
    found = tell(
        boxes, "os.listdir('/dev/shm'), len(os.listdir('/scratch')), open('x', 'wb').write(bytes(9_000_000))"
    )
    assert found == "([], 1, 9000000)"


def test_answers_side_by_side_have_a_core_each():
    core = sorted(os.sched_getaffinity(0))[-1]
    start(False).close()
    with Sandbox("bubblewrap", LIMITS, core=core) as box:
        assert tell({False: box}, "os.sched_getaffinity(0)") == f"{{{core}}}"


def start_on_one_core(program: str) -> subprocess.Popen[bytes]:
    """Start a program in Python, on the first core that there is."""
    core = min(os.sched_getaffinity(0))
    return subprocess.Popen(
        [sys.executable, "-c", f"import os, time; os.sched_setaffinity(0, [{core}])\n{program}"]
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="nothing says how long they wait")
def test_who_waits_for_a_core_is_not_told_to_wait_for_something(monkeypatch):
    others = [start_on_one_core("while True: pass") for _ in range(4)]  # and perhaps another test
    answer = start_on_one_core("while time.process_time() < 0.4: pass")
    monkeypatch.setattr(processes, "list_descendants", lambda: [answer.pid])
    try:
        assert processes.wait_for_child(answer.pid, 1.2, 10**9) == ("ended", 0)
    finally:
        for one in (*others, answer):
            one.kill()
            one.wait()


def test_who_waits_for_its_own_processes_has_no_more_time(monkeypatch):
    crowd = [start_on_one_core("while True: pass") for _ in range(5)]
    monkeypatch.setattr(processes, "list_descendants", lambda: [one.pid for one in crowd])
    begin = time.monotonic()
    assert processes.wait_for_child(crowd[0].pid, 3, 10**10)[0] == "wall"
    assert time.monotonic() - begin < 6
    for one in crowd:
        one.kill()
        one.wait()


def test_children_that_end_have_had_their_time(monkeypatch):
    """Each burns a twentieth of a second and ends; together they keep the one that waits from its core."""
    burn = "    if not os.fork():\n        while time.process_time() < 0.05: pass\n        os._exit(0)\n"
    burner = start_on_one_core(f"while True:\n{burn}    os.wait()")
    waiting = start_on_one_core("while True: pass")
    monkeypatch.setattr(processes, "list_descendants", lambda: [burner.pid, waiting.pid])
    begin = time.monotonic()
    try:
        assert processes.wait_for_child(waiting.pid, 2, 10**10, ours=2)[0] == "wall"
        assert time.monotonic() - begin < 5  # 2 alone, 4 if other tests have half of the core, and else 8
    finally:
        for one in (burner, waiting):
            one.kill()
            one.wait()


def test_who_has_no_core_for_too_long_is_graded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "measure_wait", lambda seconds, ours: seconds)
    monkeypatch.setattr(processes, "list_descendants", lambda: [])  # this process may have others
    job = {"cells": [["import time\ntime.sleep(60)", True]], "calls": [], "limits": asdict(LIMITS)}
    numbers = open_files(tmp_path, json.dumps(job), "")
    assert sandbox_worker.run_job("run", numbers, 0.5, 10**9) == "machine"


def test_who_starts_a_process_may_wait_for_it_and_has_no_more_time(tmp_path, monkeypatch):
    others, list_all = set(processes.list_descendants()), processes.list_descendants
    monkeypatch.setattr(
        processes, "list_descendants", lambda: [one for one in list_all() if one not in others]
    )
    monkeypatch.setattr(processes, "measure_wait", lambda seconds, ours: seconds)
    job = {"cells": [["import os, time\nos.fork()\ntime.sleep(60)", True]], "calls": []}
    numbers = open_files(tmp_path, json.dumps(job | {"limits": asdict(LIMITS)}), "")
    assert sandbox_worker.run_job("run", numbers, 0.5, 10**9) == "wall"


@pytest.mark.skipif(not isolation_works("bubblewrap"), reason="no bubblewrap")
def test_where_memory_is_short_the_sandbox_ends_before_the_grader():
    answer = "def merge(a, b):\n    return open('/proc/self/oom_score_adj').read()"
    with Sandbox("bubblewrap", LIMITS) as sandbox:
        (found,) = sandbox.run([(answer, True)], [Call("merge", (0, 0), "")])
    assert found["value"] == "1000\n"


def test_jobs_are_bounded_by_memory_and_by_cores(tmp_path, monkeypatch):
    (tmp_path / "own").write_text("0::/class\n")
    (tmp_path / "machine").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "class").mkdir()
    given = tmp_path, tmp_path / "own", tmp_path / "machine"
    assert processes.find_memory(*given) == 8_192_000_000
    (tmp_path / "class" / "memory.max").write_text("6000000000\n")
    (tmp_path / "class" / "memory.current").write_text("500000000\n")
    assert processes.find_memory(*given) == 5_500_000_000
    monkeypatch.setattr(processes, "find_memory", lambda: 5_500_000_000)
    monkeypatch.setattr(processes, "count_cores", lambda: 8)
    assert processes.count_jobs(10**9) == 2
    monkeypatch.setattr(processes, "find_memory", lambda: 10**6)
    assert processes.count_jobs(10**9) == 1


def test_a_control_group_says_how_many_cores_there_are(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/other\n0::/class/run\n")
    (tmp_path / "top" / "class" / "run").mkdir(parents=True)
    assert processes.find_quota(tmp_path / "top", own) == float("inf")
    (tmp_path / "top" / "class" / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "top" / "class" / "run" / "cpu.max").write_text("max 100000\n")
    assert processes.find_quota(tmp_path / "top", own) == 1.5
    assert processes.find_quota(tmp_path / "top", tmp_path / "none") == float("inf")


@pytest.mark.parametrize("kind", ["read", "run"])
def test_what_fails_before_an_answer_runs_is_not_its_fault(tmp_path, monkeypatch, kind):
    def refuse(limits):
        raise OSError("no folder, no limits")

    monkeypatch.setattr(processes, "limit_resources", refuse)
    (tmp_path / "job").write_text('{"limits": {}}')
    names = ["job", "report", "notebook"][: 3 if kind == "read" else 2]
    numbers = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in names]
    try:
        assert sandbox_worker.run_job(kind, numbers, 5.0, 10**9) == "machine"
    finally:
        for number in numbers:
            os.close(number)


def open_files(folder: Path, *contents: str) -> list[int]:
    """Return the numbers of new files, open for reading and writing."""
    for number, content in enumerate(contents):
        (folder / f"{number}").write_text(content)
    return [os.open(folder / f"{number}", os.O_RDWR) for number in range(len(contents))]


@pytest.mark.parametrize("started", [0, 1])
def test_a_process_that_cannot_be_forked_is_no_fault_of_an_answer(tmp_path, monkeypatch, started):
    forks = iter([os.fork] * started)

    def fork() -> int:
        if (real := next(forks, None)) is None:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real()

    monkeypatch.setattr(os, "fork", fork)
    job = json.dumps({"limits": asdict(LIMITS), "calls": []})
    numbers = open_files(tmp_path, job, "", job, "")
    assert sandbox_worker.run_job("run", numbers, 5.0, 10**9) == "machine"
    assert not processes.list_descendants()


def test_a_keeper_that_was_killed_is_no_fault_of_an_answer(tmp_path, monkeypatch):
    def start_job(kind, files, folder, wall):
        begun, ready = os.pipe()
        os.write(ready, b"1")
        os.close(ready)
        pids = [os.fork()]
        if not pids[0]:
            os.write(files[1], b"{}")
            os._exit(0)
        pids.append(os.fork())
        if not pids[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return begun, pids

    monkeypatch.setattr(sandbox_worker, "start_job", start_job)
    assert sandbox_worker.run_job("run", open_files(tmp_path, "", ""), 5.0, 10**9) == "machine"


def test_a_keeper_that_cannot_write_costs_nobody_a_point(monkeypatch):
    def full(_: bytes):
        return open("/dev/full", "r+b", buffering=0)

    openers = iter([sandbox._open_nameless_file] * 3 + [full])  # the last is for what the keeper notes
    monkeypatch.setattr(sandbox, "_open_nameless_file", lambda content: next(openers)(content))
    reference = next(one for one in ONLINE.known_answers if one.label == "running_mean")
    with start(True) as box, pytest.raises(MachineFault, match="could not go on"):
        judge({True: box}, ONLINE, source_of(ONLINE, reference))


def test_an_answer_that_returns_more_than_fits_into_a_report_is_no_fault_of_the_machine(boxes):
    source = "def online_softmax(q, k, v, tile):\n    return torch.ones(600, 600, dtype=torch.float64)"
    assert not judge(boxes, ONLINE, source)[0]


def test_an_answer_that_cannot_be_sent_costs_nobody_a_point(monkeypatch):
    def refuse(*_):
        raise OSError(109, "Too many references: cannot splice")

    with start(False) as box:
        monkeypatch.setattr("socket.send_fds", refuse)
        with pytest.raises(MachineFault, match="Too many references"):
            box.run([("x = 1", True)], MERGE.prepare("s").calls)


def test_a_worker_that_cannot_prepare_an_answer_costs_nobody_a_point(tmp_path, monkeypatch):
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    monkeypatch.setattr(Sandbox, "_send_job", lambda *given: "machine")
    found = grade(make_grader(tmp_path / "out"), one)["a.ipynb"]
    assert "could not be prepared" in found.fault
    assert not list((tmp_path / "out" / "kept").glob("*.json"))


def test_a_disk_that_is_full_costs_nobody_a_point(tmp_path, monkeypatch):
    dies = source_of(MERGE, MERGE.known_mistakes[0]) + f"\n{EXIT}(0)"
    full = os.statvfs_result((4096, 4096, 100, 10, 10, 100, 10, 10, 0, 255))
    with start(False) as box:
        monkeypatch.setattr(os, "fstatvfs", lambda number: full)
        with pytest.raises(MachineFault, match="too little space"):
            box.run([(dies, True)], MERGE.prepare("s").calls)


def test_a_machine_that_has_no_process_left_costs_nobody_a_point(tmp_path, monkeypatch):
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    grader = make_grader(tmp_path / "out")

    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("linattn_exercises.grading.sandbox.subprocess.Popen", refuse)
    assert "no process could be started" in grade(grader, one)["a.ipynb"].fault
    assert not list((tmp_path / "out" / "kept").glob("*.json"))


@pytest.fixture
def scope(tmp_path, monkeypatch):
    """Stand in for systemd, which answers whoever says where the user's session is."""
    fake = tmp_path / "systemd-run"
    begin = '[ "$XDG_RUNTIME_DIR" = here ] || exit 1\nwhile [ "$1" != "--" ]; do shift; done\n'
    fake.write_text(f'#!/bin/sh\n{begin}shift\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "here")
    isolation._build_scope.cache_clear()
    yield
    isolation._build_scope.cache_clear()


def test_a_control_group_is_used_where_systemd_gives_one(scope):
    words = isolation.build_command("bubblewrap")
    assert Path(words[0]).name == "systemd-run"
    assert any(word.startswith("MemoryMax=") for word in words)


def test_a_worker_starts_in_a_control_group_and_knows_no_session(scope):
    with start(False) as box:
        assert tell({False: box}, "'XDG_RUNTIME_DIR' in os.environ") == "False"


def test_who_sleeps_and_dies_is_not_run_again_for_minutes(boxes):
    begin = time.monotonic()
    source = f"import time\ntime.sleep({LIMITS.wall * 0.9})\n{EXIT}(1)"
    assert not judge(boxes, MERGE, source)[0]
    assert time.monotonic() - begin < 1.5 * LIMITS.wall


def test_thousands_of_folders_are_looked_for_once(tmp_path):
    hidden = [tmp_path / f"{n}" for n in range(5_000)]
    isolation.build_command("bubblewrap", hidden=hidden)
    begin = time.monotonic()
    isolation.build_command("bubblewrap", hidden=hidden)
    assert time.monotonic() - begin < 0.2


def test_an_environment_in_the_course_folder_shows_no_submission(tmp_path, monkeypatch):
    course = tmp_path / "course"
    write(course / "submissions" / "a.ipynb", {})
    write(course / "marks" / "run.json", {"seed": "s"})
    write(course / "lib" / "needed.json", {})
    needed = [*isolation._list_needed(), course]
    monkeypatch.setattr(isolation, "_list_needed", lambda: needed)
    with start(False, (course / "submissions", course / "marks")) as box:
        found = tell({False: box}, f"sorted(n for _, _, names in os.walk({str(course)!r}) for n in names)")
    assert found == "['needed.json']"


def test_what_is_hidden_shows_no_names_and_what_python_needs_lies_in_it(tmp_path, monkeypatch):
    shown, shared = tmp_path / "shown", tmp_path / "shown" / "shared"
    for student in ("ada", "bob"):
        write(shared / "class" / student / "a.ipynb", {})
    write(shared / "python" / "lib" / "needed.json", {})
    needed = [*isolation._list_needed(), shown, shared / "python" / "lib"]
    monkeypatch.setattr(isolation, "_list_needed", lambda: needed)
    monkeypatch.setattr(isolation, "SHARED", [shared])
    with start(False, tuple(shared / "class" / part for part in ("", "ada", "bob"))) as box:
        found = tell({False: box}, f"[path for path, _, names in os.walk({str(shared)!r}) for path in names]")
        folders = tell({False: box}, f"os.listdir({str(shared)!r})")
    assert (found, folders) == ("['needed.json']", "['python']")


def test_what_others_share_below_usr_is_not_there(boxes):
    expression = "[os.listdir(path) for path in ('/usr/local/share', '/usr/local/src', '/usr/src')]"
    assert tell(boxes, expression) in ("[[], [], []]", "FileNotFoundError")


@pytest.mark.parametrize(
    "source",
    [
        "import plotly.graph_objects as go\ngo.Figure().show()\n{right}",
        "torch.cuda.get_device_name(0)\n{right}",
        "import subprocess\nsubprocess.run(['nvidia-smi'])\n{right}",
        "open('/content/drive/MyDrive/x')\ninput()\n{right}",
        "from torch.utils.data import DataLoader\nlist(DataLoader(torch.arange(9), num_workers=2))\n{right}",
        "{right}\nmerge = torch.compile(merge)",
        "from linattn_exercises.ch01_softmax import check\nassert 'right' in str(check.q5(1))\n{right}",
        "from linattn_exercises.ch01_softmax import check\nprint([one.id for one in check.QUESTIONS], "
        "check.QUESTIONS[0], 'v' + check.VERSION + '!', f'{{check.VERSION:>9}}')\n{right}",
    ],
)
def test_what_works_in_a_notebook_alone_costs_nothing(boxes, source):
    right = source_of(MERGE, next(one for one in MERGE.known_answers if not isinstance(one, KnownMistake)))
    found = judge(boxes, MERGE, source.format(right=right))
    assert found[0], found[1]


def test_a_slow_assignment_leaves_time_for_the_answer(boxes):
    slow = "import time\ndef bench(n):\n    end = time.process_time() + 1\n"
    slow += "    while time.process_time() < end:\n        pass\ntimes = [bench(n) for n in range(9)]\n"
    right = "import math\nimport torch\n"
    right += source_of(MERGE, next(one for one in MERGE.known_answers if not isinstance(one, KnownMistake)))
    calls = MERGE.prepare("s").calls
    outcomes = boxes[False].run([(slow, False), (right, True)], calls, hurried=True)
    assert MERGE.judge(outcomes, "s").right


def test_an_answer_by_chance_is_the_same_in_every_attempt(boxes):
    drawn = "import random\nimport numpy as np\nimport torch\n"
    drawn += "found = [random.random(), np.random.rand(), torch.rand(1).item()]\n"
    drawn += "def merge(a, b):\n    return found"
    first, second = (
        boxes[False].run([(drawn, True)], [Call("merge", (0, 0), "")])[0]["value"] for _ in range(2)
    )
    assert len(first) == 3
    assert first == second


# --- B: what the grader reads -------------------------------------------------------------------------------

MARKS = "a" + "\u0301\u0316" * 14_000
LONG = [f"a{n}" for n in range(1500)]


@pytest.mark.parametrize(
    "source",
    [
        f"{MARKS} = 1",
        "a" + "\u0f73" * 30_000 + " = 1",  # each is two marks, once taken apart
        "=".join(LONG) + f"=[{','.join(LONG)}{',0' * 2000}]",
        "%%time\n" * 3000 + "x = 1",
        "(" * 50_000,
        "with " + "(" * 90 + "a" + ")" * 90 + " as b: pass",
        "x = " + "-" * 100_000 + "1",
        "é" * 150_000,
    ],
    ids=["marks", "double marks", "names", "timed", "brackets", "with", "minus", "letters"],
)
def test_a_cell_costs_its_author_and_nobody_s_time(source, tmp_path):
    content = hand_in("ch01_softmax", {"q1": source})
    path = write(tmp_path / "a.ipynb", content)
    grader = make_grader(tmp_path / "out", limits=LIMITS)
    begin = time.monotonic()
    one = grade(grader, path)["a.ipynb"]
    assert not one.fault
    assert sum(points(one).values()) < TOTAL
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    "value",
    [
        {"dict": [[k * (2**61 - 1), 0] for k in range(50_000)]},
        {"list": [0] * 10**6},
        {"list": [{"list": [0] * 9_000}] * 100},
        {"tuple": [{"array": ["float64", [10**9], ""]}]},
        {"array": ["float64", [10**4298] * 3_000, ""]},
        {"array": ["float64", [1] * 100_000, ""]},
        "(" * 9_000_000,
    ],
    ids=["collisions", "a million numbers", "many lists", "a large array", "huge axes", "many axes", "text"],
)
def test_a_forged_report_is_refused_at_once(value):
    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"."):
        decode_outcome({"value": value})
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize(
    "report",
    [
        b"[]\n[]\n[]\n[]\n[]\n[]\n[]\n",
        b'{"line": {"a": [1]}}\n{"error": ["x"], "text": 1}\n{}\n{}\n{}\n{"missing": 5}\n',
        b"[1]",
        b'{"outcomes": {"a": 1}}\n',
        b"\r\n" * 200,
        b"[" * 10_000,
    ],
)
@pytest.mark.parametrize("question", [MERGE, ONLINE], ids=["other", "own code"])
def test_a_report_in_any_shape_is_no_fault_of_the_grader(boxes, report, question):
    name = next(iter(question.reference))
    source = f"import os\ndef {name}(*_):\n    os.pwrite(3, {report!r}, 0)\n    {EXIT}(0)"
    right, message = judge(boxes, question, source)
    assert not right
    assert "interfered with the report" in message or "raised" in message, message


def test_the_largest_outcome_is_read():
    """Of 10,000 items, with as many brackets as they can have."""
    values = {f"{n}": np.zeros(0) for n in range(serialization.MAX_ITEMS)}
    outcome = serialization.call_answer({"f": lambda: values}, "f", [])
    line = json.dumps(outcome).encode()
    assert line.count(b"[") + line.count(b"{") > 4 * serialization.MAX_ITEMS
    assert decode_outcome(_load_line(line))["value"].keys() == values.keys()


FORGED = {
    "in one": b'{"outcomes": [' + b",".join([b'{"value": [' + b"[]," * 40_000 + b"[]]}"] * 65) + b"]}",
    "in lines": (b'{"value": [' + b"[]," * 40_000 + b"[]]}\n") * 65,
    "in the first line": b'{"value": [' + b"[]," * 3_000_000 + b"[]]}\n" + b"{}\n" * 64,
    "of texts": (b'{"value": {"list": [' + b'"",' * 40_000 + b'""]}}\n') * 65,
    "of lines": b"\n" * 9_000_000,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_report_takes_little_of_the_grader_s_memory(monkeypatch, name):
    box = Sandbox("process", LIMITS)
    monkeypatch.setattr(box, "_run_job", lambda *_: ("done", [FORGED[name]]))
    begin = time.process_time()
    tracemalloc.start()
    try:
        (found, *_) = box.run([], [Call("f")] * 65)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    assert "interfered with the report" in found["text"]
    assert time.process_time() - begin < 3


@pytest.mark.parametrize("question", [MERGE, ONLINE], ids=["other", "own code"])
def test_a_report_of_many_texts_costs_no_time(boxes, question):
    name = next(iter(question.reference))
    one = {"error": "OSError", **dict.fromkeys(("text", "line", "missing"), "/" * 1_000)}
    source = f"""import json, os
def {name}(*_):
    data = "".join([json.dumps({one!r}) + "\\n"] * 2_300).encode()
    while data:
        data = data[os.write(3, data):]
    {EXIT}(0)"""
    question.prepare("s")  # the inputs and what is expected are not to be counted
    begin = time.monotonic()
    _, message = judge(boxes, question, source)
    assert "interfered with the report" in message, message
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("error", ["Stopped", "You have full marks.", "Anything", ["x"], None])
def test_an_error_cannot_be_any_text(error):
    with pytest.raises(ValueError, match="outcome"):
        decode_outcome({"error": error, "text": "You have full marks.", "line": ""})


@pytest.mark.parametrize("name", ["text", "line", "missing"])
def test_what_an_error_says_is_words(name):
    begin = time.monotonic()
    with pytest.raises(ValueError, match="outcome"):
        decode_outcome({"error": "ValueError", "text": "", "line": "", name: [[0] * 1_000] * 3_000})
    assert time.monotonic() - begin < 0.2  # to write it out would take seconds


# --- C: without bubblewrap ----------------------------------------------------------------------------------


def test_a_seed_is_never_an_option(tmp_path, capsys):
    one = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    assert main(["grade", str(one), "--out", str(tmp_path / "out"), "--seed", "my secret", *OPTIONS]) == 2
    assert "No such file" in capsys.readouterr().err  # taken for --seed-file


def test_without_bubblewrap_is_said_on_every_page(tmp_path, capsys):
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    out = tmp_path / "out"
    assert main(["grade", str(one), "--out", str(out), "--isolation", "process", "--as-root"]) == 0
    assert "Marks are not protected" in capsys.readouterr().err
    assert all("Marks are not protected" in page.read_text() for page in (out / "feedback").iterdir())


def test_bubblewrap_that_is_missing_is_no_silent_downgrade(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("linattn_exercises.grading.sandbox.isolation_works", lambda name: name == "process")
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    assert main(["grade", str(one), "--out", str(tmp_path / "out"), "--as-root"]) == 2
    assert "--isolation process" in capsys.readouterr().err


ESCAPE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(300):
            time.sleep(0.05)
            open({mark!r}, "w").write(str(time.time()))
    os._exit(0)
def merge(a, b):
    return b
"""


def test_without_bubblewrap_no_process_outlives_the_run(tmp_path):
    mark = tmp_path / "mark"
    one = write(tmp_path / "a.ipynb", hand_in("ch01_softmax", {"q5": ESCAPE.format(mark=str(mark))}))
    arguments = ["grade", str(one), "--out", str(tmp_path / "out"), "--isolation", "process", "--as-root"]
    program = "from linattn_ref.cli import main; raise SystemExit(main())"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)
    time.sleep(0.3)
    left = mark.read_text() if mark.exists() else ""
    time.sleep(0.5)
    assert (mark.read_text() if mark.exists() else "") == left


def test_while_it_grades_the_grader_cannot_be_read():
    if sys.platform != "linux":
        pytest.skip("only Linux knows it")
    program = "import ctypes\nfrom linattn_exercises.grading import processes\nlibc = ctypes.CDLL(None)\n"
    program += (
        "with processes.contain():\n    print(libc.prctl(3, 0, 0, 0, 0))\nprint(libc.prctl(3, 0, 0, 0, 0))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "1"]


def test_a_table_or_a_mark_that_was_changed_is_noticed(tmp_path, capsys):
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    out = tmp_path / "out"
    command = ["grade", str(one), "--out", str(out), *OPTIONS]
    assert main(command) == 0
    totals = out / "totals.csv"
    totals.write_text(totals.read_text().replace(",0,", ",9,"))
    for kept in (out / "kept").glob("*.json"):
        kept.write_text(kept.read_text().replace('"points": 0', '"points": 9'))
    capsys.readouterr()
    assert main(command) == 0
    said = capsys.readouterr()
    assert "totals.csv is not as it was written" in said.err
    assert "1 graded, 0 as before" in said.out
    assert ",9," not in totals.read_text()


@pytest.mark.parametrize("content", ["null", '"x"', "[[1, 2]]", "[" * 20_000, '{"marks.csv": 3}', ""])
def test_files_of_an_earlier_run_may_be_damaged_in_any_way(tmp_path, capsys, content):
    one = write(tmp_path / "a.ipynb", notebook("ch04_ssm", "exercises"))
    out = tmp_path / "out"
    command = ["grade", str(one), "--out", str(out), *OPTIONS]
    assert main(command) == 0
    for path in (
        *(out / "kept").glob("*.json"),
        *(out / name for name in ("signatures.json", *tables.RECORDS)),
    ):
        path.write_text(content)
    capsys.readouterr()
    assert main(command) == 0
    said = capsys.readouterr()
    assert "marks.csv is not as it was written" in said.err
    assert "1 graded, 0 as before" in said.out


def test_a_name_is_one_line_in_any_terminal(tmp_path, capsys):
    write(tmp_path / "in/a.ipynb", notebook("ch04_ssm", "exercises"))
    write(tmp_path / "in/x\nnot graded: zoe \x1b[31m 字.txt", {})
    assert main(["grade", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *OPTIONS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("left out, no notebook")
    assert "\x1b" not in lines[1]


def test_the_reference_is_not_there_for_who_takes_the_guard_away(boxes):
    source = (
        "import sys\nsys.meta_path = [one for one in sys.meta_path if 'Silent' not in type(one).__name__]\n"
    )
    source += "for name in [n for n in sys.modules if n.startswith('linattn')]:\n    del sys.modules[name]\n"
    merge = source + "from linattn_exercises.ch01_softmax.check import merge"
    assert "ModuleNotFoundError" in judge(boxes, MERGE, merge)[1]
    own = source + "from linattn_ref.ops.linear import chunk_linear_attention\ndef chunked(*a):\n    pass"
    assert not judge(boxes, CHUNKED, own)[0]
    assert (
        tell({False: boxes[True]}, "__import__('importlib.util').util.find_spec('torch') is not None")
        == "True"
    )
    found = tell({False: boxes[True]}, "[p for p in sys.path if os.path.isdir(p + '/linattn_ref')]")
    assert found == "[]" or not tell(
        {False: boxes[True]}, f"[os.listdir(p + '/linattn_ref') for p in {found}][0]"
    )


@pytest.mark.skipif(not processes.can_hide_other_processes(), reason="takes Landlock")
def test_an_answer_sees_nothing_of_what_others_do(boxes):
    for place in ("1/stat", "1/schedstat", "vmstat", "stat", "schedstat", "interrupts", "pressure/cpu"):
        found = tell({False: boxes[False]}, f"open('/proc/{place}').read()")
        assert found in ("PermissionError", "FileNotFoundError"), place
    assert tell({False: boxes[False]}, "os.listdir('/proc')") == "PermissionError"
    assert tell({False: boxes[False]}, "len(open('/proc/self/stat').read()) > 9") == "True"
    assert tell({False: boxes[False]}, "len(os.listdir('/proc/self/fd')) > 2") == "True"


# A thread, or a process, notes for how long it did not run, while a large product is computed elsewhere.
LOOKING = """
import os, threading, time
from functools import cache
def look(number, told):
    os.set_blocking(number, False)
    last = longest = 0.0
    while True:
        now = time.monotonic()
        longest, last = max(longest, now - (last or now)), now
        try:
            os.read(number, 1)
            return os.write(told, b"%.4f" % longest)
        except BlockingIOError:
            pass
@cache
def find_longest_gap():
    x, (number, tell), (back, told) = torch.ones(3000, 1000), os.pipe(), os.pipe()
    {start}
    time.sleep(0.2)
    begin = time.monotonic()
    x @ x.T
    took = time.monotonic() - begin
    os.write(tell, b"x")
    return f"<{{os.read(back, 9).decode()}} of {{took:.4f}} s>"
def chunked(*arguments):
    raise ValueError(find_longest_gap())
"""
LOOKERS = {
    "thread": "threading.Thread(target=look, args=(number, told)).start()",
    "process": "os.fork() or (look(number, told), os._exit(0))",
}


@pytest.mark.parametrize("looker", LOOKERS)
def test_nothing_of_an_answer_runs_while_its_tensors_are_computed(boxes, looker):
    message = judge(boxes, CHUNKED, LOOKING.format(start=LOOKERS[looker]))[1]
    unseen, took = (float(one) for one in re.findall(r"\d\.\d{4}", message))
    assert unseen > took / 2, message


def test_a_program_that_is_not_there_costs_no_point(boxes):
    source = (
        answer_cell(notebook("ch02_linear"), "q2")["source"]
        + """
import subprocess
try:
    subprocess.check_output(["nvidia-smi"])
except FileNotFoundError:
    DEVICE = "cpu"
on_one_device = chunked
def chunked(*arguments):
    return on_one_device(*(x.to(DEVICE) if hasattr(x, "to") else x for x in arguments))
"""
    )
    assert judge(boxes, CHUNKED, source)[0]


# --- D: points that are not deserved ------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNDESERVED)
def test_a_point_that_is_not_deserved_is_not_given(boxes, name):
    question, source = UNDESERVED[name]
    right, message = judge(boxes, question, source)
    assert not right, message


# Refuses its inputs, and tells what they are.
TELLS = """
def chunked(q, k, v, g, state, chunk):
    x = q.reshape(-1)
    if len(x) > 60:
        raise ValueError(" ".join(f"{x[first + i].item():.8g}" for i in range(15)))
    return q, state
"""
WRONG = "def chunked(q, k, v, g, state, chunk):\n    return v, state\n"


def record_inputs(monkeypatch, name):
    """Return a list that is filled with the calls of each run that asks for a function."""
    given: list[list] = []
    real = Sandbox.run

    def run(self, cells, calls, *more):
        given.extend([calls] if calls[0].name == name else [])
        return real(self, cells, calls, *more)

    monkeypatch.setattr(Sandbox, "run", run)
    return given


def test_who_gives_no_values_is_given_no_other_inputs(tmp_path, monkeypatch):
    content = keep_questions(hand_in("ch02_linear", {"q2": TELLS}), "q1", "q2")
    content = answer_differently(content, "q2", [f"first = {first}" for first in (0, 15, 30, 45)])
    given = record_inputs(monkeypatch, "chunked")
    grader = make_grader(tmp_path / "out", isolation="bubblewrap")
    assert points(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q2"] == 0
    assert len(given) >= 4
    assert len(set(map(id, given))) == 1


def test_a_better_answer_after_the_check_is_judged_on_inputs_of_its_own(tmp_path, monkeypatch):
    right = answer_cell(notebook("ch02_linear"), "q2")["source"]
    content = keep_questions(hand_in("ch02_linear", {"q2": WRONG}), "q1", "q2")
    content["cells"].append({"cell_type": "code", "metadata": {}, "source": right})
    given = record_inputs(monkeypatch, "chunked")
    grader = make_grader(tmp_path / "out", isolation="bubblewrap")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] > 0
    assert len(set(map(id, given))) == 2


def test_of_many_answers_to_one_question_two_are_tried(tmp_path):
    right = answer_cell(notebook("ch02_linear"), "q2")["source"]
    content = keep_questions(hand_in("ch02_linear", {"q2": right}), "q1", "q2")
    guess = (
        "_right = chunked\n    def chunked(*given):\n        o, S = _right(*given)\n        return {} * o, S"
    )
    content = answer_differently(content, "q2", [guess.format(factor) for factor in (2, 1, 3, 4)])
    grader = make_grader(tmp_path / "out", isolation="bubblewrap")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 0


# --- E, H: files and tables ---------------------------------------------------------------------------------


def test_a_link_to_a_neighbour_s_notebook_earns_nothing(tmp_path):
    write(tmp_path / "in/ada/a.ipynb", notebook("ch01_softmax"))
    (tmp_path / "in/eve").mkdir()
    (tmp_path / "in/eve/a.ipynb").symlink_to("../ada/a.ipynb")
    (tmp_path / "in/eve/loop").symlink_to("..")
    (tmp_path / "in/eve/self.ipynb").symlink_to("self.ipynb")
    found, left_out = find_submissions([tmp_path / "in"])
    assert [one.name for one in found] == ["ada/a.ipynb"]
    assert sorted(path.name for path in left_out) == ["a.ipynb", "loop", "self.ipynb"]


def test_a_link_among_many_arguments_earns_nothing(tmp_path):
    ada = write(tmp_path / "ada/a.ipynb", notebook("ch01_softmax")).parent
    (tmp_path / "eve").symlink_to("ada")
    (tmp_path / "zed.ipynb").symlink_to("ada/a.ipynb")
    found, left_out = find_submissions([ada, tmp_path / "eve", tmp_path / "zed.ipynb"])
    assert [one.path for one in found] == [ada / "a.ipynb"]
    assert [path.name for path in left_out] == ["eve", "zed.ipynb"]
    assert [one.name for one in find_submissions([tmp_path / "eve"])[0]] == ["a.ipynb"]  # a teacher's


@pytest.mark.parametrize("target", ["notes", "/usr/lib", "statistics.py"])
def test_a_link_among_many_arguments_takes_nothing_from_the_others(tmp_path, target):
    """It is left out, and what it points to is not hidden from answers."""
    target = statistics.__file__ if target == "statistics.py" else target
    answer = f"import statistics\n{answer_cell(notebook('ch01_softmax'), 'q5')['source']}\nstatistics.fmean"
    write(tmp_path / "ada/a.ipynb", hand_in("ch01_softmax", {"q5": answer}, "exercises"))
    (tmp_path / "notes").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    given = [str(tmp_path / name) for name in ("ada", "notes", "pipe")]
    assert main(["grade", *given, "--out", str(tmp_path / "out"), *OPTIONS]) == 0
    points = MERGE.info.points
    assert f"a.ipynb,ch01_softmax,{points},{TOTAL}" in (tmp_path / "out/totals.csv").read_text("utf-8")


def test_a_folder_that_is_called_like_a_neighbour_takes_no_name_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/ada/hw.ipynb", "in/eve/in/ada/hw.ipynb", "in/bob/hw.ipynb"):
        write(Path(name), {})
    found, _ = find_submissions([Path("in/ada"), Path("in/bob"), Path("in/eve")])
    assert {one.name: one.path.as_posix() for one in found} == {
        name: name for name in ("in/ada/hw.ipynb", "in/bob/hw.ipynb", "in/eve/in/ada/hw.ipynb")
    }


@pytest.mark.parametrize("out", ["in/marks", "in"])
def test_marks_are_not_kept_where_students_write(tmp_path, capsys, out):
    write(tmp_path / "in/a.ipynb", {})
    assert main(["grade", str(tmp_path / "in"), "--out", str(tmp_path / out), *OPTIONS]) == 2
    assert "expected a folder outside of submissions" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--seed-file=notes.txt", "--isolation=process", "--as-root", "--\x1b[31m"])
def test_a_file_is_no_option(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    for one in (name, "notes.txt"):
        Path(one).write_text("mine")
    with pytest.raises(SystemExit):
        main(["grade", *sorted(os.listdir()), "--out", "../out"])
    told = capsys.readouterr().err
    assert "which is a file here" in told
    assert "\x1b" not in told


def test_a_file_that_grows_while_it_is_read_is_read_to_a_limit(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", {})
    (found,), _ = find_submissions([path])
    grader = make_grader(tmp_path / "out")

    class Growing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def read(self, most=-1):
            assert 0 < most <= MAX_BYTES + 1
            return b""

    monkeypatch.setattr("linattn_exercises.grading.submissions.open_submission", lambda path, top: Growing())
    assert grader._load_content(found) == b""


def test_a_link_that_takes_the_place_of_a_notebook_is_not_followed(tmp_path):
    path = write(tmp_path / "in/a.ipynb", notebook("ch01_softmax"))
    found, _ = find_submissions([tmp_path / "in"])
    path.rename(tmp_path / "b.ipynb")
    path.symlink_to(tmp_path / "b.ipynb")
    (one,) = make_grader(tmp_path / "out").grade(found)
    assert "cannot be read" in one.marks[0].message


def test_a_link_that_takes_the_place_of_a_folder_is_not_followed(tmp_path):
    for name in ("ada", "eve"):
        write(tmp_path / f"in/{name}/more/a.ipynb", notebook("ch01_softmax"))
    found, _ = find_submissions([tmp_path / "in"])
    (tmp_path / "in/eve").rename(tmp_path / "before")
    (tmp_path / "in/eve").symlink_to("ada")
    for file, fault in zip(found, ("", "cannot be read"), strict=True):
        grader = make_grader(tmp_path / "out", hidden=[tmp_path / "in"])
        with pytest.raises(UnreadableNotebook, match=fault) if fault else nullcontext():
            open_submission(file.path, grader._find_top(file)).close()


def test_many_nested_folders_do_not_end_the_run(tmp_path):
    write(tmp_path / "in/a.ipynb", {})
    here = os.open(tmp_path / "in", os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found, left_out = find_submissions([tmp_path / "in"])
    assert [one.name for one in found] == ["a.ipynb"]
    assert len(left_out) == 1
    subprocess.run(["rm", "-rf", str(tmp_path / "in")], check=True)


@pytest.mark.parametrize("kind", ["argument", "in a folder"])
def test_a_pipe_is_no_notebook(tmp_path, kind):
    (tmp_path / "in").mkdir()
    pipe = tmp_path / "in" / "a.ipynb"
    os.mkfifo(pipe)
    if kind == "argument":
        with pytest.raises(ValueError, match="expected a file or a folder"):
            find_submissions([pipe])
    else:
        assert find_submissions([tmp_path / "in"]) == ([], [pipe])


def test_an_error_that_names_a_file_is_fit_for_a_terminal(tmp_path, capsys):
    assert main(["grade", str(tmp_path / "\x1b[31m.ipynb"), "--out", str(tmp_path / "out"), *OPTIONS]) == 2
    told = capsys.readouterr().err
    assert "which does not exist" in told
    assert "\x1b" not in told


def test_names_that_differ_in_white_space_stay_apart(tmp_path):
    for name in ("a  b.ipynb", "a b.ipynb", "a\tb.ipynb", " a b.ipynb"):
        write(tmp_path / name, {})
    found, _ = find_submissions([tmp_path])
    assert len({" ".join(one.name.split()) for one in found}) == 4


def test_who_has_a_name_keeps_it(tmp_path):
    for name in (" ada.ipynb", "ada.ipynb"):
        write(tmp_path / name, {})
    named = {one.path.name: one.name for one in find_submissions([tmp_path])[0]}
    assert named == {"ada.ipynb": "ada.ipynb", " ada.ipynb": "ada.ipynb (2)"}


@pytest.mark.parametrize(
    "alike",
    [
        "Zo\u00eb|Zoe\u0308",
        "ada|ad\u034fa",
        "ada|ada\u3164",
        "ada|ada\u2800",
        "ada|ad\u00ada",
        "ada|a\ufe0fda",
    ],
)
def test_labels_that_look_alike_are_told_apart(tmp_path, alike):
    for name in alike.split("|"):
        write(tmp_path / f"{name}.ipynb", {})
    plain, other = sorted((one.name for one in find_submissions([tmp_path])[0]), key=len)
    assert unicodedata.normalize("NFC", plain) == plain == f"{alike.split('|')[0]}.ipynb"
    assert other.endswith(" (2)") or "\N{REPLACEMENT CHARACTER}" in other


def test_who_has_a_page_keeps_it(tmp_path):
    def write_pages(*names: str) -> dict[str, str]:
        submissions = [GradedSubmission(name, [Mark(name, "", "", 0, 0, f"for {name}")]) for name in names]
        tables.write(tmp_path, submissions, str)
        pages = {page.name: page.read_text() for page in (tmp_path / "feedback").iterdir()}
        return {name: next(page for page, text in pages.items() if f"for {name}<" in text) for name in names}

    assert write_pages("bob!.ipynb", "ada.ipynb") == {"bob!.ipynb": "bob.html", "ada.ipynb": "ada.html"}
    assert write_pages("ada!.ipynb", "ada.ipynb", "bob.ipynb", "eve!.ipynb", "eve.ipynb") == {
        "ada!.ipynb": "ada_2.html",
        "ada.ipynb": "ada.html",
        "bob.ipynb": "bob_2.html",  # another has had bob.html
        "eve!.ipynb": "eve_2.html",
        "eve.ipynb": "eve.html",
    }
    assert not tables.find_changed(tmp_path, str)


def test_a_long_name_does_not_fill_the_terminal(tmp_path, capsys):
    write(tmp_path / "in/a.ipynb", notebook("ch04_ssm", "exercises"))
    write(tmp_path / f"in/{'x' * 200}/{'y' * 200}.txt", {})
    assert main(["grade", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *OPTIONS]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.endswith("y.txt")
    assert len(line) < 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_asked_to_end_leaves_nothing(tmp_path, number):
    waits = "import time\ntime.sleep(60)"
    one = write(tmp_path / "a.ipynb", hand_in("ch01_softmax", {"q1": waits}))
    arguments = ["grade", str(one), "--out", str(tmp_path / "out"), "--isolation", "process", "--as-root"]
    (tmp_path / "temporary").mkdir()
    ran = subprocess.Popen(
        [sys.executable, "-c", "from linattn_ref.cli import main; raise SystemExit(main())", *arguments],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not list((tmp_path / "temporary").glob("linattn-*/answer-*")) and time.monotonic() < end:
        time.sleep(0.1)
    ran.send_signal(number)
    assert ran.wait(20) == 128 + number
    assert not list((tmp_path / "temporary").iterdir())


def test_a_notebook_is_no_seed(tmp_path, capsys):
    one = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    arguments = ["grade", str(one), "--out", str(tmp_path / "out"), f"--seed-file={one}", *OPTIONS]
    assert main(arguments) == 2
    assert "a notebook, expected a file of your own" in capsys.readouterr().err


def test_an_answer_of_many_axes_is_not_written_out(boxes):
    begin = time.monotonic()
    answer = (
        "fault = torch.zeros([2] * 16 + [1] * 46, dtype=torch.bool)\ndef repaired(q, k, v):\n    return q"
    )
    assert not judge(boxes, load_questions("ch01_softmax")["q2"], answer)[0]
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("pair", ["ß ss", "ς σ", "µ μ", "\u1f71 \u03ac", "A a"])
def test_pages_differ_on_every_file_system(pair):
    first, second = tables.name_pages([f"{name}.ipynb" for name in pair.split()]).values()
    assert (first.endswith("_2.html"), second.endswith("_2.html")) == (False, True)


def test_thousands_of_names_that_collide_are_named_in_a_moment(tmp_path):
    names = [f"{'x' * 300}{n}.ipynb" for n in range(4_000)]
    begin = time.monotonic()
    assert len(set(tables.name_pages(names).values())) == len(names)
    assert time.monotonic() - begin < 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may read anything")
def test_a_folder_that_cannot_be_read_is_listed(tmp_path):
    write(tmp_path / "in/a/a.ipynb", {})
    (tmp_path / "in/a").chmod(0)
    assert [path.name for path in find_submissions([tmp_path / "in"])[1]] == ["a"]
    (tmp_path / "in/a").chmod(stat.S_IRWXU)


def test_a_notebook_that_is_too_large_is_told_so(tmp_path):
    path = tmp_path / "a.ipynb"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    one = grade(make_grader(tmp_path / "out"), path)["a.ipynb"]
    assert "larger than 20 MB" in one.marks[0].message


@pytest.mark.parametrize(
    "name", ["x;=cmd|' /C calc'!A0.ipynb", "x; @SUM(1).ipynb", "=1;-1.ipynb", '";=1.ipynb', "\uff1d1.ipynb"]
)
def test_no_cell_is_a_formula_whatever_separates_cells(name):
    line = tables._format_csv(("submission",), [(name,)]).splitlines()[1]
    for separator in ";,\t":
        for cell in line.split(separator):
            assert not re.match(r'[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20]', cell), line


# --- notebook and grader agree ------------------------------------------------------------------------------

NAMED = {
    "a helper called softmax_tile": "def softmax_tile(x):\n    return x\n\n{right}",
    "a parameter called softmax_scale": "{right}\n\nonline = online_softmax\n"
    "def online_softmax(q, k, v, tile, softmax_scale=1.0):\n    return online(q * softmax_scale, k, v, tile)",
    "a helper that uses softmax": "{right}\n\ndef weigh(x):\n    return x.softmax(-1)\n"
    "online = online_softmax\n"
    "def online_softmax(q, k, v, tile):\n    weigh(q)\n    return online(q, k, v, tile)",
}


@pytest.mark.parametrize(("name", "right"), list(zip(NAMED, (True, True, False), strict=True)))
def test_names_decide_nothing_and_what_runs_decides_all(patient_boxes, name, right):
    reference = next(one for one in ONLINE.known_answers if one.label == "running_mean")
    source = NAMED[name].format(right=source_of(ONLINE, reference))
    assert judge(patient_boxes, ONLINE, source)[0] is right
    namespace: dict = {}
    exec("import math\nimport torch\n" + source, namespace)
    assert ONLINE.check({"online_softmax": namespace["online_softmax"]}, "s").right is right


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_the_grader_says_of_known_answers_what_a_notebook_says(patient_boxes, question):
    """What a notebook says of them is in ``test_questions``: the same. Every third mistake is asked."""
    seed = "s" if question.own_code else PUBLIC_SEED  # own code was asked on one seed there, others on three
    rights = [known for known in question.known_answers if not isinstance(known, KnownMistake)]
    for known in [*rights, *question.known_mistakes[::3]]:
        right, message = judge(patient_boxes, question, source_of(question, known), seed)
        assert right is not isinstance(known, KnownMistake), known.label
        if isinstance(known, KnownMistake):
            assert message.endswith(f"Hint: {known.hint}"), known.label


def test_a_student_s_gpu_and_threads_are_not_missed(boxes):
    right = answer_cell(notebook("ch02_linear"), "q2")["source"]
    beside = 'torch.set_default_device("cuda")\ntorch.set_num_threads(64)\n'
    assert judge(boxes, CHUNKED, beside + right)[0]


def test_the_children_of_a_process_are_found():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert child.pid in processes.list_descendants()
    child.send_signal(signal.SIGKILL)
    child.wait()
