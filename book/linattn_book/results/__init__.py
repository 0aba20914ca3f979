"""Keep measured results as package data: rows in ``NAME.csv``, their meaning and origin in ``index.json``.

``load`` and ``provenance`` read; ``save`` writes both files, or neither; ``cite`` does so with what others
printed. A cell is an int, a float, a line of text or None (empty), and comes back as the type it went in as.
What is not a number is no result: NaN and infinities are refused.
"""

import csv
import io
import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from linattn_book import provenance as provenance_of_code
from linattn_ref.training.files import write_atomically

__all__ = ["cite", "command", "describe", "load", "names", "provenance", "rounded", "same_code", "save"]

Cell = int | float | str | None
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
ABSOLUTE_PATH = re.compile(r"(?:^|[\s='\"(:])(?:~?/\w|[A-Za-z]:\\)")


def names(*, directory: str | Path | None = None) -> list[str]:
    """Return the names of all results."""
    return sorted(_index(directory))


def load(name: str, *, directory: str | Path | None = None) -> list[dict[str, Cell]]:
    """Return the rows of a result; an empty cell is None."""
    entry = provenance(name, directory=directory)
    text = (_root(directory) / f"{name}.csv").read_text("utf-8")
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    if header != list(entry["columns"]) or len(rows) != entry["n_rows"]:
        raise ValueError(f"name: {name}.csv has other columns or rows than index.json says; save it again")
    return [dict(zip(header, map(_parsed, row), strict=True)) for row in rows]


def provenance(name: str, *, directory: str | Path | None = None) -> dict[str, Any]:
    """Return columns with units, command, seed, source hash, commit, device, versions, date, number of rows.

    Of what others measured: columns, source and number of rows.
    """
    index = _index(directory)
    _require(name in index, "name", name, f"one of {sorted(index)}")
    return index[name]


def describe(name: str, *, directory: str | Path | None = None) -> str:
    """Say where, when and how it was measured, in two lines for the output below a table; or by whom."""
    p = provenance(name, directory=directory)
    if "source" in p:
        return f"measured by others: {p['source']}"
    today = command(name, directory=directory)
    return f"measured on {p['device']}, {p['date']}, torch {p['versions']['torch']}\n  {today}"


def save(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, str],
    command: str,
    seed: int | list[int] | None,
    source_hash: str,
    commit: str | None = None,
    device: str | None = None,
    measured_with: Mapping[str, str] | None = None,
    digits: int | None = None,
    directory: str | Path | None = None,
) -> None:
    """Write ``NAME.csv`` and its entry in ``index.json``; on any error both stay as they were.

    Args:
        columns: every column, in order, with its unit or meaning; every row has exactly these.
        command: what a reader types to measure this again, with relative paths only.
        seed: or seeds; None where nothing is random.
        source_hash: of the code that measured, see ``linattn_book.provenance.code_hash``.
        commit: of the checkout that measured; None is that of this one, if it is one.
        device: where it was measured; None is this machine's first GPU, or else its CPU.
        measured_with: versions, as ``versions()`` gives them; None is what runs here.
        digits: significant ones of floats; None keeps all.
        directory: None is this package.
    """
    runs_elsewhere = command.strip() and not ABSOLUTE_PATH.search(command)
    _require(runs_elsewhere, "command", command, "a command without absolute paths")
    entry = {
        "command": command,
        "seed": seed,
        "source_hash": source_hash,
        "commit": commit or provenance_of_code.read_commit(),
        "device": device or device_name(),
        "versions": dict(measured_with or versions()),
        "date": datetime.now(UTC).date().isoformat(),
    }
    if digits is not None:
        rows = [{key: rounded(cell, digits) for key, cell in row.items()} for row in rows]
    _write(name, rows, columns, entry, directory)


def rounded(cell: Any, digits: int) -> Any:
    """Round a float to so many significant digits; return anything else as it is."""
    return float(f"{cell:.{digits}g}") if isinstance(cell, float) and math.isfinite(cell) else cell


def cite(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, str],
    source: str,
    directory: str | Path | None = None,
) -> None:
    """Write rows that others printed, in the same way. source: paper and table."""
    _require(source.strip(), "source", source, "a paper and a table")
    _write(name, rows, columns, {"source": source}, directory)


def _write(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    origin: Mapping[str, Any],
    directory: str | Path | None,
) -> None:
    _require(re.fullmatch(r"[a-z][a-z0-9_]*", name), "name", name, "lower-case letters, digits, underscores")
    explained = columns and all(column and meaning.strip() for column, meaning in columns.items())
    _require(explained, "columns", dict(columns), "a unit or meaning for each column")
    _require(len(rows), "rows", rows, "at least one row")
    entry = {"columns": dict(columns), **origin, "n_rows": len(rows)}
    target = Path(__file__).parent if directory is None else Path(directory)
    index = dict(sorted((_index(target) | {name: entry}).items()))
    index_text = json.dumps(index, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically({target / f"{name}.csv": _csv(rows, list(columns)), target / "index.json": index_text})


def same_code(one: str, other: str) -> bool:
    """Return whether two source hashes are of code that computes the same, bit for bit.

    Args:
        one, other: hashes as ``provenance(name)["source_hash"]`` and ``code_hash`` give them.

    Where code was rewritten and shown to compute the same, ``moved.json`` maps its hash to the new one.
    """
    return _latest(one) == _latest(other)


def _latest(source_hash: str) -> str:
    """Follow the source hashes of ``moved.json`` to their end."""
    equal = _moved()["source_hashes"]
    while source_hash in equal:
        source_hash = equal[source_hash]
    return source_hash


def command(name: str, *, directory: str | Path | None = None) -> str:
    """Return what a reader types today to measure a result again; what was recorded may be older."""
    said: str = provenance(name, directory=directory)["command"]
    for old, new in _moved()["commands"].items():
        if said.startswith(old):
            return new + said.removeprefix(old)
    return said


def _moved() -> dict[str, dict[str, str]]:
    """Return what was recorded in an older form, as it is now: source hashes, beginnings of commands."""
    return json.loads((resources.files(__name__) / "moved.json").read_text("utf-8"))


def _require(condition: object, name: str, got: object, expected: str) -> None:
    if not condition:
        raise ValueError(f"{name}: got {got!r}, expected {expected}")


def _root(directory: str | Path | None) -> Traversable:
    return resources.files(__name__) if directory is None else Path(directory)


def _index(directory: str | Path | None) -> dict[str, dict[str, Any]]:
    file = _root(directory) / "index.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def _parsed(cell: str) -> Cell:
    if not cell:
        return None
    if WHOLE.fullmatch(cell):
        return int(cell)
    return float(cell) if NUMBER.fullmatch(cell) else cell


def _csv(rows: Sequence[Mapping[str, Any]], columns: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for number, row in enumerate(rows):
        _require(set(row) == set(columns), f"rows[{number}]", list(row), f"the declared columns {columns}")
        writer.writerow([_written(row[column], f"rows[{number}][{column!r}]") for column in columns])
    return text.getvalue()


def _written(value: Any, where: str) -> str:
    """Return the text of a cell, such that ``_parsed`` gives the value back."""
    value = value.item() if hasattr(value, "item") else value  # a scalar of numpy or torch
    if value is None:
        return ""
    cell = isinstance(value, int | float | str) and not isinstance(value, bool)
    _require(cell, where, value, "int, float, str or None")
    if isinstance(value, str):
        plain = _parsed(value) == value and value.isprintable()
        _require(plain, where, value, "a line of text that does not read as a number")
        return value
    _require(math.isfinite(value), where, value, "a finite number, or None for a missing one")
    return repr(value)


def device_name() -> str:
    """Return the name of this machine's first GPU, or else of its CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.is_file() else None
    return f"{found[1].strip() if found else platform.machine()} (CPU)"


def versions() -> dict[str, str]:
    """Return the versions of Python and of what computes."""
    import torch

    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions["numpy"] = metadata.version("numpy")
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if any(metadata.distributions(name="triton")):
        versions["triton"] = metadata.version("triton")
    return versions
