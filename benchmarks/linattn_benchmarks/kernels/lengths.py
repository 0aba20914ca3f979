"""Time our kernels against the length and the chunk size, beside torch's attention: ``kernel_lengths``.

The tokens of a call stay the same, so a longer sequence means fewer of them. Where linear attention meets
softmax, and which chunk is the fastest, is to be seen in chapter 6.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, doubling
from linattn_benchmarks.clock import time_interleaved
from linattn_benchmarks.kernels.candidates import Candidate, make_our_candidate, wrap_sdpa
from linattn_benchmarks.kernels.rows import measure_machine, prepare
from linattn_benchmarks.kernels.settings import Inputs, KernelSetting, make_inputs

OPS = (
    "chunk_softmax_attention",
    "chunk_linear_attention/none",
    "chunk_linear_attention/H",
    "chunk_linear_attention/BTH",
    "chunk_linear_attention/BTHK",
    "chunk_delta_rule/none",
)
CHUNKS = (16, 32, 64)  # that our kernels have
COLUMNS = {
    "op": "of ours, and the shape of log_decay: none, [H], [B, T, H] or [B, T, H, K]",
    "mode": "fwd, or fwdbwd (forward and backward)",
    "T": "tokens of a sequence",
    "chunk": "tokens of a chunk at most",
    "B": "sequences: as many as make the same number of tokens",
    "H": "heads",
    "D": "key and value width per head",
    "ms": "milliseconds of ours on the GPU, median, with a cold cache",
    "sdpa_ms": "of torch's scaled_dot_product_attention (FlashAttention) on the same sizes",
}


class Sizes(NamedTuple):
    """Say how many tokens and heads a call has, and the shortest and longest sequence."""

    tokens: int
    heads: int
    width: int
    shortest: int
    longest: int


SIZES = {
    Size.FULL: Sizes(16_384, 16, 128, 128, 16_384),
    Size.REDUCED: Sizes(16_384, 16, 128, 1024, 1024),
    Size.DRY_RUN: Sizes(64, 1, 16, 32, 32),
}


def give_chunk(candidate: Candidate, chunk: int) -> Candidate:
    """Return our candidate with chunks of so many tokens."""

    def arrange(x: Inputs) -> Inputs:
        return candidate.arrange(x) | {"chunk_size": chunk}

    return candidate._replace(arrange=arrange)


def measure_length(op: str, mode: str, T: int, chunk: int, size: Size) -> Rows:
    """Measure ours and torch's attention at one length."""
    sizes = SIZES[size]
    dtype = torch.float32 if size is Size.DRY_RUN else torch.bfloat16
    setting = KernelSetting(op, mode, sizes.tokens // T, T, sizes.heads, sizes.width, dtype)
    clock = measure_machine(size).clock
    x = make_inputs(setting, clock.device)
    candidates = [give_chunk(make_our_candidate(setting), chunk), wrap_sdpa(setting)]
    calls = {one.name: prepare(one, x, mode) for one in candidates if one is not None}
    times = time_interleaved(calls, clock)
    cells = {"B": setting.B, "H": sizes.heads, "D": sizes.width}
    return [cells | {"ms": times["ours"].median, "sdpa_ms": times["sdpa"].median}]


def list_lengths(size: Size) -> Iterator[tuple[str, int, int]]:
    """Yield op, length and chunk: every length at 64, and one length of linear attention at all of them."""
    lengths = list(doubling(SIZES[size].shortest, SIZES[size].longest))
    for op in OPS:
        for T in lengths:
            several = "linear" in op and min(2048, lengths[-1]) == T
            yield from ((op, T, chunk) for chunk in (CHUNKS if several else (64,)))


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every op, mode, length and chunk."""
    return [
        Task(
            {"op": op, "mode": mode, "T": T, "chunk": chunk},
            partial(measure_length, op, mode, T, chunk, size),
        )
        for mode in ("fwd", "fwdbwd")
        for op, T, chunk in list_lengths(size)
    ]


KERNEL_LENGTHS = Benchmark(
    name="kernel_lengths", columns=COLUMNS, tasks=list_tasks, needs_gpu=True, group_by="op"
)
