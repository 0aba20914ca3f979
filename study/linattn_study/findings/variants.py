"""Compare models that differ from the main grid's in one thing with the main grid's."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from linattn_study.corpora import find_prepared_name
from linattn_study.findings import losses, recall
from linattn_study.probes import PROMPTS
from linattn_study.scaling import Interval
from linattn_study.scaling.noise import Noise, pool_noise, student_t
from linattn_study.trial import Trial

GRID_LENGTH = Trial.seq_len


REPEATS = {  # of a study's runs with the same seed, on another machine
    "scaling_heads": ["scaling_heads_repeat"],
    "scaling_length": ["scaling_length_repeat", "scaling_length_repeat_2"],
}


class Variant(NamedTuple):
    """Hold a finished run of a table: its last evaluation, and the percent of loss above the main grid's.

    The latter is None where the main grid has no model of that architecture and size.
    """

    row: Mapping[str, Any]
    change: Interval | None


def list_variants(table: str) -> list[Variant]:
    """Return all runs of a table, in its order."""
    last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in losses.load_evaluations(table):
        last[_identify_run(row)] = row
    return [Variant(row, estimate_change(row)) for row in last.values()]


def select_ends(table: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Return the last evaluations of the runs of a table that have these values."""
    return losses.select([one.row for one in list_variants(table)], **wanted)


EVALUATION_COLUMNS = ("tokens", "flops", "train_loss", "val_loss", "seconds")


def _identify_run(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a run from the others of its table: all that is the same at its evaluations."""
    return tuple(value for name, value in row.items() if name not in EVALUATION_COLUMNS)


def estimate_change(row: Mapping[str, Any]) -> Interval | None:
    """Return by how many percent the loss of one run is above the main grid's, as far as seeds tell."""
    corpus = find_grid_corpus(row["corpus"])
    if not losses.select(losses.load_evaluations(), corpus=corpus, arch=row["arch"], size=row["size"]):
        return None
    return compare_losses(row, losses.select_final_losses(corpus, row["arch"], row["size"]))


def estimate_repeat_noise(corpus: str, size: str) -> Noise:
    """Return the noise of log loss between runs of one seed on several machines, pooled over runs."""
    logs: dict[tuple[Any, ...], list[float]] = {}
    for table, others in REPEATS.items():
        for row in (row for name in (table, *others) for row in select_ends(name, corpus=corpus, size=size)):
            logs.setdefault((table, *_identify_run(row)), []).append(math.log(row["val_loss"]))
    noise = pool_noise(logs.values())
    if noise is None:
        raise ValueError(f"corpus, size: no run of {corpus}, {size} was repeated")
    return noise


def estimate_loss(row: Mapping[str, Any]) -> Interval:
    """Return the loss of one run, and where the mean of many seeds may lie; nats per byte."""
    return Interval(
        *(row["val_loss"] * (1 + percent / 100) for percent in _make_percent_interval(row, 0.0, 1.0))
    )


def compare_losses(row: Mapping[str, Any], base: Sequence[float]) -> Interval:
    """Return by how many percent the loss of one run is above those of others, of the same size and text."""
    logs = np.log(base)
    return _make_percent_interval(row, math.log(row["val_loss"]) - float(logs.mean()), 1 + 1 / len(logs))


def _make_percent_interval(row: Mapping[str, Any], log: float, share: float) -> Interval:
    """Return a difference of logs in percent, with its interval.

    ``share`` is its variance in units of that of one run.
    """
    spread = losses.estimate_noise(find_grid_corpus(row["corpus"]), find_grid_size(row["size"]), row["arch"])
    half = student_t(spread.freedom) * spread.sd * math.sqrt(share)
    return Interval(*(100 * (math.exp(x) - 1) for x in (log, log - half, log + half)))


def compare_with_llama(table: str, row: Mapping[str, Any]) -> Interval | None:
    """Return by how many percent a loss is above LLaMA's, of the same table or of the main grid.

    None where the length is that of neither.
    """
    same = {name: row[name] for name in ("corpus", "size", "seq_len") if name in row}
    theirs = [one["val_loss"] for one in select_ends(table, arch="llama", **same)]
    if not theirs and row.get("seq_len", GRID_LENGTH) == GRID_LENGTH:
        theirs = losses.select_final_losses(find_grid_corpus(row["corpus"]), "llama", row["size"])
    return compare_losses(row, theirs) if theirs else None


def find_grid_size(size: str) -> str:
    """Return the size of the main grid with as many parameters as one of another shape."""
    return size.partition("-")[0]


def find_grid_corpus(corpus: str) -> str:
    """Return the text of the main grid with the same validation."""
    return {"code-large": "code"}.get(corpus, find_prepared_name(corpus))


def find_second_reading(table: str, row: Mapping[str, Any]) -> float | None:
    """Return the loss in the last quarter of the window, where the second is read again; None if absent."""
    T = row.get("seq_len", GRID_LENGTH)
    rows = [
        one for one in select_probes(table, row, "twice") if (one["length"], one["first"]) == (T, 3 * T // 4)
    ]
    return rows[0]["loss"] if rows else None


def compute_reading_gain(table: str, row: Mapping[str, Any]) -> float:
    """Return by how many percent a second reading lowers the loss of the second quarter of the window."""
    T = row.get("seq_len", GRID_LENGTH)
    of = {one["first"]: one["loss"] for one in select_probes(table, row, "twice") if one["length"] == T}
    return 100 * (1 - of[3 * T // 4] / of[T // 4])


def select_beyond(table: str, row: Mapping[str, Any]) -> list[float]:
    """Return the loss by position in windows four times as long as trained on, in ranges that double."""
    T = 4 * row.get("seq_len", GRID_LENGTH)
    rows = [one for one in select_probes(table, row, "text") if one["length"] == T]
    return [one["loss"] for one in sorted(rows, key=lambda one: one["first"])]


def average_windows(table: str, row: Mapping[str, Any], length: int, first: int = 0) -> float | None:
    """Return the loss in windows of ``length`` bytes, from position ``first`` on; None if not asked."""
    rows = losses.select(select_probes(table, row, "text"), length=length)
    parts = [(one["last"] + 1 - one["first"], one["loss"]) for one in rows if one["first"] >= first]
    return sum(n * estimate_loss for n, estimate_loss in parts) / sum(n for n, _ in parts) if parts else None


def average_by_training_length(corpus: str, arch: str, trained: int, length: int, first: int = 0) -> float:
    """Return the loss at 2M in windows of ``length`` bytes, after training on ``trained``; mean of seeds."""
    in_grid = trained == GRID_LENGTH
    table, one = ("scaling", {"size": "2M"}) if in_grid else ("scaling_length", {"seq_len": trained})
    by_seed = (
        average_windows(table, row, length, first)
        for row in select_ends(table, corpus=corpus, arch=arch, **one)
    )
    return fmean(estimate_loss for estimate_loss in by_seed if estimate_loss is not None)


def estimate_needles(table: str, row: Mapping[str, Any], mode: str, length: int) -> Interval:
    """Return the share of needles found, over depths; see ``recall.estimate_needles``."""
    rows = [one for one in select_probes(table, row, f"needle-{mode}") if one["length"] == length]
    share = sum(one["accuracy"] for one in rows) / len(rows)
    return recall.compute_wilson_interval(share, PROMPTS * len(rows))


def select_probes(table: str, row: Mapping[str, Any], probe: str) -> list[Mapping[str, Any]]:
    """Return the probes of the model of a row."""
    return [
        one
        for one in recall.load_probes(table)
        if one["probe"] == probe
        and all(one[name] == value for name, value in row.items() if name not in EVALUATION_COLUMNS)
    ]
