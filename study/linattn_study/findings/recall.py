"""Read off the probes of finished models: loss by position, repeated strings, needles. Means over seeds."""

import functools
import math
from collections.abc import Mapping
from statistics import mean
from typing import Any

from linattn_book import results
from linattn_study.findings.losses import select
from linattn_study.probes import PROMPTS
from linattn_study.scaling import Interval

Z = 1.96


@functools.cache
def load_probes(table: str = "scaling") -> tuple[Mapping[str, Any], ...]:
    """Return the probes of a study, as their table has them."""
    return tuple(results.load(f"{table}_probes"))


def select_probes(
    corpus: str, arch: str, size: str, probe: str, table: str = "scaling"
) -> list[Mapping[str, Any]]:
    """Return the rows of one probe, all seeds."""
    return select(load_probes(table), corpus=corpus, arch=arch, size=size, probe=probe)


def average_by_position(
    corpus: str, arch: str, size: str, length: int, probe: str = "text"
) -> list[tuple[int, int, float]]:
    """Return (first position, last position, loss) of ranges that double; nats per byte."""
    rows = select(select_probes(corpus, arch, size, probe), length=length)
    places = sorted({(row["first"], row["last"]) for row in rows})
    return [
        (first, last, mean(row["loss"] for row in select(rows, first=first, last=last)))
        for first, last in places
    ]


def average_strings(corpus: str, arch: str, size: str, kind: str, length: int = 1024) -> tuple[float, float]:
    """Return (loss, share of all bytes) of bytes that end a "repeated" string of nine, or of "new" ones."""
    rows = select(select_probes(corpus, arch, size, kind), length=length)
    return mean(row["loss"] for row in rows), mean(row["share"] for row in rows)


def estimate_needles(
    corpus: str, arch: str, size: str, mode: str, length: int, table: str = "scaling"
) -> Interval:
    """Return the share of needles whose digits are all right, over depths and seeds, with its interval."""
    rows = select(select_probes(corpus, arch, size, f"needle-{mode}", table), length=length)
    return compute_wilson_interval(mean(row["accuracy"] for row in rows), PROMPTS * len(rows))


def compute_wilson_interval(share: float, n: int) -> Interval:
    """Return Wilson's 95 % interval of a share of n trials.

    Example:
        >>> [round(x, 3) for x in compute_wilson_interval(0.5, 100)]
        [0.5, 0.404, 0.596]
    """
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))
