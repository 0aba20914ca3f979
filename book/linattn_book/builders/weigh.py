"""Measure how fast the built pages are for a slow reader: ``python -m linattn_book.builders.weigh``.

The reader has 4 Mbit/s, a delay of 100 ms and a processor four times slower than this one. Files come zipped,
as hosts send them, and nothing is cached. Printed for each page: seconds until something is seen; seconds
from then until its first figure is drawn, if the reader scrolls to it at once; and what was sent until then.
"""

import argparse
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from .browser import open_browser
from .generated import render_table
from .notebooks import find_root

PAGES = (
    "book/index.html",
    "chapters/01_softmax_attention.html",
    "chapters/02_linear_attention.html",
    "chapters/03_decay_and_gates.html",
    "chapters/04_state_space_models.html",
    "chapters/05_selection_and_erasing.html",
    "chapters/06_making_it_fast.html",
    "chapters/07_four_architectures.html",
    "chapters/08_do_linear_models_scale.html",
    "chapters/09_recall.html",
)
SLOW = {"offline": False, "latency": 100, "downloadThroughput": 4e6 / 8, "uploadThroughput": 4e6 / 8}
SLOWER_CPU = 4
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SENT = "performance.getEntries().reduce((n, e) => n + (e.transferSize || 0), 0)"
FIGURE = "document.querySelector('.plotly-fig')"
DRAWN = "performance.getEntriesByName('book-figure-drawn')[0]?.startTime"
SCROLL = f"""
new PerformanceObserver(() => {{
  const scroll = () => {FIGURE} ? {FIGURE}.scrollIntoView() : requestAnimationFrame(scroll);
  scroll();
}}).observe({{ type: "paint", buffered: true }});
"""


class Weight(NamedTuple):
    """Hold what a page costs: seconds to the first paint, from then to the first figure, bytes until then."""

    paint: float
    figure: float | None
    n_bytes: int


class _Zipped(SimpleHTTPRequestHandler):
    """Serve files gzipped."""

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        content = gzip.compress(file.read_bytes())
        self.send_response(200)
        for name, value in (
            ("Content-Type", self.guess_type(str(file))),
            ("Content-Encoding", "gzip"),
            ("Content-Length", str(len(content))),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def weigh_page(browser, address: str) -> Weight:  # type: ignore[no-untyped-def]
    """Return what a page costs a slow reader who has nothing of the book yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", SLOW)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER_CPU})
    page.add_init_script(SCROLL)
    page.goto(address, wait_until="commit")
    page.wait_for_load_state("domcontentloaded")
    paint, figure = page.wait_for_function(PAINTED).json_value() / 1e3, None
    if page.evaluate(f"{FIGURE} !== null"):
        figure = page.wait_for_function(DRAWN, timeout=60_000).json_value() / 1e3 - paint
    else:
        page.wait_for_load_state("load")
    weight = Weight(paint, figure, page.evaluate(SENT))
    context.close()
    return weight


@contextmanager
def serve_zipped(folder: Path) -> Iterator[str]:
    """Serve a folder as hosts do; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Zipped, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.weigh")
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE", help="below _build/html")
    pages = parser.parse_args().pages
    rows = []
    with open_browser() as browser, serve_zipped(find_root() / "_build" / "html") as address:
        for name in pages:
            weight = weigh_page(browser, address + name)
            figure = "none" if weight.figure is None else f"{weight.figure:.1f}"
            rows.append((name, f"{weight.paint:.1f}", figure, f"{weight.n_bytes / 1e6:.2f}"))
    print(render_table(("page", "first paint (s)", "first figure (s later)", "MB gzipped until then"), rows))


if __name__ == "__main__":
    main()
