"""Helpers of the tests: grade notebooks, and read what came of it."""

import json
from pathlib import Path
from typing import Any

from linattn_exercises.grading import GradedSubmission, Grader, find_submissions
from linattn_exercises.grading.reading import read_notebook
from linattn_exercises.grading.sandbox import isolation_works
from linattn_exercises.grading.submissions import Submission, decode_submission, open_submission
from linattn_exercises.sets import SETS, load_questions

# What tests grade with where they do not say: the default, where it works.
ISOLATION = "bubblewrap" if isolation_works("bubblewrap") else "process"
# What a teacher types after "linattn grade" and the submissions, wherever the tests run.
OPTIONS = ["--isolation", ISOLATION, "--as-root"]
# For every set, from each name that an answer defines to its question.
NAMES = {
    name: {key: q.info.id for q in load_questions(name).values() for key in q.reference} for name in SETS
}

# What the solution notebook of ch01_softmax earns.
TOTAL = sum(question.info.points for question in load_questions("ch01_softmax").values())


def write(path: Path, content: dict) -> Path:
    """Write a notebook, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def make_grader(out: Path, **settings: Any) -> Grader:
    """Return a grader with a known seed that grades one notebook at a time, if nothing else is said."""
    return Grader(out, **{"seed": "s", "jobs": 1, "isolation": ISOLATION, **settings})


def read(path: Path) -> Submission:
    """Read a notebook in this process."""
    with open_submission(path) as file:
        return decode_submission(read_notebook(file.read(), NAMES))


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
