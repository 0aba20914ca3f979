"""Make runs whose laws are known, in the shape of the study: the fits are tested on them."""

from collections.abc import Sequence

import numpy as np

from linattn_study.scaling.parametric import Surface
from linattn_study.scaling.runs import Run

SIZES = tuple(float(n) for n in np.geomspace(2e5, 3e7, 6))
SEEDS = (2, 2, 2, 2, 1, 1)  # of each size
NOISE = 0.004
PURE = Surface(irreducible=0.0, A=400.0, B=410.0, alpha=0.34, beta=0.28)  # so L(C) is a power law, too
RAISED = Surface(irreducible=0.5, A=20.0, B=30.0, alpha=0.34, beta=0.28)


def compute_exponents(surface: Surface) -> dict[str, float]:
    """Return the exponents of compute C = 6 N D at the best N: of parameters, tokens, and loss above E."""
    a = surface.parameters
    return {"loss": -surface.alpha * a, "parameters": a, "tokens": 1 - a}


def make_synthetic_runs(
    surface: Surface,
    noise: float = NOISE,
    seed: int = 0,
    seeds: Sequence[int] = SEEDS,
    first: float = 1e6,
    n_evaluations: int = 40,
) -> list[Run]:
    """Make runs of six sizes, each trained for 240 million tokens.

    Args:
        surface: the loss without noise.
        noise: standard deviation of log loss from run to run; half of that from evaluation to evaluation.
        seed: of the noise.
        seeds: how many runs of each size.
        first: tokens before the first evaluation.
        n_evaluations: of each run.
    """
    generator, made = np.random.default_rng(seed), []
    tokens = np.geomspace(first, 2.4e8, n_evaluations)
    for size, n in zip(SIZES, seeds, strict=True):
        for number in range(n):
            errors = generator.normal() + generator.normal(size=n_evaluations) / 2
            loss = surface(np.array(size), tokens) * np.exp(noise * errors)
            made.append(Run(size, number, 6 * size * tokens, tokens, loss))
    return made
