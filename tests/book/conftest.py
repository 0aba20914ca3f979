"""The built book, served to a real browser, each page opened once per theme."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linattn_book.builders.browser import open_browser
from tests.support.server import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BUILT = Path(__file__).resolve().parents[2] / "_build" / "html"


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started
