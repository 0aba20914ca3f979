"""What a study is: how to run it, what its columns mean, and which code made its numbers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from linattn_book import measure

Rows = list[dict[str, Any]]
seconds = partial(measure.seconds, repeats=10, warmup=2, at_least=0.2)

OPS = ("linattn_ref/ops", "book/linattn_book/measure.py", "benchmarks/linattn_benchmarks/chapters")
MODELS = (
    *OPS,
    *(f"linattn_ref/{name}" for name in ("mixers", "costs", "backend.py", "config.py", "model.py")),
)
TRAINING = (*MODELS, "linattn_ref/training")


class Study(NamedTuple):
    """``run(reduced)`` gives the rows; ``sources`` are files and folders of the repository, for the hash."""

    run: Callable[[bool], Rows]
    columns: dict[str, str]
    sources: tuple[str, ...]


def lengths(first: int, last: int) -> Iterator[int]:
    """first, 2 first, 4 first, ... up to last."""
    while first <= last:
        yield first
        first *= 2
