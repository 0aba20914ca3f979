"""Draw lines: the series to draw, their traces, their names.

Used by ``plots``; imports NumPy and plotly only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from .style import (
    NEUTRAL,
    STYLES,
    Style,
    Ticks,
    Trace,
    check_words,
    choose_ticks,
    find_span,
    find_title_bottom,
    make_axis,
    make_figure,
    to_plain_numbers,
    wrap,
)

Ends = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Series:
    """Hold one line: ``x`` and ``y`` of equal length, with an optional interval ``low`` to ``high``.

    A NaN in ``y`` is a gap. A reference may leave out ``x`` (a level across the plot) or ``y`` (a vertical
    line). Points are single observations, with no line between them. The architecture, a key of ``STYLES``,
    gives colour, marker and dash.
    """

    name: str
    x: ArrayLike | None = None
    y: ArrayLike | None = None
    architecture: str | None = None
    kind: Literal["measured", "theory", "reference", "points"] = "measured"
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip()):
            raise ValueError(f"name: got {self.name!r}, expected the words that stand beside the line")
        if self.kind not in ("measured", "theory", "reference", "points"):
            raise ValueError(
                f"kind: got {self.kind!r}, expected 'measured', 'theory', 'reference' or 'points'"
            )
        if self.architecture is not None and self.architecture not in STYLES:
            raise ValueError(f"architecture: got {self.architecture!r}, expected one of {', '.join(STYLES)}")
        if (self.x is None or self.y is None) and (self.kind != "reference" or self.x is self.y):
            raise ValueError(f"{self.name}: x or y is missing; only a reference may leave out one of them")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name}: got only one of low and high, expected both or neither")
        for field in ("x", "y", "low", "high"):
            self._keep(field)
        if self.low is not None and np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise ValueError(f"{self.name}: low exceeds high, expected low <= high everywhere")

    def _keep(self, field: str) -> None:
        """Replace a given field by a float array ``[n]`` of the length that ``x`` has."""
        given = getattr(self, field)
        if given is None:
            return
        array = np.atleast_1d(np.asarray(given, dtype=float))
        length = array.size if self.x is None else np.asarray(self.x).size
        if array.shape != (length,) or length == 0:
            raise ValueError(
                f"{field} of {self.name}: got shape {array.shape}, expected ({length or 'n >= 1'},)"
            )
        if np.isinf(array).any() or np.isnan(array).all() or (field == "x" and np.isnan(array).any()):
            raise ValueError(
                f"{field} of {self.name}: got {array}, expected finite numbers (in y, NaN is a gap)"
            )
        object.__setattr__(self, field, array)


def choose_styles(series: Sequence[Series]) -> list[Style]:
    """Return a style for each series: its architecture's, a free one if measured, else grey."""
    taken = {s.architecture for s in series}
    free = [style for name, style in STYLES.items() if name not in taken] * len(series)
    dashes = [style.dash for style in STYLES.values()] * len(series)
    chosen = []
    for s in series:
        if s.architecture is not None:
            chosen.append(STYLES[s.architecture])
        elif s.kind == "measured":
            chosen.append(free.pop(0))
        else:
            chosen.append(Style(NEUTRAL[s.kind], "circle", dashes.pop(0) if s.kind == "theory" else "dot"))
    return chosen


def find_points(s: Series, ends: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Return the x and y ``[n]`` of a series; a level or a vertical line runs from end to end of the plot."""
    (left, right), (bottom, top) = ends
    x, y = (None if a is None else np.asarray(a, dtype=float) for a in (s.x, s.y))
    if y is None:
        assert x is not None
        return np.repeat(x, 2), np.tile([bottom, top], x.size)
    if x is None:
        return np.tile([left, right], y.size), np.repeat(y, 2)
    return x, y


def make_line(s: Series, style: Style, ends: Ends) -> Trace:
    """Return the line of a series: markers if measured, dashed if theory, dots if a reference; or points."""
    x, y = find_points(s, ends)
    trace: Trace = {"type": "scatter", "name": s.name, "x": to_plain_numbers(x), "y": to_plain_numbers(y)}
    trace["hovertemplate"] = f"%{{x}}, %{{y}}<extra>{s.name}</extra>"
    if s.kind == "measured":
        marker = {"symbol": style.symbol, "size": 9, "maxdisplayed": 14, "color": style.colour}
        drawn = {"mode": "lines+markers", "marker": marker, "line": {"color": style.colour, "width": 2.5}}
    elif s.kind == "points":
        drawn = {"mode": "markers", "marker": {"symbol": style.symbol, "size": 7, "color": style.colour}}
    else:
        pen = {"color": style.colour, "width": 2 if s.kind == "theory" else 1.75}
        drawn = {"mode": "lines", "line": pen | {"dash": style.dash if s.kind == "theory" else "dot"}}
    return trace | drawn


def make_band(s: Series, style: Style) -> Trace:
    """Return the band from low to high, in the colour of the line."""
    keep = np.isfinite(np.asarray(s.low)) & np.isfinite(np.asarray(s.high))
    x, low, high = (np.asarray(a, dtype=float)[keep] for a in (s.x, s.low, s.high))
    outline = {
        "x": to_plain_numbers(np.append(x, x[::-1])),
        "y": to_plain_numbers(np.append(high, low[::-1])),
        "fill": "toself",
    }
    look = {"mode": "lines", "line": {"width": 0}, "fillcolor": lighten(style.colour), "hoverinfo": "skip"}
    return {"type": "scatter", "showlegend": False, "name": s.name} | outline | look


def lighten(colour: str) -> str:
    """Return the colour at a fifth of its strength, so that lines behind it stay visible."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def make_traces(series: Sequence[Series], ends: Ends, bars: bool) -> list[Trace]:
    """Return the traces of some series: intervals as error bars (``bars``) or as bands behind every line."""
    behind, front = [], []
    for s, style in zip(series, choose_styles(series), strict=True):
        front.append(make_line(s, style, ends))
        if s.low is None or s.high is None:
            continue
        if bars and s.kind == "measured":
            low, y, high = (np.asarray(a, dtype=float) for a in (s.low, s.y, s.high))
            up, down = np.maximum(high - y, 0), np.maximum(y - low, 0)
            error = {
                "type": "data",
                "symmetric": False,
                "array": to_plain_numbers(up),
                "arrayminus": to_plain_numbers(down),
            }
            front[-1]["error_y"] = error | {"color": style.colour, "thickness": 1.5, "width": 4}
        else:
            behind.append(make_band(s, style))
    return behind + front


def make_end_labels(series: Sequence[Series], ends: Ends) -> Trace:
    """Return one trace with the name of every line at its last point."""
    last = [[a[np.isfinite(y)][-1] for a in (x, y)] for x, y in (find_points(s, ends) for s in series)]
    names = ["  " + wrap(s.name, 12).replace("<br>", "<br>  ") for s in series]
    where = ["bottom right" if s.y is None else "middle right" for s in series]
    x, y = to_plain_numbers([p[0] for p in last]), to_plain_numbers([p[1] for p in last])
    look = {"mode": "text", "textposition": where, "cliponaxis": False, "hoverinfo": "skip"}
    return {"type": "scatter", "x": x, "y": y, "text": names, "showlegend": False} | look


def draw_chart(
    frames: list[list[Series]], title: str, x: str, y: str, alt: str, *, log_x: bool = False,
    log_y: bool = False, x_ticks: Ticks = None, y_ticks: Ticks = None, x_range: Sequence[float] | None = None,
    y_range: Sequence[float] | None = None, height: int = 380, moving: bool = False,
) -> tuple[go.Figure, list[list[Trace]]]:  # fmt: skip
    """Return the figure of the first frame, and the traces of every frame."""
    every = [s for group in frames for s in group]
    if not every:
        raise ValueError("series: got none, expected at least one Series")
    check_words(x=x, y=y)
    xs = [np.asarray(s.x, dtype=float) for s in every if s.x is not None]
    across = find_span("x", xs, log_x) if x_range is None else find_span("x_range", [x_range], log_x, pad=0)
    ys = [a for s in every for a in (s.y, s.low, s.high)]
    up = (
        find_span("y", ys, log_y, zero=True)
        if y_range is None
        else find_span("y_range", [y_range], log_y, pad=0)
    )
    ends = (_unlog(across, log_x), _unlog(up, log_y))
    drawn = [make_traces(group, ends, bars=max((a.size for a in xs), default=0) <= 12) for group in frames]
    direct = not moving and _ends_stand_clear(frames[0], ends, (log_x, log_y))
    labels = [make_end_labels(frames[0], ends)] if direct else []
    xaxis = make_axis(x, log_x, range=across, **choose_ticks(across, log_x, x_ticks, np.concatenate(xs)))
    yaxis = make_axis(y, log_y, range=up, **choose_ticks(up, log_y, y_ticks))
    fig = make_figure(drawn[0] + labels, title, alt, height, xaxis=xaxis, yaxis=yaxis)
    if direct:
        longest = max(len(part) for s in frames[0] for part in wrap(s.name, 12).split("<br>"))
        fig.update_layout(margin_r=16 + round(7.3 * longest))
    elif len(every) > len(frames) or not moving:
        add_legend(fig, [s.name for s in frames[0]], find_title_bottom(title) if moving else None)
    return fig, drawn


def _unlog(range_: list[float], log: bool) -> tuple[float, float]:
    low, high = (10**v if log else v for v in range_)
    return low, high


def _ends_stand_clear(series: list[Series], ends: Ends, logs: tuple[bool, bool]) -> bool:
    """Return whether at most four lines with short names end at the right edge, 7 % of the height apart."""
    if len(series) > 4 or any(len(part) > 15 for s in series for part in wrap(s.name, 12).split("<br>")):
        return False
    spots = []
    for s in (s for s in series if s.y is not None):
        x, y = find_points(s, ends)
        last = np.flatnonzero(np.isfinite(y))[-1:]
        places = [_place_on_axis(a[last], end, log) for a, end, log in zip((x, y), ends, logs, strict=True)]
        needs = 0.07 * (1 + wrap(s.name, 12).count("<br>"))
        spots += [(right, up, needs) for right, up in zip(*places, strict=True)]
    at_edge = all(0.9 <= right <= 1 and 0 <= up <= 1 for right, up, _ in spots)
    spots.sort(key=lambda spot: spot[1])
    return at_edge and all(b[1] - a[1] > (a[2] + b[2]) / 2 for a, b in pairwise(spots))


def _place_on_axis(values: np.ndarray, end: tuple[float, float], log: bool) -> np.ndarray:
    """Return where the values lie on an axis that runs from 0 to 1."""
    low, high, at = (np.log10(v) if log else np.asarray(v) for v in (end[0], end[1], values))
    return (at - low) / (high - low)


def add_legend(fig: go.Figure, names: list[str], top: int | None) -> None:
    """Add a legend in one or two columns below the plot, or ``top`` pixels from the upper edge."""
    columns = 2 if max(map(len, names)) <= 14 else 1
    room = 8 + 21 * -(-len(names) // columns)
    place: dict[str, Any] = {"y": 0, "yanchor": "bottom"}
    if top is not None:
        place = {"y": 1 - top / fig.layout.height, "yanchor": "top"}
    entry = {"entrywidth": 0.49 if columns == 2 else 0.95, "entrywidthmode": "fraction", "itemclick": False}
    look = {"orientation": "h", "x": 0, "yref": "container", "font": {"size": 12}, "itemdoubleclick": False}
    margin = fig.layout.margin
    fig.update_layout(showlegend=True, legend=entry | look | place)
    fig.update_layout(margin={"b": margin.b + room} if top is None else {"t": margin.t + room})
