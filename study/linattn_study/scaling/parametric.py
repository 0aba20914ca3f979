"""Fit one function of parameters N and tokens D to all evaluations: L = E + A / N^alpha + B / D^beta.

Approach 3 of Hoffmann et al. 2022 (arXiv 2203.15556, section 3.3). There, Huber's loss of log L is minimised
by L-BFGS from many starts. Here the squares of relative errors are: for given exponents L is linear in E, A
and B, so these three are found in closed form, none of them below zero, and a search over the two exponents
is left, which needs no start.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from linattn_study.scaling.noise import student_t
from linattn_study.scaling.runs import Array, Interval, Run

SPAN = (0.02, 2.0)  # of both exponents


class Surface(NamedTuple):
    """Hold L(N, D) = irreducible + A / N^alpha + B / D^beta, in nats per byte if losses were."""

    irreducible: float  # E
    A: float
    B: float
    alpha: float
    beta: float

    def __call__(self, n_params: Array, tokens: Array) -> Array:
        return self.irreducible + self.A / n_params**self.alpha + self.B / tokens**self.beta

    @property
    def parameters(self) -> float:
        """The exponent a in N_opt(C) ~ C^a, if C is proportional to N D; that of tokens is 1 - a."""
        return self.beta / (self.alpha + self.beta)

    def find_best_size(self, flops: float) -> float:
        """Return the N with the lowest loss among those with 6 N D = flops."""
        ratio = self.alpha * self.A / (self.beta * self.B)
        best: float = (ratio * (flops / 6) ** self.beta) ** (1 / (self.alpha + self.beta))
        return best


class Parametric(NamedTuple):
    """Hold the exponents of a surface with intervals."""

    irreducible: Interval
    alpha: Interval
    beta: Interval
    parameters: Interval


def fit_surface(n_params: Array, tokens: Array, loss: Array) -> Surface:
    """Fit a surface by least squares of relative errors.

    Args:
        n_params, tokens, loss: one number of each for every evaluation.

    Raises:
        ValueError: shapes differ, numbers are not positive, or there are fewer than three different N or D.
    """
    if not n_params.shape == tokens.shape == loss.shape or loss.ndim != 1:
        raise ValueError(
            f"n_params, tokens, loss: got shapes {n_params.shape}, {tokens.shape} and {loss.shape}, expected "
            "one number of each for every evaluation"
        )
    if not all((x > 0).all() and np.isfinite(x).all() for x in (n_params, tokens, loss)):
        raise ValueError("n_params, tokens, loss: expected positive, finite numbers")
    if min(len(np.unique(n_params)), len(np.unique(tokens))) < 3:
        raise ValueError("n_params, tokens: expected three different ones of each at least")
    centre, scale = float(np.exp(np.log(n_params).mean())), float(np.exp(np.log(tokens).mean()))
    n, d = np.log(n_params / centre), np.log(tokens / scale)
    low, high = np.log(SPAN)
    alpha, beta = _search(n, d, loss, (low + high) / 2, (low + high) / 2, (high - low) / 2, grid=21, zooms=9)
    _, linear = _solve_coefficients(n, d, loss, np.exp([alpha]), np.exp([beta]))
    return _make_surface(linear[0, 0], np.exp(alpha), np.exp(beta), centre, scale)


def _make_surface(linear: Array, alpha: float, beta: float, centre: float, scale: float) -> Surface:
    """Return a surface from coefficients for n_params / centre and tokens / scale."""
    E, A, B = linear
    return Surface(float(E), float(A * centre**alpha), float(B * scale**beta), float(alpha), float(beta))


def _search(
    n: Array, d: Array, loss: Array, alpha: float, beta: float, half: float, grid: int, zooms: int
) -> tuple[float, float]:
    """Return the logarithms of the best exponents, by a grid around the best so far, ever finer."""
    low, high = np.log(SPAN)
    for _ in range(zooms):
        alphas, betas = (np.linspace(x - half, x + half, grid).clip(low, high) for x in (alpha, beta))
        errors, _ = _solve_coefficients(n, d, loss, np.exp(alphas), np.exp(betas))
        i, j = np.unravel_index(errors.argmin(), errors.shape)
        alpha, beta = float(alphas[i]), float(betas[j])
        half *= 4 / (grid - 1)  # two steps: the minimum may lie beside a cell's neighbours
    return alpha, beta


def _solve_coefficients(n: Array, d: Array, loss: Array, alphas: Array, betas: Array) -> tuple[Array, Array]:
    """Return the squares left [a, b] and the best (E, A, B) [a, b, 3] for all pairs of exponents."""
    ones = 1 / loss  # [P]: everything is divided by the loss
    ns, ds = np.exp(-alphas[:, None] * n) / loss, np.exp(-betas[:, None] * d) / loss  # [a, P], [b, P]
    a, b = len(alphas), len(betas)
    gram = np.empty((a, b, 3, 3))
    gram[..., 0, 0] = ones @ ones
    gram[..., 0, 1] = gram[..., 1, 0] = (ns @ ones)[:, None]
    gram[..., 0, 2] = gram[..., 2, 0] = (ds @ ones)[None, :]
    gram[..., 1, 1] = (ns**2).sum(1)[:, None]
    gram[..., 2, 2] = (ds**2).sum(1)[None, :]
    gram[..., 1, 2] = gram[..., 2, 1] = ns @ ds.T
    right = np.empty((a, b, 3))
    right[..., 0] = ones.sum()
    right[..., 1] = ns.sum(1)[:, None]
    right[..., 2] = ds.sum(1)[None, :]
    least, best = np.full((a, b), np.inf), np.zeros((a, b, 3))
    for kept in (list(some) for size in (3, 2, 1) for some in combinations(range(3), size)):
        part = gram[..., kept, :][..., kept] + 1e-12 * np.eye(len(kept))  # where two columns are alike
        solution = np.linalg.solve(part, right[..., kept, None])[..., 0]
        squares = len(loss) - (solution * right[..., kept]).sum(-1)
        better = (solution >= 0).all(-1) & (squares < least)
        least = np.where(better, squares, least)
        full = np.zeros((a, b, 3))
        full[..., kept] = solution
        best = np.where(better[..., None], full, best)
    return least, best


def fit_parametric(
    runs: Sequence[Run],
    *,
    from_tokens: float = 0.0,
    n_resamples: int = 100,
    confidence: float = 0.95,
    seed: int = 0,
) -> Parametric:
    """Fit a surface to all evaluations from ``from_tokens`` on, with intervals of a bootstrap over seeds.

    What curves of a size differ by from seed to seed is the noise. A resample gives each run a mixture of
    these differences, so errors along a curve stay together. Their number is small, so an interval is as many
    standard deviations over the resamples wide as Student's t asks for.

    Args:
        runs: of several sizes, one of them with two seeds at least.
        from_tokens: bytes of the first evaluation; default 0.
        n_resamples: default 100.
        confidence: of the intervals; default 0.95.
        seed: of the bootstrap; default 0.

    Raises:
        ValueError: no size has two seeds; or see ``fit_surface``.
    """
    noises, freedom = _estimate_noises(runs)
    points = [(run, run.tokens >= from_tokens) for run in runs]
    n_params = np.concatenate([np.full(keep.sum(), run.n_params) for run, keep in points])
    tokens = np.concatenate([run.tokens[keep] for run, keep in points])
    loss = np.concatenate([run.loss[keep] for run, keep in points])
    surface = fit_surface(n_params, tokens, loss)
    n, d = (np.log(x) - np.log(x).mean() for x in (n_params, tokens))
    generator, resampled = np.random.default_rng(seed), []
    for _ in range(n_resamples):
        weights = generator.normal(size=(len(runs), len(noises))) / np.sqrt(len(noises))
        moved = np.concatenate(
            [
                run.loss[keep] * np.exp(_mix_noises(noises, w, np.log(run.tokens[keep])))
                for (run, keep), w in zip(points, weights, strict=True)
            ]
        )
        start = np.log(surface.alpha), np.log(surface.beta)
        alpha, beta = np.exp(_search(n, d, moved, *start, half=0.6, grid=9, zooms=11))
        linear = _solve_coefficients(n, d, moved, np.array([alpha]), np.array([beta]))[1][0, 0]
        resampled.append((linear[0], alpha, beta, beta / (alpha + beta)))
    estimates = surface.irreducible, surface.alpha, surface.beta, surface.parameters
    widths = student_t(freedom, confidence) * np.std(resampled, axis=0)
    return Parametric(
        *(Interval(x, float(x - w), float(x + w)) for x, w in zip(estimates, widths, strict=True))
    )


def _mix_noises(noises: Sequence[tuple[Array, Array]], weights: Array, x: Array) -> Array:
    """Return the weighted sum of noises at log tokens x."""
    mixed: Array = weights @ np.stack([np.interp(x, *noise) for noise in noises])
    return mixed


def _estimate_noises(runs: Sequence[Run]) -> tuple[list[tuple[Array, Array]], int]:
    """Return how seeds differ from the mean of their size in log loss, by log tokens; degrees of freedom.

    They are stretched to what a single run differs by from the mean of very many.
    """
    noises, freedom = [], 0
    for size in sorted({run.n_params for run in runs}):
        same = [run for run in runs if run.n_params == size]
        if len(same) < 2:
            continue
        x = np.log(same[0].tokens)
        logs = np.stack([np.interp(x, np.log(run.tokens), np.log(run.loss)) for run in same])
        freedom += len(same) - 1
        noises += [(x, noise) for noise in (logs - logs.mean(0)) * np.sqrt(len(same) / (len(same) - 1))]
    if not freedom:
        raise ValueError("runs: got one seed of each size, expected a size with two at least, for intervals")
    return noises, freedom
