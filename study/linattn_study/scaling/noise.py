"""How far the loss of a run is off by its seed: for each size, over architectures.

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
    """Standard deviation of log loss between seeds, and its degrees of freedom."""

    sd: float
    freedom: int


def pooled(archs: Iterable[str], *about: str) -> list[str]:
    """Those whose seeds tell of the noise in a statement about some."""
    return [arch for arch in archs if arch != APART or arch in about]


def noise_of(groups: Iterable[Sequence[float]]) -> Noise | None:
    """Of log losses ``[seeds]`` of several models; None if none of them has two."""
    squares, freedom = 0.0, 0
    for logs in groups:
        squares += float(((np.asarray(logs) - np.mean(logs)) ** 2).sum())
        freedom += len(logs) - 1
    return Noise(math.sqrt(squares / freedom), freedom) if freedom else None


def by_size(rows: Sequence[Mapping[str, Any]], arch: str, loss: str) -> dict[str, Noise]:
    """Size -> noise of a whole curve: the mean of log loss over all evaluations of a run.

    Args:
        rows: evaluations of all architectures, one corpus.

    Raises:
        ValueError: no size has two seeds.
    """
    curves: dict[str, dict[str, dict[int, list[float]]]] = {}  # size -> architecture -> seed -> log losses
    for row in sorted(rows, key=lambda row: row["n_params"]):
        if row["arch"] in pooled([row["arch"]], arch) and row[loss] is not None:
            by_seed = curves.setdefault(row["size"], {}).setdefault(row["arch"], {})
            by_seed.setdefault(row["seed"], []).append(math.log(row[loss]))
    means = {size: [[fmean(logs) for logs in seeds.values()] for seeds in models.values()]
             for size, models in curves.items()}  # fmt: skip
    found = {size: noise for size, groups in means.items() if (noise := noise_of(groups)) is not None}
    if not found:
        raise ValueError("rows: got one seed of each size, expected a size with two at least")
    nearest = noise_of(group for size in list(found)[-2:] for group in means[size])
    assert nearest is not None
    return {size: found.get(size, nearest) for size in means}
