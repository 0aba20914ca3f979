"""Measure what chapters show live: seconds, peak bytes, and the slope that says how a cost grows.

Timings depend on the machine, so the book quotes them from ``linattn_book.results``; slopes, counts and bytes
can be checked anywhere. Device time of kernels is measured by ``linattn_benchmarks.clock``.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from linattn_ref.training.distributed import get_default_device as get_default_device


class Slope(NamedTuple):
    """Hold a power law, y = coefficient * x ** exponent."""

    exponent: float
    coefficient: float


def fit_slope(x: ArrayLike, y: ArrayLike) -> Slope:
    """Fit a power law through points: an exponent of 1 is linear growth, 2 quadratic.

    Args:
        x, y: at least two points, all numbers above 0.

    Returns:
        ``Slope(exponent, coefficient)`` of y = coefficient * x ** exponent, by least squares on logarithms.

    Raises:
        ValueError: x and y differ in length, have fewer than two numbers, or one that is not above 0.

    Example:
        >>> round(fit_slope([1, 2, 4], [3, 12, 48]).exponent, 6)
        2.0
    """
    if np.shape(x) != np.shape(y) or np.size(x) < 2:
        raise ValueError(f"x, y: got lengths {np.size(x)} and {np.size(y)}, expected equal, at least 2")
    points = np.array([x, y], dtype=float)
    if not (np.isfinite(points).all() and (points > 0).all()):
        raise ValueError(f"x, y: got a least value of {points.min():.4g}, expected positive finite numbers")
    log_x, log_y = np.log(points)
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    return Slope(float(exponent), float(np.exp(intercept)))


def seconds(function: Callable[[], Any], repeats: int = 5, warmup: int = 1, at_least: float = 0.0) -> float:
    """Return the median wall-clock seconds of a call, launches included; wait for all GPUs to finish.

    Args:
        function: what is called, without arguments.
        repeats: least number of calls that are timed. Default 5.
        warmup: least number of calls before them. Default 1.
        at_least: least seconds that the warm-up takes, and again the timed calls. Short calls need some: a
            device that was idle is slow at first, and a disturbance of the machine outlasts a few of them.
            Default 0.

    Returns:
        The median over the timed calls.

    Example:
        >>> 0 < seconds(lambda: sum(range(1000))) < 1
        True
    """
    _time_calls(function, warmup, at_least)
    return statistics.median(_time_calls(function, repeats, at_least))


def _time_calls(function: Callable[[], Any], number: int, at_least: float) -> list[float]:
    """Return the seconds of each of at least ``number`` calls."""
    times: list[float] = []
    end = time.perf_counter() + at_least
    while len(times) < number or time.perf_counter() < end:
        _wait()
        start = time.perf_counter()
        function()
        _wait()
        times.append(time.perf_counter() - start)
    return times


def _wait() -> None:
    """Wait until all GPUs are idle."""
    for i in range(torch.cuda.device_count()):
        torch.cuda.synchronize(i)


def peak_bytes(function: Callable[[], Any], device: torch.device | str = "cpu") -> int:
    """Return the most bytes of tensors that a call holds at a time, beyond what there was before it.

    Inputs made beforehand are not counted, outputs are. On the CPU the allocations are replayed from torch's
    profiler, so the number does not depend on the machine; on a GPU it is the allocator's own statistic.

    Args:
        function: what is called once, without arguments.
        device: where its tensors live. Default the CPU.

    Returns:
        Bytes.

    Example:
        >>> peak_bytes(lambda: torch.ones(1000))
        4000
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        result = function()
        torch.cuda.synchronize(device)
        del result
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler's chatter
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        result = function()
    del result
    events = profiler.profiler.kineto_results.events()  # type: ignore[union-attr]
    allocations = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return int(np.cumsum([n for _, n in allocations]).max()) if allocations else 0
