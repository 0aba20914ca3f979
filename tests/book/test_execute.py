"""Notebooks are executed the same way every time, and only a whole run is written."""

import json

import pytest

from linattn_book.builders.execute import ChapterError, execute, read_hardware, record_times
from linattn_book.builders.notebooks import dump_notebook, read_notebook
from linattn_book.builders.patient import try_twice
from linattn_book.builders.status import render_page
from linattn_book.builders.verify import find_undeclared
from tests.book.sample import write_book


@pytest.fixture
def small_book(tmp_path):
    return write_book(tmp_path)


@pytest.fixture
def chapter(small_book):
    return small_book / "chapters" / "01_state.ipynb"


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_second_run_gives_the_same_bytes(chapter):
    assert execute(chapter) > 0
    first = chapter.read_bytes()
    execute(chapter)
    assert chapter.read_bytes() == first
    notebook = read_notebook(chapter)
    assert [cell.id for cell in notebook.cells] == ["title", "setup", "work"]
    assert notebook.cells[2].execution_count == 2
    assert notebook.cells[2].outputs[0].text.startswith("1\n{")
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info


def test_an_error_leaves_the_file_as_it_was(chapter):
    replace(chapter, "import os", "raise RuntimeError('planted')")
    before = chapter.read_bytes()
    with pytest.raises(ChapterError, match=r"(?s)01_state\.ipynb: .*RuntimeError: planted"):
        execute(chapter)
    assert chapter.read_bytes() == before
    assert list(chapter.parent.iterdir()) == [chapter]


def test_a_slow_or_large_notebook_is_refused(chapter):
    before = chapter.read_bytes()
    with pytest.raises(ChapterError, match=r"expected at most 0 s"):
        execute(chapter, limit=0.0)
    assert chapter.read_bytes() == before
    replace(chapter, "import os", "print(('x' * 99 + chr(10)) * 16_000)\\nimport os")
    with pytest.raises(ChapterError, match=r"bytes with outputs, expected at most 1,500,000"):
        execute(chapter)
    assert b"xxxx" not in chapter.read_bytes()


def test_measuring_alone_leaves_the_notebook(chapter):
    before = chapter.read_bytes()
    assert execute(chapter, store=False) > 0
    assert chapter.read_bytes() == before


def test_cells_without_an_id_get_the_same_one_each_time(chapter):
    raw = json.loads(chapter.read_text())
    raw["nbformat_minor"] = 4
    for cell in raw["cells"]:
        del cell["id"]
    chapter.write_text(json.dumps(raw))
    assert [cell.id for cell in read_notebook(chapter).cells] == ["cell-000", "cell-001", "cell-002"]
    assert dump_notebook(read_notebook(chapter)) == dump_notebook(read_notebook(chapter))


def test_times_are_kept_by_chapter_and_device(small_book):
    times = small_book / "book" / "run_times.json"
    machine = read_hardware() | {"device_class": "cpu"}
    record_times(times, {"01_state": 1.234, "02_next": 2.0}, machine)
    record_times(times, {"01_state": 0.5}, machine | {"device_class": "cuda", "device": "a GPU"})
    rows = json.loads(times.read_text())
    assert rows["01_state"]["cpu"]["seconds"] == 1.2
    assert rows["01_state"]["cuda"]["device"] == "a GPU"
    assert set(rows["02_next"]) == {"cpu"}
    assert {"cpu", "cores", "date", "python", "torch"} <= set(rows["02_next"]["cpu"])


def test_the_status_page_says_what_was_measured(small_book):
    (small_book / "constraints.txt").write_text("torch==2.13.0\n")
    with pytest.raises(ValueError, match=r"^constraints\.txt: pins no numpy"):
        render_page(small_book)
    names = ("numpy", "jaxtyping", "plotly", "ipywidgets", "jupyter-book", "Sphinx", "pytest", "hypothesis")
    pins = "".join(f"{name}==1.0\n" for name in (*names, "sympy", "nbval"))
    (small_book / "constraints.txt").write_text("torch==2.13.0\n" + pins)
    assert "| not measured | not measured |" in render_page(small_book)
    record_times(
        small_book / "book" / "run_times.json", {"01_state": 7.4}, read_hardware() | {"device_class": "cpu"}
    )
    assert "(../chapters/01_state.ipynb) | 0 | 1 | 10 kB | 7 s | not measured |" in render_page(small_book)
    assert render_page(small_book) == render_page(small_book)


def test_an_undeclared_import_is_found(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "one.py").write_text(
        "import os\nimport numpy\nfrom . import two\ndef f():\n    import sympy\n"
    )
    (package / "two.py").write_text("from pkg.one import f\nimport sympy\n")
    assert find_undeclared(package, ["numpy>=1.26,<3", 'sympy>=1 ; extra == "test"']) == [
        "pkg/two.py imports sympy, which the package does not require"
    ]
    assert len(find_undeclared(package, [])) == 3
    (package / "ch06_fast").mkdir()
    (package / "ch06_fast" / "check.py").write_text("import triton\n")
    requirements = ["numpy>=1.26,<3", "sympy>=1", 'triton>=3 ; extra == "kernels"']
    assert find_undeclared(package, requirements) == []  # the set is left out where there is none
    (package / "two.py").write_text("import triton\n")
    assert len(find_undeclared(package, requirements)) == 1


@pytest.mark.parametrize("silent", [1, 2])
def test_a_kernel_that_does_not_answer_is_started_once_more(silent):
    tried = []

    def start(name, timeout):
        tried.append((name, timeout))
        if len(tried) <= silent:
            raise RuntimeError("Kernel didn't respond in 60 seconds")
        return "kernel"

    if silent == 1:
        assert try_twice(start)("python", timeout=60) == "kernel"
    else:
        with pytest.raises(RuntimeError, match="respond"):
            try_twice(start)("python", timeout=60)
    assert tried == [("python", 60)] * 2
