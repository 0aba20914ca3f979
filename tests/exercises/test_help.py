"""Help stands at the functions that authors and teachers call, and its examples are true."""

import dataclasses
import doctest
import gc
import inspect
import re

import pytest

from linattn_exercises import calls, comparison, grading, known_mistakes, questions, sets
from linattn_exercises.grading import tables

FUNCTIONS = [
    calls.decode_outcome,
    calls.find_fault,
    calls.run_call,
    grading.find_submissions,
    known_mistakes.also_right,
    known_mistakes.load_known_answers,
    known_mistakes.mistake,
    questions.Question.check,
    questions.Question.judge,
    questions.define_question,
    sets.load_check,
    sets.load_questions,
    tables.write,
    grading.Grader.grade,
]
CLASSES = [
    calls.Call,
    comparison.Close,
    comparison.Difference,
    comparison.Exactly,
    comparison.Judged,
    comparison.Within,
    grading.GradedSubmission,
    grading.Grader,
    grading.Limits,
    grading.Mark,
    known_mistakes.KnownAnswer,
    known_mistakes.KnownMistake,
    questions.Question,
    questions.QuestionInfo,
    questions.Verdict,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_a_function_says_what_it_takes(function):
    described = (inspect.getdoc(function) or "").partition("Args:")[2]
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    assert [name for name in names if not re.search(rf"^ +{name}: ", described, re.MULTILINE)] == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
def test_a_class_says_what_it_holds(kind):
    described = (inspect.getdoc(kind) or "").partition("Args:")[2]
    own = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    inherited = {name for base in kind.__mro__[1:-1] for name in getattr(base, "__dataclass_fields__", {})}
    names = [name for name in (own or getattr(kind, "_fields", [])) if name not in inherited]
    assert [name for name in names if not re.search(rf"^ +{name}: ", described, re.MULTILINE)] == []


def test_the_examples_print_what_they_say():
    gc.collect()  # what is given back while an example measures memory hides what it takes
    result = doctest.testmod(questions, optionflags=doctest.ELLIPSIS)
    assert (result.failed, result.attempted) == (0, 7)
