"""Measure whether the fits of scaling laws find what is there, and whether their intervals hold it."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_study.scaling import Interval, Surface, fit_laws, fit_parametric
from linattn_study.scaling.synthetic import PURE, RAISED, compute_exponents, make_synthetic_runs

METHODS = ("whole_envelope", "envelope", "corners", "iso_flop", "parametric")
SURFACES: dict[str, Surface] = {"pure": PURE, "raised": RAISED}
TRIALS = {Size.FULL: 100, Size.REDUCED: 5, Size.DRY_RUN: 1}


def measure_coverage(name: str, method: str, n_trials: int) -> Rows:
    """Fit runs made of a known surface with noise, many times, by one method."""
    surface = SURFACES[name]
    truth = compute_exponents(surface) | {"alpha": surface.alpha, "beta": surface.beta}
    truth |= {"irreducible": surface.irreducible}
    found: dict[str, list[Interval]] = {}
    for trial in range(n_trials):
        try:
            for quantity, interval in list_fitted(surface, method, trial):
                found.setdefault(quantity, []).append(interval)
        except ValueError:
            continue  # too few corners, or minima
    rows: Rows = []
    for quantity, intervals in found.items():
        values, low, high = np.array(intervals).T
        rows.append(
            {
                "quantity": quantity,
                "truth": truth[quantity],
                "mean": float(values.mean()),
                "spread": float(values.std()),
                "width": float((high - low).mean()),
                "held": int(((low <= truth[quantity]) & (truth[quantity] <= high)).sum()),
                "fitted": len(intervals),
                "trials": n_trials,
            }
        )
    return rows


def list_fitted(surface: Surface, method: str, trial: int) -> Iterator[tuple[str, Interval]]:
    """Yield what one fit of one trial finds; a loss that does not fall to zero has no exponent of compute."""
    runs = make_synthetic_runs(surface, seed=trial)
    if method == "parametric":
        yield from fit_parametric(runs, n_resamples=40)._asdict().items()
        return
    for name, law in fit_laws(runs, method, n_resamples=200, n_budgets=100).items():
        if name != "product" and not (surface.irreducible > 0 and name == "loss"):
            yield name, law.exponent


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every surface and method."""
    return [
        Task({"surface": name, "method": m}, partial(measure_coverage, name, m, TRIALS[size]))
        for name in SURFACES
        for m in METHODS
    ]


FIT_COVERAGE = Benchmark(
    name="fit_coverage",
    columns={
        "surface": "pure: A / N^0.34 + B / D^0.28; raised: the same and 0.5",
        "method": "of the fit",
        "quantity": "exponent of compute C in the best loss, parameters, tokens; or alpha, beta, irreducible",
        "truth": "of the surface",
        "mean": "of what was found, over trials",
        "spread": "standard deviation of what was found, over trials",
        "width": "mean width of the 95 % intervals",
        "held": "trials whose interval holds the truth",
        "fitted": "trials in which the method could be used; it holds nothing in the others",
        "trials": "runs of six sizes made anew, noise of log loss 0.004 from run to run",
    },
    tasks=list_tasks,
)
