"""Draws of inputs: where operations are watched, none that a run has seen can earn a point."""

import weakref

import pytest
import torch

from linattn_exercises.calls import Call
from linattn_exercises.grading.draws import Draws
from linattn_exercises.questions import define_question
from linattn_exercises.sets import load_questions
from tests.exercises.gradebook import make_grader, read, write
from tests.exercises.notebooks import notebook
from tests.exercises.test_grading import answer_differently

TABLE, CHUNKED, UNWATCHED = (load_questions("ch02_linear")[name] for name in ("q1", "q2", "q3"))


@define_question(CHUNKED.info, own_code=True, chunked=lambda x: 2 * x)
def doubled(rng):
    return [Call("chunked", (torch.from_numpy(rng.normal(size=3)),), "three numbers")]


def draw_twice(question, notebook):
    draws = Draws(question, "s", notebook)
    return [repr(draws.draw().calls) for _ in range(2)]


def test_no_two_runs_and_no_two_notebooks_have_the_same_draw():
    ada, bob = (draw_twice(TABLE, name) for name in ("ada", "bob"))
    assert len({*ada, *bob}) == 4
    assert ada == draw_twice(TABLE, "ada")  # whatever was graded before


def test_a_draw_is_not_kept_when_nobody_has_it():
    found = weakref.ref(Draws(TABLE, "s", "ada").draw())
    assert found() is None


@pytest.mark.parametrize("question", [UNWATCHED, load_questions("ch06_fast")["q2"]], ids=["plain", "kernel"])
def test_what_tells_nothing_in_bits_is_drawn_once(question):
    assert len({*draw_twice(question, "ada"), *draw_twice(question, "bob")}) == 1


class ScriptedSandbox:
    """Stand for a sandbox whose runs do as is said: "dies", "stops", "fails", "right", "near"; or give
    a number."""

    def __init__(self, *script) -> None:
        self.script = script
        self.asked: list[list] = []

    def run(self, cells, calls, hurried, limits):
        does = self.script[len(self.asked)]
        self.asked.append(calls)
        if does in ("right", "near"):
            last_digit = 1 + (does == "near") * 1e-15
            return [{"value": last_digit * 2 * call.arguments[0]} for call in calls]
        if does in ("dies", "stops"):
            return [{"error": "Stopped", "text": "slow"} | ({"early": True} if does == "dies" else {})] * len(
                calls
            )
        return [{"error": "ValueError", "text": ""} if does == "fails" else {"value": does} for _ in calls]


@pytest.mark.parametrize(
    ("script", "inputs", "right"),
    [
        (["right"], [0], True),
        (["dies", "right", "right"], [0, 0, 1], True),
        (["fails", "right", "right"], [0, 0, 1], True),
        (["fails", "dies", "fails", "fails", "fails"], [0, 0, 0, 0, 0], False),  # who refuses gets no others
        ([1, 1, 1, 1], [0, 0, 0, 0], False),
        ([1, "right", "right"], [0, 0, 1], True),
        ([1, "right", 1], [0, 0, 1], False),
        ([1, 2], [0, 0], False),
        ([1, 1, "right", "right"], [0, 0, 0, 1], True),
        ([1, "fails", 2], [0, 0, 0], False),
        (["fails", "right", "fails", "near", "right"], [0, 0, 1, 0], False),
        ([1, "dies", "right", "right"], [0, 0, 0, 1], True),
        ([1, "right", "dies", "right"], [0, 0, 1, 2], True),
        (["stops", "right", "stops", "right"], [0, 0, 1, 2], True),
        (["stops", "right", "dies", "dies", "right"], [0, 0, 1, 2], False),
    ],
)
def test_a_point_is_earned_on_inputs_that_no_run_has_seen(tmp_path, monkeypatch, script, inputs, right):
    """What comes after the first run is compared with it on its inputs; if it is right there, it is judged on
    others."""
    grader, box = make_grader(tmp_path / "out"), ScriptedSandbox(*script)
    monkeypatch.setattr(grader, "_get_sandbox", lambda own_code: box)
    content = answer_differently(notebook("ch02_linear"), "q2", [f"x = {number}" for number in range(4)])
    submission = read(write(tmp_path / "a.ipynb", content))
    assert grader._judge_submission(submission, doubled, "ada")[0] == right
    draws = Draws(doubled, "s", "ada")
    drawn = [draws.draw().calls for _ in range(max(inputs) + 1)]
    assert repr(box.asked) == repr([drawn[number] for number in inputs])
