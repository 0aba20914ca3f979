"""Clocks: how long a call keeps the GPU busy, how many bytes it holds, and what the machine can do at best.

Candidates take turns, round after round, so that a slow minute of the machine meets them all. Before each
call the second-level cache is overwritten and the stream held, so that launches wait in line: what is
measured is the GPU's time, as under a CUDA graph, not the time that Python takes to launch. Where the host
launches so slowly that the GPU had to wait, the call is made again, with the stream held for longer.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch

Call = Callable[[], Any]


class Spread(NamedTuple):
    """Milliseconds: median, and the quantiles at 10 and 90 %."""

    median: float
    low: float
    high: float


class Clock(Protocol):
    """``settle`` waits until nothing is under way; ``round`` gives the milliseconds of each call, in turn."""

    device: torch.device
    rounds: int

    def settle(self) -> None: ...

    def round(self, calls: Mapping[str, Call]) -> dict[str, float]: ...


class CudaClock:
    """CUDA events around each call."""

    rounds = 50
    HOLDS = tuple(4_000_000 * 2**n for n in range(5))  # cycles: about 2 ms, then up to 32

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        size = 4 * torch.cuda.get_device_properties(self.device).L2_cache_size
        self.cold = torch.empty(max(size, 2**28), dtype=torch.int8, device=self.device)

    def settle(self) -> None:
        torch.cuda.synchronize(self.device)

    def round(self, calls: Mapping[str, Call]) -> dict[str, float]:
        return {name: self.time(call) for name, call in calls.items()}

    def time(self, call: Call) -> float:
        """Milliseconds; a call that waits for the GPU itself cannot be held, and is timed as it is."""
        for hold in self.HOLDS:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.cold.zero_()
            torch.cuda._sleep(hold)
            start.record()
            call()
            end.record()
            waited = start.query()  # the hold was over before all launches were in line
            self.settle()
            if not waited:
                break
        return start.elapsed_time(end)


class CPUClock:
    """Wall-clock time, for a dry run."""

    rounds = 2

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def settle(self) -> None:
        pass

    def round(self, calls: Mapping[str, Call]) -> dict[str, float]:
        times = {}
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = 1e3 * (time.perf_counter() - start)
        return times


def interleaved(
    calls: Mapping[str, Call], clock: Clock, least: int = 20, seconds: float = 4.0
) -> dict[str, Spread]:
    """Over all rounds of the clock, or once ``seconds`` are over (``least`` at least); the first is lost."""
    clock.round(calls)
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    for i in range(clock.rounds):
        if i >= least and time.perf_counter() > end:
            break
        for name, ms in clock.round(calls).items():
            times[name].append(ms)
    return {name: spread(found) for name, found in times.items()}


def spread(times: list[float]) -> Spread:
    if len(times) < 2:
        return Spread(times[0], times[0], times[0])
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return Spread(statistics.median(times), tenths[0], tenths[-1])


def peak_bytes(call: Call, clock: Clock) -> int | None:
    """Most bytes that one call holds beyond what was there; the CPU keeps no count of them."""
    if clock.device.type != "cuda":
        return None
    clock.settle()
    torch.cuda.reset_peak_memory_stats(clock.device)
    before = torch.cuda.memory_allocated(clock.device)
    result = call()
    clock.settle()
    del result
    return torch.cuda.max_memory_allocated(clock.device) - before


# --- ceilings -----------------------------------------------------------------------------------------------


class Ceilings(NamedTuple):
    """GB/s of a large copy, bytes read and written both counted; TFLOP/s of a large product."""

    copy_gbps: float
    matmul_tflops: float


def ceilings(clock: Clock, dtype: torch.dtype) -> Ceilings:
    """Measured on this machine, in this run, with the same clock."""
    cuda = clock.device.type == "cuda"
    n_bytes, n = (2**31, 8192) if cuda else (2**20, 64)
    source = torch.zeros(n_bytes, dtype=torch.int8, device=clock.device)
    target = torch.zeros_like(source)
    a, b = torch.randn(2, n, n, device=clock.device).to(dtype)
    calls = {"copy": lambda: target.copy_(source), "matmul": lambda: a @ b}
    found = interleaved(calls, clock, seconds=1.0)
    return Ceilings(2 * n_bytes / found["copy"].median / 1e6, 2 * n**3 / found["matmul"].median / 1e9)
