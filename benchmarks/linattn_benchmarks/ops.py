"""Measure attention ops against the length: time and memory of their forms, and the two ways to bracket."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device, doubling
from linattn_benchmarks.clock import measure_wall_seconds
from linattn_book.measure import peak_bytes
from linattn_ref import ops


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute softmax attention with torch's fused op: what a user would call."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True)


ATTENTION_FORMS: dict[str, tuple[Callable, int]] = {  # the op, and the longest sequence it is asked for
    "softmax, parallel": (ops.parallel_softmax_attention, 16_384),
    "softmax, chunk": (ops.chunk_softmax_attention, 32_768),
    "softmax, fused (SDPA)": (sdpa, 131_072),
    "linear, parallel": (ops.parallel_linear_attention, 16_384),
    "linear, chunk": (ops.chunk_linear_attention, 131_072),
    "linear, recurrent": (ops.recurrent_linear_attention, 8_192),
}
ATTENTION_SIZES = {  # heads, head width, shortest, longest
    Size.FULL: (16, 64, 256, 131_072),
    Size.REDUCED: (2, 64, 256, 2048),
    Size.DRY_RUN: (2, 16, 64, 64),
}
BRACKET_LENGTHS = {Size.FULL: (256, 32_768), Size.REDUCED: (256, 4096), Size.DRY_RUN: (64, 64)}


def measure_attention_cost(form: str, T: int, size: Size) -> Rows:
    """Measure forward time and peak memory of one attention op, without projections, batch 1."""
    device, op = choose_device(size), ATTENTION_FORMS[form][0]
    H, K, _, _ = ATTENTION_SIZES[size]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    q, k, v = torch.randn(3, 1, T, H, K, device=device, dtype=dtype)
    with torch.no_grad():
        memory = peak_bytes(lambda: op(q, k, v), device)
        time = measure_wall_seconds(lambda: op(q, k, v), size, repeats=3 if T > 16_384 else 10)
    return [{"H": H, "K": K, "ms": 1e3 * time, "peak_bytes": memory}]


def list_attention_tasks(size: Size) -> list[Task]:
    """Return a task for every form and length."""
    _, _, first, last = ATTENTION_SIZES[size]
    return [
        Task({"form": form, "T": T}, partial(measure_attention_cost, form, T, size))
        for form, (_, limit) in ATTENTION_FORMS.items()
        for T in doubling(first, min(limit, last))
    ]


def measure_bracket_cost(T: int, size: Size) -> Rows:
    """Measure (Q K^T) V against Q (K^T V), without mask: one head, float32."""
    q, k, v = torch.randn(3, T, 64, device=choose_device(size))
    left = measure_wall_seconds(lambda: (q @ k.mT) @ v, size)
    right = measure_wall_seconds(lambda: q @ (k.mT @ v), size)
    return [{"K": 64, "left_ms": 1e3 * left, "right_ms": 1e3 * right}]


def list_bracket_tasks(size: Size) -> list[Task]:
    """Return a task for every length."""
    return [Task({"T": T}, partial(measure_bracket_cost, T, size)) for T in doubling(*BRACKET_LENGTHS[size])]


ATTENTION_COST = Benchmark(
    name="attention_cost",
    columns={
        "form": "which op, in which form",
        "T": "tokens",
        "H": "heads",
        "K": "key and value width per head",
        "ms": "milliseconds, forward, median",
        "peak_bytes": "bytes held beyond the inputs, at most",
    },
    tasks=list_attention_tasks,
)
BRACKET_COST = Benchmark(
    name="bracket_cost",
    columns={
        "T": "tokens",
        "K": "key and value width",
        "left_ms": "milliseconds of (Q K^T) V, median",
        "right_ms": "milliseconds of Q (K^T V), median",
    },
    tasks=list_bracket_tasks,
)
