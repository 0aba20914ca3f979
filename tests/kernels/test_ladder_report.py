"""Test the ladder for a GPU without one: what it counts as a failure, saves, and sees."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import linattn_ref
from linattn_book import results
from tests.kernels import measurements
from tests.kernels.kernel_calls import kernel_call
from tests.kernels.kernel_cases import IN_INTERPRETER, ON_GPU, example
from tests.kernels.ladder_report import COLUMNS, Measurement, Outcome, rows_of, save, table
from tests.kernels.measurements import compare_runs, compare_with_float64
from tests.ops.ladder import Call
from tests.ops.ladder_cases import Case, Tensors

ROOT = Path(linattn_ref.__file__).parents[1]
LADDER = Path(__file__).with_name("test_gpu_ladder.py").relative_to(ROOT)
CASE = IN_INTERPRETER.laws[0]
GOOD, BAD = Measurement("output", 1e-7, 1e-6), Measurement("gradient of q", 3e-6, 1e-6)
PLANTED = f"""
import os
import pytest

every = pytest.mark.parametrize("case", [{str(CASE)!r}])

@every
def test_crash(case):
    os._exit(1)

@every
def test_broken(case):
    raise RuntimeError("out of\\nresource")

@every
def test_bad(case, record_property):
    record_property("measurements", [{tuple(GOOD)}, {tuple(BAD)}])
    raise AssertionError("error above bound")

@every
def test_good(case, record_property):
    record_property("measurements", [{tuple(GOOD)}])
"""


def run_pytest(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin in a process of its own."""
    rooms = (".", "kernels", "book", "benchmarks")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in rooms)}
    program = [sys.executable, "-m", "pytest", "-p", "tests.kernels.ladder_report", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*program, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="make test-gpu does it at full size")
def test_run_on_a_cpu_saves_a_result(tmp_path: Path) -> None:
    done = run_pytest(
        str(LADDER),
        "-k",
        "in_place or test_steps",
        "--ladder-out",
        str(tmp_path),
        "-n",
        "1",
        "--dist=loadgroup",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = results.load("kernels_ladder", directory=tmp_path)
    assert {(row["op"], row["check"], row["form"], row["failed"]) for row in rows} == {
        ("linear_attention", "in_place", "step", 0),
        ("linear_attention", "steps", "step", 0),
        ("selective_scan", "steps", "step", 0),
    }
    origin = results.provenance("kernels_ladder", directory=tmp_path)
    assert origin["command"].startswith("python -m pytest -p tests.kernels.ladder_report")
    assert str(tmp_path) not in origin["command"]
    assert "3 checks, 0 failed" in done.stdout
    assert "HALF_BACKWARD" in done.stdout  # bounds are stated


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run_pytest(str(LADDER), "-m", "gpu", "--ladder-out", str(tmp_path))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no CUDA device is here" in done.stderr


def test_a_failure_or_a_crash_hides_no_other_case(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED)
    done = run_pytest("test_planted.py", "--ladder-out", "out", "-n", "1", folder=tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    rows = {row["check"]: row for row in results.load("kernels_ladder", directory=tmp_path / "out")}
    assert {check: row["failed"] for check, row in rows.items()} == {
        "crash": 1,
        "broken": 1,
        "bad": 1,
        "good": 0,
    }
    assert "crashed while running" in str(rows["crash"]["message"])
    assert rows["broken"]["message"] == "RuntimeError: out of resource"
    assert (rows["bad"]["result"], rows["bad"]["message"]) == ("gradient of q", None)
    assert rows["bad"]["bound_used"] == pytest.approx(3)


def test_a_row_has_the_worst_of_its_group(tmp_path: Path) -> None:
    first, second = Outcome("steps", str(CASE), [GOOD]), Outcome("steps", str(CASE), [GOOD, BAD], failed=True)
    raised = Outcome("split", str(CASE), [], "ValueError: x", failed=True)
    rows = rows_of([first, second, raised])
    assert [(row["check"], row["form"], row["cases"], row["failed"]) for row in rows] == [
        ("split", "chunk", 1, 1),
        ("steps", "step", 2, 1),
    ]
    assert (rows[1]["result"], rows[1]["worst_error"]) == ("gradient of q", 3e-6)
    save(rows, tmp_path, "CPU", "make test-gpu")
    assert list(results.load("kernels_ladder", directory=tmp_path)[0]) == list(COLUMNS)
    assert table(rows).count("FAILED") == 2


def test_comparisons_see_what_is_wrong() -> None:
    case = example("softmax_attention", T=20)
    x = {"output": torch.ones(2, 2)}
    for wrong in (torch.ones(2, 3), torch.full((2, 2), torch.nan), torch.ones(2, 2).double()):
        (found,) = compare_runs(case, ({"output": wrong}, {}), (x, {}), {"output": 1.0})
        assert found.error == math.inf
    (equal,) = compare_runs(case, (x, {}), (x, {}))
    assert equal.bound_used == 0
    (other,) = compare_runs(case, ({"output": x["output"] + 1e-7}, {}), (x, {}))
    assert other.bound_used == math.inf


def test_the_ladder_sees_a_planted_mistake() -> None:
    def wrong(x: Tensors) -> Tensors:
        y = kernel_call(CASE)(x)
        return {**y, "state": y["state"] * (1 + 1e-5)}

    def exceeded(call: Call) -> set[str]:
        return {m.name for m in compare_with_float64(CASE, call) if m.bound_used > 1}

    assert exceeded(kernel_call(CASE)) == set()
    assert "state" in exceeded(wrong)


def test_every_case_has_a_name_of_its_own() -> None:
    cases: set[Case] = {case for listed in (*ON_GPU, *IN_INTERPRETER) for case in listed}
    assert len({str(case) for case in cases}) == len(cases)
    assert min(case.T for case in ON_GPU.laws) >= measurements.LONG
