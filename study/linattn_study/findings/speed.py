"""Read off speed and memory against length, and where a linear model overtakes LLaMA."""

import functools
from collections.abc import Mapping
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
