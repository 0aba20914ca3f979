"""Measure whether the fits of scaling laws find what is there, and whether their intervals hold it."""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_book import results
from linattn_study.findings import isoflop
from linattn_study.scaling import Interval, Surface, fit_laws, fit_parametric
from linattn_study.scaling.fits import WARM_UP
from linattn_study.scaling.noise import Noise, pool_noise
from linattn_study.scaling.parametric import fit_surface
from linattn_study.scaling.runs import group_runs
from linattn_study.scaling.synthetic import (
    CHINCHILLA,
    DESIGNS,
    NOISE,
    PURE,
    RAISED,
    compute_exponents,
    make_designed_runs,
)

METHODS = ("whole_envelope", "envelope", "corners", "iso_flop", "parametric")
VALLEYS = "isoFLOP, designed"  # a design of its own, and the fit that goes with it
KNOWN_SURFACES: dict[str, Surface] = {"pure": PURE, "raised": RAISED, "chinchilla": CHINCHILLA}
VALLEY_METHODS = {"parabola": slice(None), "no smallest": slice(1, None), "no largest": slice(-1)}
OWN_SURFACES = {
    f"{name}, {text}": (arch, corpus)
    for corpus, text in (("novels", "prose"), ("code", "code"))
    for arch, name in (("llama", "LLaMA"), ("hgrn2", "HGRN2"))
}
# one run of each size tells nothing of noise: the fits are given what is there, as if four runs had told it
KNOWN = Noise(NOISE, 3)
TRIALS = {Size.FULL: 100, Size.REDUCED: 5, Size.DRY_RUN: 1}


@cache
def find_surface(name: str) -> Surface:
    """Return a known surface, or the one that fits the validation losses of our own runs best."""
    if name in KNOWN_SURFACES:
        return KNOWN_SURFACES[name]
    own = [row for row in results.load("scaling") if (row["arch"], row["corpus"]) == OWN_SURFACES[name]]
    runs = group_runs(own, "val_loss")
    tokens, loss = (np.concatenate(parts) for parts in zip(*((r.tokens, r.loss) for r in runs), strict=True))
    n_params = np.concatenate([np.full(len(run.tokens), run.n_params) for run in runs])
    used = tokens >= WARM_UP
    return fit_surface(n_params[used], tokens[used], loss[used])


def make_valleys(surface: Surface, seed: int) -> list[isoflop.Valley]:
    """Make the runs of ``scaling_isoflop``: a surface's losses at each budget, with LLaMA's noise there.

    A budget's sizes lie about the best of the surface as LLaMA's lie about the bottom that was found.
    """
    rng, made = np.random.default_rng(seed), []
    for budget, real in zip(isoflop.BUDGETS, isoflop.select_valleys("llama"), strict=True):
        sizes = np.array(real.n_params) * surface.find_best_size(budget) / isoflop.find_bottom(real)[0]
        noise = pool_noise(np.log(real.losses).tolist())
        assert noise is not None  # each size has two seeds
        errors = noise.sd * rng.normal(size=(len(sizes), isoflop.N_SEEDS))
        losses = surface(sizes, budget / (6 * sizes))[:, None] * np.exp(errors)
        made.append(isoflop.Valley(sizes.tolist(), losses.tolist(), real.rates))
    return made


def measure_coverage(design: str, name: str, method: str, n_trials: int) -> Rows:
    """Fit runs made of a known surface with noise, many times, by one method."""
    surface = find_surface(name)
    truth = compute_exponents(surface) | {"alpha": surface.alpha, "beta": surface.beta}
    truth |= {"irreducible": surface.irreducible}
    found: dict[str, list[Interval]] = {}
    for trial in range(n_trials):
        try:
            for quantity, interval in list_fitted(design, surface, method, trial):
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


def list_fitted(name: str, surface: Surface, method: str, trial: int) -> Iterator[tuple[str, Interval]]:
    """Yield what one fit of one trial finds; a loss that does not fall to zero has no exponent of compute."""
    if name == VALLEYS:
        valleys = isoflop.select_sizes(make_valleys(surface, trial), VALLEY_METHODS[method])
        drawn = isoflop.draw_exponents(valleys, np.random.default_rng([1, trial]), 200)
        yield "parameters", isoflop.make_interval(isoflop.fit_valleys(valleys), drawn)
        return
    design = DESIGNS[name]
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
    chosen = [
        (design, name, method)
        for design in DESIGNS
        for name in list_surfaces(design)
        for method in METHODS
        if method != "parametric" or max(DESIGNS[design].seeds) > 1  # its intervals come of seeds
    ]
    chosen += [(VALLEYS, name, method) for name in list_surfaces(VALLEYS) for method in VALLEY_METHODS]
    return [
        Task({"design": d, "surface": s, "method": m}, partial(measure_coverage, d, s, m, TRIALS[size]))
        for d, s, m in chosen
    ]


def list_surfaces(design: str) -> tuple[str, ...]:
    """Return the names of the surfaces in the range of a design."""
    if design.startswith("paper"):
        return ("chinchilla",)
    return ("pure", "raised") if design == "study, with the warm-up" else ("pure", "raised", *OWN_SURFACES)


FIT_COVERAGE = Benchmark(
    name="fit_coverage",
    columns={
        "design": "sizes, seeds and evaluations of the runs: linattn_study.scaling.synthetic; or the four "
        "budgets and five sizes of scaling_isoflop",
        "surface": "pure: A / N^0.34 + B / D^0.28; raised: the same + 0.5; chinchilla: Hoffmann's, + 1.69; "
        "or fitted to our own runs",
        "method": "of the fit; no smallest, no largest: the parabola without that size of each budget",
        "quantity": "exponent of compute C in the best loss, parameters, tokens; or alpha, beta, irreducible",
        "truth": "of the surface",
        "mean": "of what was found, over trials",
        "spread": "standard deviation of what was found, over trials",
        "width": "mean width of the 95 % intervals",
        "held": "trials whose interval holds the truth",
        "fitted": "trials in which the method could be used; it holds nothing in the others",
        "trials": "runs made anew; noise of log loss 0.004 from run to run, with four budgets LLaMA's",
    },
    tasks=list_tasks,
)
