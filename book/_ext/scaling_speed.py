"""Speed and memory against length, on the page of the scaling study: tables, and numbers in words."""

from linattn_ref import results
from linattn_ref.findings import losses, speed
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.findings.speed_figures import LENGTHS

from .generated import table
from .scaling_numbers import percent
from .scaling_tables import ARCHS, LINEAR, cost_range

UNITS = {"tokens_per_second": 1e3, "peak_bytes": 2.0**30}
FIRST, GRID, LATE, LAST = 256, 1024, 16_384, 65_536  # lengths that are spoken of


def training() -> dict[str, str]:
    """Where linear models overtake LLaMA, and how speeds fall with length."""
    curves = {arch: speed.curve("train", arch) for arch in ARCHITECTURES}
    left = {arch: 100 * found[LAST] / found[FIRST] for arch, found in curves.items()}
    flops = {arch: curves[arch][GRID] * flops_per_byte(arch) for arch in ("llama", "hgrn2")}
    faster, (_, cost, _) = flops["llama"] / flops["hgrn2"], cost_range("novels", "hgrn2")
    crossings = {arch: speed.crossover("train", arch) for arch in ("hgrn2", "cosformer2")}
    return {
        "device": results.provenance("speed")["device"],
        "speeds": by_length("train", "tokens_per_second"),
        "llama_falls": percent(left["llama"], 0),
        "linear_fall": percent(max(100 - left[arch] for arch in LINEAR), 0),
        "flops": f"{faster:.1f}",
        "cost": f"{cost:.2f}",
        "time": f"{cost * faster:.2f}",
    } | {arch: _short(crossing or 0, 2) for arch, crossing in crossings.items()}


def flops_per_byte(arch: str) -> float:
    """As the study counts them, at the size and length of the main grid."""
    row = losses.chosen(losses.evaluations(), arch=arch, size="32M")[0]
    return float(row["flops"] / row["tokens"])


def generation() -> dict[str, str]:
    """Milliseconds of a step, and memory."""
    rows = [row for arch in ARCHITECTURES for row in losses.chosen(speed.rows(), arch=arch, task="generate")]
    steps = {(row["arch"], row["length"]): 1e3 * row["batch_size"] / row["tokens_per_second"] for row in rows}
    launched = [step for (arch, n), step in steps.items() if arch != "llama" or n <= LATE]
    held = {(row["arch"], row["length"]): row["state_bytes"] for row in rows}
    fixed = {held[arch, n] / 2**20 for arch in LINEAR for n in LENGTHS}
    return {
        "step_low": f"{min(launched):.0f}",
        "step_high": f"{max(launched):.0f}",
        "step_long": f"{steps['llama', LAST]:.0f}",
        "memory": "\n\n".join(by_length(task, "peak_bytes") for task in ("train", "generate")),
        "peak": f"{speed.curve('generate', 'llama', 'peak_bytes')[LAST] / 2**30:.0f}",
        "cache": f"{held['llama', LAST] / 2**30:.0f}",
        "state_low": f"{min(fixed):.0f}",
        "state_high": f"{max(fixed):.0f}",
    }


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
