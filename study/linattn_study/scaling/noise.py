"""Estimate how far the loss of a run is off by its seed: for each size, over architectures.

Two seeds of one model tell little, so differences between seeds of a size are pooled over architectures. TNL
is apart: at the smallest sizes its seeds differ several times as much as the others'. It is pooled where it
is concerned itself. Sizes with one seed take what the largest two sizes with several have.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

APART = "tnl"


class Noise(NamedTuple):
    """Hold the standard deviation of log loss between seeds, and its degrees of freedom."""

    sd: float
    freedom: int


def student_t(freedom: int, confidence: float = 0.95) -> float:
    """Return the half-width, in standard deviations, of a two-sided interval of Student's t.

    Args:
        freedom: degrees of freedom.
        confidence: share of the distribution that lies inside; default 0.95.

    Example:
        >>> round(student_t(8), 3), round(student_t(30), 3)
        (2.306, 2.042)
    """
    from scipy.special import stdtrit  # not above: a machine that trains a study needs no SciPy

    return float(stdtrit(freedom, (1 + confidence) / 2))


def select_pooled(archs: Iterable[str], *about: str) -> list[str]:
    """Return the architectures whose seeds tell of the noise in a statement about some of them."""
    return [arch for arch in archs if arch != APART or arch in about]


def pool_noise(groups: Iterable[Sequence[float]]) -> Noise | None:
    """Return the noise in log losses [seeds] of several models; None if none of them has two."""
    squares, freedom = 0.0, 0
    for logs in groups:
        squares += float(((np.asarray(logs) - np.mean(logs)) ** 2).sum())
        freedom += len(logs) - 1
    return Noise(math.sqrt(squares / freedom), freedom) if freedom else None


def pool_noise_by_size(rows: Sequence[Mapping[str, Any]], arch: str, loss: str) -> dict[str, Noise]:
    """Return size -> noise of a whole curve: of the mean of log loss over all evaluations of a run.

    Args:
        rows: evaluations of all architectures, one corpus.
        arch: the architecture that the statement is about.
        loss: the column of the loss.

    Raises:
        ValueError: no size has two seeds.
    """
    curves: dict[str, dict[str, dict[int, list[float]]]] = {}  # size -> architecture -> seed -> log losses
    for row in sorted(rows, key=lambda row: row["n_params"]):
        if row["arch"] in select_pooled([row["arch"]], arch) and row[loss] is not None:
            by_seed = curves.setdefault(row["size"], {}).setdefault(row["arch"], {})
            by_seed.setdefault(row["seed"], []).append(math.log(row[loss]))
    means = {size: [[fmean(logs) for logs in seeds.values()] for seeds in models.values()]
             for size, models in curves.items()}  # fmt: skip
    noises = {size: noise for size, groups in means.items() if (noise := pool_noise(groups)) is not None}
    if not noises:
        raise ValueError("rows: got one seed of each size, expected a size with two at least")
    nearest = pool_noise(group for size in list(noises)[-2:] for group in means[size])
    assert nearest is not None
    return {size: noises.get(size, nearest) for size in means}
