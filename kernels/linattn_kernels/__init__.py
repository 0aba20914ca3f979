"""Run ops on a GPU by Triton kernels, under the names and with the arguments of ``linattn_ref.ops``."""

from linattn_kernels.delta import chunk_delta_rule
from linattn_kernels.delta_step import step_delta_rule
from linattn_kernels.forms import FORMS
from linattn_kernels.linear import chunk_linear_attention
from linattn_kernels.linear_step import step_linear_attention
from linattn_kernels.selective_scan import associative_selective_scan, step_selective_scan
from linattn_kernels.softmax import chunk_softmax_attention
from linattn_kernels.softmax_step import step_softmax_attention

__all__ = [
    "FORMS",
    "associative_selective_scan",
    "chunk_delta_rule",
    "chunk_linear_attention",
    "chunk_softmax_attention",
    "step_delta_rule",
    "step_linear_attention",
    "step_selective_scan",
    "step_softmax_attention",
]
