"""Read the fitted laws of the study, and the paper's."""

import functools
from collections.abc import Mapping
from typing import Any

from linattn_book import results
from linattn_study.scaling import Interval
from linattn_study.scaling.fits import FIT_METHODS


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


def list_fit_methods(law: str) -> list[str]:
    """Return the names of the ways to fit that have such a law."""
    having = {row["way"] for row in load_fits() if row["law"] == law}
    return [method.name for method in FIT_METHODS if method.name in having]


def load_paper_value(arch: str, law: str, part: str = "exponent") -> float:
    """Return a number of Table 3 of arXiv 2406.16690; its ``product`` is ours: a + b."""
    if law == "product":
        return load_paper_value(arch, "parameters", part) + load_paper_value(arch, "tokens", part)
    (row,) = (r for r in results.load("paper_fits") if (r["architecture"], r["law"]) == (arch, law))
    value = row[part]
    assert isinstance(value, int | float)
    return float(value)
