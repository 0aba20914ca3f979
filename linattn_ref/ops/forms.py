"""List which op exists in which form: the ladder of tests and the table in the book read this registry."""

from collections.abc import Callable
from typing import Any, NamedTuple

from linattn_ref.ops.delta import chunk_delta_rule, recurrent_delta_rule
from linattn_ref.ops.linear import (
    chunk_linear_attention,
    parallel_linear_attention,
    recurrent_linear_attention,
)
from linattn_ref.ops.lti import convolution_lti_ssm, recurrent_lti_ssm
from linattn_ref.ops.rwkv6 import chunk_rwkv6, recurrent_rwkv6
from linattn_ref.ops.rwkv7 import chunk_rwkv7, recurrent_rwkv7
from linattn_ref.ops.scan import associative_selective_scan, recurrent_selective_scan
from linattn_ref.ops.softmax import (
    chunk_softmax_attention,
    parallel_softmax_attention,
    recurrent_softmax_attention,
)
from linattn_ref.ops.wkv import chunk_wkv, parallel_wkv, recurrent_wkv


def supports_all(case: Any) -> bool:
    """Return True: a reference supports every case."""
    return True


class Form(NamedTuple):
    """Describe one function of one op: an entry of ``FORMS``.

    Attributes:
        op: name of the op, as in ``step_{op}``.
        form: "recurrent", "parallel", "chunk", "convolution" or "associative".
        function: the function, as it is called.
        chunked: whether it takes ``chunk_size``.
        supports: from a case of the tests to whether its sizes and dtypes are supported: all, for a
            reference. A form must raise for a case that it does not support.

    Example:
        >>> [form.form for form in FORMS if form.op == "linear_attention"]
        ['recurrent', 'parallel', 'chunk']
    """

    op: str
    form: str
    function: Callable
    chunked: bool = False
    supports: Callable[[Any], bool] = supports_all


FORMS: tuple[Form, ...] = (
    Form("softmax_attention", "recurrent", recurrent_softmax_attention),
    Form("softmax_attention", "parallel", parallel_softmax_attention),
    Form("softmax_attention", "chunk", chunk_softmax_attention, chunked=True),
    Form("linear_attention", "recurrent", recurrent_linear_attention),
    Form("linear_attention", "parallel", parallel_linear_attention),
    Form("linear_attention", "chunk", chunk_linear_attention, chunked=True),
    Form("rwkv6", "recurrent", recurrent_rwkv6),
    Form("rwkv6", "chunk", chunk_rwkv6, chunked=True),
    Form("delta_rule", "recurrent", recurrent_delta_rule),
    Form("delta_rule", "chunk", chunk_delta_rule, chunked=True),
    Form("rwkv7", "recurrent", recurrent_rwkv7),
    Form("rwkv7", "chunk", chunk_rwkv7, chunked=True),
    Form("lti_ssm", "recurrent", recurrent_lti_ssm),
    Form("lti_ssm", "convolution", convolution_lti_ssm),
    Form("selective_scan", "recurrent", recurrent_selective_scan),
    Form("selective_scan", "associative", associative_selective_scan),
    Form("wkv", "recurrent", recurrent_wkv),
    Form("wkv", "parallel", parallel_wkv),
    Form("wkv", "chunk", chunk_wkv, chunked=True),
)
