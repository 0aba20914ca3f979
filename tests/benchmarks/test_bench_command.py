"""The command of the benchmark: what it measures, keeps, resumes and refuses."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime.autotuner import Autotuner

import linattn_ref
from linattn_benchmarks.kernels import __main__ as command
from linattn_benchmarks.kernels import cases, keeping, rows, tuning
from linattn_book import results

ROOT = Path(linattn_ref.__file__).parents[1]
TINY = cases.all_cases(tiny=True)
LABELS = [case.label for case in TINY]


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command with made-up times and without Triton; the labels of what was measured."""
    seen: list[str] = []

    def made_up(case: cases.Case, who: Any, clock: Any, best: Any, device: str) -> dict[str, Any]:
        seen.append(case.label)
        return dict.fromkeys(rows.COLUMNS) | rows.facts(case, device) | {"ms": 1.0, "floor_ms": 0.5}

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for name in ("FLA_CACHE_RESULTS", "TRITON_CACHE_AUTOTUNING"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command, "measure", made_up)
    monkeypatch.setattr(command.tuning, "forget_choices", lambda: None)
    return seen


def test_a_second_run_measures_only_what_is_missing(
    tmp_path: Path, fast: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--dry-run", "--out", str(tmp_path)]
    assert command.main([*out, "--ops", "chunk_softmax_attention", "--modes", "fwd"]) == 0
    assert command.main([*out, "--ops", "chunk_softmax_attention"]) == 0
    assert fast == [f"chunk_softmax_attention {mode} 1x40x2x16" for mode in ("fwd", "fwdbwd")]
    assert "1 rows are there already" in capsys.readouterr().out
    assert [row["mode"] for row in results.load("kernels", directory=tmp_path)] == ["fwd", "fwdbwd"]
    command.main([*out, "--modes", "fwdbwd", "--ops", "chunk_softmax_attention", "--fresh"])
    assert len(fast) == 3
    assert len(results.load("kernels", directory=tmp_path)) == 2
    # the last command alone would not make the row that was kept
    assert results.provenance("kernels", directory=tmp_path)["command"].endswith("benchmarks --out DIR")


def test_what_fla_has_chosen_is_forgotten_before_each_row(
    tmp_path: Path, fast: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(command.tuning, "forget_choices", lambda: forgotten.append(len(fast)))
    arguments = ["--dry-run", "--out", str(tmp_path), "--ops", "chunk_softmax_attention", "--fresh"]
    command.main(arguments)
    assert forgotten == [0, 1]
    command.main([*arguments, "--keep-tuning"])
    assert forgotten == [0, 1]


def test_choices_are_forgotten_by_tuners_of_other_libraries_too() -> None:
    class Theirs(Autotuner):
        def __init__(self) -> None:
            self.cache = {(128, 128): "what suits another shape"}

    theirs = Theirs()
    tuning.forget_choices()
    assert theirs.cache == {}


def test_rows_of_other_runs_are_joined_in_the_order_of_the_cases(tmp_path: Path, fast: list[str]) -> None:
    for mode in ("fwdbwd", "fwd"):
        out = ["--dry-run", "--out", str(tmp_path / mode), "--ops", "chunk_softmax_attention"]
        command.main([*out, "--modes", mode])
    parts = [str(tmp_path / mode) for mode in ("fwdbwd", "fwd")]
    command.main(["--dry-run", "--out", str(tmp_path), "--join", *parts, "--minutes", "0"])
    assert [row["mode"] for row in results.load("kernels", directory=tmp_path)] == ["fwd", "fwdbwd"]
    assert results.provenance("kernels", directory=tmp_path)["command"].endswith("benchmarks --out DIR")
    assert len(fast) == 2


def test_rows_of_other_code_are_replaced(
    tmp_path: Path, fast: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dry-run", "--out", str(tmp_path), "--ops", "chunk_softmax_attention"]
    command.main(arguments)
    monkeypatch.setattr(keeping, "SOURCES", (ROOT / "benchmarks" / "linattn_benchmarks" / "kernels",))
    command.main(arguments)
    assert len(fast) == 4
    assert "will be replaced" in capsys.readouterr().out


def test_the_command_and_the_columns_are_kept_without_the_readers_folder(
    tmp_path: Path, fast: list[str]
) -> None:
    command.main(["--dry-run", "--out", str(tmp_path), "--modes", "step"])
    entry = results.provenance("kernels", directory=tmp_path)
    assert entry["command"] == "python -m linattn_benchmarks.kernels --dry-run --out DIR --modes step"
    assert list(entry["columns"]) == list(rows.COLUMNS)
    assert entry["source_hash"] == results.source_hash(keeping.SOURCES)
    assert keeping.command([f"--out={tmp_path}"]).endswith("--out=DIR")


def test_when_the_minutes_are_over_it_says_what_is_left(
    tmp_path: Path, fast: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--dry-run", "--out", str(tmp_path), "--minutes", "0"]) == 0
    said = capsys.readouterr().out
    assert all(f"not run, 0 minutes are over: {label}" in said for label in LABELS)


@pytest.mark.parametrize(
    ("name", "decays"), [("chunk_linear_attention/BTH", 1), ("chunk_linear_attention", 4)]
)
def test_an_op_is_chosen_by_its_name_or_with_all_its_decays(
    name: str, decays: int, tmp_path: Path, fast: list[str]
) -> None:
    command.main(["--dry-run", "--out", str(tmp_path), "--modes", "fwd", "--ops", name])
    assert len(fast) == decays
    assert all(label.startswith((f"{name} ", f"{name}/")) for label in fast)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x"], "no CUDA device is here"),
        (["--dry-run", "--out", "x", "--ops", "chunk_gla"], "--ops: got 'chunk_gla', expected one of"),
        (["--dry-run", "--out", "x", "--shapes", "1x2"], "--shapes: got '1x2', expected one of 1x40x2x16"),
        (
            ["--dry-run", "--out", "x", "--ops", "step_softmax_attention", "--modes", "fwd"],
            "a selection without any row",
        ),
        (["--dry-run"], "--out: got nothing, expected a folder"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], message: str, fast: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_kernels_go_through_a_dry_run(tmp_path: Path) -> None:
    selection = ["--ops", "chunk_linear_attention/none", "--modes", "fwd"]
    words = [
        sys.executable,
        "-m",
        "linattn_benchmarks.kernels",
        "--dry-run",
        "--out",
        str(tmp_path),
        *selection,
    ]
    paths = {**os.environ, "PYTHONPATH": ".:kernels:book:benchmarks"}
    process = subprocess.run(words, cwd=ROOT, env=paths, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    rows_there: list[dict[str, Any]] = results.load("kernels", directory=tmp_path)
    (row,) = rows_there
    assert row["remark"] is None
    assert row["error"] < 1e-5
    assert row["device"] == "CPU, dry run"
    assert "Geometric means" in process.stdout


def test_the_page_knows_which_sources_decide_the_rows() -> None:
    from linattn_book.builders.kernels import SOURCES as OF_PAGE
    from tests.kernels.gpu_report import SOURCES

    for name, sources in (("kernels", keeping.SOURCES), ("kernels_ladder", SOURCES)):
        assert {ROOT / source for source in OF_PAGE[name]} == {Path(source).resolve() for source in sources}
