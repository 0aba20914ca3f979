"""Read off speed and memory against length, and where a linear model overtakes LLaMA."""

import functools
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from linattn_book import results
from linattn_study.findings.losses import select


@functools.cache
def load_rows() -> tuple[Mapping[str, Any], ...]:
    """Return all measurements, as their table has them."""
    return tuple(results.load("speed"))


def select_curve(task: str, arch: str, column: str = "tokens_per_second") -> dict[int, float]:
    """Return length -> bytes a second, or another column; lengths without enough memory are left out."""
    measured = select(load_rows(), task=task, arch=arch)
    return {row["length"]: row[column] for row in measured if row[column] is not None}


def find_crossover(task: str, arch: str) -> float | None:
    """Return the length from which ``arch`` stays faster than LLaMA; a line between lengths, in logarithms.

    0 where it always is, None where it is not at the longest that both were measured at.
    """
    mine, theirs = select_curve(task, arch), select_curve(task, "llama")
    ahead = [(n, math.log(mine[n] / theirs[n])) for n in sorted(set(mine) & set(theirs))]
    if ahead[-1][1] <= 0:
        return None
    last = 0.0
    for (n, before), (longer, after) in pairwise(ahead):
        if before <= 0 < after:
            share = before / (before - after)
            last = math.exp(math.log(n) + share * math.log(longer / n))
    return last
