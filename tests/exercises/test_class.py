"""A class, graded by the command that a teacher types: killed half-way, resumed, exact."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from linattn_exercises.known_mistakes import KnownMistake
from linattn_exercises.questions import Question
from linattn_exercises.sets import SETS, load_questions
from linattn_ref.cli import main
from tests.exercises.gradebook import OPTIONS
from tests.exercises.hostile import HOSTILE
from tests.exercises.notebooks import answer_cell, hand_in, notebook, source_of

SLOW = {"loops", "loops_against_signals", "sleeps", "eats_memory", "eats_memory_in_lists", "a_deep_folder"}
RESTART = {"kills_the_worker", "narrows_the_worker"}  # after these the worker is started anew
# Of a large class. LINATTN_CLASS_SIZE=200 is measured where the grader has changed: ten minutes on two cores.
LARGE = int(os.environ.get("LINATTN_CLASS_SIZE", "64"))
MOST_SECONDS = 3 * LARGE
MarkRow = tuple[str, str, str, int, int]  # submission, chapter, question, points, max_points


def stub_of(question: Question) -> str:
    return answer_cell(notebook(question.info.set_name, "exercises"), question.info.id)["source"]


def answer(question: Question, kind: str, rng: random.Random, slow: bool) -> tuple[str | None, bool]:
    """Return the code of an answer of a kind (None: the solution as it is), and whether it earns points."""
    if kind == "wrong":
        return source_of(question, rng.choice(question.known_mistakes)), False
    if kind == "otherwise":
        known = [one for one in question.known_answers if not isinstance(one, KnownMistake)]
        return source_of(question, rng.choice(known)), True
    if kind == "stub":
        return stub_of(question), False
    if kind == "hostile":
        fast = [name for name in HOSTILE if name not in SLOW and (slow or name not in RESTART)]
        name = rng.choice(sorted(SLOW)) if slow and rng.random() < 0.1 else rng.choice(fast)
        last = list(question.reference)[-1]
        return HOSTILE[name][0].replace("def merge(", f"def {last}("), False
    return None, True


def write_submission(folder: Path, number: int, rng: random.Random, slow: bool) -> list[MarkRow]:
    """Write one submission, and return the marks it must get.

    ``slow``: with answers that use up their time, or end the worker.
    """
    name = rng.choice(SETS)
    style = ("right", "wrong", "otherwise", "hostile", "mixed", "mixed", "mixed", "damaged")[number % 8]
    path = folder / f"group {number % 7}" / f"student_{number:03d}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    label = path.relative_to(folder).as_posix()
    if style == "damaged":
        damage = rng.choice(
            ["", "not json", "{}", '{"cells": 3}', "[" * 5000, '{"cells": [{"cell_type": 1}]}']
        )
        path.write_text(damage)
        return [(label, "", "", 0, 0)]
    kinds = ("right", "wrong", "otherwise", "stub", "hostile")
    answers, rows = {}, []
    for question in load_questions(name).values():
        info = question.info
        source, right = answer(question, rng.choice(kinds) if style == "mixed" else style, rng, slow)
        if source is not None:
            answers[info.id] = source
        rows.append((label, name, info.id, info.points if right else 0, info.points))
    path.write_text(json.dumps(hand_in(name, answers)))
    return rows


def write_class(folder: Path, size: int, slow: bool) -> list[MarkRow]:
    """Write a class with answers of every kind, and return the marks that it must get."""
    rng = random.Random(2026)
    return sorted(row for number in range(size) for row in write_submission(folder, number, rng, slow))


def arguments(folder: Path, out: Path) -> list[str]:
    return ["grade", str(folder), "--out", str(out), "--cpu", "4", "--jobs", "2", *OPTIONS]


def command(folder: Path, out: Path) -> list[str]:
    program = "from linattn_ref.cli import main; raise SystemExit(main())"
    return [sys.executable, "-c", program, *arguments(folder, out)]


def read_marks(out: Path) -> list[MarkRow]:
    with (out / "marks.csv").open(newline="") as file:
        return sorted(
            (row["submission"], row["chapter"], row["question"], int(row["points"]), int(row["max_points"]))
            for row in csv.DictReader(file)
        )


def test_a_class_of_twenty(tmp_path):
    folder, out = tmp_path / "class", tmp_path / "out"
    expected = write_class(folder, 20, slow=False)
    assert main(arguments(folder, out)) == 0
    assert read_marks(out) == expected
    assert len(list((out / "feedback").glob("*.html"))) == 20


@pytest.mark.alone
@pytest.mark.timeout(2 * MOST_SECONDS)
def test_a_large_class_killed_half_way(tmp_path):
    folder, out, size = tmp_path / "class", tmp_path / "out", LARGE
    expected = write_class(folder, size, slow=True)
    start = time.monotonic()
    first = subprocess.Popen(
        command(folder, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(list((out / "kept").glob("*.json"))) < size // 2:
        assert first.poll() is None, "ended before it was killed"
        assert time.monotonic() - start < MOST_SECONDS
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (out / "marks.csv").exists()
    kept = {path: path.stat().st_mtime_ns for path in (out / "kept").glob("*.json")}

    second = subprocess.run(command(folder, out), capture_output=True, text=True)
    seconds = time.monotonic() - start
    assert second.returncode == 0, second.stderr
    assert f"{size - len(kept)} graded, {len(kept)} as before" in second.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "graded twice"
    assert read_marks(out) == expected
    assert len(list((out / "feedback").glob("*.html"))) == size
    assert seconds < MOST_SECONDS
    print(f"{size} submissions in {seconds:.0f} s, killed after {len(kept)}")

    third = subprocess.run(command(folder, out), capture_output=True, text=True)
    assert f"0 graded, {size} as before" in third.stdout
    assert read_marks(out) == expected
