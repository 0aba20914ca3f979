"""Define the ground truth: NumPy, one head or channel, loops to be read aloud. Nothing of ours is imported.

Shapes: q, k ``[T, K]``; v ``[T, V]``; alpha ``[T]`` or ``[T, K]``, the decay itself, ``exp(log_decay)``;
state ``[K, V]``; o ``[T, V]``. Give float64. The functions only add, multiply, divide and (some) take
exponentials, so they run on SymPy symbols as well: ``dtype=object`` arrays, and ``exp=sympy_exp``.
"""

from linattn_ref.oracle.attention import (
    linear_attention,
    linear_attention_chunk,
    linear_attention_parallel,
    normalised_linear_attention,
    softmax_attention,
    softmax_attention_online,
    softmax_attention_restart,
)
from linattn_ref.oracle.memory import delta_rule, delta_rule_parallel, recurrence, rwkv6, rwkv7
from linattn_ref.oracle.ssm import compose, discretise, lti_ssm, lti_ssm_convolution, selective_scan, wkv

__all__ = [
    "compose", "delta_rule", "delta_rule_parallel", "discretise", "linear_attention",
    "linear_attention_chunk", "linear_attention_parallel", "lti_ssm", "lti_ssm_convolution",
    "normalised_linear_attention", "recurrence", "rwkv6", "rwkv7", "selective_scan", "softmax_attention",
    "softmax_attention_online", "softmax_attention_restart", "wkv",
]  # fmt: skip
