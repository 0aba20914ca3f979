"""Helpers of the tests: grade notebooks, and read what came of it."""

import json
from pathlib import Path

from linattn_exercises.grading import GradedSubmission, Grader, find_submissions
from linattn_exercises.sets import load_questions

# What the solution notebook of ch01_softmax earns.
TOTAL = sum(question.info.points for question in load_questions("ch01_softmax").values())


def write(path: Path, content: dict) -> Path:
    """Write a notebook, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def grade(grader: Grader, *paths: Path) -> dict[str, GradedSubmission]:
    """Grade files and folders; return the submissions by their names."""
    files, _ = find_submissions(paths)
    return {one.name: one for one in grader.grade(files)}


def points(one: GradedSubmission) -> dict[str, int]:
    """Return the points of each question."""
    return {mark.question: mark.points for mark in one.marks}


def messages(one: GradedSubmission) -> dict[str, str]:
    """Return the message on each question."""
    return {mark.question: mark.message for mark in one.marks}
