"""Choose the dtypes and the precision that a kernel computes in, by the dtype of its inputs."""

import torch
import triton.language as tl
from torch import Tensor


def operand_dtype(x: Tensor) -> tl.dtype:
    """Return what states and scores are rounded to as operands of the matrix unit.

    float16 has too little range for them: they go in as float32, which the matrix unit reads as TF32.
    """
    return tl.bfloat16 if x.dtype == torch.bfloat16 else tl.float32


def storage_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which states and scores are kept in memory between two kernels."""
    return x.dtype if x.dtype == torch.bfloat16 else torch.float32


def decay_sum_dtype(x: Tensor) -> tl.dtype:
    """Return the dtype in which log decays are summed: differences of sums must keep the inputs' digits."""
    return tl.float64 if x.dtype == torch.float32 else tl.float32


def max_split_exponent(x: Tensor) -> float:
    """Return the largest |exponent| allowed where exp(G_i - G_j) is split into two factors.

    In float32 exp(x) has a relative error of 6e-8 |x|, so the limit is low there.
    """
    return 8.0 if x.dtype == torch.float32 else 60.0


def dot_precision(x: Tensor) -> str:
    """Return ``input_precision`` for products of float32 tiles: TF32 is exact for what was float16."""
    return "tf32" if x.dtype == torch.float16 else "ieee"


def inverse_precision(x: Tensor) -> str:
    """Return ``input_precision`` for products that invert a system, whose factors are in float32."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


def map_precision(x: Tensor) -> str:
    """Return ``input_precision`` for products with the map of a segment, whose factors are in float32."""
    return "ieee" if x.dtype == torch.float32 else "tf32x3"
