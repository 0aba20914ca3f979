"""Compare the solutions of chapter 4's exercises with the package, and with what their texts say."""

import math

import pytest
import torch

from linattn_exercises.sets import load_check
from linattn_ref import ops
from tests.support.closeness import assert_close


@pytest.fixture
def ssm():
    return load_check("ch04_ssm")


def modes(generator, N):
    """N complex rates with negative real parts."""
    parts = torch.rand(N, 2, generator=generator, dtype=torch.float64)
    return torch.complex(-0.02 - parts[:, 0], 12 * parts[:, 1])


@pytest.mark.parametrize("theta", [0.0, 0.2, 0.49])
def test_the_largest_step_is_the_last_stable_one(ssm, generator, theta):
    A = modes(generator, 6)
    edge = ssm.largest_step(ssm.as_pairs(A), theta)
    for delta, stable in ((0.999 * edge, True), (1.001 * edge, False)):
        x = delta * A
        A_bar = (1 + (1 - theta) * x) / (1 - theta * x)
        if theta == 0:
            assert_close(
                "Euler's",
                A_bar.abs(),
                ops.discretise(torch.tensor(delta, dtype=torch.float64), A, "euler")[0].abs(),
                1e-12,
            )
        assert bool(A_bar.abs().max() <= 1) is stable
    assert ssm.smallest_theta(ssm.as_pairs(A), edge) == pytest.approx(theta, abs=1e-12)


def test_no_step_is_too_large_for_the_bilinear_method(ssm, generator):
    A = modes(generator, 6)
    assert ssm.largest_step(ssm.as_pairs(A), 0.5) == math.inf
    assert ops.discretise(torch.tensor(1e6), A, "bilinear")[0].abs().max() <= 1


def test_the_step_of_s4d_lin_is_as_the_solution_says(ssm):
    A = ssm.as_pairs([complex(-0.5, math.pi * n) for n in range(32)])
    assert ssm.largest_step(A, 0.0) == pytest.approx(1.05e-4, rel=0.005)
    assert ssm.smallest_theta(A, 1e-3) == pytest.approx(0.447, abs=5e-4)


@pytest.mark.parametrize("form", [ops.recurrent_lti_ssm, ops.convolution_lti_ssm])
def test_kernel_and_convolution_are_the_package_s(ssm, generator, form):
    A, B, C = modes(generator, 4), *torch.randn(2, 4, generator=generator, dtype=torch.complex128)
    A[0], A[1] = 0, -1e-12
    u = torch.randn(50, generator=generator, dtype=torch.float64)
    delta = torch.tensor([0.3], dtype=torch.float64)
    k = ssm.kernel(0.3, *map(ssm.as_pairs, (A, B, C)), 50)
    want = form(u[None, :, None], delta, A[None], B[None], C[None]).output[0, :, 0]
    assert_close("output", ssm.convolve(u, k), want, 1e-12)


def test_what_a_channel_remembers_is_measured_to_3_percent(ssm):
    neighbours = next(one.value for one in ssm.q4.known_mistakes if one.label.startswith("recurrence"))
    short: list[float] = []
    slow: list[float] = []
    for seed in range(200):
        life, period = (25 + seed, 60 + 1.4 * seed) if seed % 2 else (3 + seed / 20, 2.2 + seed / 40)
        l = torch.arange(int(2.2 * life) + 50, dtype=torch.float64)
        y = (2.0 ** (-l / life) * (2 * math.pi * l / period + seed).cos()).bfloat16().double()
        assert ssm.memory(y) == (pytest.approx(life, rel=0.03), pytest.approx(period, rel=0.03))
    for seed in range(50):
        for life, period, found in ((150, 90, short), (250, 340, slow)):
            l = torch.arange(600, dtype=torch.float64)
            y = (2.0 ** (-l / life) * (2 * math.pi * l / period + seed).cos()).bfloat16().double()
            found.append(neighbours(y)[0] / life)
    assert torch.tensor(short).median() == pytest.approx(0.85, abs=0.03)  # as the solution says
    assert torch.tensor(slow).median() == pytest.approx(0.2, abs=0.04)


def test_the_program_without_a_fault_is_the_package_s(ssm, generator):
    u = torch.randn(20, generator=generator, dtype=torch.float64)
    A, one = (
        torch.tensor([[complex(-0.7, 3.0)]], dtype=torch.complex128),
        torch.ones(1, 1, dtype=torch.complex128),
    )
    want = ops.recurrent_lti_ssm(
        u[None, :, None], torch.tensor([0.4], dtype=torch.float64), A, one, one
    ).output[0, :, 0]
    assert_close("output", ssm.outputs("none", u, 0.4, 0.7, 3.0), want, 1e-12)


def test_the_symptoms_are_those_of_their_faults(ssm):
    u = torch.ones(8, dtype=torch.float64)
    for name, fault in (("first", ssm.first), ("second", ssm.second), ("third", ssm.third)):
        want = torch.tensor(ssm.symptoms[name], dtype=torch.float64)
        assert_close(name, ssm.outputs(fault, u, 0.5, 1.0, 2.0), want, 6e-4)


def test_the_best_delays_share_a_budget(ssm, generator):
    N, T = 5, 40
    A_bar = ssm.as_pairs((0.1 * modes(generator, N)).exp())
    errors = [ssm.error(A_bar, d, T) for d in range(T)]
    assert sum(errors) == pytest.approx(T - 2 * N, abs=1e-8)
    power = torch.view_as_complex(A_bar) ** torch.arange(T)[:, None]
    for d in (0, 7, 39):
        delay = torch.zeros(T, dtype=torch.float64)
        delay[d] = 1
        k = ssm.best_delay(A_bar, d, T)
        assert (k - delay).square().sum().item() == pytest.approx(errors[d], abs=1e-10)
        for _ in range(20):  # no other C does better
            C = torch.randn(N, generator=generator, dtype=torch.complex128)
            assert (k + 1e-3 * 2 * (power @ C).real - delay).square().sum().item() > errors[d]


def test_peaks_have_echoes_where_frequencies_go_round_the_circle(ssm):
    N, T, r = 4, 32, 0.03
    x = -r + 1j * math.pi * (torch.arange(N, dtype=torch.float64) + 0.5) / N
    A_bar = ssm.as_pairs(x.exp())
    heights = torch.stack([ssm.best_delay(A_bar, d, T)[d] for d in range(T)])
    share = (-2 * r * torch.arange(T, dtype=torch.float64)).exp().reshape(-1, 2 * N)
    assert_close("heights", heights.reshape(-1, 2 * N), share / share.sum(0), 1e-9)
