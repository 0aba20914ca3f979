"""Help stands at the function: what is public in the reference says how it is called; its examples are true.

So does the translation of arguments for other libraries.

The other rooms have tests of their help of their own.
"""

import dataclasses
import doctest
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import linattn_benchmarks.translation
import linattn_ref.costs
import linattn_ref.interop
import linattn_ref.mixers
import linattn_ref.model
import linattn_ref.ops
import linattn_ref.ops.feature_maps
import linattn_ref.oracle
import linattn_ref.training
from linattn_ref.mixers import MIXERS
from tests.support.help import (
    assert_begins_with_a_sentence,
    assert_prints_what_it_says,
    defined_in,
    examples_of,
    modules_of,
)

MODULES = (
    linattn_ref.oracle,
    linattn_ref.ops,
    linattn_ref.ops.feature_maps,
    linattn_ref.mixers,
    linattn_ref.model,
    linattn_ref.training,
    linattn_ref.costs,
    linattn_ref.interop,
    linattn_benchmarks.translation,
)


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
TRAINING = modules_of(linattn_ref.training)
WITH_EXAMPLES = {importlib.import_module(thing.__module__) for thing in PUBLIC.values()} | {*TRAINING}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_first_line_is_a_sentence(name: str) -> None:
    assert_begins_with_a_sentence(PUBLIC[name])


@pytest.mark.parametrize("module", TRAINING, ids=lambda module: module.__name__)
def test_in_training_all_first_lines_are_sentences(module: ModuleType) -> None:
    for thing in defined_in(module):
        assert_begins_with_a_sentence(thing)


def explains(section: str, name: str) -> bool:
    """Return whether a section of a docstring has a line for a name, alone or with others."""
    return bool(re.search(rf"^ +(?:\w+, )*{re.escape(name)}(?:, \w+)*:", section, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_says_what_it_takes_and_returns(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    sections = re.findall(r"^(Args|Returns|Raises|Yields|Source|Example):", text, re.MULTILINE)
    assert {"Returns", "Example"} <= set(sections) or {"Yields", "Example"} <= set(sections), sections
    after = text.partition("Args:")[2]
    described = re.split(r"^(?:Returns|Yields|Raises):", after, maxsplit=1, flags=re.MULTILINE)[0]
    names = inspect.signature(FUNCTIONS[name]).parameters
    assert [x for x in names if not explains(described, x)] == [], "these are not in Args"


EXAMPLES = examples_of(sorted(WITH_EXAMPLES, key=lambda module: module.__name__))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_an_example_prints_what_it_says(example: doctest.DocTest) -> None:
    assert_prints_what_it_says(example)


def test_a_class_explains_its_fields() -> None:
    """Those of a data class whose metadata have a help, as options of mixers, are explained by it."""
    for name, thing in PUBLIC.items():
        text = inspect.getdoc(thing) or ""
        fields = list(getattr(thing, "_fields", []))  # of a named tuple
        if dataclasses.is_dataclass(thing):
            fields = [f.name for f in dataclasses.fields(thing) if "help" not in f.metadata]
        missing = [field for field in fields if not explains(text, field)]
        assert missing == [], f"{name}: {missing}"
