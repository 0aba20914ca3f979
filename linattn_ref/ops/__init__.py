"""Pure functions on tensors: the mathematics, one mechanism a file, every mechanism in all its forms."""

from linattn_ref.ops.feature_maps import FEATURE_MAPS, FeatureMap
from linattn_ref.ops.forms import FORMS, Form
from linattn_ref.ops.inputs import KVCache, LinearResult, SoftmaxResult
from linattn_ref.ops.linear import (
    chunk_linear_attention,
    normalised,
    parallel_linear_attention,
    recurrent_linear_attention,
    step_linear_attention,
)
from linattn_ref.ops.position import cos_reweight, rotate
from linattn_ref.ops.softmax import (
    chunk_softmax_attention,
    parallel_softmax_attention,
    recurrent_softmax_attention,
    step_softmax_attention,
)

__all__ = [
    "FEATURE_MAPS",
    "FORMS",
    "FeatureMap",
    "Form",
    "KVCache",
    "LinearResult",
    "SoftmaxResult",
    "chunk_linear_attention",
    "chunk_softmax_attention",
    "cos_reweight",
    "normalised",
    "parallel_linear_attention",
    "parallel_softmax_attention",
    "recurrent_linear_attention",
    "recurrent_softmax_attention",
    "rotate",
    "step_linear_attention",
    "step_softmax_attention",
]
