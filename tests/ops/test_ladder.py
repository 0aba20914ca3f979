"""Every form of every op: equal to the oracle, to every other form, and to itself after a split.

The checks are those of ``ladder.py``; here is what they are run on, that nothing is left out, and that they
find mistakes that are planted.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linattn_ref.ops import FORMS, Form, KVCache, parallel_softmax_attention
from tests.ops.ladder import (
    CHUNKS,
    EXACT_CASES,
    FLOAT64,
    LENGTHS,
    LOW_CASES,
    OPS,
    PACKED_CASES,
    Call,
    call_of,
    check_against_oracle,
    check_equal,
    check_precision,
    check_refusal,
    chunked,
    forms_of,
    inputs_of,
    low_precision,
    split_call,
    truth_of,
)
from tests.ops.ladder_cases import Case, Tensors, pairwise

THEOREMS = {
    "softmax_attention": [pytest.mark.theorem("thm-softmax-forms")],
    "linear_attention": [pytest.mark.theorem("thm-linear-forms")],
}
SAMPLE = 16  # one case in so many is in the sample of `make check`


def params(cases: dict[str, list[Case]], per_form: bool = True) -> list:
    """Return pytest parameters: every case, with every form of its op; a sample is marked ``check``."""
    rows = []
    for op in cases:
        for i, case in enumerate(cases[op]):
            marks = THEOREMS.get(op, [])[:]
            marks += [pytest.mark.check] if i % SAMPLE == 0 else []
            for form in forms_of(op) if per_form else [None]:
                label = f"{case}-{form.form}" if form else str(case)
                rows.append(pytest.param(*filter(None, (case, form)), marks=marks, id=label))
    return rows


def refused(case: Case, form: Form) -> bool:
    """Return True if the form does not support the case and, as it must, raises."""
    if form.supports(case):
        return False
    check_refusal(case, form)
    return True


# --- the ladder ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "form"), params(EXACT_CASES))
def test_form_equals_oracle(case: Case, form: Form) -> None:
    if not refused(case, form):
        check_against_oracle(case, call_of(form, case), form.form)


@pytest.mark.parametrize("case", params(EXACT_CASES, per_form=False))
def test_forms_equal_each_other(case: Case) -> None:
    able = [form for form in forms_of(case.op) if not refused(case, form)]
    for one, other in itertools.combinations(able, 2):
        check_equal(case, call_of(one, case), call_of(other, case), f"{one.form} against {other.form}")


@pytest.mark.parametrize(("case", "form"), params(EXACT_CASES))
def test_form_resumes_from_the_state_that_any_form_left(case: Case, form: Form) -> None:
    """Outputs, state and gradients through the split: as if there had been none."""
    case = replace(case, T=max(case.T, 2))
    if refused(case, form):
        return
    at = 1 + case.generator("split").initial_seed() % (case.T - 1)
    for other in forms_of(case.op):
        if other.supports(case):
            call = split_call(case, at, call_of(other, case), call_of(form, case))
            check_against_oracle(case, call, f"{other.form} to token {at}, then {form.form}")


@pytest.mark.parametrize(("case", "form"), params(PACKED_CASES))
def test_packed_sequences_are_computed_as_if_alone(case: Case, form: Form) -> None:
    check_against_oracle(case, call_of(form, case), form.form)


def test_packed_softmax_attention_takes_no_cache() -> None:
    q, cache = torch.ones(1, 3, 1, 2), KVCache(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    with pytest.raises(ValueError, match="initial_state: got a cache, expected None with cu_seqlens"):
        parallel_softmax_attention(q, q, q, initial_state=cache, cu_seqlens=torch.tensor([0, 1, 3]))


@pytest.mark.parametrize(("case", "form"), params(LOW_CASES))
def test_form_keeps_its_precision(case: Case, form: Form) -> None:
    if not refused(case, form):
        check_precision(case, call_of(form, case), form.form)


@st.composite
def any_case(draw: st.DrawFn, op: str) -> Case:
    """Draw a case of any sizes, in float64."""
    size = st.integers(1, 5)
    decay, strength = draw(st.sampled_from(OPS[op].variants))
    return Case(
        op,
        T=draw(st.integers(1, 40)),
        **{name: draw(size) for name in "BHKV"},
        decay=decay,
        strength=strength,
        start=draw(st.booleans()),
        chunk_size=draw(st.integers(1, 50)),
        scale=draw(st.sampled_from([None, 0.3, -1.0])),
        zeros=draw(st.booleans()),
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", [pytest.param(op, marks=THEOREMS.get(op, [])) for op in OPS])
@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(data=st.data())
def test_forms_equal_oracle_at_any_size_and_split(op: str, data: st.DataObject) -> None:
    case = data.draw(any_case(op))
    at = data.draw(st.integers(1, case.T))
    for form in forms_of(op):
        if refused(case, form):
            continue
        call = call_of(form, case)
        check_against_oracle(case, call, form.form)
        if at < case.T:
            check_against_oracle(case, split_call(case, at, call, call), f"{form.form}, split at {at}")


# --- the ladder is complete ------------------------------------------------------------------------------


def test_ladder_knows_every_op_of_the_registry() -> None:
    assert {form.op for form in FORMS} == set(OPS)


def test_registry_has_no_form_twice() -> None:
    assert (
        len({(form.op, form.form) for form in FORMS}) == len({form.function for form in FORMS}) == len(FORMS)
    )


@pytest.mark.parametrize("op", OPS)
def test_cover_meets_every_length_with_every_chunk_size_and_decay(op: str) -> None:
    cases = EXACT_CASES[op]
    if chunked(op):
        assert {(case.T, case.chunk_size) for case in cases} == set(itertools.product(LENGTHS, CHUNKS))
    assert {(case.T, case.decay, case.strength) for case in cases} == {
        (T, *kind) for T in LENGTHS for kind in OPS[op].variants
    }


def test_pairwise_meets_every_pair_of_levels() -> None:
    factors = {"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3, 4]}
    rows = pairwise(**factors)
    for one, other in itertools.combinations(factors, 2):
        assert {(row[one], row[other]) for row in rows} == set(
            itertools.product(factors[one], factors[other])
        )
    assert len(rows) < 3 * 2 * 4


# --- the ladder catches planted mistakes -----------------------------------------------------------------

EXAMPLE = Case("linear_attention", T=20, decay="channel", start=True, chunk_size=7)
Change = Callable[[Tensors], Tensors]


def spoilt(case: Case, before: Change = dict, after: Change = dict) -> Call:
    """Return the first form of an op, with its inputs or its results changed; ``dict`` changes nothing."""
    call = call_of(forms_of(case.op)[0], case)
    return lambda x: after(call(before(x)))


def drop(name: str) -> Change:
    """Return what leaves a name out."""
    return lambda x: {key: y for key, y in x.items() if key != name}


def detach(name: str) -> Change:
    """Return what keeps numbers and loses a gradient: the leaf stays in the graph, with weight zero."""
    return lambda x: {**x, name: x[name].detach() + 0 * x[name]}


def late_decay(x: Tensors) -> Tensors:
    """Return leaves with every decay one token late: the exclusive sum."""
    g = x["log_decay"]
    return {**x, "log_decay": torch.cat([torch.zeros_like(g[:, :1]), g[:, :-1]], 1) + 0 * g}


def scaled(name: str, factor: float) -> Change:
    """Return what multiplies a leaf or a result by a factor."""
    return lambda x: {**x, name: x[name] * factor}


PLANTED = {
    "no decay": {"before": lambda x: {**x, "log_decay": 0 * x["log_decay"]}},
    "decay one token late": {"before": late_decay},
    "start state ignored": {"before": lambda x: {**x, "initial_state": 0 * x["initial_state"]}},
    "other scale": {"before": scaled("q", 1 + 1e-9)},
    "state not handed over": {"after": scaled("state", 1 + 1e-9)},
    **{f"no gradient of {name}": {"before": detach(name)} for name in inputs_of(EXAMPLE)},
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_ladder_rejects_a_planted_mistake(mistake: str) -> None:
    wrong, right = spoilt(EXAMPLE, **PLANTED[mistake]), spoilt(EXAMPLE)
    check_against_oracle(EXAMPLE, right, "right")
    check_equal(EXAMPLE, right, right, "right")
    with pytest.raises(AssertionError, match="error"):
        check_against_oracle(EXAMPLE, wrong, mistake)
    with pytest.raises(AssertionError, match="error"):
        check_equal(EXAMPLE, wrong, right, mistake)


def in_bfloat16(*names: str) -> Change:
    """Return what rounds leaves or results to bfloat16."""
    return lambda x: {**x, **{name: x[name].bfloat16().to(x[name].dtype) for name in names}}


@pytest.mark.parametrize(
    ("dtype", "before", "after"),
    [
        pytest.param(torch.float32, in_bfloat16("q"), dict, id="q in bfloat16"),
        pytest.param(torch.float32, in_bfloat16("k"), dict, id="k in bfloat16"),
        pytest.param(torch.float32, in_bfloat16("log_decay"), dict, id="decay in bfloat16"),
        pytest.param(torch.bfloat16, dict, in_bfloat16("state"), id="state in bfloat16"),
        pytest.param(torch.bfloat16, dict, scaled("output", 1 + 2**-6), id="output wrong in its last digit"),
    ],
)
def test_ladder_rejects_precision_lost_on_the_way(dtype: torch.dtype, before: Change, after: Change) -> None:
    case = replace(EXAMPLE, dtype=dtype)
    check_precision(case, spoilt(case), "right")
    with pytest.raises(AssertionError, match="error"):
        check_precision(case, spoilt(case, before, after), "wrong")


def test_split_check_rejects_a_state_that_is_dropped_at_the_split() -> None:
    call = call_of(forms_of(EXAMPLE.op)[0], EXAMPLE)
    forgetful = split_call(EXAMPLE, 5, lambda x: scaled("state", 0.0)(call(x)), call)
    check_against_oracle(EXAMPLE, split_call(EXAMPLE, 5, call, call), "right")
    with pytest.raises(AssertionError, match="output: error"):
        check_against_oracle(EXAMPLE, forgetful, "wrong")


def test_unsupported_case_must_raise() -> None:
    picky = forms_of(EXAMPLE.op)[0]._replace(supports=lambda case: False)
    with pytest.raises(AssertionError, match=r"does not support .* but returned"):
        refused(EXAMPLE, picky)

    def refuses(*args, **kwargs) -> None:
        raise NotImplementedError("K = 5: expected a power of two")

    assert refused(EXAMPLE, picky._replace(function=refuses))


def test_low_precision_is_compared_for_every_result_and_gradient() -> None:
    case = replace(EXAMPLE, dtype=torch.bfloat16)
    names = {name for name, _, _ in low_precision(case, spoilt(case))}
    assert names == set(truth_of(case)) | {f"gradient of {name}" for name in inputs_of(case)}


def test_the_bound_of_float64_is_the_one_that_is_documented() -> None:
    assert FLOAT64 == 1e-10


def test_tests_of_ops_run_on_poisoned_memory() -> None:
    assert torch.empty(3).isnan().all()
