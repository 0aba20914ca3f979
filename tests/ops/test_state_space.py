"""What a linear time-invariant state space model is exact for, where it is stable, and what it cannot do."""

import math

import numpy as np
import pytest
import torch
from numpy.polynomial import legendre
from torch import Generator, Tensor

from linattn_ref.ops import (
    Form,
    chunk_linear_attention,
    convolution_lti_ssm,
    discretise,
    parallel_linear_attention,
    recurrent_linear_attention,
)
from tests.ops.ladder import forms_of
from tests.ops.ladder_cases import normal
from tests.support.closeness import assert_close

forms = pytest.mark.parametrize("form", forms_of("lti_ssm"), ids=lambda form: form.form)
N = 5


def draw_system(generator: Generator, channels: int) -> dict[str, Tensor]:
    """Return complex delta [D], A, B, C [D, N] of a stable system."""
    A, B, C = (torch.complex(*normal(generator, 2, channels, N)) for _ in "ABC")
    A = torch.complex(-A.real.abs() - 0.05, A.imag)
    return {"delta": 0.05 + 0.2 * torch.rand(channels, generator=generator).double(), "A": A, "B": B, "C": C}


@pytest.mark.theorem("thm-hold")
@forms
def test_the_hold_samples_the_solution_for_an_input_that_holds(form: Form, generator: Generator) -> None:
    x, T, fine = draw_system(generator, 3), 7, 4000
    u = normal(generator, 1, T, 3)
    got = form.function(u, **x).state[0]  # [D, N]
    S = torch.zeros_like(x["A"])
    h = x["delta"][:, None] / fine
    for u_t in u[0]:  # the differential equation itself, by the midpoint rule in small steps
        for _ in range(fine):
            middle = S + h / 2 * (x["A"] * S + x["B"] * u_t[:, None])
            S = S + h * (x["A"] * middle + x["B"] * u_t[:, None])
    assert_close("state", torch.view_as_real(got), torch.view_as_real(S), 1e-7)


@pytest.mark.theorem("thm-stable-step")
def test_steps_are_stable_where_the_theorem_says(generator: Generator) -> None:
    A = draw_system(generator, 200)["A"].flatten()
    edge = -2 * A.real / A.abs() ** 2
    for factor in (0.01, 0.99, 1.01, 100.0):
        for method in ("zoh", "bilinear"):
            assert (discretise(factor * edge, A, method)[0].abs() < 1).all()
        grows = discretise(factor * edge, A, "euler")[0].abs() > 1
        assert grows.all() if factor > 1 else not grows.any()


@pytest.mark.theorem("thm-convolution")
@forms
@pytest.mark.parametrize("start", [False, True])
def test_outputs_are_a_convolution_and_what_the_start_leaves(
    form: Form, start: bool, generator: Generator
) -> None:
    x, T = draw_system(generator, 3), 20
    u = normal(generator, 2, T, 3)
    S = torch.complex(*normal(generator, 2, 2, 3, N)) if start else None
    got = form.function(u, **x, initial_state=S).output
    A_bar, hold = discretise(x["delta"][:, None], x["A"])
    kernel = [2 * (x["C"] * A_bar**n * hold * x["B"]).sum(-1).real for n in range(T)]  # each [D]
    for t in range(T):
        want = sum(kernel[n] * u[:, t - n] for n in range(t + 1))
        if S is not None:
            want = want + 2 * (x["C"] * A_bar ** (t + 1) * S).sum(-1).real
        assert_close("output", got[:, t], want, 1e-10)


def project(f: np.polynomial.Polynomial, tau: float, n: int) -> float:
    """Return the n-th Legendre coefficient of a polynomial f on [0, tau], by exact quadrature."""
    z, weight = legendre.leggauss(40)  # on [-1, 1]; r = (z + 1) / 2
    g = math.sqrt(2 * n + 1) * legendre.legval(z, [0.0] * n + [1.0])
    return float((weight / 2 * f(tau * (z + 1) / 2) * g).sum())


@pytest.mark.theorem("thm-hippo")
@pytest.mark.parametrize("tau", [0.3, 1.7])
def test_coefficients_of_the_past_follow_their_equation(tau: float, generator: Generator) -> None:
    f = np.polynomial.Polynomial(normal(generator, 9).numpy())
    c = [project(f, tau, n) for n in range(12)]
    for n in range(12):
        slope = (project(f, tau * (1 + 1e-5), n) - project(f, tau * (1 - 1e-5), n)) / (2e-5 * tau)
        below = sum(math.sqrt((2 * n + 1) * (2 * k + 1)) * c[k] for k in range(n))
        want = math.sqrt(2 * n + 1) * f(tau) - (n + 1) * c[n] - below
        assert tau * slope == pytest.approx(want, abs=1e-6 * (1 + abs(want)) * (1 + f(tau) ** 2))


@pytest.mark.theorem("thm-invariance")
@forms
def test_what_a_token_adds_knows_neither_its_time_nor_the_others(form: Form, generator: Generator) -> None:
    x, T = draw_system(generator, 3), 24
    u, other = normal(generator, 2, 1, T, 3)
    y = form.function(u, **x).output
    assert_close("sum", form.function(u + other, **x).output, y + form.function(other, **x).output, 1e-10)
    late = torch.cat([torch.zeros_like(u[:, :7]), u], 1)
    assert_close("delayed", form.function(late, **x).output[:, 7:], y, 1e-10)


@pytest.mark.theorem("thm-h3")
@pytest.mark.parametrize(
    "attention", [recurrent_linear_attention, parallel_linear_attention, chunk_linear_attention]
)
def test_products_around_a_sum_are_attention_with_heads_of_one(attention, generator: Generator) -> None:
    q, k, v = normal(generator, 3, 2, 30, 4)
    one = torch.ones(4, 1, dtype=q.dtype)
    h3 = q * convolution_lti_ssm(k * v, one[:, 0], 0 * one, one, one).output
    heads = (x[..., None] for x in (q, k, v))
    assert_close("output", attention(*heads, scale=1.0).output[..., 0], h3, 1e-11)
