"""What tests compare with, and poisoned memory, are themselves held to planted wrong answers."""

import math

import pytest
import torch

from tests.support.closeness import assert_close, err

WANT = torch.tensor([[1.0, -2.0], [3.0, 100.0]], dtype=torch.float64)


def test_err_is_absolute_below_one_and_relative_above() -> None:
    assert err(torch.tensor([0.25]), torch.tensor([0.5])) == 0.25
    assert err(WANT + 1, WANT) == pytest.approx(0.01, rel=1e-12)


def test_assert_close_accepts_equal_numbers_at_bound_zero() -> None:
    assert_close("same", WANT.clone(), WANT, 0.0)


def test_assert_close_accepts_an_error_of_exactly_the_bound() -> None:
    assert_close("edge", torch.tensor([0.25]), torch.tensor([0.5]), 0.25)


def test_assert_close_reports_name_error_place_and_both_numbers() -> None:
    got = WANT.clone()
    got[1, 0] = 4.0
    with pytest.raises(AssertionError, match=r"thing: error 1\.000e-02 > .*\(1, 0\): got 4, expected 3"):
        assert_close("thing", got, WANT, 1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["got", "want", "both"])
def test_assert_close_refuses_numbers_that_are_not_finite(bad: float, side: str) -> None:
    broken = WANT.clone()
    broken[0, 1] = bad
    got, want = (broken if side in ("got", "both") else WANT), (WANT if side == "got" else broken)
    with pytest.raises(AssertionError, match="1 of 4 numbers"):
        assert_close("x", got, want, math.inf)


def test_assert_close_refuses_to_broadcast() -> None:
    with pytest.raises(AssertionError, match=r"shape \[2\], expected \[2, 2\]"):
        assert_close("x", torch.ones(2), torch.ones(2, 2), 1.0)


def test_assert_close_sees_one_wrong_number_among_many() -> None:
    got = torch.zeros(10_000, dtype=torch.float64)
    got[1234] = 1e-9
    with pytest.raises(AssertionError, match=r"\(1234,\)"):
        assert_close("x", got, torch.zeros(10_000, dtype=torch.float64), 1e-10)


@pytest.mark.usefixtures("poisoned_memory")
def test_fresh_memory_is_not_a_number() -> None:
    x = torch.ones(2)
    for fresh in (torch.empty(3), torch.empty_like(x), x.new_empty(4), torch.empty_strided((2,), (1,))):
        assert fresh.isnan().all()
    assert torch.empty(3, dtype=torch.int64).dtype == torch.int64
