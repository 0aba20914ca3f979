"""Speed and memory against length, on the page of the scaling study: tables, and numbers in words."""

from linattn_ref.findings import losses, speed
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.findings.speed_figures import LENGTHS

from .generated import table
from .scaling_numbers import percent
from .scaling_tables import ARCHS, LINEAR

UNITS = {"tokens_per_second": 1e3, "peak_bytes": 2.0**30}
FIRST, LATE, LAST = 256, 16_384, 65_536  # lengths that are spoken of


def training() -> dict[str, str]:
    """Where linear models overtake LLaMA, and how speeds fall with length."""
    curves = {arch: speed.curve("train", arch) for arch in ARCHITECTURES}
    left = {arch: 100 * found[LAST] / found[FIRST] for arch, found in curves.items()}
    crossings = {arch: speed.crossover("train", arch) for arch in ("hgrn2", "cosformer2")}
    return {
        "speeds": by_length("train", "tokens_per_second"),
        "llama_falls": percent(left["llama"], 0),
        "linear_fall": percent(max(100 - left[arch] for arch in LINEAR), 0),
    } | {arch: _short(crossing or 0, 2) for arch, crossing in crossings.items()}


def generation() -> dict[str, str]:
    """Milliseconds of a step, and memory."""
    rows = [row for arch in ARCHITECTURES for row in losses.chosen(speed.rows(), arch=arch, task="generate")]
    steps = {(row["arch"], row["length"]): 1e3 * row["batch_size"] / row["tokens_per_second"] for row in rows}
    llama = [step for (arch, n), step in steps.items() if arch == "llama" and n <= LATE]
    others = [step for (arch, _), step in steps.items() if arch != "llama"]
    held = {(row["arch"], row["length"]): row["state_bytes"] for row in rows}
    fixed = {held[arch, n] / 2**20 for arch in LINEAR for n in LENGTHS}
    return {
        "llama_low": f"{min(llama):.0f}",
        "llama_high": f"{max(llama):.0f}",
        "llama_long": f"{steps['llama', LAST]:.0f}",
        "step_low": f"{min(others):.0f}",
        "step_high": f"{max(others):.0f}",
        "memory": "\n\n".join(by_length(task, "peak_bytes") for task in ("train", "generate")),
        "peak": f"{speed.curve('generate', 'llama', 'peak_bytes')[LAST] / 2**30:.0f}",
        "cache": f"{held['llama', LAST] / 2**30:.0f}",
        "state_low": f"{min(fixed):.0f}",
        "state_high": f"{max(fixed):.0f}",
    }


def of_the_grid(corpus: str) -> str:
    """Thousand bytes a second in the main grid."""
    lines = []
    for size in losses.SIZES:
        found = (losses.bytes_per_second(corpus, arch, size) / 1e3 for arch in ARCHITECTURES)
        lines.append([size, *(f"{x:,.0f}" for x in found)])
    return table(["size", *ARCHS], lines)


def by_length(task: str, column: str) -> str:
    """Of all four, at some lengths; a dash where memory was not enough."""
    curves = [speed.curve(task, arch, column) for arch in ARCHITECTURES]
    lines = [
        [f"{n:,}", *(_short(curve[n] / UNITS[column]) if n in curve else "–" for curve in curves)]
        for n in LENGTHS
    ]
    return table([f"{task}, length", *ARCHS], lines)


def _short(x: float, digits: int = 3) -> str:
    """So many digits, and no exponent."""
    return f"{float(f'{x:.{digits}g}'):,.10g}"
