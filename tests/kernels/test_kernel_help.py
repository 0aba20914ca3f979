"""Test that help stands at the four public functions, and that its examples are true in the interpreter."""

import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import linattn_kernels
import linattn_ref.ops

FUNCTIONS = [
    thing for name in linattn_kernels.__all__ if inspect.isfunction(thing := getattr(linattn_kernels, name))
]
SECTIONS = {"Args", "Returns", "Raises", "Source", "Example"}
every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


@every_function
def test_help_says_what_a_function_takes_and_returns(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    assert set(re.findall(r"^(\w+):$", text, re.MULTILINE)) >= SECTIONS
    arguments = text.split("Args:")[1].split("Returns:")[0]
    assert re.findall(r"^    (\w+):", arguments, re.MULTILINE) == list(inspect.signature(function).parameters)
    assert f"linattn_ref.ops.{function.__name__}" in text
    assert hasattr(linattn_ref.ops, function.__name__)


@every_function
@pytest.mark.skipif(torch.cuda.is_available(), reason="examples are for the interpreter")
def test_an_example_prints_what_it_says(function: Callable[..., Any]) -> None:
    names = vars(importlib.import_module(function.__module__))
    (example,) = doctest.DocTestFinder(recurse=False).find(function, globs=dict(names))
    said: list[str] = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert example.examples
    assert said == []
