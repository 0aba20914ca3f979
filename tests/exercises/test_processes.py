"""How a grader tells an answer that ran from one that waited for a core."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from linattn_exercises.grading import processes

SPIN = """
import os, sys, threading, time
def spin():
    end = time.thread_time() + 0.3
    while time.thread_time() < end: pass
if sys.argv[1] == "thread":
    thread = threading.Thread(target=spin); thread.start(); thread.join()
elif (pid := os.fork()): os.waitpid(pid, 0)
else: spin(); os._exit(0)
print("spun", flush=True); sys.stdin.read()
"""


# A child that waits for cores which others have: its own, and what they spend is told to nobody.
CROWD = """
import ctypes, os, signal, sys, time
from linattn_exercises.grading import processes
if not (child := os.fork()):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # whose parent ends becomes its child
    for n in range(12):
        if os.fork() == 0:
            while True:
                end = time.process_time() + 0.008
                while time.process_time() < end: pass
                if n and os.fork(): os._exit(0)
    while True: pass
begin = time.monotonic()
print(processes.wait_for_child(child, 1.0, 10**10)[0], time.monotonic() - begin, flush=True)
os.killpg(0, signal.SIGKILL)  # all of them at once, ourselves too
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="times are read on Linux alone")
def test_an_answer_that_makes_itself_wait_gets_no_patience():
    done = subprocess.run(
        [sys.executable, "-c", CROWD], capture_output=True, text=True, timeout=60, start_new_session=True
    )
    why, seconds = done.stdout.split()
    assert (why, float(seconds) < 2.5) == ("wall", True), done


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="times are read on Linux alone")
@pytest.mark.parametrize("where", ["thread", "child"])
def test_what_has_ended_counts_as_having_run(where):
    begin = time.monotonic()
    command = [sys.executable, "-S", "-c", SPIN, where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.monotonic() - begin
        assert processes.measure_run(process.pid) >= 0.28
        assert processes.measure_wait(seconds) <= seconds - 0.28
        process.communicate(b"")


NAMELESS = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe", 0, 0, 0)  # a name that is no text
taken = bytearray(100_000_000)
taken[::4096] = bytes(len(taken[::4096]))  # each page is written to
print("taken", flush=True); sys.stdin.read()
"""


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="processes are looked at on Linux alone"
)
def test_a_process_whose_name_is_no_text_takes_memory_and_time():
    command = [sys.executable, "-S", "-c", NAMELESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"taken\n"
        found = processes.measure_process(process.pid), processes.measure_run(process.pid)
        process.communicate()
    assert found[0] > 100_000_000
    assert found[1] > 0
