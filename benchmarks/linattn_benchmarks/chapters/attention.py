"""One op of attention against the length: time and memory of its forms, and the two ways to bracket it."""

from collections.abc import Callable

import torch
from torch.nn.functional import scaled_dot_product_attention

from linattn_benchmarks.chapters.study import OPS, Rows, Study, lengths, seconds
from linattn_book.measure import default_device, peak_bytes
from linattn_ref import ops


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's fused softmax attention: what a user would call."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True)


ATTENTION_FORMS: dict[str, tuple[Callable, int]] = {  # and the longest sequence it is asked for
    "softmax, parallel": (ops.parallel_softmax_attention, 16_384),
    "softmax, chunk": (ops.chunk_softmax_attention, 32_768),
    "softmax, fused (SDPA)": (sdpa, 131_072),
    "linear, parallel": (ops.parallel_linear_attention, 16_384),
    "linear, chunk": (ops.chunk_linear_attention, 131_072),
    "linear, recurrent": (ops.recurrent_linear_attention, 8_192),
}


def attention_cost(reduced: bool) -> Rows:
    """Forward time and peak memory of one attention op, without projections, batch 1."""
    device = default_device()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    H, K, longest = (2, 64, 2048) if reduced else (16, 64, 131_072)
    rows = []
    for name, (op, limit) in ATTENTION_FORMS.items():
        for T in lengths(256, min(limit, longest)):
            q, k, v = torch.randn(3, 1, T, H, K, device=device, dtype=dtype)
            with torch.no_grad():
                memory = peak_bytes(lambda: op(q, k, v), device)
                time = seconds(lambda: op(q, k, v), repeats=3 if T > 16_384 else 10)
            rows.append({"form": name, "T": T, "H": H, "K": K, "ms": 1e3 * time, "peak_bytes": memory})
    return rows


def bracket_cost(reduced: bool) -> Rows:
    """(Q K^T) V against Q (K^T V), without mask: one head, float32."""
    device = default_device()
    rows = []
    for T in lengths(256, 4096 if reduced else 32_768):
        q, k, v = torch.randn(3, T, 64, device=device)
        left = seconds(lambda: (q @ k.mT) @ v)
        right = seconds(lambda: q @ (k.mT @ v))
        rows.append({"T": T, "K": 64, "left_ms": 1e3 * left, "right_ms": 1e3 * right})
    return rows


ATTENTION_COST = Study(
    attention_cost,
    {
        "form": "which op, in which form",
        "T": "tokens",
        "H": "heads",
        "K": "key and value width per head",
        "ms": "milliseconds, forward, median",
        "peak_bytes": "bytes held beyond the inputs, at most",
    },
    OPS,
)
BRACKET_COST = Study(
    bracket_cost,
    {
        "T": "tokens",
        "K": "key and value width",
        "left_ms": "milliseconds of (Q K^T) V, median",
        "right_ms": "milliseconds of Q (K^T V), median",
    },
    OPS,
)
