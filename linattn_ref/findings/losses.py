"""Losses of finished runs, with what the seed may change.

A run's last loss is off by its seed. How much is pooled over the four architectures at a size: the standard
deviation of log loss between seeds. Sizes with one seed take that of ``NEAREST``, the largest two that have
two. Intervals are Student's, 95 %.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linattn_ref import results
from linattn_ref.scaling import Envelope, Interval, lower_envelope, runs_of

ARCHITECTURES = ("llama", "tnl", "hgrn2", "cosformer2")
CORPORA = ("novels", "code")
SIZES = ("0.2M", "0.8M", "2M", "6M", "14M", "32M")
NEAREST = ("2M", "6M")
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}  # Student's


class Noise(NamedTuple):
    """Standard deviation of log loss between seeds, and its degrees of freedom."""

    sd: float
    freedom: int


@functools.cache
def evaluations(table: str = "scaling") -> tuple[Mapping[str, Any], ...]:
    """All rows of a study."""
    return tuple(results.load(table))


def chosen(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """Rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def last(corpus: str, arch: str, size: str, table: str = "scaling", column: str = "val_loss") -> list[float]:
    """Of every seed, at its last evaluation; nats per byte."""
    rows = chosen(evaluations(table), corpus=corpus, arch=arch, size=size)
    end = max(row["tokens"] for row in rows)
    return [row[column] for row in rows if row["tokens"] == end]


def noise(corpus: str, size: str) -> Noise:
    """Between seeds of a size; of ``NEAREST`` where it has but one."""
    squares, freedom = 0.0, 0
    alone = all(len(last(corpus, arch, size)) < 2 for arch in ARCHITECTURES)
    for name in NEAREST if alone else (size,):
        for arch in ARCHITECTURES:
            logs = np.log(last(corpus, arch, name))
            squares, freedom = squares + float(((logs - logs.mean()) ** 2).sum()), freedom + len(logs) - 1
    return Noise(math.sqrt(squares / freedom), freedom)


def loss(corpus: str, arch: str, size: str) -> Interval:
    """Validation loss, mean over seeds (of its logarithm)."""
    found = np.log(last(corpus, arch, size))
    return _interval(float(found.mean()), noise(corpus, size), 1 / len(found))


def gap(corpus: str, arch: str, size: str, base: str = "llama") -> Interval:
    """How much more than that of LLaMA of the same size and text, in percent."""
    mine, theirs = (np.log(last(corpus, name, size)) for name in (arch, base))
    ratio = _interval(
        float(mine.mean() - theirs.mean()), noise(corpus, size), 1 / len(mine) + 1 / len(theirs)
    )
    return Interval(*(100 * (x - 1) for x in ratio))


def _interval(log: float, spread: Noise, share: float) -> Interval:
    half = T_975[spread.freedom] * spread.sd * math.sqrt(share)
    return Interval(math.exp(log), math.exp(log - half), math.exp(log + half))


class Cost(NamedTuple):
    """FLOPs for a loss over those that LLaMA needs for it."""

    loss: float
    ratio: Interval


def cost(corpus: str, arch: str) -> Cost:
    """Of the lowest validation loss that both reach, on their lower envelopes.

    The interval is that of a pair of runs whose losses a seed moves.
    """
    mine, theirs = (
        lower_envelope(runs_of(chosen(evaluations(), corpus=corpus, arch=name), "val_loss"))
        for name in (arch, "llama")
    )
    at = max(float(mine.loss.min()), float(theirs.loss.min()))
    spread = noise(corpus, SIZES[-1])
    off = math.exp(T_975[spread.freedom] * spread.sd * math.sqrt(2))
    ratios = [
        _flops(mine, at * max(1, off**sign)) / _flops(theirs, at * max(1, off**-sign)) for sign in (0, 1, -1)
    ]
    return Cost(at, Interval(ratios[0], min(ratios[1:]), max(ratios[1:])))


def _flops(envelope: Envelope, loss: float) -> float:
    """At which it is first as low, a line between points in logarithms."""
    lowest = np.minimum.accumulate(envelope.loss)
    return float(np.exp(np.interp(-math.log(loss), -np.log(lowest), np.log(envelope.flops))))
