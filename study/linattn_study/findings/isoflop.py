"""Find the best size of each budget in runs that were trained to exactly that budget, and its exponent."""

import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from linattn_study.findings.losses import ARCHITECTURES, Rows
from linattn_study.findings.variants import select_ends
from linattn_study.plan import ISO_BUDGETS
from linattn_study.scaling import Interval, fit_power_law
from linattn_study.scaling.noise import pool_noise
from linattn_study.scaling.runs import Array

TABLE = "scaling_isoflop"
BUDGETS = tuple(ISO_BUDGETS)  # FLOPs, as 6 N D
N_SEEDS = 2


class Valley(NamedTuple):
    """Hold the runs of one budget.

    Args:
        n_params: sizes without embeddings, rising.
        losses: final validation losses of each size's seeds, at the rate whose mean is lowest; nats per byte.
        rates: those rates.
    """

    n_params: Sequence[int]
    losses: Sequence[Sequence[float]]
    rates: Sequence[float]


def select_valley(arch: str, budget: float) -> Valley:
    """Return the runs of an architecture that spend a budget; a rate counts if all seeds have it.

    Args:
        arch: "llama" or "hgrn2".
        budget: one of ``BUDGETS``.
    """
    ends = [row for row in select_ends(TABLE, arch=arch) if find_budget(row) == budget]
    sizes = sorted({row["n_params"] for row in ends})
    chosen = [_choose_rate([row for row in ends if row["n_params"] == n]) for n in sizes]
    return Valley(sizes, [losses for _, losses in chosen], [rate for rate, _ in chosen])


def find_budget(row: Mapping[str, Any]) -> float:
    """Return the budget that a run was made for."""
    spent = 6 * row["n_params"] * row["run_tokens"]
    return min(BUDGETS, key=lambda budget: abs(math.log(spent / budget)))


def _choose_rate(rows: Rows) -> tuple[float, list[float]]:
    """Return the rate with the lowest mean loss of those that all seeds have, and its losses."""
    by_rate: dict[float, list[float]] = {}
    for row in rows:
        by_rate.setdefault(row["lr"], []).append(row["val_loss"])
    whole = {rate: losses for rate, losses in by_rate.items() if len(losses) == N_SEEDS}
    return min(whole.items(), key=lambda one: sum(one[1]))


def average(valley: Valley) -> list[float]:
    """Return the mean loss of each size's seeds, in the logarithm."""
    return [math.exp(np.log(losses).mean()) for losses in valley.losses]


def fit_parabola(n_params: Sequence[float], losses: Sequence[float]) -> tuple[float, float, float]:
    """Fit log loss by a parabola of x = log N, by least squares.

    Args:
        n_params: sizes, rising.
        losses: of these sizes.

    Returns:
        Its coefficients from the highest power on, of x.

    Raises:
        ValueError: no minimum.
    """
    x, y = np.log(n_params), np.log(losses)
    middle = float(x.mean())  # around which the fit is well conditioned
    curvature, slope, constant = map(float, np.polyfit(x - middle, y, 2))
    if not curvature > 0:
        raise ValueError("losses: got a parabola that is open below, expected one with a minimum")
    return curvature, slope - 2 * curvature * middle, constant - slope * middle + curvature * middle**2


def find_lowest(n_params: Sequence[float], losses: Sequence[float]) -> tuple[float, float]:
    """Return the size at which the parabola of ``fit_parabola`` is lowest, and its loss there."""
    curvature, slope, constant = fit_parabola(n_params, losses)
    return math.exp(-slope / (2 * curvature)), math.exp(constant - slope**2 / (4 * curvature))


def find_bottom(valley: Valley) -> tuple[float, float]:
    """Return size and loss at the bottom of the parabola through a valley's means."""
    return find_lowest(valley.n_params, average(valley))


def fit_exponent(valleys: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return a of N ~ C^a from (sizes, losses) at each of ``BUDGETS``."""
    best = np.array([find_lowest(sizes, losses)[0] for sizes, losses in valleys])
    return fit_power_law(np.array(BUDGETS), best).exponent


def fit_valleys(valleys: Sequence[Valley]) -> float:
    """Return a of N ~ C^a from the means over seeds."""
    return fit_exponent([(valley.n_params, average(valley)) for valley in valleys])


def fit_means(arch: str, sizes: slice = slice(None)) -> float:
    """Return ``fit_valleys`` of an architecture; ``sizes`` says which of each budget count (all)."""
    return fit_valleys(select_sizes(select_valleys(arch), sizes))


def select_sizes(valleys: Sequence[Valley], sizes: slice) -> list[Valley]:
    """Return valleys with some of their sizes."""
    return [Valley(v.n_params[sizes], v.losses[sizes], v.rates[sizes]) for v in valleys]


@functools.cache
def select_valleys(arch: str) -> list[Valley]:
    """Return the runs of an architecture, a valley for each of ``BUDGETS``."""
    return [select_valley(arch, budget) for budget in BUDGETS]


def estimate_exponent(arch: str) -> Interval:
    """Return a of N ~ C^a with a 95 % interval over seeds."""
    return make_interval(fit_means(arch), _draw_exponents(arch))


def estimate_difference() -> Interval:
    """Return LLaMA's a less HGRN2's, with a 95 % interval over seeds."""
    return make_interval(
        fit_means("llama") - fit_means("hgrn2"), _draw_exponents("llama") - _draw_exponents("hgrn2")
    )


@functools.cache
def _draw_exponents(arch: str) -> Array:
    """Return a thousand exponents of an architecture; draws of two architectures are independent."""
    return draw_exponents(select_valleys(arch), np.random.default_rng(ARCHITECTURES.index(arch)), 1000)


def draw_exponents(valleys: Sequence[Valley], rng: np.random.Generator, n: int) -> Array:
    """Return n exponents a for losses that are moved by what means over seeds may be off.

    The spread of log loss between seeds is pooled over the sizes of a budget. It is drawn, too, from its
    estimate and degrees of freedom, so intervals have Student's width. Not a number where some valley has no
    minimum.

    Args:
        valleys: one for each of ``BUDGETS``, every size with ``N_SEEDS`` losses.
        rng: of the draws.
        n: how many.
    """
    noises = [pool_noise([np.log(losses).tolist() for losses in valley.losses]) for valley in valleys]
    drawn = np.full(n, np.nan)
    for i in range(n):
        some = []
        for valley, noise in zip(valleys, noises, strict=True):
            assert noise is not None  # each size has two seeds
            sd = noise.sd * math.sqrt(noise.freedom / rng.chisquare(noise.freedom) / N_SEEDS)
            moved = np.log(average(valley)) + sd * rng.normal(size=len(valley.losses))
            some.append((valley.n_params, np.exp(moved).tolist()))
        with suppress(ValueError):
            drawn[i] = fit_exponent(some)
    return drawn


def make_interval(value: float, drawn: Array) -> Interval:
    """Return a value with the range of 95 % of draws."""
    low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return Interval(value, float(low), float(high))
