"""All fits of a study as one table: the paper's way, and what changes with each other way.

Every way takes a corpus and an architecture, some of the evaluations, and a method. The first is that of
arXiv 2406.16690, section 4, as far as it is printed: training loss, all sizes, the lowest at every budget.
Evaluations during the warm-up are left out, since their learning rate is not that of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linattn_book import results
from linattn_study.scaling.envelopes import fit_laws
from linattn_study.scaling.noise import Noise, by_size
from linattn_study.scaling.parametric import fit_parametric
from linattn_study.scaling.runs import Interval, Run, runs_of

Row = Mapping[str, Any]
WARM_UP, ONE_PASS = 8_000_000, 58_000_000  # bytes


@dataclass(frozen=True)
class Way:
    """One way to fit: evaluations of ``loss`` from and up to so many bytes, sizes from ``smallest`` on."""

    name: str
    method: str = "whole_envelope"
    loss: str = "train_loss"
    first: float = WARM_UP
    last: float = float("inf")
    smallest: float = 0.0  # parameters
    six: bool = False  # compute is 6 N D, not the closed form
    instead: str = ""  # a table whose models stand in for those of their sizes


WAYS = (
    Way("paper's"),
    Way("where two sizes reach", "envelope"),
    Way("C = 6 N D", six=True),
    Way("C = 6 N D, without the smallest size", smallest=5e5, six=True),
    Way("validation loss", loss="val_loss"),
    Way("with the warm-up", first=0.0),
    Way("from twice the warm-up", first=2 * WARM_UP),
    Way("first pass only", last=ONE_PASS),
    Way("without the smallest size", smallest=5e5),
    Way("more heads", instead="scaling_heads"),
    Way("C = 6 N D, more heads", six=True, instead="scaling_heads"),
    Way("corners", "corners"),
    Way("isoFLOP", "iso_flop"),
    Way("parametric", "parametric"),
    Way("parametric, validation loss", "parametric", "val_loss"),
    Way("parametric, after one pass", "parametric", "val_loss", first=ONE_PASS),
)

COLUMNS = {
    "corpus": "text trained on",
    "arch": "architecture",
    "way": "name of a way to fit: linattn_study.scaling.fits",
    "law": "loss, parameters, tokens, product of these two; of the parametric fit irreducible, alpha, beta",
    "part": "exponent or coefficient, of compute in PFLOP/s-days; or value",
    "value": "of the fit; loss in nats per byte",
    "low": "lower end of the 95 % interval over seeds",
    "high": "upper end of it",
    "failure": "why there is none",
}


def fit_rows(
    rows: Sequence[Row], ways: Sequence[Way] = WAYS, tables: Mapping[str, Sequence[Row]] | None = None
) -> Iterator[dict[str, Any]]:
    """Of the evaluations of a study, by corpus and architecture; a fit that fails says why.

    ``tables``: name -> evaluations, for ways that take models from another table.
    """
    for corpus, arch in dict.fromkeys((row["corpus"], row["arch"]) for row in rows):
        mine = _chosen(rows, corpus, arch)
        same_text = [row for row in rows if row["corpus"] == corpus]
        for way in ways:
            about = {"corpus": corpus, "arch": arch, "way": way.name}
            others = _chosen((tables or {}).get(way.instead, ()), corpus, arch)
            try:
                taken = _taken(_instead(mine, others, way), way)
                noise = by_size(_taken(same_text, way), arch, way.loss)
                sizes = {row["n_params"]: noise[row["size"]] for row in taken}
                found = list(_fitted(_runs(taken, way), way.method, sizes))
            except ValueError as error:
                yield about | dict.fromkeys(list(COLUMNS)[3:]) | {"failure": str(error)}
                continue
            for law, part, interval in found:
                yield about | {"law": law, "part": part} | interval._asdict() | {"failure": None}


def _chosen(rows: Sequence[Row], corpus: str, arch: str) -> list[Row]:
    return [row for row in rows if (row["corpus"], row["arch"]) == (corpus, arch)]


def _instead(rows: list[Row], others: list[Row], way: Way) -> list[Row]:
    if way.instead and not others:
        raise ValueError(f"{way.instead}: no models of this architecture and text yet")
    sizes = {row["size"] for row in others}
    return [row for row in rows if row["size"] not in sizes] + others


def _taken(rows: Sequence[Row], way: Way) -> list[Row]:
    return [row for row in rows if way.first <= row["tokens"] <= way.last and row["n_params"] >= way.smallest]


def _runs(rows: Sequence[Row], way: Way) -> list[Run]:
    runs = runs_of(rows, way.loss)
    return [run._replace(flops=6 * run.n_params * run.tokens) for run in runs] if way.six else runs


def _fitted(
    runs: Sequence[Run], method: str, noise: Mapping[float, Noise]
) -> Iterator[tuple[str, str, Interval]]:
    if method == "parametric":
        surface = fit_parametric(runs, n_resamples=200)
        for name in ("irreducible", "alpha", "beta"):
            yield name, "value", getattr(surface, name)
        yield "parameters", "exponent", surface.parameters
    else:
        for name, law in fit_laws(runs, method, noise=noise).items():
            yield name, "exponent", law.exponent
            yield name, "coefficient", law.coefficient


def save_fits(name: str, directory: Path) -> int:
    """Fit the table NAME of ``directory``, write NAME_fits.csv beside it; how many rows there are."""
    there = results.names(directory=directory)
    named = {way.instead for way in WAYS if way.instead in there}
    tables = {other: results.load(other, directory=directory) for other in named}
    rows = list(fit_rows(results.load(name, directory=directory), tables=tables))
    results.save(
        f"{name}_fits",
        rows,
        columns=COLUMNS,
        command=f"linattn study {name} --fit DIR",
        seed=0,
        source_hash=results.source_hash([Path(__file__).parent]),
        digits=7,  # the others differ from processor to processor
        directory=directory,
    )
    return len(rows)
