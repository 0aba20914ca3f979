"""Measure a row: who is right, how long each takes, and how that compares with what the machine can do."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task
from linattn_benchmarks.clock import (
    Ceilings,
    Clock,
    CPUClock,
    CudaClock,
    measure_ceilings,
    measure_host_milliseconds,
    time_interleaved,
)
from linattn_benchmarks.compare import dtype_name
from linattn_benchmarks.kernels import tuning
from linattn_benchmarks.kernels.candidates import Candidate, list_candidates
from linattn_benchmarks.kernels.correctness import check_candidate
from linattn_benchmarks.kernels.costs import count_flops, count_moved_bytes
from linattn_benchmarks.kernels.report import format_report
from linattn_benchmarks.kernels.settings import (
    Inputs,
    KernelSetting,
    list_differentiated,
    list_settings,
    make_inputs,
)
from linattn_book.measure import peak_bytes


def read_fla_version() -> str:
    """Return FLA's version for the meaning of a column, read without importing FLA; empty without FLA."""
    found = find_spec("fla")
    text = Path(found.origin).read_text("utf-8") if found and found.origin else ""
    version = re.search(r"__version__ = ['\"](.+?)['\"]", text)
    return f" {version[1]}" if version else ""


COLUMNS = {
    "op": "of ours, and the shape of log_decay: none, [H], [B, T, H] or [B, T, H, K]",
    "mode": "fwd, fwdbwd (forward and backward, gradients of q, k, v and gates) or step (one token)",
    "B": "sequences",
    "T": "tokens; 1 for a step, whose softmax form reads a cache of 4096",
    "H": "heads",
    "K": "key width per head",
    "V": "value width per head",
    "dtype": "of q, k, v; decays and linear states are float32",
    "ms": "milliseconds of ours on the GPU, median, with a cold cache",
    "fla_ms": "of the fastest right function of FLA",
    "sdpa_ms": "of torch's scaled_dot_product_attention (FlashAttention)",
    "floor_ms": "bytes that must be moved / copy_gbps",
    "tflops": "TFLOP/s of ours, by the count of the chunk form with C = 64",
    "peak_bytes": "bytes that ours holds beyond its inputs, at most",
    "device": "GPU",
    "ms_low": "10 % quantile of ms",
    "ms_high": "90 % quantile of ms",
    "fla_op": f"the fastest right function of FLA{read_fla_version()}",
    "fla_peak_bytes": "bytes that fla_op holds beyond its inputs, at most",
    "host_ms": "milliseconds until a call of ours returns, median, on an idle GPU that is not waited for",
    "fla_host_ms": "the same of fla_op",
    "error": "of ours on 512 tokens, relative L2: the largest of output, last state and gradients",
    "fla_error": "the same of fla_op",
    "copy_gbps": "GB/s of a large copy on this GPU, read and written bytes",
    "matmul_tflops": "TFLOP/s of a large matrix product in the same dtype",
    "remark": "who was not timed, and why",
}


def make_key(setting: KernelSetting) -> dict[str, Any]:
    """Return the cells that are known before anything is measured."""
    sizes = {"B": setting.B, "T": setting.T, "H": setting.H, "K": setting.D, "V": setting.D}
    return {"op": setting.op, "mode": setting.mode, **sizes, "dtype": dtype_name(setting.dtype)}


def prepare(candidate: Candidate, x: Inputs, mode: str) -> Callable[[], Any]:
    """Return the call that is timed. A step goes on from the state that the one before it left."""
    y = candidate.arrange(x)
    if mode == "fwdbwd":
        leaves = {name: y[name].detach().requires_grad_() for name in list_differentiated(y)}

        def both() -> Any:
            output = candidate.call(y | leaves)[0]
            return torch.autograd.grad(output, list(leaves.values()), y["do"])

        return both

    @torch.no_grad()
    def forward() -> Any:
        output, state = candidate.call(y)
        if mode == "step" and state is not None:
            y["state"] = state
        return output, state

    return forward


def format_error(error: Exception) -> str:
    """Return an error as one line."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}".rstrip(": ")


class Admitted(NamedTuple):
    """Hold who may be timed, how wrong each is, and why the others may not."""

    calls: dict[str, Callable[[], Any]]
    errors: dict[str, float]
    left_out: dict[str, str]


def admit(setting: KernelSetting, candidates: Sequence[Candidate], clock: Clock) -> Admitted:
    """Find out who runs and is right. One that fails must not hide the others; a lost GPU raises."""
    x = make_inputs(setting, clock.device)
    found = Admitted({}, {}, {})
    for candidate in candidates:
        try:
            call = prepare(candidate, x, setting.mode)
            call()  # at full size first: FLA keeps the configuration that it chooses in its first call
            clock.wait()
            if candidate.name != "sdpa":
                found.errors[candidate.name] = check_candidate(candidate, setting, clock.device)
            found.calls[candidate.name] = call
        except Exception as error:
            found.left_out[candidate.name] = format_error(error)
            clock.wait()  # raises where the error has taken the GPU along
    return found


def measure(
    setting: KernelSetting, candidates: Sequence[Candidate], clock: Clock, best: Ceilings, device: str
) -> BenchmarkRow:
    """Measure one row; who fails or is wrong is printed and named in ``remark``."""
    calls, errors, left_out = admit(setting, candidates, clock)
    times = time_interleaved(calls, clock) if calls else {}
    for name, t in times.items():
        print(f"    {name}: {t.median:.4f} ms ({t.low:.4f} to {t.high:.4f})", flush=True)
    for name, why in left_out.items():
        print(f"    {name} is not timed: {why}", flush=True)
    cuda = clock.device.type == "cuda"
    peaks = {name: peak_bytes(call, clock.device) if cuda else None for name, call in calls.items()}
    hosts = {name: measure_host_milliseconds(call, clock) for name, call in calls.items()}
    our_time, torch_sdpa = times.get("ours"), times.get("sdpa")
    fla_times = {name: t.median for name, t in times.items() if name not in ("ours", "sdpa")}
    fastest = min(fla_times, key=lambda name: fla_times[name], default=None)
    row = dict.fromkeys(COLUMNS) | make_key(setting) | best._asdict() | {"device": device}
    row["floor_ms"] = count_moved_bytes(setting) / best.copy_gbps / 1e6
    row["sdpa_ms"] = torch_sdpa.median if torch_sdpa else None
    row["remark"] = "; ".join(f"{name}: {why}" for name, why in left_out.items()) or None
    if our_time:
        row |= {"ms": our_time.median, "ms_low": our_time.low, "ms_high": our_time.high}
        row |= {"tflops": count_flops(setting) / our_time.median / 1e9, "error": errors["ours"]}
        row |= {"peak_bytes": peaks["ours"], "host_ms": hosts["ours"]}
    if fastest:
        row |= {"fla_ms": fla_times[fastest], "fla_op": fastest, "fla_error": errors[fastest]}
        row |= {"fla_peak_bytes": peaks[fastest], "fla_host_ms": hosts[fastest]}
    return row


# --- the benchmark ------------------------------------------------------------------------------------------


class Machine(NamedTuple):
    """Hold the clock of a device, what it can do at best, and its name."""

    clock: Clock
    best: Ceilings
    device: str


@lru_cache(1)
def measure_machine(size: Size) -> Machine:
    """Measure once what this machine can do at best."""
    clock: Clock = CPUClock() if size is Size.DRY_RUN else CudaClock()
    best = measure_ceilings(clock, next(list_settings(size)).dtype)
    device = "CPU, dry run" if size is Size.DRY_RUN else torch.cuda.get_device_name(clock.device)
    rates = f"copies {best.copy_gbps:.0f} GB/s, products {best.matmul_tflops:.0f} TFLOP/s"
    print(f"{device}: {rates}", flush=True)
    return Machine(clock, best, device)


def measure_setting(setting: KernelSetting, size: Size) -> Rows:
    """Measure the row of a setting; FLA has no part in a dry run."""
    tuning.choose_where_tuning_is_kept()
    if not tuning.is_kept():
        tuning.forget_choices()
    candidates = list_candidates(setting, fla=size is not Size.DRY_RUN)
    return [measure(setting, candidates, *measure_machine(size))]


def compile_setting(setting: KernelSetting, size: Size) -> None:
    """Compile whatever the timed run of a setting will call."""
    tuning.choose_where_tuning_is_kept(warm=True)
    tuning.time_nothing()
    clock = CPUClock() if size is Size.DRY_RUN else CudaClock()
    x = make_inputs(setting, clock.device)
    for candidate in list_candidates(setting, fla=size is not Size.DRY_RUN):
        try:
            prepare(candidate, x, setting.mode)()
            if candidate.name != "sdpa":
                check_candidate(candidate, setting, clock.device)
        except Exception as error:  # the timed run will say so in its row
            print(f"{setting}, {candidate.name}: {format_error(error)}", flush=True)
        clock.wait()


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every op, mode and shape."""
    return [
        Task(
            make_key(setting),
            partial(measure_setting, setting, size),
            partial(compile_setting, setting, size),
        )
        for setting in list_settings(size)
    ]


KERNELS = Benchmark(
    name="kernels",
    columns=COLUMNS,
    tasks=list_tasks,
    needs_gpu=True,
    group_by="op",
    is_kept=lambda row: row["ms"] is not None,
    report=format_report,
)
