"""A row: who is right, how long each takes, and how that compares with what the machine can do."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from linattn_benchmarks.kernels import candidates
from linattn_benchmarks.kernels.candidates import Candidate
from linattn_benchmarks.kernels.cases import Case, Inputs, inputs, leaves_of
from linattn_benchmarks.kernels.checking import checked
from linattn_benchmarks.kernels.costs import flops, moved_bytes
from linattn_benchmarks.kernels.timing import Ceilings, Clock, interleaved, peak_bytes

Row = dict[str, Any]

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
    "fla_op": "the fastest right function of FLA",
    "fla_peak_bytes": "bytes that fla_op holds beyond its inputs, at most",
    "error": "of ours on 512 tokens, relative L2: the largest of output, last state and gradients",
    "fla_error": "the same of fla_op",
    "copy_gbps": "GB/s of a large copy on this GPU, read and written bytes",
    "matmul_tflops": "TFLOP/s of a large matrix product in the same dtype",
    "remark": "who was not timed, and why",
}
KEY = ("op", "mode", "B", "T", "H", "K", "V", "dtype", "device")


def facts(case: Case, device: str) -> Row:
    """What is known before anything is measured; enough to find the row again."""
    sizes = {"B": case.B, "T": case.T, "H": case.H, "K": case.D, "V": case.D}
    dtype = str(case.dtype).removeprefix("torch.")
    return {"op": case.op, "mode": case.mode, **sizes, "dtype": dtype, "device": device}


def candidates_of(case: Case, fla: bool) -> list[Candidate]:
    """Ours first, torch's last."""
    torch_sdpa = candidates.sdpa(case)
    theirs = candidates.fla(case) if fla else []
    return [candidates.ours(case), *theirs, *([torch_sdpa] if torch_sdpa else [])]


def prepared(candidate: Candidate, x: Inputs, mode: str) -> Callable[[], Any]:
    """What is timed. A step goes on from the state that the one before it left, as a decoder does."""
    y = candidate.arrange(x)
    if mode == "fwdbwd":
        leaves = {name: y[name].detach().requires_grad_() for name in leaves_of(y)}

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


def reason(error: Exception) -> str:
    """One line of it."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}".rstrip(": ")


class Admitted(NamedTuple):
    """Who may be timed, how wrong each is, and why the others may not."""

    calls: dict[str, Callable[[], Any]]
    errors: dict[str, float]
    left_out: dict[str, str]


def admitted(case: Case, who: Sequence[Candidate], clock: Clock) -> Admitted:
    """Who runs and is right. One that fails must not hide the others; a lost GPU raises."""
    x = inputs(case, clock.device)
    found = Admitted({}, {}, {})
    for candidate in who:
        try:
            call = prepared(candidate, x, case.mode)
            call()  # at full size first: FLA keeps the configuration that it chooses in its first call
            clock.settle()
            if candidate.name != "sdpa":
                found.errors[candidate.name] = checked(candidate, case, clock.device)
            found.calls[candidate.name] = call
        except Exception as error:
            found.left_out[candidate.name] = reason(error)
            clock.settle()  # raises where the error has taken the GPU along
    return found


def measure(case: Case, who: Sequence[Candidate], clock: Clock, best: Ceilings, device: str) -> Row:
    """One row; who fails or is wrong is printed and named in ``remark``."""
    calls, errors, left_out = admitted(case, who, clock)
    times = interleaved(calls, clock) if calls else {}
    for name, t in times.items():
        print(f"    {name}: {t.median:.4f} ms ({t.low:.4f} to {t.high:.4f})", flush=True)
    for name, why in left_out.items():
        print(f"    {name} is not timed: {why}", flush=True)
    peaks = {name: peak_bytes(call, clock) for name, call in calls.items()}
    ours, torch_sdpa = times.get("ours"), times.get("sdpa")
    theirs = {name: t.median for name, t in times.items() if name not in ("ours", "sdpa")}
    fastest = min(theirs, key=lambda name: theirs[name], default=None)
    row = dict.fromkeys(COLUMNS) | facts(case, device) | best._asdict()
    row["floor_ms"] = moved_bytes(case) / best.copy_gbps / 1e6
    row["sdpa_ms"] = torch_sdpa.median if torch_sdpa else None
    row["remark"] = "; ".join(f"{name}: {why}" for name, why in left_out.items()) or None
    if ours:
        row |= {"ms": ours.median, "ms_low": ours.low, "ms_high": ours.high, "error": errors["ours"]}
        row |= {"tflops": flops(case) / ours.median / 1e9, "peak_bytes": peaks["ours"]}
    if fastest:
        row |= {"fla_ms": theirs[fastest], "fla_op": fastest, "fla_error": errors[fastest]}
        row["fla_peak_bytes"] = peaks[fastest]
    return row
