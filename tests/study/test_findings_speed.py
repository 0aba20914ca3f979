"""Where one curve of speed overtakes another, on rows made by hand."""

import math
from typing import Any

import pytest

from linattn_study.findings import speed, speed_figures
from linattn_study.findings.losses import ARCHITECTURES

LLAMA = {256: 800.0, 512: 400.0, 1024: 200.0, 2048: None}


def measured(tnl: dict[int, float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Put speeds of LLaMA and TNL in training, by length, in the place of the committed table."""
    rows: list[dict[str, Any]] = [
        {"task": "train", "arch": arch, "length": n, "tokens_per_second": x}
        for arch, found in (("llama", LLAMA), ("tnl", tnl))
        for n, x in found.items()
    ]
    monkeypatch.setattr(speed, "load_rows", lambda: tuple(rows))


def test_a_crossing_lies_between_the_lengths_where_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    measured({256: 400.0, 512: 400.0 / math.sqrt(2), 1024: 400.0, 2048: 400.0}, monkeypatch)
    assert speed.select_curve("train", "llama") == {256: 800.0, 512: 400.0, 1024: 200.0}
    found = speed.find_crossover("train", "tnl")
    assert found == pytest.approx(512 * 2 ** (1 / 3))  # log ratio from -1/2 to 1, in powers of two


def test_who_is_always_ahead_and_who_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(dict.fromkeys((256, 512, 1024), 900.0), monkeypatch)
    assert speed.find_crossover("train", "tnl") == 0.0
    measured({256: 900.0, 512: 900.0, 1024: 100.0, 2048: 900.0}, monkeypatch)
    assert speed.find_crossover("train", "tnl") is None


def test_the_last_crossing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    measured({256: 1600.0, 512: 200.0, 1024: 400.0}, monkeypatch)
    assert speed.find_crossover("train", "tnl") == pytest.approx(512 * math.sqrt(2))


def test_figures_of_speed_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that memory was not enough for are not in them."""
    rows: list[dict[str, Any]] = [
        {"task": task, "arch": arch, "length": n, "tokens_per_second": 1e6 / n, "peak_bytes": 2**20 * n}
        for task in ("train", "generate")
        for arch in ARCHITECTURES
        for n in (256, 1024, 4096)
    ]
    rows[2] |= {"tokens_per_second": None, "peak_bytes": None}
    monkeypatch.setattr(speed, "load_rows", lambda: tuple(rows))
    fast, large = speed_figures.draw_training(), speed_figures.draw_memory()
    assert [frame.name for frame in large.frames] == ["generation", "training"]
    assert [len(trace.x) for trace in fast.data] == [2, 3, 3, 3]
    assert list(large.data[1].y) == [0.25, 1.0, 4.0]  # GiB
