"""What the page of the study makes of speeds: on rows made by hand, and of those measured."""

import math
from typing import Any

import pytest

from linattn_book import scaling_speed
from linattn_ref.accounting import flops_per_token
from linattn_ref.benchmarks.speed import EARLY, STEPS, TOKENS
from linattn_ref.findings import speed
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.study.loop import COMPILED_FLOPS
from linattn_ref.study.trial import Trial

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
    head, _, first, *_, last = cells(scaling_speed.by_length("train", "tokens_per_second"))
    assert head == ["train, length", "LLaMA", "TNL", "HGRN2", "cosFormer2"]
    assert first == ["256", "8,000", "4,000", "9,000", "100"]
    assert last == ["65,536", "–", "4,000", "9,000", "100"]
    assert cells(scaling_speed.by_length("generate", "peak_bytes"))[2][1:] == ["1.5"] * 4


def test_what_is_said_of_training_is_so() -> None:
    """And the titles and alternative texts of its figures."""
    curves = {arch: speed.curve("train", arch) for arch in ARCHITECTURES}
    assert speed.crossover("train", "tnl") == 0
    assert speed.crossover("train", "hgrn2") == pytest.approx(3700, abs=50)
    assert speed.crossover("train", "cosformer2") == pytest.approx(1500, abs=50)
    assert curves["llama"][65_536] == pytest.approx(134e3, rel=0.01)
    for arch, level in (("tnl", 1.1e6), ("cosformer2", 0.84e6), ("hgrn2", 0.72e6)):
        assert all(fast == pytest.approx(level, rel=0.05) for fast in curves[arch].values())
    peaks = {arch: speed.curve("train", arch, "peak_bytes") for arch in ARCHITECTURES}
    for arch, level in (("llama", 14.1), ("tnl", 17.5), ("cosformer2", 19.5), ("hgrn2", 22.1)):
        assert all(peak / 2**30 == pytest.approx(level, rel=0.045) for peak in peaks[arch].values())


def test_the_rule_compiles_llama_at_the_longest_two_alone() -> None:
    """Which is why its memory falls there."""
    for arch in ARCHITECTURES:
        for n in speed.curve("train", arch):
            config = Trial("novels", arch, "32M", 1e-4).model_config()
            flops = flops_per_token(config, n) * TOKENS * (EARLY + 2 * STEPS)
            assert (flops >= COMPILED_FLOPS) == (arch == "llama" and n >= 32_768)
    peaks = speed.curve("train", "llama", "peak_bytes")
    assert max(peaks[n] for n in (32_768, 65_536)) < min(peaks[n] for n in peaks if n < 32_768)


def test_what_is_said_of_generation_is_so() -> None:
    steps = {
        (row["arch"], row["length"]): 1e3 * row["batch_size"] / row["tokens_per_second"]
        for row in speed.rows()
        if row["task"] == "generate"
    }
    for arch in ARCHITECTURES[1:]:  # equal work at every length
        same = [step for (name, _), step in steps.items() if name == arch]
        assert 1.5 < max(same) / min(same) < 2.2
    slowest = sorted(steps.values())[-4]
    assert steps["llama", 65_536] >= slowest
    llama = [step for (name, n), step in steps.items() if name == "llama" and n <= 16_384]
    assert max(llama) / min(llama) < 1.2
    capacity = 2 ** math.ceil(math.log2(65_536 + 1))
    cache = {
        row["length"]: row["state_bytes"]
        for row in speed.rows()
        if row["task"] == "generate" and row["arch"] == "llama"
    }
    assert speed.curve("generate", "llama", "peak_bytes")[65_536] == pytest.approx(
        cache[65_536] * (1 + capacity / 65_536), rel=0.01
    )
