"""Live figures: controls in a running notebook, silence everywhere else."""

import sys
from typing import Any

import plotly.graph_objects as go
import pytest

from linattn_book.live import live_figure

SEEN: list[dict[str, Any]] = []


def build(**values: Any) -> go.Figure:
    SEEN.append(values)
    return go.Figure()


@pytest.fixture(autouse=True)
def _live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINATTN_STATIC", raising=False)
    SEEN.clear()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_kind_of_choice_has_its_control() -> None:
    pytest.importorskip("ipywidgets")
    box = live_figure(
        build, chunk_size=[1, 4, 16], decay={"none": 0.0, "fast": -1.0}, t=range(8), tau=(0.1, 10.0)
    )
    names = [type(child).__name__ for child in box.children]
    assert names == ["SelectionSlider", "SelectionSlider", "IntSlider", "FloatLogSlider", "Output"]
    assert [child.description for child in box.children[:4]] == ["chunk size", "decay", "t", "tau"]
    assert [child.value for child in box.children[:4]] == [1, 0.0, 0, pytest.approx(1.0)]
    assert [{"chunk_size": 1, "decay": 0.0, "t": 0, "tau": pytest.approx(1.0)}] == SEEN
    box.children[0].value = 16
    assert SEEN[-1]["chunk_size"] == 16


def test_silent_in_a_static_page_but_the_first_figure_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LINATTN_STATIC", "1")
    assert live_figure(build, t=range(3)) is None
    assert SEEN == [{"t": 0}]
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="build: returned NoneType"):
        live_figure(lambda t: None, t=range(3))  # type: ignore[arg-type, return-value]


def test_silent_without_ipywidgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert live_figure(build, t=range(3)) is None
    assert SEEN == []


@pytest.mark.parametrize("choices", [3, "abc", [1], (0.0, 1.0), (2.0, 1.0), {}])
def test_a_wrong_choice_is_named(choices: Any) -> None:
    with pytest.raises(ValueError, match="tau"):
        live_figure(build, tau=choices)


def test_something_to_build_and_to_choose_is_needed() -> None:
    with pytest.raises(ValueError, match="build"):
        live_figure(3, t=[1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="options"):
        live_figure(build)
