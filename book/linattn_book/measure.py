"""Measuring: seconds, peak bytes, and the slope that says how a cost grows.

Timings depend on the machine, so the book quotes them from ``linattn_book.results``; slopes, counts and bytes
can be checked anywhere.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch


class Slope(NamedTuple):
    """y ~ coefficient * x ** exponent, least squares on the logarithms."""

    exponent: float
    coefficient: float


def fit_slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The exponent of a power law through the points: 1 is linear growth, 2 quadratic.

    Args:
        x, y: at least two points, all above 0.
    """
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"x, y: got lengths {len(x)} and {len(y)}, expected equal, at least 2")
    points = np.array([x, y], dtype=float)
    if not (np.isfinite(points).all() and (points > 0).all()):
        raise ValueError(f"x, y: got a least value of {points.min():.4g}, expected positive finite numbers")
    log_x, log_y = np.log(points)
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    return Slope(float(exponent), float(np.exp(intercept)))


def default_device() -> torch.device:
    """The GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seconds(function: Callable[[], Any], repeats: int = 5, warmup: int = 1, at_least: float = 0.0) -> float:
    """Median wall-clock seconds of one call. Waits for all GPUs to finish.

    Args:
        repeats: calls that are timed, or more.
        warmup: calls before them, or more.
        at_least: seconds that the calls of each kind take together. Short calls need some: a device that was
            idle is slow at first, and a disturbance of the machine outlasts a few of them.
    """
    _calls(function, warmup, at_least)
    return statistics.median(_calls(function, repeats, at_least))


def _calls(function: Callable[[], Any], number: int, at_least: float) -> list[float]:
    """Seconds of each call."""
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
    for i in range(torch.cuda.device_count()):
        torch.cuda.synchronize(i)


def peak_bytes(function: Callable[[], Any], device: torch.device | str = "cpu") -> int:
    """Most bytes of tensors that one call holds at a time, beyond what there was before it.

    Inputs made beforehand are not counted, outputs are. On the CPU the allocations are replayed from torch's
    profiler, so the number does not depend on the machine; on a GPU it is the allocator's own statistic.
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
