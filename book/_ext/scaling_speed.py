"""Tables of the page of the scaling study: speed and memory against length."""

from linattn_ref.findings import speed
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.findings.speed_figures import LENGTHS, TASKS

from .generated import table
from .scaling_tables import ARCHS, LINEAR

UNITS = {"tokens_per_second": (1e3, "thousand bytes a second"), "peak_bytes": (2.0**30, "GiB")}


def by_length(column: str) -> str:
    """Of all four, at some lengths; a dash where memory was not enough."""
    unit, name = UNITS[column]
    lines = []
    for task in TASKS:
        curves = [speed.curve(task, arch, column) for arch in ARCHITECTURES]
        for n in LENGTHS:
            found = (_short(curve[n] / unit) if n in curve else "–" for curve in curves)
            lines.append([f"{task}, {n:,}", *found])
    return table([f"{name}: task, length", *ARCHS], lines)


def crossovers() -> str:
    """Lengths from which a model is faster than LLaMA."""
    lines = [[task, *(_crossover(task, arch) for arch in LINEAR)] for task in TASKS]
    return table(["faster than LLaMA from", *ARCHS[1:]], lines)


def _crossover(task: str, arch: str) -> str:
    found = speed.crossover(task, arch)
    if found is None:
        longest = max(set(speed.curve(task, arch)) & set(speed.curve(task, "llama")))
        return f"not up to {longest:,}"
    if found == 0:
        return f"{min(speed.curve(task, 'llama')):,} or below"
    return _short(found, 2)


def _short(x: float, digits: int = 3) -> str:
    """So many digits, and no exponent."""
    return f"{float(f'{x:.{digits}g}'):,.10g}"
