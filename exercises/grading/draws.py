"""Give the runs of a notebook at a question their inputs.

Where operations are watched, a run learns some bits of the values. What it cannot be kept from looking at,
such as a clock or how much memory the process takes that has the values, tells it far more, and runs can
hand on what they have learnt. So there no run can earn a point on inputs that another one has seen. Where an
answer gets its inputs whole, or the text of a kernel counts, there is one draw for all.
"""

import itertools

from linattn_exercises.kernel_memory import read_plan
from linattn_exercises.questions import PreparedQuestion, Question


class Draws:
    """Draw inputs for the runs of one notebook, and have the reference give what is expected.

    Args:
        question: what is asked.
        seed: the secret from which all inputs are drawn.
        notebook: what tells a notebook from others; equal ones have equal inputs, whatever was graded before.

    Attributes:
        are_watched: whether operations are, so that ``draw`` gives other inputs each time.
        common: the inputs of the first run, on which what comes after it is compared; None before that.
        are_used: whether an answer after the first run was judged, on inputs that were new.
    """

    def __init__(self, question: Question, seed: str, notebook: str) -> None:
        self._question, self._seed, self._notebook = question, seed, notebook
        self._of_all = question.prepare(seed)
        self._numbers = itertools.count()
        self.are_watched = _has_watched(self._of_all)
        self.common: PreparedQuestion | None = None
        self.are_used = False

    def draw(self) -> PreparedQuestion:
        """Return inputs that no run has seen; where nothing is watched, those of all."""
        if not self.are_watched:
            return self._of_all
        return self._question.prepare(f"{self._seed}/{self._notebook}/{next(self._numbers)}", keep=False)


def _has_watched(prepared: PreparedQuestion) -> bool:
    """Return whether there are calls whose inputs are watched tensors, and not those of a kernel."""
    if not prepared.question.own_code:
        return False
    return any(call.arguments and not read_plan(call.arguments[0]) for call in prepared.calls)
