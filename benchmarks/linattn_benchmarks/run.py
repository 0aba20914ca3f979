"""Run a benchmark: whatever is missing in its table, saved task by task.

A run that is stopped goes on where it was: rows of the same code, size and device are kept. Tasks that need
not run alone are shared out to processes, one for each GPU, and a process that crashes takes no other's rows
along.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from queue import SimpleQueue

import torch

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_benchmarks.registry import BENCHMARKS
from linattn_book import results
from linattn_book.provenance import code_hash

MODULE = "linattn_benchmarks"
Selection = Mapping[str, Sequence[str]]  # key column -> cells that are wanted, as text; * stands for anything


# --- which tasks --------------------------------------------------------------------------------------------


def select(tasks: Sequence[Task], only: Selection) -> list[Task]:
    """Return the tasks whose key has one of the wanted cells in every column that is named.

    Raises:
        ValueError: a column is not in the key, a cell in no task, or no task has all that is wanted.
    """
    for column, patterns in only.items():
        columns = list(tasks[0].key)
        if column not in columns:
            raise ValueError(f"--only: got the column {column!r}, expected one of {', '.join(columns)}")
        cells = list(dict.fromkeys(str(task.key[column]) for task in tasks))
        for pattern in patterns:
            if not any(_matches(cell, pattern) for cell in cells):
                raise ValueError(f"--only: got {column}={pattern}, expected one of {', '.join(cells)}")
    chosen = [
        task
        for task in tasks
        if all(any(_matches(str(task.key[c]), p) for p in patterns) for c, patterns in only.items())
    ]
    if not chosen:
        raise ValueError("--only: got a selection that no task has, expected one that some task has")
    return chosen


def _matches(cell: str, pattern: str) -> bool:
    """Return whether a cell is the pattern, or fits it as a file name would."""
    return cell == pattern or fnmatchcase(cell, pattern)


# --- the table on disk --------------------------------------------------------------------------------------


@dataclass
class Table:
    """Hold the rows of a benchmark, and save them with their provenance after each task."""

    benchmark: Benchmark
    size: Size
    directory: Path
    only: Selection = field(default_factory=dict)
    rows: Rows = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks = self.benchmark.tasks(self.size)
        self.source_hash = code_hash(
            BENCHMARKS[self.benchmark.name].split(":")[0], mixers=self.benchmark.mixers
        )
        self.device = "CPU, dry run" if self.size is Size.DRY_RUN else results.device_name()

    @property
    def parts(self) -> Path:
        """Return the folder in which processes keep the tables of their tasks while they run."""
        return self.directory / f"{self.benchmark.name}.parts"

    def read(self, directory: Path) -> None:
        """Add the rows of an earlier run, if it was of the same code, size and device."""
        name = self.benchmark.name
        if name not in results.names(directory=directory):
            return
        origin = results.provenance(name, directory=directory)
        same_code = results.same_code(origin["source_hash"], self.source_hash)
        same_run = same_code and origin["device"] == self.device
        if not same_run or read_size(origin["command"]) is not self.size:
            print(f"{directory}: its rows are of other code, size or device and will be replaced", flush=True)
            return
        tasks = [task for task in self.tasks if not self.has(task)]
        rows = [row for row in results.load(name, directory=directory) if self.benchmark.is_kept(row)]
        self.rows += [row for row in rows if any(task.owns(row) for task in tasks)]

    def has(self, task: Task) -> bool:
        """Return whether there are rows of a task."""
        return any(task.owns(row) for row in self.rows)

    def drop(self, tasks: Sequence[Task]) -> None:
        """Remove the rows of some tasks."""
        self.rows = [row for row in self.rows if not any(task.owns(row) for task in tasks)]

    def save(self) -> None:
        """Save the rows there are, in the order of the tasks."""
        if not self.rows:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        owner = {id(row): i for row in self.rows for i, task in enumerate(self.tasks) if task.owns(row)}
        self.rows.sort(key=lambda row: owner[id(row)])
        seeds = sorted({row.get("seed", 0) for row in self.rows})  # rows of one seed need no column for it
        results.save(
            self.benchmark.name,
            self.rows,
            columns=self.benchmark.columns,
            command=self.command(),
            seed=seeds if len(seeds) > 1 else seeds[0],
            source_hash=self.source_hash,
            device=self.device,
            directory=self.directory,
        )

    def command(self) -> str:
        """Return the command that makes all rows of the table: what a reader types."""
        wanted = select(self.tasks, self.only)
        all_wanted = all(any(task.owns(row) for task in wanted) for row in self.rows)
        words = [
            self.benchmark.name,
            *list_options(self.size, self.only if all_wanted else {}),
            "--out",
            "DIR",
        ]
        return f"python -m {MODULE} {shlex.join(words)}"


def list_options(size: Size, only: Selection) -> list[str]:
    """Return the options of the command that say which rows are measured."""
    chosen = [f"{column}={pattern}" for column, patterns in only.items() for pattern in patterns]
    return [*([] if size is Size.FULL else [f"--{size.value}"]), *(["--only", *chosen] if chosen else [])]


def read_size(command: str) -> Size:
    """Return the size that a command asks for."""
    words = shlex.split(command)
    return next((size for size in Size if f"--{size.value}" in words), Size.FULL)


# --- running ------------------------------------------------------------------------------------------------


class Outcome:
    """Count what went wrong: tasks that failed, and tasks that there was no time for."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.left: list[str] = []


def run_benchmark(
    benchmark: Benchmark,
    out: Path,
    *,
    size: Size = Size.FULL,
    only: Selection | None = None,
    minutes: float | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    join: Sequence[Path] = (),
) -> Outcome:
    """Measure what is missing of a benchmark's table, save it as it comes, and print a report.

    Args:
        benchmark: what is run.
        out: folder of the table, ``NAME.csv`` and ``index.json``; rows that are there already are kept.
        size: how large it is run.
        only: which tasks, by cells of their keys. Default None, all.
        minutes: no task begins after them, nor one that would probably end after them. Default None, no end.
        jobs: processes at the same time. Default None, what ``count_processes`` says.
        fresh: measure again the rows that are there already.
        join: folders of other runs whose rows are taken, too.

    Returns:
        Labels of the tasks that failed, and of those that were not run.
    """
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    table = Table(benchmark, size, out, only or {})
    wanted = select(table.tasks, table.only)
    parts = sorted(table.parts.glob("*"))  # of processes that were stopped
    for directory in [out, *parts, *join]:
        table.read(directory)
    if fresh:
        table.drop(wanted)
    table.save()
    missing = [task for task in wanted if not table.has(task)]
    if len(missing) < len(wanted):
        print(f"{len(wanted) - len(missing)} tasks are done already; --fresh runs them again", flush=True)
    outcome = Outcome()
    jobs = count_processes(benchmark, missing, jobs)
    if jobs > 1:
        run_in_processes(table, missing, jobs, deadline, outcome)
    else:
        run_one_by_one(table, missing, deadline, outcome)
    print(f"\n{benchmark.report(table.rows)}" if table.rows else "no rows", flush=True)
    for label in outcome.left:
        print(f"not run, the minutes are over: {label}", flush=True)
    return outcome


def run_one_by_one(table: Table, tasks: Sequence[Task], deadline: float, outcome: Outcome) -> None:
    """Run tasks in this process. One that raises is named, and the rest goes on."""
    took: list[float] = []
    for i, task in enumerate(tasks):
        start = time.monotonic()
        if start + max(took[-3:], default=0.0) > deadline:
            outcome.left += [task.label for task in tasks[i:]]
            return
        print(task.label, flush=True)
        torch.manual_seed(0)
        try:
            rows = task.rows()
        except Exception as error:  # one that fails must not hide the others
            traceback.print_exc()
            outcome.failed.append(task.label)
            print(f"    failed, {type(error).__name__}: {str(error)[:300]}", flush=True)
        else:
            table.rows += rows
            table.save()
            print(f"    {table.benchmark.describe(rows)}", flush=True)
        took.append(time.monotonic() - start)


def count_processes(benchmark: Benchmark, tasks: Sequence[Task], jobs: int | None) -> int:
    """Return how many processes run the tasks: one for each GPU, unless told and unless they may share one.

    Raises:
        ValueError: if more are asked for than the benchmark allows on this machine.
    """
    gpus = max(1, torch.cuda.device_count())
    most = len(group_tasks(benchmark, tasks)) if benchmark.group_by else 1
    if jobs is None:
        return min(most, 1 if benchmark.processes_share_gpu else gpus)
    if jobs > gpus and not benchmark.processes_share_gpu:
        raise ValueError(f"--jobs: got {jobs}, expected at most {gpus}: {benchmark.name} needs a GPU alone")
    return min(most, jobs)


def group_tasks(benchmark: Benchmark, tasks: Sequence[Task]) -> dict[str, list[Task]]:
    """Return the tasks by their cell in the column by which they are shared out."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(str(task.key[benchmark.group_by]), []).append(task)
    return groups


def run_in_processes(
    table: Table, tasks: Sequence[Task], jobs: int, deadline: float, outcome: Outcome
) -> None:
    """Run each group of tasks in a process of its own, ``jobs`` at a time, on the GPUs in turn."""
    column = table.benchmark.group_by
    groups = group_tasks(table.benchmark, tasks)
    parts = table.parts
    shutil.rmtree(parts, ignore_errors=True)  # what was in there has been read
    directories = {cell: parts / re.sub(r"[^\w.-]+", "-", cell) for cell in groups}
    for cell in groups:  # a process goes on from what is there
        rows = [row for row in table.rows if str(row[column]) == cell]
        Table(table.benchmark, table.size, directories[cell], {column: [cell]}, rows).save()
    free_gpus: SimpleQueue[str] = SimpleQueue()
    names = list_visible_gpus()
    for i in range(jobs):
        free_gpus.put(names[i % len(names)] if names else "")

    def run(cell: str) -> tuple[str, subprocess.CompletedProcess[str] | None]:
        if time.monotonic() > deadline:
            return cell, None
        only = {**table.only, column: [cell]}
        options = [*list_options(table.size, only), "--out", str(directories[cell]), "--jobs", "1"]
        if deadline < float("inf"):
            options += ["--minutes", str((deadline - time.monotonic()) / 60)]
        gpu = free_gpus.get()
        try:
            return cell, run_command([table.benchmark.name, *options], jobs, gpu)
        finally:
            free_gpus.put(gpu)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run, cell) for cell in groups]):
            cell, process = done.result()
            if process:
                crash = process.stderr[-500:] if process.returncode else ""
                print(f"{process.stdout}{crash}".rstrip(), flush=True)
            table.read(directories[cell])
            table.save()
            missing = [task.label for task in groups[cell] if not table.has(task)]
            out_of_time = process is None or process.returncode == 0
            (outcome.left if out_of_time else outcome.failed).extend(missing)
    shutil.rmtree(parts, ignore_errors=True)


def list_visible_gpus() -> list[str]:
    """Return the names by which ``CUDA_VISIBLE_DEVICES`` calls the GPUs of this process."""
    own = os.environ.get("CUDA_VISIBLE_DEVICES")
    return own.split(",") if own else [str(i) for i in range(torch.cuda.device_count())]


def run_command(arguments: Sequence[str], jobs: int, gpu: str = "") -> subprocess.CompletedProcess[str]:
    """Run this package's command in one of ``jobs`` processes, on one GPU, and keep what it prints."""
    threads = str(max(1, (os.cpu_count() or 1) // jobs))  # else the processes fight for the cores
    environment = {"OMP_NUM_THREADS": threads, **os.environ}
    if gpu:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    command = [sys.executable, "-m", MODULE, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


# --- compiling beforehand -----------------------------------------------------------------------------------


def compile_benchmark(benchmark: Benchmark, size: Size, only: Selection, jobs: int | None) -> Outcome:
    """Compile whatever the tasks will run, a process for each group; no times are taken.

    Args:
        benchmark: one whose tasks have a ``compile``.
        size: how large it will be run.
        only: which tasks, by cells of their keys.
        jobs: processes at the same time. Default None, one for each core.
    """
    tasks, outcome, jobs = select(benchmark.tasks(size), only), Outcome(), jobs or os.cpu_count() or 1
    groups = group_tasks(benchmark, tasks)
    if len(groups) == 1:
        for task in tasks:
            if task.compile:
                task.compile()
        return outcome

    def run(cell: str) -> Iterator[str]:
        options = list_options(size, {**only, benchmark.group_by: [cell]})
        process = run_command([benchmark.name, *options, "--warm"], jobs)
        if process.returncode:
            outcome.failed.append(cell)
        yield f"{cell}: {'failed' if process.returncode else 'compiled'}\n{process.stdout}"
        yield process.stderr[-500:] if process.returncode else ""

    with ThreadPoolExecutor(jobs) as pool:
        for text in pool.map(lambda cell: "".join(run(cell)), groups):
            print(text.rstrip(), flush=True)
    return outcome
