"""Draw speed and memory against length, from ``results`` alone."""

from typing import Any

import plotly.graph_objects as go

from linattn_book import plots
from linattn_book.plots import Series
from linattn_study.findings import speed
from linattn_study.findings.figures import make_series
from linattn_study.findings.losses import ARCHITECTURES

TASKS = {"generate": "generation", "train": "training"}
STEPS = {"generate": "one graph", "launched": "launched"}
LENGTHS = {256: "256", 1024: "1k", 4096: "4k", 16384: "16k", 65536: "64k"}
AXIS: dict[str, Any] = {"x": "length (bytes)", "log_x": True, "x_ticks": LENGTHS}


def draw_training() -> go.Figure:
    """Draw bytes a second in training against length."""
    return plots.lines(
        _make_lines("train", "tokens_per_second", 1e-3),
        title="Uncompiled, cosFormer2 overtakes LLaMA near 1,500 bytes, HGRN2 near 3,600",
        y="thousand bytes a second",
        alt="Thousand bytes a second in training against length from 256 to 65,536, 32 million parameters. "
        "LLaMA falls from 1,000 to 132; TNL stays near 1,100, cosFormer2 near 840, HGRN2 near 720.",
        y_range=[0, 1200],
        **AXIS,
    )


def draw_generation() -> go.Figure:
    """Draw bytes a second in generation against the length read before, with a graph and without."""
    return plots.line_frames(
        [(words, _make_lines(task, "tokens_per_second", 1e-3)) for task, words in STEPS.items()],
        slider="a step is",
        title="As one graph, LLaMA generates more slowly than TNL and HGRN2 at every length",
        y="thousand bytes a second",
        alt="Thousand bytes a second, 16 sequences together, in generation after 256 to 65,536 bytes have "
        "been read, logarithmic axes, 32 million parameters. As one graph LLaMA falls from 18 to 2.7, TNL "
        "from 28 to 24, HGRN2 at 21, cosFormer2 at 16. Launched kernel by kernel all four lie between 0.8 "
        "and 2.3, and cross several times.",
        log_y=True,
        y_ticks={1: "1", 3: "3", 10: "10", 30: "30"},
        **AXIS,
    )


def draw_memory() -> go.Figure:
    """Draw the peak of memory against length, of generation and of training."""
    return plots.line_frames(
        [(name, _make_lines(task, "peak_bytes", 2.0**-30)) for task, name in TASKS.items()],
        slider="task",
        title="In generation LLaMA's memory grows with the length, the others' does not",
        y="peak of memory (GiB)",
        alt="Peak of memory against length from 256 to 65,536 on logarithmic axes, 32 million parameters. In "
        "generation LLaMA rises from 0.3 to 40 GiB, the other three stay near 0.2. In training all are "
        "level: LLaMA at 15 GiB, TNL 17, cosFormer2 20 and HGRN2 22.",
        log_y=True,
        y_ticks={0.2: "0.2", 1: "1", 5: "5", 20: "20", 40: "40"},
        **AXIS,
    )


def _make_lines(task: str, column: str, unit: float) -> list[Series]:
    """Return a line of each architecture."""
    lines = []
    for arch in ARCHITECTURES:
        values = speed.select_curve(task, arch, column)
        lines.append(
            make_series(arch, [float(n) for n in values], [unit * value for value in values.values()])
        )
    return lines
