"""Extend Sphinx for the book: everything a page loads lies beside it, and everything on it has a name."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly
from sphinx.application import Sphinx

# What a page can ask MathJax for; the package ships ten times as much.
_MATHJAX_KEPT = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts")
_THEBE_CONFIG = re.compile(r'<script type="text/x-thebe-config">.*?</script>', re.DOTALL)
_ICON_SCRIPT = re.compile(r'<script src="[^"]*scripts/fontawesome\.js[^"]*"></script>')
_TASK_BOX = re.compile(r'<input class="task-list-item-checkbox"(?: checked="checked")?')
_CHECKED = 'checked="checked"'


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", loading_method="defer")
    app.connect("html-page-context", _adjust_page_context, priority=900)
    app.connect("build-finished", _write_assets, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _adjust_page_context(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    body = context.get("body", "")
    if "plotly-fig" in body:
        url: dict[str, Any] = {"data-plotly": f"plotly.min.js?v={version('plotly')}"}
        app.add_js_file("plotly_view.js", loading_method="defer")
        app.add_js_file("plotly_loader.js", loading_method="defer", **url)
    context["script_files"] = [s for s in context["script_files"] if not _is_thebe(s)]
    context["css_files"] = [s for s in context["css_files"] if not _is_thebe(s)]
    context["body"] = make_accessible(_THEBE_CONFIG.sub("", body))


def make_accessible(body: str) -> str:
    """Add what docutils and markdown-it leave unsaid: a bibliography is a list, a task is done or open."""
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    return _TASK_BOX.sub(lambda m: f'{m[0]} aria-label="{"done" if _CHECKED in m[0] else "open"}"', body)


def _is_thebe(asset: Any) -> bool:
    """Return whether an asset is of sphinx-thebe: always on in Jupyter Book, with scripts that clash."""
    name = str(getattr(asset, "filename", asset) or "")
    body = getattr(asset, "attributes", {}).get("body") or ""
    return "thebe" in name or "THEBE_JS_URL" in body


def _write_assets(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.copyfile(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", static / "plotly.min.js")
    _prune(static / "mathjax")
    _drop_icon_script(Path(app.outdir))


def _drop_icon_script(site: Path) -> None:
    """Leave out the theme's 1.5 MB script of icons, for which pages wait: its fonts have the same icons."""
    for page in site.rglob("*.html"):
        page.write_text(_ICON_SCRIPT.sub("", page.read_text("utf-8")), "utf-8")
    for file in (site / "_static" / "scripts").glob("fontawesome.js*"):
        file.unlink()


def _prune(folder: Path) -> None:
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        name = path.relative_to(folder).as_posix()
        if not any(name == kept or name.startswith(f"{kept}/") for kept in _MATHJAX_KEPT):
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
