"""Figures of speed and memory against length, from ``results`` alone."""

import plotly.graph_objects as go

from linattn_ref import plots
from linattn_ref.findings import speed
from linattn_ref.findings.figures import series_of
from linattn_ref.findings.losses import ARCHITECTURES

TASKS = {"train": "train", "generate": "generate"}
LENGTHS = {256: "256", 1024: "1k", 4096: "4k", 16384: "16k", 65536: "64k"}


def speeds() -> go.Figure:
    """Bytes a second against length, of training and of generation."""
    return _by_length(
        "tokens_per_second",
        1.0,
        title="Bytes a second, by length",
        y="bytes a second",
        alt="Bytes a second against length from 256 to 65,536, in training and in generation, on logarithmic "
        "axes, for LLaMA, TNL, HGRN2 and cosFormer2 of 32 million parameters.",
    )


def memory() -> go.Figure:
    """Peak of memory against length, of training and of generation."""
    return _by_length(
        "peak_bytes",
        2.0**-30,
        title="Memory, by length",
        y="peak of memory (GiB)",
        alt="Peak of memory against length from 256 to 65,536, in training and in generation, on logarithmic "
        "axes, for LLaMA, TNL, HGRN2 and cosFormer2 of 32 million parameters.",
    )


def _by_length(column: str, unit: float, *, title: str, y: str, alt: str) -> go.Figure:
    frames = []
    for task, name in TASKS.items():
        group = []
        for arch in ARCHITECTURES:
            found = speed.curve(task, arch, column)
            group.append(
                series_of(arch, [float(n) for n in found], [unit * value for value in found.values()])
            )
        frames.append((name, group))
    return plots.line_frames(
        frames,
        slider="task",
        title=title,
        x="length (bytes)",
        y=y,
        alt=alt,
        log_x=True,
        log_y=True,
        x_ticks=LENGTHS,
    )
