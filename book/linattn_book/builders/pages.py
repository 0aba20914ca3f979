"""Extend Sphinx for the book: everything a page loads lies beside it, and everything on it has a name."""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly
from sphinx.application import Sphinx
from sphinx.util import logging

from ..plotly_mime import NumberedFigure, write_numbered
from . import metadata
from .icons import trim_icons
from .synonyms import add_synonyms

logger = logging.getLogger(__name__)
# What a page can ask MathJax for; the package ships ten times as much.
_MATHJAX_KEPT = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts")
_THEBE_CONFIG = re.compile(r'<script type="text/x-thebe-config">.*?</script>', re.DOTALL)
_ICON_SCRIPT = re.compile(r'<script src="[^"]*scripts/fontawesome\.js[^"]*"></script>')
# Lines, bars and heat maps: a third of plotly.js. The hash is that of the version in constraints.txt.
_PLOTLY_PACKAGE, _PLOTLY_FILE = "plotly.js-cartesian-dist-min", "plotly-cartesian.min.js"
_PLOTLY_SHA256 = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
_TASK_BOX = re.compile(r'<input class="task-list-item-checkbox"(?: checked="checked")?')
_CHECKED = 'checked="checked"'
_LONG_CODE = re.compile(r'(?<=<span class="pre">)[^<]{25,}(?=</span>)')  # wider than a column of a table
_LONG_NAME = 28
_CODE_JOINT = re.compile(r"(?<=[./=(])(?=\w)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", _set_address_and_logo)
    app.add_enumerable_node(
        NumberedFigure, "figure", lambda node: node["title"], html=(write_numbered, lambda *_: None)
    )
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", loading_method="defer")
    app.add_js_file("typeset.js", loading_method="defer", priority=400)
    app.connect("doctree-resolved", add_synonyms)
    app.connect("html-page-context", _adjust_page_context, priority=900)
    app.connect("build-finished", _write_assets, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _set_address_and_logo(app: Sphinx, config: Any) -> None:
    config.html_baseurl = metadata.find_site(Path(app.srcdir))
    config.html_theme_options["logo"] = {"text": config.html_title, "alt_text": ""}  # the mark and the name


def _adjust_page_context(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    body = context.get("body", "")
    if "plotly-fig" in body:
        url: dict[str, Any] = {"data-plotly": f"plotly.min.js?v={version('plotly')}"}
        app.add_js_file("plotly_view.js", loading_method="defer", priority=400)
        app.add_js_file("plotly_loader.js", loading_method="defer", priority=400, **url)
    if pagename == "search":
        app.add_js_file("search.js", loading_method="defer")
    context["script_files"] = [s for s in context["script_files"] if not _is_thebe(s)]
    context["css_files"] = [s for s in context["css_files"] if not _is_thebe(s)]
    context["body"] = allow_breaks(make_accessible(_THEBE_CONFIG.sub("", body)))
    site, title = app.config.html_baseurl, re.sub("<.*?>", "", html.unescape(context.get("title", "")))
    description = metadata.describe(doctree) if doctree is not None else ""
    address = site + app.builder.get_target_uri(pagename)
    context["metatags"] = context.get("metatags", "") + metadata.render_tags(
        title, description, address, site
    )


def make_accessible(body: str) -> str:
    """Add what docutils and markdown-it leave unsaid: a bibliography is a list, a task is done or open."""
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    return _TASK_BOX.sub(lambda m: f'{m[0]} aria-label="{"done" if _CHECKED in m[0] else "open"}"', body)


def allow_breaks(body: str) -> str:
    """Let long words of code be broken after a dot or bracket, and where that is not enough an underscore."""

    def join(word: re.Match[str]) -> str:
        parts = _CODE_JOINT.split(word[0])
        return "<wbr>".join(p.replace("_", "_<wbr>") if len(p) >= _LONG_NAME else p for p in parts)

    return _LONG_CODE.sub(join, body)


def _is_thebe(asset: Any) -> bool:
    """Return whether an asset is of sphinx-thebe: always on in Jupyter Book, with scripts that clash."""
    name = str(getattr(asset, "filename", asset) or "")
    body = getattr(asset, "attributes", {}).get("body") or ""
    return "thebe" in name or "THEBE_JS_URL" in body


def _write_assets(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    write_plotly(static / "plotly.min.js")
    _prune(static / "mathjax")
    _drop_icon_script(Path(app.outdir))
    trim_icons(Path(app.outdir))
    write_entries(Path(app.outdir), app.config.html_baseurl)


def write_entries(site: Path, address: str) -> None:
    """Write the pages at the site's root: the way to the front page, and the one for what is not there."""
    home = (site / metadata.HOME).read_text("utf-8")
    found = re.search(r'<meta name="description" content="([^"]*)"', home)
    description = html.unescape(found[1]) if found else ""
    (site / "index.html").write_text(metadata.render_root(description, address), "utf-8")
    (site / "404.html").write_text(metadata.render_not_found(address), "utf-8")


def write_plotly(file: Path) -> None:
    """Write plotly.js with the charts that the book draws; all of it where npm or its registry is missing."""
    whole = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    found = re.search(rb"plotly\.js v([\d.]+)", whole[:200])
    package = f"{_PLOTLY_PACKAGE}@{found[1].decode() if found else ''}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            command = ["npm", "pack", package, "--silent", "--pack-destination", folder]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                member = archive.extractfile(f"package/{_PLOTLY_FILE}")
                part = member.read() if member else b""
        except (OSError, subprocess.SubprocessError, StopIteration, KeyError, tarfile.TarError):
            part = b""
    known = hashlib.sha256(part).hexdigest() == _PLOTLY_SHA256
    if not known:
        logger.info("plotly.js: the whole bundle, three times as heavy; npm did not give %s", package)
    file.write_bytes(part if known else whole)


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
