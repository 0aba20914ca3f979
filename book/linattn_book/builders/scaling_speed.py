"""Speed and memory against length, on the page of the scaling study: tables, and numbers in words."""

from itertools import pairwise
from typing import Any

from linattn_study.findings import losses, speed
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.speed_figures import LENGTHS

from .generated import render_table
from .scaling_numbers import percent
from .scaling_tables import ARCHS, LINEAR

UNITS = {"tokens_per_second": 1e3, "peak_bytes": 2.0**30}
FIRST, LAST = 256, 65_536  # lengths that are spoken of
PEAK = 4.8e12  # bytes a second of an H200's memory, by its data sheet
COMPILED = "scaling_length"  # has speeds of compiled models of 2M, in other windows than the main grid's


def training() -> dict[str, str]:
    """Where linear models overtake LLaMA, and how speeds fall with length."""
    curves = {arch: speed.select_curve("train", arch) for arch in ARCHITECTURES}
    left = {arch: 100 * found[LAST] / found[FIRST] for arch, found in curves.items()}
    crossings = {arch: speed.find_crossover("train", arch) for arch in ("hgrn2", "cosformer2")}
    return {
        "speeds": by_length("train", "tokens_per_second"),
        "compiled": compiled("novels", "2M"),
        "behind": percent(100 * (1 - _compiled("hgrn2") / _compiled("llama"))),
        "llama_falls": percent(left["llama"], 0),
        "linear_fall": percent(max(100 - left[arch] for arch in LINEAR), 0),
    } | {arch: _short(crossing or 0, 2) for arch, crossing in crossings.items()}


def generation() -> dict[str, str]:
    """Bytes a second, milliseconds of a step, and how fast LLaMA's cache is read."""
    steps, launched = milliseconds("generate"), milliseconds("launched")
    cache = speed.select_curve("generate", "llama", "state_bytes")[LAST]
    least = 1e3 * cache / PEAK
    times = [steps["llama", LAST] / steps[arch, LAST] for arch in LINEAR]
    settled = {
        arch: [step for (name, n), step in steps.items() if name == arch and n > FIRST] for arch in LINEAR
    }
    ahead = [
        launched["cosformer2", n] < launched["llama", n] for n in speed.select_curve("launched", "llama")
    ]
    return {
        "speeds": by_length("generate", "tokens_per_second"),
        "first": f"{steps['llama', 2 * FIRST]:.1f}",
        "last": f"{steps['llama', LAST]:.1f}",
        "first_tnl": percent(100 * (min(settled["tnl"]) / steps["tnl", FIRST] - 1), 0),
        "cache": f"{cache / 2**30:.0f}",
        "gigabytes": f"{cache / 1e9:.1f}",
        "least": f"{least:.1f}",
        "save": percent(100 * (1 - least / steps["llama", LAST]), 0),
        "step_low": f"{min(map(min, settled.values())):.1f}",
        "step_high": f"{max(map(max, settled.values())):.1f}",
        "spread": percent(max(100 * (max(same) / min(same) - 1) for same in settled.values()), 0),
        "times_low": f"{min(times):.0f}",
        "times_high": f"{max(times):.0f}",
        "changes": str(sum(before != after for before, after in pairwise(ahead))),
        "noise": _short(speed.find_crossover("launched", "cosformer2") or 0, 2),
        "launched_low": f"{min(launched.values()):.0f}",
        "launched_high": f"{max(launched.values()):.0f}",
    }


def memory() -> dict[str, str]:
    """Peaks of memory, and what they are made of."""
    held = {arch: speed.select_curve("generate", arch, "state_bytes") for arch in ARCHITECTURES}
    fixed = [x / 2**20 for arch in LINEAR for x in held[arch].values()]
    peaks = {
        task: speed.select_curve(task, "llama", "peak_bytes")[LAST] / 2**30
        for task in ("generate", "launched")
    }
    return {
        "memory": "\n\n".join(by_length(task, "peak_bytes") for task in ("train", "generate")),
        "peak": f"{peaks['generate']:.0f}",
        "copying": f"{peaks['launched']:.0f}",
        "cache": f"{held['llama'][LAST] / 2**30:.0f}",
        "state_low": f"{min(fixed):.0f}",
        "state_high": f"{max(fixed):.0f}",
    }


def _compiled(arch: str) -> float:
    """Bytes a second of 2M in the main grid."""
    return losses.compute_bytes_per_second("novels", arch, "2M")


def milliseconds(task: str) -> dict[tuple[str, int], float]:
    """(architecture, length) -> time of a step of generation."""
    rows = losses.select(speed.load_rows(), task=task)
    return {(row["arch"], row["length"]): 1e3 * row["batch_size"] / row["tokens_per_second"] for row in rows}


def compiled(corpus: str, size: str) -> str:
    """Thousand bytes a second in the study of lengths, and in the main grid between its two."""
    lines = []
    for n in (256, 1024, 4096):
        other: dict[str, Any] = {} if n == 1024 else {"table": COMPILED, "seq_len": n}
        found = (losses.compute_bytes_per_second(corpus, arch, size, **other) / 1e3 for arch in ARCHITECTURES)
        lines.append([f"{n:,}", *map(_short, found)])
    return render_table([f"compiled, {size}, length", *ARCHS], lines)


def of_the_grid(corpus: str) -> str:
    """Thousand bytes a second in the main grid."""
    lines = []
    for size in losses.SIZES:
        found = (losses.compute_bytes_per_second(corpus, arch, size) / 1e3 for arch in ARCHITECTURES)
        lines.append([size, *(f"{x:,.0f}" for x in found)])
    return render_table(["size", *ARCHS], lines)


def by_length(task: str, column: str) -> str:
    """Of all four, at some lengths; a dash where memory was not enough."""
    curves = [speed.select_curve(task, arch, column) for arch in ARCHITECTURES]
    lines = [
        [f"{n:,}", *(_short(curve[n] / UNITS[column]) if n in curve else "–" for curve in curves)]
        for n in LENGTHS
    ]
    return render_table([f"{task}, length", *ARCHS], lines)


def _short(x: float, digits: int = 3) -> str:
    """So many digits, and no exponent."""
    return f"{float(f'{x:.{digits}g}'):,.10g}"
