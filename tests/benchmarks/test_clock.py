"""The clock for device time, on a simulated machine with a host and a GPU that follows it."""

from functools import partial

import pytest
import torch

from linattn_benchmarks import clock as timing


class Machine:
    """Simulate milliseconds: ``now`` for the host, ``free`` when the GPU is through with its queue."""

    def __init__(self) -> None:
        self.now = self.free = 0.0
        self.holds: list[int] = []

    def put_in_line(self, ms: float) -> float:
        self.free = max(self.now, self.free) + ms
        return self.free

    def sleep(self, cycles: int) -> None:
        self.holds.append(cycles)
        self.put_in_line(cycles / 2e6)

    def wait(self, *_: object) -> None:
        self.now = max(self.now, self.free)

    def event(self, enable_timing: bool) -> "Event":
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def record(self) -> None:
        self.at = self.machine.put_in_line(0)

    def query(self) -> bool:
        return self.machine.now >= self.at

    def elapsed_time(self, end: "Event") -> float:
        return end.at - self.at


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(torch.cuda, "_sleep", machine.sleep)
    monkeypatch.setattr(torch.cuda, "Event", machine.event)
    monkeypatch.setattr(torch.cuda, "synchronize", machine.wait)
    return machine


@pytest.fixture
def clock(machine: Machine) -> timing.CudaClock:
    clock = timing.CudaClock.__new__(timing.CudaClock)
    clock.device, clock.cold = torch.device("cpu"), torch.empty(1, dtype=torch.int8)
    return clock


@pytest.mark.parametrize(("launch_ms", "holds"), [(0.1, 1), (0.5, 3), (1.2, 4)])
def test_the_time_is_the_gpus_however_long_launches_take(
    launch_ms: float, holds: int, machine: Machine, clock: timing.CudaClock
) -> None:
    def call() -> None:
        for _ in range(10):
            machine.now += launch_ms
            machine.put_in_line(0.03)

    assert clock.time_round({"ours": call}) == {"ours": pytest.approx(0.3)}
    assert machine.holds == list(clock.HOLDS[:holds])


def test_a_call_that_waits_for_the_gpu_is_timed_all_the_same(
    machine: Machine, clock: timing.CudaClock
) -> None:
    def call() -> None:
        machine.wait()
        machine.now += 0.5
        machine.put_in_line(0.2)

    assert clock.time_round({"theirs": call}) == {"theirs": pytest.approx(0.7)}
    assert machine.holds == list(clock.HOLDS)


def test_candidates_take_turns_and_the_first_round_is_lost() -> None:
    calls: list[str] = []
    clock = timing.CPUClock()
    found = timing.time_interleaved({name: partial(calls.append, name) for name in "ab"}, clock)
    assert calls == ["a", "b"] * (1 + clock.rounds)
    assert all(spread.low <= spread.median <= spread.high for spread in found.values())


def test_the_spread_has_the_median_and_the_outer_tenths() -> None:
    assert timing.summarise_spread([float(i) for i in range(11)]) == (5.0, 1.0, 9.0)
    assert timing.summarise_spread([3.0]) == (3.0, 3.0, 3.0)
