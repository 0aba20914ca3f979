"""Compare the solutions of chapter 5's exercises with the package, and with what their texts say."""

import pytest
import torch

from linattn_exercises.ch05_selection import check as selection
from linattn_ref import ops
from tests.exercises.test_references import heads
from tests.support.closeness import assert_close


def test_no_token_is_louder_than_the_bound_and_some_come_near(generator):
    a, low, high = 1.7, 0.2, 1.4
    for hold in ("exact", "euler"):
        bound = selection.largest_state(a, low, high, hold)
        mixed = low + (high - low) * torch.rand(200, 500, generator=generator).double()
        ends = torch.where(torch.rand(200, 500, generator=generator) < 0.5, low, high).double()
        fill_then_shout = torch.full((200, 500), low).double()
        fill_then_shout[:, 450:] = high
        for steps in (mixed, ends, fill_then_shout):
            ones = torch.ones(200, 500, 1, dtype=torch.float64)
            rate = -a * torch.ones(1, 1, dtype=torch.float64)
            S = ops.associative_selective_scan(ones, steps[..., None], rate, ones, ones, hold=hold).output
            assert S.max() <= bound * (1 + 1e-12)
        assert S.max() > 0.999 * bound


@pytest.mark.parametrize("T", [1, 6, 23])
def test_the_scan_of_faded_scores_is_softmax_attention(generator, T):
    q, k, v = (x[0, :, 0] for x in heads(generator, T))
    x = k @ q[-1] / 2
    want = torch.stack([x[: t + 1].softmax(0) @ v[: t + 1] for t in range(T)])
    assert_close("prefixes", selection.prefixes(x, v, torch.zeros_like(x)), want, 1e-12)
    g = -torch.rand(T, generator=generator).double()
    last = (x - g.cumsum(0) + g.sum()).softmax(0) @ v
    assert_close("last", selection.prefixes(x, v, g)[-1], last, 1e-12)


def test_elements_of_a_scan_are_associative_with_a_neutral_one(generator):
    x, g = 800 * torch.randn(2, 9, generator=generator).double()
    x[[2, 5]], g = -torch.inf, -g.abs()
    g[7] = -torch.inf
    v = torch.randn(9, 2, generator=generator).double()
    items = [selection.single(*one) for one in zip(x, v, g, strict=True)]
    for a, b, c in zip(items, items[1:], items[2:], strict=False):
        left = selection.compose(selection.compose(a, b), c)
        right = selection.compose(a, selection.compose(b, c))
        for one, other in zip(left, right, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=0)
    nothing = selection.identity(2)
    for one in items:
        for composed in (selection.compose(one, nothing), selection.compose(nothing, one)):
            assert all(torch.equal(*pair) for pair in zip(one, composed, strict=True))


@pytest.mark.parametrize(("beta", "size"), [(1.0, 4), (0.5, 5), (0.0, 0)])
def test_the_state_of_the_package_s_delta_rule_is_measured_from_outside(generator, beta, size):
    T, K = 30, 5
    q, k = torch.nn.functional.normalize(torch.randn(2, 1, T, 1, K, generator=generator).double(), dim=-1)
    inputs = torch.eye(T, dtype=torch.float64)[None, :, None]  # one value channel for each token's input
    strength = torch.full((1, T, 1), beta, dtype=torch.float64)
    table = ops.chunk_delta_rule(q, k, inputs, strength, scale=1.0).output[0, :, 0]
    table += torch.eye(T, dtype=torch.float64)
    assert selection.state_size(table) == size


def test_a_truncated_filter_errs_by_no_less_than_the_bound():
    rates = torch.tensor([0.95, 0.7, -0.4], dtype=torch.float64)
    age = torch.arange(24)[:, None] - torch.arange(24)
    one = [(rate ** age.clamp(min=0)).tril() for rate in rates]
    for n in (1, 2):
        error = torch.linalg.matrix_norm(sum(one) - sum(one[:n]), 2)
        assert 0 < selection.least_error(sum(one), n) <= error


@pytest.mark.parametrize("strength", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("T", [1, 16, 64])
def test_a_chunk_of_the_gated_delta_rule_is_the_package_s(generator, T, strength):
    q, k, v = heads(generator, T)
    k = torch.nn.functional.normalize(k, dim=-1)
    beta = 2 * torch.rand(1, T, 1, generator=generator).double()
    log_decay = -strength * torch.rand(1, T, 1, generator=generator).double()
    state = torch.randn(1, 1, 4, 3, generator=generator, dtype=torch.float64)
    options = {"scale": 1.0, "initial_state": state}
    plain = [x[0, :, 0] for x in (q, k, v, beta, log_decay)]
    output, last = selection.chunk(*plain, state[0, 0])
    for op in (ops.chunk_delta_rule, ops.recurrent_delta_rule):
        want = op(q, k, v, beta, log_decay, **options)
        assert_close("output", output, want.output[0, :, 0], 1e-11)
        assert_close("state", last, want.state[0, 0], 1e-11)


def test_the_right_program_among_the_faulty_ones_is_the_package_s(generator):
    ones, beta = torch.ones(1, 11, 1, 1).double(), 2 * torch.rand(1, 11, 1, generator=generator).double()
    log_decay = -torch.rand(1, 11, 1, generator=generator).double()
    want = ops.recurrent_delta_rule(ones, ones, ones, beta, log_decay, scale=1.0).output.flatten()
    assert_close("none", selection.outputs("none", beta.flatten(), log_decay.flatten()), want, 1e-12)
