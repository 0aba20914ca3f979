"""Read a submitted notebook: which set it answers, and which of its cells belong to which question."""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linattn_exercises import SETS

MAX_BYTES = 20_000_000
HEADING = re.compile(r"(?m)^#{1,3} +Question +(\d+)\b")
MARKER = re.compile(r"(?m)^# Question (\d+): your answer")
IMPORT = re.compile(r"(?m)^from linattn_exercises\.(\w+) import check")


class Unreadable(ValueError):
    """A file that is no notebook of ours; the message is for its author."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its text and the question it belongs to, or "" if to none."""

    source: str
    question: str
    answers: bool


@dataclass(frozen=True)
class Submission:
    """A notebook that was read: its set, the version it was made from, its code cells in order."""

    set: str
    version: str
    cells: list[Cell]

    def of(self, question: str, rest: bool = False) -> list[tuple[str, bool]]:
        """The cells to run for a question, and which are its own; with ``rest`` also those of others."""
        wanted = [cell for cell in self.cells if rest or cell.question in ("", question)]
        return [(cell.source, cell.question == question) for cell in wanted]

    def answers(self, question: str) -> list[str]:
        """The cells that define what a question asks for, or that say they do."""
        return [cell.source for cell in self.cells if cell.answers and cell.question == question]


def read(path: Path, names: dict[str, dict[str, str]], default: str = "") -> Submission:
    """Read a notebook file.

    Args:
        names: for every set, from each name an answer defines to its question.
        default: the set of a notebook that does not say which it is.

    Raises:
        Unreadable: with a message that says what the file is instead.
    """
    notebook = _notebook(path)
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    code = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    told = notebook.get("metadata")
    told = told.get("linattn") if isinstance(told, dict) else None
    told = told if isinstance(told, dict) else {}
    imported = [found[1] for source in code for found in IMPORT.finditer(source)]
    found = next((name for name in (told.get("set"), *imported, default) if name in SETS), "")
    if not found:
        raise Unreadable("The notebook does not say which exercises it answers; start from a student.ipynb.")
    return Submission(found, str(told.get("version", ""))[:12], list(_assigned(cells, names[found])))


def _notebook(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Unreadable(f"The file is larger than {MAX_BYTES // 10**6} MB; clear its outputs.")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"The file cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable("The file is not a Jupyter notebook.") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise Unreadable("The file is not a Jupyter notebook of format 4.")
    return content


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _assigned(cells: Iterable[dict[str, Any]], names: dict[str, str]) -> Iterable[Cell]:
    """Code cells with their questions: by the names they define, by their marker, or by where they stand."""
    questions = set(names.values())
    section = ""
    for cell in cells:
        source = _source(cell)
        if cell.get("cell_type") != "code":
            if found := HEADING.search(source):
                section = f"q{found[1]}" if f"q{found[1]}" in questions else section
            continue
        marked = MARKER.search(source)
        defines = [names[name] for name in _defined(source) if name in names]
        mine = defines[0] if defines else f"q{marked[1]}" if marked and f"q{marked[1]}" in questions else ""
        section = mine or section
        yield Cell(source, mine or section, bool(mine))


def _defined(source: str) -> list[str]:
    """The names that a cell defines at its left margin; of one that does not parse, as far as it shows."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) *=)", source)]
    found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        found += [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    return found
