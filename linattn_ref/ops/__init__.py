"""Define pure functions on tensors: the mathematics, one mechanism a file, each in all its forms."""

from linattn_ref.ops.delta import chunk_delta_rule, recurrent_delta_rule, step_delta_rule
from linattn_ref.ops.discretise import discretise
from linattn_ref.ops.feature_maps import FEATURE_MAPS, FeatureMap
from linattn_ref.ops.forms import FORMS, Form
from linattn_ref.ops.linear import (
    chunk_linear_attention,
    normalised,
    parallel_linear_attention,
    recurrent_linear_attention,
    step_linear_attention,
)
from linattn_ref.ops.lti import convolution_lti_ssm, recurrent_lti_ssm, step_lti_ssm
from linattn_ref.ops.position import cos_reweight, rotate
from linattn_ref.ops.results import ChannelResult, KVCache, LinearResult, SoftmaxResult
from linattn_ref.ops.rwkv6 import chunk_rwkv6, recurrent_rwkv6, step_rwkv6
from linattn_ref.ops.rwkv7 import chunk_rwkv7, recurrent_rwkv7, step_rwkv7
from linattn_ref.ops.scan import associative_selective_scan, recurrent_selective_scan, step_selective_scan
from linattn_ref.ops.softmax import (
    chunk_softmax_attention,
    parallel_softmax_attention,
    recurrent_softmax_attention,
    step_softmax_attention,
)
from linattn_ref.ops.wkv import WKVResult, WKVState, chunk_wkv, parallel_wkv, recurrent_wkv, step_wkv

__all__ = [
    "FEATURE_MAPS", "FORMS", "ChannelResult", "FeatureMap", "Form", "KVCache", "LinearResult",
    "SoftmaxResult", "WKVResult", "WKVState", "associative_selective_scan", "chunk_delta_rule",
    "chunk_linear_attention", "chunk_rwkv6", "chunk_rwkv7", "chunk_softmax_attention", "chunk_wkv",
    "convolution_lti_ssm", "cos_reweight", "discretise", "normalised", "parallel_linear_attention",
    "parallel_softmax_attention", "parallel_wkv", "recurrent_delta_rule", "recurrent_linear_attention",
    "recurrent_lti_ssm", "recurrent_rwkv6", "recurrent_rwkv7", "recurrent_selective_scan",
    "recurrent_softmax_attention", "recurrent_wkv", "rotate", "step_delta_rule", "step_linear_attention",
    "step_lti_ssm", "step_rwkv6", "step_rwkv7", "step_selective_scan", "step_softmax_attention",
    "step_wkv",
]  # fmt: skip
