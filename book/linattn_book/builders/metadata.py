"""Say what each page is to search engines, and to whoever gets a link to it; write the 404 page and the root.

A page is described by its first paragraph, so that nothing is said twice.
"""

import html
import re
from pathlib import Path
from urllib.parse import urlparse

from docutils import nodes

from .repository import read_address

BOOK = "The Linear Attention Book"
PICTURE = "_static/social.png"
PICTURE_ALT = "Time for the next token and share of what comes back, for softmax and linear attention"
HOME = "book/index.html"
LONGEST = 160  # characters that search engines show
SHORTEST = 60  # a paragraph below that is a link or a label
SYMBOLS = {r"\sqrt": "√", r"\times": "×", r"\top": "T", r"\le": "≤", r"\cdot": "·"}


def find_site(root: Path) -> str:
    """Return the address of the published pages, with a slash at its end: that of the repository says it."""
    owner, name = read_address(root).split("/")[-2:]
    return f"https://{owner.lower()}.github.io/{name}/"


def describe(doctree: nodes.document) -> str:
    """Return the first paragraph of a page in at most ``LONGEST`` characters; empty if it has none."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = to_plain_text(paragraph)
        if len(text) >= SHORTEST:
            return shorten(text)
    return ""


def to_plain_text(node: nodes.Node) -> str:
    """Return the words of a node, formulas as far as they can be read without TeX."""
    text = node.astext()
    for formula in node.findall(nodes.math):
        words = formula.astext()
        for name, symbol in SYMBOLS.items():
            words = re.sub(re.escape(name) + r"(?![a-z])\s*", symbol, words)
        text = text.replace(formula.astext(), re.sub(r"[\\$^_{}]", "", words), 1)
    return re.sub(r"\s+", " ", text).strip()


def shorten(text: str) -> str:
    """Return a text cut after a word, with dots, if it is longer than ``LONGEST``."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 3].rsplit(" ", 1)[0].rstrip(",;:") + "..."


def render_tags(title: str, description: str, address: str, site: str) -> str:
    """Return the tags of a page's head that say its title, description and picture."""
    same = [("og:type", "article"), ("og:site_name", BOOK), ("og:title", title), ("og:url", address)]
    same += [("og:image", site + PICTURE), ("og:image:alt", PICTURE_ALT)]
    named = [("twitter:card", "summary_large_image")]
    if description:
        same.append(("og:description", description))
        named.append(("description", description))
    quote = html.escape
    lines = [f'<meta property="{name}" content="{quote(value)}"/>' for name, value in same]
    lines += [f'<meta name="{name}" content="{quote(value)}"/>' for name, value in named]
    return "\n".join(lines) + "\n"


def render_root(description: str, site: str) -> str:
    """Return the page at the root of the site: it leads on to the front page, and keeps what follows a #."""
    tags = render_tags(BOOK, description, site + HOME, site)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{BOOK}</title>
<link rel="canonical" href="{site}{HOME}">
{tags}<script>location.replace("{HOME}" + location.search + location.hash);</script>
<noscript><meta http-equiv="refresh" content="0; url={HOME}"></noscript>
</head>
<body><p><a href="{HOME}">{BOOK}</a></p></body>
</html>
"""


def render_not_found(site: str) -> str:
    """Return the page for addresses that do not exist; shown at any depth, so its links begin at the top."""
    top = urlparse(site).path
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<title>Page not found — {BOOK}</title>
<style>
body {{ max-width: 36rem; margin: 15vh auto; padding: 0 1rem; font: 1.1rem/1.6 system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #14181e; color: #dfe4ea; }}
  a {{ color: #7db7f5; }}
}}
</style>
</head>
<body>
<main id="main-content">
<h1>This page is not in the book</h1>
<p>It may have moved. The <a href="{top}{HOME}">front page</a> has the contents, and the
<a href="{top}search.html">search</a> finds words.</p>
</main>
</body>
</html>
"""
