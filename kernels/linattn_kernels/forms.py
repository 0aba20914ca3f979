"""Register which op has a kernel. The ladder of tests reads this beside ``linattn_ref.ops.FORMS``."""

from typing import Any

from linattn_kernels.delta import chunk_delta_rule
from linattn_kernels.linear import chunk_linear_attention
from linattn_kernels.softmax import chunk_softmax_attention
from linattn_kernels.validation import (
    HEAD_WIDTHS,
    LINEAR_CHUNK_SIZES,
    SOFTMAX_CHUNK_SIZES,
    SUPPORTED_DTYPES,
)
from linattn_ref.ops.forms import Form


def supports_linear(case: Any) -> bool:
    """Return whether the kernels of linear attention take the K, chunk size and dtype of a case; any V."""
    return case.K in HEAD_WIDTHS and case.chunk_size in LINEAR_CHUNK_SIZES and case.dtype in SUPPORTED_DTYPES


def supports_softmax(case: Any) -> bool:
    """Return whether the kernels of softmax attention take the K, V, chunk size and dtype of a case."""
    widths_fit = {case.K, case.V} <= set(HEAD_WIDTHS)
    return widths_fit and case.chunk_size in SOFTMAX_CHUNK_SIZES and case.dtype in SUPPORTED_DTYPES


def supports_delta_rule(case: Any) -> bool:
    """Return whether the kernels of the delta rule take the K, V, chunk size and dtype of a case."""
    return supports_linear(case) and case.V in HEAD_WIDTHS


FORMS: tuple[Form, ...] = (
    Form("linear_attention", "chunk", chunk_linear_attention, True, supports_linear),
    Form("delta_rule", "chunk", chunk_delta_rule, True, supports_delta_rule),
    Form("softmax_attention", "chunk", chunk_softmax_attention, True, supports_softmax),
)
