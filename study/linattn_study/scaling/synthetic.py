"""Make runs whose laws are known, in the shape of the study: the fits are tested on them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linattn_study.scaling.parametric import Surface
from linattn_study.scaling.runs import Array, Run

SIZES = tuple(float(n) for n in np.geomspace(2e5, 3e7, 6))
SEEDS = (2, 2, 2, 2, 1, 1)  # of each size
NOISE = 0.004
PURE = Surface(irreducible=0.0, A=400.0, B=410.0, alpha=0.34, beta=0.28)  # so L(C) is a power law, too
RAISED = Surface(irreducible=0.5, A=20.0, B=30.0, alpha=0.34, beta=0.28)
CHINCHILLA = Surface(irreducible=1.69, A=406.4, B=410.7, alpha=0.34, beta=0.28)  # arXiv 2203.15556, eq. 10


class Design(NamedTuple):
    """Say which runs are made: their sizes and seeds, and the tokens at which they are evaluated."""

    sizes: Sequence[float]
    seeds: Sequence[int]
    tokens: Array


# What the study's fits see: 25 evaluations from the end of the warm-up on; and all 40, from 1 MB on. What the
# paper prints of its runs: six sizes, one run each, 300 G tokens, 1,376 checkpoints of 24 models; it does not
# say how they are spaced.
_STUDY = np.geomspace(2**20, 2.32e8, 40)
_PAPER = (20.5e6, 85.0e6, 334.1e6, 906.2e6, 2775.8e6, 6476.5e6)
_LAST, _CHECKPOINTS = 300e9, 57
DESIGNS = {
    "study": Design(SIZES, SEEDS, _STUDY[-25:]),
    "study, with the warm-up": Design(SIZES, SEEDS, _STUDY),
    "paper, even in tokens": Design(_PAPER, (1,) * 6, np.linspace(0, _LAST, _CHECKPOINTS + 1)[1:]),
    "paper, even in logarithms": Design(_PAPER, (1,) * 6, np.geomspace(1e9, _LAST, _CHECKPOINTS)),
}


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
        noise: see ``make_designed_runs``.
        seed: of the noise.
        seeds: how many runs of each size.
        first: tokens before the first evaluation.
        n_evaluations: of each run.
    """
    design = Design(SIZES, seeds, np.geomspace(first, 2.4e8, n_evaluations))
    return make_designed_runs(surface, design, noise, seed)


def make_designed_runs(surface: Surface, design: Design, noise: float = NOISE, seed: int = 0) -> list[Run]:
    """Make runs of a design, C = 6 N D.

    Args:
        surface: the loss without noise.
        design: sizes, seeds and evaluations.
        noise: standard deviation of log loss from run to run; half of that from evaluation to evaluation.
        seed: of the noise.
    """
    generator, made, tokens = np.random.default_rng(seed), [], design.tokens
    for size, n in zip(design.sizes, design.seeds, strict=True):
        for number in range(n):
            errors = generator.normal() + generator.normal(size=len(tokens)) / 2
            loss = surface(np.array(size), tokens) * np.exp(noise * errors)
            made.append(Run(size, number, 6 * size * tokens, tokens, loss))
    return made
