"""The built book, served to a real browser, each page opened once per theme."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.server import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BUILT = Path(__file__).resolve().parents[2] / "_build" / "html"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def built_pages() -> list[str]:
    """Every page of the book, chapters first; the redirect at the root is none."""
    pages = [p.relative_to(BUILT) for p in BUILT.rglob("*.html") if "_static" not in p.parts]
    names = sorted(p.as_posix() for p in pages if p.as_posix() != "index.html")
    return sorted(names, key=lambda name: not name.startswith("chapters/"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without a built book there is still one test of each kind: it fails and says what to do."""
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", built_pages() or ["no-built-book"])


@pytest.fixture(scope="session")
def page_names() -> list[str]:
    return built_pages()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the built book."""
    if not built_pages():
        pytest.fail(f"no built book at {BUILT}: run `make book SERVE=0` first", pytrace=False)

    with served(BUILT) as address:
        yield f"{address}/"


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        message = "NO BROWSER: the pages were not tested; install Chromium or set CHROMIUM=/path/to/it"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield started
        started.close()
