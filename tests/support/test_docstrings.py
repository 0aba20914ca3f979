"""Help stands at the function: what is public says how it is called, and its examples are true."""

import dataclasses
import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import linattn_ref.costs
import linattn_ref.interop
import linattn_ref.mixers
import linattn_ref.model
import linattn_ref.ops
import linattn_ref.ops.feature_maps
import linattn_ref.oracle
import linattn_ref.training
from linattn_ref.mixers import MIXERS

MODULES = (
    linattn_ref.oracle,
    linattn_ref.ops,
    linattn_ref.ops.feature_maps,
    linattn_ref.mixers,
    linattn_ref.model,
    linattn_ref.training,
    linattn_ref.costs,
    linattn_ref.interop,
)
FIRST_WORDS = re.compile(r"(Of|The same|That which|As|What)\b")


def public() -> dict[str, Any]:
    """Return every public function and class of the reference by its dotted name."""
    found = {}
    for module in MODULES:
        own = [name for name, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found | {f"{mixer.__module__}.{mixer.__qualname__}": mixer for mixer in MIXERS.values()}


PUBLIC = public()
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing)}


def arguments(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_first_line_is_a_sentence(name: str) -> None:
    first = (inspect.getdoc(PUBLIC[name]) or "").split("\n\n")[0]
    assert first.endswith((".", ":", "::")), first
    assert not FIRST_WORDS.match(first), first


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_says_what_it_takes_returns_and_refuses(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    sections = re.findall(r"^(Args|Returns|Raises|Yields|Source|Example):", text, re.MULTILINE)
    assert {"Returns", "Example"} <= set(sections) or {"Yields", "Example"} <= set(sections), sections
    if names := arguments(FUNCTIONS[name]):
        described = text.split("Args:", 1)[1] if "Args:" in text else ""
        missing = [x for x in names if not re.search(rf"\b{re.escape(x)}\b", described)]
        assert missing == [], f"not in Args: {missing}"


def finder() -> list[doctest.DocTest]:
    names = sorted({thing.__module__ for thing in PUBLIC.values()})
    tests = [test for name in names for test in doctest.DocTestFinder().find(importlib.import_module(name))]
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("example", finder(), ids=lambda test: test.name)
def test_an_example_prints_what_it_says(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_a_dataclass_explains_its_fields() -> None:
    for name, thing in PUBLIC.items():
        if dataclasses.is_dataclass(thing):
            text = inspect.getdoc(thing) or ""
            fields = [f.name for f in dataclasses.fields(thing) if "help" not in f.metadata]
            missing = [name for name in fields if name not in text]
            assert missing == [], f"{name}: {missing}"
