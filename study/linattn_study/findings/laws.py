"""Fitted laws of the study, and the paper's."""

import functools
from collections.abc import Mapping
from typing import Any

from linattn_book import results
from linattn_study.scaling import Interval
from linattn_study.scaling.fits import WAYS


@functools.cache
def fits() -> tuple[Mapping[str, Any], ...]:
    """All rows."""
    return tuple(results.load("scaling_fits"))


def fit(corpus: str, arch: str, way: str, law: str, part: str = "exponent") -> Interval | None:
    """None where the fit failed, or has no such law."""
    wanted = (corpus, arch, way, law, part)
    for row in fits():
        if tuple(row[name] for name in ("corpus", "arch", "way", "law", "part")) == wanted:
            return Interval(row["value"], row["low"], row["high"])
    return None


def failures() -> list[tuple[str, str, str, str]]:
    """(corpus, arch, way, why) of fits that there are none of."""
    return [
        (row["corpus"], row["arch"], row["way"], row["failure"])
        for row in fits()
        if row["failure"] is not None
    ]


def ways(law: str) -> list[str]:
    """Ways to fit that have such a law."""
    having = {row["way"] for row in fits() if row["law"] == law}
    return [way.name for way in WAYS if way.name in having]


def papers(arch: str, law: str, part: str = "exponent") -> float:
    """Table 3 of arXiv 2406.16690; its ``product`` is ours: a + b."""
    if law == "product":
        return papers(arch, "parameters", part) + papers(arch, "tokens", part)
    (row,) = (r for r in results.load("paper_fits") if (r["architecture"], r["law"]) == (arch, law))
    value = row[part]
    assert isinstance(value, int | float)
    return float(value)
