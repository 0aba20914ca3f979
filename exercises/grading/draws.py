"""Give out draws of a question's inputs, so that answers learn no more than some bits of each.

Where operations are watched, a run learns up to ``MAX_BITS`` bits of a call, and runs can hand on what they
have learnt. So bits are added up over all runs on a draw, whoever's they are, and a draw of which one call
has told that many is given out no more. An operation counts as a bit, too: its time may tell something, since
some take longer for large numbers. Runs side by side would each learn as many, so a draw is with one
submission at a time. Where nothing is told in bits, since an answer gets its inputs whole or the text of a
kernel counts, there is one draw for all.
"""

import contextlib
import threading
from collections import Counter, defaultdict
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
    def is_for_all(self) -> bool:
        """Whether nothing of it is told in bits."""
        return not self._told

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
        self._lock = threading.Lock()  # also held where a question is prepared
        self._count: Counter[QuestionInfo] = Counter()
        self._draws: defaultdict[QuestionInfo, list[Draw]] = defaultdict(list)  # those that are not spent
        self._held: set[Draw] = set()

    @contextlib.contextmanager
    def hold(self, question: Question) -> Iterator[Callable[[], Draw]]:
        """Let a submission have draws of a question, one after the other.

        The value of the context is called before each run and returns the draw for it: the one of the run
        before, unless that is spent. If an exception leaves the context, nobody knows what the last run was
        told, and its draw is not given out again.
        """
        draw = self._take(question)

        def get() -> Draw:
            nonlocal draw
            if draw.is_spent:
                self._give_back(draw)
                draw = self._take(question)
            return draw

        yield get
        self._give_back(draw)

    def _take(self, question: Question) -> Draw:
        """Return a draw that nobody has; make one if there is none."""
        with self._lock:
            free = (one for one in self._draws[question.info] if one not in self._held)
            draw = next(free, None) or self._make(question)
            if not draw.is_for_all:
                self._held.add(draw)
            return draw

    def _make(self, question: Question) -> Draw:
        """Draw inputs and have the reference give what is expected."""
        number = self._count[question.info]
        seed = f"{self._seed}/{number}" if number else self._seed
        draw = Draw(question.prepare(seed), seed)
        self._count[question.info] += 1
        self._draws[question.info].append(draw)
        return draw

    def _give_back(self, draw: Draw) -> None:
        """Let others have a draw, unless it is spent."""
        with self._lock:
            self._held.discard(draw)
            if draw.is_spent:
                self._draws[draw.prepared.question.info].remove(draw)


def _list_watched(prepared: PreparedQuestion) -> list[int]:
    """Return the numbers of the calls whose inputs are watched tensors, and not those of a kernel."""
    if not prepared.question.own_code:
        return []
    return [n for n, call in enumerate(prepared.calls) if call.arguments and not read_plan(call.arguments[0])]
