"""What selection, erasing and negative factors do: the theorems of the chapter on them."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize, softplus

from linattn_ref.ops import (
    Form,
    associative_selective_scan,
    recurrent_linear_attention,
)
from tests.ops.ladder import forms_of
from tests.ops.ladder_cases import normal
from tests.ops.test_capacity import assert_mean
from tests.support.closeness import assert_close

scans = pytest.mark.parametrize("form", forms_of("selective_scan"), ids=lambda form: form.form)
attentions = pytest.mark.parametrize("form", forms_of("linear_attention"), ids=lambda form: form.form)
deltas = pytest.mark.parametrize("form", forms_of("delta_rule"), ids=lambda form: form.form)


@pytest.mark.theorem("thm-gated-rnn")
@scans
def test_one_selective_number_with_the_exact_hold_is_a_gated_recurrence(
    form: Form, generator: Generator
) -> None:
    u, z = normal(generator, 2, 2, 15, 3)
    one = torch.ones(2, 15, 1, dtype=u.dtype)
    A = -torch.ones(3, 1, dtype=u.dtype)
    got = {hold: form.function(u, softplus(z), A, one, one, hold=hold).output for hold in ("exact", "euler")}
    g, S = z.sigmoid(), torch.zeros_like(u[:, 0])
    for t in range(15):
        S = (1 - g[:, t]) * S + g[:, t] * u[:, t]
        assert_close("output", got["exact"][:, t], S, 1e-12)
    assert (got["euler"] - got["exact"]).abs().max() > 0.1  # the released code's rule is another one


@pytest.mark.theorem("thm-scan")
def test_recurrences_compose_in_any_bracketing(generator: Generator) -> None:
    a, b = normal(generator, 2, 7, 4)
    S_0 = normal(generator, 4)

    def compose(left: int, right: int) -> tuple[Tensor, Tensor]:  # tokens left to right - 1, cut at random
        if right == left + 1:
            return a[left], b[left]
        cut = int(torch.randint(left + 1, right, (1,), generator=generator))
        (a_1, b_1), (a_2, b_2) = compose(left, cut), compose(cut, right)
        return a_2 * a_1, a_2 * b_1 + b_2

    S = S_0
    for a_t, b_t in zip(a, b, strict=True):
        S = a_t * S + b_t
    for _ in range(20):
        whole = compose(0, 7)
        assert_close("state", whole[0] * S_0 + whole[1], S, 1e-12)


@pytest.mark.theorem("thm-ssd")
@attentions
def test_a_selective_model_with_a_gate_for_each_head_is_masked_attention(
    form: Form, generator: Generator
) -> None:
    T, H, N, V = 70, 2, 4, 3
    x, B, C = normal(generator, 1, T, H, V), normal(generator, 1, T, N), normal(generator, 1, T, N)
    step, rate = softplus(normal(generator, 1, T, H)), torch.tensor([0.3, 2.0], dtype=x.dtype)
    q, k = (z[:, :, None].expand(-1, -1, H, -1).contiguous() for z in (C, B))
    got = form.function(q, k, step[..., None] * x, -step * rate, scale=1.0).output
    sums = (step * rate).cumsum(1)[0].T  # [H, T]
    mask = (sums[:, None, :] - sums[:, :, None]).exp().tril()  # e^-(a Delta summed from j + 1 to t)
    scores = mask * (C[0] @ B[0].T)
    assert_close("table", got[0], torch.einsum("htj,jhv->thv", scores, (step[..., None] * x)[0]), 1e-11)
    A = -rate[:, None].expand(H, V).reshape(-1, 1).expand(-1, N).contiguous()
    delta = step[..., None].expand(-1, -1, -1, V).flatten(2).contiguous()
    channels = associative_selective_scan(x.flatten(2), delta, A, B, C).output
    assert_close("channels", got.flatten(2), channels, 1e-11)


@pytest.mark.theorem("thm-delta")
@deltas
def test_the_delta_rule_replaces_under_its_key_and_leaves_the_rest(form: Form, generator: Generator) -> None:
    k, v = normalize(normal(generator, 1, 9, 2, 6), dim=-1), normal(generator, 1, 9, 2, 3)
    beta = torch.rand(1, 9, 2, generator=generator).double()
    beta[:, 8, 0] = 1.0  # one head writes with full strength

    def state(n: int) -> Tensor:
        return form.function(k[:, :n], k[:, :n], v[:, :n], beta[:, :n], scale=1.0).state[0]  # [H, K, V]

    before, after, key = state(8), state(9), k[0, 8, :, None]  # [H, 1, K]
    last = beta[0, 8, :, None, None]
    assert_close("recalled", key @ after, (1 - last) * (key @ before) + last * v[0, 8, :, None], 1e-12)
    assert_close("replaced", (key @ after)[0, 0], v[0, 8, 0], 1e-12)
    q = normal(generator, 2, 1, 6)
    q = q - (q * key).sum(-1, keepdim=True) * key
    assert_close("elsewhere", q @ after, q @ before, 1e-12)


@pytest.mark.theorem("thm-delta-chunk")
@deltas
def test_a_chunk_of_the_delta_rule_is_a_plain_sum_with_other_values(form: Form, generator: Generator) -> None:
    q, k = normal(generator, 11, 4), normalize(normal(generator, 11, 4), dim=-1)
    v, S = normal(generator, 11, 3), normal(generator, 4, 3)
    beta = 2 * torch.rand(11, generator=generator).double()
    system = torch.eye(11).double() + (beta[:, None] * k @ k.T).tril(-1)
    U = torch.linalg.solve(system, beta[:, None] * (v - k @ S))
    heads = [x[None, :, None] for x in (q, k, v, beta, U)]
    got = form.function(*heads[:4], scale=1.0, initial_state=S[None, None])
    plain = recurrent_linear_attention(heads[0], heads[1], heads[4], scale=1.0, initial_state=S[None, None])
    assert_close("output", got.output, plain.output, 1e-11)
    assert_close("state", got.state, plain.state, 1e-11)


@pytest.mark.theorem("thm-parity")
@deltas
def test_twice_the_strength_is_a_sign(form: Form, generator: Generator) -> None:
    bits = torch.randint(2, (1, 40, 1), generator=generator).double()
    one = torch.ones(1, 40, 1, 1).double()
    got = form.function(one, one, 0 * one, 2 * bits, scale=1.0, initial_state=one[:, :1])
    assert_close("sign", got.output[0, :, 0, 0], (-1) ** bits[0, :, 0].cumsum(0), 1e-12)


@pytest.mark.theorem("thm-parity")
def test_factors_that_are_not_negative_never_turn_a_difference(generator: Generator) -> None:
    for _ in range(50):
        a, b = torch.rand(2, generator=generator), normal(generator, 2)
        signs = set()
        for continuation in range(2**6):
            ends = []
            for first in (0, 1):
                S = 0.7
                for x in (first, *(continuation >> i & 1 for i in range(6))):
                    S = a[x].item() * S + b[x].item()
                ends.append(S)
            difference = ends[0] - ends[1]
            signs |= {difference > 0} if abs(difference) > 1e-12 else set()
        assert len(signs) <= 1


@pytest.mark.theorem("thm-delta-age")
@deltas
def test_a_pair_is_lost_at_the_pace_of_the_width(form: Form, generator: Generator) -> None:
    trials, stream, K, age = 300, 64, 8, 5
    k = normalize(normal(generator, trials, stream, 1, K), dim=-1)
    v = normal(generator, trials, stream, 1, 1)
    one = torch.ones(trials, stream, 1).double()
    S = form.function(k, k, v, one, scale=1.0).state[:, 0]  # [B, K, 1]
    i = stream - 1 - age
    error = ((k[:, i] @ S)[:, 0, 0] - v[:, i, 0, 0]).square()
    assert_mean("squared error", error, 2 * (1 - (1 - 1 / K) ** age), error.var().item())
    assert_mean("size", S.square().sum((1, 2)), K, S.square().sum((1, 2)).var().item())
