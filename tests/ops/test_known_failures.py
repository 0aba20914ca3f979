"""What has gone wrong in other implementations, as laws that every form and every step must obey."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import assert_close
from ladder import (
    OPS,
    Call,
    call_of,
    check_against_oracle,
    check_precision,
    forms_of,
    inputs_of,
    run,
    slice_time,
    split_call,
    step_call_of,
    upstream_of,
)
from ladder_cases import Case, Tensors
from ladder_heads import HEADS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linattn_ref.ops import FORMS, Form, KVCache, WKVState, normalised

EXACT = 1e-12  # the same sums in another order, in float64


def kinds(op: str, **fields: Any) -> list[Case]:
    """A case for every kind of decay that the op takes."""
    first = {decay: strength for decay, strength in reversed(OPS[op].variants)}
    return [Case(op, **{"strength": first[decay]} | fields, decay=decay) for decay in reversed(first)]


def rows(forms: tuple[Form, ...] = FORMS, **fields: Any) -> list:
    """pytest parameters: every form with every kind of decay."""
    return [
        pytest.param(form, case, id=f"{form.op}-{form.form}-{case.decay or 'no_decay'}")
        for form in forms
        for case in kinds(form.op, **fields)
    ]


def steps(**fields: Any) -> list:
    return [
        pytest.param(case, id=f"{case.op}-{case.decay or 'no_decay'}")
        for op in OPS
        for case in kinds(op, **fields)
    ]


LINEAR = tuple(forms_of("linear_attention"))
SOFTMAX = tuple(forms_of("softmax_attention"))
CHUNKED = tuple(form for form in FORMS if form.chunked)
AT_ONCE = tuple(form for form in FORMS if form.form != "recurrent")


def assert_equal_runs(form: Form, case: Case, got: Tensors, want: Tensors, bound: float) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert_close(f"{form.form} {case}: {name}", got[name], want[name], bound)


# --- state handed over at a split: fla#285, fla#494, fla#92 ----------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(("form", "case"), rows(T=9, start=True, chunk_size=4))
def test_form_hands_over_its_state_at_every_split(form: Form, case: Case) -> None:
    call = call_of(form, case)
    for at in range(1, case.T):
        check_against_oracle(case, split_call(case, at, call, call), f"{form.form}, split at {at}")


def step_by_step(case: Case) -> Call:
    """T one-token steps as one call."""
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
    """Decays of exp(-50) for 100 tokens, then hardly any for 100 tokens."""
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
    """exp(G_i) exp(-G_j) with G the cumulative sum: overflows."""
    G = g.cumsum(1)
    return torch.einsum("bih,bjh->bhij", G.exp(), (-G).exp())


def by_difference(g: Tensor) -> Tensor:
    """exp(G_i - G_j): finite, but the difference of two large numbers keeps few digits."""
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
    """[B=1, T, H=1, 1] in float64."""
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


@pytest.mark.parametrize("op", OPS)
def test_float64_stays_float64_through_every_form_and_step(op: str) -> None:
    case = kinds(op, T=1, start=True)[0]
    for call in [call_of(form, case) for form in forms_of(op)] + [step_call_of(case)]:
        assert {y.dtype for y in call(inputs_of(case)).values()} == {torch.float64}


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


# --- memory layout, lengths, batch -----------------------------------------------------------------------


def strided(x: Tensor) -> Tensor:
    """The same numbers, stored with every stride reversed and gaps between them."""
    backwards = tuple(reversed(range(x.ndim)))
    room = torch.full([2 * n for n in reversed(x.shape)], torch.nan, dtype=x.dtype)
    view = room[(slice(None, None, 2),) * x.ndim].permute(backwards)
    return view.copy_(x)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_memory_layout_does_not_change_results(form: Form, case: Case) -> None:
    x = inputs_of(case)
    apart = {name: strided(y) for name, y in x.items()}
    assert not any(y.is_contiguous() for name, y in apart.items() if y.ndim > 1)
    assert_equal_runs(form, case, call_of(form, case)(apart), call_of(form, case)(x), EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True))
def test_inputs_of_stride_zero_are_read_as_repeated(form: Form, case: Case) -> None:
    x = inputs_of(case)
    timed = [name for name in OPS[case.op].timed if name in x and x[name].ndim > 1]
    flat = {**x, **{name: x[name][:, :1].expand_as(x[name]) for name in timed}}
    flat[timed[0]] = x[timed[0]][..., :1].expand_as(x[timed[0]])
    whole = {name: y.contiguous() for name, y in flat.items()}
    assert_equal_runs(form, case, call_of(form, case)(flat), call_of(form, case)(whole), EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_call_leaves_its_inputs_untouched(form: Form, case: Case) -> None:
    x = {name: y.clone() for name, y in inputs_of(case).items()}
    call_of(form, case)(x)
    assert all(torch.equal(x[name], y) for name, y in inputs_of(case).items())


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=1, chunk_size=8))
def test_chunk_form_takes_lengths_that_are_no_multiple(form: Form, case: Case) -> None:
    for T in range(1, 26):
        check_against_oracle(replace(case, T=T), call_of(form, case), f"{form.form}, T = {T}")


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=33, start=True))
def test_chunk_size_does_not_change_results(form: Form, case: Case) -> None:
    want = call_of(form, case)(inputs_of(case))
    for chunk_size in (1, 2, 5, 17, 32, 33, 34, 1000):
        got = call_of(form, replace(case, chunk_size=chunk_size))(inputs_of(case))
        assert_equal_runs(form, case, got, want, EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, B=3, H=2, start=True, chunk_size=7))
def test_batch_elements_are_independent(form: Form, case: Case) -> None:
    x = inputs_of(case)
    call = call_of(form, case)
    together = call(x)
    for b in range(case.B):
        alone = call({name: y[b : b + 1] if has_batch(case, name, y) else y for name, y in x.items()})
        assert_equal_runs(form, case, alone, {name: y[b : b + 1] for name, y in together.items()}, EXACT)


def has_batch(case: Case, name: str, x: Tensor) -> bool:
    return name.startswith("initial_state") or (name in OPS[case.op].timed and x.ndim > 1)


def one_head(case: Case, name: str, x: Tensor, h: int) -> Tensor:
    """What belongs to one head, or to one channel of a state space model."""
    if case.op == "selective_scan" and name in ("B", "C"):
        return x  # shared by all channels
    if "state" in name and case.op != "softmax_attention":  # a cache is a sequence
        return x.narrow(1, h, 1)
    sequence = name == "output" or "state" in name or has_batch(case, name, x)
    return x.narrow(2 if sequence else 0, h, 1)


@pytest.mark.parametrize(("form", "case"), rows(T=20, H=3, start=True, chunk_size=7))
def test_heads_and_channels_are_independent(form: Form, case: Case) -> None:
    x, call = inputs_of(case), call_of(form, case)
    together = call(x)
    for h in range(3):
        alone = call({name: one_head(case, name, y, h) for name, y in x.items()})
        want = {name: one_head(case, name, y, h) for name, y in together.items()}
        assert_equal_runs(form, case, alone, want, EXACT)


# --- time and arguments ----------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_future_has_no_influence(form: Form, case: Case) -> None:
    x, call = inputs_of(case), call_of(form, case)
    want = call(x)["output"]
    for t in (0, 5, 6, 7, 13, 18):
        timed = [name for name in OPS[case.op].timed if name in x and x[name].ndim > 1]
        changed = {
            name: torch.cat([x[name][:, : t + 1], other(name, x[name][:, t + 1 :])], 1) for name in timed
        }
        got = call({**x, **changed})["output"]
        assert_close(f"{form.form}: outputs up to {t}", got[:, : t + 1], want[:, : t + 1], EXACT)
        assert not torch.allclose(got[:, t + 1 :], want[:, t + 1 :])


def other(name: str, x: Tensor) -> Tensor:
    """Other numbers that the argument may have."""
    return {"beta": 2 - x, "delta": 3 * x + 0.1}.get(name, 3 * x - 1)


def arguments_of(case: Case) -> dict[str, Any]:
    return OPS[case.op].arguments(replace(case, scale=0.3), inputs_of(case))


def changes(argument: Any) -> list[Any]:
    """The same argument, changed; each part of a tuple by itself."""
    if isinstance(argument, str):
        return [{"euler": "exact", "exact": "euler", "zoh": "bilinear"}[argument]]
    if isinstance(argument, KVCache | WKVState):
        return [argument._replace(**{name: 2 * part}) for name, part in argument._asdict().items()]
    return [2 * argument]


def everything(result: Any) -> Tensor:
    """Output and state as one row of numbers."""
    parts = result.state if isinstance(result.state, tuple) else (result.state,)
    return torch.cat([x.flatten().to(torch.complex128) for x in (result.output, *parts)])


def assert_every_argument_matters(function: Callable, arguments: dict[str, Any]) -> None:
    parameters = set(inspect.signature(function).parameters)
    assert parameters - {"chunk_size"} - set(arguments) <= {"log_decay"}, (
        "an argument that this test does not know"
    )
    want = everything(function(**arguments))
    for name, argument in arguments.items():
        for changed in changes(argument):
            got = everything(function(**{**arguments, name: changed}))
            assert (got - want).abs().max() > 1e-3, f"{name} is ignored"


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True))
def test_every_argument_of_a_form_matters(form: Form, case: Case) -> None:
    assert_every_argument_matters(form.function, arguments_of(case))


@pytest.mark.parametrize("case", steps(T=1, start=True))
def test_every_argument_of_a_step_matters(case: Case) -> None:
    arguments = arguments_of(case)
    arguments["state"] = arguments.pop("initial_state")
    assert_every_argument_matters(OPS[case.op].step, arguments)


def test_ignored_argument_is_caught() -> None:
    case = Case("linear_attention", T=20, decay="token", start=True)

    def deaf(q, k, v, log_decay=None, *, scale=None, initial_state=None):
        return LINEAR[0].function(q, k, v, log_decay, scale=0.3, initial_state=initial_state)

    with pytest.raises(AssertionError, match="scale is ignored"):
        assert_every_argument_matters(deaf, arguments_of(case))


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_every_number_of_every_input_has_influence(form: Form, case: Case) -> None:
    _, gradients = run(call_of(form, case), inputs_of(case), upstream_of(case))
    for name, gradient in gradients.items():
        assert (gradient != 0).all(), f"some numbers of {name} have no gradient"


@pytest.mark.parametrize(("form", "case"), rows(T=5, B=1, H=2, K=2, V=3, start=True, chunk_size=2))
def test_gradients_are_those_of_finite_differences(form: Form, case: Case) -> None:
    x = {name: y.clone().requires_grad_() for name, y in inputs_of(case).items()}

    def function(*leaves: Tensor) -> tuple[Tensor, ...]:
        return tuple(call_of(form, case)(dict(zip(x, leaves, strict=True))).values())

    assert torch.autograd.gradcheck(function, tuple(x.values()))


# --- what a form executes --------------------------------------------------------------------------------


class Operations(TorchDispatchMode):
    """Counts operations, and remembers the most numbers that one of them made."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += 1
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.untyped_storage().nbytes() // result.element_size())
        return result


def operations(form: Form, case: Case) -> Operations:
    x = inputs_of(case)
    with Operations() as seen:
        call_of(form, case)(x)
    return seen


CHUNK_LINEAR = tuple(form for form in LINEAR if form.form == "chunk")


@pytest.mark.parametrize(("form", "case"), rows(CHUNK_LINEAR, T=1, B=1, H=1, K=3, V=2, chunk_size=64))
def test_linear_chunk_form_has_no_loop_over_time(form: Form, case: Case) -> None:
    """Four times the tokens are two more doublings: the same few operations more, at any length."""
    short, middle, long = (operations(form, replace(case, T=T)).count for T in (256, 1024, 4096))
    assert long - middle == middle - short <= 20
    loop = [operations(LINEAR[0], replace(case, T=T)).count for T in (32, 128)]
    assert loop[1] > 3.5 * loop[0]  # the counter sees a loop where there is one


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=1024, B=1, H=1, K=3, V=2, chunk_size=16))
def test_chunk_form_never_holds_a_table_of_t_times_t(form: Form, case: Case) -> None:
    assert operations(form, case).largest < case.T**2 / 8
    for other in forms_of(form.op):
        assert other.form != "parallel" or operations(other, case).largest >= case.T**2


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=256, B=1, H=1, K=3, V=2))
def test_chunk_size_is_what_sizes_the_work(form: Form, case: Case) -> None:
    """It changes no result, so that it is not ignored must be seen in what is executed."""
    sizes = [operations(form, replace(case, chunk_size=C)) for C in (4, 8, 256)]
    assert len({(seen.count, seen.largest) for seen in sizes}) == 3
