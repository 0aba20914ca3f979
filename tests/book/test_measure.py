"""Measuring is measured on things whose cost is known."""

import time

import pytest
import torch

from linattn_book.measure import fit_slope, peak_bytes, seconds
from linattn_ref import ops


def test_slope_of_a_power_law_is_its_exponent() -> None:
    x = [1.0, 3.0, 10.0, 40.0]
    slope = fit_slope(x, [5 * value**1.7 for value in x])
    assert slope.exponent == pytest.approx(1.7)
    assert slope.coefficient == pytest.approx(5)


@pytest.mark.parametrize(("x", "y"), [([1, 2], [1]), ([1], [1]), ([1, 2], [0, 1]), ([1, -2], [1, 2])])
def test_slope_refuses_what_has_no_logarithm(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match=r"x, y: got"):
        fit_slope(x, y)


def test_seconds_is_the_median_of_the_calls_after_the_warm_up() -> None:
    pauses = iter([0.2, 0.0, 0.02, 0.0, 0.02, 0.02])
    assert 0.015 < seconds(lambda: time.sleep(next(pauses)), repeats=5, warmup=1) < 0.1


@pytest.mark.parametrize(("at_least", "fewest", "most"), [(0.0, 5, 5), (0.1, 6, 20)])
def test_warm_up_and_timing_are_a_number_of_calls_and_a_time(at_least: float, fewest: int, most: int) -> None:
    pauses = [0.01] * 30
    start = time.perf_counter()
    seconds(lambda: time.sleep(pauses.pop()), repeats=3, warmup=2, at_least=at_least)
    assert fewest <= 30 - len(pauses) <= most
    assert time.perf_counter() - start >= 2 * at_least


def test_peak_bytes_counts_what_is_held_at_one_time() -> None:
    def two_after_each_other() -> torch.Tensor:
        x = torch.ones(1000)
        x = x.sum()
        return torch.ones(1000) + x

    assert 2 * 4000 <= peak_bytes(two_after_each_other) < 3 * 4000


def test_peak_bytes_does_not_count_the_inputs() -> None:
    x = torch.ones(100_000)
    assert peak_bytes(lambda: x[:10].sum()) < 1000


def test_parallel_softmax_memory_is_quadratic_and_chunk_memory_linear() -> None:
    def memory(op, T: int) -> int:
        q, k, v = torch.randn(3, 1, T, 1, 32)
        return peak_bytes(lambda: op(q, k, v))

    lengths = [512, 1024, 2048]
    quadratic = fit_slope(lengths, [memory(ops.parallel_softmax_attention, T) for T in lengths])
    linear = fit_slope(lengths, [memory(ops.chunk_softmax_attention, T) for T in lengths])
    assert 1.9 < quadratic.exponent < 2.1
    assert 0.9 < linear.exponent < 1.1
