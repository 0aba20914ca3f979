"""Give out draws of a question's inputs, so that answers learn no more than some bits of each.

Where operations are watched, a run learns up to ``MAX_BITS`` bits of a call, and what it cannot be kept from
looking at, such as a clock or how much memory the process takes that has the values, tells some more. Runs
can hand on what they have learnt. So each submission has a draw of its own, and another one when of a call of
it so many bits were told; an operation counts as one. Where nothing is told in bits, since an answer gets its
inputs whole or the text of a kernel counts, there is one draw for all.
"""

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from linattn_exercises.calls import Outcome
from linattn_exercises.kernel_memory import read_plan
from linattn_exercises.questions import PreparedQuestion, Question, QuestionInfo
from linattn_exercises.watch import MAX_BITS


class Draw:
    """Hold one draw of inputs, and count what has been told of it.

    Args:
        prepared: the question with these inputs.
        seed: what they were drawn from.
    """

    def __init__(self, prepared: PreparedQuestion, seed: str) -> None:
        self.prepared, self.seed = prepared, seed
        self._told = dict.fromkeys(_list_watched(prepared), 0)  # bits, by the number of a watched call

    @property
    def is_spent(self) -> bool:
        """Whether too much of it was told for another run."""
        return max(self._told.values(), default=0) >= MAX_BITS

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """Count what a run was told, by its outcomes: as much as may be where they do not say."""
        for number in self._told:
            self._told[number] += outcomes[number].get("bits", MAX_BITS)


class Draws:
    """Give out the draws of all questions; several threads may ask at once.

    Args:
        seed: what a question's first draw is drawn from; the second from ``seed/1`` and so on.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._numbers: defaultdict[QuestionInfo, Iterator[int]] = defaultdict(itertools.count)

    def begin(self, question: Question) -> Callable[[], Draw]:
        """Begin the attempts of a submission at a question.

        Returns:
            What is called before each run and returns the draw for it: the one of the run before, unless that
            is spent.
        """
        draw = self._make(question)

        def get() -> Draw:
            nonlocal draw
            if draw.is_spent:
                draw = self._make(question)
            return draw

        return get

    def _make(self, question: Question) -> Draw:
        """Draw inputs and have the reference give what is expected; where nothing is told, once for all."""
        first = question.prepare(self._seed)
        if not _list_watched(first):
            return Draw(first, self._seed)
        with self._lock:
            number = next(self._numbers[question.info])
        seed = f"{self._seed}/{number}" if number else self._seed
        return Draw(question.prepare(seed, keep=False) if number else first, seed)


def _list_watched(prepared: PreparedQuestion) -> list[int]:
    """Return the numbers of the calls whose inputs are watched tensors, and not those of a kernel."""
    if not prepared.question.own_code:
        return []
    return [n for n, call in enumerate(prepared.calls) if call.arguments and not read_plan(call.arguments[0])]
