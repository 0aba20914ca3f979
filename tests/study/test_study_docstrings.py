"""What the study and the training say of themselves is true: first lines are sentences, examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import linattn_ref.training
import linattn_study

FIRST_WORDS = re.compile(r"(Of|The same|That which|As|What)\b")


def modules() -> Iterator[ModuleType]:
    for package in (linattn_study, linattn_ref.training):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):  # which runs when it is imported
                yield importlib.import_module(found.name)


MODULES = sorted(modules(), key=lambda module: module.__name__)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_function_and_class_says_what_it_does(module: ModuleType) -> None:
    own = [x for x in vars(module).values() if getattr(x, "__module__", None) == module.__name__]
    for thing in (x for x in own if inspect.isfunction(x) or inspect.isclass(x)):
        first = (inspect.getdoc(thing) or "").split("\n\n")[0]
        assert first.endswith((".", ":", ")``")), thing
        assert not FIRST_WORDS.match(first), thing


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_print_what_they_say(module: ModuleType) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0
