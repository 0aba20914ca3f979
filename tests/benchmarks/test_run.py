"""The command: what it measures, keeps, resumes, shares out and refuses."""

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from linattn_benchmarks import __main__ as command
from linattn_benchmarks import run
from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_benchmarks.registry import BENCHMARKS, load_benchmark
from linattn_book import results
from linattn_ref import mixers

LABELS = [f"op = {op}, mode = {mode}" for op in "ab" for mode in ("fwd", "step")]


@pytest.fixture
def measured() -> list[str]:
    """Labels of what has been measured."""
    return []


@pytest.fixture
def made_up(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark of made-up times, which the command knows as "kernels"."""

    def tasks(size: Size) -> list[Task]:
        def measure(label: str) -> Rows:
            measured.append(label)
            return [{"seed": seed, "ms": 1.5} for seed in (0, 1)]

        keys = [{"op": op, "mode": mode} for op in "ab" for mode in ("fwd", "step")]
        return [Task(key, partial(measure, LABELS[i])) for i, key in enumerate(keys)]

    columns = {"op": "of ours", "mode": "fwd or step", "seed": "of inputs", "ms": "milliseconds"}
    benchmark = Benchmark("made_up", columns, tasks, group_by="op")
    monkeypatch.setitem(BENCHMARKS, "made_up", "linattn_benchmarks.compare:MADE_UP")
    monkeypatch.setattr(command, "load_benchmark", lambda name: benchmark)
    return benchmark


def call(out: Path, *words: str) -> int:
    return command.main(["kernels", "--out", str(out), *words])


def saved(out: Path) -> list[str]:
    rows: list[dict[str, Any]] = results.load("made_up", directory=out)
    return [f"op = {row['op']}, mode = {row['mode']}" for row in rows[::2]]


def test_a_second_run_measures_only_what_is_missing(
    tmp_path: Path, made_up: Benchmark, measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "--only", "mode=step") == 0
    assert call(tmp_path) == 0
    assert measured == [LABELS[1], LABELS[3], LABELS[0], LABELS[2]]
    assert "2 tasks are done already" in capsys.readouterr().out
    assert saved(tmp_path) == LABELS  # in the order of the tasks, whichever run they come from
    call(tmp_path, "--only", "op=a", "--fresh")
    assert measured[4:] == LABELS[:2]
    assert saved(tmp_path) == LABELS
    # the last command alone would not make the rows that were kept
    entry = results.provenance("made_up", directory=tmp_path)
    assert entry["command"] == "python -m linattn_benchmarks made_up --out DIR"


def test_the_provenance_is_the_command_without_the_readers_folder(tmp_path: Path, made_up: Benchmark) -> None:
    call(tmp_path, "--reduced", "--only", "op=a", "mode=*", "--minutes", "5")
    entry = results.provenance("made_up", directory=tmp_path)
    words = "python -m linattn_benchmarks made_up --reduced --only op=a 'mode=*' --out DIR"
    assert (entry["command"], entry["seed"]) == (words, [0, 1])
    assert list(entry["columns"]) == list(made_up.columns)


@pytest.mark.parametrize("change", ["code", "size", "device"])
def test_rows_of_other_code_sizes_and_devices_are_replaced(
    change: str, tmp_path: Path, made_up: Benchmark, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(tmp_path)
    if change == "code":
        monkeypatch.setattr(run, "code_hash", lambda *modules, **others: "0" * 64)
    if change == "device":
        monkeypatch.setattr(results, "device_name", lambda: "another GPU")
    assert call(tmp_path, *["--reduced"] * (change == "size")) == 0
    assert measured == 2 * LABELS


def test_rows_that_a_benchmark_does_not_keep_are_measured_again(
    tmp_path: Path, made_up: Benchmark, measured: list[str]
) -> None:
    call(tmp_path)
    object.__setattr__(made_up, "is_kept", lambda row: row["op"] == "a")
    call(tmp_path)
    assert measured == LABELS + LABELS[2:]


def test_rows_of_other_runs_are_joined(tmp_path: Path, made_up: Benchmark, measured: list[str]) -> None:
    for op in "ba":
        call(tmp_path / op, "--only", f"op={op}")
    call(tmp_path, "--join", str(tmp_path / "b"), str(tmp_path / "a"), "--minutes", "0")
    assert saved(tmp_path) == LABELS
    assert len(measured) == 4


def test_when_the_minutes_are_over_it_says_what_is_left(
    tmp_path: Path, made_up: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "--minutes", "0") == 0
    said = capsys.readouterr().out
    assert all(f"not run, the minutes are over: {label}" in said for label in LABELS)


def test_a_task_that_fails_is_named_and_hides_no_other(
    tmp_path: Path, made_up: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Rows:
        raise RuntimeError("no such kernel")

    tasks = made_up.tasks(Size.FULL)
    broken = [Task(tasks[0].key, fail), *tasks[1:]]
    object.__setattr__(made_up, "tasks", lambda size: broken)
    assert call(tmp_path) == 1
    assert f"{LABELS[0]}\n    failed, RuntimeError: no such kernel" in capsys.readouterr().out
    assert saved(tmp_path) == LABELS[1:]


@pytest.mark.parametrize(
    ("only", "expected"),
    [(["op=a"], LABELS[:2]), (["op=a", "op=b", "mode=f*"], LABELS[::2]), (["mode=[fs]*"], LABELS)],
)
def test_tasks_are_chosen_by_the_cells_of_their_keys(
    only: list[str], expected: list[str], tmp_path: Path, made_up: Benchmark, measured: list[str]
) -> None:
    call(tmp_path, "--only", *only)
    assert measured == expected


def test_a_cell_that_looks_like_a_pattern_is_itself() -> None:
    task = Task({"decay": "[H]"}, lambda: [])
    assert run.select([task], {"decay": ["[H]"]}) == [task]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "op=c", "--out", "x"], "--only: got op=c, expected one of a, b"),
        (["--only", "shape=1", "--out", "x"], "--only: got the column 'shape', expected one of op, mode"),
        (["--only", "op", "--out", "x"], "--only: got 'op', expected COLUMN=CELL"),
        (["--reduced"], "--out: got nothing, expected a folder"),
        (["--out", "x", "--jobs", "9"], "--jobs: got 9, expected at most 1"),
        (["--warm"], "--warm: got made_up, expected a benchmark that compiles kernels"),
        (["--reduced", "--dry-run"], "not allowed with argument"),
    ],
)
def test_a_wrong_argument_is_named(
    words: list[str], message: str, made_up: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["kernels", *words])
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_benchmark_that_needs_a_gpu_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        command.main(["fla_agreement", "--out", "x"])
    assert "fla_agreement needs a CUDA device" in capsys.readouterr().err


def test_a_selection_that_no_task_has_is_refused() -> None:
    tasks = [Task({"op": "a", "mode": "fwd"}, lambda: []), Task({"op": "b", "mode": "step"}, lambda: [])]
    with pytest.raises(ValueError, match="a selection that no task has"):
        run.select(tasks, {"op": ["a"], "mode": ["step"]})


# --- processes ----------------------------------------------------------------------------------------------


def test_tasks_are_shared_out_one_process_for_each_gpu(
    tmp_path: Path, made_up: Benchmark, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes are stood in for by calls of the same command."""
    seen: list[tuple[str, str]] = []

    def run_command(words: Sequence[str], jobs: int, gpu: str) -> subprocess.CompletedProcess[str]:
        assert jobs == 2
        seen.append((next(word for word in words if word.startswith("op=")), gpu))
        return subprocess.CompletedProcess([], command.main(["kernels", *words[1:]]), "", "")

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(run, "run_command", run_command)
    call(tmp_path, "--only", "op=a", "mode=fwd", "--jobs", "1")
    assert call(tmp_path) == 0
    assert {op for op, _ in seen} == {"op=a", "op=b"}
    assert {gpu for _, gpu in seen} == {"4", "5"}
    assert sorted(measured) == LABELS  # the row that was there is not measured again
    assert saved(tmp_path) == LABELS
    assert {path.name for path in tmp_path.iterdir()} == {"made_up.csv", "index.json"}


def test_a_process_that_crashes_takes_no_others_rows_along(
    tmp_path: Path, made_up: Benchmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_command(words: Sequence[str], jobs: int, gpu: str) -> subprocess.CompletedProcess[str]:
        if "op=a" in words:
            return subprocess.CompletedProcess([], 1, "", "out of memory")
        return subprocess.CompletedProcess([], command.main(["kernels", *words[1:]]), "", "")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(run, "run_command", run_command)
    assert call(tmp_path) == 1
    assert "out of memory" in capsys.readouterr().out
    assert saved(tmp_path) == LABELS[2:]


def test_rows_of_processes_that_were_stopped_are_kept(
    tmp_path: Path, made_up: Benchmark, measured: list[str]
) -> None:
    call(tmp_path / "made_up.parts" / "b", "--only", "op=b")
    call(tmp_path)
    assert measured == LABELS[2:] + LABELS[:2]
    assert saved(tmp_path) == LABELS


def test_real_processes_join_their_rows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["fla_layers", "--dry-run", "--out", str(tmp_path), "--jobs", "2"]
    assert command.main([*words, "--only", "mixer=softmax", "mixer=mamba2"]) == 0
    said = capfd.readouterr().out
    rows: Rows = results.load("fla_layers", directory=tmp_path)
    assert [row["mixer"] for row in rows] == ["softmax", "softmax", "mamba2", "mamba2"]
    assert all(f"mixer = {name}" in said for name in ("softmax", "mamba2"))
    assert all(str(row["remark"]).startswith("ModuleNotFoundError") for row in rows)  # FLA has no layers here


# --- all benchmarks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BENCHMARKS)
def test_committed_rows_have_the_columns_of_the_benchmark(name: str) -> None:
    """A column that is new has no cells until the benchmark is run again, and a new benchmark no rows."""
    benchmark = load_benchmark(name)
    assert benchmark.name == name
    committed = list(results.load(name)[0]) if name in results.names() else []
    assert committed == [column for column in benchmark.columns if column in committed]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_keys_are_columns_and_no_two_tasks_share_a_row(name: str) -> None:
    benchmark = load_benchmark(name)
    for size in Size:
        keys = [tuple(task.key.items()) for task in benchmark.tasks(size)]
        assert len(set(keys)) == len(keys) > 0
        assert {column for key in keys for column, _ in key} <= set(benchmark.columns)
    assert not benchmark.group_by or benchmark.group_by in dict(keys[0])


@pytest.mark.parametrize("name", sorted(set(BENCHMARKS) - {"kernels", "fla_agreement"}))
def test_a_dry_run_returns_the_columns_of_the_benchmark(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two that are left out have dry runs of their own, in test_kernels.py and test_agreement.py."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the command sets it
    used: set[str] = set()

    def look_up(mixer: str) -> type[mixers.Mixer]:
        used.add(mixer)
        return mixers.MIXERS[mixer]

    monkeypatch.setattr(mixers, "mixer_class", look_up)
    assert command.main([name, "--dry-run", "--out", str(tmp_path)]) == 0
    assert used <= set(load_benchmark(name).mixers)
    rows = results.load(name, directory=tmp_path)
    assert list(rows[0]) == list(load_benchmark(name).columns)
    assert "--dry-run" in results.provenance(name, directory=tmp_path)["command"]


@pytest.mark.parametrize("name", ["attention_cost", "decode_cost", "late_mask", "fit_coverage", "fla_layers"])
def test_committed_rows_belong_to_the_tasks_at_full_size(name: str) -> None:
    tasks = load_benchmark(name).tasks(Size.FULL)
    for row in results.load(name):
        assert sum(task.owns(row) for task in tasks) == 1
