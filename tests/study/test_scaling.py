"""Fits of scaling laws, held to data whose laws are known."""

from typing import Any

import numpy as np
import pytest

from linattn_study.scaling import (
    PFLOPS_DAY,
    Run,
    find_crossings,
    find_iso_flop_minima,
    find_lower_envelope,
    fit_laws,
    fit_power_law,
    group_runs,
)
from linattn_study.scaling.synthetic import PURE, SIZES, compute_exponents, make_synthetic_runs

EXPONENTS = compute_exponents(PURE)


def runs(noise: float, seed: int = 0) -> list[Run]:
    """Return synthetic runs of all sizes and seeds, whose laws are ``EXPONENTS``."""
    return make_synthetic_runs(PURE, noise, seed)


# --- without noise -----------------------------------------------------------------------------------------


def test_a_power_law_is_found() -> None:
    x = np.geomspace(1, 1e6, 9)
    coefficient, exponent = fit_power_law(x, 3.7 * x**-0.08)
    assert (coefficient, exponent) == pytest.approx((3.7, -0.08), rel=1e-12)
    assert fit_power_law(x, x)(np.array([5.0])) == pytest.approx(5.0)


@pytest.mark.parametrize("method", [find_crossings, find_iso_flop_minima])
def test_corners_and_minima_have_the_exponents(method: Any) -> None:
    best = method(runs(0.0))
    for name, y in (("loss", best.loss), ("parameters", best.n_params), ("tokens", best.tokens)):
        assert fit_power_law(best.flops, y).exponent == pytest.approx(EXPONENTS[name], abs=3e-3)


def test_corners_are_where_the_next_size_takes_over() -> None:
    corners = find_crossings(runs(0.0))
    for C, N, D in zip(corners.flops, corners.n_params, corners.tokens, strict=True):
        assert abs(6 * N * D / C - 1) < 1e-3
        ratio = PURE.alpha * PURE.A / (PURE.beta * PURE.B)
        exact = (ratio * (C / 6) ** PURE.beta) ** (1 / (PURE.alpha + PURE.beta))
        assert abs(N / exact - 1) < 0.02


def test_the_envelope_is_below_all_curves() -> None:
    envelope = find_lower_envelope(runs(0.0))
    assert (np.diff(envelope.flops) > 0).all()
    assert (np.diff(envelope.n_params) >= 0).all()
    assert set(envelope.n_params) <= set(SIZES)
    for run in runs(0.0):
        theirs = np.interp(np.log(envelope.flops), np.log(run.flops), np.log(run.loss), np.inf, np.inf)
        assert (np.log(envelope.loss) <= theirs + 1e-9).all()


def test_all_points_of_the_envelope_are_off_by_their_cut_steps() -> None:
    """What the corners are for: with steps, the exponent of parameters is too large, even without noise."""
    envelope = find_lower_envelope(runs(0.0))
    steps = fit_power_law(envelope.flops, envelope.n_params).exponent
    assert steps - EXPONENTS["parameters"] > 5e-3


# --- with noise --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["corners", "iso_flop"])
def test_intervals_of_95_percent_hold_the_truth_in_88_of_100_trials(method: str) -> None:
    held = dict.fromkeys(EXPONENTS, 0)
    for trial in range(100):
        laws = fit_laws(runs(0.004, trial), method, n_resamples=200, n_budgets=100)
        for name, truth in EXPONENTS.items():
            low, high = laws[name].exponent[1:]
            held[name] += low <= truth <= high
    assert min(held.values()) >= 88
    assert sum(held.values()) < 300  # intervals that always hold it are too wide


def test_intervals_are_reproducible_and_grow_with_noise_and_confidence() -> None:
    def width(noise: float, confidence: float = 0.95) -> float:
        _, low, high = fit_laws(runs(noise), n_resamples=200, confidence=confidence)["loss"].exponent
        return high - low

    assert width(0.002) == width(0.002)
    assert width(0.001) < width(0.004)
    assert width(0.002, 0.5) < width(0.002)


def test_laws_are_in_pflops_days() -> None:
    law = fit_laws(runs(1e-4), n_resamples=50)["loss"]
    corners = find_crossings(runs(1e-4))
    at_one = fit_power_law(corners.flops / PFLOPS_DAY, corners.loss)(np.array([1.0]))
    assert law.coefficient.value == pytest.approx(at_one[0], rel=1e-12)


# --- rows, and what is refused -----------------------------------------------------------------------------


def row(**changes: Any) -> dict[str, Any]:
    """Return an evaluation of a run as a row of the study's table."""
    return {"arch": "tnl", "corpus": "prose", "n_params": 10, "seed": 0, "flops": 1.0, "tokens": 1} | changes


def test_rows_become_runs_by_size_and_seed() -> None:
    rows = [
        row(n_params=n, seed=s, flops=float(t), tokens=t, train_loss=2.0 / t)
        for n in (20, 10)
        for s in (1, 0)
        for t in (3, 1, 2)
    ]
    made = group_runs(rows)
    assert [(run.n_params, run.seed) for run in made] == [(10, 0), (10, 1), (20, 0), (20, 1)]
    assert made[0].flops.tolist() == [1.0, 2.0, 3.0]
    assert made[0].loss.tolist() == [2.0, 1.0, 2 / 3]


def test_a_loss_that_was_not_taken_is_left_out() -> None:
    rows = [row(flops=float(t), val_loss=x) for t, x in ((1, 3.0), (2, None), (3, 2.0))]
    assert group_runs(rows, "val_loss")[0].loss.tolist() == [3.0, 2.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows: got none"),
        ([row(train_loss=1.0), row(arch="llama", train_loss=1.0)], "got arch .'llama', 'tnl'."),
        ([row(train_loss=1.0), row(corpus="code", train_loss=1.0)], "got corpus"),
        ([row(train_loss=1.0)], "got 1 evaluations of 10 parameters, seed 0"),
        ([row(train_loss=1.0), row(train_loss=2.0)], "more flops than the one before"),
    ],
    ids=["none", "two architectures", "two corpora", "one evaluation", "two rates"],
)
def test_rows_that_are_no_runs_are_refused(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        group_runs(rows)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match=r"within a factor of 1\.2, expected a wider span"):
        fit_power_law(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="expected positive finite numbers"):
        fit_power_law(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="got 2 sizes, expected at least 3"):
        find_lower_envelope(runs(0.0)[:4])
    with pytest.raises(ValueError, match="method: got 'best', expected one of"):
        fit_laws(runs(0.0), "best")
    with pytest.raises(ValueError, match=r"\d+ budgets at which a size between others is best, expected two"):
        find_iso_flop_minima(make_synthetic_runs(PURE, 0.0, first=1.2e8))
    with pytest.raises(ValueError, match="a size with two at least"):
        fit_laws(make_synthetic_runs(PURE, 0.0, seeds=(1,) * 6))
    with pytest.raises(ValueError, match=r"\d crossings of curves of neighbouring sizes, expected two"):
        find_crossings(make_synthetic_runs(PURE, 0.0, first=1.2e8))
