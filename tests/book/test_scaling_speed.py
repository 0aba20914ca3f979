"""What the page of the study makes of speeds, on rows made by hand."""

from typing import Any

import pytest

from linattn_book import scaling_speed
from linattn_ref.findings import speed
from linattn_ref.findings.losses import ARCHITECTURES

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
    monkeypatch.setattr(speed, "rows", lambda: tuple(rows))


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_speeds_are_in_thousands_and_gaps_are_dashes(made: None) -> None:
    head, _, first, *_, last = cells(scaling_speed.by_length("tokens_per_second"))
    assert head == ["thousand bytes a second: task, length", "LLaMA", "TNL", "HGRN2", "cosFormer2"]
    assert first == ["train, 256", "8,000", "4,000", "9,000", "100"]
    assert last == ["generate, 65,536", "–", "4,000", "9,000", "100"]
    assert cells(scaling_speed.by_length("peak_bytes"))[2][1:] == ["1.5"] * 4


def test_crossings_are_lengths_or_say_that_there_are_none(made: None) -> None:
    _, _, train, generate = cells(scaling_speed.crossovers())
    assert train == ["train", "1,000", "256 or below", "not up to 16,384"]
    assert generate[1:] == train[1:]
