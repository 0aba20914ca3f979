"""The address stands in one place, and everything that repeats it agrees."""

from pathlib import Path

import pytest

from linattn_book.builders.notebooks import find_root, read_notebook
from linattn_book.builders.repository import check, read_address, stamp, validate_address
from tests.book.sample import URL as OLD
from tests.book.sample import write_book

ROOT = Path(__file__).parents[2]
NEW = "https://github.com/some-one/a.book"


@pytest.fixture
def small_book(tmp_path):
    return write_book(tmp_path)


@pytest.mark.check
def test_this_repository_agrees_with_its_address():
    assert check(ROOT) == []


def test_a_new_address_reaches_every_file(small_book):
    assert read_address(small_book) == OLD
    assert check(small_book) == []
    stamp(small_book, NEW)
    assert check(small_book) == []
    assert read_address(small_book) == NEW
    config = (small_book / "_config.yml").read_text()
    assert config.splitlines()[1] == "# url: not this one"
    assert f"  url: {NEW}  # stamped\n" in config
    readme = (small_book / "README.md").read_text()
    assert readme == f"Clone {NEW}.git or open [it]({NEW}/issues), not {OLD}-fork.\n"
    notebook = read_notebook(small_book / "chapters" / "01_state.ipynb")
    assert notebook.cells[1].source.endswith(f'"linattn-ref @ git+{NEW}"')
    stamp(small_book, OLD)
    assert check(small_book) == []


def test_stamping_the_same_address_changes_nothing(small_book):
    before = {path: path.read_bytes() for path in small_book.rglob("*.*") if path.is_file()}
    stamp(small_book, OLD)
    assert {path: path.read_bytes() for path in small_book.rglob("*.*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["chapters/01_state.ipynb", "README.md", "book/index.md"])
def test_the_file_that_differs_is_named(small_book, name):
    path = small_book / name
    path.write_text(path.read_text().replace("linear-attention-book/linear", "someone-else/linear"))
    faults = check(small_book)
    assert faults
    assert all(fault.startswith((name, path.name)) for fault in faults)


def test_a_remote_image_is_no_badge(small_book):
    path = small_book / "chapters" / "01_state.ipynb"
    path.write_text(path.read_text().replace("[Run in Colab]", "[![Run](https://example.org/badge.svg)]"))
    assert any("holds an image" in fault for fault in check(small_book))


@pytest.mark.parametrize("url", ["", "github.com/a/b", "http://github.com/a/b", f"{OLD}/", f"{OLD}.git"])
def test_an_address_that_colab_cannot_open_is_refused(small_book, url):
    with pytest.raises(ValueError, match=r"^url: .* expected https://github\.com/OWNER/NAME"):
        validate_address(url)
    before = (small_book / "README.md").read_text()
    with pytest.raises(ValueError, match=r"^url: "):
        stamp(small_book, url)
    assert (small_book / "README.md").read_text() == before


def test_the_root_is_found_from_below(small_book, tmp_path_factory):
    assert find_root(small_book / "chapters") == small_book
    with pytest.raises(FileNotFoundError, match=r"^start: no _config\.yml in"):
        find_root(tmp_path_factory.mktemp("elsewhere"))
