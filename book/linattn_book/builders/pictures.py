"""Draw pictures as SVG that stands in the page: words and lines take the page's colours.

A picture is measured or computed, as all figures are: times and recall are given, the state is worked out.
"""

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linattn_book.plots import ARCHITECTURES

WIDTH, HEIGHT = 380, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 100, 34, 226  # the plot's edges; the lines' names stand to its right
PAIRS_LEFT, PAIRS_RIGHT = 108, WIDTH - 48  # the edges of a comparison; words stand on both sides
CELL = 30
KEPT = 0.6  # what the gate of the drawn state multiplies by


class Line(NamedTuple):
    """Hold a line of a panel: its name, its architecture (for the colour), y at each x, words at its end."""

    name: str
    arch: str
    y: Sequence[float]
    end: str


class Axis(NamedTuple):
    """Hold an axis: what it says, its range, and value -> word of its ticks; x is logarithmic."""

    title: str
    low: float
    high: float
    ticks: dict[float, str]


def draw_panel(
    title: str, alt: str, x: Sequence[float], lines: Sequence[Line], across: Axis, up: Axis
) -> str:
    """Return a panel of lines over a logarithmic x, with a dot for every measurement."""

    def place(value: float, height: float) -> tuple[float, float]:
        """Return the point of a measurement in the drawing."""
        share = math.log(value / across.low) / math.log(across.high / across.low)
        rise = (height - up.low) / (up.high - up.low)
        return LEFT + share * (WIDTH - RIGHT - LEFT), BOTTOM - rise * (BOTTOM - TOP)

    parts = [_write(LEFT - 38, 16, title, "bold"), _write(LEFT, HEIGHT - 6, across.title, "soft")]
    parts.append(_write(LEFT - 38, TOP - 2, up.title, "soft"))
    for height, word in up.ticks.items():
        y = place(across.low, height)[1]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(_write(LEFT - 6, y + 4, word, "soft", "end"))
    for value, word in across.ticks.items():
        parts.append(_write(place(value, up.low)[0], BOTTOM + 17, word, "soft", "middle"))
    for line in lines:
        points = [place(*point) for point in zip(x, line.y, strict=True)]
        colour, joined = ARCHITECTURES[line.arch], " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.2" fill="{colour}"/>' for a, b in points]
        a, b = points[-1]
        b = min(b, BOTTOM - 18)  # clear of the words below the axis
        parts += [_write(a + 9, b + 1, line.name, "bold"), _write(a + 9, b + 16, line.end)]
    return _frame(parts, alt, WIDTH, HEIGHT)


class Pair(NamedTuple):
    """Hold a row of a comparison: its name, two measurements, and words at its end."""

    name: str
    ours: float
    other: float
    end: str


def draw_pairs(
    title: str, alt: str, groups: Mapping[str, Sequence[Pair]], names: tuple[str, str], across: Axis, end: str
) -> str:
    """Return a panel of rows in groups: a dot for ours and a ring for the other, over a logarithmic axis.

    Every dot has the name of ``names`` above the first row; ``end`` heads the words at the ends of the rows.
    """

    def place(value: float) -> float:
        share = math.log(value / across.low) / math.log(across.high / across.low)
        return PAIRS_LEFT + share * (PAIRS_RIGHT - PAIRS_LEFT)

    parts, y = [_write(0, 16, title, "bold"), _write(WIDTH, 38, end, "soft", "end")], 46.0
    rows: list[str] = []
    first = next(iter(groups.values()))[0]
    rows.append(_write(place(first.ours), 38, names[0], "bold", "middle"))
    rows.append(_write(place(first.other), 38, names[1], "", "middle"))
    for group, pairs in groups.items():
        rows.append(_write(0, y + 13, group, "bold"))
        y += 19
        for pair in pairs:
            a, b, middle = place(pair.ours), place(pair.other), y + 8
            rows.append(_write(0, middle + 4, pair.name, "soft"))
            rows.append(
                f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" class="between"/>'
            )
            rows.append(f'<circle cx="{b:.1f}" cy="{middle:.1f}" r="5" class="other"/>')
            rows.append(f'<circle cx="{a:.1f}" cy="{middle:.1f}" r="3.4" class="ours"/>')
            rows.append(_write(WIDTH, middle + 4, pair.end, "", "end"))
            y += 17
        y += 7
    for value, word in across.ticks.items():
        x = place(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="46" y2="{y:.1f}" class="grid"/>')
        parts.append(_write(x, y + 15, word, "soft", "middle"))
    parts.append(_write(PAIRS_LEFT, y + 33, across.title, "soft"))
    return _frame([*parts, *rows], alt, WIDTH, y + 40)


def draw_state(alt: str) -> str:
    """Return a state that is written and read: S = g S_past + k^T v beside k and v, and o = q S below it."""
    generator = np.random.default_rng(3)
    past, k, v = generator.uniform(0, 0.7, (5, 6)), np.array([0, 0.2, 1, 0.1, 0]), generator.uniform(0, 1, 6)
    q = np.array([0, 0.1, 0.9, 0, 0.2])
    S = KEPT * past + np.outer(k, v)
    left, top, bottom = 92, 74, 74 + 5 * CELL
    right = left + 6 * CELL
    parts = _draw_cells(S / S.max(), left, top, "linear")
    parts += _draw_cells(v[None], left, top - CELL - 12, "softmax")
    parts += _draw_cells(k[:, None], left - CELL - 12, top, "softmax")
    parts += _draw_cells(q[:, None], right + 12, top, "tnl")
    parts += _draw_cells((q @ S)[None] / (q @ S).max(), left, bottom + 12, "tnl")
    parts += [
        _write(left + 3 * CELL, top - CELL - 20, "value v", "bold", "middle"),
        _write(left - CELL - 20, top + 2.5 * CELL, "key k", "bold", "end"),
        _write(right + CELL + 20, top + 2.5 * CELL, "query q", "bold"),
        _write(left + 3 * CELL, bottom + CELL + 30, "output o = q S", "bold", "middle"),
        _write(left + 3 * CELL, bottom + CELL + 50, f"state S = {KEPT} · past S + kᵀ v", "", "middle"),
    ]
    return _frame(parts, alt, WIDTH, bottom + CELL + 60)


def _draw_cells(values: NDArray[np.float64], x: float, y: float, arch: str) -> list[str]:
    """Return a square for every number of a matrix, the fuller the larger the number."""
    return [
        f'<rect x="{x + CELL * j}" y="{y + CELL * i}" width="{CELL - 3}" height="{CELL - 3}" rx="3" '
        f'fill="{ARCHITECTURES[arch]}" fill-opacity="{0.08 + 0.92 * value:.2f}" class="cell"/>'
        for (i, j), value in np.ndenumerate(values)
    ]


def _write(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(words)}</text>'


def _frame(parts: Sequence[str], alt: str, width: float, height: float) -> str:
    words = html.escape(alt)
    view = f'viewBox="0 0 {width} {height}" role="img" aria-label="{words}"'
    return "\n".join(
        [f'<svg class="book-picture" xmlns="http://www.w3.org/2000/svg" {view}>', *parts, "</svg>"]
    )
