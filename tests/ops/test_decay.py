"""What a decay that no token changes can hold, and what it cannot do."""

import math

import pytest
import torch
from torch import Generator, Tensor

from linattn_ref.ops import Form
from tests.ops.every_form import LINEAR
from tests.ops.ladder_cases import normal
from tests.ops.test_capacity import assert_mean, forms, unit_keys
from tests.support.closeness import assert_close

TRIALS, PAIRS, K = 400, 120, 8


def find_ratio(g: float, age: int) -> float:
    """Return the ratio of signal to noise of the pair of an age at a squared decay g, in units of K."""
    return 1 / (1 / (g**age * (1 - g)) - 1)


@pytest.mark.theorem("thm-best-decay")
@pytest.mark.parametrize(("gamma", "age"), [(0.8, 0), (0.8, 3), (0.5, 1), (0.9, 6)])
@forms
def test_signal_and_noise_of_a_pair_are_those_of_the_theorem(
    form: Form, gamma: float, age: int, generator: Generator
) -> None:
    k = unit_keys(generator, TRIALS, PAIRS, K)[:, :, None]  # [B, T, 1, K]
    v = normal(generator, TRIALS, PAIRS, 1, 1)
    log_decay = torch.tensor([math.log(gamma)], dtype=k.dtype)
    S = form.function(torch.zeros_like(k), k, v, log_decay, scale=1.0).state[:, 0]  # [B, K, 1]
    i = PAIRS - 1 - age
    signal = gamma**age * v[:, i, 0, 0]
    noise = (k[:, i] @ S)[:, 0, 0] - signal
    variance = (1 / (1 - gamma**2) - gamma ** (2 * age)) / K
    assert_mean("squared noise", noise.square(), variance, noise.square().var().item())
    assert_mean("noise times signal", noise * signal, 0.0, (noise * signal).var().item())
    ratio = K * gamma ** (2 * age) / (K * variance)
    assert ratio == pytest.approx(K * find_ratio(gamma**2, age))


@pytest.mark.theorem("thm-best-decay")
@pytest.mark.parametrize("L", [1, 2, 3, 16, 100])
def test_no_other_decay_serves_the_oldest_live_pair_better(L: int) -> None:
    best = 1 - 1 / L
    others = [g for g in torch.linspace(0.001, 0.999, 999).tolist() if abs(g - best) > 1e-6]
    top = find_ratio(best, L - 1) if L > 1 else math.inf  # at g = 0 the newest pair is alone
    assert all(find_ratio(g, L - 1) < top for g in others)
    assert L < 100 or top * math.e * L == pytest.approx(1, rel=0.02)  # K / (e L), the price of e


def run_from(form: Form, *parts: Tensor, log_decay: Tensor) -> Tensor:
    """Return the state after tokens [T, K + V], given in parts, whose decays are fixed or read from them."""
    x = torch.cat(parts)[None, :, None]
    return form.function(x[..., :3], x[..., :3], x[..., 3:], log_decay, scale=1.0).state[0, 0]


@pytest.mark.theorem("thm-fixed-past")
@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_no_token_changes_what_is_left_of_the_past(form: Form, generator: Generator) -> None:
    x, y, z, other = (normal(generator, n, 5) for n in (6, 9, 7, 7))
    log_decay = -torch.rand(1, generator=generator, dtype=torch.float64)
    past = run_from(form, x, log_decay=log_decay) - run_from(form, y, log_decay=log_decay)
    for continuation in (z, other):
        after = run_from(form, x, continuation, log_decay=log_decay)
        after = after - run_from(form, y, continuation, log_decay=log_decay)
        assert_close("what is left", after, (7 * log_decay).exp() * past, 1e-12)


@pytest.mark.theorem("thm-fixed-past")
@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_a_gate_does(form: Form, generator: Generator) -> None:
    x, y, z = (normal(generator, n, 5) for n in (6, 9, 7))
    mark = torch.zeros(7, dtype=torch.float64)
    mark[3] = -1000.0
    left = []
    for start in (x, y):
        log_decay = torch.cat([torch.full((len(start),), -0.1, dtype=torch.float64), mark])[None, :, None]
        left.append(run_from(form, start, z, log_decay=log_decay))
    assert_close("what is left", left[0], left[1], 1e-12)
