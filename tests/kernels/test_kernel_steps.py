"""Test one-token steps: equal to the whole, and in place where nothing is lost by it."""

import inspect
from typing import Any

import pytest
import torch

import linattn_kernels
import linattn_ref.ops
from linattn_ref.ops import KVCache
from tests.kernels.kernel_bounds import assert_accurate
from tests.kernels.kernel_calls import (
    KERNELS,
    call_in_parts,
    compile_call,
    get_step,
    kernel_call,
    kernel_step_call,
    make_strided,
)
from tests.kernels.kernel_cases import KERNEL_OPS, example, examples
from tests.ops.every_form import assert_equal_runs
from tests.ops.ladder import OPS, inputs_of, precision_bounds, split_call, truth_of
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

DECAYS = (None, "head", "token", "channel")
PUBLIC = [f"{kind}_{op}" for kind in ("chunk", "step") for op in KERNEL_OPS]


def copy_inputs(case: Case) -> Tensors:
    """Return inputs that a step may overwrite."""
    return {name: x.clone() for name, x in inputs_of(case).items()}


def step_arguments(case: Case) -> dict[str, Any]:
    """Return the arguments of a step."""
    arguments = OPS[case.op].arguments(case, copy_inputs(case))
    arguments["state"] = arguments.pop("initial_state")
    return arguments


@pytest.mark.check
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("case", examples(T=6), ids=str)
def test_steps_token_by_token_equal_the_whole(case: Case, dtype: torch.dtype, start: bool) -> None:
    """A step rounds nothing but its output: the ladder's own bound, in half precision too."""
    case = example(case.op, case.decay, T=6, dtype=dtype, start=start)
    with torch.no_grad():
        results = call_in_parts(case, 1, kernel_step_call(case))(copy_inputs(case))
    assert results.keys() == truth_of(case).keys()
    for name, want in truth_of(case).items():
        assert_close(name, results[name], want, precision_bounds(case)[name])


@pytest.mark.parametrize("V", [1, 17, 50])
def test_linear_step_takes_values_of_any_width(V: int) -> None:
    case = example("linear_attention", "channel", T=3, V=V)
    with torch.no_grad():
        results = call_in_parts(case, 1, kernel_step_call(case))(copy_inputs(case))
    for name, want in truth_of(case).items():
        assert_close(name, results[name], want, precision_bounds(case)[name])


@pytest.mark.parametrize("case", examples(T=3), ids=str)
def test_steps_have_gradients(case: Case) -> None:
    assert_accurate(case, call_in_parts(case, 1, kernel_step_call(case)), "steps")


@pytest.mark.parametrize("case", examples(T=20), ids=str)
def test_steps_go_on_from_a_prefill(case: Case) -> None:
    call = split_call(
        case,
        17,
        kernel_call(case),
        call_in_parts(example(case.op, case.decay, T=3), 1, kernel_step_call(case)),
    )
    with torch.no_grad():
        results = call(copy_inputs(case))
    for name, want in truth_of(case).items():
        assert_close(name, results[name], want, precision_bounds(case)[name])


# --- the state of linear attention -------------------------------------------------------------------------


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("contiguous", [True, False])
def test_step_updates_the_given_state_in_place(decay: str | None, contiguous: bool) -> None:
    x = step_arguments(example("linear_attention", decay, T=1))
    x["state"] = x["state"] if contiguous else make_strided(x["state"])
    want = get_step("linear_attention")(**{**x, "state": x["state"].clone()})
    before = x["state"].clone()
    with torch.no_grad():
        output, state = get_step("linear_attention")(**x)
    assert state is x["state"]
    assert not torch.equal(state, before)
    assert torch.equal(state, want.state)
    assert torch.equal(output, want.output)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("leaf", ["q", "state"])
def test_step_leaves_the_given_state_alone_where_a_gradient_is_wanted(decay: str | None, leaf: str) -> None:
    x = step_arguments(example("linear_attention", decay, T=1))
    before = x["state"].clone()
    x[leaf].requires_grad_()
    output, state = get_step("linear_attention")(**x)
    assert output.requires_grad
    assert state is not x["state"]
    assert torch.equal(x["state"], before)


def test_step_leaves_an_expanded_state_alone() -> None:
    """Its numbers share memory, so none of them can be updated."""
    case = example("linear_attention", "token", T=1, B=2)
    x = step_arguments(case)
    x["state"] = x["state"][:1].expand_as(x["state"])
    before = x["state"].clone()
    with torch.no_grad():
        got, want = (package.step_linear_attention(**x) for package in (linattn_kernels, linattn_ref.ops))
    assert_close("state", got.state, want.state, 1e-6)
    assert_close("state given", x["state"], before, 0.0)


def test_strided_state_made_in_inference_mode_is_left_alone_outside_of_it() -> None:
    """torch lets no code write into it there."""
    x = step_arguments(example("linear_attention", "token", T=1))
    with torch.inference_mode():
        x["state"] = x["state"].mT.contiguous().mT
    before = x["state"].clone()
    with torch.no_grad():
        got, want = (package.step_linear_attention(**x) for package in (linattn_kernels, linattn_ref.ops))
    assert_close("output", got.output, want.output, 1e-6)
    assert_close("state", got.state, want.state, 1e-6)
    assert_close("state given", x["state"], before, 0.0)


def test_cache_made_in_inference_mode_is_copied_outside_of_it() -> None:
    x = step_arguments(example("softmax_attention", T=1))
    with torch.inference_mode():
        cache = linattn_kernels.step_softmax_attention(**x).state
    with torch.no_grad():
        output, grown = linattn_kernels.step_softmax_attention(**{**x, "state": cache})
    assert output.isfinite().all()
    assert grown.k.shape[1] == cache.k.shape[1] + 1


def test_step_without_state_starts_from_zeros() -> None:
    x = step_arguments(example("linear_attention", "head", T=1))
    zeros = torch.zeros_like(x["state"])
    got, want = (get_step("linear_attention")(**{**x, "state": state}) for state in (None, zeros))
    assert torch.equal(got.output, want.output)
    assert torch.equal(got.state, want.state)


def test_steps_under_inference_mode() -> None:
    case = example("linear_attention", "channel", T=4)
    with torch.inference_mode():
        results = call_in_parts(case, 1, kernel_step_call(case))(copy_inputs(case))
    assert_close("output", results["output"], truth_of(case)["output"], precision_bounds(case)["output"])


# --- the cache of softmax attention ------------------------------------------------------------------------


def check_softmax_step(seed: int, cache: KVCache | None) -> Any:
    """Assert that a step of softmax attention equals the reference's, and return the new cache."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 1, 1, width, generator=generator) for width in (16, 16, 32))
    got = get_step("softmax_attention")(q, k, v, state=cache)
    want = linattn_ref.ops.step_softmax_attention(q, k, v, state=cache)
    assert_close("output", got.output, want.output, 1e-6)
    assert torch.equal(got.state.k, want.state.k)
    assert torch.equal(got.state.v, want.state.v)
    return got.state


def test_two_ways_on_from_one_cache_do_not_disturb_each_other() -> None:
    """A cache grows in place; a second step from the same one must not write over the first's token."""
    trunk = check_softmax_step(1, check_softmax_step(0, None))
    one = check_softmax_step(2, trunk)
    kept = KVCache(one.k.clone(), one.v.clone())
    other = check_softmax_step(3, trunk)
    check_softmax_step(4, other)
    assert torch.equal(one.k, kept.k)
    assert torch.equal(one.v, kept.v)
    check_softmax_step(5, one)


def test_a_cache_from_elsewhere_is_never_written_into() -> None:
    room = torch.zeros(2, 8, 1, 16), torch.zeros(2, 8, 1, 32)
    check_softmax_step(0, KVCache(room[0][:, :3], room[1][:, :3]))
    assert not any(x.any() for x in room)


def test_a_growing_cache_is_copied_only_when_it_is_full() -> None:
    cache, places = None, list[int]()
    for seed in range(70):
        cache = check_softmax_step(seed, cache)
        places.append(cache.k.data_ptr())
    assert len(set(places)) <= 2  # 70 tokens outgrow the first buffer, of 64, once


def test_a_cache_may_be_a_plain_tuple_and_strided() -> None:
    cache = check_softmax_step(1, check_softmax_step(0, None))
    check_softmax_step(2, (make_strided(cache.k), make_strided(cache.v)))  # type: ignore[arg-type]


# --- torch.compile and signatures --------------------------------------------------------------------------


@pytest.mark.parametrize("case", examples(T=1), ids=str)
def test_compiled_step_equals_eager(case: Case) -> None:
    """Results, and a linear state that is updated where it lies."""
    eager, step = copy_inputs(case), kernel_step_call(case)
    traced = copy_inputs(case)
    with torch.no_grad():
        want, got = step(eager), compile_call(step, "aot_eager")(traced)
    assert_equal_runs(KERNELS[case.op], case, got, want, 0.0)
    assert all(torch.equal(traced[name], eager[name]) for name in eager)


@pytest.mark.parametrize("name", PUBLIC)
def test_signature_is_that_of_the_reference(name: str) -> None:
    def arguments(module: Any) -> list[tuple[str, Any, Any]]:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert arguments(linattn_kernels) == arguments(linattn_ref.ops)


@pytest.mark.parametrize("case", examples(T=1), ids=str)
def test_step_and_whole_return_what_the_reference_returns(case: Case) -> None:
    x = OPS[case.op].arguments(case, copy_inputs(case))
    whole = KERNELS[case.op].function(**x)
    one = get_step(case.op)(**step_arguments(case))
    reference = OPS[case.op].step(**step_arguments(case))
    assert type(whole) is type(one) is type(reference)
    assert isinstance(one.state, type(reference.state))
    assert isinstance(whole.state, type(reference.state))
