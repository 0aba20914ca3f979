"""Rows of a test: every form, or every step, with every kind of decay."""

from typing import Any

import pytest
import torch

from linattn_ref.ops import FORMS, Form
from tests.ops.ladder import OPS, forms_of
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

EXACT = 1e-12  # the same sums in another order, in float64
BY_NAME = {f"{form.form}-{form.op}": form for form in FORMS}


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


def arguments(name: str, T: int, **fields: Any) -> dict[str, Any]:
    """Arguments of a form in float32, the first kind of decay unless told, with no start state."""
    op = OPS[BY_NAME[name].op]
    decay, strength = op.variants[0]
    case = Case(BY_NAME[name].op, **{"decay": decay, "strength": strength} | fields, T=T, dtype=torch.float32)
    x = op.inputs(case, case.generator("inputs"))
    return op.arguments(case, {key: leaf.float() for key, leaf in x.items()})
