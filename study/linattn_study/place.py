"""The folder of one trial: who works on it, what it has found so far, and where it goes on.

``rows.csv`` has a row for each evaluation, ``probes.csv`` what the finished model was asked,
``manifest.json`` says what was trained on what, ``checkpoint.pt`` is there until the trial is done. Each is
replaced as a whole, so a process may die at any moment.
"""

import csv
import errno
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linattn_ref.training.files import write_atomically

Row = dict[str, Any]  # one evaluation
MARGIN = 2  # a checkpoint is written beside the old one


class Taken(RuntimeError):
    """Another process works on this trial."""


class DiskFull(OSError):
    """There is no room for what a trial must write."""


class Place:
    """``with Place(folder).claimed(): ...``; what is read needs no claim."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows_file, self.manifest_file = folder / "rows.csv", folder / "manifest.json"
        self.probes_file, self.checkpoint_file = folder / "probes.csv", folder / "checkpoint.pt"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Nobody else can claim it until this process leaves, or dies.

        Raises:
            Taken: somebody else has.
        """
        import fcntl  # POSIX only: elsewhere one reads results, and trains with ``linattn_ref.train``

        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".claim").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Taken(f"{self.folder}: another process works on this trial") from error
            yield  # the lock goes with the file, however the process ends

    # ---- what it holds ------------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """Empty if nothing has begun."""
        return json.loads(self.manifest_file.read_text("utf-8")) if self.manifest_file.is_file() else {}

    def rows(self) -> list[Row]:
        """Numbers as numbers; empty if there are none yet."""
        return _read(self.rows_file)

    def probes(self) -> list[Row]:
        """The same, of the finished model."""
        return _read(self.probes_file)

    def save_manifest(self, manifest: Mapping[str, Any]) -> None:
        with _room(self.folder):
            write_atomically({self.manifest_file: json.dumps(manifest, indent=2) + "\n"})

    def save_rows(self, rows: Sequence[Row]) -> None:
        with _room(self.folder):
            write_atomically({self.rows_file: _table(rows)})

    def save_probes(self, rows: Sequence[Row]) -> None:
        with _room(self.folder):
            write_atomically({self.probes_file: _table(rows)})

    def require_room(self, n_bytes: int) -> None:
        """Before a trial begins: room for its checkpoints.

        Raises:
            DiskFull: there is less.
        """
        free = shutil.disk_usage(self.folder).free
        if free < MARGIN * n_bytes:
            raise DiskFull(
                f"{self.folder}: {free / 1e6:,.0f} MB are free, a trial's checkpoints need "
                f"{MARGIN * n_bytes / 1e6:,.0f}"
            )


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{folder}: the disk is full; what was there before is unharmed") from error
        raise


def _table(rows: Sequence[Row]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _read(file: Path) -> list[Row]:
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as opened:
        return [{name: _number(cell) for name, cell in row.items()} for row in csv.DictReader(opened)]


def _number(cell: str) -> Any:
    try:
        return int(cell)
    except ValueError:
        try:
            return float(cell)
        except ValueError:
            return cell or None
