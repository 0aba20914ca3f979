"""Fit the laws of a study in many ways: the paper's, and others that differ from it in one thing.

Every fit takes a corpus and an architecture, some of the evaluations, and a method. The first is that of
arXiv 2406.16690, section 4, as far as it is printed: training loss, all sizes, the lowest at every budget.
Evaluations during the warm-up are left out, since their learning rate is not that of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linattn_book import results
from linattn_book.provenance import code_hash
from linattn_study.scaling.envelopes import fit_laws
from linattn_study.scaling.noise import Noise, pool_noise_by_size
from linattn_study.scaling.parametric import fit_parametric
from linattn_study.scaling.runs import Interval, Run, group_runs

TableRow = Mapping[str, Any]
WARM_UP, ONE_PASS = 8_000_000, 58_000_000  # bytes


@dataclass(frozen=True)
class FitMethod:
    """Say how to fit: by which method, to which evaluations.

    Args:
        name: in tables.
        method: a name in ``envelopes.METHODS``, or "parametric"; default "whole_envelope".
        loss: "train_loss" (default) or "val_loss".
        first, last: bytes of the first and the last evaluation; default: from the end of the warm-up on.
        smallest: parameters of the smallest size; default 0.
        flops_6nd: whether compute is 6 N D, not the closed form; default False.
        replacements: a table whose models replace those of their sizes; default "": none.
    """

    name: str
    method: str = "whole_envelope"
    loss: str = "train_loss"
    first: float = WARM_UP
    last: float = float("inf")
    smallest: float = 0.0
    flops_6nd: bool = False
    replacements: str = ""


FIT_METHODS = (
    FitMethod("paper's"),
    FitMethod("where two sizes reach", "envelope"),
    FitMethod("C = 6 N D", flops_6nd=True),
    FitMethod("C = 6 N D, without the smallest size", smallest=5e5, flops_6nd=True),
    FitMethod("validation loss", loss="val_loss"),
    FitMethod("with the warm-up", first=0.0),
    FitMethod("from twice the warm-up", first=2 * WARM_UP),
    FitMethod("first pass only", last=ONE_PASS),
    FitMethod("without the smallest size", smallest=5e5),
    FitMethod("more heads", replacements="scaling_heads"),
    FitMethod("C = 6 N D, more heads", flops_6nd=True, replacements="scaling_heads"),
    FitMethod("corners", "corners"),
    FitMethod("isoFLOP", "iso_flop"),
    FitMethod("parametric", "parametric"),
    FitMethod("parametric, validation loss", "parametric", "val_loss"),
    FitMethod("parametric, after one pass", "parametric", "val_loss", first=ONE_PASS),
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
    rows: Sequence[TableRow],
    methods: Sequence[FitMethod] = FIT_METHODS,
    tables: Mapping[str, Sequence[TableRow]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the fits of a study, by corpus and architecture; one that fails says why.

    Args:
        rows: the evaluations of the study.
        methods: the fits to make; default: all.
        tables: name -> evaluations, for those that take models from another table.
    """
    for corpus, arch in dict.fromkeys((row["corpus"], row["arch"]) for row in rows):
        own = _select(rows, corpus, arch)
        same_text = [row for row in rows if row["corpus"] == corpus]
        for method in methods:
            about = {"corpus": corpus, "arch": arch, "way": method.name}
            others = _select((tables or {}).get(method.replacements, ()), corpus, arch)
            try:
                used = _select_range(_replace_sizes(own, others, method), method)
                noise = pool_noise_by_size(_select_range(same_text, method), arch, method.loss)
                sizes = {row["n_params"]: noise[row["size"]] for row in used}
                laws = list(_fit(_select_runs(used, method), method.method, sizes))
            except ValueError as error:
                yield about | dict.fromkeys(list(COLUMNS)[3:]) | {"failure": str(error)}
                continue
            for law, part, interval in laws:
                yield about | {"law": law, "part": part} | interval._asdict() | {"failure": None}


def _select(rows: Sequence[TableRow], corpus: str, arch: str) -> list[TableRow]:
    """Return the rows of a corpus and an architecture."""
    return [row for row in rows if (row["corpus"], row["arch"]) == (corpus, arch)]


def _replace_sizes(rows: list[TableRow], others: list[TableRow], method: FitMethod) -> list[TableRow]:
    """Return rows in which the models of ``others`` replace those of their sizes."""
    if method.replacements and not others:
        raise ValueError(f"{method.replacements}: no models of this architecture and text yet")
    sizes = {row["size"] for row in others}
    return [row for row in rows if row["size"] not in sizes] + others


def _select_range(rows: Sequence[TableRow], method: FitMethod) -> list[TableRow]:
    """Return the evaluations that a fit takes."""
    low, high = method.first, method.last
    return [row for row in rows if low <= row["tokens"] <= high and row["n_params"] >= method.smallest]


def _select_runs(rows: Sequence[TableRow], method: FitMethod) -> list[Run]:
    """Return rows as runs, with the compute that a fit counts."""
    runs = group_runs(rows, method.loss)
    return [run._replace(flops=6 * run.n_params * run.tokens) for run in runs] if method.flops_6nd else runs


def _fit(
    runs: Sequence[Run], method: str, noise: Mapping[float, Noise]
) -> Iterator[tuple[str, str, Interval]]:
    """Yield (law, part, interval) of a fit."""
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
    """Fit the evaluations of a table, write NAME_fits.csv beside it, and return the number of its rows.

    Args:
        name: of the table.
        directory: where it lies.
    """
    existing = results.names(directory=directory)
    named = {method.replacements for method in FIT_METHODS if method.replacements in existing}
    tables = {other: results.load(other, directory=directory) for other in named}
    rows = list(fit_rows(results.load(name, directory=directory), tables=tables))
    results.save(
        f"{name}_fits",
        rows,
        columns=COLUMNS,
        command=f"linattn study {name} --fit DIR",
        seed=0,
        source_hash=code_hash("linattn_study.scaling.fits", mixers=()),
        digits=7,  # the others differ from processor to processor
        directory=directory,
    )
    return len(rows)
