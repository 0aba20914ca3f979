"""The renderer of stored plotly figures: what reaches the page, and what stops the build."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import plotly.graph_objects as go
import pytest
from docutils import nodes
from docutils.utils import new_document

pytest.importorskip("myst_nb")

from linattn_book.builders.pages import allow_breaks, make_accessible
from linattn_book.plotly_mime import (
    PLOTLY_MIME,
    FigureError,
    PlotlyRenderer,
    render_plotly,
    write_numbered,
)

ALT = "Two lines that cross: one grows as the square, one as the length."


OURS = SimpleNamespace(
    sphinx_env=SimpleNamespace(app=SimpleNamespace(extensions=["linattn_book.builders.pages"])),
    document=new_document("a page"),
)


def figure(**layout: Any) -> dict[str, Any]:
    fig = go.Figure(go.Scatter(y=[1, 4, 9]), layout={"meta": {"alt": ALT}, "height": 300} | layout)
    return json.loads(fig.to_json())


def with_slider(**step: Any) -> dict[str, Any]:
    default = {"label": "a", "method": "animate", "args": [["a"], {"mode": "immediate"}]}
    return figure(sliders=[{"steps": [default | step]}]) | {
        "frames": [{"name": "a", "data": [{"y": [3, 2, 1]}]}]
    }


def stored(html: str) -> dict[str, Any]:
    found = re.search(rf'<script type="{re.escape(PLOTLY_MIME)}">(.*)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def render(content: Any, mime: str = PLOTLY_MIME, inline: bool = False) -> Any:
    data = SimpleNamespace(mime_type=mime, content=content, line=7)
    return PlotlyRenderer.handle_mime(SimpleNamespace(source="chapters/x.ipynb", renderer=OURS), data, inline)


@pytest.mark.parametrize("meta", [None, {}, {"alt": ""}, {"alt": "  \n"}, {"alt": 3}, "words"])
def test_a_figure_without_alternative_text_stops_the_build(meta: Any) -> None:
    with pytest.raises(FigureError, match=r"chapters/x\.ipynb:7.*alternative text"):
        render(figure() | {"layout": {"meta": meta}})


def test_the_alternative_text_is_the_name_of_the_plot_and_can_be_read() -> None:
    html = render_plotly(figure(meta={"alt": 'a "quoted" <b> & more\nlines of text'}))
    escaped = "a &quot;quoted&quot; &lt;b&gt; &amp; more"
    assert f'role="img" aria-label="{escaped} lines of text"' in html
    assert "<summary>Description of the figure</summary>" in html
    assert f"<p>{escaped}\nlines of text</p>" in html


def test_the_title_is_a_caption_with_plotlys_small_html_only() -> None:
    html = render_plotly(figure(title={"text": "2<sup>k</sup><br>wins <img src=x>"}))
    title = '<span class="plotly-title">2<sup>k</sup> wins &lt;img src=x&gt;</span>'
    assert f'<figcaption class="plotly-caption">{title}</figcaption>' in html
    assert "figcaption" not in render_plotly(figure())


def test_the_figure_arrives_whole_and_cannot_close_its_script() -> None:
    given = figure(meta={"alt": ALT}, annotations=[{"text": "</script><!-- x"}])
    html = render_plotly(given)
    assert html.count("</script>") == 1
    assert "<!--" not in html
    assert stored(html) == given


def test_figures_of_the_notebook_come_as_dictionary_or_as_text() -> None:
    (node,) = render(figure())
    (same,) = render(json.dumps(figure()))
    assert node["format"] == "html"
    assert node.astext() == same.astext() == render_plotly(figure())


def test_a_figure_is_numbered_and_named_after_its_title() -> None:
    (node,) = render(figure(title={"text": "2<sup>k</sup> <i>wins</i>"}))
    assert node["ids"] == ["fig-2k-wins"]
    assert OURS.document.nameids["fig-2k-wins"] == "fig-2k-wins"
    numbers = SimpleNamespace(fignumbers={"figure": {"fig-2k-wins": (3, 1)}})
    config = SimpleNamespace(numfig_format={"figure": "Figure %s"})
    writer = SimpleNamespace(builder=numbers, config=config, body=[])
    with pytest.raises(nodes.SkipNode):
        write_numbered(writer, node)
    assert re.search('id="fig-2k-wins".*>Figure 3.1</span> .*wins.*href="#fig-2k-wins"', writer.body[0])


def test_other_outputs_are_left_to_others() -> None:
    assert render("<p>x</p>", mime="text/html") is None


def test_no_figure_inside_a_line_of_text() -> None:
    with pytest.raises(FigureError, match="inside a line"):
        render(figure(), inline=True)


def test_a_slider_over_named_frames_is_accepted() -> None:
    assert stored(render_plotly(with_slider())) == with_slider()
    assert render_plotly(with_slider(args=["a"]))


@pytest.mark.parametrize(
    "step", [{"method": "restyle"}, {"args": [["b"]]}, {"args": [None]}, {"args": [["a", "a"]]}]
)
def test_a_slider_the_page_cannot_operate_stops_the_build(step: dict[str, Any]) -> None:
    with pytest.raises(FigureError, match="slider step 'a'"):
        render_plotly(with_slider(**step))


def test_one_slider_and_no_other_menu() -> None:
    twice = with_slider()
    twice["layout"]["sliders"] *= 2
    with pytest.raises(FigureError, match="one slider"):
        render_plotly(twice)
    menu = [{"buttons": [{"method": "relayout", "label": "log"}]}]
    with pytest.raises(FigureError, match="a menu may only play"):
        render_plotly(figure(updatemenus=menu))


def test_lists_of_references_and_of_tasks_are_announced() -> None:
    assert make_accessible('<div role="doc-biblioentry">') == '<div role="listitem">'
    open_task = '<input class="task-list-item-checkbox" disabled="disabled">'
    assert 'aria-label="open"' in make_accessible(open_task)
    done = '<input class="task-list-item-checkbox" checked="checked" disabled="disabled">'
    assert 'aria-label="done"' in make_accessible(done)


def test_figures_of_other_books_are_left_alone() -> None:
    """The package is installed beside books that are not this one; myst-nb asks every plug-in."""
    other = SimpleNamespace(sphinx_env=SimpleNamespace(app=SimpleNamespace(extensions=["myst_nb"])))
    data = SimpleNamespace(mime_type="application/vnd.plotly.v1+json", content={"data": []}, line=1)
    renderer = SimpleNamespace(source="x.ipynb", renderer=other)
    assert PlotlyRenderer.handle_mime(renderer, data, False) is None
    assert PlotlyRenderer.mime_priority_overrides == []


def test_only_long_words_of_code_may_be_broken_and_only_between_their_parts() -> None:
    def code(word: str) -> str:
        return f'<span class="pre">{word}</span>'

    assert allow_breaks(code("chunk_linear_attention")) == code("chunk_linear_attention")
    assert allow_breaks("a_very_long_word_that_is_no_code") == "a_very_long_word_that_is_no_code"
    dotted = code("linattn_ref.interop.<wbr>to_fla_layer(mixer)").replace("ref.", "ref.<wbr>")
    assert allow_breaks(dotted.replace("<wbr>", "")) == dotted.replace("(mixer", "(<wbr>mixer")
    long = code("fused_<wbr>recurrent_<wbr>linear_<wbr>attention_<wbr>forward")
    assert allow_breaks(long.replace("<wbr>", "")) == long
