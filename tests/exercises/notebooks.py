"""Helpers of the tests: notebooks as students hand them in, made from the solutions with answers replaced."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linattn_exercises.known_mistakes import KnownAnswer
from linattn_exercises.questions import Question
from linattn_exercises.sets import SETS, load_questions

FOLDER = Path(__file__).parents[2] / "exercises"
QUESTIONS: list[Question] = [question for name in SETS for question in load_questions(name).values()]


def name_of(question: Question) -> str:
    """Return the id of a question in the names of tests."""
    return f"{question.info.set_name}-{question.info.id}"


def notebook(name: str, kind: str = "solutions") -> dict:
    """Return a set's notebook for students ("exercises") or with all answers right ("solutions")."""
    content = json.loads((FOLDER / name / f"{name}_{kind}.ipynb").read_text())
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    return content


def answer_cell(content: dict, question: str) -> dict:
    """Return the cell that holds the answer to a question."""
    (cell,) = (cell for cell in content["cells"] if cell.get("id") == f"{question}-answer")
    return cell


def hand_in(name: str, answers: Mapping[str, str], kind: str = "solutions") -> dict:
    """Return a notebook in which the answer cells of some questions hold other code."""
    content = notebook(name, kind)
    for question, source in answers.items():
        answer_cell(content, question)["source"] = source
    return content


def keep_questions(content: dict, *questions: str) -> dict:
    """Return a notebook without the cells of all other questions."""
    cells = [
        one
        for one in content["cells"]
        if not re.match(r"q\d", one.get("id", "")) or one["id"][:2] in questions
    ]
    return content | {"cells": cells}


def source_of(question: Question, known: KnownAnswer) -> str:
    """Return a known answer as the code of a cell: the right answer, and what is written over it."""
    right = answer_cell(notebook(question.info.set_name), known.question)["source"]
    if not callable(known.value):
        return f"{right}\n\n{known.name} = {known.value!r}\n"
    written = getattr(known.value, "fn", known.value)  # of a kernel, the function under triton.jit
    tree = ast.parse(textwrap.dedent(inspect.getsource(written)))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = [one for one in function.decorator_list if ast.unparse(one) == "triton.jit"]
    imports, own = (
        "\n\n".join(map(ast.unparse, parts))
        for parts in (_find_imports(written), [*_find_helpers(written), function])
    )
    return f"{imports}\n\n{right}\n\n{own}\n\n{known.name} = {function.name}\n"


def _find_imports(answer: Any) -> list[ast.stmt]:
    """Return what the module of an answer imports, but for our marks of known answers."""
    module = ast.parse(Path(inspect.getfile(answer)).read_text("utf-8"))
    return [
        one
        for one in module.body
        if isinstance(one, ast.Import)
        or (isinstance(one, ast.ImportFrom) and not str(one.module).startswith("linattn_exercises"))
    ]


def _find_helpers(answer: Any) -> list[ast.FunctionDef]:
    """Return the functions of an answer's module that are no answers themselves."""
    module = ast.parse(Path(inspect.getfile(answer)).read_text("utf-8"))
    return [one for one in module.body if isinstance(one, ast.FunctionDef) and not one.decorator_list]
