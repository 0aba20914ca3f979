"""What finished models were asked: loss by position, repeated strings, needles. Means over seeds."""

import functools
import math
from collections.abc import Mapping
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linattn_book import results
from linattn_study.findings.losses import chosen
from linattn_study.probes import PROMPTS
from linattn_study.scaling import Interval

Z = 1.96


@functools.cache
def probes(table: str = "scaling") -> tuple[Mapping[str, Any], ...]:
    """All rows of what a study's models were asked."""
    return tuple(results.load(f"{table}_probes"))


def asked(corpus: str, arch: str, size: str, probe: str, table: str = "scaling") -> list[Mapping[str, Any]]:
    """Rows of one kind of question, all seeds."""
    return chosen(probes(table), corpus=corpus, arch=arch, size=size, probe=probe)


def by_position(
    corpus: str, arch: str, size: str, length: int, probe: str = "text"
) -> list[tuple[int, int, float]]:
    """(first, last position, loss) of ranges that double; nats per byte."""
    rows = chosen(asked(corpus, arch, size, probe), length=length)
    places = sorted({(row["first"], row["last"]) for row in rows})
    return [
        (first, last, mean(row["loss"] for row in chosen(rows, first=first, last=last)))
        for first, last in places
    ]


def strings(corpus: str, arch: str, size: str, kind: str, length: int = 1024) -> tuple[float, float]:
    """(loss, share of all bytes) of bytes that end a ``"repeated"`` string of nine, or of ``"new"`` ones."""
    rows = chosen(asked(corpus, arch, size, kind), length=length)
    return mean(row["loss"] for row in rows), mean(row["share"] for row in rows)


def needles(corpus: str, arch: str, size: str, mode: str, length: int, table: str = "scaling") -> Interval:
    """Share of needles whose digits are all right, over depths and seeds; Wilson's 95 % interval."""
    rows = chosen(asked(corpus, arch, size, f"needle-{mode}", table), length=length)
    return wilson(mean(row["accuracy"] for row in rows), PROMPTS * len(rows))


def by_depth(corpus: str, arch: str, size: str, mode: str, table: str) -> NDArray[np.float64]:
    """``[depths, lengths]``: share of needles found, mean over seeds."""
    rows = asked(corpus, arch, size, f"needle-{mode}", table)
    lengths, depths = (sorted({row[name] for row in rows}) for name in ("length", "depth"))
    return np.array(
        [[mean(row["accuracy"] for row in chosen(rows, length=n, depth=d)) for n in lengths] for d in depths]
    )


def wilson(share: float, n: int) -> Interval:
    """Of a share of n trials."""
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))


def haystacks(table: str = "scaling") -> list[int]:
    """Lengths at which there are needles."""
    return sorted({row["length"] for row in probes(table) if row["probe"] == "needle-easy"})
