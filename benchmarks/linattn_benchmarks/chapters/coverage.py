"""Whether the fits of scaling laws find what is there, and whether their intervals hold it."""

from collections.abc import Iterator

import numpy as np

from linattn_benchmarks.chapters.study import Rows, Study
from linattn_study.scaling import Interval, fit_laws, fit_parametric
from linattn_study.scaling.synthetic import PURE, RAISED, exponents, synthetic_runs

METHODS = ("whole_envelope", "envelope", "corners", "iso_flop", "parametric")
TRIALS = 100


def coverage(reduced: bool) -> Rows:
    """Runs made of a known surface with noise, fitted in five ways, many times."""
    rows: Rows = []
    for surface in (PURE, RAISED):
        truth = exponents(surface) | {"alpha": surface.alpha, "beta": surface.beta}
        truth |= {"irreducible": surface.irreducible}
        for method in METHODS:
            found: dict[str, list[Interval]] = {}
            n = 5 if reduced else TRIALS
            for trial in range(n):
                try:
                    for name, interval in fitted(method, trial, surface.irreducible > 0):
                        found.setdefault(name, []).append(interval)
                except ValueError:
                    continue  # too few corners, or minima
            for name, intervals in found.items():
                values, low, high = np.array(intervals).T
                rows.append(
                    {
                        "surface": "raised" if surface.irreducible else "pure",
                        "method": method,
                        "quantity": name,
                        "truth": truth[name],
                        "mean": float(values.mean()),
                        "spread": float(values.std()),
                        "width": float((high - low).mean()),
                        "held": int(((low <= truth[name]) & (truth[name] <= high)).sum()),
                        "fitted": len(intervals),
                        "trials": n,
                    }
                )
    return rows


def fitted(method: str, trial: int, raised: bool) -> Iterator[tuple[str, Interval]]:
    """What one fit of one trial finds; a loss that does not fall to zero has no exponent of compute."""
    runs = synthetic_runs(RAISED if raised else PURE, seed=trial)
    if method == "parametric":
        yield from fit_parametric(runs, n_resamples=40)._asdict().items()
        return
    for name, law in fit_laws(runs, method, n_resamples=200, n_budgets=100).items():
        if name != "product" and not (raised and name == "loss"):
            yield name, law.exponent


COVERAGE = Study(
    coverage,
    {
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
    ("measure.py", "benchmarks/study.py", "benchmarks/coverage.py", "scaling"),
)
