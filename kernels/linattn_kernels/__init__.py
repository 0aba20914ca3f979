"""Triton kernels: the same names and arguments as ``linattn_ref.ops``, for all that has a kernel."""

from linattn_kernels.chunk import chunk_linear_attention
from linattn_kernels.forms import FORMS
from linattn_kernels.softmax import chunk_softmax_attention
from linattn_kernels.softmax_step import step_softmax_attention
from linattn_kernels.step import step_linear_attention

__all__ = [
    "FORMS",
    "chunk_linear_attention",
    "chunk_softmax_attention",
    "step_linear_attention",
    "step_softmax_attention",
]
