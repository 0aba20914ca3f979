"""What has gone wrong in other implementations, as laws that every form and every step must obey.

``fla#285`` is issue 285 of github.com/fla-org/flash-linear-attention, and so on.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from linattn_ref.ops import FORMS, Form, normalised
from tests.ops.every_form import AT_ONCE, EXACT, LINEAR, SOFTMAX, assert_equal_runs, rows, steps
from tests.ops.ladder import (
    OPS,
    Call,
    call_of,
    check_against_oracle,
    check_precision,
    inputs_of,
    run,
    slice_time,
    split_call,
    step_call_of,
    upstream_of,
)
from tests.ops.ladder_cases import Case, Tensors
from tests.ops.ladder_heads import HEADS
from tests.support.closeness import assert_close

# --- state handed over at a split: fla#285, fla#494, fla#92 ----------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(("form", "case"), rows(T=9, start=True, chunk_size=4))
def test_form_hands_over_its_state_at_every_split(form: Form, case: Case) -> None:
    call = call_of(form, case)
    for at in range(1, case.T):
        check_against_oracle(case, split_call(case, at, call, call), f"{form.form}, split at {at}")


def step_by_step(case: Case) -> Call:
    """Return T one-token steps as one call."""
    step = step_call_of(case)

    def call(x: Tensors) -> Tensors:
        state = {name: y for name, y in x.items() if name.startswith("initial_state")}
        inputs = {name: y for name, y in x.items() if name not in state}
        outputs = []
        for t in range(case.T):
            results = step({**slice_time(case, inputs, t, t + 1), **state})
            outputs.append(results.pop("output"))
            state = {f"initial_{name}": y for name, y in results.items()}
        return {"output": torch.cat(outputs, 1), **results}

    return call


@pytest.mark.check
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("case", steps(T=9))
def test_steps_token_by_token_equal_the_whole(case: Case, start: bool) -> None:
    """Outputs, state and gradients of T steps are those of one call."""
    case = replace(case, start=start)
    check_against_oracle(case, step_by_step(case), "steps")


@pytest.mark.parametrize(("form", "case"), rows(T=3))
def test_form_and_step_return_the_same_kind_of_result(form: Form, case: Case) -> None:
    x = inputs_of(case)
    whole = form.function(**OPS[case.op].arguments(case, x))
    one = OPS[case.op].step(**OPS[case.op].arguments(case, slice_time(case, x, 0, 1)))
    assert type(whole) is type(one)
    assert type(whole.state) is type(one.state)


# --- exponents of cumulative decays: fla#77, fla#122, lightning-attention#17 -----------------------------


def cliff(dtype: torch.dtype, decay: str) -> Case:
    """Return a case with decays of exp(-50) for 100 tokens, then hardly any for 100 tokens."""
    return Case(
        "linear_attention", T=200, decay=decay, strength="cliff", start=True, chunk_size=64, dtype=dtype
    )


@pytest.mark.parametrize("decay", ["token", "channel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_hard_decays_followed_by_tiny_ones_stay_accurate(form: Form, dtype: torch.dtype, decay: str) -> None:
    case = cliff(dtype, decay)
    check_precision(case, call_of(form, case), form.form)


def by_quotient(g: Tensor) -> Tensor:
    """Return exp(G_i) exp(-G_j) with G the cumulative sum, which overflows."""
    G = g.cumsum(1)
    return torch.einsum("bih,bjh->bhij", G.exp(), (-G).exp())


def by_difference(g: Tensor) -> Tensor:
    """Return exp(G_i - G_j), which is finite, but the difference of two large numbers keeps few digits."""
    G = g.cumsum(1).movedim(1, 2)
    return (G[..., :, None] - G[..., None, :]).clamp(max=0).exp()


@pytest.mark.parametrize(("mask", "complaint"), [(by_quotient, "NaN or infinite"), (by_difference, "error")])
def test_two_common_ways_to_write_the_decay_mask_are_caught(mask: Callable, complaint: str) -> None:
    """The test above can fail: outputs of the parallel form with the mask written as it often is."""
    case = replace(cliff(torch.float32, "token"), start=False)

    def call(x: Tensors) -> Tensors:
        scores = torch.einsum("bihk,bjhk->bhij", x["q"], x["k"]) * case.K**-0.5
        right = call_of(LINEAR[0], case)(x)
        return {
            **right,
            "output": torch.einsum("bhij,bjhv->bihv", (scores * mask(x["log_decay"])).tril(), x["v"]),
        }

    with pytest.raises(AssertionError, match=complaint):
        check_precision(case, call, mask.__name__)


# --- what has decayed when: inclusive sums, by hand ------------------------------------------------------


def column(*numbers: float) -> Tensor:
    """Return one number a token, [1, T, 1, 1], in float64."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, -1, 1, 1)


@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_decay_of_a_token_applies_before_it_writes(form: Form) -> None:
    """S0 = 4; S1 = 4/4 + 1*2 = 3; S2 = 3/2 + 1*3 = 4.5; read by q = (1, 10): o = (3, 45)."""
    output, state = form.function(
        column(1, 10),
        column(1, 1),
        column(2, 3),
        column(math.log(1 / 4), math.log(1 / 2)),
        scale=1.0,
        initial_state=column(4),
    )
    assert_close("output", output, column(3, 45), EXACT)
    assert_close("state", state, column(4.5), EXACT)


@pytest.mark.parametrize("form", SOFTMAX, ids=lambda form: form.form)
def test_softmax_of_two_tokens_by_hand(form: Form) -> None:
    """Scores 0 and log 3 are weights 1/4 and 3/4: o = (1, 1/4 + 15/4)."""
    output, cache = form.function(column(1, 1), column(0, math.log(3)), column(1, 5), scale=1.0)
    assert_close("output", output, column(1, 4), EXACT)
    assert_close("values", cache.v, column(1, 5), 0.0)


SCALED = [form for form in FORMS if form.op in HEADS]


@pytest.mark.parametrize("form", SCALED, ids=lambda form: f"{form.op}-{form.form}")
def test_default_scale_is_one_over_root_k(form: Form) -> None:
    """fla#47: one form scaled differently."""
    case = Case(form.op, T=5, K=7)
    given = call_of(form, replace(case, scale=7**-0.5))(inputs_of(case))
    default = call_of(form, case)(inputs_of(case))
    other = call_of(form, replace(case, scale=1.0))(inputs_of(case))
    assert_equal_runs(form, case, given, default, 0.0)
    assert not torch.allclose(other["output"], default["output"])


# --- precision of the state: vllm#13466, fla#99, fla#1187 ------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_linear_state_is_float32_under_half_precision(form: Form, dtype: torch.dtype) -> None:
    case = Case("linear_attention", T=5, decay="token", dtype=dtype)
    output, state = form.function(**inputs_of(case))
    assert (output.dtype, state.dtype) == (dtype, torch.float32)
    with pytest.raises(ValueError, match=r"initial_state: got .*16, expected torch\.float32"):
        form.function(**inputs_of(case), initial_state=state.to(dtype))


@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_bfloat16_decay_is_carried_in_float32(form: Form) -> None:
    case = Case("linear_attention", T=20, decay="channel", dtype=torch.bfloat16)
    x = inputs_of(case)
    x = {**x, "log_decay": x["log_decay"].bfloat16()}
    got, want = form.function(**x), form.function(**{**x, "log_decay": x["log_decay"].float()})
    assert torch.equal(got.output, want.output)
    assert torch.equal(got.state, want.state)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, dtype=torch.float32))
def test_autocast_does_not_change_results_or_gradients(form: Form, case: Case) -> None:
    plain = call_of(form, case)

    def cast(x: Tensors) -> Tensors:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain(x)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16  # it is on
    for got, want in zip(
        *(run(call, inputs_of(case), upstream_of(case)) for call in (cast, plain)), strict=True
    ):
        assert_equal_runs(form, case, got, want, 0.0)


@pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)
def test_autocast_does_not_change_the_normalised_op(form: Form) -> None:
    x = inputs_of(Case("linear_attention", T=20, dtype=torch.float32))
    x = {**x, "q": x["q"].exp(), "k": x["k"].exp()}
    want = normalised(form.function, **x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = normalised(form.function, **x)
    assert torch.equal(got.output, want.output)
    assert torch.equal(got.state, want.state)


# --- torch.compile: fla#52 -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("form", "case"), rows(AT_ONCE, T=20, start=True, chunk_size=7))
def test_compiled_form_equals_eager(form: Form, case: Case) -> None:
    """One graph, no break; results and gradients."""
    torch._dynamo.reset()
    eager = call_of(form, case)
    compiled = torch.compile(eager, backend="aot_eager", fullgraph=True)
    for got, want in zip(
        *(run(call, inputs_of(case), upstream_of(case)) for call in (compiled, eager)), strict=True
    ):
        assert_equal_runs(form, case, got, want, EXACT)
