"""Models that differ from the main grid's in one thing, beside the main grid's."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linattn_ref.findings import losses, recall
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import file_of
from linattn_ref.study.probes import PROMPTS


class Variant(NamedTuple):
    """A finished run of a table: its last evaluation, and the percent of loss above the main grid's.

    None where the main grid has no model of that architecture and size.
    """

    row: Mapping[str, Any]
    change: Interval | None


def variants(table: str) -> list[Variant]:
    """All runs of a table, in its order."""
    last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in losses.evaluations(table):
        last[_run(row)] = row
    return [Variant(row, change(row)) for row in last.values()]


OF_EVALUATION = ("tokens", "flops", "train_loss", "val_loss", "seconds")


def _run(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run from the others of its table: all that is the same at its evaluations."""
    return tuple(value for name, value in row.items() if name not in OF_EVALUATION)


def change(row: Mapping[str, Any]) -> Interval | None:
    """Percent by which the loss of one run is above the main grid's, as far as seeds tell."""
    corpus = plain(row["corpus"])
    if not losses.chosen(losses.evaluations(), corpus=corpus, arch=row["arch"], size=row["size"]):
        return None
    grid = np.log(losses.last(corpus, row["arch"], row["size"]))
    spread = losses.noise(corpus, row["size"], row["arch"])
    offset = math.log(row["val_loss"]) - float(grid.mean())
    half = losses.T_975[spread.freedom] * spread.sd * math.sqrt(1 + 1 / len(grid))
    return Interval(*(100 * (math.exp(x) - 1) for x in (offset, offset - half, offset + half)))


def plain(corpus: str) -> str:
    """The text of the main grid with the same validation."""
    return {"code-large": "code"}.get(corpus, file_of(corpus))


def second_reading(table: str, row: Mapping[str, Any]) -> float | None:
    """Loss in the last quarter of the window, where the second quarter is read again; None if not asked."""
    T = row.get("seq_len") or 1024
    found = [one for one in _probes(table, row, "twice") if (one["length"], one["first"]) == (T, 3 * T // 4)]
    return found[0]["loss"] if found else None


def found_needles(table: str, row: Mapping[str, Any], mode: str, length: int) -> Interval:
    """Over depths; see ``recall.needles``."""
    found = [one for one in _probes(table, row, f"needle-{mode}") if one["length"] == length]
    share = sum(one["accuracy"] for one in found) / len(found)
    return recall.wilson(share, PROMPTS * len(found))


def _probes(table: str, row: Mapping[str, Any], probe: str) -> list[Mapping[str, Any]]:
    """What the model of a row was asked."""
    unlike = {"tokens", "flops", "train_loss", "val_loss", "seconds"}
    return [
        one
        for one in recall.probes(table)
        if one["probe"] == probe
        and all(one[name] == value for name, value in row.items() if name not in unlike)
    ]
