"""Planted answers: wrong ones, each with its hint, and right ones written in another way.

``exercises/chNN_slug/mistakes/`` has a file of them for each question, ``q1.py`` and so on. A check that
meets a wrong result compares it with what these give on the same inputs; that is how it knows which hint to
show. Each function stands alone, as a reader would have written it.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Planted:
    """A planted answer: in place of ``name`` of the right one, ``value``; no ``hint`` if it is right too."""

    question: str
    name: str
    value: Any
    hint: str
    label: str


def mistake(hint: str, of: str = "") -> Callable[[Callable], Callable]:
    """Plant a wrong answer and the hint for whoever makes it. ``of``: the function it replaces."""
    return lambda function: _plant(function, hint, of)


def also_right(of: str = "") -> Callable[[Callable], Callable]:
    """Plant a right answer that is written in another way."""
    return lambda function: _plant(function, "", of)


def _plant(function: Callable, hint: str, of: str) -> Callable:
    vars(function).setdefault("__planted__", []).append((hint, of))
    return function


def planted_answers(set_name: str, question: str, default: str) -> list[Planted]:
    """What is planted for a question, in the order of its file. ``default``: replaced if nothing is named."""
    package = importlib.import_module(f"linattn_exercises.{set_name}.mistakes")
    file = getattr(package, question, None)
    return [
        Planted(question, of or default, function, hint, function.__name__)
        for function in (vars(file).values() if file else ())
        for hint, of in getattr(function, "__planted__", [])
    ]
