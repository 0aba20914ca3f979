"""Compare the losses of finished runs, with intervals for what the seed may change.

A run's last loss is off by its seed: ``scaling.noise`` says by how much. Sizes with one seed take the noise
of ``NEAREST``, the largest two that have two. Intervals are Student's, 95 %, and of seeds alone.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import numpy as np

from linattn_book import results
from linattn_study.scaling import Interval
from linattn_study.scaling.noise import Noise, pool_noise, select_pooled, student_t
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, Trial

LINEAR = tuple(arch for arch in ARCHITECTURES if arch != "llama")
SIZES = tuple(MAIN_SIZES)
NEAREST = ("2M", "6M")


@functools.cache
def load_evaluations(table: str = "scaling") -> tuple[Mapping[str, Any], ...]:
    """Return the evaluations of a study, as its table has them."""
    return tuple(results.load(table))


Rows = Sequence[Mapping[str, Any]]
# Whole tables, which are tuples, are asked thousands of times: rows by the names and values asked for.
_GROUPED: dict[tuple[int, tuple[str, ...]], tuple[Rows, dict[tuple[Any, ...], Rows]]] = {}


def select(rows: Rows, **wanted: Any) -> list[Mapping[str, Any]]:
    """Return the rows that have these values: ``select(rows, arch="tnl", size="2M")``."""
    if not isinstance(rows, tuple):
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    names = tuple(sorted(wanted))
    if (id(rows), names) not in _GROUPED:
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        _GROUPED[id(rows), names] = rows, dict(groups)  # rows are kept, so that no others get their id
    return [*_GROUPED[id(rows), names][1].get(tuple(wanted[name] for name in names), ())]


def select_final_losses(
    corpus: str, arch: str, size: str, table: str = "scaling", column: str = "val_loss"
) -> list[float]:
    """Return the loss of every seed at its last evaluation, in nats per byte."""
    rows = select(load_evaluations(table), corpus=corpus, arch=arch, size=size)
    end = max(row["tokens"] for row in rows)
    return [row[column] for row in rows if row["tokens"] == end]


def estimate_noise(corpus: str, size: str, *archs: str, column: str = "val_loss") -> Noise:
    """Return the noise between seeds of a size, for a statement about ``archs``."""
    alone = all(len(select_final_losses(corpus, arch, size)) < 2 for arch in ARCHITECTURES)
    spread = pool_noise(
        np.log(select_final_losses(corpus, arch, name, column=column)).tolist()
        for name in (NEAREST if alone else (size,))
        for arch in select_pooled(ARCHITECTURES, *archs)
    )
    assert spread is not None
    return spread


def estimate_loss(corpus: str, arch: str, size: str, column: str = "val_loss") -> Interval:
    """Return the loss at the end of the runs, the mean of logarithms over seeds, with its interval."""
    logs = np.log(select_final_losses(corpus, arch, size, column=column))
    return _make_interval(
        float(logs.mean()), estimate_noise(corpus, size, arch, column=column), 1 / len(logs)
    )


def estimate_gap(
    corpus: str, arch: str, size: str, column: str = "val_loss", base: str = "llama"
) -> Interval:
    """Return by how many percent a loss is above that of LLaMA, of the same size and text."""
    mine, theirs = (np.log(select_final_losses(corpus, name, size, column=column)) for name in (arch, base))
    share, spread = 1 / len(mine) + 1 / len(theirs), estimate_noise(corpus, size, arch, base, column=column)
    ratio = _make_interval(float(mine.mean() - theirs.mean()), spread, share)
    return Interval(*(100 * (x - 1) for x in ratio))


def interpolate_gap(corpus: str, arch: str, size: str, tokens: float, column: str = "val_loss") -> float:
    """Return by how many percent a loss is above LLaMA's after so many bytes, for seed 0.

    Between evaluations a line is drawn in logarithms.
    """
    at = {}
    for name in (arch, "llama"):
        rows = select(load_evaluations(), corpus=corpus, arch=name, size=size, seed=0)
        x, y = (np.log([row[part] for row in rows]) for part in ("tokens", column))
        at[name] = float(np.interp(math.log(tokens), x, y))
    return 100 * (math.exp(at[arch] - at["llama"]) - 1)


@functools.cache
def load_tuning() -> Mapping[tuple[str, str, str], Mapping[float, float]]:
    """Return (corpus, arch, size) -> learning rate -> validation loss after one pass."""
    rows = [*load_evaluations("scaling_lr"), *load_evaluations("scaling_lr_edges")]
    end = max(row["tokens"] for row in rows)
    by_model: dict[tuple[str, str, str], dict[float, float]] = {}
    for row in sorted(select(rows, tokens=end), key=lambda row: row["lr"]):
        by_model.setdefault((row["corpus"], row["arch"], row["size"]), {})[row["lr"]] = row["val_loss"]
    return by_model


def _make_interval(log: float, spread: Noise, share: float) -> Interval:
    """Return exp(log) with its interval; ``share`` is its variance in units of that of one run."""
    half = student_t(spread.freedom) * spread.sd * math.sqrt(share)
    return Interval(math.exp(log), math.exp(log - half), math.exp(log + half))


Count = Literal["all", "causal", "6ND", "seconds", "sdpa"]


def estimate_cost(corpus: str, arch: str, above: float, count: Count = "all") -> Interval:
    """Return what a loss costs over what it costs LLaMA: FLOPs, or seconds of training.

    The loss is ``above`` times the lowest that both reach in validation. Of LLaMA's attention ``"causal"``
    counts only the half that is not masked, and ``"6ND"`` no model's token mixing; ``"sdpa"`` is seconds with
    LLaMA's softmax by torch's kernel in place of ours. The interval is that of all losses of ``arch`` moved
    together, by what a seed may move a pair of runs; not a number where the moved loss is never reached.
    """
    curves = {name: _make_curves(corpus, name, count) for name in (arch, "llama")}
    at = above * max(min(loss.min() for _, loss in curve) for curve in curves.values())
    spread = estimate_noise(corpus, SIZES[-1], arch)
    off = math.exp(student_t(spread.freedom) * spread.sd * math.sqrt(2))
    value, *ends = (
        _find_cheapest(curves[arch], at * move) / _find_cheapest(curves["llama"], at)
        for move in (1, off, 1 / off)
    )
    return Interval(value, float(np.min(ends)), float(np.max(ends)))


def compute_bytes_per_second(
    corpus: str, arch: str, size: str, table: str = "scaling", **wanted: Any
) -> float:
    """Return the speed of training: the median between evaluations after 16 MB, over all seeds."""
    speeds = []
    rows = [row for row in load_evaluations(table) if row["tokens"] > 2 * Trial.warmup_tokens]
    for before, after in pairwise(select(rows, corpus=corpus, arch=arch, size=size, **wanted)):
        if before["seed"] == after["seed"]:
            speeds.append((after["tokens"] - before["tokens"]) / (after["seconds"] - before["seconds"]))
    return median(speeds)


def compute_sdpa_gain(arch: str, size: str) -> float:
    """Return how many times as fast a step is with torch's kernel for softmax; 1 for linear models."""
    rows = select(load_evaluations("step_cost"), arch=arch, size=size)
    times = {row["attention"]: row["step_ms"] for row in rows}
    return float(times["ours"] / times.get("sdpa", times["ours"]))


def list_costs(corpus: str, arch: str, count: Count) -> list[float]:
    """Return ``estimate_cost`` at twenty losses, from 1 to 20 % above the lowest that both reach."""
    return [estimate_cost(corpus, arch, above, count).value for above in np.linspace(1.01, 1.2, 20).tolist()]


@functools.cache
def _make_curves(corpus: str, arch: str, count: Count) -> list[tuple[Any, Any]]:
    """Return (FLOPs or seconds, loss) of each size at its evaluations, mean over seeds."""
    curves = []
    for size in SIZES:
        rows = select(load_evaluations(), corpus=corpus, arch=arch, size=size)
        tokens = sorted({row["tokens"] for row in rows})
        at = [select(rows, tokens=n) for n in tokens]
        if count in ("seconds", "sdpa"):
            gain = compute_sdpa_gain(arch, size) if count == "sdpa" else 1.0
            spent = np.array(tokens) / (gain * compute_bytes_per_second(corpus, arch, size))
        elif count == "6ND":
            spent = 6.0 * rows[0]["n_params"] * np.array(tokens)
        else:
            share = (
                _compute_causal_share(rows[0]["d_model"]) if count == "causal" and arch == "llama" else 1.0
            )
            spent = np.array([same[0]["flops"] * share for same in at])
        losses = [math.exp(np.log([row["val_loss"] for row in same]).mean()) for same in at]
        curves.append((spent, np.array(losses)))
    return curves


def _compute_causal_share(d: int, n: int = 1024) -> float:
    """Return the share of LLaMA's FLOPs that is left if the term n / (6 d) of attention is halved."""
    return (1 + n / (12 * d) + 5 / (18 * d)) / (1 + n / (6 * d) + 5 / (18 * d))


def _find_cheapest(curves: Sequence[tuple[Any, Any]], loss: float) -> float:
    """Return the least that any size spends to reach a loss; between evaluations a line in logarithms."""
    fewest = math.inf
    for spent, losses in curves:
        lowest = np.minimum.accumulate(losses)
        if lowest[-1] <= loss:
            at = np.interp(-math.log(loss), -np.log(lowest), np.log(spent))
            fewest = min(fewest, float(np.exp(at)))
    return fewest if math.isfinite(fewest) else math.nan
