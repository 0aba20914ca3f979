"""Time what the host takes for a call that gives the GPU next to nothing to do: ``kernel_host``.

At a tiny shape a call takes as long as Python, torch and the driver need to launch its kernels. Ours and all
functions of FLA that compute the same take turns, so that a slow minute of the host meets them all. It wants
a machine on which nothing else runs.
"""

import time
from collections.abc import Mapping
from functools import partial

import torch

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_benchmarks.clock import Call, Clock, CPUClock, CudaClock, Spread, summarise_spread
from linattn_benchmarks.kernels import tuning
from linattn_benchmarks.kernels.candidates import list_candidates
from linattn_benchmarks.kernels.report import format_table
from linattn_benchmarks.kernels.rows import admit, compile_setting
from linattn_benchmarks.kernels.settings import OPS, KernelSetting

SHAPE = {Size.FULL: (1, 128, 2, 64), Size.REDUCED: (1, 128, 2, 64), Size.DRY_RUN: (1, 20, 1, 16)}
ROUNDS = {Size.FULL: (25, 40), Size.REDUCED: (5, 40), Size.DRY_RUN: (2, 1)}  # turns, and calls of each
COLUMNS = {
    "op": "of ours, and the shape of log_decay: none, [H], [B, T, H] or [B, T, H, K]",
    "mode": "fwd, fwdbwd (forward and backward, gradients of q, k, v and gates) or step (one token)",
    "function": "ours, a function of FLA that computes the same, or torch's scaled_dot_product_attention",
    "host_ms": "milliseconds of a call, median over turns of 40 calls that nothing waits for",
    "host_ms_low": "10 % quantile over the turns",
    "host_ms_high": "90 % quantile",
    "ratio": "host_ms of ours / host_ms",
    "remark": "why it was not timed",
}


def make_setting(op: str, mode: str, size: Size) -> KernelSetting:
    """Return the tiny setting of an op; a step is one more token, and its softmax form has a cache."""
    B, T, H, D = SHAPE[size]
    dtype = torch.float32 if size is Size.DRY_RUN else torch.bfloat16
    cache = T if op == "step_softmax_attention" else 0
    return KernelSetting(op, mode, B, 1 if mode == "step" else T, H, D, dtype, cache)


def time_host(calls: Mapping[str, Call], clock: Clock, turns: int, repeats: int) -> dict[str, Spread]:
    """Return the milliseconds of each call, from ``turns`` turns of ``repeats`` calls in a row.

    The clock stops before the device is waited for.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name, call in calls.items():
            clock.wait()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            took = time.perf_counter() - start
            if turn:  # the first one warms up
                times[name].append(1e3 * took / repeats)
    clock.wait()
    return {name: summarise_spread(found) for name, found in times.items()}


def measure_host(op: str, mode: str, size: Size) -> Rows:
    """Measure all functions that compute an op; FLA has no part in a dry run."""
    tuning.choose_where_tuning_is_kept()
    setting = make_setting(op, mode, size)
    clock: Clock = CPUClock() if size is Size.DRY_RUN else CudaClock()
    calls, _, left_out = admit(setting, list_candidates(setting, fla=size is not Size.DRY_RUN), clock)
    times = time_host(calls, clock, *ROUNDS[size])
    nothing = dict.fromkeys(COLUMNS)
    rows = [
        nothing
        | {"function": name, "host_ms": t.median, "host_ms_low": t.low, "host_ms_high": t.high}
        | {"ratio": times["ours"].median / t.median if "ours" in times else None}
        for name, t in times.items()
    ]
    rows += [nothing | {"function": name, "remark": why} for name, why in left_out.items()]
    return [row | {"op": op, "mode": mode} for row in rows]


def format_report(rows: Rows) -> str:
    """Return all rows as a table."""
    header = ("op", "mode", "function", "host_ms", "ratio")
    return format_table(header, [[row[name] for name in header] for row in rows])


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every op and mode."""
    return [
        Task(
            {"op": op, "mode": mode},
            partial(measure_host, op, mode, size),
            partial(compile_setting, make_setting(op, mode, size), size),
        )
        for op in OPS
        for mode in (("step",) if op.startswith("step") else ("fwd", "fwdbwd"))
    ]


KERNEL_HOST = Benchmark(
    name="kernel_host", columns=COLUMNS, tasks=list_tasks, needs_gpu=True, group_by="op", report=format_report
)
