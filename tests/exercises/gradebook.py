"""Grade notebooks in a test, and read what came of it."""

import json
from pathlib import Path

from linattn_exercises.grading import Grader
from linattn_exercises.grading.entries import entries
from linattn_exercises.grading.marks import Graded, questions

TOTAL = sum(question.about.points for question in questions("ch01_softmax").values())


def write(path: Path, content: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def graded(grader: Grader, *paths: Path) -> dict[str, Graded]:
    every, _ = entries(paths)
    return {one.name: one for one in grader.grade(every, lambda one, kept: None)}


def points(one: Graded) -> dict[str, int]:
    return {mark.question: mark.points for mark in one.marks}


def messages(one: Graded) -> dict[str, str]:
    return {mark.question: mark.message for mark in one.marks}
