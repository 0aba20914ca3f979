"""The table of fits: made anew from the table of runs, and honest about what could not be fitted."""

import math
from pathlib import Path
from typing import Any

import pytest

from linattn_book import results
from linattn_study.scaling import fit_laws
from linattn_study.scaling.fits import COLUMNS, FIT_METHODS, FitMethod, fit_rows, save_fits
from linattn_study.scaling.noise import Noise, pool_noise_by_size, student_t
from linattn_study.scaling.synthetic import PURE, compute_exponents, make_synthetic_runs


def rows_of(corpus: str = "made") -> list[dict[str, Any]]:
    """Return a synthetic study as rows of evaluations."""
    return [
        {
            "corpus": corpus, "arch": "llama", "n_params": run.n_params, "seed": run.seed,
            "size": f"{run.n_params:.0f} parameters",
            "flops": C, "tokens": D, "train_loss": L, "val_loss": 2 * L,
        }
        for run in make_synthetic_runs(PURE, noise=0.002)
        for C, D, L in zip(run.flops, run.tokens, run.loss, strict=True)
    ]  # fmt: skip


def test_the_committed_fits_are_those_of_the_committed_runs() -> None:
    prose = [row for row in results.load("scaling") if row["corpus"] == "novels"]
    committed = {
        (row["arch"], row["way"], row["law"], row["part"]): row
        for row in results.load("scaling_fits")
        if row["corpus"] == "novels"
    }
    some = [way for way in FIT_METHODS if way.name in ("paper's", "more heads", "without the smallest size")]
    heads = {"scaling_heads": results.load("scaling_heads")}
    for row in fit_rows(prose, some, heads):
        theirs = committed[row["arch"], row["way"], row["law"], row["part"]]
        if row["failure"] is not None:
            assert theirs["failure"] == row["failure"]
            continue
        for name in ("value", "low", "high"):
            assert row[name] == pytest.approx(theirs[name], rel=1e-4), (row["way"], row["law"], name)


def test_every_way_is_in_the_table_for_every_architecture_and_text() -> None:
    found: dict[tuple[Any, Any], set[Any]] = {}
    for row in results.load("scaling_fits"):
        found.setdefault((row["corpus"], row["arch"]), set()).add(row["way"])
    assert len(found) == 8
    for ways in found.values():
        assert ways == {way.name for way in FIT_METHODS}


def fitted(rows: list[dict[str, Any]], way: FitMethod, part: str) -> dict[str, dict[str, Any]]:
    """Return the fits of one part of each law, "exponent" or "coefficient", by the law."""
    return {row["law"]: row for row in fit_rows(rows, [way]) if row["part"] == part}


def test_known_exponents_are_in_their_intervals() -> None:
    found = {
        row["law"]: row
        for row in fit_rows(rows_of(), [FitMethod("corners", "corners")])
        if row["part"] == "exponent"
    }
    for law, truth in compute_exponents(PURE).items():
        assert found[law]["low"] <= truth <= found[law]["high"]
    assert found["product"]["value"] == pytest.approx(1.0, abs=1e-3)


def test_a_way_takes_its_evaluations_only() -> None:
    rows = rows_of()
    double = fitted(rows, FitMethod("x", loss="val_loss"), "coefficient")["loss"]["value"]
    assert double == pytest.approx(2 * fitted(rows, FitMethod("x"), "coefficient")["loss"]["value"])
    late = [row for row in rows if row["tokens"] > 2e7 and row["n_params"] > 3e5]
    narrow, plain = FitMethod("x", first=2e7, smallest=3e5), FitMethod("x", first=0)
    assert list(fit_rows(rows, [narrow])) == list(fit_rows(late, [plain]))


def test_what_cannot_be_fitted_says_why() -> None:
    first = [row for row in rows_of() if row["seed"] == 0]
    (row,) = fit_rows(first, [FitMethod("x")])
    assert row["value"] is None
    assert "one seed of each size" in row["failure"]


def test_fits_are_saved_beside_the_runs(tmp_path: Path) -> None:
    rows = [{**row, "n_params": int(row["n_params"])} for row in rows_of()]
    columns = dict.fromkeys(rows[0], "what it is")
    results.save("mine", rows, columns=columns, command="x", seed=0, source_hash="ab", directory=tmp_path)
    n = save_fits("mine", tmp_path)
    loaded = results.load("mine_fits", directory=tmp_path)
    assert len(loaded) == n
    assert list(loaded[0]) == list(COLUMNS)
    assert {row["way"] for row in loaded} == {way.name for way in FIT_METHODS}


def noisy(arch: str, size: str, offsets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return rows of one model, a seed for each offset, by which log losses of the whole curve are off."""
    return [
        {
            "corpus": "made", "arch": arch, "size": size, "n_params": int(size), "seed": seed,
            "flops": C, "tokens": C, "train_loss": 3 * C**-0.05 * math.exp(offset), "val_loss": None,
        }
        for seed, offset in enumerate(offsets) for C in (1e3, 1e4, 1e5)
    ]  # fmt: skip


def test_noise_is_that_of_a_size_over_architectures() -> None:
    rows = [
        *noisy("llama", "10", (0.0, 0.02)), *noisy("hgrn2", "10", (0.0, 0.04)),
        *noisy("tnl", "10", (0.0, 0.9)),
        *noisy("llama", "20", (0.0, 0.01)), *noisy("hgrn2", "20", (0.0, 0.0)),
        *noisy("llama", "30", (0.0, 0.003)), *noisy("llama", "40", (0.0,)),
    ]  # fmt: skip
    found = pool_noise_by_size(rows, "llama", "train_loss")
    assert found["10"] == (pytest.approx(math.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2)), 2)
    assert found["40"] == (pytest.approx(math.sqrt((2 * 0.005**2 + 2 * 0.0015**2) / 3)), 3)
    assert pool_noise_by_size(rows, "tnl", "train_loss")["10"].sd > 0.3
    with pytest.raises(ValueError, match="one seed of each size"):
        pool_noise_by_size(noisy("llama", "10", (0.0,)), "llama", "train_loss")


def test_an_interval_knows_which_size_is_noisy() -> None:
    """The smallest model moves the left end of an envelope; one in the middle is hardly ever lowest alone."""
    runs = make_synthetic_runs(PURE, noise=0.002)
    sizes = sorted({run.n_params for run in runs})
    quiet = dict.fromkeys(sizes, Noise(1e-6, 100))

    def width(noise: dict[float, Noise]) -> float:
        _, low, high = fit_laws(runs, "whole_envelope", n_resamples=200, noise=noise)["loss"].exponent
        return high - low

    first = width(quiet | {sizes[0]: Noise(0.02, 4)})
    assert first > 100 * width(quiet)
    assert first > 1.5 * width(quiet | {sizes[2]: Noise(0.02, 4)})


@pytest.mark.parametrize(
    ("freedom", "wide"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (8, 2.306), (9, 2.262), (12, 2.179), (30, 2.042), (120, 1.980)],
)
def test_students_t_is_that_of_printed_tables(freedom: int, wide: float) -> None:
    """A third seed of every size gives nine degrees of freedom and more."""
    assert student_t(freedom) == pytest.approx(wide, abs=5e-4)
    assert student_t(freedom, 0.5) < wide
