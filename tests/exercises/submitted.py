"""Notebooks as students hand them in: made from the solution notebook, with answers replaced."""

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

from linattn_exercises import SETS
from linattn_exercises.grading.marks import questions
from linattn_exercises.planted import Planted
from linattn_exercises.questions import Question

FOLDER = Path(__file__).parents[2] / "exercises"
QUESTIONS: list[Question] = [question for name in SETS for question in questions(name).values()]


def name_of(question: Question) -> str:
    return f"{question.about.set}-{question.about.id}"


def notebook(name: str, kind: str = "solution") -> dict:
    """The student's notebook of a set ("student") or the one with all answers right ("solution")."""
    content = json.loads((FOLDER / name / f"{kind}.ipynb").read_text())
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    return content


def answer_cell(content: dict, question: str) -> dict:
    (cell,) = (cell for cell in content["cells"] if cell.get("id") == f"{question}-answer")
    return cell


def handed_in(name: str, answers: Mapping[str, str], kind: str = "solution") -> dict:
    """A notebook in which the answer cells of some questions hold other code."""
    content = notebook(name, kind)
    for question, source in answers.items():
        answer_cell(content, question)["source"] = source
    return content


def source_of(planted: Planted) -> str:
    """A planted answer as the code of a cell: the right answer, and what is written over it."""
    right = answer_cell(notebook(set_of(planted)), planted.question)["source"]
    if not callable(planted.value):
        return f"{right}\n\n{planted.name} = {planted.value!r}\n"
    tree = ast.parse(textwrap.dedent(inspect.getsource(planted.value)))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    return f"{right}\n\n{ast.unparse(function)}\n\n{planted.name} = {function.name}\n"


def set_of(planted: Planted) -> str:
    (name,) = (
        q.about.set
        for q in QUESTIONS
        if planted.label in {p.label for p in q.planted()} and planted in q.planted()
    )
    return name
