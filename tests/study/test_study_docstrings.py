"""What the study says of itself is true: first lines are sentences, examples print what they say."""

import doctest
from types import ModuleType

import pytest

import linattn_study
from tests.support.help import (
    assert_begins_with_a_sentence,
    assert_prints_what_it_says,
    defined_in,
    examples_of,
    modules_of,
)

MODULES = modules_of(linattn_study)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_function_and_class_says_what_it_does(module: ModuleType) -> None:
    for thing in defined_in(module):
        assert_begins_with_a_sentence(thing)


@pytest.mark.parametrize("example", examples_of(MODULES), ids=lambda test: test.name)
def test_an_example_prints_what_it_says(example: doctest.DocTest) -> None:
    assert_prints_what_it_says(example)
