"""Read a submitted notebook: which set it answers, and which of its cells belong to which question."""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linattn_exercises import SETS, plain
from linattn_exercises.grading.answers import without_magics
from linattn_exercises.reading import MAX_CODE

MAX_BYTES = 20_000_000
HEADING = re.compile(r"(?m)^#{1,3} +Question +(\d+)\b")
MARKER = re.compile(r"(?m)^# Question (\d+): your answer")
IMPORT = re.compile(r"linattn_exercises\.(\w+)")


class Unreadable(ValueError):
    """A file that is no notebook of ours; the message is for its author."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its text, the questions whose answers it defines, the question it stands under or ""."""

    source: str
    answers: frozenset[str]
    section: str

    def of(self, question: str) -> bool:
        """Whether the cell belongs to a question."""
        return question in self.answers if self.answers else question == self.section

    @property
    def shared(self) -> bool:
        """Whether the cell stands before the first question and answers none."""
        return not self.answers and not self.section


@dataclass(frozen=True)
class Submission:
    """A notebook that was read: its set, the version it was made from, its code cells in order."""

    set: str
    version: str
    cells: list[Cell]

    def of(self, question: str, rest: bool = False) -> list[tuple[str, bool]]:
        """The cells to run for a question, and which are its own; with ``rest`` also those of others."""
        wanted = [cell for cell in self.cells if rest or cell.shared or cell.of(question)]
        return [(cell.source, cell.of(question)) for cell in wanted]


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
    found = next((name for name in (told.get("set"), *imported) if name in SETS), "")
    found = found or default or _by_names(code, names)
    if not found:
        raise Unreadable("The notebook does not say which exercises it answers; start from a student.ipynb.")
    version = plain.printable(str(told.get("version", "")))[:12]
    return Submission(found, version, list(_assigned(cells, names[found])))


def _by_names(code: list[str], names: dict[str, dict[str, str]]) -> str:
    """The set most of whose answers the code defines; "" if there is none."""
    defined = {name for source in code for name in _defined(source)}
    count = {key: len(defined & set(own)) for key, own in names.items()}
    best = max(count, key=lambda key: count[key])
    return best if count[best] else ""


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
    code = [len(_source(cell)) for cell in content["cells"] if isinstance(cell, dict)]
    if max(code, default=0) > MAX_CODE or sum(code) > 5 * MAX_CODE:
        raise Unreadable(
            f"A cell has more than {MAX_CODE:,} characters, or all together more than {5 * MAX_CODE:,}."
        )
    return content


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _assigned(cells: Iterable[dict[str, Any]], names: dict[str, str]) -> Iterable[Cell]:
    """Code cells with their questions: by the names they define, by their marker, or by where they stand.

    A stub that was left as it was is passed over if another cell defines its names.
    """
    cells = list(cells)
    questions = set(names.values())
    code = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    filled = {name for source in code for name in _defined(source)}
    section = ""
    for cell in cells:
        source = _source(cell)
        if cell.get("cell_type") != "code":
            if (found := HEADING.search(source)) and f"q{found[1]}" in questions:
                section = f"q{found[1]}"
            continue
        stubs = [name for name in _defined(source, stubs=True) if name in names]
        if stubs and filled.issuperset(stubs) and not set(_defined(source)) & set(names):
            continue
        answers = {names[name] for name in (*_defined(source), *stubs) if name in names}
        if (marked := MARKER.search(source)) and f"q{marked[1]}" in questions:
            answers.add(f"q{marked[1]}")
        section = min(answers) if len(answers) == 1 else section
        yield Cell(source, frozenset(answers), section)


def _defined(source: str, stubs: bool = False) -> list[str]:
    """The names that a cell defines at its left margin, or with ``stubs`` those it leaves unanswered.

    A stub is a function that ends in ``raise NotImplementedError``, or the value None.
    """
    source = without_magics(source)
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [] if stubs else [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) *=)", source)]
    found: list[tuple[str, bool]] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append((node.name, _raises_not_implemented(node.body[-1])))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            empty = isinstance(node.value, ast.Constant) and node.value.value is None
            for target in targets:
                found += [(one.id, empty) for one in ast.walk(target) if isinstance(one, ast.Name)]
        elif isinstance(node, ast.ImportFrom):
            found += [(alias.asname or alias.name, False) for alias in node.names]
    return [name for name, stub in found if stub is stubs]


def _raises_not_implemented(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Name)
        and node.exc.id == "NotImplementedError"
    )
