"""Figures of speed and memory against length, from ``results`` alone."""

from typing import Any

import plotly.graph_objects as go

from linattn_ref import plots
from linattn_ref.findings import speed
from linattn_ref.findings.figures import series_of
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.plots import Series

TASKS = {"generate": "generation", "train": "training"}
LENGTHS = {256: "256", 1024: "1k", 4096: "4k", 16384: "16k", 65536: "64k"}
AXIS: dict[str, Any] = {"x": "length (bytes)", "log_x": True, "x_ticks": LENGTHS}


def training() -> go.Figure:
    """Bytes a second against length."""
    return plots.lines(
        _by_length("train", "tokens_per_second", 1e-3),
        title="Uncompiled, cosFormer2 overtakes LLaMA near 1,500 bytes, HGRN2 near 3,700",
        y="thousand bytes a second",
        alt="Thousand bytes a second in training against length from 256 to 65,536, 32 million parameters. "
        "LLaMA falls from 1,000 to 134; TNL stays near 1,100, cosFormer2 near 840, HGRN2 near 720.",
        y_range=[0, 1200],
        **AXIS,
    )


def memory() -> go.Figure:
    """Peak of memory against length, of generation and of training."""
    return plots.line_frames(
        [(name, _by_length(task, "peak_bytes", 2.0**-30)) for task, name in TASKS.items()],
        slider="task",
        title="In generation LLaMA's memory grows with the length, the others' does not",
        y="peak of memory (GiB)",
        alt="Peak of memory against length from 256 to 65,536 on logarithmic axes, 32 million parameters. In "
        "generation LLaMA rises from 0.4 to 60 GiB, the other three stay near 0.2. In training all are "
        "level: LLaMA at 13.5 to 14.7 GiB, TNL 17, cosFormer2 20 and HGRN2 22.",
        log_y=True,
        y_ticks={0.2: "0.2", 1: "1", 5: "5", 20: "20", 60: "60"},
        **AXIS,
    )


def _by_length(task: str, column: str, unit: float) -> list[Series]:
    lines = []
    for arch in ARCHITECTURES:
        found = speed.curve(task, arch, column)
        lines.append(series_of(arch, [float(n) for n in found], [unit * value for value in found.values()]))
    return lines
