"""Time Mamba's selective scan: our kernels, mamba-ssm's CUDA scan, and the reference by torch.compile.

mamba-ssm's is the extension module ``selective_scan_cuda``, which ``build_mamba.py`` builds; without it its
column is empty. It has time last, and gets inputs that lie so.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task
from linattn_benchmarks.clock import time_interleaved
from linattn_benchmarks.compare import l2_error
from linattn_benchmarks.kernels.rows import measure_machine
from linattn_kernels import associative_selective_scan
from linattn_ref import ops

Call = Callable[[], tuple[Tensor, ...]]
NAMES = ("", "mamba_", "plain_")  # of columns: ours, mamba-ssm's, the reference's
PEER = "selective_scan_cuda"
SHAPES = {  # B, T, D, N
    Size.FULL: (
        (8, 2048, 2048, 16),
        (2, 8192, 2048, 16),
        (1, 32_768, 2048, 16),
        (16, 2048, 1536, 16),
        (2, 2048, 1536, 16),
    ),
    Size.REDUCED: ((2, 2048, 1536, 16),),
    Size.DRY_RUN: ((1, 9, 4, 2),),
}
COLUMNS = {
    "mode": "fwd, or fwdbwd (forward and backward, gradients of all inputs)",
    "B": "sequences",
    "T": "tokens",
    "D": "channels",
    "N": "numbers of state in each channel",
    "ms": "milliseconds of ours on the GPU, median, with a cold cache; u, delta, B and C in bfloat16",
    "mamba_ms": "of mamba-ssm's CUDA scan, in its own layout",
    "plain_ms": "of the reference's scan by torch.compile; empty: it had not enough memory",
    "floor_ms": "bytes of inputs and results (and of their gradients) / the rate of a copy in the same run",
    "error": "of ours, relative L2 to float64, the largest of output and gradients; on the first 512 tokens",
    "mamba_error": "the same of mamba-ssm's",
}


def make_inputs(B: int, T: int, D: int, N: int, size: Size) -> dict[str, Tensor]:
    """Return the arguments of a scan, and "dy", the gradient of its output."""
    device = measure_machine(size).clock.device
    dtype = torch.float32 if size is Size.DRY_RUN else torch.bfloat16
    torch.manual_seed(0)
    sequences = {"u": (B, T, D), "B": (B, T, N), "C": (B, T, N), "dy": (B, T, D)}
    x = {name: torch.randn(shape, device=device, dtype=dtype) for name, shape in sequences.items()}
    x["delta"] = (0.1 * torch.rand(B, T, D, device=device)).to(dtype)
    return x | {"A": -8 * torch.rand(D, N, device=device), "D": torch.randn(D, device=device)}


def prepare_scan(op: Callable[..., Any], x: dict[str, Tensor], mode: str) -> Call:
    """Return a call of an op with our arguments: its output, and the gradients of the inputs by name."""
    y, dy = {name: leaf for name, leaf in x.items() if name != "dy"}, x["dy"]
    if mode == "fwd":
        return torch.no_grad()(lambda: (op(**y).output,))
    leaves = {name: leaf.detach().requires_grad_() for name, leaf in sorted(y.items())}

    def both() -> tuple[Tensor, ...]:
        output = op(**leaves).output
        return output, *torch.autograd.grad(output, list(leaves.values()), dy)

    return both


def prepare_mamba(x: dict[str, Tensor], mode: str) -> Call:
    """Return the same call of mamba-ssm's scan."""
    cuda = import_module(PEER)
    u, delta, dy = (x[name].mT.contiguous() for name in ("u", "delta", "dy"))
    B, C = (x[name].mT.contiguous()[:, None] for name in ("B", "C"))  # of one group
    given = u, delta, x["A"], B, C, x["D"], None, None

    def call() -> tuple[Tensor, ...]:
        output, states = cuda.fwd(*given, False)
        if mode == "fwd":
            return (output.mT,)
        du, ddelta, dA, dB, dC, dD = cuda.bwd(*given, dy, states, None, None, False, False)[:6]
        return output.mT, dA, dB[:, 0].mT, dC[:, 0].mT, dD, ddelta.mT, du.mT

    return call


def find_error(prepare: Callable[[dict[str, Tensor]], Call], x: dict[str, Tensor], mode: str) -> float:
    """Return how far the first tokens' results and gradients are from the reference in float64."""
    short = {name: y[:1, :512] if y.ndim == 3 else y for name, y in x.items()}
    exact = prepare_scan(
        ops.associative_selective_scan, {name: y.double() for name, y in short.items()}, mode
    )()
    return max(l2_error(got, want) for got, want in zip(prepare(short)(), exact, strict=True))


def has_memory(call: Call) -> bool:
    """Return whether a call fits into the memory; it is then compiled, too."""
    try:
        call()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return False
    return True


def measure_scan(mode: str, B: int, T: int, D: int, N: int, size: Size) -> Rows:
    """Measure one shape."""
    machine, x = measure_machine(size), make_inputs(B, T, D, N, size)
    plain = ops.associative_selective_scan
    if size is not Size.DRY_RUN:
        torch.compiler.reset()  # it keeps eight shapes of a function
        plain = torch.compile(plain, dynamic=False)  # the levels of its tree are unrolled
    prepares = {"": partial(prepare_scan, associative_selective_scan, mode=mode)}
    if find_spec(PEER) and size is not Size.DRY_RUN:
        prepares["mamba_"] = partial(prepare_mamba, mode=mode)
    errors = {
        "mamba_error": None,
        **{f"{name}error": find_error(one, x, mode) for name, one in prepares.items()},
    }
    calls = {name: prepare(x) for name, prepare in prepares.items()}
    calls["plain_"] = prepare_scan(plain, x, mode)
    times = time_interleaved({name: call for name, call in calls.items() if has_memory(call)}, machine.clock)
    inputs = sum(y.nbytes for name, y in x.items() if name != "dy")
    moved = inputs + x["u"].nbytes if mode == "fwd" else 2 * inputs + x["u"].nbytes + x["dy"].nbytes
    row: BenchmarkRow = {**errors, "floor_ms": moved / machine.best.copy_gbps / 1e6}
    return [row | {f"{name}ms": times[name].median if name in times else None for name in NAMES}]


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every mode and shape."""
    return [
        Task(
            {"mode": mode, **dict(zip("BTDN", shape, strict=True))},
            partial(measure_scan, mode, *shape, size=size),
        )
        for mode in ("fwd", "fwdbwd")
        for shape in SHAPES[size]
    ]


SCANS = Benchmark(name="scans", columns=COLUMNS, tasks=list_tasks, needs_gpu=True, group_by="mode")
