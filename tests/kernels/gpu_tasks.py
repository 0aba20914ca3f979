"""What the ladder on a GPU has to do, and how a worker does it: a record for every check of every case."""

import json
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.kernels.gpu_checks import CHECKS, laws_of, precision_of
from tests.kernels.gpu_large import large, large_step
from tests.kernels.kernel_cases import (
    ANY_V,
    CLIFFS,
    DRY_CASES,
    DRY_LARGE,
    DRY_LAWS,
    GPU_CASES,
    LARGE_CASES,
    LARGE_STEPS,
    LAW_CASES,
    LONG_CASES,
    PAIR_CASES,
    STEP_CASES,
)
from tests.ops.ladder_cases import Case
from tests.support.poison import poisoned_allocators

ALL_CHECKS = CHECKS | {"large": large, "large_step": large_step}
Record = dict[str, Any]


class Task(NamedTuple):
    """Checks of one case, done by one worker."""

    checks: tuple[str, ...]
    case: Case

    def keys(self) -> list[str]:
        return [f"{check} {self.case}" for check in self.checks]


def tasks_of(device: str, heavy: bool) -> list[Task]:
    """All of one phase: ``heavy`` tasks need a GPU's memory for themselves."""
    if device == "cpu":
        dry = [Task(tuple(laws_of(case, device)), case) for case in DRY_LAWS]
        dry += [Task(precision_of(case), case) for case in DRY_CASES]
        dry += [Task(("large",), case) for case in DRY_LARGE]
        return [] if heavy else dry
    if heavy:
        found = [Task(("large",), case) for case in LARGE_CASES]
        return found + [Task(("large_step",), case) for case in LARGE_STEPS]
    found = [Task(precision_of(case), case) for case in LONG_CASES]
    found += [Task(tuple(laws_of(case, device)), case) for case in LAW_CASES]
    found += [Task(precision_of(case), case) for case in (*CLIFFS, *ANY_V, *PAIR_CASES)]
    found += [Task(precision_of(case), case) for cases in GPU_CASES.values() for case in cases]
    return found + [Task(("steps",), case) for cases in STEP_CASES.values() for case in cases]


# --- a worker ----------------------------------------------------------------------------------------------


def work(tasks: Iterable[Task], part: Path, device: str) -> int:
    """Do what ``part`` has no record of yet. 0, or 3 if the GPU is lost to this process."""
    torch.set_num_threads(1)  # workers are the parallelism
    for owner, name, poisoned in poisoned_allocators():
        setattr(owner, name, poisoned)
    known = {record["key"] for record in read(part)}
    for task in tasks:
        for check, key in zip(task.checks, task.keys(), strict=True):
            if key in known:
                continue
            write(part, {"key": key, "began": True, **facts(check, task.case)})
            record, lost = done(check, task.case, device)
            write(part, {"key": key, **facts(check, task.case), **record})
            if lost:
                return 3
    return 0


def facts(check: str, case: Case) -> Record:
    """What rows are grouped by."""
    return {
        "op": case.op,
        "form": "step" if check in ("steps", "step_gradients", "in_place", "large_step") else "chunk",
        "check": check,
        "decay": case.decay or "none",
        "dtype": str(case.dtype).removeprefix("torch."),
        "case": str(case),
    }


def done(check: str, case: Case, device: str) -> tuple[Record, bool]:
    """The record of a check, and whether an error has taken the GPU with it."""
    start = time.perf_counter()
    failure, found = "", []
    try:
        found = ALL_CHECKS[check](case, device)
    except Exception as error:
        traceback.print_exc()
        failure = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    lost = device == "cuda" and not gpu_answers()
    record = {"results": found, "failure": failure, "seconds": time.perf_counter() - start}
    return record, lost


def gpu_answers() -> bool:
    """Tidies up as well: the workers share the GPU's memory."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


# --- records on disk ---------------------------------------------------------------------------------------


def write(part: Path, record: Record) -> None:
    with part.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read(part: Path) -> list[Record]:
    return [json.loads(line) for line in part.read_text().splitlines()] if part.exists() else []


def records_of(parts: Iterable[Path], tasks: Iterable[Task]) -> Iterator[Record]:
    """One record for each check of each task; a failure for what was never finished."""
    finished: dict[str, Record] = {}
    began: set[str] = set()
    for record in (record for part in parts for record in read(part)):
        if record.get("began"):
            began.add(record["key"])
        else:
            finished[record["key"]] = record
    for task in tasks:
        for check, key in zip(task.checks, task.keys(), strict=True):
            died = "the process died here" if key in began else "not run"
            yield finished.get(key) or {
                **facts(check, task.case),
                "results": [],
                "failure": died,
                "seconds": 0.0,
            }
