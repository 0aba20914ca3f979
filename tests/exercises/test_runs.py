"""A run into a folder: its seed, what it keeps for the next, and the command that a teacher types."""

import csv
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from linattn_exercises.grading import GradedSubmission, Grader, Limits, find_submissions
from linattn_exercises.grading.grade import hold_folder
from linattn_exercises.grading.isolation import _build_scope
from linattn_exercises.grading.sandbox import Sandbox, isolation_works
from linattn_exercises.sets import SETS
from linattn_ref.cli import main
from tests.exercises.gradebook import OPTIONS, TOTAL, grade, make_grader, points, write
from tests.exercises.notebooks import notebook

needs_bubblewrap = pytest.mark.skipif(
    not isolation_works("bubblewrap"), reason="bubblewrap does not work on this machine"
)


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    first = make_grader(tmp_path / "out", seed="")
    assert make_grader(tmp_path / "out", seed="").seed == first.seed
    assert make_grader(tmp_path / "other", seed="").seed != first.seed
    assert "chosen" not in (tmp_path / "out" / "run.json").read_text()
    assert make_grader(tmp_path / "out", seed="chosen").seed == "chosen"


@pytest.mark.slow
@needs_bubblewrap
def test_what_ran_without_bubblewrap_is_not_taken_for_protected(tmp_path):
    one, out = write(tmp_path / "a.ipynb", {}), tmp_path / "out"
    seeds, kept = [], []
    for isolation in ("process", "process", "bubblewrap", "bubblewrap"):
        grader = make_grader(out, seed="", isolation=isolation)
        grader.grade(find_submissions([one])[0], lambda graded, was_kept: kept.append(was_kept))
        seeds.append(grader.seed)
        assert ("A new seed is drawn" in grader.warning) == (len(seeds) == 3)
    assert kept == [False, True, False, True]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]


@pytest.mark.slow
@needs_bubblewrap
def test_a_seed_that_answers_may_know_is_told(tmp_path):
    for isolation, seed, warned in [
        ("process", "a", False),
        ("bubblewrap", "a", True),
        ("bubblewrap", "b", False),
    ]:
        grader = make_grader(tmp_path / "out", seed=seed, isolation=isolation)
        assert ("answers may know it" in grader.warning) is warned
        one = grade(grader, write(tmp_path / "a.ipynb", {}))["a.ipynb"]
        assert not one.fault
    assert '"a"' not in (tmp_path / "out" / "run.json").read_text()


@pytest.mark.slow
@needs_bubblewrap
def test_a_note_that_answers_have_changed_is_written_again(tmp_path, capsys, monkeypatch):
    one, out = write(tmp_path / "a.ipynb", {}), tmp_path / "out"
    real = Grader.grade

    def change(self, *arguments):
        (out / "run.json").write_text('{"seed": "mine"}')
        return real(self, *arguments)

    monkeypatch.setattr(Grader, "grade", change)
    assert main(["grade", str(one), "--out", str(out), "--isolation", "process", "--as-root"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(Grader, "grade", real)
    assert main(["grade", str(one), "--out", str(out), "--as-root"]) == 0
    said = capsys.readouterr()
    assert "A new seed is drawn" in said.err
    assert "1 graded, 0 as before" in said.out


def test_only_what_changed_is_graded_again(tmp_path):
    a = write(tmp_path / "in/a.ipynb", notebook("ch01_softmax", "exercises"))
    write(tmp_path / "in/b.ipynb", notebook("ch02_linear", "exercises"))
    told: list[tuple[str, bool]] = []

    def run(seed="s"):
        told.clear()
        grader = make_grader(tmp_path / "out", seed=seed, jobs=2, limits=Limits(cpu=2))
        grader.grade(find_submissions([tmp_path / "in"])[0], lambda one, kept: told.append((one.name, kept)))
        return sorted(told)

    assert run() == [("a.ipynb", False), ("b.ipynb", False)]
    assert run() == [("a.ipynb", True), ("b.ipynb", True)]
    write(a, notebook("ch01_softmax"))
    assert run() == [("a.ipynb", False), ("b.ipynb", True)]
    for path in (tmp_path / "out" / "kept").glob("*.json"):
        path.write_text("{")  # as a full disk might leave it
    assert run() == [("a.ipynb", False), ("b.ipynb", False)]
    assert run("another") == [("a.ipynb", False), ("b.ipynb", False)]


def test_marks_are_kept_for_the_content_that_has_earned_them(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", {})
    real = Grader._hash_inputs

    def change(self, *given):
        digest = real(self, *given)
        path.write_text("no notebook")
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(Grader, "_hash_inputs", change)
        grade(make_grader(tmp_path / "out"), path)
    write(path, {})
    kept = grade(make_grader(tmp_path / "out"), path)["a.ipynb"]
    assert "format 4" in kept.marks[0].message


RIGHT = """def merge(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]
"""
BESIDE = "import math\nfrom linattn_exercises.ch01_softmax import check\nfor _ in iter(int, 1):\n    pass\n"
SMALL = {"cells": [{"cell_type": "code", "source": one} for one in (BESIDE + RIGHT, "check.q5(merge)")]}


@contextmanager
def signals(how: str) -> Iterator[None]:
    """Let signals be blocked, or ignored, as whoever starts a program may have left them."""
    numbers = {signal.SIGCHLD, signal.SIGALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGTERM}
    before = {number: signal.getsignal(number) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers if how == "blocked" else ())
    for number in numbers if how == "ignored" else ():
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("how", ["blocked", "ignored"])
def test_signals_may_be_as_they_like_when_a_run_begins(tmp_path, how):
    one = write(tmp_path / "a.ipynb", SMALL)
    for known in (isolation_works, _build_scope):  # as in a process that has just begun
        known.cache_clear()
    with signals(how):
        assert main(["grade", str(one), "--out", str(tmp_path / "out"), "--cpu", "1", *OPTIONS]) == 0
    with (tmp_path / "out" / "marks.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["question"] == "q5")
    assert row["points"] == "3", row["message"]


@pytest.mark.parametrize("how", ["blocked", "ignored"])
def test_signals_may_be_as_they_like_when_a_worker_begins(tmp_path, how):
    with signals(how):
        grader = make_grader(tmp_path / "out", isolation="process", limits=Limits(cpu=1, wall=20))
        one = grade(grader, write(tmp_path / "a.ipynb", SMALL))["a.ipynb"]
    assert points(one)["q5"] == 3, one


def test_a_worker_that_is_lost_while_it_reads_is_a_fault_that_is_told_and_not_kept(tmp_path, monkeypatch):
    def lose(*_):
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr(Sandbox, "_send_job", lose)
    one = grade(make_grader(tmp_path / "out"), write(tmp_path / "a.ipynb", SMALL))["a.ipynb"]
    assert "has ended twice" in one.fault
    assert not list((tmp_path / "out" / "kept").glob("*.json"))


def test_two_runs_into_one_folder_do_not_meet(tmp_path, capsys):
    one, out = write(tmp_path / "a.ipynb", {}), tmp_path / "out"
    command = ["grade", str(one), "--out", str(out), *OPTIONS]
    with hold_folder(out):
        assert main(command) == 2
    assert f"out: got {str(out)!a}, into which another run grades" in capsys.readouterr().err
    assert not (out / "marks.csv").exists()
    assert main(command) == 0


@pytest.mark.parametrize("closed", [["stdout"], ["stderr"], ["stdout", "stderr"]])
def test_what_cannot_be_told_costs_no_marks(tmp_path, monkeypatch, closed):
    one, out = write(tmp_path / "a.ipynb", {}), tmp_path / "out"
    with monkeypatch.context() as patch:
        for name in closed:
            patch.setattr(sys, name, None)  # as Python has it
        assert main(["grade", str(one), "--out", str(out), *OPTIONS]) == 0
    assert (out / "marks.csv").exists()


@pytest.mark.slow
def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    one, out = write(tmp_path / "a.ipynb", {}), tmp_path / "out"
    words = ["grade", str(one), "--out", str(out), *OPTIONS]
    program = f"from linattn_ref.cli import main; raise SystemExit(main({words}))"
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program]
    assert subprocess.run(closed, timeout=120, check=False).returncode == 0
    assert (out / "marks.csv").exists()


@pytest.mark.parametrize(
    ("seed", "says"),
    [("\udcff", "LINATTN_SEED: got bytes that are no text"), ("public", "LINATTN_SEED: got 'public'")],
)
def test_a_wrong_seed_is_named(tmp_path, capsys, monkeypatch, seed, says):
    monkeypatch.setenv("LINATTN_SEED", seed)
    one = write(tmp_path / "a.ipynb", {})
    assert main(["grade", str(one), "--out", str(tmp_path / "out"), *OPTIONS]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_machine_lacks_is_told(tmp_path, capsys, monkeypatch):
    one, words = write(tmp_path / "a.ipynb", {}), ["--jobs", "9999", *OPTIONS]
    for can_hide in (True, False):
        monkeypatch.setattr("linattn_exercises.grading.processes.can_hide_other_processes", lambda: can_hide)
        assert main(["grade", str(one), "--out", str(tmp_path / "out"), *words]) == 0
        said = capsys.readouterr().err
        assert "--jobs 9999 is more than" in said
        assert ("has no Landlock" in said) != can_hide


def test_a_fault_of_the_grader_is_told_and_not_kept(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    grader = make_grader(tmp_path / "out")
    monkeypatch.setattr(grader, "_judge_submission", lambda *_: 1 / 0)
    one = grade(grader, path)["a.ipynb"]
    assert one.fault
    assert "Could not be graded" in one.marks[0].message
    assert not list((tmp_path / "out" / "kept").glob("*.json"))


def test_a_run_that_is_stopped_keeps_nothing_that_was_not_finished(tmp_path):
    for number in range(3):
        write(tmp_path / f"in/{number}.ipynb", notebook("ch01_softmax"))
    every, _ = find_submissions([tmp_path / "in"])

    def interrupt(one: GradedSubmission, kept: bool) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_grader(tmp_path / "out", jobs=2).grade(every, interrupt)
    results = make_grader(tmp_path / "out", jobs=2).grade(every)
    assert [sum(points(one).values()) for one in results] == [TOTAL] * 3


def test_the_command_grades_a_folder(tmp_path, capsys):
    write(tmp_path / "in/a.ipynb", notebook("ch02_linear"))
    for name in (*(f"{n}.txt" for n in range(25)), "x.ipynb.txt"):
        (tmp_path / "in" / name).write_text("x")
    (tmp_path / "seed").write_text("a secret\n")
    out = str(tmp_path / "out")
    assert (
        main(["grade", str(tmp_path / "in"), "--out", out, "--seed-file", str(tmp_path / "seed"), *OPTIONS])
        == 0
    )
    said = capsys.readouterr().out
    assert "1 graded, 0 as before" in said
    assert "left out, no notebook: " + str(tmp_path / "in/x.ipynb.txt") in said
    assert "left out, no notebook: 6 more" in said
    for path in (tmp_path / "out").rglob("*"):
        assert "a secret" not in (path.read_text() if path.is_file() else "")


@pytest.mark.slow
def test_who_has_a_row_and_a_page_keeps_both_also_with_another_seed(tmp_path, monkeypatch):
    out = tmp_path / "out"

    def read_first_row_and_page() -> tuple[str, str]:
        assert main(["grade", str(tmp_path / "in"), "--out", str(out), *OPTIONS]) == 0
        with (out / "marks.csv").open(newline="") as file:
            (row,) = (row for row in csv.DictReader(file) if row["submission"] == "Max M.ipynb")
        return row["message"], (out / "feedback" / "Max_M.html").read_text()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Max  M.ipynb").write_text("his")
    first = read_first_row_and_page()
    (tmp_path / "in" / "Max M.ipynb").write_text("[]")  # another message is said of this
    monkeypatch.setenv("LINATTN_SEED", "another")
    assert read_first_row_and_page() == first


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{nowhere}"], "does not exist"),
        (["{empty}"], "no notebook"),
        (["{empty}", "--set", "ch99"], "no notebook"),
        (["{one}", "--set", "ch99"], f"set: got 'ch99', expected one of {', '.join(SETS)}"),
        (["{one}", "--jobs", "-1"], "jobs: got -1"),
        (["{one}", "--cpu", "0"], "cpu: got 0"),
        (["{one}", "--seed-file", "{nowhere}"], "nowhere', which cannot be read (No such file"),
        (["{one}", "--seed-file", "{empty}"], "seed-file: got '"),
        (["{one}", "--seed-file", "{binary}"], "binary', which is no text"),
        (["{one}", "--seed-file", "{long}"], "in its first line"),
        (["{one}", "--seed-file", "{known}"], "seed-file: got 'public'"),
        (["{one}", "--seed-file", "{blank}"], "empty first line"),
    ],
)
def test_a_wrong_argument_is_named(arguments, says, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\xff\xfe")
    (tmp_path / "long").write_text("x" * 20_000)
    (tmp_path / "known").write_text("public\n")
    one = write(tmp_path / "one.ipynb", notebook("ch01_softmax"))
    files = ("nowhere", "empty", "blank", "binary", "long", "known")
    names = {name: tmp_path / name for name in files} | {"one": one}
    words = [word.format(**names) for word in arguments]
    assert main(["grade", *words, "--out", str(tmp_path / "out"), *OPTIONS]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    one = write(tmp_path / "one.ipynb", notebook("ch01_softmax"))
    (tmp_path / "out").mkdir(mode=stat.S_IRUSR)
    assert main(["grade", str(one), "--out", str(tmp_path / "out"), *OPTIONS]) == 2
    assert "out" in capsys.readouterr().err
