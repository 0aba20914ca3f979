"""Every study of the book runs at a small size and returns the columns that it declares."""

import csv
import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from linattn_benchmarks import chapters as benchmarks
from linattn_benchmarks.chapters import attention, decoding, language, late_mask, speed, study
from linattn_benchmarks.chapters.__main__ import main
from linattn_book import results
from linattn_ref.training.tasks import ByteCorpus
from linattn_study import loop


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short length, one short training run, no least time for a timing."""
    corpus = ByteCorpus.from_documents(
        "small", {f"{i}.py": f"# {i}\n".encode() + bytes(range(32, 127)) * 40 for i in range(40)}
    )
    for name in ("STEPS", "NEW", "EARLY"):
        monkeypatch.setattr(speed, name, 2)
    for module in (attention, decoding, speed):
        monkeypatch.setattr(module, "lengths", lambda first, last: iter([64]))
        monkeypatch.setattr(module, "seconds", partial(study.seconds, at_least=0.0))
    monkeypatch.setattr(
        language,
        "LANGUAGE_MODELS",
        {"linear": {"mixer": "linear"}, "naive": {"mixer": "linear", "feature_map": "elu_then_one"}},
    )
    monkeypatch.setattr(ByteCorpus, "python_stdlib", lambda max_bytes=None: corpus)
    original = language.TrainConfig
    short = {"steps": 4, "warmup_steps": 2, "eval_every": 2, "batch_size": 2, "seq_len": 32}
    for trains in (language, late_mask):
        monkeypatch.setattr(trains, "TrainConfig", lambda **options: original(**(options | short)))


@pytest.mark.parametrize("name", sorted(benchmarks.STUDIES))
def test_study_returns_the_columns_it_declares(name: str, small: None) -> None:
    rows = benchmarks.STUDIES[name].run(True)
    assert rows
    assert all(set(row) == set(benchmarks.STUDIES[name].columns) for row in rows)


def test_command_writes_rows_with_their_provenance(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "bracket_cost", "--reduced", "--out", str(tmp_path)])
    main()
    with (tmp_path / "bracket_cost.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["T"] == "64"
    entry = results.provenance("bracket_cost", directory=tmp_path)
    assert entry["command"] == "python -m linattn_benchmarks.chapters bracket_cost --reduced --out DIR"
    assert len(entry["source_hash"]) == 64
    assert entry["seed"] == 0


def test_the_index_names_every_seed_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = study.Study(
        lambda reduced: [{"seed": 1}, {"seed": 0}, {"seed": 1}], {"seed": "all"}, ("measure.py",)
    )
    monkeypatch.setitem(benchmarks.STUDIES, "two_seeds", two)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "two_seeds", "--out", str(tmp_path)])
    main()
    assert results.provenance("two_seeds", directory=tmp_path)["seed"] == [0, 1]


def test_speed_compiles_nothing_and_leaves_the_rule_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = loop.COMPILED_FLOPS
    monkeypatch.setattr(speed, "training", lambda *_: {"rule": loop.COMPILED_FLOPS})
    monkeypatch.setattr(speed, "generation", lambda *_: [])
    assert [row["rule"] for row in speed.of("llama", reduced=True)] == [math.inf] * 3  # lengths
    assert loop.COMPILED_FLOPS == rule < math.inf


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, [("4", ("llama", "hgrn2")), ("5", ("tnl", "cosformer2"))]),
        (8, [("4", ("llama",)), ("5", ("tnl",)), ("6", ("hgrn2",)), ("7", ("cosformer2",))]),
    ],
)
def test_speed_spreads_architectures_over_gpus(
    n: int, expected: list[tuple[str, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Processes:
        def __init__(self, workers: int, **options: Any) -> None:
            assert (workers, options["max_tasks_per_child"]) == (min(n, 4), 1)

        def __enter__(self) -> "Processes":
            return self

        def __exit__(self, *error: object) -> None: ...

        def map(self, function: Any, *columns: list[Any]) -> Iterator[list[dict[str, Any]]]:
            assert function is speed.on_gpu
            for gpu, archs, reduced in zip(*columns, strict=True):
                assert reduced
                seen.append((gpu, archs))
                yield [{"arch": arch} for arch in archs]

    monkeypatch.setattr(speed, "ProcessPoolExecutor", Processes)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7,0,1,2,3")
    assert [row["arch"] for row in speed.speed(True)] == list(speed.ARCHITECTURES)
    assert seen == expected


@pytest.mark.parametrize("name", sorted(benchmarks.STUDIES))
def test_committed_rows_have_the_columns_of_the_study(name: str) -> None:
    assert list(results.load(name)[0]) == list(benchmarks.STUDIES[name].columns)


# --- the mask after the softmax -----------------------------------------------------------------------------


def test_a_late_mask_lets_a_future_key_change_the_past_but_not_the_last_token() -> None:
    q, k, v = torch.randn(3, 1, 6, 2, 4, generator=torch.Generator().manual_seed(0))
    changed = torch.cat([k[:, :-1], k[:, -1:] + 1], 1)
    right, late = (op(q, k, v, initial_state=None).output for op in late_mask.MASKS.values())
    after, late_after = (op(q, changed, v, initial_state=None).output for op in late_mask.MASKS.values())
    torch.testing.assert_close(right[:, :-1], after[:, :-1])
    assert ((late - late_after)[:, :-1].abs().amax((0, 2, 3)) > 1e-3).all()
    torch.testing.assert_close(late[:, -1], right[:, -1])


def test_full_passes_and_prefixes_agree_if_and_only_if_the_mask_is_right(small: None) -> None:
    right, late = late_mask.late_mask(True)
    assert right["full_bits"] == pytest.approx(right["prefix_bits"], abs=1e-5)
    assert abs(late["full_bits"] - late["prefix_bits"]) > 1e-4


def test_committed_losses_show_what_the_late_mask_does() -> None:
    rows: list[dict[str, Any]] = results.load("late_mask")
    right, late = ([row for row in rows if row["model"] == name] for name in late_mask.MASKS)
    assert len(right) == len(late) == 2
    assert all(row["full_bits"] == pytest.approx(row["prefix_bits"], abs=1e-5) for row in right)
    assert all(row["full_bits"] < 0.5 and row["prefix_bits"] > 3.5 for row in late)
