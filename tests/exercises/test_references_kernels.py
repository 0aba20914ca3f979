"""Compare the kernels of chapter 6's exercises with formulas in float64, token by token.

Kernels compute in float32, with an epsilon of 1.2e-7. Sums here have at most a hundred terms, whose errors
mostly cancel: a few epsilons of the largest entry. So the bound is 2e-6, where nothing else is said.
"""

import math

import pytest
import torch
from torch import Tensor

from linattn_exercises import launches
from linattn_exercises.calls import Call, run_call
from linattn_exercises.ch06_fast import check
from linattn_exercises.kernel_memory import drop_plan, plan
from tests.support.closeness import assert_close

BOUND = 2e-6
SIZES = [(1, 1, 16, 16, 16), (2, 37, 16, 32, 16), (1, 96, 32, 16, 32)]  # heads, tokens, C, K, V


def launch(question, name: str, grid: tuple[int, ...], returned: tuple[int, ...], *arguments):
    """Return the tensors that a reference has filled, one or several."""
    call = Call(name, (plan(grid, returned, order=7), *arguments))
    outcome = run_call(question.reference, call, watched=True)
    assert "value" in outcome, outcome
    return outcome["value"]


@pytest.mark.parametrize("name", ["q2", "q3", "q4", "q6", "q7"])
def test_sizes_are_drawn_up_to_the_largest(name):
    question = getattr(check, name)
    drawn: dict[tuple[str, str], set[int]] = {}
    for call in question.prepare("any seed").calls:
        names = launches.list_arguments(question.reference[call.name])
        for size, value in zip(names, drop_plan(call.arguments), strict=True):
            drawn.setdefault((call.name, size), set()).add(value if size in ("TILE", "C", "K", "V") else 64)
    assert all(max(values) == 64 for values in drawn.values()), drawn


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    """Return normal numbers in float32; the last axis is of length 1, on average."""
    return torch.randn(shape, generator=generator) / math.sqrt(shape[-1])


def empty(*shape: int) -> Tensor:
    """Return what a kernel is to fill: NaN."""
    return torch.full(shape, math.nan)


def attend(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Decay, write and read token by token; return the outputs and the last state."""
    outputs = []
    for t in range(q.shape[1]):
        state = g[:, t].exp()[:, None, None] * state + k[:, t, :, None] * v[:, t, None, :]
        outputs.append(torch.einsum("nk,nkv->nv", q[:, t], state))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("n_columns", [1, 16, 45])
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_row_logsumexp(generator, n_columns, offset):
    x = offset + 30 * torch.randn(3, n_columns, generator=generator)
    x[0, : n_columns // 2] = -math.inf
    x[1] = -math.inf
    got = launch(check.q2, "row_logsumexp", (3,), (1,), x, empty(3), n_columns, 16)
    assert got[1] == -math.inf
    assert_close("log-sum-exp", got[::2], x[::2].double().logsumexp(-1), BOUND)


@pytest.mark.parametrize("strength", [0.0, 0.5, 40.0])
@pytest.mark.parametrize(("N", "T", "C", "K", "V"), SIZES)
def test_decayed_attention(generator, N, T, C, K, V, strength):
    q, k, v = (draw(generator, N, T, width) for width in (K, K, V))
    g, state = -strength * torch.rand(N, T, generator=generator), draw(generator, N, K, V)
    sizes = (empty(N, T, V), empty(N, K, V), T, C, K, V)
    got = launch(check.q3, "decayed_attention", (N,), (5, 6), q, k, v, g, state, *sizes)
    want = attend(*(x.double() for x in (q, k, v, g, state)))
    for name, one, other in zip(("output", "last"), got, want, strict=True):
        # exponents are differences of sums of up to C decays, rounded to half an epsilon of themselves
        assert_close(name, one, other, BOUND + C * strength * 2**-24)


@pytest.mark.parametrize(("N", "T", "C", "K", "V"), SIZES)
def test_attention_backward(generator, N, T, C, K, V):
    q, k, v, dout = (draw(generator, N, T, width) for width in (K, K, V, V))
    dlast = draw(generator, N, K, V)
    made = empty(N, T, K), empty(N, T, V), empty(N, K, V)
    got = launch(check.q6, "attention_backward", (N,), (5, 6, 7), q, k, v, dout, dlast, *made, T, C, K, V)
    inputs = [x.double().requires_grad_() for x in (k, v, torch.zeros(N, K, V))]
    results = attend(q.double(), inputs[0], inputs[1], torch.zeros(N, T).double(), inputs[2])
    want = torch.autograd.grad(results, inputs, (dout.double(), dlast.double()))
    for name, one, other in zip(("dk", "dv", "dstate"), got, want, strict=True):
        assert_close(name, one, other, BOUND)


@pytest.mark.parametrize(("T", "L"), [(50, 20), (64, 32), (9, 9)])
def test_segments(generator, T, L):
    N, C, K, V, segments = 2, 16, 16, 32, -(-T // L)
    k, v, state = draw(generator, N, T, K), draw(generator, N, T, V), draw(generator, N, K, V)
    sizes = (empty(N, segments, K, V), T, L, C, K, V)
    sums = launch(check.q4, "segment_sums", (N, segments), (2,), k, v, *sizes)
    made = empty(N, segments, K, V), empty(N, K, V)
    before, last = launch(check.q4, "states_before", (N,), (2, 3), sums, state, *made, segments, K, V)
    written = k.double()[..., None] * v.double()[..., None, :]
    for s in range(segments):
        assert_close("sums", sums[:, s], written[:, s * L : s * L + L].sum(1), BOUND)
        assert_close("before", before[:, s], state + written[:, : s * L].sum(1), BOUND)
    assert_close("last", last, state + written.sum(1), BOUND)


def write_deltas(k: Tensor, v: Tensor, q: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Erase and write token by token; return the outputs and the last state."""
    outputs = []
    for t in range(q.shape[1]):
        recalled = torch.einsum("nk,nkv->nv", k[:, t], state)
        written = beta[:, t, None] * (v[:, t] - recalled)
        state = state + k[:, t, :, None] * written[:, None, :]
        outputs.append(torch.einsum("nk,nkv->nv", q[:, t], state))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(("N", "T", "C", "K", "V"), SIZES)
def test_delta_rule(generator, N, T, C, K, V, alike):
    k, v = torch.nn.functional.normalize(draw(generator, N, T, K), dim=-1), draw(generator, N, T, V)
    k = k[:, :1].expand(N, T, K).contiguous() if alike else k
    q, state = draw(generator, N, T, K), draw(generator, N, K, V)
    beta = torch.ones(N, T) if alike else torch.rand(N, T, generator=generator)
    sizes = (empty(N, T, V), empty(N, K, V), T, C, K, V)
    got = launch(check.q7, "delta_rule", (N,), (5, 6), q, k, v, beta, state, *sizes)
    want = write_deltas(*(x.double() for x in (k, v, q, beta, state)))
    for name, one, other in zip(("output", "last"), got, want, strict=True):
        assert_close(name, one, other, BOUND)


@pytest.mark.parametrize("T", [1, 16, 45, 64])
@pytest.mark.parametrize("C", [16, 32])
def test_bytes_are_those_that_are_read(T, C):
    assert check.bytes_read(T, C, 16) == check.measure_bytes(T, C, 16)


@pytest.mark.parametrize("cache", [0.0, 3e6, 3e9])
@pytest.mark.parametrize("batch", [1, 500])
def test_the_times_of_a_step_meet_where_they_should(cache, batch):
    P, rate, peak = 1e9, 3e12, 8e14
    times = max((2 * P + batch * cache) / rate, 2 * P * batch / peak)
    assert check.step_seconds(P, batch, cache, rate, peak) == pytest.approx(times, rel=1e-12)
    ridge = check.ridge_batch(P, cache, rate, peak)
    if ridge < math.inf:
        assert (2 * P + ridge * cache) / rate == pytest.approx(2 * P * ridge / peak, rel=1e-12)
    else:
        assert cache / rate >= 2 * P / peak
    context = check.double_context(P, batch, 4e3, rate, peak)
    start = check.step_seconds(P, batch, 0, rate, peak)
    late = check.step_seconds(P, batch, 4e3 * context, rate, peak)
    assert late == pytest.approx(2 * start, rel=1e-12)
