"""Find submitted notebooks, open them, and hold one that was read (``reading`` says how)."""

import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

from linattn_exercises.grading.reading import MAX_BYTES, UnreadableNotebook
from linattn_exercises.serialization import make_printable
from linattn_exercises.sets import SETS, load_questions

Key = TypeVar("Key")
Others = Literal["none", "earlier", "all"]  # cells of other questions, see ``Submission.select_cells``
Until = Literal["asked", "end"]

MAX_DEPTH = 50  # of folders in a folder of submissions
TOO_LARGE = f"The file is larger than {MAX_BYTES // 10**6} MB; clear its outputs."
# Letters, marks and symbols of no width or no ink; what else shows nothing is not printable.
INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159}
INVISIBLE |= {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}  # variants of others

# --- the files ----------------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """Say which file a name was given to.

    Args:
        path: where the file is, from the root.
        given: the name that it came with, exactly.
    """

    path: str
    given: str


class SubmissionFile(NamedTuple):
    """Name a file to grade.

    Args:
        name: the name that the submission goes by in all tables; no two are alike.
        path: where the file is.
        given: the name that it came with, exactly; ``name`` is made from it.
    """

    name: str
    path: Path
    given: str

    @property
    def origin(self) -> Origin:
        """Return what a later run knows the file by."""
        return Origin(os.path.abspath(self.path), self.given)


def find_submissions(
    paths: Sequence[Path], out: Path | None = None
) -> tuple[list[SubmissionFile], list[Path]]:
    """Find the notebooks to grade, and name them as a first run does.

    Args:
        paths: see ``find_notebooks``.
        out: see ``find_notebooks``.

    Returns:
        The submissions, and what is left out.

    Raises:
        ValueError: as ``find_notebooks`` does.
    """
    found, left_out = find_notebooks(paths, out)
    return name_files(found), left_out


def find_notebooks(
    paths: Sequence[Path], out: Path | None = None
) -> tuple[list[tuple[str, Path]], list[Path]]:
    """Find the notebooks to grade.

    Args:
        paths: files and folders. Hidden files are passed over. A link is followed if it is the only path.
        out: the folder that marks are written to, which may not lie in a folder of submissions: what is in
            there could be a student's.

    Returns:
        The notebooks, each with its path in the folder that was given, or its name if it was given itself;
        and what is left out: files that are no notebooks, links (what they point to may be somebody else's),
        devices and pipes, folders that cannot be opened or lie deeper than ``MAX_DEPTH``.

    Raises:
        ValueError: if a path does not exist, or is neither a file nor a folder; or if ``out`` lies in one.
    """
    found: list[tuple[str, Path]] = []
    left_out: list[Path] = []
    for path in paths:
        if path.is_symlink() and len(paths) > 1:  # a shell has put a student's link in the place of *
            left_out.append(path)
            continue
        if not path.exists():
            raise ValueError(f"submissions: got {path}, which does not exist, expected notebooks or folders")
        if not path.is_dir():
            if not path.is_file():
                if len(paths) > 1:
                    left_out.append(path)
                    continue
                raise ValueError(f"submissions: got {str(path)!a}, expected a file or a folder")
            found.append((path.name, path.resolve() if path.is_symlink() else path))
            continue
        if out is not None and out.resolve().is_relative_to(path.resolve()):
            raise ValueError(
                f"out: got {str(out)!a} in {str(path)!a}, expected a folder outside of submissions"
            )
        for file, is_regular in sorted(_walk(path)):
            if is_regular and file.suffix.lower() == ".ipynb":
                found.append((file.relative_to(path).as_posix(), file))
            else:
                left_out.append(file)
    return found, left_out


def _walk(top: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what lies below a folder and is no folder itself, with whether it is a regular file.

    Links are not followed. A folder that cannot be opened, or lies too deep, is yielded as no regular file.
    """
    folders = [(top, 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                inside = [one for one in entries if not one.name.startswith(".")]
        except OSError:
            yield folder, False
            continue
        for one in inside:
            path = folder / one.name
            if not one.is_dir(follow_symlinks=False):
                yield path, one.is_file(follow_symlinks=False)
            elif depth < MAX_DEPTH:
                folders.append((path, depth + 1))
            else:
                yield path, False


def name_files(
    found: Sequence[tuple[str, Path]], known: Mapping[str, Origin] | None = None
) -> list[SubmissionFile]:
    """Give files names that can be written anywhere, no two alike; a file that was given twice is one.

    Args:
        found: notebooks and their short names, see ``find_notebooks``. A file goes by its short name; if any
            two of these are alike, by its whole path.
        known: the names of earlier runs. A file keeps its name, and no other file gets it.

    Returns:
        The files, in the order in which they were found.
    """
    places: dict[str, Path] = {}
    short = {places.setdefault(os.path.abspath(path), path): name for name, path in found}
    files = _find_known(short, known or {})
    taken = {*(known or {}), *(file.name for file in files.values())}
    alike = len(set(short.values())) < len(short)
    new = {path: path.as_posix() if alike else name for path, name in short.items() if path not in files}
    shown = {path: make_label(name) for path, name in new.items()}
    last: dict[str, int] = {}  # the number of the last file of a name
    # Who has a name keeps it: " a.ipynb" is shown as "a.ipynb" and comes before it.
    for path in sorted(shown, key=lambda one: shown[one] != new[one]):
        first = shown[path] or "submission"  # as it stands in the tables
        unique, number = first, last.get(first, 1)
        while unique in taken:
            number += 1
            unique = f"{first} ({number})"
        last[first] = number
        taken.add(unique)
        files[path] = SubmissionFile(unique, path, new[path])
    return [files[path] for path in short]


def _find_known(short: Mapping[Path, str], known: Mapping[str, Origin]) -> dict[Path, SubmissionFile]:
    """Return the files that earlier runs have named, with these names.

    A file is known by where it is; in a folder that was moved, if the file of a name is there no more, by the
    name that it came with, if no two files have that: first the whole path, then the short name.
    """
    files: dict[Path, SubmissionFile] = {}
    ways: list[tuple[str, Callable[[Path], str]]] = [
        ("path", os.path.abspath),
        ("given", Path.as_posix),
        ("given", short.__getitem__),
    ]
    for field, tell in ways:
        had = {file.name for file in files.values()}
        if field == "given":
            had |= {name for name, origin in known.items() if os.path.lexists(origin.path)}
        names = _invert({name: getattr(origin, field) for name, origin in known.items() if name not in had})
        paths = _invert({path: tell(path) for path in short if path not in files})
        for key in names.keys() & paths.keys():
            name, path = names[key], paths[key]
            files[path] = SubmissionFile(name, path, known[name].given)
    return files


def _invert(values: Mapping[Key, str]) -> dict[str, Key]:
    """Return the key of each value that only one key has."""
    count = Counter(values.values())
    return {value: key for key, value in values.items() if count[value] == 1}


def make_label(name: str) -> str:
    """Return a name as it stands in tables: one line, composed, with a sign for what shows nothing.

    Names that look alike become one, so that a number can be added to the second. Letters of two alphabets
    that look alike stay as they are.

    Args:
        name: the name of a file, or a path.
    """
    composed = unicodedata.normalize("NFC", make_printable(name))
    seen = "".join("\N{REPLACEMENT CHARACTER}" if ord(c) in INVISIBLE else c for c in composed)
    return " ".join(seen.split())


# --- one notebook -------------------------------------------------------------------------------------------


def open_submission(path: Path, top: Path | None = None) -> BinaryIO:
    """Open a notebook file: a regular one, which is no link, and not too large.

    Args:
        path: the file, as ``find_submissions`` has found it.
        top: the folder that was given; a folder below it that has become a link since is not followed either.

    Raises:
        UnreadableNotebook: with a message that says why it cannot be read.
    """
    try:
        number = _open_without_links(path, top)
    except OSError as error:
        raise UnreadableNotebook(f"The file cannot be read: {error.strerror or error}.") from error
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise UnreadableNotebook("The file cannot be read: it is no regular file.")
    if found.st_size > MAX_BYTES:
        os.close(number)
        raise UnreadableNotebook(TOO_LARGE)
    return os.fdopen(number, "rb")


def load_submission(path: Path, top: Path | None = None) -> bytes:
    """Return the content of a notebook file. It may change at any time, so a run reads it once.

    Args:
        path: see ``open_submission``.
        top: see ``open_submission``.

    Raises:
        UnreadableNotebook: as ``open_submission`` does.
    """
    with open_submission(path, top) as notebook:
        content = notebook.read(MAX_BYTES + 1)  # it may grow while it is read
    if len(content) > MAX_BYTES:
        raise UnreadableNotebook(TOO_LARGE)
    return content


def _open_without_links(path: Path, top: Path | None) -> int:
    """Return the number of an open file; no link is followed below ``top``, or at the file."""
    how = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if top is None or os.open not in os.supports_dir_fd:
        return os.open(path, how)
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    *between, name = path.relative_to(top).parts
    try:
        for part in between:
            inner = os.open(part, how | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, how, dir_fd=folder)
    finally:
        os.close(folder)


@dataclass(frozen=True)
class CodeCell:
    """Hold a code cell.

    Args:
        source: its text.
        answers: the questions whose answers it defines.
        section: the question that it stands under, or "".
        asks: the questions whose checks it calls.
    """

    source: str
    answers: frozenset[str]
    section: str
    asks: frozenset[str] = frozenset()

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
        other_sets: whose checks it imports as well.
    """

    set_name: str
    version: str
    cells: list[CodeCell]
    other_sets: list[str]

    def is_asked_elsewhere(self, question: str) -> bool:
        """Return whether a cell that does not belong to a question calls its check."""
        return any(question in cell.asks and not cell.belongs_to(question) for cell in self.cells)

    def select_cells(
        self,
        question: str,
        others: Others = "none",
        until: Until = "end",
    ) -> list[tuple[str, bool]]:
        """Return the cells to run for a question, in order, each with whether it belongs to the question.

        Args:
            question: the id of the question.
            others: which cells of other questions to run, too: "none" (default), those that stand before
                the last cell of this one ("earlier"), or "all".
            until: whether to leave out what stands after the last cell that calls the check of an answer, as
                a reader saw it ("asked"), if there is one. Default "end".
        """
        own = [n for n, cell in enumerate(self.cells) if cell.belongs_to(question)]
        answered = min((n for n in own if question in self.cells[n].answers), default=len(self.cells))
        asked = [n for n, cell in enumerate(self.cells) if question in cell.asks and n >= answered]
        end = max(asked) + 1 if asked and until == "asked" else len(self.cells)
        last = end if asked and until == "asked" else max(own, default=-1) + 1
        before = {"none": 0, "earlier": last, "all": end}[others]
        wanted = [
            cell
            for n, cell in enumerate(self.cells[:end])
            if n < before or cell.is_shared or cell.belongs_to(question)
        ]
        return [(cell.source, cell.belongs_to(question)) for cell in wanted]


def decode_submission(data: Any) -> Submission:
    """Return the submission that ``reading.read_notebook`` describes.

    Args:
        data: what it has returned.

    Raises:
        ValueError: for what it cannot have returned.
    """
    try:
        questions = load_questions(data["set"])
        cells = [
            CodeCell(source, frozenset(answers), section, frozenset(asks))
            for source, answers, section, asks in data["cells"]
            if isinstance(source, str) and {*answers, section, *asks} <= {*questions, ""}
        ]
        other_sets = [name for name in SETS if name in data["others"]]
        return Submission(data["set"], make_printable(data["version"]), cells, other_sets)
    except (TypeError, KeyError) as error:
        raise ValueError("submission: not made by read_notebook") from error
