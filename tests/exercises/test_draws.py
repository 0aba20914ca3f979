"""Draws of inputs: of each, answers learn no more than some bits."""

import weakref

import pytest

from linattn_exercises.calls import run_call
from linattn_exercises.grading.draws import Draws
from linattn_exercises.sets import load_questions
from linattn_exercises.watch import MAX_BITS
from tests.exercises.gradebook import make_grader, read, write
from tests.exercises.notebooks import notebook

TABLE, UNWATCHED = (load_questions("ch02_linear")[name] for name in ("q1", "q3"))


def learn(get_draw, bits):
    """Let a run learn so many bits of the second call; return the seed that it was given."""
    draw = get_draw()
    outcomes = [{"bits": 0} for _ in draw.prepared.calls]
    outcomes[1] = {} if bits is None else {"bits": bits}
    draw.note(outcomes)
    return draw.seed


@pytest.mark.parametrize(
    ("bits", "seeds"),
    [
        ([1, 64, 3, 0], ["s", "s", "s", "s"]),
        ([MAX_BITS - 1, 1, 0, 0], ["s", "s", "s/1", "s/1"]),
        ([MAX_BITS, 960, 960, 0], ["s", "s/1", "s/1", "s/2"]),
        ([None, None, 5, 5], ["s", "s/1", "s/2", "s/2"]),
    ],
    ids=["few", "added up", "many", "unknown"],
)
def test_of_what_much_was_told_a_submission_is_told_no_more(bits, seeds):
    get_draw = Draws("s").begin(TABLE)
    assert [learn(get_draw, one) for one in bits] == seeds


def test_no_two_submissions_have_the_same_draw():
    draws = Draws("s")
    first, second = draws.begin(TABLE), draws.begin(TABLE)
    assert [learn(first, 1), learn(second, 1), learn(first, 1)] == ["s", "s/1", "s"]
    assert learn(draws.begin(TABLE), 1) == "s/2"


def test_a_draw_is_not_kept_when_nobody_has_it():
    draws = Draws("s")
    draws.begin(TABLE)
    found = weakref.ref(draws.begin(TABLE)().prepared)
    assert found() is None


@pytest.mark.parametrize("question", [UNWATCHED, load_questions("ch06_fast")["q2"]], ids=["plain", "kernel"])
def test_what_tells_nothing_in_bits_is_drawn_once(question):
    draws = Draws("s")
    first, second = draws.begin(question), draws.begin(question)
    assert [learn(first, None), learn(second, None), learn(first, None)] == ["s", "s", "s"]


class ScriptedSandbox:
    """Stand for a sandbox whose first run ends early and leaves no word; the next is right."""

    def __init__(self) -> None:
        self.asked: list[list] = []

    def run(self, cells, calls, hurried, limits):
        self.asked.append(calls)
        if len(self.asked) == 1:
            return [{"error": "Stopped", "text": "", "early": True}] * len(calls)
        return [run_call(TABLE.reference, call, watched=True) for call in calls]


def test_a_run_that_ends_early_is_made_again_on_other_inputs_and_judged_on_them(tmp_path, monkeypatch):
    grader, box = make_grader(tmp_path / "out"), ScriptedSandbox()
    monkeypatch.setattr(grader, "_get_sandbox", lambda own_code: box)
    submission = read(write(tmp_path / "a.ipynb", notebook("ch02_linear")))
    assert grader._judge_submission(submission, TABLE)[0]
    assert repr(box.asked) == repr([TABLE.prepare(seed).calls for seed in ("s", "s/1")])
