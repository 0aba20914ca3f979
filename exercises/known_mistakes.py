"""Read known answers: wrong ones, each with its hint, and right ones that are written in another way.

``exercises/chNN_slug/mistakes/`` has a file of them for each question, ``q1.py`` and so on. Each function in
it stands alone, as a reader would have written it, under one of two decorators::

    @mistake("That is the mean square itself. Take the root.", replaces="predicted_size")
    def without_the_root(K, rho): ...

    @also_right(replaces="predicted_size")
    def size_of_terms(K, rho): ...

A check that meets a wrong result compares it with what the known mistakes give on the same inputs, and shows
the hint of the one that it equals (``Question.judge``). The tests hold every check to all of its known
answers."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KnownAnswer:
    """Describe an answer other than the reference, of which it is known whether it is right.

    Args:
        question: the id of its question, such as "q1".
        name: the function or value of the reference that it replaces.
        value: what stands in its place.
        label: a name that no other known answer to the question has; for a function, its own in the file.
    """

    question: str
    name: str
    value: Any
    label: str


@dataclass(frozen=True)
class KnownMistake(KnownAnswer):
    """Describe a wrong answer that readers really give.

    The other fields are those of ``KnownAnswer``.

    Args:
        hint: what helps whoever made this mistake, in one or two sentences.
    """

    hint: str


def mistake(hint: str, replaces: str = "") -> Callable[[Callable], Callable]:
    """Mark the decorated function as a wrong answer.

    Args:
        hint: what helps whoever makes this mistake.
        replaces: the function or value of the question that it stands for; default: the question's first.

    Returns:
        A decorator that leaves the function as it is.

    Raises:
        ValueError: if there is no hint.
    """
    if not hint.strip():
        raise ValueError("hint: got none, expected what helps whoever makes this mistake")
    return lambda function: _mark(function, hint, replaces)


def also_right(replaces: str = "") -> Callable[[Callable], Callable]:
    """Mark the decorated function as a right answer that is written in another way.

    Args:
        replaces: the function or value of the question that it stands for; default: the question's first.

    Returns:
        A decorator that leaves the function as it is.
    """
    return lambda function: _mark(function, "", replaces)


def _mark(function: Callable, hint: str, replaces: str) -> Callable:
    """Note on a function what it stands for; one function can stand for several names."""
    vars(function).setdefault("__known_answers__", []).append((hint, replaces))
    return function


def load_known_answers(set_name: str, question: str, default: str) -> list[KnownAnswer]:
    """Import the known answers to a question from the file ``mistakes/QUESTION.py`` of its set.

    Args:
        set_name: the name of the set's folder, such as "ch01_softmax".
        question: the id of the question, such as "q1".
        default: the name that an answer replaces if it does not say which.

    Returns:
        Mistakes and right answers in the order of the file; none if there is no such file.
    """
    module = f"linattn_exercises.{set_name}.mistakes.{question}"
    if importlib.util.find_spec(module) is None:
        return []
    found: list[KnownAnswer] = []
    for function in vars(importlib.import_module(module)).values():
        for hint, replaces in getattr(function, "__known_answers__", []):
            fields = (question, replaces or default, function, function.__name__)
            found.append(KnownMistake(*fields, hint) if hint else KnownAnswer(*fields))
    return found
