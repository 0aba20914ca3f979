"""A class of two hundred, graded by the command that a teacher types: killed half-way, resumed, exact."""

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

from linattn_exercises import SETS
from linattn_exercises.grading.marks import questions
from linattn_exercises.questions import Question
from tests.exercises.hostile import HOSTILE
from tests.exercises.submitted import QUESTIONS, handed_in, notebook, source_of

SIZE = 200
SLOW = {"loops", "loops_against_signals", "sleeps", "eats_memory", "eats_memory_in_lists", "a_deep_folder"}
Row = tuple[str, str, str, int, int]  # submission, chapter, question, points, max_points

pytestmark = [pytest.mark.timeout(900), pytest.mark.alone]


def stub_of(question: Question) -> str:
    from tests.exercises.submitted import answer_cell

    return answer_cell(notebook(question.about.set, "student"), question.about.id)["source"]


def answer(question: Question, kind: str, rng: random.Random) -> tuple[str | None, bool]:
    """The code of an answer of a kind (None: the solution as it is), and whether it earns its points."""
    planted = question.planted()
    if kind == "wrong":
        return source_of(rng.choice([one for one in planted if one.hint])), False
    if kind == "otherwise":
        return source_of(rng.choice([one for one in planted if not one.hint])), True
    if kind == "stub":
        return stub_of(question), False
    if kind == "hostile":
        fast = [name for name in HOSTILE if name not in SLOW]
        name = rng.choice(sorted(SLOW)) if rng.random() < 0.1 else rng.choice(fast)
        last = list(question.reference)[-1]
        return HOSTILE[name][0].replace("def merge(", f"def {last}("), False
    return None, True


def hand_in(folder: Path, number: int, rng: random.Random) -> list[Row]:
    """Write one submission, and the marks it must get."""
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
    for question in questions(name).values():
        about = question.about
        source, right = answer(question, rng.choice(kinds) if style == "mixed" else style, rng)
        if source is not None:
            answers[about.id] = source
        rows.append((label, name, about.id, about.points if right else 0, about.points))
    path.write_text(json.dumps(handed_in(name, answers)))
    return rows


def command(folder: Path, out: Path, *more: str) -> list[str]:
    program = "from linattn_ref.cli import main; raise SystemExit(main())"
    start = [sys.executable, "-c", program, "grade", str(folder), "--out", str(out)]
    return [*start, "--seed", "a secret", "--cpu", "2", "--jobs", "2", *more]


def read_marks(out: Path) -> list[Row]:
    with (out / "marks.csv").open(newline="") as file:
        return [
            (row["submission"], row["chapter"], row["question"], int(row["points"]), int(row["max_points"]))
            for row in csv.DictReader(file)
        ]


def test_a_class_of_two_hundred(tmp_path):
    rng = random.Random(2026)
    folder, out = tmp_path / "class", tmp_path / "out"
    expected = sorted(row for number in range(SIZE) for row in hand_in(folder, number, rng))
    assert len(QUESTIONS) == len({(q.about.set, q.about.id) for q in QUESTIONS})

    start = time.monotonic()
    first = subprocess.Popen(
        command(folder, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(list((out / "kept").glob("*.json"))) < SIZE // 2:
        assert first.poll() is None, "ended before it was killed"
        assert time.monotonic() - start < 600
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (out / "marks.csv").exists()
    kept = {path: path.stat().st_mtime_ns for path in (out / "kept").glob("*.json")}

    second = subprocess.run(command(folder, out), capture_output=True, text=True)
    seconds = time.monotonic() - start
    assert second.returncode == 0, second.stderr
    assert f"{SIZE - len(kept)} graded, {len(kept)} as before" in second.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "graded twice"
    assert sorted(read_marks(out)) == expected
    assert len(list((out / "feedback").glob("*.html"))) == SIZE
    assert seconds < 600
    print(f"{SIZE} submissions in {seconds:.0f} s, killed after {len(kept)}")

    third = subprocess.run(command(folder, out), capture_output=True, text=True)
    assert f"0 graded, {SIZE} as before" in third.stdout
    assert sorted(read_marks(out)) == expected
