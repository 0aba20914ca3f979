"""What every chapter must be, read from the committed file. That its outputs are true is nbval's business."""

import re
from pathlib import Path

import pytest

from linattn_book.builders.execute import MAX_BYTES
from linattn_book.builders.notebooks import (
    CHECKED,
    count_words,
    find_chapters,
    find_code_cells,
    find_title,
    join_prose,
    list_code_lines,
    list_output_texts,
    load_figures,
    read_notebook,
    read_tags,
)
from linattn_book.builders.repository import find_notebook_faults, read_address

ROOT = Path(__file__).parents[2]
CHAPTERS = find_chapters(ROOT)
MACHINE_PATH = re.compile(
    r"(?<![\w./:-])/(?:home|root|tmp|work|usr|Users|var|opt|mnt)/|site-packages|[A-Z]:\\Users"
)

pytestmark = pytest.mark.check


@pytest.fixture(params=CHAPTERS, ids=[path.stem for path in CHAPTERS])
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return read_notebook(path)


def test_there_are_chapters():
    assert CHAPTERS, "chapters/ holds no notebook"


def test_every_chapter_is_named_by_its_number(path):
    assert re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name)


def test_is_committed_as_executed(notebook):
    for number, cell in enumerate(find_code_cells(notebook)):
        assert cell.execution_count == number + 1, f"not run in order: {cell.source[:80]!r}"
        kinds = {output.output_type for output in cell.outputs}
        assert "error" not in kinds, f"stores an error: {cell.source[:80]!r}"


def test_has_the_text_that_nbval_compares(notebook):
    checked = [cell for cell in find_code_cells(notebook) if CHECKED in read_tags(cell)]
    assert checked, f"no cell is tagged {CHECKED}"
    for cell in checked:
        assert any(text.strip() for text in list_output_texts(cell)), f"prints nothing: {cell.source[:80]!r}"


def test_is_small_enough_to_read(path, notebook):
    assert path.stat().st_size <= MAX_BYTES
    assert len(list_code_lines(notebook)) <= 350
    wide = [line for line in list_code_lines(notebook) if len(line) > 76]
    assert not wide, "lines of code beyond 76 columns:\n" + "\n".join(wide)


def test_is_long_enough_to_explain(notebook):
    assert 1200 <= count_words(join_prose(notebook)) <= 4600, "a chapter aims at 2,000 to 4,000 words"


def test_has_a_title(notebook):
    assert find_title(notebook)


def test_opens_in_colab(path, notebook):
    assert find_notebook_faults(notebook, path.name, read_address(ROOT)) == []


def test_figures_have_alt_text(notebook):
    for number, figure in enumerate(load_figures(notebook)):
        alt = (figure.get("layout", {}).get("meta") or {}).get("alt", "")
        assert len(alt) >= 40, f"figure {number}: layout.meta.alt is {alt!r}, expected at least 40 characters"


def test_at_least_two_figures_move(notebook):
    moving = [one for one in load_figures(notebook) if one.get("frames") and one["layout"].get("sliders")]
    assert len(moving) >= 2, f"{len(moving)} figure(s) with slider and frames"


def test_outputs_name_no_machine(notebook):
    for cell in find_code_cells(notebook):
        for text in list_output_texts(cell):
            assert not MACHINE_PATH.search(text), f"a path of the machine in an output: {text[:200]!r}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("A state, written and read.", 5),
        ("The state $S_t = S_{t-1}$ grows", 3),
        ("one\n$$\nS = K^T V\n$$\ntwo", 2),
        ("see [the paper](https://example.org/a-b) and `code here`", 4),
        (":::{prf:theorem} Equal\n:label: thm-x\n\nThey agree.\n:::", 3),
    ],
)
def test_words_are_prose_only(text, words):
    assert count_words(text) == words
