"""Measure time: device time of kernels, and wall-clock time with the repetitions that a benchmark needs.

Device time: candidates take turns, round after round, so that a slow minute of the machine meets them all.
Before each call the second-level cache is overwritten and the stream held, so that launches wait in line:
what is measured is the GPU's time, as under a CUDA graph, not the time that Python takes to launch. Where the
host launches so slowly that the GPU had to wait, the call is made again, with the stream held for longer.

Wall-clock time, launches included, is ``linattn_book.measure.seconds``, as chapters use it.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch

from linattn_benchmarks.benchmark import Size
from linattn_book import measure

Call = Callable[[], Any]


def measure_wall_seconds(call: Call, size: Size, repeats: int = 10, warmup: int = 2) -> float:
    """Return the median wall-clock seconds of a call, repeated for at least 0.2 s; once in a dry run."""
    if size is Size.DRY_RUN:
        return measure.seconds(call, repeats=1, warmup=0)
    return measure.seconds(call, repeats=repeats, warmup=warmup, at_least=0.2)


def measure_host_milliseconds(call: Call, clock: "Clock", repeats: int = 20) -> float:
    """Return the median milliseconds until a call returns, with an idle device that is not waited for.

    That is what Python, torch and the driver take to launch, as long as the call itself does not wait.
    """
    times = []
    for _ in range(repeats):
        clock.wait()
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    clock.wait()
    return statistics.median(times)


# --- device time --------------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """Summarise times in milliseconds: their median, and their quantiles at 10 and 90 %."""

    median: float
    low: float
    high: float


class Clock(Protocol):
    """Time calls on a device: ``wait`` until it is idle, or ``time_round``, the milliseconds of each call."""

    device: torch.device
    rounds: int

    def wait(self) -> None: ...

    def time_round(self, calls: Mapping[str, Call]) -> dict[str, float]: ...


class CudaClock:
    """Time each call by CUDA events around it, on cold caches."""

    rounds = 50
    HOLDS = tuple(4_000_000 * 2**n for n in range(5))  # cycles: about 2 ms, then up to 32

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        size = 4 * torch.cuda.get_device_properties(self.device).L2_cache_size
        self.cold = torch.empty(max(size, 2**28), dtype=torch.int8, device=self.device)

    def wait(self) -> None:
        """Wait until the GPU is idle."""
        torch.cuda.synchronize(self.device)

    def time_round(self, calls: Mapping[str, Call]) -> dict[str, float]:
        """Return the milliseconds of each call, made in turn."""
        return {name: self.milliseconds(call) for name, call in calls.items()}

    def milliseconds(self, call: Call) -> float:
        """Time one call; one that itself waits for the GPU cannot be held, and is timed as it is."""
        for hold in self.HOLDS:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.cold.zero_()
            torch.cuda._sleep(hold)
            start.record()
            call()
            end.record()
            launched_too_late = start.query()  # the hold was over before all launches were in line
            self.wait()
            if not launched_too_late:
                break
        return start.elapsed_time(end)


class CPUClock:
    """Time each call once by the wall clock, for a dry run."""

    rounds = 2

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def wait(self) -> None:
        """Do nothing: a call on the CPU returns when it is done."""

    def time_round(self, calls: Mapping[str, Call]) -> dict[str, float]:
        """Return the milliseconds of each call, made in turn."""
        return {name: 1e3 * measure.seconds(call, repeats=1, warmup=0) for name, call in calls.items()}


def time_interleaved(
    calls: Mapping[str, Call], clock: Clock, least: int = 20, seconds: float = 4.0
) -> dict[str, Spread]:
    """Time calls in turn, round after round, and return the spread of each.

    Args:
        calls: what is timed, by name.
        clock: gives the device and the number of rounds. The first round is not counted.
        least: rounds that are made however long they take.
        seconds: after them no further round begins.
    """
    clock.time_round(calls)
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    for i in range(clock.rounds):
        if i >= least and time.perf_counter() > end:
            break
        for name, ms in clock.time_round(calls).items():
            times[name].append(ms)
    return {name: summarise_spread(found) for name, found in times.items()}


def summarise_spread(times: list[float]) -> Spread:
    """Return the median and the quantiles at 10 and 90 %."""
    if len(times) < 2:
        return Spread(times[0], times[0], times[0])
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return Spread(statistics.median(times), tenths[0], tenths[-1])


# --- what the machine can do at best ------------------------------------------------------------------------


class Ceilings(NamedTuple):
    """Hold the rate of a large copy in GB/s, bytes read and written both counted, and of a large product."""

    copy_gbps: float
    matmul_tflops: float


def measure_ceilings(clock: Clock, dtype: torch.dtype) -> Ceilings:
    """Measure both rates on this machine, in this run, with the same clock."""
    cuda = clock.device.type == "cuda"
    n_bytes, n = (2**31, 8192) if cuda else (2**20, 64)
    source = torch.zeros(n_bytes, dtype=torch.int8, device=clock.device)
    target = torch.zeros_like(source)
    a, b = torch.randn(2, n, n, device=clock.device).to(dtype)
    calls = {"copy": lambda: target.copy_(source), "matmul": lambda: a @ b}
    found = time_interleaved(calls, clock, seconds=1.0)
    return Ceilings(2 * n_bytes / found["copy"].median / 1e6, 2 * n**3 / found["matmul"].median / 1e9)
