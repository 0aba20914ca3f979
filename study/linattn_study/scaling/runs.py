"""Describe training runs as arrays, and fit power laws."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linattn_book.measure import fit_slope

Array = NDArray[np.float64]
PFLOPS_DAY = 8.64e19  # FLOPs
LEAST_SPAN = 1.2  # of x, for a line through points to mean anything


class Run(NamedTuple):
    """Hold one training run, at its evaluations."""

    n_params: float  # without embeddings
    seed: int
    flops: Array  # [E], since the start, rising
    tokens: Array  # [E]
    loss: Array  # [E]


class PowerLaw(NamedTuple):
    """Hold a power law, y = coefficient x^exponent."""

    coefficient: float
    exponent: float

    def __call__(self, x: Array) -> Array:
        return self.coefficient * x**self.exponent


class Interval(NamedTuple):
    """Hold an estimate, and the bounds of its confidence interval."""

    value: float
    low: float
    high: float


class Law(NamedTuple):
    """Hold a power law of compute with intervals."""

    coefficient: Interval
    exponent: Interval


def group_runs(rows: Sequence[Mapping[str, Any]], loss: str = "train_loss") -> list[Run]:
    """Group evaluations into runs, by ``n_params`` and ``seed``.

    Args:
        rows: evaluations of one architecture and one corpus.
        loss: the column of the loss; default "train_loss".

    Raises:
        ValueError: no rows, or rows of several architectures, corpora or rates of one size and seed.
    """
    if not rows:
        raise ValueError("rows: got none, expected the evaluations of at least one run")
    for column in ("arch", "corpus"):
        values = sorted({str(row[column]) for row in rows if column in row})
        if len(values) > 1:
            raise ValueError(f"rows: got {column} {values}, expected a single one")
    groups: dict[tuple[float, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["n_params"], row["seed"]), []).append(row)
    runs = []
    for (n_params, seed), group in sorted(groups.items()):
        group = sorted((row for row in group if row[loss] is not None), key=lambda row: row["flops"])
        columns = (np.array([row[name] for row in group], float) for name in ("flops", "tokens", loss))
        run = Run(n_params, seed, *columns)
        if len(group) < 2 or not (np.diff(run.flops) > 0).all():
            raise ValueError(
                f"rows: got {len(group)} evaluations of {n_params:,} parameters, seed {seed}, expected at "
                "least two, each with more flops than the one before"
            )
        runs.append(run)
    return runs


def fit_power_law(x: Array, y: Array) -> PowerLaw:
    """Fit a power law by least squares in logarithms.

    Args:
        x, y: one-dimensional, of one length, positive.

    Raises:
        ValueError: x that all lie within a factor of ``LEAST_SPAN``, or numbers that have no logarithm.

    Example:
        >>> x = np.array([1.0, 10.0, 100.0])
        >>> law = fit_power_law(x, 2 * x**3)
        >>> round(law.coefficient, 6), round(law.exponent, 6)
        (2.0, 3.0)
    """
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"x, y: got shapes {x.shape} and {y.shape}, expected two of one length")
    if len(x) < 2 or x.max() < LEAST_SPAN * x.min():
        raise ValueError(f"x: got {len(x)} points within a factor of {LEAST_SPAN}, expected a wider span")
    slope = fit_slope(x, y)
    return PowerLaw(slope.coefficient, slope.exponent)
