"""The comparison of results and gradients is held against known errors."""

import math

import pytest
import torch

from linattn_benchmarks.compare import compute_gradients, l2_error, max_error, run_with_gradients


def test_errors_of_known_differences() -> None:
    want = torch.tensor([3.0, 4.0])
    assert max_error(want + 1, want) == 0.25
    assert max_error(torch.tensor([0.25]), torch.tensor([0.5])) == 0.25
    assert l2_error(want + torch.tensor([0.0, 1.0]), want) == pytest.approx(0.2)


@pytest.mark.parametrize("got", [torch.zeros(2), torch.full((3,), math.nan), torch.full((3,), math.inf)])
def test_another_shape_and_numbers_that_are_not_finite_have_no_error(got: torch.Tensor) -> None:
    assert math.isnan(max_error(got, torch.zeros(3)))


def test_gradients_are_those_of_the_weighted_sum() -> None:
    x, y, unused = (torch.tensor([2.0, 3.0], requires_grad=True) for _ in range(3))
    results = {"product": x * y, "square": x**2, "constant": torch.ones(2)}
    upstream = {"product": torch.tensor([1.0, 10.0]), "constant": torch.ones(2)}
    found = compute_gradients(results, upstream, {"x": x, "y": y, "unused": unused})
    assert found.keys() == {"gradient of x", "gradient of y"}  # the square receives none
    torch.testing.assert_close(found["gradient of x"], torch.tensor([2.0, 30.0]))
    assert compute_gradients({"constant": torch.ones(2)}, {"constant": torch.ones(2)}, {"x": x}) == {}


def test_inputs_are_left_alone_and_nothing_is_differentiated_without_upstream_gradients() -> None:
    x = {"a": torch.tensor([2.0]), "b": torch.tensor([5.0])}
    call = lambda y: {"product": y["a"] * y["b"]}  # noqa: E731
    assert run_with_gradients(call, x, {}, ["a"]).keys() == {"product"}
    found = run_with_gradients(call, x, {"product": torch.tensor([3.0])}, ["a"])
    assert {name: value.item() for name, value in found.items()} == {"product": 10, "gradient of a": 15}
    assert not any(value.requires_grad for value in (*x.values(), *found.values()))
