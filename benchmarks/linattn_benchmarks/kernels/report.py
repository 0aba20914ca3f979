"""Summarise the rows: a table, and geometric means over the shapes."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from linattn_benchmarks.benchmark import BenchmarkRow, Rows


def geometric_mean(numbers: Iterable[float]) -> float | None:
    """Return the geometric mean; None of no numbers."""
    logs = [math.log(x) for x in numbers]
    return math.exp(sum(logs) / len(logs)) if logs else None


def divide_columns(rows: Iterable[BenchmarkRow], over: str, under: str) -> list[float]:
    """Return one column over another, for the rows that have both."""
    return [row[over] / row[under] for row in rows if row[over] is not None and row[under] is not None]


def summarise(rows: Sequence[BenchmarkRow]) -> Rows:
    """Return the geometric means over the shapes of every op and mode.

    ``fla_ratio`` is fla_ms / ms, above 1 where ours is faster, and ``compared`` the number of rows that have
    both; ``sdpa_ratio`` is sdpa_ms / ms, ``floors`` is ms / floor_ms. None where no row has both.
    """
    groups = dict.fromkeys((row["op"], row["mode"]) for row in rows)
    found = []
    for op, mode in groups:
        mine = [row for row in rows if (row["op"], row["mode"]) == (op, mode)]
        ratios = divide_columns(mine, "fla_ms", "ms")
        means = {"fla_ratio": geometric_mean(ratios), "compared": len(ratios)}
        means["sdpa_ratio"] = geometric_mean(divide_columns(mine, "sdpa_ms", "ms"))
        means["floors"] = geometric_mean(divide_columns(mine, "ms", "floor_ms"))
        found.append({"op": op, "mode": mode, "rows": len(mine)} | means)
    return found


def format_table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Return text in columns; numbers have four digits, and nothing is a dash."""
    cells = [list(header)] + [[format_cell(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def format_cell(cell: Any) -> str:
    """Return a cell as text."""
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def format_report(rows: Sequence[BenchmarkRow]) -> str:
    """Return all rows as a table, then the means."""
    lines = []
    for row in rows:
        ratio, floors = divide_columns([row], "fla_ms", "ms"), divide_columns([row], "ms", "floor_ms")
        shape = "x".join(str(row[name]) for name in "BTHK")
        times = [row["ms"], row["fla_ms"], ratio[0] if ratio else None, row["sdpa_ms"]]
        lines.append([row["op"], row["mode"], shape, *times, floors[0] if floors else None, row["fla_op"]])
    header = ("op", "mode", "BxTxHxD", "ms", "fla ms", "fla/ours", "sdpa ms", "floors", "fla op")
    means = [list(line.values()) for line in summarise(rows)]
    names = ("op", "mode", "rows", "fla/ours", "compared", "sdpa/ours", "floors")
    return f"{format_table(header, lines)}\n\nGeometric means\n{format_table(names, means)}"
