"""Make controls for a running notebook (Jupyter, Colab): move a slider, see the figure drawn anew.

The book's pages have no kernel, so whatever a reader must see is a static figure of ``plots``; a live figure
is an extra beside it. It is silent (nothing displayed, None returned) when ``LINATTN_STATIC=1``, which the
build and the tests set, or when ipywidgets is not installed. ipywidgets is imported only when it is needed.
"""

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

Choices = Sequence[Any] | Mapping[str, Any]


def live_figure(build: Callable[..., go.Figure], **options: Choices) -> Any:
    """Show controls, one for each keyword argument of ``build``, above the figure that it then returns.

    A list offers its values and a dict its labels, the first chosen at the start; a range runs over whole
    numbers; a tuple (low, high) of two positive floats is a logarithmic slider, started halfway. Returns the
    box, to leave as a cell's last line, or None where it stays silent. With ``LINATTN_STATIC=1`` the first
    figure is built all the same, and dropped, so that a test run sees any mistake in ``build``.
    """
    if not callable(build):
        raise ValueError(f"build: got {build!r}, expected a function that returns a figure")
    if not options:
        raise ValueError("options: got none, expected the choices for each argument of build")
    starts = {name: _choose_start(name, choices) for name, choices in options.items()}
    if os.environ.get("LINATTN_STATIC") == "1":
        _check_figure(build(**starts))
        return None
    try:
        widgets = importlib.import_module("ipywidgets")
        display = importlib.import_module("IPython.display").display
    except ImportError:
        return None
    controls = {name: _make_control(widgets, name, options[name], starts[name]) for name in options}

    def draw(**values: Any) -> None:
        display(_check_figure(build(**values)))

    return widgets.VBox([*controls.values(), widgets.interactive_output(draw, controls)])


def _check_figure(figure: Any) -> go.Figure:
    """Return the figure that ``build`` returned, or an error if it returned something else."""
    if not isinstance(figure, go.Figure):
        raise ValueError(f"build: returned {type(figure).__name__}, expected a plotly Figure")
    return figure


def _is_interval(choices: Choices) -> bool:
    """Return whether the choices are a tuple (low, high) of two floats."""
    return isinstance(choices, tuple) and len(choices) == 2 and all(isinstance(c, float) for c in choices)


def _choose_start(name: str, choices: Choices) -> Any:
    """Return the value that a control has at first."""
    if not isinstance(choices, (Mapping, Sequence)) or isinstance(choices, str) or len(choices) < 2:
        raise ValueError(
            f"{name}: got {choices!r}, expected a list, range, dict or (low, high) of two or more"
        )
    if isinstance(choices, Mapping):
        return next(iter(choices.values()))
    if not _is_interval(choices):
        return choices[0]
    low, high = choices
    if not 0 < low < high < math.inf:
        raise ValueError(f"{name}: got ({low:g}, {high:g}), expected 0 < low < high for a logarithmic slider")
    return math.sqrt(low * high)


def _make_control(widgets: Any, name: str, choices: Choices, start: Any) -> Any:
    """Return the slider for one argument, with its name beside it."""
    look = {"description": name.replace("_", " "), "continuous_update": False, "value": start}
    look |= {"style": {"description_width": "initial"}}
    if _is_interval(choices):
        low, high = (math.log10(float(bound)) for bound in choices)
        return widgets.FloatLogSlider(base=10, min=low, max=high, step=(high - low) / 50, **look)
    if isinstance(choices, range) and choices.step > 0:
        return widgets.IntSlider(min=choices[0], max=choices[-1], step=choices.step, **look)
    pairs = choices.items() if isinstance(choices, Mapping) else ((_make_label(c), c) for c in choices)
    return widgets.SelectionSlider(options=list(pairs), **look)


def _make_label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
