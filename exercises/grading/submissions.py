"""Find submitted notebooks; read one: its set, and which of its cells belong to which question."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from linattn_exercises.grading.sandbox_worker import strip_magics
from linattn_exercises.serialization import make_printable
from linattn_exercises.sets import SETS
from linattn_exercises.static_analysis import MAX_CODE

MAX_BYTES = 20_000_000
# A question's heading, the first line of its answer cell and the import of the checks, as they are written.
HEADING = re.compile(r"(?m)^#{1,3} +Exercise +\d+\.(\d+)\b")
MARKER = re.compile(r"(?m)^# Exercise \d+\.(\d+): your answer")
IMPORT = re.compile(r"linattn_exercises\.(\w+)")

# --- the files ----------------------------------------------------------------------------------------------


class SubmissionFile(NamedTuple):
    """Name a file to grade.

    Args:
        name: the name that the submission goes by in all tables; no two are alike.
        path: where the file is.
    """

    name: str
    path: Path


def find_submissions(
    paths: Iterable[Path], out: Path | None = None
) -> tuple[list[SubmissionFile], list[Path]]:
    """Find the notebooks to grade.

    Args:
        paths: files and folders. A notebook in a folder goes by its path in that folder; a file by its name,
            or by its whole path if two names are alike. Hidden files are passed over.
        out: the folder that marks are written to; what lies in there is no submission.

    Returns:
        The submissions, and the files that are left out because they are no notebooks.

    Raises:
        ValueError: if a path does not exist.
    """
    found: list[tuple[str, Path]] = []
    left_out: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"submissions: got {path}, which does not exist, expected notebooks or folders")
        if not path.is_dir():
            found.append((path.name, path))
            continue
        for file in sorted(one for one in path.rglob("*") if not one.is_dir() and not _is_hidden(one, path)):
            if out is not None and file.resolve().is_relative_to(out.resolve()):
                continue
            if file.suffix.lower() == ".ipynb" and file.is_file():
                found.append((file.relative_to(path).as_posix(), file))
            else:
                left_out.append(file)
    return _name_files(found), left_out


def _name_files(found: list[tuple[str, Path]]) -> list[SubmissionFile]:
    """Give files names that can be written anywhere, no two alike; a file that was given twice is one."""
    counts = Counter(name for name, _ in found)
    files: dict[str, SubmissionFile] = {}
    for name, path in dict.fromkeys(found):
        first = make_printable(path.as_posix() if counts[name] > 1 else name).replace("\n", " ")
        unique, number = first, 1
        while unique in files:
            number += 1
            unique = f"{first} ({number})"
        files[unique] = SubmissionFile(unique, path)
    return list(files.values())


def _is_hidden(file: Path, top: Path) -> bool:
    """Return whether the name of a file, or of a folder that it is in, begins with a dot."""
    return any(part.startswith(".") for part in file.relative_to(top).parts)


# --- one notebook -------------------------------------------------------------------------------------------


class UnreadableNotebook(ValueError):
    """Say that a file is no notebook of ours; the message is for its author."""


@dataclass(frozen=True)
class CodeCell:
    """Hold a code cell.

    Args:
        source: its text.
        answers: the questions whose answers it defines.
        section: the question that it stands under, or "".
    """

    source: str
    answers: frozenset[str]
    section: str

    def belongs_to(self, question: str) -> bool:
        """Return whether the cell defines the answer to a question, or defines none and stands under it."""
        return question in self.answers if self.answers else question == self.section

    @property
    def is_shared(self) -> bool:
        """Return whether the cell stands before the first question and answers none."""
        return not self.answers and not self.section


@dataclass(frozen=True)
class Submission:
    """Hold a notebook that was read.

    Args:
        set_name: the set that it answers.
        version: of the master that it was made from; "" if the notebook does not say.
        cells: its code cells, in order.
    """

    set_name: str
    version: str
    cells: list[CodeCell]

    def select_cells(self, question: str, include_others: bool = False) -> list[tuple[str, bool]]:
        """Return the cells to run for a question, in order, each with whether it belongs to the question.

        Args:
            question: the id of the question.
            include_others: also run the cells of other questions.
        """
        wanted = [
            cell for cell in self.cells if include_others or cell.is_shared or cell.belongs_to(question)
        ]
        return [(cell.source, cell.belongs_to(question)) for cell in wanted]


def read_submission(path: Path, answer_names: dict[str, dict[str, str]], default_set: str = "") -> Submission:
    """Read a notebook file.

    The set and the version stand in the notebook's metadata. A notebook without them is told by what it
    imports, then by ``default_set``, then by the names that it defines. A renamed file, and one that another
    program has saved without ids and metadata, can be read as well.

    Args:
        path: the file.
        answer_names: for every set, from each name that an answer defines to its question.
        default_set: the set of a notebook that does not say which it is.

    Raises:
        UnreadableNotebook: with a message that says what the file is instead.
    """
    notebook = _load_notebook(path)
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    code = [_read_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    metadata = notebook.get("metadata")
    ours = metadata.get("linattn") if isinstance(metadata, dict) else None
    ours = ours if isinstance(ours, dict) else {}
    imported = [found[1] for source in code for found in IMPORT.finditer(source)]
    set_name = next((name for name in (ours.get("set"), *imported) if name in SETS), "")
    set_name = set_name or default_set or _guess_set(code, answer_names)
    if not set_name:
        raise UnreadableNotebook(
            "The notebook does not say which exercises it answers; start from the notebook of a set."
        )
    version = make_printable(str(ours.get("version", "")))[:12]
    return Submission(set_name, version, list(_assign_questions(cells, answer_names[set_name])))


def _guess_set(code: list[str], answer_names: dict[str, dict[str, str]]) -> str:
    """Return the set most of whose answers the code defines; "" if there is none."""
    defined = {name for source in code for name in _list_defined(source)}
    count = {key: len(defined & set(own)) for key, own in answer_names.items()}
    best = max(count, key=lambda key: count[key])
    return best if count[best] else ""


def _load_notebook(path: Path) -> dict[str, Any]:
    """Return the content of a notebook file; an UnreadableNotebook if it is none, or too large."""
    try:
        too_large = path.stat().st_size > MAX_BYTES
        content = None if too_large else json.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableNotebook(f"The file cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableNotebook("The file is not a Jupyter notebook.") from error
    if too_large:
        raise UnreadableNotebook(f"The file is larger than {MAX_BYTES // 10**6} MB; clear its outputs.")
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise UnreadableNotebook("The file is not a Jupyter notebook of format 4.")
    code = [len(_read_source(cell)) for cell in content["cells"] if isinstance(cell, dict)]
    if max(code, default=0) > MAX_CODE or sum(code) > 5 * MAX_CODE:
        raise UnreadableNotebook(
            f"A cell has more than {MAX_CODE:,} characters, or all together more than {5 * MAX_CODE:,}."
        )
    return content


def _read_source(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which may be stored as a list of lines."""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _assign_questions(cells: Iterable[dict[str, Any]], names: dict[str, str]) -> Iterable[CodeCell]:
    """Return code cells with their questions: by the names they define, their marker, or where they stand.

    A stub that was left as it was is passed over if another cell defines its names.
    """
    cells = list(cells)
    questions = set(names.values())
    code = [_read_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    filled = {name for source in code for name in _list_defined(source)}
    section = ""
    for cell in cells:
        source = _read_source(cell)
        if cell.get("cell_type") != "code":
            if (found := HEADING.search(source)) and f"q{found[1]}" in questions:
                section = f"q{found[1]}"
            continue
        stubs = [name for name in _list_defined(source, stubs=True) if name in names]
        if stubs and filled.issuperset(stubs) and not set(_list_defined(source)) & set(names):
            continue
        answers = {names[name] for name in (*_list_defined(source), *stubs) if name in names}
        if (marked := MARKER.search(source)) and f"q{marked[1]}" in questions:
            answers.add(f"q{marked[1]}")
        section = min(answers) if len(answers) == 1 else section
        yield CodeCell(source, frozenset(answers), section)


def _list_defined(source: str, stubs: bool = False) -> list[str]:
    """Return the names that a cell defines at its left margin, or with ``stubs`` those it leaves unanswered.

    A stub is a function that ends in ``raise NotImplementedError``, or the value None.
    """
    source = strip_magics(source)
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
    """Return whether a statement is ``raise NotImplementedError``."""
    return (
        isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Name)
        and node.exc.id == "NotImplementedError"
    )
