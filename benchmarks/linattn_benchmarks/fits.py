"""Measure whether the fits of scaling laws find what is there, and whether their intervals hold it."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_study.scaling import Interval, Surface, fit_laws, fit_parametric
from linattn_study.scaling.noise import Noise
from linattn_study.scaling.synthetic import (
    CHINCHILLA,
    DESIGNS,
    NOISE,
    PURE,
    RAISED,
    Design,
    compute_exponents,
    make_designed_runs,
)

METHODS = ("whole_envelope", "envelope", "corners", "iso_flop", "parametric")
SURFACES: dict[str, Surface] = {"pure": PURE, "raised": RAISED, "chinchilla": CHINCHILLA}
# one run of each size tells nothing of noise: the fits are given what is there, as if four runs had told it
KNOWN = Noise(NOISE, 3)
TRIALS = {Size.FULL: 100, Size.REDUCED: 5, Size.DRY_RUN: 1}


def measure_coverage(design: str, name: str, method: str, n_trials: int) -> Rows:
    """Fit runs made of a known surface with noise, many times, by one method."""
    surface = SURFACES[name]
    truth = compute_exponents(surface) | {"alpha": surface.alpha, "beta": surface.beta}
    truth |= {"irreducible": surface.irreducible}
    found: dict[str, list[Interval]] = {}
    for trial in range(n_trials):
        try:
            for quantity, interval in list_fitted(DESIGNS[design], surface, method, trial):
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


def list_fitted(design: Design, surface: Surface, method: str, trial: int) -> Iterator[tuple[str, Interval]]:
    """Yield what one fit of one trial finds; a loss that does not fall to zero has no exponent of compute."""
    runs = make_designed_runs(surface, design, seed=trial)
    if method == "parametric":
        yield from fit_parametric(runs, n_resamples=40)._asdict().items()
        return
    noise = None if max(design.seeds) > 1 else dict.fromkeys(design.sizes, KNOWN)
    for name, law in fit_laws(runs, method, n_resamples=200, n_budgets=100, noise=noise).items():
        if name != "product" and not (surface.irreducible > 0 and name == "loss"):
            yield name, law.exponent


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every design, every surface in its range, and every method that it allows."""
    return [
        Task(
            {"design": design, "surface": name, "method": m},
            partial(measure_coverage, design, name, m, TRIALS[size]),
        )
        for design in DESIGNS
        for name in (("chinchilla",) if design.startswith("paper") else ("pure", "raised"))
        for m in METHODS
        if m != "parametric" or max(DESIGNS[design].seeds) > 1  # its intervals come of seeds
    ]


FIT_COVERAGE = Benchmark(
    name="fit_coverage",
    columns={
        "design": "sizes, seeds and evaluations of the runs: linattn_study.scaling.synthetic",
        "surface": "pure: A / N^0.34 + B / D^0.28; raised: the same + 0.5; chinchilla: Hoffmann's, + 1.69",
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
