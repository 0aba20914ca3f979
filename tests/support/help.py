"""What tests of help share: what a docstring must begin with, and that its examples print what they say."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

FRAGMENT = re.compile(r"(Of|The same|That which|As|What)\b")  # how what is no sentence begins


def modules_of(package: ModuleType) -> list[ModuleType]:
    """Return all modules below a package, at any depth, but ``__main__``, which runs when it is imported."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = sorted(one.name for one in found if not one.name.endswith("__main__"))
    return [importlib.import_module(name) for name in names]


def defined_in(module: ModuleType) -> list[Any]:
    """Return the functions and classes that a module defines."""
    own = [x for x in vars(module).values() if getattr(x, "__module__", None) == module.__name__]
    return [x for x in own if inspect.isfunction(x) or inspect.isclass(x)]


def assert_begins_with_a_sentence(thing: Any) -> None:
    """Fail unless the docstring of a function or class begins with a sentence that says what it does."""
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    assert first.endswith((".", ":")), f"{thing}: {first!r}"
    assert not FRAGMENT.match(first), f"{thing}: {first!r}"


def examples_of(modules: Iterable[ModuleType]) -> list[doctest.DocTest]:
    """Return the docstrings that have examples, of modules and of what they define."""
    tests = [test for module in modules for test in doctest.DocTestFinder().find(module)]
    return [test for test in tests if test.examples]


def assert_prints_what_it_says(example: doctest.DocTest) -> None:
    """Run the examples of a docstring; fail unless they print what stands below them."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)
