"""Read the fitted laws of the study, and the paper's."""

import functools
from collections.abc import Mapping
from typing import Any

from linattn_book import results
from linattn_study.scaling import Interval


@functools.cache
def load_fits() -> tuple[Mapping[str, Any], ...]:
    """Return all fits, as their table has them."""
    return tuple(results.load("scaling_fits"))


def find_fit(corpus: str, arch: str, way: str, law: str, part: str = "exponent") -> Interval | None:
    """Return a part of a fitted law with its interval; None where the fit failed, or has no such law."""
    wanted = (corpus, arch, way, law, part)
    for row in load_fits():
        if tuple(row[name] for name in ("corpus", "arch", "way", "law", "part")) == wanted:
            return Interval(row["value"], row["low"], row["high"])
    return None


def list_failures() -> list[tuple[str, str, str, str]]:
    """Return (corpus, arch, way, why) of the fits that failed."""
    return [
        (row["corpus"], row["arch"], row["way"], row["failure"])
        for row in load_fits()
        if row["failure"] is not None
    ]
