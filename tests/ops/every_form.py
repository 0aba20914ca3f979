"""Parameters of tests that hold for every form, or every step, with every kind of decay.

The ladder (``test_ladder.py``) draws many cases of each form; a law takes one small case of each. ``rows``
and ``steps`` list them for ``pytest.mark.parametrize``; fields that they are given are fields of the cases.
"""

from typing import Any

import pytest
import torch

from linattn_ref.ops import FORMS, Form
from tests.ops.ladder import OPS, PACKED_OPS, forms_of
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

EXACT = 1e-12  # bound on the error of the same sums in another order, in float64
BY_NAME = {f"{form.form}-{form.op}": form for form in FORMS}


def kinds(op: str, **fields: Any) -> list[Case]:
    """Return a case for every kind of decay that the op takes, of the first strength that its entry names."""
    first = {decay: strength for decay, strength in reversed(OPS[op].variants)}  # the last one written stays
    return [Case(op, **{"strength": first[decay]} | fields, decay=decay) for decay in reversed(first)]


def rows(forms: tuple[Form, ...] = FORMS, **fields: Any) -> list:
    """Return pytest parameters (form, case): every form with every kind of decay."""
    return [
        pytest.param(form, case, id=f"{form.op}-{form.form}-{case.decay or 'no_decay'}")
        for form in forms
        for case in kinds(form.op, **fields)
    ]


def steps(**fields: Any) -> list:
    """Return pytest parameters (case): every op with every kind of decay."""
    return [
        pytest.param(case, id=f"{case.op}-{case.decay or 'no_decay'}")
        for op in OPS
        for case in kinds(op, **fields)
    ]


LINEAR = tuple(forms_of("linear_attention"))
SOFTMAX = tuple(forms_of("softmax_attention"))
PACKED = tuple(form for form in FORMS if form.op in PACKED_OPS)
CHUNKED = tuple(form for form in FORMS if form.chunked)
AT_ONCE = tuple(form for form in FORMS if form.form != "recurrent")


def assert_equal_runs(form: Form, case: Case, got: Tensors, want: Tensors, bound: float) -> None:
    """Fail unless two runs of a form have results, or gradients, of the same names and within the bound."""
    assert got.keys() == want.keys()
    for name in want:
        assert_close(f"{form.form} {case}: {name}", got[name], want[name], bound)


def arguments(name: str, T: int, **fields: Any) -> dict[str, Any]:
    """Return arguments of a form in float32, with the first kind of decay and no initial state unless told.

    Args:
        name: of the form, a key of ``BY_NAME``, as "chunk-linear_attention".
        T: number of tokens.
        fields: further fields of the case that the inputs are drawn for.
    """
    op = OPS[BY_NAME[name].op]
    decay, strength = op.variants[0]
    case = Case(BY_NAME[name].op, **{"decay": decay, "strength": strength} | fields, T=T, dtype=torch.float32)
    x = op.inputs(case, case.generator("inputs"))
    return op.arguments(case, {key: leaf.float() for key, leaf in x.items()})
