"""What is handed in: the files to grade, and the name that each goes by."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from linattn_exercises import plain


class Entry(NamedTuple):
    """A submission to grade: the name it goes by and its file."""

    name: str
    path: Path


def entries(paths: Iterable[Path], out: Path | None = None) -> tuple[list[Entry], list[Path]]:
    """The submissions that the paths hold, and the files that are left out because they are no notebooks.

    A path is a file or a folder. A notebook in a folder goes by its path in that folder; a file by its name,
    or by its whole path if two are alike. What lies in ``out`` is ours.
    """
    found: list[tuple[str, Path]] = []
    left_out: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"submissions: got {path}, which does not exist, expected notebooks or folders")
        if not path.is_dir():
            found.append((path.name, path))
            continue
        for file in sorted(one for one in path.rglob("*") if not one.is_dir() and not _hidden(one, path)):
            if out is not None and file.resolve().is_relative_to(out.resolve()):
                continue
            if file.suffix.lower() == ".ipynb" and file.is_file():
                found.append((file.relative_to(path).as_posix(), file))
            else:
                left_out.append(file)
    return _named(found), left_out


def _named(found: list[tuple[str, Path]]) -> list[Entry]:
    """Entries with names that can be written anywhere, no two alike; a file that was given twice is one."""
    names = Counter(name for name, _ in found)
    entries: dict[str, Entry] = {}
    for name, path in dict.fromkeys(found):
        label = label_ = plain.printable(path.as_posix() if names[name] > 1 else name).replace("\n", " ")
        number = 1
        while label in entries:
            number += 1
            label = f"{label_} ({number})"
        entries[label] = Entry(label, path)
    return list(entries.values())


def _hidden(file: Path, top: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(top).parts)
