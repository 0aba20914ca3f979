"""What the page of the study makes of speeds: on rows made by hand, and of those measured."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from linattn_book.builders import scaling_speed
from linattn_study.findings import losses, speed
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.loop import COMPILED_FLOPS

LENGTHS = (256, 1024, 4096, 16384, 65536)
FAST: dict[str, list[float | None]] = {  # bytes a second by length: LLaMA's falls with it
    "llama": [8e6, 4e6, 2e6, 5e5, None],
    "tnl": [4e6] * 5,
    "hgrn2": [9e6] * 5,
    "cosformer2": [1e5] * 5,
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [
        {
            "task": task,
            "arch": arch,
            "length": n,
            "tokens_per_second": fast,
            "peak_bytes": fast and 3 * 2**29,
        }
        for task in ("train", "generate")
        for arch in ARCHITECTURES
        for n, fast in zip(LENGTHS, FAST[arch], strict=True)
    ]
    monkeypatch.setattr(speed, "load_rows", lambda: tuple(rows))


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_speeds_are_in_thousands_and_gaps_are_dashes(made: None) -> None:
    head, _, first, *_, last = cells(scaling_speed.by_length("train", "tokens_per_second"))
    assert head == ["train, length", "LLaMA", "TNL", "HGRN2", "cosFormer2"]
    assert first == ["256", "8,000", "4,000", "9,000", "100"]
    assert last == ["65,536", "–", "4,000", "9,000", "100"]
    assert cells(scaling_speed.by_length("generate", "peak_bytes"))[2][1:] == ["1.5"] * 4


def test_what_is_said_of_training_is_so() -> None:
    """And the titles and alternative texts of its figures."""
    curves = {arch: speed.select_curve("train", arch) for arch in ARCHITECTURES}
    assert speed.find_crossover("train", "tnl") == 0
    assert speed.find_crossover("train", "hgrn2") == pytest.approx(3600, abs=50)
    assert speed.find_crossover("train", "cosformer2") == pytest.approx(1500, abs=50)
    assert curves["llama"][65_536] == pytest.approx(132e3, rel=0.01)
    for arch, level in (("tnl", 1.1e6), ("cosformer2", 0.84e6), ("hgrn2", 0.72e6)):
        assert all(fast == pytest.approx(level, rel=0.05) for fast in curves[arch].values())
    peaks = {arch: speed.select_curve("train", arch, "peak_bytes") for arch in ARCHITECTURES}
    for arch, level in (("llama", 14.7), ("tnl", 17.5), ("cosformer2", 19.5), ("hgrn2", 22.1)):
        assert all(peak / 2**30 == pytest.approx(level, rel=0.03) for peak in peaks[arch].values())


def test_an_error_of_5_percent_moves_the_first_crossing_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = speed.load_rows()
    for factor, moved in ((1.05, 1_050), (1 / 1.05, 2_100)):
        rows = [
            dict(row) | {"tokens_per_second": row["tokens_per_second"] * factor ** (row["arch"] != "llama")}
            for row in measured
        ]
        monkeypatch.setattr(speed, "load_rows", lambda rows=rows: tuple(rows))
        assert speed.find_crossover("train", "cosformer2") == pytest.approx(moved, abs=25)


def test_what_is_said_of_compiled_models_is_so() -> None:
    lines = {line[0]: [float(x.replace(",", "")) for x in line[1:]] for line in compiled_cells()}
    for length, ahead in (("256", [True, False, False]), ("4,096", [True, True, True])):
        llama, *others = lines[length]
        assert [fast > llama for fast in others] == ahead
    llama, tnl, hgrn2, cosformer2 = lines["1,024"]
    assert min(tnl, cosformer2) > 1.05 * llama
    assert hgrn2 == pytest.approx(llama, rel=0.02)
    llama, *others = (losses.compute_bytes_per_second("novels", arch, "32M") for arch in ARCHITECTURES)
    assert min(others) > 1.05 * llama
    for n in (256, 1024, 4096):  # all of them are compiled
        table = losses.load_evaluations("scaling" if n == 1024 else scaling_speed.COMPILED)
        assert min(row["flops"] for row in table if last_of(row, n)) >= COMPILED_FLOPS


def last_of(row: Mapping[str, Any], length: int) -> bool:
    return row["size"] == "2M" and row.get("seq_len", 1024) == length and row["tokens"] > 230e6


def compiled_cells() -> list[list[str]]:
    return cells(scaling_speed.compiled("novels", "2M"))[2:]


def test_what_is_said_of_generation_is_so() -> None:
    """And the title and alternative text of its figure."""
    assert speed.find_crossover("generate", "tnl") == speed.find_crossover("generate", "hgrn2") == 0
    assert 256 < (speed.find_crossover("generate", "cosformer2") or 0) < 512
    tnl = speed.select_curve("generate", "tnl")
    assert tnl[256] > 1.15 * max(fast for n, fast in tnl.items() if n > 256)  # at equal work
    steps = scaling_speed.milliseconds("generate")
    for arch in ARCHITECTURES[1:]:  # equal work at every length
        same = [step for (name, n), step in steps.items() if name == arch and n > 256]
        assert max(same) / min(same) < 1.03
    curves = {arch: speed.select_curve("generate", arch) for arch in ARCHITECTURES}
    assert [round(curves["llama"][n] / 1e3, 1) for n in (256, 65_536)] == [18.2, 2.7]
    for arch, level in (("tnl", 24e3), ("hgrn2", 21.4e3), ("cosformer2", 15.6e3)):
        assert all(fast == pytest.approx(level, rel=0.02) for n, fast in curves[arch].items() if n > 256)


def test_what_is_said_of_steps_launched_one_by_one_is_so() -> None:
    launched = scaling_speed.milliseconds("launched")
    for arch in ARCHITECTURES[1:]:
        same = [step for (name, _), step in launched.items() if name == arch]
        assert 1.5 < max(same) / min(same) < 2.1
    speeds = [16 / step for step in launched.values()]  # thousand bytes a second
    assert 0.8 < min(speeds) < max(speeds) < 2.3


def test_the_cache_lies_in_a_buffer_of_the_next_power_of_two() -> None:
    capacity = 2 ** math.ceil(math.log2(65_536 + 1))
    cache = speed.select_curve("generate", "llama", "state_bytes")[65_536]
    buffer = cache * capacity / 65_536
    assert speed.select_curve("generate", "llama", "peak_bytes")[65_536] == pytest.approx(buffer, rel=0.01)
    assert speed.select_curve("launched", "llama", "peak_bytes")[65_536] == pytest.approx(
        cache + buffer, rel=0.01
    )
