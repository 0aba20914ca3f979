"""The records of all workers as rows: the worst of every op, check, kind of decay and dtype."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from linattn_book import results
from linattn_book.provenance import code_hash
from tests.kernels.gpu_tasks import Record

NAME = "kernels_ladder"
COLUMNS = {
    "op": "name of the op",
    "form": "chunk, or step: one token at a time",
    "check": "what was checked, a function of tests/kernels/gpu_checks.py or gpu_large.py",
    "decay": "none, head [H], token [B, T, H] or channel [B, T, H, K]",
    "dtype": "of q, k and v",
    "cases": "number of cases",
    "worst_error": "largest error, max|a - b| / max(1, max|b|); empty: none was finite",
    "bound_used": "largest error / bound, see tests/kernels/kernel_bounds.py; empty: same bits are asked for",
    "failed": "number of cases that raised, or had an error above its bound",
    "result": "the result or gradient with the largest error / bound",
    "example": "its case, or the first that failed",
    "message": "of the first case that raised; empty: none did",
}
Row = dict[str, Any]
GROUP = ("op", "form", "check", "decay", "dtype")


def rows_of(records: Iterable[Record]) -> list[Row]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in GROUP), []).append(record)
    return [_row(key, group) for key, group in sorted(groups.items())]


def _row(key: tuple[str, ...], group: list[Record]) -> Row:
    failed = [record for record in group if fails(record)]
    measured = [(record, m) for record in group for m in record["results"]]
    errors = [m[1] for _, m in measured if math.isfinite(m[1])]
    shares = [used(m) for _, m in measured if m[2] > 0 and math.isfinite(m[1])]
    worst, m = max(measured, key=lambda pair: used(pair[1]), default=(group[0], None))
    messages = [record["failure"] for record in failed if record["failure"]]
    return dict(zip(GROUP, key, strict=True)) | {
        "cases": len(group),
        "worst_error": max(errors, default=None),
        "bound_used": max(shares, default=None),
        "failed": len(failed),
        "result": m[0] if m else None,
        "example": (failed[0] if failed else worst)["case"],
        "message": printable(messages[0]) if messages else None,
    }


def used(m: tuple[str, float, float]) -> float:
    """Error / bound; where the same bits are asked for, 0 or infinite."""
    _, error, bound = m
    return error / bound if bound else (math.inf if error else 0.0)


def fails(record: Record) -> bool:
    return bool(record["failure"]) or not record["results"] or any(used(m) > 1 for m in record["results"])


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def save(rows: list[Row], directory: Path, device: str, command: str) -> None:
    results.save(
        NAME,
        rows,
        columns=COLUMNS,
        command=command,
        seed=0,
        source_hash=code_hash("linattn_kernels"),
        device=device,
        directory=directory,
    )


def table(rows: list[Row]) -> str:
    """For the eye: a line a row, and what failed below."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in GROUP}
    head = " ".join(f"{name:{width}}" for name, width in widths.items())
    lines = [f"{head} {'cases':>5} {'error':>9} {'of bound':>8} {'failed':>6}  result"]
    for row in rows:
        names = " ".join(f"{row[name]:{width}}" for name, width in widths.items())
        numbers = (
            f"{row['cases']:5} {number(row['worst_error'], '.2e'):>9} {number(row['bound_used'], '.2f'):>8}"
        )
        lines.append(f"{names} {numbers} {row['failed']:6}  {row['result'] or ''}")
    lines += [
        f"FAILED {row['check']} {row['example']}: {row['message'] or 'error above bound'}"
        for row in rows
        if row["failed"]
    ]
    return "\n".join(lines)


def number(x: float | None, form: str) -> str:
    return "" if x is None else format(x, form)
