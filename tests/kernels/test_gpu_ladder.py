"""The runner of the GPU's ladder, without a GPU: what it counts as a failure, what it saves, a dry run."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import linattn_ref
from linattn_book import results
from tests.kernels import gpu_tasks
from tests.kernels.gpu_checks import Measurement, compared, precision
from tests.kernels.gpu_report import COLUMNS, fails, rows_of, save, table
from tests.kernels.gpu_tasks import ALL_CHECKS, Task, read, records_of, tasks_of, work, write
from tests.kernels.kernel_cases import DRY_CASES, KERNEL_OPS, example

ROOT = Path(linattn_ref.__file__).parents[1]
CASE = example("linear_attention", "token", T=5)
GOOD, BAD = Measurement("output", 1e-7, 1e-6), Measurement("gradient of q", 3e-6, 1e-6)


def environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "book"))
    return (
        {key: x for key, x in os.environ.items() if key != "LINATTN_CHECK_SHAPES"}
        | {"PYTHONPATH": path}
        | changes
    )


def command(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.kernels.gpu_ladder", *arguments]
    return subprocess.run(program, env=environment(**changes), capture_output=True, text=True, check=False)


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch, **checks: object) -> list[gpu_tasks.Record]:
    """What a worker leaves of one case with these checks."""
    monkeypatch.setattr(gpu_tasks, "ALL_CHECKS", checks)
    monkeypatch.setattr(gpu_tasks, "poisoned_allocators", list)
    tasks = [Task(tuple(checks), CASE)]
    assert work(tasks, path, "cpu") == 0
    return list(records_of([path], tasks))


def test_dry_run_saves_a_result(tmp_path: Path) -> None:
    done = command("--out", str(tmp_path), "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = results.load("kernels_ladder", directory=tmp_path)
    assert {(row["op"], row["failed"]) for row in rows} == {(op, 0) for op in KERNEL_OPS}
    checks = {check for heavy in (False, True) for task in tasks_of("cpu", heavy) for check in task.checks}
    assert {row["check"] for row in rows} == checks
    origin = results.provenance("kernels_ladder", directory=tmp_path)
    assert origin["command"].endswith("-m tests.kernels.gpu_ladder --out DIR --dry-run")
    assert "0 failed" in done.stdout.splitlines()[-1]
    assert "HALF_BACKWARD" in done.stdout  # bounds are stated


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = command("--out", str(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "no CUDA device is here" in done.stderr


def test_a_failure_hides_no_other_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: object, device: str) -> list[Measurement]:
        raise RuntimeError("out of\nresource")

    checks = {
        "broken": broken,
        "good": lambda *_: [GOOD],
        "bad": lambda *_: [GOOD, BAD],
        "empty": lambda *_: [],
    }
    records = recorded(tmp_path / "part", monkeypatch, **checks)
    assert [fails(record) for record in records] == [True, False, True, True]
    rows = {row["check"]: row for row in rows_of(records)}
    assert rows["broken"]["message"] == "RuntimeError: out of resource"
    assert (rows["bad"]["failed"], rows["bad"]["result"]) == (1, "gradient of q")
    assert rows["bad"]["bound_used"] == pytest.approx(3)
    save(list(rows.values()), tmp_path, "CPU", "make test-gpu")
    assert list(results.load("kernels_ladder", directory=tmp_path)[0]) == list(COLUMNS)
    assert table(list(rows.values())).count("FAILED") == 3


def test_a_worker_goes_on_after_the_case_that_killed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, tasks = tmp_path / "part", [Task(("first", "second"), CASE)]
    write(part, {"key": tasks[0].keys()[0], "began": True})  # and then the process died
    before = list(records_of([part], tasks))
    assert [record["failure"] for record in before] == ["the process died here", "not run"]
    calls: list[str] = []

    def noted(name: str) -> Callable[..., list[Measurement]]:
        def check(case: object, device: str) -> list[Measurement]:
            calls.append(name)
            return [GOOD]

        return check

    checks = {name: noted(name) for name in ("first", "second")}
    after = recorded(part, monkeypatch, **checks)
    assert calls == ["second"]
    assert [record["failure"] for record in after] == ["the process died here", ""]
    assert len(read(part)) == 3


def test_checks_see_what_is_wrong() -> None:
    case = DRY_CASES[1]
    x = {"output": torch.ones(2, 2)}
    for wrong in (torch.ones(2, 3), torch.full((2, 2), torch.nan), torch.ones(2, 2).double()):
        (found,) = compared(case, ({"output": wrong}, {}), (x, {}), {"output": 1.0})
        assert found.error == math.inf
    assert not fails({"failure": "", "results": compared(case, (x, {}), (x, {}))})
    other = {"output": x["output"] + 1e-7}
    assert fails({"failure": "", "results": compared(case, (other, {}), (x, {}))})


def test_the_ladder_rejects_a_planted_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpu_tasks.CHECKS["precision"].__globals__["kernel_call"]
    assert not fails({"failure": "", "results": precision(CASE, "cpu")})

    def wrong(case):  # type: ignore[no-untyped-def]
        def call(x):  # type: ignore[no-untyped-def]
            y = right(case)(x)
            return {**y, "state": y["state"] * (1 + 1e-5)}

        return call

    monkeypatch.setitem(gpu_tasks.CHECKS["precision"].__globals__, "kernel_call", wrong)
    failed = [m.name for m in precision(CASE, "cpu") if m.error > m.bound]
    assert "state" in failed


def test_every_task_of_a_gpu_has_its_check_and_no_two_the_same_name() -> None:
    tasks = [task for heavy in (False, True) for task in tasks_of("cuda", heavy)]
    keys = [key for task in tasks for key in task.keys()]  # noqa: SIM118
    assert len(keys) == len(set(keys))
    assert {check for task in tasks for check in task.checks} == set(ALL_CHECKS)
