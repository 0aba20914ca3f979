"""How far a NaN or an infinity in one token reaches, form by form: what the docstrings say, and no further.

A causal mask is a factor of 0, and 0 x NaN is NaN. So a form that multiplies masked scores with values gives
NaN for earlier tokens too: of the chunk, or of the whole call. A recurrence never does, nor does a scan.
"""

import pytest
import torch

from linattn_ref.ops import FORMS, Form, chunk_linear_attention
from tests.ops.every_form import EXACT, rows
from tests.ops.ladder import OPS, call_of, inputs_of
from tests.ops.ladder_cases import Case
from tests.support.closeness import assert_close

T, CHUNK, TOKEN = 20, 7, 9
FIRST = {"token": TOKEN, "chunk": TOKEN - TOKEN % CHUNK, "call": 0}  # the first output that may be spoilt

# (op, form): inputs that reach further back than "token", which is its own and later outputs, and how far
REACH = {
    ("softmax_attention", "recurrent"): {"v": "call"},
    ("softmax_attention", "parallel"): {"v": "call"},
    ("softmax_attention", "chunk"): {"v": "call"},
    ("linear_attention", "parallel"): {"k": "call", "v": "call"},
    ("linear_attention", "chunk"): {"k": "chunk", "v": "chunk"},
    ("rwkv6", "chunk"): {"k": "chunk", "v": "chunk"},
    ("delta_rule", "chunk"): {"k": "chunk", "v": "chunk"},
    ("rwkv7", "chunk"): {"k": "chunk", "v": "chunk", "removal": "chunk"},
    ("lti_ssm", "convolution"): {"u": "call"},
    ("wkv", "parallel"): {"v": "call"},
    ("wkv", "chunk"): {"v": "chunk"},
}
CHECKED = {"log_decay", "beta", "rate", "delta"}  # these are refused when they are not finite


@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize(("form", "case"), rows(T=T, chunk_size=CHUNK))
def test_token_that_is_not_finite_reaches_no_further_than_documented(
    form: Form, case: Case, value: float
) -> None:
    x, call = inputs_of(case), call_of(form, case)
    want = call(x)["output"]
    for name in sorted((OPS[case.op].timed - CHECKED) & set(x)):
        spoilt = x[name].clone()
        spoilt[:, TOKEN] = value
        got = call({**x, name: spoilt})["output"]
        first = FIRST[REACH.get((form.op, form.form), {}).get(name, "token")]
        if first > 0:
            assert_close(f"{form.form}, {name}: outputs before", got[:, :first], want[:, :first], EXACT)
        assert not got[:, TOKEN].isfinite().all(), f"{name} has no influence on its own token"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.op}-{form.form}")
def test_docstring_says_how_far_a_nan_reaches(form: Form) -> None:
    reaches = set(REACH.get((form.op, form.form), {}).values())
    text = " ".join((form.function.__doc__ or "").split())
    assert ("NaN or infinity" in text) == bool(reaches)
    assert ("none of the chunks before" in text) == ("chunk" in reaches)


def test_values_that_are_checked_are_refused() -> None:
    q = torch.ones(1, 4, 1, 2)
    decay = torch.tensor([-1.0, torch.nan, -1.0, -1.0]).view(1, 4, 1)
    with pytest.raises(ValueError, match="log_decay: got a largest value of nan"):
        chunk_linear_attention(q, q, q, decay)
