"""Float32 over thousands of tokens, with gates that drift from mild to hard and back.

The ladder's float32 cases are short and their gates do not drift, so an error that grows with T, or that
needs a change of regime, would pass it. The bound is the ladder's: BACKWARD times how far results move when
inputs move in their last place, and every decay by a rounding. What is compared with is the form named in
``Op.long``, in float64. It is held to the oracle where the oracle's work grows with T, not with T squared.
"""

import functools
from dataclasses import replace

import pytest
import torch

from linattn_ref.ops import FORMS, Form
from tests.ops.ladder import (
    EPS,
    FLOAT64,
    OPS,
    Call,
    Moves,
    bounds_from,
    call_of,
    forms_of,
    inputs_of,
    moves_of,
    pairs,
    run,
    truth_of,
    upstream_like,
)
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

T = 8192
SHORTER = 1024  # where a table of T x T numbers, or T passes over T tokens, would take minutes or gigabytes
QUADRATIC = {
    ("linear_attention", "parallel"),
    ("softmax_attention", "parallel"),
    ("softmax_attention", "recurrent"),
    ("wkv", "parallel"),
}
LINEAR_TIME = [op for op in OPS if op not in ("softmax_attention", "wkv", "lti_ssm")]


def case_of(op: str, length: int) -> Case:
    """Return a small case with an initial state whose gates, or scores, drift."""
    decay, _ = OPS[op].long
    return Case(op, T=length, B=1, H=1, K=3, V=2, decay=decay, strength="drift", start=True, chunk_size=64)


def exact_form(op: str) -> Form:
    """Return the form that is run in float64."""
    return next(form for form in forms_of(op) if form.form == OPS[op].long[1])


@functools.cache
def moves_at(case: Case) -> tuple[Moves, Tensors]:
    """Return results and gradients in float64 with their sensitivities, and the upstream gradients."""
    leaves = inputs_of(case)
    call = call_of(exact_form(case.op), replace(case, dtype=torch.float64))
    upstream = upstream_like(case, call({name: x.double() for name, x in leaves.items()}))
    nudge = nudge_drifting_scan if case.op == "selective_scan" else OPS[case.op].nudge
    return moves_of(case, call, leaves, upstream, lambda name: EPS, draws=2, nudge=nudge), upstream


def nudge_drifting_scan(x: Tensors, eps: float) -> Tensors:
    """Return leaves with decay rates A off by what a rounding of every decay adds up to over a lifetime.

    Steps drift over five orders of magnitude, so no one change of A is a rounding of each token's decay. In
    the mild stretch a state lives for n tokens, until their log decays sum to -1: n roundings, n eps of it.
    """
    lost = (x["delta"].mean((0, 2)) * x["A"].abs().mean()).cumsum(0)
    return {**x, "A": x["A"] * (1 + eps * (lost < 1).sum())}


def params() -> list:
    """Return pytest parameters: every form, those that take seconds in the second tier."""
    quick = {"associative", "convolution", "parallel", "chunk"}
    return [
        pytest.param(
            form,
            id=f"{form.op}-{form.form}",
            marks=[] if form.form in quick and form.op != "softmax_attention" else [pytest.mark.slow],
        )
        for form in FORMS
    ]


@pytest.mark.parametrize("form", params())
def test_form_keeps_its_precision_over_a_long_sequence(form: Form) -> None:
    length = SHORTER if (form.op, form.form) in QUADRATIC else T
    case = replace(case_of(form.op, length), dtype=torch.float32)
    check_precision_at(case, call_of(form, case), form.form)


def check_precision_at(case: Case, call: Call, label: str) -> None:
    """Results and gradients of a call in float32 are within the bound of those in float64."""
    (results, gradients, moves), upstream = moves_at(case)
    bounds = bounds_from(case, moves)
    got = run(call, inputs_of(case), upstream)
    for name, one, other in pairs(got, (results, gradients)):
        assert_close(f"{label}: {name}", one, other, bounds[name])


def test_decays_from_differences_of_a_running_sum_are_caught() -> None:
    """The test above can fail: a sum that has gone through -50 a token keeps few digits of a mild gate."""
    case = replace(case_of("linear_attention", T), dtype=torch.float32)
    right = call_of(exact_form("linear_attention"), case)

    def wrong(x: Tensors) -> Tensors:
        total = x["log_decay"].cumsum(1)
        before = torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1]], 1)
        return right({**x, "log_decay": (total - before).clamp(max=0)})

    with pytest.raises(AssertionError, match="output: error"):
        check_precision_at(case, wrong, "differences")


@pytest.mark.slow
@pytest.mark.parametrize("op", LINEAR_TIME)
def test_float64_over_a_long_sequence_is_the_oracle_s(op: str) -> None:
    case = case_of(op, T)
    got = call_of(exact_form(op), case)(inputs_of(case))
    for name, want in truth_of(case).items():
        assert_close(f"{OPS[op].long[1]}: {name}", got[name], want, FLOAT64)
