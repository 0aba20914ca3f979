"""What a study is: how to run it, what its columns mean, and which code made its numbers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from linattn_ref import measure

Rows = list[dict[str, Any]]
seconds = partial(measure.seconds, repeats=10, warmup=2, at_least=0.2)

OPS = ("ops", "measure.py", "shapes.py", "benchmarks/study.py")
MODELS = (*OPS, "mixers", "accounting.py", "paper_costs.py", "backend.py", "config.py", "model.py")
TRAINING = (*MODELS, "tasks", "files.py", "checkpoint.py", "distributed.py", "train.py", "train_config.py")


class Study(NamedTuple):
    """``run(reduced)`` gives the rows; ``sources`` are files and folders of the package, for the hash."""

    run: Callable[[bool], Rows]
    columns: dict[str, str]
    sources: tuple[str, ...]


def lengths(first: int, last: int) -> Iterator[int]:
    """first, 2 first, 4 first, ... up to last."""
    while first <= last:
        yield first
        first *= 2
