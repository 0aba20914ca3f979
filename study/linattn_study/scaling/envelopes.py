"""Fit scaling laws to the best of many runs at each budget of compute.

Runs of several sizes, each a curve of loss against compute, are brought to common budgets. The lowest curve
at a budget tells the best loss L, the parameters N that reach it and the tokens D that they see; then
``log y = log coefficient + exponent log C`` is fitted to each. That is the method of arXiv 2406.16690,
section 4 (approach 1 of Hoffmann et al. 2022, arXiv 2203.15556), which has no irreducible loss and prints no
intervals.

Our choices where it is silent: curves are interpolated in logarithms, seeds of a size are averaged, budgets
are spaced evenly in log C. Beside all points of the envelope, laws are fitted to its corners
(``find_crossings``) and to the minima of parabolas (``find_iso_flop_minima``): both find exponents that are
known, where all points do not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from linattn_study.scaling.noise import Noise
from linattn_study.scaling.runs import PFLOPS_DAY, Array, Interval, Law, PowerLaw, Run, fit_power_law


@dataclass(frozen=True)
class Envelope:
    """Hold the best of all sizes at each budget: compute, loss, parameters, tokens, all [G]."""

    flops: Array
    loss: Array
    n_params: Array
    tokens: Array


class _Curves(NamedTuple):
    """Hold runs at common budgets: log loss [S, G], infinite where a size has none, and more."""

    flops: Array  # [G]
    log_loss: Array  # [S, G], mean over seeds
    tokens: Array  # [S, G]
    n_params: Array  # [S], rising
    n_seeds: Array  # [S]
    spread: float  # standard deviation of log loss between seeds of a size, pooled over sizes
    freedom: int  # degrees of it


def _collect_curves(runs: Sequence[Run], n_budgets: int) -> _Curves:
    """Bring runs to common budgets, the mean over the seeds of each size."""
    sizes = sorted({run.n_params for run in runs})
    if len(sizes) < 3:
        raise ValueError(f"runs: got {len(sizes)} sizes, expected at least 3")
    low, high = min(run.flops[0] for run in runs), max(run.flops[-1] for run in runs)
    flops = np.geomspace(low, high, n_budgets)
    loss, tokens = np.full((len(sizes), n_budgets), np.inf), np.full((len(sizes), n_budgets), np.nan)
    n_seeds, squares, freedom = np.zeros(len(sizes)), 0.0, 0
    for s, size in enumerate(sizes):
        same = [run for run in runs if run.n_params == size]
        logs = np.stack([_interpolate(flops, run.flops, np.log(run.loss)) for run in same])  # [seeds, G]
        mean = logs.mean(0)
        inside = np.isfinite(mean)
        loss[s, inside] = mean[inside]
        tokens[s] = np.exp(
            np.stack([_interpolate(flops, run.flops, np.log(run.tokens)) for run in same]).mean(0)
        )
        n_seeds[s] = len(same)
        if len(same) > 1 and inside.any():
            offsets = (logs - mean)[:, inside].mean(1)  # of a seed's whole curve
            squares, freedom = squares + float((offsets**2).sum()), freedom + len(same) - 1
    spread = np.sqrt(squares / freedom) if freedom else 0.0
    return _Curves(flops, loss, tokens, np.array(sizes), n_seeds, float(spread), freedom)


def _interpolate(flops: Array, x: Array, y: Array) -> Array:
    """Interpolate y at budgets, linearly in log compute; NaN outside of the run."""
    return np.interp(np.log(flops), np.log(x), y, left=np.nan, right=np.nan)


def find_lower_envelope(runs: Sequence[Run], n_budgets: int = 200, at_least: int = 2) -> Envelope:
    """Return the lowest curve at each budget; its parameters go up in steps.

    Args:
        runs: of three sizes at least.
        n_budgets: spaced evenly in log compute; default 200.
        at_least: sizes that must reach a budget for it to count; default 2.
    """
    curves = _collect_curves(runs, n_budgets)
    return _find_steps(curves, curves.log_loss, at_least)


def _find_steps(curves: _Curves, log_loss: Array, at_least: int = 2) -> Envelope:
    """Return the lowest curve at each budget that ``at_least`` sizes reach."""
    g = np.flatnonzero(np.isfinite(log_loss).sum(0) >= at_least)
    s = log_loss[:, g].argmin(0)
    return Envelope(curves.flops[g], np.exp(log_loss[s, g]), curves.n_params[s], curves.tokens[s, g])


def find_crossings(runs: Sequence[Run], n_budgets: int = 200) -> Envelope:
    """Return the corners of the lower envelope: budgets at which a size and the next have the same loss.

    There the best size, if all sizes were there, lies between the two: their geometric mean, up to the third
    derivative of the loss. A fit to all points of the envelope depends on where its first and last step are
    cut off.

    Raises:
        ValueError: fewer than three sizes, or curves that cross at fewer than two budgets.
    """
    curves = _collect_curves(runs, n_budgets)
    return _find_corners(curves, curves.log_loss)


def _find_corners(curves: _Curves, log_loss: Array) -> Envelope:
    """Return where the curves of neighbouring sizes cross."""
    corners = []
    log_flops = np.log(curves.flops)
    for s in range(len(curves.n_params) - 1):
        g = np.flatnonzero(np.isfinite(log_loss[s]) & np.isfinite(log_loss[s + 1]))
        ahead = log_loss[s + 1, g] - log_loss[s, g]  # of the smaller size
        changes = np.flatnonzero((ahead[:-1] > 0) & (ahead[1:] <= 0))
        if not len(changes):
            continue  # one of them is better all the way
        i = changes[len(changes) // 2]  # noise makes them cross several times
        share = ahead[i] / (ahead[i] - ahead[i + 1])
        at = log_flops[g[i]] + share * (log_flops[g[i + 1]] - log_flops[g[i]])
        pair = slice(s, s + 2)
        tokens = [np.interp(at, log_flops[g], np.log(row[g])) for row in curves.tokens[pair]]
        loss = np.interp(at, log_flops[g], log_loss[s, g])
        corners.append((at, loss, np.log(curves.n_params[pair]).mean(), np.mean(tokens)))
    if len(corners) < 2:
        raise ValueError(
            f"runs: {len(corners)} crossings of curves of neighbouring sizes, expected two at least"
        )
    return Envelope(*np.exp(np.array(corners)).T)


def find_iso_flop_minima(runs: Sequence[Run], n_budgets: int = 200) -> Envelope:
    """Return, at each budget, the minimum of a parabola of log loss over log N.

    The parabola goes through the best size and its two neighbours.

    Approach 2 of Hoffmann et al. 2022, with budgets read off the curves instead of runs made for them.

    Raises:
        ValueError: fewer than three sizes, or than two budgets at which a size between two others is best.
    """
    curves = _collect_curves(runs, n_budgets)
    return _find_minima(curves, curves.log_loss)


def _find_minima(curves: _Curves, log_loss: Array) -> Envelope:
    """Return the minima of parabolas through the best size and its neighbours."""
    x, best = np.log(curves.n_params), log_loss.argmin(0)
    inner = np.flatnonzero(
        (best > 0) & (best < len(x) - 1)
    )  # else the best size may be one that is not there
    three = best[inner] + np.arange(-1, 2)[:, None]  # [3, G]
    g = np.isfinite(log_loss[three, inner]).all(0)
    three, inner = three[:, g], inner[g]
    if len(inner) < 2:
        raise ValueError(
            f"runs: {len(inner)} budgets at which a size between others is best, expected two at least"
        )
    (x0, x1, x2), (y0, y1, y2) = x[three], log_loss[three, inner]
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    curvature = (right - left) / (x2 - x0)
    at = (x0 + x1) / 2 - left / (
        2 * curvature
    )  # where y0 + left (x - x0) + curvature (x - x0) (x - x1) is flat
    lowest = y0 + left * (at - x0) + curvature * (at - x0) * (at - x1)
    t0, t1, t2 = np.log(curves.tokens[three, inner])
    tokens = np.where(at < x1, t1 + (at - x1) * (t1 - t0) / (x1 - x0), t1 + (at - x1) * (t2 - t1) / (x2 - x1))
    return Envelope(curves.flops[inner], np.exp(lowest), np.exp(at), np.exp(tokens))


LAWS = ("loss", "parameters", "tokens", "product")
METHODS: dict[str, Callable[[_Curves, Array], Envelope]] = {
    "envelope": _find_steps,
    "whole_envelope": partial(_find_steps, at_least=1),
    "corners": _find_corners,
    "iso_flop": _find_minima,
}


def fit_laws(
    runs: Sequence[Run],
    method: str = "corners",
    *,
    n_budgets: int = 200,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    noise: Mapping[float, Noise] | None = None,
) -> dict[str, Law]:
    """Fit L(C), N_opt(C), D_opt(C) and their product N D, C in PFLOP/s-days.

    Intervals are of a parametric bootstrap over seeds: each resample moves the whole curve of every size by
    what a mean over its seeds may be off, with a spread that is itself drawn (from its estimate and degrees
    of freedom), and fits again. What they do not hold is doubt about the method: see the other fits.

    Args:
        runs: of three sizes at least, one of them with two seeds.
        method: what the laws are fitted to: all points of the "whole_envelope", as in the paper; the
            "envelope" where there are two sizes to choose from; its "corners" (default); or the minima of
            "iso_flop".
        n_budgets: spaced evenly in log compute; default 200.
        n_resamples: of the bootstrap; default 1000.
        confidence: of the intervals; default 0.95.
        seed: of the bootstrap; default 0.
        noise: parameters -> noise between seeds of that size; default: pooled over all sizes.

    Returns:
        "loss", "parameters", "tokens" and "product" -> law.

    Raises:
        ValueError: as these; an unknown method; no size has two seeds; or most resamples cannot be fitted.
    """
    if method not in METHODS:
        raise ValueError(f"method: got {method!r}, expected one of {list(METHODS)}")
    curves = _collect_curves(runs, n_budgets)
    if noise is None and curves.freedom == 0:
        raise ValueError("runs: got one seed of each size, expected a size with two at least, for intervals")
    alike = Noise(curves.spread, curves.freedom)
    noises = [alike if noise is None else noise[size] for size in curves.n_params]
    fitted = _fit_envelope(METHODS[method](curves, curves.log_loss))
    generator = np.random.default_rng(seed)
    resampled = []
    for _ in range(n_resamples):
        drawn = {
            one: one.sd * np.sqrt(one.freedom / generator.chisquare(one.freedom))
            for one in dict.fromkeys(noises)
        }
        spread = np.array([drawn[one] for one in noises])
        offsets = generator.normal(size=len(noises)) * spread / np.sqrt(curves.n_seeds)
        try:
            resampled.append(_fit_envelope(METHODS[method](curves, curves.log_loss + offsets[:, None])))
        except ValueError:
            continue  # so far off that they do not cross
    failed = n_resamples - len(resampled)
    if 2 * failed > n_resamples:
        raise ValueError(f"runs: {failed} of {n_resamples} resamples could not be fitted by {method!r}")
    tails = (50 * (1 - confidence), 50 * (1 + confidence))
    laws = {}
    for i, name in enumerate(LAWS):
        parts = []
        for part in range(2):
            low, high = np.percentile([fit[i][part] for fit in resampled], tails)
            parts.append(Interval(fitted[i][part], float(low), float(high)))
        laws[name] = Law(*parts)
    return laws


def _fit_envelope(envelope: Envelope) -> list[PowerLaw]:
    """Fit the laws of ``LAWS`` to an envelope."""
    product = envelope.n_params * envelope.tokens
    C = envelope.flops / PFLOPS_DAY
    return [fit_power_law(C, y) for y in (envelope.loss, envelope.n_params, envelope.tokens, product)]
