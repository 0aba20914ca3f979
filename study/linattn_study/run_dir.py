"""Keep the folder of one trial: who works on it, what it has found so far, and where it goes on.

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

from filelock import FileLock, Timeout

from linattn_ref.training.files import write_atomically

EvalRow = dict[str, Any]  # one evaluation
ProbeRow = dict[str, Any]  # one answer of the finished model
CHECKPOINTS_AT_ONCE = 2  # a checkpoint is written beside the old one


class RunLocked(RuntimeError):
    """Say that another process works on a trial."""


class DiskFull(OSError):
    """Say that there is no room for what a trial must write."""


class RunDir:
    """Read and write the folder of one trial. Writing needs the lock: ``with run_dir.lock(): ...``.

    Args:
        folder: it is made when it is locked, or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows_file, self.manifest_file = folder / "rows.csv", folder / "manifest.json"
        self.probes_file, self.checkpoint_file = folder / "probes.csv", folder / "checkpoint.pt"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all other processes out until this one leaves the block, or dies.

        Raises:
            RunLocked: another process has the lock.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".claim")  # the operating system's: it ends with the process
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RunLocked(f"{self.folder}: another process works on this trial") from error
        try:
            yield
        finally:
            lock.release()

    # ---- what it holds ------------------------------------------------------------------------------------

    def load_manifest(self) -> dict[str, Any]:
        """Return what was trained on what; empty if nothing has begun."""
        return json.loads(self.manifest_file.read_text("utf-8")) if self.manifest_file.is_file() else {}

    def load_rows(self) -> list[EvalRow]:
        """Return the evaluations, numbers as numbers; empty if there are none yet."""
        return read_csv(self.rows_file)

    def load_probes(self) -> list[ProbeRow]:
        """Return what the finished model was asked; empty until it is finished."""
        return read_csv(self.probes_file)

    def save_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest."""
        with explain_full_disk(self.folder):
            write_atomically({self.manifest_file: json.dumps(manifest, indent=2) + "\n"})

    def save_rows(self, rows: Sequence[EvalRow]) -> None:
        """Replace the evaluations."""
        with explain_full_disk(self.folder):
            write_atomically({self.rows_file: format_csv(rows)})

    def save_probes(self, rows: Sequence[ProbeRow]) -> None:
        """Replace what the finished model was asked."""
        with explain_full_disk(self.folder):
            write_atomically({self.probes_file: format_csv(rows)})

    def require_space(self, n_bytes: int) -> None:
        """Require room for checkpoints of ``n_bytes``, before a trial begins.

        Raises:
            DiskFull: there is less.
        """
        free, needed = shutil.disk_usage(self.folder).free, CHECKPOINTS_AT_ONCE * n_bytes
        if free < needed:
            sizes = f"{free / 1e6:,.0f} MB are free, a trial's checkpoints need {needed / 1e6:,.0f}"
            raise DiskFull(f"{self.folder}: {sizes}")


@contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into ``DiskFull``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{folder}: the disk is full; what was there before is unharmed") from error
        raise


def format_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; None becomes an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_csv(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, numbers as numbers; empty if there is no file."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as opened:
        return [{name: parse_cell(cell) for name, cell in row.items()} for row in csv.DictReader(opened)]


def parse_cell(cell: str) -> Any:
    """Return a cell as an int, a float or a text; None if it is empty."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None
