"""Describe a benchmark: its table, and the tasks that measure the rows of the table."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from linattn_book.measure import get_default_device

BenchmarkRow = dict[str, Any]
Rows = list[BenchmarkRow]


class Size(StrEnum):
    """Say how large a benchmark is run."""

    FULL = "full"  # as the committed tables were measured
    REDUCED = "reduced"  # minutes at most, on a laptop where the benchmark needs no GPU
    DRY_RUN = "dry-run"  # tiny inputs on a CPU, to test the code: the numbers mean nothing


@dataclass(frozen=True)
class Task:
    """Measure some rows of a table at once.

    Attributes:
        key: the cells that these rows share and no other task's rows have. They say which rows of a stopped
            run need not be measured again.
        measure: returns the rows; cells of the key may be left out.
        compile: compiles whatever ``measure`` will run, without measuring it. Default None: there is nothing.
    """

    key: Mapping[str, Any]
    measure: Callable[[], Rows]
    compile: Callable[[], None] | None = None

    @property
    def label(self) -> str:
        """Return the key as one line of text."""
        return ", ".join(f"{column} = {cell}" for column, cell in self.key.items() if cell is not None)

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row is one of this task's."""
        return all(row[column] == cell for column, cell in self.key.items())

    def rows(self) -> Rows:
        """Measure, and return whole rows."""
        return [dict(self.key) | row for row in self.measure()]


@dataclass(frozen=True)
class Benchmark:
    """Describe a table of measurements and how it is made.

    Attributes:
        name: of the table, as ``linattn_book.results`` keeps it.
        columns: each column's unit or meaning, in order.
        tasks: size -> all tasks, in the order of their rows in the table.
        mixers: of its models; the other mixers do not decide its rows.
        needs_gpu: whether anything but a dry run needs one.
        group_by: the key column by which tasks are shared out to processes; empty: all run one after the
            other in one process.
        processes_share_gpu: whether several processes may use one GPU at a time; timings would be wrong.
        is_kept: whether a row of an earlier run is kept; the task of a row that is not is run again.
        describe: rows of a task -> what is printed when they have been measured.
        report: all rows -> what is printed at the end.
    """

    name: str
    columns: Mapping[str, str]
    tasks: Callable[[Size], Sequence[Task]]
    mixers: Collection[str] = ()
    needs_gpu: bool = False
    group_by: str = ""
    processes_share_gpu: bool = False
    is_kept: Callable[[BenchmarkRow], bool] = lambda row: True
    describe: Callable[[Rows], str] = lambda rows: f"rows: {len(rows)}"
    report: Callable[[Rows], str] = lambda rows: f"rows: {len(rows)}"


def choose_device(size: Size) -> torch.device:
    """Return the GPU if there is one; the CPU in a dry run."""
    return torch.device("cpu") if size is Size.DRY_RUN else get_default_device()


def doubling(first: int, last: int) -> Iterator[int]:
    """Yield first, 2 first, 4 first, ... up to last."""
    while first <= last:
        yield first
        first *= 2
