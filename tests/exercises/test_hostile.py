"""What an answer may try, and that it costs its own question and nothing else."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import linattn_exercises
from linattn_exercises.grading.sandbox import Limits, Sandbox, isolation_works
from linattn_exercises.questions import Question
from linattn_exercises.sets import load_questions
from tests.exercises.gradebook import read
from tests.exercises.hostile import HOSTILE
from tests.exercises.notebooks import hand_in

# A sample that ends by itself takes 0.4 s of processor time; on a busy machine two have taken more than 2 s.
# A loop that ignores the signal at 4 s is killed at 5 s. It must have had those within 20 s on the clock, or
# it is reported as one that waits: a quarter of a core will do.
QUICK = Limits(cpu=4, wall=20, memory=200_000_000)
MERGE = load_questions("ch01_softmax")["q5"]  # what HOSTILE answers
OTHER = load_questions("ch01_softmax")["q2"]  # answered right in the same notebook


@pytest.fixture(scope="module", params=["process", "bubblewrap"])
def sandbox(request):
    if not isolation_works(request.param):
        message = f"{request.param} does not work on this machine"
        if os.environ.get("CI") == "true" and request.param == "process":
            pytest.fail(message)
        pytest.skip(message)
    with Sandbox(request.param, QUICK) as started:
        yield started


def verdict(
    sandbox: Sandbox, question: Question, tmp_path: Path, answers: dict[str, str]
) -> tuple[bool, str]:
    """Return whether a question is right, and the message; these answers replace those of the solution."""
    path = tmp_path / "handed_in.ipynb"
    path.write_text(json.dumps(hand_in("ch01_softmax", answers)))
    cells = read(path).select_cells(question.info.id)
    found = question.judge(sandbox.run(cells, question.prepare("secret").calls), "secret")
    return found.right, found.message


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_gets_nothing_and_the_next_is_graded(sandbox, name, tmp_path):
    source, says = HOSTILE[name]
    right, message = verdict(sandbox, MERGE, tmp_path, {"q5": source})
    assert not right
    assert says in message, message
    assert verdict(sandbox, OTHER, tmp_path, {"q5": source})[0], "another question of the same notebook"


def test_no_message_is_long_or_unprintable(sandbox, tmp_path):
    for name in ("nested", "terminal_codes", "a_lone_surrogate", "too_much_text"):
        message = verdict(sandbox, MERGE, tmp_path, {"q5": HOSTILE[name][0]})[1]
        assert len(message) < 2_000
        message.encode("utf-8")
        assert "\x1b" not in message


def test_nothing_of_an_answer_lives_on(sandbox, tmp_path):
    mark = f"{time.time_ns()}"
    source = (
        "import subprocess, sys\n"
        f"command = [sys.executable, '-c', 'import time; time.sleep(97) #{mark}']\n"
        "subprocess.Popen(command, start_new_session=True)\ndef merge(a, b):\n    return b"
    )
    verdict(sandbox, MERGE, tmp_path, {"q5": source})
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert mark not in listed


def test_an_answer_finds_nothing_of_the_one_before_in_its_memory(sandbox, tmp_path):
    """A child inherits the memory of the process that forks it; that process must not have read any answer.

    The scan knows the beginning of what it looks for and the hash of the rest: it does not find itself.
    """
    rest = "f the neighbour over there"
    wanted = hashlib.sha256(rest.encode()).hexdigest()
    verdict(sandbox, MERGE, tmp_path, {"q5": f"# the colour o{rest}\n" * 50})
    scan = f"""
import ctypes, hashlib
start_of_it, read, found = "the col" + "our o", 0, 0
for line in open("/proc/self/maps"):
    if "[heap]" in line:
        start, stop = (int(number, 16) for number in line.split()[0].split("-"))
        for at in range(start, stop, 1 << 20):
            part = ctypes.string_at(at, min(1 << 20, stop - at))
            read, place = read + len(part), part.find(start_of_it.encode())
            while place >= 0:
                tail = part[place + 12 : place + {12 + len(rest)}]
                found += hashlib.sha256(tail).hexdigest() == "{wanted}"
                place = part.find(start_of_it.encode(), place + 1)
def merge(a, b):
    raise ValueError(f"read {{read > 0}} found {{found}}")
"""
    assert "read True found 0" in verdict(sandbox, MERGE, tmp_path, {"q5": scan})[1]


def test_an_answer_finds_no_file_of_the_one_before(sandbox, tmp_path):
    verdict(
        sandbox,
        MERGE,
        tmp_path,
        {"q5": "open('own_file.txt', 'w').write('mine')\ndef merge(a, b):\n    return b"},
    )
    looks = (
        "import os\nwalk = os.walk(os.environ['TMPDIR'])\n"
        "found = [name for top, _, names in walk for name in names]\n"
        "def merge(a, b):\n    raise ValueError(str(found))"
    )
    assert "own_file" not in verdict(sandbox, MERGE, tmp_path, {"q5": looks})[1]


@pytest.mark.skipif(not isolation_works("bubblewrap"), reason="bubblewrap does not work on this machine")
def test_in_the_sandbox_there_is_nothing_else(tmp_path):
    """No network, no checks, no submissions; nothing to write to but a folder that is emptied."""
    package = Path(linattn_exercises.__file__).parent
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    socket.create_connection(("127.0.0.1", port), 1).close()  # it answers whoever can reach it
    probe = f"""
import glob, os, socket
report = {{}}
def attempt(name, action):
    try:
        report[name] = str(action())
    except Exception as error:
        report[name] = type(error).__name__
attempt("checks", lambda: glob.glob({str(package)!r} + "/**/*.py", recursive=True))
attempt("submissions", lambda: os.listdir({str(tmp_path)!r}))
attempt("write", lambda: open({str(Path(sys.prefix) / "written_by_an_answer")!r}, "w"))
for top in ("", "/dev", "/etc", "/tmp"):
    attempt("left in " + top, lambda: open(top + "/left_by_an_answer", "w"))
attempt("memory", lambda: open("/proc/1/mem", "rb"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", {port}), 1))
attempt("processes", lambda: [n for n in os.listdir("/proc") if n.isdigit() and len(n) > 3])
def merge(a, b):
    raise ValueError(repr(report))
"""
    with listener, Sandbox("bubblewrap", QUICK) as sandbox:
        message = verdict(sandbox, MERGE, tmp_path, {"q5": probe})[1]
    assert "'checks': '[]'" in message
    assert "'submissions': 'FileNotFoundError'" in message
    assert "'write': 'OSError'" in message or "'write': 'PermissionError'" in message
    for top in ("", "/dev", "/etc", "/tmp"):
        assert f"'left in {top}': 'OSError'" in message or f"'left in {top}': 'PermissionError'" in message
    assert "'memory': 'PermissionError'" in message
    assert "'network': 'PermissionError'" in message
    assert "'processes': '[]'" in message or "'processes': 'PermissionError'" in message
