"""Render a stored plotly figure as a ``<figure>`` that ``plotly_loader.js`` draws in the reader's browser.

The alternative text comes from ``layout.meta["alt"]`` and the title becomes a caption, so that both are there
for a screen reader, a search engine and a browser without JavaScript. What the page could not operate from a
keyboard (plotly's own menus) or could not announce (no alternative text) stops the build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from sphinx.errors import ExtensionError

PLOTLY_MIME = "application/vnd.plotly.v1+json"
_CAPTION, _END = '<figcaption class="plotly-caption">', "</figcaption>"
_ALLOWED_TAG = re.compile(r"&lt;(/?(?:b|i|em|strong|sub|sup))&gt;")


class NumberedFigure(nodes.General, nodes.Element):
    """Hold a figure that Sphinx counts: its child is the HTML, its name comes from the title."""


class FigureError(ExtensionError):
    """Report a figure that the page cannot show to every reader."""


def render_plotly(figure: Mapping[str, Any], where: str = "a notebook") -> str:
    """Return the HTML of one figure; ``where`` names the source in error messages."""
    layout = dict(figure.get("layout") or {})
    meta = layout.get("meta")
    alt = meta.get("alt") if isinstance(meta, Mapping) else None
    if not isinstance(alt, str) or not alt.strip():
        raise FigureError(f"{where}: a plotly figure has no alternative text (layout.meta['alt'])")
    _check_controls(figure, where)
    title = _read_title(layout)
    height = layout.get("height") or 420
    spec = json.dumps(dict(figure), separators=(",", ":")).replace("<", "\\u003c")
    caption = f'{_CAPTION}<span class="plotly-title">{_keep_inline_html(title)}</span>{_END}' if title else ""
    return (
        f'<figure class="plotly-fig">{caption}'
        f'<div class="plotly-plot" role="img" aria-label="{escape(" ".join(alt.split()))}"'
        f' style="min-height:{float(height):g}px"></div>'
        '<details class="plotly-description"><summary>Description of the figure</summary>'
        f"<p>{escape(alt.strip())}</p></details>"
        f'<script type="{PLOTLY_MIME}">{spec}</script></figure>'
    )


def _read_title(layout: Mapping[str, Any]) -> str:
    title = layout.get("title") or ""
    return str(title.get("text") or "") if isinstance(title, Mapping) else str(title)


def _keep_inline_html(text: str) -> str:
    """Plotly's small HTML: keep emphasis and indices, turn line breaks into spaces, escape the rest."""
    return _ALLOWED_TAG.sub(r"<\1>", escape(re.sub(r"<br\s*/?>", " ", text), quote=False))


def _check_controls(figure: Mapping[str, Any], where: str) -> None:
    """Check that sliders step through named frames and buttons play them: the page rebuilds that natively."""
    layout = figure.get("layout") or {}
    frames = {frame.get("name") for frame in figure.get("frames") or []}
    sliders: Sequence[Mapping[str, Any]] = layout.get("sliders") or []
    if len(sliders) > 1:
        raise FigureError(f"{where}: a figure may have one slider, this one has {len(sliders)}")
    for slider in sliders:
        for step in slider.get("steps") or []:
            target = (step.get("args") or [None])[0]
            names = target if isinstance(target, list) else [target]
            if step.get("method") != "animate" or len(names) != 1 or names[0] not in frames:
                raise FigureError(f"{where}: slider step {step.get('label')!r} does not show one frame")
    for menu in layout.get("updatemenus") or []:
        if not sliders or any(button.get("method") != "animate" for button in menu.get("buttons") or []):
            raise FigureError(f"{where}: a menu may only play the frames of a slider")


def number_figure(figure: Mapping[str, Any], content: nodes.raw, document: nodes.document) -> nodes.Element:
    """Return ``content`` as a figure that ``{numref}`` can name; without a title it stays as it is.

    Args:
        figure: what is drawn. "Fast and flat" as its title gives the name ``fig-fast-and-flat``.
        content: its HTML.
        document: where it stands; it learns the name.
    """
    title = re.sub("<.*?>", "", re.sub(r"<br\s*/?>", " ", _read_title(figure.get("layout") or {})))
    if not title:
        return content
    name = nodes.make_id(f"fig-{title}")
    numbered = NumberedFigure("", content, title=title, names=[name])
    document.note_explicit_target(numbered)
    return numbered


def write_numbered(writer: Any, node: NumberedFigure) -> None:
    """Write a figure with its number before the title and a link to it behind."""
    (name,), content = node["ids"], node.astext()
    number = ".".join(map(str, writer.builder.fignumbers.get("figure", {}).get(name, ())))
    label = f'<span class="plotly-number">{escape(writer.config.numfig_format["figure"] % number)}</span> '
    link = f'<a class="headerlink" href="#{name}" title="Link to this figure">#</a>'
    content = content.replace(_CAPTION, _CAPTION + label, 1).replace(_END, link + _END, 1)
    writer.body.append(f'<div class="output plotly" id="{name}">{content}</div>')
    raise nodes.SkipNode


def is_this_book(renderer: Any) -> bool:
    """Return whether the project being built uses our pages: myst-nb loads plug-ins for every book."""
    env = getattr(renderer.renderer, "sphinx_env", None)
    return env is not None and "linattn_book.builders.pages" in env.app.extensions


class PlotlyRenderer:
    """Plug into myst-nb for plotly's MIME type (entry point ``myst_nb.mime_renderers``).

    That plotly's data comes before other forms of an output is a setting of this book (``_config.yml``),
    since an override here would hold for the books of everybody who has this package.
    """

    mime_priority_overrides: ClassVar[Sequence[tuple[str, str, int | None]]] = []

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Element] | None:
        if data.mime_type != PLOTLY_MIME:
            return None
        if not is_this_book(renderer):
            return None
        if inline:
            raise FigureError(f"{renderer.source}: a plotly figure cannot stand inside a line of text")
        figure = json.loads(data.content) if isinstance(data.content, str) else data.content
        where = f"{renderer.source}:{data.line or 1}"
        content = nodes.raw(text=render_plotly(figure, where), format="html", classes=["output", "plotly"])
        return [number_figure(figure, content, renderer.renderer.document)]
