"""Find the sets of exercises: every folder ``chNN_slug`` beside this file that has a ``check.py``."""

import importlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from linattn_exercises.kernel_rules import OLDEST
from linattn_exercises.questions import Question

NEEDS = {"ch06_fast": ("triton", OLDEST)}  # without which a set is left out; there is a triton for Linux


def _is_there(package: str, oldest: tuple[int, ...]) -> bool:
    """Return whether a package is installed, in this version or a newer one."""
    try:
        return tuple(map(int, version(package).split(".")[: len(oldest)])) >= oldest
    except PackageNotFoundError:
        return False


FOUND = sorted(path.parent.name for path in Path(__file__).parent.glob("ch*/check.py"))
SETS = tuple(name for name in FOUND if name not in NEEDS or _is_there(*NEEDS[name]))


def load_check(set_name: str) -> ModuleType:
    """Import the checks of a set.

    Args:
        set_name: the name of the set's folder, one of ``SETS``, such as "ch01_softmax".

    Returns:
        The module ``linattn_exercises.SET.check``, with ``QUESTIONS`` (a tuple) and ``VERSION`` (a hash of
        the master it was generated from).

    Raises:
        ValueError: if there is no such set, or the package that it needs is not installed or too old.
    """
    if set_name in FOUND and set_name not in SETS:
        package, oldest = NEEDS[set_name]
        raise ValueError(
            f"set: got {set_name!r}, expected {package} {'.'.join(map(str, oldest))} or newer to be installed"
        )
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
