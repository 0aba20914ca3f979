"""Models that differ from the main grid's in one thing, beside the main grid's."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from linattn_study.corpora import file_of
from linattn_study.findings import losses, recall
from linattn_study.probes import PROMPTS
from linattn_study.scaling import Interval
from linattn_study.scaling.noise import Noise, noise_of
from linattn_study.trial import Trial

GRID_LENGTH = Trial.seq_len


REPEATS = {  # of a study's runs with the same seed, on another machine
    "scaling_heads": ["scaling_heads_repeat"],
    "scaling_length": ["scaling_length_repeat", "scaling_length_repeat_2"],
}


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


def ends(table: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Last evaluations of the runs of a table that have these values."""
    return losses.chosen([one.row for one in variants(table)], **wanted)


OF_EVALUATION = ("tokens", "flops", "train_loss", "val_loss", "seconds")


def _run(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run from the others of its table: all that is the same at its evaluations."""
    return tuple(value for name, value in row.items() if name not in OF_EVALUATION)


def change(row: Mapping[str, Any]) -> Interval | None:
    """Percent by which the loss of one run is above the main grid's, as far as seeds tell."""
    corpus = plain(row["corpus"])
    if not losses.chosen(losses.evaluations(), corpus=corpus, arch=row["arch"], size=row["size"]):
        return None
    return above(row, losses.last(corpus, row["arch"], row["size"]))


def repeated(corpus: str, size: str) -> Noise:
    """Standard deviation of log loss between runs of the same seed on other machines, pooled over runs."""
    logs: dict[tuple[Any, ...], list[float]] = {}
    for table, others in REPEATS.items():
        for row in (row for name in (table, *others) for row in ends(name, corpus=corpus, size=size)):
            logs.setdefault((table, *_run(row)), []).append(math.log(row["val_loss"]))
    found = noise_of(logs.values())
    if found is None:
        raise ValueError(f"corpus, size: no run of {corpus}, {size} was repeated")
    return found


def loss(row: Mapping[str, Any]) -> Interval:
    """Of one run, and where the mean of many seeds may lie; nats per byte."""
    return Interval(*(row["val_loss"] * (1 + percent / 100) for percent in _off(row, 0.0, 1.0)))


def above(row: Mapping[str, Any], base: Sequence[float]) -> Interval:
    """Percent by which the loss of one run is above those of others, of the same size and text."""
    logs = np.log(base)
    return _off(row, math.log(row["val_loss"]) - float(logs.mean()), 1 + 1 / len(logs))


def _off(row: Mapping[str, Any], log: float, share: float) -> Interval:
    """In percent, with what seeds may do to it; ``share`` is the variance in those of one run."""
    spread = losses.noise(plain(row["corpus"]), of_the_grid(row["size"]), row["arch"])
    half = losses.T_975[spread.freedom] * spread.sd * math.sqrt(share)
    return Interval(*(100 * (math.exp(x) - 1) for x in (log, log - half, log + half)))


def above_llama(table: str, row: Mapping[str, Any]) -> Interval | None:
    """Above LLaMA of the same table, or of the main grid; None where lengths differ from both."""
    same = {name: row[name] for name in ("corpus", "size", "seq_len") if name in row}
    theirs = [one["val_loss"] for one in ends(table, arch="llama", **same)]
    if not theirs and row.get("seq_len", GRID_LENGTH) == GRID_LENGTH:
        theirs = losses.last(plain(row["corpus"]), "llama", row["size"])
    return above(row, theirs) if theirs else None


def of_the_grid(size: str) -> str:
    """The size of the main grid that one of another shape has as many parameters as."""
    return size.partition("-")[0]


def plain(corpus: str) -> str:
    """The text of the main grid with the same validation."""
    return {"code-large": "code"}.get(corpus, file_of(corpus))


def second_reading(table: str, row: Mapping[str, Any]) -> float | None:
    """Loss in the last quarter of the window, where the second quarter is read again; None if not asked."""
    T = row.get("seq_len", GRID_LENGTH)
    found = [one for one in asked(table, row, "twice") if (one["length"], one["first"]) == (T, 3 * T // 4)]
    return found[0]["loss"] if found else None


def reading(table: str, row: Mapping[str, Any]) -> float:
    """Percent of loss that a second reading takes off, in the second quarter of the window read again."""
    T = row.get("seq_len", GRID_LENGTH)
    of = {one["first"]: one["loss"] for one in asked(table, row, "twice") if one["length"] == T}
    return 100 * (1 - of[3 * T // 4] / of[T // 4])


def beyond(table: str, row: Mapping[str, Any]) -> list[float]:
    """Loss by position in windows four times as long as trained on, in ranges that double."""
    T = 4 * row.get("seq_len", GRID_LENGTH)
    found = [one for one in asked(table, row, "text") if one["length"] == T]
    return [one["loss"] for one in sorted(found, key=lambda one: one["first"])]


def in_windows(table: str, row: Mapping[str, Any], length: int, first: int = 0) -> float | None:
    """Loss in windows of ``length`` bytes, from position ``first`` on; None if not asked."""
    found = losses.chosen(asked(table, row, "text"), length=length)
    parts = [(one["last"] + 1 - one["first"], one["loss"]) for one in found if one["first"] >= first]
    return sum(n * loss for n, loss in parts) / sum(n for n, _ in parts) if parts else None


def by_training_length(corpus: str, arch: str, trained: int, length: int, first: int = 0) -> float:
    """Loss at 2M in windows of ``length`` bytes, of models trained on ``trained``; mean over seeds."""
    in_grid = trained == GRID_LENGTH
    table, one = ("scaling", {"size": "2M"}) if in_grid else ("scaling_length", {"seq_len": trained})
    found = (in_windows(table, row, length, first) for row in ends(table, corpus=corpus, arch=arch, **one))
    return fmean(loss for loss in found if loss is not None)


def found_needles(table: str, row: Mapping[str, Any], mode: str, length: int) -> Interval:
    """Over depths; see ``recall.needles``."""
    found = [one for one in asked(table, row, f"needle-{mode}") if one["length"] == length]
    share = sum(one["accuracy"] for one in found) / len(found)
    return recall.wilson(share, PROMPTS * len(found))


def asked(table: str, row: Mapping[str, Any], probe: str) -> list[Mapping[str, Any]]:
    """What the model of a row was asked."""
    unlike = {"tokens", "flops", "train_loss", "val_loss", "seconds"}
    return [
        one
        for one in recall.probes(table)
        if one["probe"] == probe
        and all(one[name] == value for name, value in row.items() if name not in unlike)
    ]
