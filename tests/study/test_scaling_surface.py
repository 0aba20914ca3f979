"""The fit of L(N, D), held to surfaces that are known."""

import numpy as np
import pytest

from linattn_study.scaling import Interval, Run, Surface, fit_parametric, fit_surface
from linattn_study.scaling.synthetic import RAISED as TRUTH
from linattn_study.scaling.synthetic import make_synthetic_runs


def runs(noise: float, seed: int = 0) -> list[Run]:
    """Return synthetic runs of all sizes and seeds on the surface ``TRUTH``."""
    return make_synthetic_runs(TRUTH, noise, seed)


def points(made: list[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return parameters, tokens and loss of all evaluations."""
    columns = [(np.full(len(run.loss), run.n_params), run.tokens, run.loss) for run in made]
    n_params, tokens, loss = (np.concatenate(column) for column in zip(*columns, strict=True))
    return n_params, tokens, loss


def test_a_surface_without_noise_is_found() -> None:
    found = fit_surface(*points(runs(0.0)))
    assert found == pytest.approx(TRUTH, rel=1e-4)
    assert found.parameters == pytest.approx(0.28 / 0.62, rel=1e-4)
    assert found(np.array([1e6]), np.array([1e8])) == pytest.approx(TRUTH(np.array(1e6), np.array(1e8)))


def test_what_cannot_be_below_zero_is_zero() -> None:
    n_params, tokens, _ = points(runs(0.0))
    found = fit_surface(n_params, tokens, 20 / n_params**0.1 + 30 / tokens**0.2 - 0.05)
    assert found.irreducible == 0
    flat = fit_surface(n_params, tokens, 0.7 + 30 / tokens**0.2)
    assert flat(n_params, tokens) == pytest.approx(0.7 + 30 / tokens**0.2, rel=1e-6)


def test_an_outer_search_finds_no_better_exponents() -> None:
    n_params, tokens, loss = points(runs(0.01, seed=3))
    found = fit_surface(n_params, tokens, loss)

    def squares(surface: Surface) -> float:
        return float((((surface(n_params, tokens) - loss) / loss) ** 2).sum())

    generator = np.random.default_rng(0)
    for _ in range(300):
        other = Surface(*(x * np.exp(0.05 * generator.normal()) for x in found))
        assert squares(other) >= squares(found) * (1 - 1e-6)


@pytest.mark.slow
def test_intervals_of_95_percent_hold_the_surface_in_88_of_100_trials() -> None:
    truth = (TRUTH.irreducible, TRUTH.alpha, TRUTH.beta, TRUTH.parameters)
    held = np.zeros(4, int)
    for trial in range(100):
        found = fit_parametric(runs(0.004, trial), n_resamples=40)
        held += [low <= x <= high for (_, low, high), x in zip(found, truth, strict=True)]
    assert held.min() >= 88
    assert held.sum() < 400  # intervals that always hold it are too wide


def test_intervals_are_reproducible_and_grow_with_noise() -> None:
    def width(interval: Interval) -> float:
        return interval.high - interval.low

    mild, wild = (fit_parametric(runs(noise), n_resamples=40) for noise in (0.001, 0.004))
    assert mild == fit_parametric(runs(0.001), n_resamples=40)
    assert all(width(a) < width(b) for a, b in zip(mild, wild, strict=True))
    narrow = fit_parametric(runs(0.004), n_resamples=40, confidence=0.5)
    assert all(width(a) < width(b) for a, b in zip(narrow, wild, strict=True))


def test_early_evaluations_can_be_left_out() -> None:
    made = [run._replace(loss=np.where(run.tokens < 4e6, 9.0, run.loss)) for run in runs(0.0)]
    two = [run._replace(loss=run.loss * (1 + 1e-9 * run.seed)) for run in made]
    assert fit_parametric(two, from_tokens=4e6, n_resamples=3).beta.value == pytest.approx(0.28, rel=1e-3)
    assert fit_parametric(two, n_resamples=3).beta.value != pytest.approx(0.28, rel=1e-2)


def test_what_cannot_be_fitted_is_refused() -> None:
    n_params, tokens, loss = points(runs(0.0))
    with pytest.raises(ValueError, match="got shapes"):
        fit_surface(n_params[:-1], tokens, loss)
    with pytest.raises(ValueError, match="expected positive, finite numbers"):
        fit_surface(n_params, tokens, loss * np.nan)
    with pytest.raises(ValueError, match="expected three different ones"):
        fit_surface(n_params[:80], tokens[:80], loss[:80])
    with pytest.raises(ValueError, match="got one seed of each size"):
        fit_parametric([run for run in runs(0.0) if run.seed == 0])
