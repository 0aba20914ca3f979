"""Every theorem of the book has a test of the same name, and every such test a theorem."""

import ast
import re
from pathlib import Path

import pytest

from linattn_book.builders.notebooks import find_chapters, join_markdown, read_notebook

ROOT = Path(__file__).parents[2]
THEOREM = re.compile(r"^\s*(?:`{3,}|:{3,})\{prf:theorem\}[^\n]*\n((?:\s*:[\w-]+:[^\n]*\n)*)", re.MULTILINE)
LABEL = re.compile(r"^\s*:label: *(\S+)", re.MULTILINE)


def labels_in_text(text: str, name: str) -> list[str]:
    """The labels of the theorem directives of a text; a theorem without a thm- label is an error."""
    found = []
    for options in THEOREM.findall(text + "\n"):
        label = LABEL.search(options)
        if label is None or not label[1].startswith("thm-"):
            raise ValueError(f"{name}: a theorem has the options {options!r}, expected `:label: thm-...`")
        found.append(label[1])
    return found


def marks_in_source(source: str, name: str) -> list[str]:
    """The labels of all theorem marks of a test module, wherever they stand."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.theorem")):
            continue
        for argument in node.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                given = f"{name}:{node.lineno}: theorem({ast.unparse(argument)})"
                raise ValueError(f"{given}, expected a literal label")
            found.append(argument.value)
    return found


def stated(root: Path) -> list[str]:
    """The labels of all theorems in the chapters and pages."""
    texts = {path.name: join_markdown(read_notebook(path)) for path in find_chapters(root)}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "book").glob("*.md"))}
    return [label for name, text in texts.items() for label in labels_in_text(text, name)]


def proved(root: Path) -> list[str]:
    """The labels of all theorem marks in the tests."""
    paths = sorted((root / "tests").rglob("*.py"))
    return [label for path in paths for label in marks_in_source(path.read_text(encoding="utf-8"), path.name)]


@pytest.mark.check
def test_theorems_and_tests_are_the_same_set():
    book, tests = set(stated(ROOT)), set(proved(ROOT))
    assert not book - tests, f"stated in the book, marked by no test: {sorted(book - tests)}"
    assert not tests - book, f"marked by a test, stated nowhere in the book: {sorted(tests - book)}"


@pytest.mark.check
def test_no_label_is_stated_twice():
    labels = stated(ROOT)
    assert sorted(labels) == sorted(set(labels))


def test_labels_are_found_in_both_kinds_of_fence():
    text = "```{prf:theorem} Equal forms\n:label: thm-a\n:class: dropdown\n\nThey are.\n```\n"
    text += ":::{prf:theorem}\n:nonumber:\n:label: thm-b\n:::\n```{prf:lemma}\n:label: lem-c\n```\n"
    assert labels_in_text(text, "page") == ["thm-a", "thm-b"]


def test_a_theorem_without_a_label_is_an_error():
    with pytest.raises(ValueError, match=r"page: a theorem has the options"):
        labels_in_text("```{prf:theorem} Unnamed\n\nIt holds.\n```", "page")


def test_marks_are_found_wherever_they_stand():
    mark = "pytest.mark." + "theorem"
    source = f"@{mark}('thm-a')\ndef test_a(): ...\npytestmark = [{mark}('thm-b')]\n"
    source += f"cases = [pytest.param(1, marks={mark}('thm-c'))]\n"
    assert sorted(marks_in_source(source, "module")) == ["thm-a", "thm-b", "thm-c"]


def test_a_computed_mark_is_an_error():
    with pytest.raises(ValueError, match=r"module:1: theorem\(name\), expected a literal"):
        marks_in_source("pytest.mark." + "theorem(name)", "module")
