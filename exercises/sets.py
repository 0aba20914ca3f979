"""Find the sets of exercises: every folder ``chNN_slug`` beside this file that has a ``check.py``."""

import importlib
from pathlib import Path
from types import ModuleType

from linattn_exercises.questions import Question

SETS = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("ch*/check.py")))


def load_check(set_name: str) -> ModuleType:
    """Import the checks of a set.

    Args:
        set_name: the name of the set's folder, one of ``SETS``, such as "ch01_softmax".

    Returns:
        The module ``linattn_exercises.SET.check``, with ``QUESTIONS`` (a tuple) and ``VERSION`` (a hash of
        the master it was generated from).

    Raises:
        ValueError: if there is no such set.
    """
    if set_name not in SETS:
        raise ValueError(f"set: got {set_name!r}, expected one of {', '.join(SETS)}")
    return importlib.import_module(f"linattn_exercises.{set_name}.check")


def load_questions(set_name: str) -> dict[str, Question]:
    """Return the questions of a set by their ids, "q1" and so on.

    Args:
        set_name: one of ``SETS``.

    Raises:
        ValueError: if there is no such set.
    """
    return {question.info.id: question for question in load_check(set_name).QUESTIONS}
