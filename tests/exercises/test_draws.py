"""Draws of inputs: of each, answers learn no more than some bits."""

from contextlib import suppress

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
@pytest.mark.parametrize("together", [True, False])
def test_of_what_much_was_told_nobody_is_told_more(bits, seeds, together):
    draws = Draws("s")
    if together:  # attempts of one submission
        with draws.hold(TABLE) as get_draw:
            found = [learn(get_draw, one) for one in bits]
    else:
        found = []
        for one in bits:
            with draws.hold(TABLE) as get_draw:
                found.append(learn(get_draw, one))
    assert found == seeds


def test_a_draw_is_with_one_submission_at_a_time():
    draws = Draws("s")
    with draws.hold(TABLE) as first, draws.hold(TABLE) as second:
        assert [learn(first, 1), learn(second, 1), learn(first, 1)] == ["s", "s/1", "s"]
    with draws.hold(TABLE) as third:
        assert learn(third, 1) == "s"


def test_a_draw_of_which_nobody_knows_what_was_told_is_not_given_out_again():
    draws = Draws("s")
    with suppress(RuntimeError), draws.hold(TABLE):
        raise RuntimeError("no process was left")
    with draws.hold(TABLE) as get_draw:
        assert learn(get_draw, 1) == "s/1"


@pytest.mark.parametrize("question", [UNWATCHED, load_questions("ch06_fast")["q2"]], ids=["plain", "kernel"])
def test_what_tells_nothing_in_bits_is_drawn_once(question):
    draws = Draws("s")
    with draws.hold(question) as first, draws.hold(question) as second:
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
    assert box.asked == [TABLE.prepare(seed).calls for seed in ("s", "s/1")]
