"""Draw every figure of the book: arrays in, a plotly ``Figure`` out.

Nothing here reads a file, changes a global setting or shows anything. Every figure has one message, said by
its title, and an ``alt`` text of at least 40 characters that says what is to be seen (kept in
``layout.meta["alt"]``, where the page finds it). Numbers are drawn to five significant digits, as plain
lists, so that a stored notebook stays small and the same.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from .heat import (
    COLOUR_KEY,
    add_colour_key,
    choose_cell_ticks,
    draw_heat,
    make_colour_axis,
    make_heat_trace,
    to_matrix,
)
from .lines import Series, add_legend, draw_chart
from .ranges import draw_ranges
from .style import (
    ARCHITECTURES,
    DIVERGING,
    NEUTRAL,
    SEQUENTIAL,
    STYLES,
    Style,
    Trace,
    check_words,
    choose_ticks,
    find_span,
    find_title_bottom,
    format_number,
    make_axis,
    make_figure,
    to_plain_numbers,
    wrap,
)

__all__ = [
    "ARCHITECTURES", "DIVERGING", "NEUTRAL", "SEQUENTIAL", "STYLES", "Series", "Style",
    "bars", "heatmap", "heatmap_frames", "heatmaps", "line_frames", "lines", "range_frames", "state_walk",
    "tile_walk",
]  # fmt: skip
BAR, DIAMOND = "share of the final denominator", "exp(maximum − final maximum)"


def lines(series: Sequence[Series], *, title: str, x: str, y: str, alt: str, **options: Any) -> go.Figure:
    """Draw lines over a shared x. Measured: markers; theory: dashed, no marker; reference: dotted grey.

    ``options``: ``log_x``, ``log_y`` (False), ``x_ticks``, ``y_ticks`` (values, or value -> words),
    ``x_range``, ``y_range`` (in data units), ``height`` (pixels). Up to four lines whose right ends stand
    clear of each other carry their names there; otherwise a legend stands below the plot.
    """
    return draw_chart([list(series)], title, x, y, alt, **options)[0]


def line_frames(
    frames: Sequence[tuple[Any, Sequence[Series]]],
    *,
    slider: str,
    title: str,
    x: str,
    y: str,
    alt: str,
    start: int = 0,
    **options: Any,
) -> go.Figure:
    """Draw lines that change with a slider: ``frames`` holds (label, series), options are as in ``lines``.

    ``start`` is the frame that is shown first.

    Every frame draws the same series, in the same order. The axes hold all frames and never move, so whatever
    moves is the data.
    """
    labels = _list_labels(frames)
    names = [[(s.name, s.kind) for s in group] for _, group in frames]
    if any(group != names[0] for group in names):
        raise ValueError("frames: the series differ, expected the same names and kinds in every frame")
    options = {"height": 420, "moving": True} | options
    fig, traces = draw_chart([list(group) for _, group in frames], title, x, y, alt, **options)
    return _add_slider(fig, labels, traces, slider, start)


def bars(
    names: Sequence[str], values: ArrayLike, *, title: str, x: str, y: str, alt: str, log: bool = False,
    architectures: Sequence[str] | None = None, labels: Sequence[str] | None = None,
    height: int | None = None,
) -> go.Figure:  # fmt: skip
    """Horizontal bars ``[n]``, first on top, each with its value beside it.

    On a logarithmic axis (``log``) a bar's length would mean nothing, so a dot marks each value instead.
    """
    check_words(x=x, y=y)
    array = np.asarray(values, dtype=float)
    if array.shape != (len(names),) or not np.isfinite(array).all() or len(names) == 0:
        raise ValueError(f"values: got {array}, expected one finite number for each of {len(names)} names")
    for name, given in (("architectures", architectures), ("labels", labels)):
        if given is not None and len(given) != len(names):
            raise ValueError(f"{name}: got {len(given)}, expected {len(names)}, one a name")
    shown = list(labels) if labels is not None else [format_number(v) for v in array]
    across = find_span("values", [array] if log else [array, [0.0]], log, pad=0.06 if log else 0)
    width = max(len(re.sub("<.*?>", "", word)) for word in shown)
    room = (0.05 + 0.03 * width) * (across[1] - across[0])
    across = [across[0] - room * (array.min() < 0), across[1] + room]
    trace: Trace = {"x": to_plain_numbers(array), "y": [wrap(name, 16) for name in names], "text": shown}
    trace |= {"hovertemplate": "%{y}: %{text}<extra></extra>", "textfont": {"size": 12}, "cliponaxis": False}
    trace["marker"] = {"color": _choose_bar_colours(architectures, len(names))}
    if log:
        trace |= {"type": "scatter", "mode": "markers+text", "textposition": "middle right"}
        trace["marker"] |= {"size": 12}
    else:
        trace |= {"type": "bar", "orientation": "h", "textposition": "outside"}
    names_axis = make_axis(y, autorange="reversed", showgrid=False) | {"type": "category"}
    xaxis = make_axis(x, log, range=across, **choose_ticks(across, log))
    return make_figure([trace], title, alt, height or 120 + 34 * len(names), xaxis=xaxis, yaxis=names_axis)


def _choose_bar_colours(architectures: Sequence[str] | None, count: int) -> list[str]:
    """Return a colour for each bar: its architecture's, or one for all."""
    if architectures is None:
        return [ARCHITECTURES["linear"]] * count
    unknown = [name for name in architectures if name not in ARCHITECTURES]
    if unknown:
        raise ValueError(f"architectures: got {unknown}, expected names among {', '.join(ARCHITECTURES)}")
    return [ARCHITECTURES[name] for name in architectures]


def range_frames(
    names: Sequence[str], frames: Sequence[tuple[Any, Sequence[Series]]], *, slider: str, title: str,
    x: str, y: str, alt: str,
) -> go.Figure:  # fmt: skip
    """Draw dots with whiskers, a row for each name and a dot for each series in it, changed by a slider.

    A series has one y for each name, over ``x`` 0 to n - 1, with ``low`` and ``high``; NaN is a gap. A
    reference with y alone is a vertical line at it.
    """
    labels = _list_labels(frames)
    fig, drawn = draw_ranges(names, [list(group) for _, group in frames], title, x, y, alt)
    return _add_slider(fig, labels, drawn, slider)


def heatmap(
    matrix: ArrayLike, *, title: str, x: str, y: str, alt: str, colourbar: str, **options: Any
) -> go.Figure:
    """Draw a matrix ``[rows, columns]``, row 0 on top: for attention, queries go down and keys across.

    ``options``: ``mask_upper`` (False; leaves what lies above the diagonal blank), ``diverging`` (False;
    colours symmetric about 0), ``zmin``, ``zmax``, ``text`` (False; writes the values into at most 8
    columns), ``x_labels``, ``y_labels`` (words for columns and rows), ``height``. NaN and infinite entries
    stay blank.
    """
    return heatmaps([("", matrix)], title=title, x=x, y=y, alt=alt, colourbar=colourbar, **options)


def heatmaps(
    panels: Sequence[tuple[str, ArrayLike]],
    *,
    title: str,
    x: str,
    y: str,
    alt: str,
    colourbar: str,
    **options: Any,
) -> go.Figure:
    """Up to four matrices (name, ``[rows, columns]``) on one colour scale; options as for ``heatmap``."""
    return draw_heat([list(panels)], title, x, y, alt, colourbar, **options)[0]


def heatmap_frames(
    frames: Sequence[tuple[Any, Any]], *, slider: str, title: str, x: str, y: str, alt: str, colourbar: str,
    panels: Sequence[str] = ("",), **options: Any,
) -> go.Figure:  # fmt: skip
    """Draw matrices that change with a slider, on one fixed colour scale; options as ``heatmap``.

    ``frames`` is a list of (label, matrix), or of (label, [matrix, matrix]) with their names in ``panels``.
    """
    labels = _list_labels(frames)
    single = len(panels) == 1
    groups = [[matrices] if single else list(matrices) for _, matrices in frames]
    if any(len(group) != len(panels) for group in groups):
        raise ValueError(
            f"frames: got {[len(g) for g in groups]} matrices, expected {len(panels)}, as panels names"
        )
    named = [list(zip(panels, group, strict=True)) for group in groups]
    options = {"height": 450 if single else 420} | options
    fig, drawn = draw_heat(named, title, x, y, alt, colourbar, **options)
    return _add_slider(fig, labels, drawn, slider)


def state_walk(states: ArrayLike, writes: ArrayLike, *, slider: str = "step t", **options: Any) -> go.Figure:
    """Draw a state ``[T, K, V]`` beside what each step writes into it ``[T, K, V]``, on one colour scale.

    Steps count from 1; the other arguments are those of ``heatmap_frames``.
    """
    state, write = np.asarray(states, dtype=float), np.asarray(writes, dtype=float)
    if state.ndim != 3 or state.shape != write.shape:
        raise ValueError(
            f"writes: got {write.shape} beside states {state.shape}, expected [T, K, V] for both"
        )
    frames = [(t + 1, [write[t], state[t]]) for t in range(len(state))]
    defaults: dict[str, Any] = {"panels": ("what step t writes", "the state after it"), "diverging": True}
    return heatmap_frames(frames, slider=slider, **(defaults | options))


def tile_walk(
    scores: ArrayLike, tile: int, *, title: str, alt: str, slider: str = "tile", x: str = "key position",
    y: str = "query position", colourbar: str = "score", height: int = 500,
) -> go.Figure:  # fmt: skip
    """Causal scores ``[T, T]`` read tile by tile, as online softmax does, with what each row then holds.

    Left: what has been read, the current tile outlined. Right, row by row: the share of the final denominator
    collected so far (bar) and exp(maximum so far - final maximum) (diamond), which jumps when a larger score
    comes. The frames hold every score once a tile, so keep T at 32 or below.
    """
    grid = to_matrix(scores, True, False)
    length = len(grid)
    if np.isnan(grid[np.tril_indices(length)]).any():
        raise ValueError(
            "scores: got a value that is not finite on or below the diagonal, expected finite ones"
        )
    if not 1 <= tile <= length:
        raise ValueError(f"tile: got {tile}, expected a length from 1 to {length}, the number of rows")
    count = -(-length // tile)
    visits = [(i, j) for i in range(count) for j in range(i + 1)]
    stages = [_show_tile_stage(grid, tile, i, j) for i, j in visits]
    faded = make_heat_trace(grid, 0, False) | {"opacity": 0.25, "hoverinfo": "skip"}
    names = [f"query {i + 1}, key {j + 1}" for i, j in visits]
    side = make_axis(
        "of the final value", range=[0, 1.08], domain=[0.66, 1], anchor="y", tickvals=[0, 0.5, 1]
    )
    across = make_axis(
        x, range=[-0.5, length - 0.5], domain=[0, 0.6], showgrid=False, **choose_cell_ticks(length, None)
    )
    down = make_axis(y, range=[length - 0.5, -0.5], showgrid=False, **choose_cell_ticks(length, None))
    drawn = [[faded, *stage] for stage in stages]
    axes = {
        "xaxis": across,
        "xaxis2": side,
        "yaxis": down,
        "coloraxis": make_colour_axis([grid], False, None, None),
    }
    fig = make_figure(drawn[0], title, alt, height, COLOUR_KEY, bargap=0.3, **axes)
    add_legend(fig, [BAR, DIAMOND], find_title_bottom(title))
    add_colour_key(fig, colourbar)
    return _add_slider(fig, names, drawn, slider)


def _show_tile_stage(grid: np.ndarray, tile: int, i: int, j: int) -> list[Trace]:
    """Return what is seen when query tile ``i`` has read key tile ``j`` of the scores ``[T, T]``."""
    rows, columns = np.indices(grid.shape)
    read = (rows // tile < i) | ((rows // tile == i) & (columns // tile <= j))
    seen = np.where(read & np.isfinite(grid), grid, -np.inf)
    final = np.nanmax(grid, axis=1, keepdims=True)
    share = np.exp(seen - final).sum(1) / np.nansum(np.exp(grid - final), axis=1)
    peak = np.exp(seen.max(1) - final[:, 0])
    left, right, top, bottom = (min(n * tile, len(grid)) - 0.5 for n in (j, j + 1, i, i + 1))
    corners = {"x": [left, right, right, left, left], "y": [top, top, bottom, bottom, top], "mode": "lines"}
    frame = {"type": "scatter", "line": {"color": NEUTRAL["outline"], "width": 3}, "showlegend": False}
    here = {"y": list(range(len(grid))), "xaxis": "x2", "yaxis": "y"}
    bar: Trace = {"type": "bar", "orientation": "h", "x": to_plain_numbers(share), "name": BAR}
    known = to_plain_numbers(np.where(peak > 0, peak, np.nan))
    dots: Trace = {"type": "scatter", "mode": "markers", "x": known, "name": DIAMOND}
    bar |= {"marker": {"color": ARCHITECTURES["linear"], "line": {"width": 0}}}
    dots |= {"marker": {"color": ARCHITECTURES["softmax"], "symbol": "diamond", "size": 9}}
    shown = make_heat_trace(np.where(read, grid, np.nan), 0, False)
    return [shown, corners | frame | {"hoverinfo": "skip"}, here | bar, here | dots]


def _list_labels(frames: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return the frames' names, which a slider's steps share."""
    labels = [str(label) for label, _ in frames]
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"frames: got the labels {labels}, expected at least two, all different")
    return labels


def _add_slider(
    fig: go.Figure, labels: list[str], drawn: list[list[Trace]], slider: str, start: int = 0
) -> go.Figure:
    """Add frames that redraw whatever changes, and a slider that steps through them by name."""
    check_words(slider=slider)
    if not 0 <= start < len(labels):
        raise ValueError(f"start: got {start}, expected the number of a frame, 0 to {len(labels) - 1}")
    if any(len(group) != len(drawn[0]) for group in drawn):
        raise ValueError("frames: they differ in what they draw, expected intervals in all frames or in none")
    moving = [i for i, first in enumerate(drawn[0]) if any(group[i] != first for group in drawn)]
    keep = ("type", "x", "y", "z", "text", "error_x", "error_y")
    fig.frames = [
        go.Frame(
            name=name, traces=moving, data=[{k: group[i][k] for k in keep if k in group[i]} for i in moving]
        )
        for name, group in zip(labels, drawn, strict=True)
    ]
    for i in moving:
        fig.data[i].update({k: drawn[start][i][k] for k in keep if k in drawn[start][i]})
    how = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": name, "method": "animate", "args": [[name], how]} for name in labels]
    value = {"prefix": f"{slider}: ", "font": {"size": 13}}
    place = {"x": 0, "len": 1, "pad": {"t": 52, "b": 4, "l": 8, "r": 8}, "font": {"size": 12}}
    fig.update_layout(sliders=[place | {"active": start, "currentvalue": value, "steps": steps}])
    return fig
