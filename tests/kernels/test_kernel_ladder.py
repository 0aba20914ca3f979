"""Test every kernel on the ladder, in Triton's interpreter: results and gradients, whole and split."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from linattn_kernels.forms import FORMS
from linattn_kernels.validation import DTYPES, HEAD_WIDTHS
from linattn_ref.ops import FORMS as REFERENCES
from linattn_ref.ops import Form
from tests.kernels.kernel_bounds import assert_accurate
from tests.kernels.kernel_calls import KERNELS, call_in_parts, kernel_call, split_decay_gradient
from tests.kernels.kernel_cases import (
    GPU_CASES,
    INTERPRETER_CASES,
    INTERPRETER_LENGTHS,
    KERNEL_OPS,
    LAW_CASES,
    PACKED_CASES,
    VARIANTS,
    chunk_sizes_of,
    example,
    examples,
)
from tests.ops.ladder import (
    EXACT_CASES,
    Call,
    call_of,
    check_refusal,
    forms_of,
    inputs_of,
    pairs,
    precision_bounds,
    run,
    split_call,
    upstream_of,
)
from tests.ops.ladder_cases import Case
from tests.ops.test_ladder import Change, drop, late_decay, scaled
from tests.support.closeness import assert_close

SAMPLE = 16  # one case in so many is in the sample of `make check`
COVER = [
    pytest.param(case, marks=[pytest.mark.check] if i % SAMPLE == 0 else [], id=str(case))
    for cases in (*INTERPRETER_CASES.values(), *PACKED_CASES.values())
    for i, case in enumerate(cases)
]
UNSUPPORTED = [
    pytest.param(case, form, id=f"{case}-{form.form}") for form in FORMS for case in EXACT_CASES[form.op][::9]
]
every_example = pytest.mark.parametrize("case", examples(), ids=str)


def reference_chunk_form(case: Case) -> Call:
    """Return the reference's chunk form of a case, as a function from leaves to named results."""
    return call_of(next(form for form in forms_of(case.op, REFERENCES) if form.chunked), case)


# --- the ladder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", COVER)
def test_kernel_keeps_its_precision(case: Case) -> None:
    assert_accurate(case, kernel_call(case), "kernel")


@pytest.mark.parametrize("decay", ["head", "token"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"K": 32, "V": 16, "chunk_size": 32},
        {"T": 200, "H": 1},  # segments
        {"T": 65, "H": 1, "K": 64, "V": 64, "chunk_size": 64},
        {"T": 20, "H": 1, "K": 128},  # more columns than one program has room for
        {"scale": -0.5},
        {"scale": 0.0},
        {"strength": "hard"},
    ],
    ids=str,
)
def test_gradients_where_that_of_the_decays_is_not_wanted(decay: str, sizes: dict[str, Any]) -> None:
    """In half precision there is another backward: by passes, with no states in between."""
    case = example("linear_attention", decay, dtype=torch.float16, **sizes)
    assert_accurate(case, split_decay_gradient(kernel_call(case)), "decay gradient apart")


@every_example
def test_kernel_and_reference_hand_each_other_their_states(case: Case) -> None:
    """Split within a chunk; results and gradients are those of the whole, whoever computed which part."""
    kernel, reference = kernel_call(case), reference_chunk_form(case)
    for first, second in ((kernel, kernel), (reference, kernel), (kernel, reference)):
        assert_accurate(case, split_call(case, 21, first, second), "split at 21")


@pytest.mark.parametrize("decay", ["head", "channel"])
def test_kernel_resumes_after_every_split(decay: str) -> None:
    case = example("linear_attention", decay, T=4)
    for at in range(1, case.T):
        assert_accurate(case, split_call(case, at, kernel_call(case), kernel_call(case)), f"split at {at}")


@every_example
def test_kernel_resumes_many_times(case: Case) -> None:
    assert_accurate(case, call_in_parts(case, 17, kernel_call(case)), "parts of 17")


@pytest.mark.parametrize("case", examples(T=200, H=1), ids=str)
def test_kernel_on_a_long_sequence_of_one_head(case: Case) -> None:
    """Too few heads to fill a machine: kernels cut the sequence into segments that run side by side."""
    assert_accurate(case, kernel_call(case), "kernel")


@pytest.mark.parametrize(("decay", "V"), [(None, 17), ("head", 1), ("token", 50), ("channel", 33)])
def test_linear_kernel_takes_values_of_any_width(decay: str | None, V: int) -> None:
    """As ``normalised`` asks for: V + 1."""
    case = example("linear_attention", decay, T=20, V=V)
    assert_accurate(case, kernel_call(case), "kernel")


@pytest.mark.parametrize(("op", "decay"), [("linear_attention", "channel"), ("softmax_attention", None)])
def test_largest_chunks_and_widths(op: str, decay: str | None) -> None:
    size = max(chunk_sizes_of(op))
    case = example(op, decay, T=size + 1, H=1, K=64, V=128, chunk_size=size)
    assert_accurate(case, kernel_call(case), "kernel")


@every_example
def test_kernel_equals_the_reference_chunk_form(case: Case) -> None:
    """Each within its bound of float64, so within twice the bound of each other."""
    calls = (kernel_call(case), reference_chunk_form(case))
    got, want = (run(call, inputs_of(case), upstream_of(case)) for call in calls)
    for name, ours, theirs in pairs(got, want):
        assert_close(name, ours, theirs, 2 * precision_bounds(case)[name])


@pytest.mark.parametrize(("case", "form"), UNSUPPORTED)
def test_unsupported_case_raises(case: Case, form: Form) -> None:
    """The reference's cases: float64, widths and chunks that are no tiles."""
    assert not form.supports(case)
    check_refusal(case, form)


@pytest.mark.parametrize("op", KERNEL_OPS)
def test_form_supports_what_its_cases_ask_for(op: str) -> None:
    assert all(KERNELS[op].supports(case) for case in INTERPRETER_CASES[op])
    refused: list[dict[str, Any]] = [{"K": 24}, {"chunk_size": 7}, {"dtype": torch.float64}]
    for changed in refused + [{"V": 256}] * (op == "softmax_attention"):
        assert not KERNELS[op].supports(replace(INTERPRETER_CASES[op][0], **changed))


# --- the covers are covers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", KERNEL_OPS)
def test_covers_meet_every_pair_that_matters(op: str) -> None:
    gpu, cpu = GPU_CASES[op], INTERPRETER_CASES[op]
    kinds = VARIANTS[op]
    assert {(case.K, case.V) for case in gpu} == set(itertools.product(HEAD_WIDTHS, HEAD_WIDTHS))
    assert {(case.dtype, case.chunk_size) for case in gpu} == set(
        itertools.product(DTYPES, chunk_sizes_of(op))
    )
    assert {(case.start, case.decay, case.strength) for case in gpu} == {
        (start, *kind) for start in (False, True) for kind in kinds
    }
    for cases in (gpu, cpu):
        lengths = {case.T for case in cases}
        assert lengths >= set(INTERPRETER_LENGTHS)
        assert {(case.T, case.decay, case.strength) for case in cases} == {
            (T, *kind) for T in lengths for kind in kinds
        }
    assert {(case.decay, case.dtype) for case in LAW_CASES if case.op == op} == {
        (decay, dtype) for decay, _ in kinds for dtype in DTYPES
    }


# --- the checks catch planted mistakes ---------------------------------------------------------------------

EXAMPLE = example("linear_attention", "channel", T=20)


def spoil_kernel(before: Change = dict, after: Change = dict, case: Case = EXAMPLE) -> Call:
    """Return a kernel's call with its inputs or its results changed."""
    call = kernel_call(case)
    return lambda x: after(call(before(x)))


def detach(name: str) -> Change:
    """Return a change that cuts a leaf's gradient."""
    return lambda x: {**x, name: x[name].detach() + 0 * x[name]}


PLANTED = {
    "state dropped": {"after": scaled("state", 0.0)},
    "start state ignored": {"before": scaled("initial_state", 0.0)},
    "decay one token late": {"before": late_decay},
    "no decay": {"before": scaled("log_decay", 0.0)},
    "other scale": {"before": scaled("q", 1 + 1e-4)},
    "half precision inside": {"before": lambda x: {**x, "k": x["k"].half().float()}},
    **{f"no gradient of {name}": {"before": detach(name)} for name in inputs_of(EXAMPLE)},
}


def test_the_right_kernel_passes() -> None:
    assert_accurate(EXAMPLE, spoil_kernel(), "right")


@pytest.mark.parametrize("mistake", PLANTED)
def test_check_rejects_a_planted_mistake(mistake: str) -> None:
    with pytest.raises(AssertionError, match="error"):
        assert_accurate(EXAMPLE, spoil_kernel(**PLANTED[mistake]), mistake)


@pytest.mark.parametrize(
    ("op", "name", "factor"),
    [
        ("linear_attention", "output", 1 + 2**-7),
        ("linear_attention", "state", 1 + 2**-7),
        ("softmax_attention", "output", 1 + 2**-7),
    ],
)
def test_check_rejects_a_result_wrong_by_a_hundredth_in_half_precision(
    op: str, name: str, factor: float
) -> None:
    case = example(op, dtype=torch.float16)
    assert_accurate(case, kernel_call(case), "right")
    with pytest.raises(AssertionError, match=f"{name}: error"):
        assert_accurate(case, spoil_kernel(after=scaled(name, factor), case=case), "wrong")


def test_check_compares_dtypes_and_names() -> None:
    with pytest.raises(AssertionError):
        assert_accurate(EXAMPLE, spoil_kernel(after=drop("state")), "no state")
    with pytest.raises(AssertionError):
        assert_accurate(
            EXAMPLE, spoil_kernel(after=lambda y: {**y, "state": y["state"].double()}), "state in float64"
        )


def test_memory_is_poisoned_in_tests_of_kernels() -> None:
    assert torch.empty(3).isnan().all()
