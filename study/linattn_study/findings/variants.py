"""Compare models that differ from the main grid's in one thing with the main grid's."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linattn_study.corpora import find_prepared_name
from linattn_study.findings import losses
from linattn_study.scaling import Interval
from linattn_study.scaling.noise import Noise, pool_noise, student_t
from linattn_study.trial import Trial

GRID_LENGTH = Trial.seq_len
EVALUATION_COLUMNS = (
    "tokens",
    "flops",
    "train_loss",
    "val_loss",
    "first_reading_loss",
    "second_reading_loss",
    "seconds",
)


REPEATS = {  # of a study's runs with the same seed, on another machine; "old": by the main grid's own code
    "scaling": ["scaling_again_1", "scaling_again_2", "scaling_again_old_1", "scaling_again_old_2"],
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


def estimate_shift(tables: Sequence[str], others: Sequence[str]) -> Interval:
    """Return by how many percent the losses of ``others`` are above those of ``tables``.

    Each run counts once, by the means of its repeats, and the interval is Student's over runs.

    Args:
        tables, others: that have the same runs, with the same seeds.
    """
    first, second = (_average_repeats(names) for names in (tables, others))
    logs = [second[run] - first[run] for run in first.keys() & second.keys()]
    half = student_t(len(logs) - 1) * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    middle = float(np.mean(logs))
    return Interval(*(100 * (math.exp(x) - 1) for x in (middle, middle - half, middle + half)))


def _average_repeats(tables: Sequence[str]) -> dict[tuple[Any, ...], float]:
    """Return the mean log loss of each run that is in all of these tables."""
    logs: dict[tuple[Any, ...], list[float]] = {}
    for row in (row for name in tables for row in select_ends(name)):
        logs.setdefault(_identify_run(row), []).append(math.log(row["val_loss"]))
    return {run: float(np.mean(some)) for run, some in logs.items() if len(some) == len(tables)}


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
