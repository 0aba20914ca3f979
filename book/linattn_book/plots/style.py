"""Say how every figure looks: colours, words, axes. Used by ``plots``; imports NumPy and plotly only."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

Trace = dict[str, Any]
Ticks = Sequence[float] | Mapping[float, str] | None


class Style(NamedTuple):
    """Say how one architecture looks in every figure: colour, marker when measured, dash when computed."""

    colour: str
    symbol: str
    dash: str


# Each colour has a contrast of at least 3:1 on white and on the dark page (#14181e). The first eight stay
# apart for colour-blind readers too; the others are told from their relatives by marker and dash.
STYLES: dict[str, Style] = {
    "softmax": Style("#e66708", "circle", "dash"),
    "linear": Style("#2a65b9", "square", "longdash"),
    "cosformer": Style("#bc874e", "diamond", "dashdot"),
    "tnl": Style("#0ba37c", "triangle-up", "longdashdot"),
    "hgrn2": Style("#745def", "triangle-down", "10px,3px,3px,3px,3px,3px"),
    "cosformer2": Style("#229fc4", "pentagon", "3px,3px"),
    "mamba2": Style("#9d5489", "star", "14px,3px"),
    "delta_net": Style("#c0294b", "hexagon", "6px,2px,2px,2px"),
    "retnet": Style("#6a9a1f", "triangle-up-open", "7px,4px"),
    "gla": Style("#a56be0", "triangle-down-open", "12px,6px"),
    "hgrn": Style("#8a7fc0", "bowtie", "8px,8px"),
    "mamba": Style("#cf6fb0", "star-open", "4px,6px"),
    "gated_delta_net": Style("#e8505f", "hexagon-open", "10px,4px,2px,4px"),
    "rwkv6": Style("#5c7f8a", "cross", "5px,2px"),
}
ARCHITECTURES: dict[str, str] = {name: style.colour for name, style in STYLES.items()}
GREY = "#868c96"
NEUTRAL: dict[str, str] = {"theory": "#757b85", "reference": GREY, "points": GREY, "outline": "#e0482f"}
SEQUENTIAL = [[0.0, "#f3e9c6"], [0.25, "#a9d3ae"], [0.5, "#4fb0b3"], [0.75, "#3277b5"], [1.0, "#4b2f8f"]]
DIVERGING = [[0.0, "#0b4f9e"], [0.25, "#6ba3d6"], [0.5, "#eeece8"], [0.75, "#e58a4e"], [1.0, "#a83208"]]


def to_plain_numbers(values: Any) -> list[Any]:
    """Return nested lists of plain numbers: whole ones kept, others to five digits, None for NaN."""
    array = np.asarray(values, dtype=float)
    return (
        [to_plain_numbers(row) for row in array]
        if array.ndim > 1
        else [_to_plain_number(v) for v in array.tolist()]
    )


def _to_plain_number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.5g}")


def format_number(value: float, power: bool = False) -> str:
    """Write a number as a label: 0.25, 1,234, 2.5×10<sup>7</sup>; always the last form if ``power``."""
    if value == 0 or (1e-3 <= abs(value) < 1e6 and not power):
        return f"{float(f'{value:.4g}'):,g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    factor = f"{float(mantissa):g}×" if float(mantissa) != 1 else ""
    return f"{factor}10<sup>{int(exponent)}</sup>"


def wrap(text: str, width: int) -> str:
    """Put <br> into a text so that no line is longer than ``width`` characters (words stay whole)."""
    parts = (textwrap.wrap(part, width, break_long_words=False) for part in text.split("<br>"))
    return "<br>".join(line for part in parts for line in part)


def check_words(**arguments: str) -> None:
    """Refuse empty words, and an alt text too short to say what is to be seen."""
    for name, text in arguments.items():
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"{name}: got {text!r}, expected words")
        if name == "alt" and len(text.strip()) < 40:
            raise ValueError(
                f"alt: got {len(text.strip())} characters, expected at least 40: say what is to be seen"
            )


def make_figure(
    data: list[Any], title: str, alt: str, height: int, above: int = 0, **layout: Any
) -> go.Figure:
    """Return a figure as wide as its page, with ``above`` pixels kept between the title and the plot."""
    check_words(title=title, alt=alt)
    text = balance_title(title)
    top = find_title_bottom(title) + above
    heading = {"text": text, "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"}
    pad = {
        "l": 10,
        "t": 21 if "<br>" in text else 10,
    }  # plotly raises a title of several lines by half a line
    family = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
    base: dict[str, Any] = {
        "template": "plotly_white", "autosize": True, "height": height, "dragmode": False,
        "meta": {"alt": alt.strip()}, "hovermode": "closest",
        "font": {"size": 13, "family": family},
        "margin": {"l": 8, "r": 12, "t": top, "b": 44},
        "title": heading | {"font": {"size": 15}, "pad": pad},
    }  # fmt: skip
    return go.Figure(data=data, layout=base | {"showlegend": False} | layout)


def find_title_bottom(title: str) -> int:
    """Pixels from the figure's top edge to just below its title."""
    return 16 + 20 * (1 + balance_title(title).count("<br>"))


def balance_title(title: str) -> str:
    """Return the title in lines of at most 42 characters (a phone's width) and of about equal length."""
    lines = wrap(title, 42).count("<br>")
    return wrap(title, next(n for n in range(10, 43) if wrap(title, n).count("<br>") == lines))


def make_axis(title: str, log: bool = False, **more: Any) -> dict[str, Any]:
    """Return an axis that leaves touch scrolling to the page (a fixed range) and has room for its labels."""
    words = {"text": wrap(title, 40), "standoff": 8, "font": {"size": 13}}
    base = {"title": words, "automargin": True, "fixedrange": True, "tickfont": {"size": 12}}
    lines = {
        "zeroline": False,
        "showline": True,
        "linecolor": NEUTRAL["reference"],
        "gridcolor": "rgba(128,134,144,0.25)",
    }
    return base | lines | {"type": "log" if log else "linear"} | more


def find_span(
    name: str, arrays: Sequence[Any], log: bool, zero: bool = False, pad: float = 0.04
) -> list[float]:
    """Return the range (log10 on a log axis) that holds all finite values, with a margin at both ends."""
    values = np.concatenate([np.ravel(a).astype(float) for a in arrays if a is not None] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if values.size == 0:
        raise ValueError(f"{name}: got no finite value, expected at least one")
    if log and values.min() <= 0:
        raise ValueError(f"{name}: got {values.min():g}, expected positive values on a logarithmic axis")
    low, high = (np.log10(values) if log else values)[[values.argmin(), values.argmax()]]
    low = min(low, 0.0) if zero and not log and 0 <= low < 0.4 * high else low
    room = pad * (high - low) if high > low else 0.1 * abs(high) or 0.5
    return [float(low - room), float(high + room)]


def choose_ticks(span: list[float], log: bool, given: Any = None, values: Any = ()) -> dict[str, Any]:
    """Return ticks as given (values, or value -> words); else powers of 2 or 10 if log, or round numbers."""
    if given is None and not log:
        return {}
    if isinstance(given, Mapping):
        marks, shown = list(given), [str(word) for word in given.values()]
    else:
        marks = _choose_log_ticks(span, np.unique(values)) if given is None else list(given)
        powers = log and max(marks) >= 1e6 and all(v < 10 or v % 10 == 0 for v in marks)
        shown = [format_number(v, powers) if powers or v % 1 or v < 1000 else str(int(v)) for v in marks]
    return {"tickvals": to_plain_numbers(marks), "ticktext": shown, "tickangle": 0}


def _choose_log_ticks(span: list[float], values: np.ndarray) -> list[float]:
    """Return at most six marks on a log axis that runs from ``10**span[0]`` to ``10**span[1]``."""
    if values.size > 2 and values[0] >= 1 and all(math.log2(v).is_integer() for v in values):
        marks = [float(v) for v in values]
    elif span[1] - span[0] >= 2:
        marks = [10.0**e for e in range(math.ceil(span[0]), math.floor(span[1]) + 1)]
    elif span[1] - span[0] >= 0.8:
        marks = [m * 10.0**e for e in range(math.floor(span[0]), math.ceil(span[1])) for m in (1, 2, 5)]
    else:
        marks = _choose_round_marks(10 ** span[0], 10 ** span[1])
    marks = [m for m in marks if span[0] <= math.log10(m) <= span[1]]
    marks = marks or _choose_round_marks(10 ** span[0], 10 ** span[1])  # a narrow range given by hand
    return marks[:: 1 + (len(marks) - 1) // 6]


def _choose_round_marks(low: float, high: float) -> list[float]:
    """About four evenly spaced round numbers from ``low`` to ``high``."""
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * unit for factor in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - rough))
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
