"""Measure what the forms of chapters 3 to 5 cost against the length: loops, convolutions, scans and chunks.

All forms move the same 1,024 channels of one sequence. The state per channel differs as it does in published
models: 64 numbers in S4D, in the gated heads and in the delta rule, 16 in Mamba.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize, softplus

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device, doubling
from linattn_benchmarks.clock import measure_wall_seconds
from linattn_book.measure import peak_bytes
from linattn_ref import ops
from linattn_ref.ops.lti import convolve_causally

Call = Callable[[], Any]
LOOP_LIMIT = 4096  # tokens: a loop's time is its length times a constant long before


class Width(NamedTuple):
    """Say how wide a layer is: channels in all, and channels of a head, which are also its keys' entries."""

    channels: int
    head: int


SIZES = {  # width, shortest, longest
    Size.FULL: (Width(1024, 64), 256, 16_384),
    Size.REDUCED: (Width(128, 64), 256, 2048),
    Size.DRY_RUN: (Width(32, 16), 64, 64),
}


def make_invariant(op: Callable, T: int, width: Width, device: torch.device) -> Call:
    """Return a call of a layer as S4D starts: 32 complex rates a channel, its kernels made anew."""
    N, D = 32, width.channels
    u = torch.randn(1, T, D, device=device)
    delta = torch.logspace(-3, -1, D, device=device)
    A = torch.complex(torch.full((D, N), -0.5), torch.pi * torch.arange(N).expand(D, N)).to(device)
    B, C = torch.ones_like(A), torch.randn(D, N, dtype=A.dtype, device=device)
    return lambda: op(u, delta, A, B, C)


def make_kept_kernels(op: Callable, T: int, width: Width, device: torch.device) -> Call:
    """Return a call of the same layer where the kernels were made before."""
    u, kernel = (
        torch.randn(1, T, width.channels, device=device),
        torch.randn(width.channels, T, device=device),
    )
    return lambda: op(u, kernel)


def make_selective(op: Callable, T: int, width: Width, device: torch.device) -> Call:
    """Return a call of Mamba's scan: 16 real rates a channel."""
    N, D = 16, width.channels
    u = torch.randn(1, T, D, device=device)
    delta = softplus(torch.randn(1, T, D, device=device) - 3)
    A = -torch.arange(1.0, N + 1, device=device).expand(D, N)
    B, C = torch.randn(2, 1, T, N, device=device)
    return lambda: op(u, delta, A, B, C)


def make_gated(op: Callable, T: int, width: Width, device: torch.device, vector: bool, **more: int) -> Call:
    """Return a call of linear attention with a gate per token and head, or one per channel of the keys."""
    q, k, v = draw_heads(T, width, device)
    gates = logsigmoid(torch.randn_like(k if vector else k[..., 0]) + 3)
    return lambda: op(q, k, v, log_decay=gates, **more)


def make_delta(op: Callable, T: int, width: Width, device: torch.device, gated: bool, **more: int) -> Call:
    """Return a call of the delta rule, with or without a gate per token and head."""
    q, k, v = draw_heads(T, width, device)
    beta = torch.rand_like(k[..., 0])
    gates = logsigmoid(torch.randn_like(beta) + 3) if gated else None
    return lambda: op(q, normalize(k, dim=-1), v, beta, log_decay=gates, **more)


def draw_heads(T: int, width: Width, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of heads that hold all channels."""
    q, k, v = torch.randn(3, 1, T, width.channels // width.head, width.head, device=device)
    return q, k, v


class Form(NamedTuple):
    """Describe a form: what makes its call, its numbers of state a channel, and the longest sequence."""

    make: Callable[[int, Width, torch.device], Call]
    state: int
    limit: int = 16_384


FORMS = {
    "invariant, loop": Form(partial(make_invariant, ops.recurrent_lti_ssm), 64, LOOP_LIMIT),
    "invariant, convolution": Form(partial(make_invariant, ops.convolution_lti_ssm), 64),
    "invariant, convolution, kernels kept": Form(partial(make_kept_kernels, convolve_causally), 64),
    "selective, loop": Form(partial(make_selective, ops.recurrent_selective_scan), 16, LOOP_LIMIT),
    "selective, scan": Form(partial(make_selective, ops.associative_selective_scan), 16),
    "scalar gate, loop": Form(
        partial(make_gated, ops.recurrent_linear_attention, vector=False), 64, LOOP_LIMIT
    ),
    "scalar gate, chunks of 16": Form(
        partial(make_gated, ops.chunk_linear_attention, vector=False, chunk_size=16), 64
    ),
    "scalar gate, chunks of 128": Form(
        partial(make_gated, ops.chunk_linear_attention, vector=False, chunk_size=128), 64
    ),
    "vector gate, chunks of 16": Form(
        partial(make_gated, ops.chunk_linear_attention, vector=True, chunk_size=16), 64
    ),
    "vector gate, chunks of 128": Form(
        partial(make_gated, ops.chunk_linear_attention, vector=True, chunk_size=128), 64
    ),
    "delta rule, loop": Form(partial(make_delta, ops.recurrent_delta_rule, gated=False), 64, LOOP_LIMIT),
    "delta rule, chunks of 64": Form(
        partial(make_delta, ops.chunk_delta_rule, gated=False, chunk_size=64), 64
    ),
    "gated delta rule, chunks of 64": Form(
        partial(make_delta, ops.chunk_delta_rule, gated=True, chunk_size=64), 64
    ),
}


@torch.no_grad()
def measure_cost(name: str, T: int, size: Size) -> Rows:
    """Measure forward time and peak memory of one form, without projections, batch 1, float32."""
    device, width, form = choose_device(size), SIZES[size][0], FORMS[name]
    call = form.make(T, width, device)
    memory = peak_bytes(call, device)
    time = measure_wall_seconds(call, size, repeats=3 if "loop" in name else 10)
    return [{"D": width.channels, "state": form.state, "ms": 1e3 * time, "peak_bytes": memory}]


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every form and length."""
    _, first, last = SIZES[size]
    return [
        Task({"form": name, "T": T}, partial(measure_cost, name, T, size))
        for name, form in FORMS.items()
        for T in doubling(first, min(form.limit, last))
    ]


RECURRENCE_COST = Benchmark(
    name="recurrence_cost",
    columns={
        "form": "which recurrence, in which form",
        "T": "tokens",
        "D": "channels",
        "state": "numbers of state per channel",
        "ms": "milliseconds, forward, median",
        "peak_bytes": "bytes held beyond the inputs, at most",
    },
    tasks=list_tasks,
)
