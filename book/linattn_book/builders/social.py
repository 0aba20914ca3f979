"""Draw the picture that links to the book show: ``python -m linattn_book.builders.social``; ``--check``.

It is the front page's two panels below its headline, 1200 by 630, drawn by Chromium. The file says by a hash
which drawing it was made from, because browsers draw letters differently.
"""

import argparse
import hashlib
import struct
import sys
import zlib
from pathlib import Path

from linattn_ref.training.files import write_atomically

from .browser import open_browser
from .index import CHAPTER_2, HEADLINE, draw_recall, draw_time, read_recall
from .notebooks import find_root

PICTURE = Path("book/_static/social.png")
SIZE = {"width": 1200, "height": 630}
KEY = b"Source"
PAGE = """<!doctype html><html lang="en"><style>
body {{ margin: 0; padding: 54px 56px; width: 1088px; background: #fff; color: #1f2328; font-family: "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 37px; margin: 10px 0 12px; }} p {{ font-size: 25px; margin: 0 0 22px; color: #515a66; }}
div {{ display: flex; gap: 30px; }} svg {{ width: 529px; }}
text {{ font-size: 14px; fill: #1f2328; }} .soft {{ font-size: 13px; fill: #515a66; }} .bold {{ font-weight: 700; }}
.grid {{ stroke: #e1e5ea; }}
</style><h1>{headline}</h1><p>The Linear Attention Book: what a memory of fixed size gains and loses</p>
<div>{time}{recall}</div></html>"""  # noqa: E501


def render_html(root: Path) -> str:
    """Return the page of which the picture is taken."""
    panels = {"time": draw_time(), "recall": draw_recall(read_recall(root / CHAPTER_2))}
    return PAGE.format(headline=HEADLINE, **panels)


def draw_picture(page: str) -> bytes:
    """Return a page as PNG, with the page's hash in it."""
    with open_browser() as browser:
        view = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        view.set_content(page)
        picture = view.screenshot()
    return add_source(picture, page)


def add_source(picture: bytes, page: str) -> bytes:
    """Return a PNG with the hash of a page, as text after its header."""
    body = b"tEXt" + KEY + b"\0" + hashlib.sha256(page.encode()).hexdigest().encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return picture[:33] + chunk + picture[33:]


def is_made_from(picture: bytes, page: str) -> bool:
    """Return whether a PNG says that it was made from a page."""
    return KEY + b"\0" + hashlib.sha256(page.encode()).hexdigest().encode() in picture[:200]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.social")
    parser.add_argument("--check", action="store_true", help=f"fail if {PICTURE} is out of date")
    root = find_root()
    page, file = render_html(root), root / PICTURE
    if not parser.parse_args().check:
        write_atomically({file: draw_picture(page)})
    elif not file.is_file() or not is_made_from(file.read_bytes(), page):
        sys.exit(f"{PICTURE} is out of date; python -m linattn_book.builders.social draws it anew")


if __name__ == "__main__":
    main()
