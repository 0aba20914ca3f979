"""Every study of the book runs at a small size and returns the columns that it declares."""

import csv
import sys
from pathlib import Path

import pytest

from linattn_ref import benchmarks, results
from linattn_ref.tasks import ByteCorpus


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short length, one short training run."""
    corpus = ByteCorpus.from_documents(
        "small", {f"{i}.py": f"# {i}\n".encode() + bytes(range(32, 127)) * 40 for i in range(40)}
    )
    monkeypatch.setattr(benchmarks, "lengths", lambda first, last: iter([64]))
    monkeypatch.setattr(
        benchmarks,
        "LANGUAGE_MODELS",
        {"linear": {"mixer": "linear"}, "naive": {"mixer": "linear", "feature_map": "elu_then_one"}},
    )
    monkeypatch.setattr(ByteCorpus, "python_stdlib", lambda max_bytes=None: corpus)
    original = benchmarks.TrainConfig
    short = {"steps": 4, "warmup_steps": 2, "eval_every": 2, "batch_size": 2, "seq_len": 32}
    monkeypatch.setattr(benchmarks, "TrainConfig", lambda **options: original(**(options | short)))


@pytest.mark.parametrize("name", sorted(benchmarks.STUDIES))
def test_study_returns_the_columns_it_declares(name: str, small: None) -> None:
    study = benchmarks.STUDIES[name]
    rows = study.run(True)
    assert rows
    assert all(set(row) == set(study.columns) for row in rows)


def test_command_writes_rows_with_their_provenance(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "bracket_cost", "--reduced", "--out", str(tmp_path)])
    benchmarks.main()
    with (tmp_path / "bracket_cost.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["T"] == "64"
    entry = results.provenance("bracket_cost", directory=tmp_path)
    assert entry["command"] == "python -m linattn_ref.benchmarks bracket_cost --reduced --out DIR"
    assert len(entry["source_hash"]) == 64
    assert entry["seed"] == 0


def test_the_index_names_every_seed_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = benchmarks.Study(
        lambda reduced: [{"seed": 1}, {"seed": 0}, {"seed": 1}], {"seed": "all"}, ("measure.py",)
    )
    monkeypatch.setitem(benchmarks.STUDIES, "two_seeds", study)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "two_seeds", "--out", str(tmp_path)])
    benchmarks.main()
    assert results.provenance("two_seeds", directory=tmp_path)["seed"] == [0, 1]


@pytest.mark.parametrize("name", sorted(benchmarks.STUDIES))
def test_committed_rows_have_the_columns_of_the_study(name: str) -> None:
    assert list(results.load(name)[0]) == list(benchmarks.STUDIES[name].columns)
