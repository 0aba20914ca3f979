"""The figures: alternative text, axes, colours that everyone can tell apart, frames that hold still."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from linattn_book import plots
from linattn_book.plots import Series

ALT = "Two lines: one climbs with the square of the length, the other stays flat."
WORDS: dict[str, Any] = {
    "title": "One message in words",
    "x": "length (tokens)",
    "y": "time (ms)",
    "alt": ALT,
}
HEAT: dict[str, Any] = WORDS | {"colourbar": "weight"}
T = np.array([128, 256, 512, 1024, 2048])
MATRIX = np.random.default_rng(0).normal(size=(6, 6))
EIGHT = ("softmax", "linear", "cosformer", "tnl", "hgrn2", "cosformer2", "mamba2", "delta_net")


def pair(scale: float = 1.0) -> list[Series]:
    quadratic = Series("softmax", T, scale * T**2, "softmax", low=0.9 * scale * T**2, high=1.1 * scale * T**2)
    return [quadratic, Series("linear", T, scale * T, "linear"), Series("budget", y=500.0, kind="reference")]


def ranged(scale: float = 1.0) -> list[Series]:
    """A value with whiskers, a gap, and a line across."""
    y = [scale, 2 * scale]
    whole = Series("whole", [0, 1], y, "softmax", low=[0.5, 1.0], high=[4.0, 5.0])
    return [whole, Series("gap", [0, 1], [np.nan, 1.0], "tnl"), Series("level", y=[1.0], kind="reference")]


Figures = dict[str, Callable[[], go.Figure]]
MOVING: Figures = {
    "line_frames": lambda: plots.line_frames([(k, pair(k)) for k in (1, 2, 4)], slider="scale", **WORDS),
    "range_frames": lambda: plots.range_frames(
        ["first", "second"], [(k, ranged(k)) for k in (1, 2)], slider="scale", **WORDS
    ),
    "heatmap_frames": lambda: plots.heatmap_frames([(k, k * MATRIX) for k in (1, 2)], slider="k", **HEAT),
    "state_walk": lambda: plots.state_walk(np.cumsum([MATRIX] * 3, 0), [MATRIX] * 3, **HEAT),
    "tile_walk": lambda: plots.tile_walk(MATRIX, 2, title="Tile by tile", alt=ALT),
}
FIGURES: Figures = {
    "lines": lambda: plots.lines(pair(), log_x=True, log_y=True, **WORDS),
    "bars": lambda: plots.bars(["a", "b"], [1.5, 2.5e7], architectures=["tnl", "linear"], **WORDS),
    "dots": lambda: plots.bars(["a", "b"], [1.5, 2.5e7], log=True, **WORDS),
    "heatmap": lambda: plots.heatmap(MATRIX, mask_upper=True, text=True, **HEAT),
    "heatmaps": lambda: plots.heatmaps([("a", MATRIX), ("b", MATRIX), ("c", MATRIX)], diverging=True, **HEAT),
} | MOVING
every_figure = pytest.mark.parametrize("make", FIGURES.values(), ids=list(FIGURES))
every_moving = pytest.mark.parametrize("make", MOVING.values(), ids=list(MOVING))


@every_figure
def test_a_figure_says_what_it_shows_and_fits_its_page(make: Callable[[], go.Figure]) -> None:
    default = pio.templates.default
    layout = json.loads(make().to_json())["layout"]
    assert pio.templates.default == default
    assert len(layout["meta"]["alt"]) >= 40
    assert "width" not in layout
    assert layout["autosize"]
    assert 100 < layout["height"] <= 600
    assert layout["font"]["size"] >= 12
    for letter in "xy":  # of several panels, those at the edge carry the words
        assert any(layout[key]["title"]["text"] for key in layout if key.startswith(f"{letter}axis"))
    assert all(len(part) <= 42 for part in layout["title"]["text"].split("<br>"))


@every_figure
def test_a_stored_figure_is_the_same_twice_and_plain(make: Callable[[], go.Figure]) -> None:
    stored = make().to_json()
    assert stored == make().to_json()
    assert "bdata" not in stored
    assert "NaN" not in stored


@every_moving
def test_every_frame_can_be_reached_and_the_first_is_what_is_seen(make: Callable[[], go.Figure]) -> None:
    figure = json.loads(make().to_json())
    steps = figure["layout"]["sliders"][0]["steps"]
    names = [frame["name"] for frame in figure["frames"]]
    assert [step["args"][0] for step in steps] == [[name] for name in names]
    assert [step["label"] for step in steps] == names
    assert len(set(names)) == len(names) > 1
    assert all(step["method"] == "animate" and step["args"][1]["frame"]["redraw"] for step in steps)
    for frame in figure["frames"]:
        assert len(frame["data"]) == len(frame["traces"]) > 0
        assert frame["traces"] == figure["frames"][0]["traces"]
        assert "layout" not in frame
    for index, trace in zip(figure["frames"][0]["traces"], figure["frames"][0]["data"], strict=True):
        assert {key: figure["data"][index][key] for key in trace} == trace


def test_the_axes_hold_every_frame_and_do_not_move() -> None:
    figure = MOVING["line_frames"]()
    tops = [max(v for trace in f.data for v in trace.y) for f in figure.frames]
    assert figure.layout.yaxis.range[1] > max(tops) == 4 * 2048**2
    heat = MOVING["heatmap_frames"]()
    assert heat.layout.coloraxis.cmax == pytest.approx(2 * MATRIX.max())


@pytest.mark.parametrize("alt", ["", "   ", "too short", "x" * 39])
def test_alternative_text_is_required(alt: str) -> None:
    with pytest.raises(ValueError, match="alt"):
        plots.lines(pair(), **(WORDS | {"alt": alt}))
    with pytest.raises(ValueError, match="alt"):
        plots.tile_walk(MATRIX, 2, title="Tile by tile", alt=alt)


def test_rows_go_down_and_what_is_masked_is_blank() -> None:
    figure = plots.heatmap(MATRIX, mask_upper=True, **HEAT)
    low, high = figure.layout.yaxis.range
    assert low > high
    assert figure.data[0].z[0][0] == float(f"{MATRIX[0, 0]:.5g}")
    assert figure.data[0].z[0][1] is None
    blank = plots.heatmap(np.where(MATRIX > 0, MATRIX, -np.inf), **HEAT)
    assert sum(v is None for row in blank.data[0].z for v in row) == (MATRIX <= 0).sum()


def test_diverging_colours_are_symmetric_about_zero() -> None:
    axis = plots.heatmap([[-1.0, 3.0]], diverging=True, **HEAT).layout.coloraxis
    assert (axis.cmin, axis.cmax) == (-3, 3)


def test_online_softmax_ends_with_the_whole_denominator() -> None:
    figure = plots.tile_walk(MATRIX, 2, title="Tile by tile", alt=ALT)
    shares = [frame.data[frame.traces.index(3)].x for frame in figure.frames]
    assert shares[-1] == pytest.approx([1] * 6)
    inside = np.exp(MATRIX[2, :3]) / np.exp(MATRIX[2, :3]).sum()
    assert shares[1][2] == pytest.approx(inside[:2].sum(), rel=1e-4)
    assert len(figure.frames) == 6


def test_names_stand_at_the_ends_only_if_they_stand_clear() -> None:
    clear = plots.lines([Series("up", [0, 1], [0, 1]), Series("down", [0, 1], [1, 0])], **WORDS)
    assert clear.data[-1].text == ("  up", "  down")
    assert not clear.layout.showlegend
    near = plots.lines([Series("up", [0, 1], [0, 1]), Series("too", [0, 1], [0, 0.98])], **WORDS)
    assert near.layout.showlegend
    short = plots.lines([Series("up", [0, 1], [0, 1]), Series("half", [0, 0.5], [0, 0.2])], **WORDS)
    assert short.layout.showlegend


def test_numbers_are_short_but_whole_numbers_stay_whole() -> None:
    figure = plots.lines([Series("a", [131072, 262144], [1 / 3, np.nan])], **WORDS)
    assert figure.data[0].x == (131072, 262144)
    assert figure.data[0].y == (0.33333, None)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([128, 256, 512], ("128", "256", "512")),
        ([2**14, 2**17, 2**20], ("16384", "131072", "1048576")),
        ([1e-2, 3.0, 1e3], ("0.01", "0.1", "1", "10", "100", "1000")),
        ([70e6, 7.1e9], ("10<sup>8</sup>", "10<sup>9</sup>")),
        ([2.31, 3.09], ("2.4", "2.6", "2.8", "3")),
    ],
)
def test_logarithmic_ticks_are_numbers_a_reader_knows(values: list[float], labels: tuple[str, ...]) -> None:
    series = [Series("a", values, np.arange(len(values)))]
    assert plots.lines(series, log_x=True, **WORDS).layout.xaxis.ticktext == labels


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series("", [1], [1]), "name"),
        (lambda: Series("a", [1, 2], [1]), r"y of a: got shape \(1,\), expected \(2,\)"),
        (lambda: Series("a", [1, np.nan], [1, 2]), "x of a"),
        (lambda: Series("a", [1, 2], [1, np.inf]), "y of a"),
        (lambda: Series("a", [1, 2], [np.nan, np.nan]), "y of a"),
        (lambda: Series("a", y=[1.0]), "only a reference"),
        (lambda: Series("a", kind="reference"), "only a reference"),
        (lambda: Series("a", [1], [1], low=[0]), "low and high"),
        (lambda: Series("a", [1], [1], low=[2], high=[0]), "low exceeds high"),
        (lambda: Series("a", [1], [1], architecture="lstm"), "architecture"),
        (lambda: plots.lines([], **WORDS), "series"),
        (lambda: plots.lines(pair(), **(WORDS | {"x": ""})), "x"),
        (lambda: plots.lines([Series("a", [0, 1], [1, 1])], log_x=True, **WORDS), "positive"),
        (lambda: plots.bars(["a"], [1, 2], **WORDS), "values"),
        (lambda: plots.bars(["a"], [1], architectures=["lstm"], **WORDS), "architectures"),
        (lambda: plots.heatmap([1.0, 2.0], **HEAT), "matrix"),
        (lambda: plots.heatmap([[np.nan]], **HEAT), "finite"),
        (lambda: plots.heatmap([[1.0, 2.0]], mask_upper=True, **HEAT), "mask_upper"),
        (lambda: plots.heatmap(np.ones((2, 9)), text=True, **HEAT), "text"),
        (lambda: plots.heatmap(MATRIX, x_labels=["a"], **HEAT), "labels"),
        (lambda: plots.heatmap(MATRIX, zmin=9, **HEAT), "zmin"),
        (lambda: plots.heatmaps([("a", MATRIX)] * 5, **HEAT), "panels"),
        (lambda: plots.heatmap_frames([(1, MATRIX), (1, MATRIX)], slider="t", **HEAT), "frames"),
        (lambda: plots.heatmap_frames([(1, MATRIX), (2, MATRIX[1:])], slider="t", **HEAT), "shape"),
        (lambda: plots.line_frames([(1, pair()), (2, pair()[1:])], slider="t", **WORDS), "frames"),
        (
            lambda: plots.range_frames(["a"], [(1, ranged()), (2, ranged())], slider="t", **WORDS),
            "y of whole",
        ),
        (lambda: plots.range_frames([], [(1, []), (2, [])], slider="t", **WORDS), "names"),
        (lambda: plots.state_walk([MATRIX], MATRIX, **HEAT), "writes"),
        (lambda: plots.tile_walk(MATRIX, 0, title="Tile", alt=ALT), "tile"),
        (lambda: plots.tile_walk(MATRIX * np.nan, 2, title="Tile", alt=ALT), "scores"),
    ],
)
def test_a_mistake_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def linear_rgb(colour: str) -> np.ndarray:
    """The linear-light RGB ``[3]`` of "#rrggbb"."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The WCAG contrast ratio of two colours."""
    low, high = sorted(float(linear_rgb(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE Lab ``[3]`` of a linear-light RGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ rgb / [0.9505, 1.0, 1.089]
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira, Fernandes (2009), severity 1: what a reader without red or without green cones sees.
SIGHT = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


@pytest.mark.parametrize("page", ["#ffffff", "#14181e"])
def test_every_line_stands_out_on_a_light_and_a_dark_page(page: str) -> None:
    colours = plots.ARCHITECTURES | plots.NEUTRAL
    faint = {name: contrast(colour, page) for name, colour in colours.items() if contrast(colour, page) < 3}
    assert faint == {}


@pytest.mark.parametrize("sight", SIGHT)
def test_eight_architectures_are_told_apart_by_every_eye(sight: str) -> None:
    seen = {name: lab(np.clip(SIGHT[sight] @ linear_rgb(plots.ARCHITECTURES[name]), 0, 1)) for name in EIGHT}
    near = {(a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(EIGHT, 2)}
    assert min(near.values()) > 18, min(near, key=lambda names: near[names])


def test_markers_and_dashes_are_a_second_sign() -> None:
    for field in ("colour", "symbol", "dash"):
        values = [getattr(style, field) for style in plots.STYLES.values()]
        assert len(set(values)) == len(values)


def test_a_narrow_log_axis_given_by_hand_has_ticks() -> None:
    fig = plots.lines(
        [plots.Series("a", [1, 2, 4], [1, 2, 3])],
        title="t", x="x", y="y", alt="A line that rises from one to three over a narrow range.",
        log_x=True, x_range=[2.5, 3.5],
    )  # fmt: skip
    assert len(fig.layout.xaxis.tickvals) >= 2


def test_a_slider_begins_at_the_frame_that_is_asked_for() -> None:
    frames = [
        (n, [Series("line", [0, 1], [0, n]), Series("seen", [0.5], [1], kind="points")]) for n in (1, 2, 3)
    ]
    words = {
        "slider": "n",
        "title": "A line",
        "x": "x",
        "y": "y",
        "alt": "A line that rises as n grows, and a point.",
    }
    fig = plots.line_frames(frames, start=2, **words)
    assert (fig.layout.sliders[0].active, list(fig.data[0].y)) == (2, [0, 3])
    assert fig.data[1].mode == "markers"
    with pytest.raises(ValueError, match=r"start: got 3, expected the number of a frame, 0 to 2"):
        plots.line_frames(frames, start=3, **words)
