"""Draw values with intervals, side by side for each name.

Used by ``plots``; imports NumPy and plotly only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .lines import Series, add_legend, choose_styles
from .style import (
    Trace,
    check_words,
    find_span,
    find_title_bottom,
    make_axis,
    make_figure,
    to_plain_numbers,
    wrap,
)

ROW = 42  # pixels of a name


def draw_ranges(
    names: Sequence[str], frames: Sequence[Sequence[Series]], title: str, x: str, y: str, alt: str
) -> tuple[go.Figure, list[list[Trace]]]:
    """Return the figure of the first frame, and the traces of every frame.

    A series has one y for each name, over ``x`` 0 to n - 1, with whiskers from ``low`` to ``high``; NaN is a
    gap. A reference without x is a vertical line.
    """
    check_words(x=x, y=y)
    every = [s for group in frames for s in group]
    if not names or not every:
        raise ValueError(f"names, series: got {len(names)} and {len(every)}, expected one of each at least")
    for s in every:
        if s.kind == "measured" and np.asarray(s.y).size != len(names):
            raise ValueError(
                f"y of {s.name}: got {np.asarray(s.y).size} values, expected {len(names)}, one a name"
            )
    across = find_span("y", [a for s in every for a in (s.y, s.low, s.high)], log=False)
    drawn = [_make_frame(group, len(names)) for group in frames]
    shown = [wrap(name.replace("-", "\u2011"), 14) for name in names]  # no break at a hyphen
    marks = {"tickvals": list(range(len(names))), "ticktext": shown}
    rows = make_axis(y, range=[len(names) - 0.5, -0.5], showgrid=False) | marks
    fig = make_figure(
        drawn[0], title, alt, 220 + ROW * len(names), xaxis=make_axis(x, range=across), yaxis=rows
    )
    add_legend(fig, [s.name for s in frames[0]], find_title_bottom(title))
    narrow = {"xref": "container", "entrywidth": 105, "entrywidthmode": "pixels"}  # names take much of a page
    fig.update_layout(legend=narrow)
    return fig, drawn


def _make_frame(group: Sequence[Series], count: int) -> list[Trace]:
    measured = [s for s in group if s.kind == "measured"]
    offsets = (np.arange(len(measured)) - (len(measured) - 1) / 2) * 0.72 / max(1, len(measured))
    drawn: list[Trace] = []
    for s, style in zip(group, choose_styles(list(group)), strict=True):
        y = np.asarray(s.y, dtype=float)
        trace: Trace = {"type": "scatter", "name": s.name, "hovertemplate": f"%{{x}}<extra>{s.name}</extra>"}
        if s.kind != "measured":
            line = {"color": style.colour, "width": 1.75, "dash": "dot"}
            level: dict[str, Any] = {
                "x": to_plain_numbers(np.repeat(y[:1], 2)),
                "y": [-0.5, count - 0.5],
                "mode": "lines",
            }
            drawn.append(trace | level | {"line": line})
            continue
        places = np.arange(count) + offsets[measured.index(s)]
        marker = {"symbol": style.symbol, "size": 8, "color": style.colour}
        trace |= {
            "x": to_plain_numbers(y),
            "y": to_plain_numbers(places),
            "mode": "markers",
            "marker": marker,
        }
        if s.low is not None:
            above, below = np.asarray(s.high) - y, y - np.asarray(s.low)
            whisker = {
                "type": "data",
                "symmetric": False,
                "array": to_plain_numbers(above),
                "arrayminus": to_plain_numbers(below),
            }
            trace["error_x"] = whisker | {"color": style.colour, "thickness": 1.75, "width": 3}
        drawn.append(trace)
    return drawn
