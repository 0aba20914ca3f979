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
