"""Draw heat maps: their traces, axes and colours. Used by ``plots``; imports NumPy and plotly only."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from .style import DIVERGING, SEQUENTIAL, Trace, check_words, make_axis, make_figure, to_plain_numbers, wrap

COLOUR_KEY = 54


def draw_heat(
    frames: list[list[tuple[str, ArrayLike]]], title: str, x: str, y: str, alt: str, colourbar: str, *,
    mask_upper: bool = False, diverging: bool = False, zmin: float | None = None, zmax: float | None = None,
    text: bool = False, x_labels: Sequence[str] | None = None, y_labels: Sequence[str] | None = None,
    height: int | None = None,
) -> tuple[go.Figure, list[list[Trace]]]:  # fmt: skip
    """Return the figure of the first frame, and the traces of every frame, one a panel."""
    check_words(x=x, y=y, colourbar=colourbar)
    names = [name for name, _ in frames[0]]
    if not 1 <= len(names) <= 4 or (len(names) > 1 and not all(names)):
        raise ValueError(
            f"panels: got {names}, expected one to four, each with a name when there are several"
        )
    grids = [[to_matrix(matrix, mask_upper, text) for _, matrix in group] for group in frames]
    if any(grid.shape != group[0].shape for group in zip(*grids, strict=True) for grid in group):
        raise ValueError(
            "frames: the matrices of a panel differ in shape, expected the same shape in every frame"
        )
    drawn = [[make_heat_trace(grid, i, text) for i, grid in enumerate(group)] for group in grids]
    rows = -(-len(names) // 2)
    panel = 22 * (len(names) > 1)
    layout = make_heat_axes([grid.shape for grid in grids[0]], x, y, x_labels, y_labels)
    every = [grid for group in grids for grid in group]
    layout["coloraxis"] = make_colour_axis(every, diverging, zmin, zmax)
    height = height or (400 if len(names) == 1 else 150 + 210 * rows)
    fig = make_figure(drawn[0], title, alt, height, COLOUR_KEY + panel, **layout)
    add_colour_key(fig, colourbar, panel)
    fig.update_layout(annotations=[*fig.layout.annotations, *_add_panel_names(names)])
    return fig, drawn


def to_matrix(matrix: ArrayLike, mask_upper: bool, text: bool) -> np.ndarray:
    """Return the matrix ``[rows, columns]`` as floats, with NaN for whatever stays blank."""
    grid = np.array(matrix, dtype=float)
    if grid.ndim != 2 or grid.size == 0:
        raise ValueError(f"matrix: got shape {grid.shape}, expected (rows, columns), both at least 1")
    if mask_upper and grid.shape[0] != grid.shape[1]:
        raise ValueError(f"mask_upper: got a matrix of shape {grid.shape}, expected a square one")
    if text and grid.shape[1] > 8:
        raise ValueError(
            f"text: got {grid.shape[1]} columns, expected at most 8, or the numbers do not fit a phone"
        )
    grid[~np.isfinite(grid) | (np.triu(np.ones_like(grid), 1) > 0 if mask_upper else False)] = np.nan
    return grid


def make_heat_trace(grid: np.ndarray, panel: int, text: bool) -> Trace:
    """Return the heat map of one panel, on the shared colour axis."""
    tail = str(panel + 1) if panel else ""
    gap = 1 if max(grid.shape) <= 32 else 0
    trace: Trace = {
        "type": "heatmap",
        "z": to_plain_numbers(grid),
        "coloraxis": "coloraxis",
        "xgap": gap,
        "ygap": gap,
    }
    trace |= {"xaxis": f"x{tail}", "yaxis": f"y{tail}", "hoverongaps": False}
    trace["hovertemplate"] = "row %{y}, column %{x}: %{z}<extra></extra>"
    return trace | ({"texttemplate": "%{z:.2~f}", "textfont": {"size": 12}} if text else {})


def make_heat_axes(
    shapes: list[tuple[int, ...]],
    x: str,
    y: str,
    x_labels: Sequence[str] | None,
    y_labels: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the axes of up to four panels: rows go down, and each panel fills its width."""
    layout: dict[str, Any] = {}
    for i, (rows, columns) in enumerate(shapes):
        tail, column, row = str(i + 1) if i else "", i % 2, i // 2
        wide, high = len(shapes) > 1, len(shapes) > 2
        across = [0.53 * column, 0.53 * column + 0.47] if wide else [0, 1]
        up = [0.58 * (1 - row), 0.58 * (1 - row) + 0.42] if high else [0, 1]
        last = i + 2 >= len(shapes)
        xaxis = make_axis(x if last else "", range=[-0.5, columns - 0.5], domain=across, anchor=f"y{tail}")
        yaxis = make_axis("" if column else y, range=[rows - 0.5, -0.5], domain=up, anchor=f"x{tail}")
        if column and rows == shapes[i - 1][0]:
            yaxis["showticklabels"] = False
        both = ((xaxis, columns, x_labels), (yaxis, rows, y_labels))
        for one, length, given in both:
            one |= {"showgrid": False, "mirror": True, "ticks": "outside", "ticklen": 3}
            one |= choose_cell_ticks(length, given, 5 if wide else 9)
        layout |= {f"xaxis{tail}": xaxis, f"yaxis{tail}": yaxis}
    return layout


def choose_cell_ticks(length: int, given: Sequence[str] | None, most: int = 9) -> dict[str, Any]:
    """Whole-number ticks, at most ``most``, or a word for each of the ``length`` cells."""
    if given is None:
        return {"tick0": 0, "dtick": 2 ** max(0, math.ceil(math.log2(length / most)))}
    if len(given) != length:
        raise ValueError(f"labels: got {len(given)} words, expected {length}, one a cell")
    return {"tickvals": list(range(length)), "ticktext": [str(word) for word in given]}


def make_colour_axis(
    grids: list[np.ndarray], diverging: bool, zmin: float | None, zmax: float | None
) -> dict[str, Any]:
    """Return one colour axis for all matrices, symmetric about 0 when diverging."""
    known = np.concatenate([grid[np.isfinite(grid)] for grid in grids])
    if known.size == 0:
        raise ValueError("matrix: got no finite entry, expected at least one")
    low = float(known.min()) if zmin is None else zmin
    high = float(known.max()) if zmax is None else zmax
    if diverging:
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    if low > high:
        raise ValueError(f"zmin: got {low:g} above zmax {high:g}, expected zmin <= zmax")
    scale = DIVERGING if diverging else SEQUENTIAL
    return {"colorscale": scale, "cmin": low, "cmax": high if high > low else low + 1}


def add_colour_key(fig: go.Figure, title: str, up: int = 0) -> None:
    """Add the key to the colours and its title, ``up`` pixels above the plot, ``COLOUR_KEY`` pixels high."""
    bar = {"orientation": "h", "thickness": 12, "lenmode": "pixels", "len": 250, "x": 0, "xanchor": "left"}
    # Hung from the figure's top edge: with yanchor "bottom" plotly moves the other titles as well.
    bar |= {
        "y": 1 - (fig.layout.margin.t - up - 36) / fig.layout.height,
        "yref": "container",
        "yanchor": "top",
    }
    bar |= {"ypad": 0, "xpad": 0, "tickfont": {"size": 12}, "nticks": 5}
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    words = {"text": title, "showarrow": False, "yshift": up + 36, "xshift": -4, "font": {"size": 12}}
    fig.update_layout(coloraxis_colorbar=bar)
    fig.add_annotation(**place, **words)


def _add_panel_names(names: list[str]) -> list[dict[str, Any]]:
    """Add the name of each panel above its upper left corner."""
    tails = [str(i + 1) if i else "" for i in range(len(names))]
    corner = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    return [
        corner | {"text": wrap(name, 22), "xref": f"x{tail} domain", "yref": f"y{tail} domain"}
        for name, tail in zip(names, tails, strict=True) if name
    ]  # fmt: skip
