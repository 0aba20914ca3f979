"""Compile the kernels on a machine without a GPU, and look for faults in the machine code.

Triton's interpreter knows neither the types of a kernel nor the assembler's faults. Both have cost us: a
loop whose variable changes from float32 to float64 does not compile, and ptxas 12.8, which Triton 3.6 and 3.7
bring along, makes code that reads a register which nothing has written (kernels/NOTES.md). ::

    PYTHONPATH=.:kernels python -m tests.kernels.compile_kernels [--all] [--gpu 80] float32 bfloat16 float16

compiles what calls of every kernel in these dtypes launch, ``--all`` with all pairs of widths, which takes
half an hour; for Hopper, or with ``--gpu`` the widest of them for another compute capability. It prints
registers that are read before anything is written to them, and kernels that need more shared memory than
there is, and exits with 1 if there are any.
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

# bytes of shared memory that a program may have, by compute capability
SHARED_MEMORY = {80: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}
NVIDIA_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

Report = Callable[[str, bytes, int], None]  # takes a kernel's name, machine code, bytes of shared memory
Call = Callable[[], None]


class DriverWithoutGPU:
    """Answer what Triton asks a driver before it compiles, without a GPU."""

    def __init__(self, gpu: int) -> None:
        self.target = GPUTarget("cuda", gpu, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def compile_only(report: Report, gpu: int = 90) -> Iterator[None]:
    """Compile kernels instead of launching them; what they would have written stays as it was."""
    from linattn_kernels import (
        hardware,
        launch_config,
        linear_step,
        selective_scan,
        softmax_step,
        validation,
    )

    run, seen = JITFunction.run, set()

    def compile_kernel(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        if kernel.hash not in seen:
            seen.add(kernel.hash)
            report(kernel.metadata.name, kernel.asm["cubin"], kernel.metadata.shared)

    triton.runtime.driver.set_active(DriverWithoutGPU(gpu))
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(JITFunction, "run", compile_kernel))
        for module in (validation, selective_scan):
            patches.enter_context(mock.patch.object(module, "check_device"))
        for module in (launch_config, softmax_step, linear_step):
            patches.enter_context(mock.patch.object(module, "count_multiprocessors", return_value=132))
        for name, value in (("read_max_shared_memory", SHARED_MEMORY[gpu]), ("read_compute_capability", gpu)):
            patches.enter_context(mock.patch.object(hardware, name, return_value=value))
        yield


# --- machine code ------------------------------------------------------------------------------------------


def disassemble(machine_code: bytes) -> list[str]:
    """Return the instructions of a kernel, in the order of the code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(machine_code)
        file.flush()
        text = subprocess.run(
            [NVIDIA_TOOLS / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
    return re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", text, re.MULTILINE)


def find_unwritten_reads(code: list[str]) -> list[str]:
    """Return the instructions that read a uniform register which no instruction before them has written."""
    written: set[int] = set()
    faulty = []
    for instruction in code:
        reads, writes = uniform_registers(instruction)
        if not reads <= written:
            faulty.append(instruction)
        written |= writes
    return faulty


def uniform_registers(instruction: str) -> tuple[set[int], set[int]]:
    """Return the uniform registers that an instruction reads, and those that it writes."""
    name, _, operands = re.sub(r"^@!?U?P[T0-9]+ ", "", instruction).partition(" ")
    reads, writes = set(), set()
    target = re.match(r"(?:U?P[T0-9]+, )*UR(\d+)\b", operands)
    if target and re.match(r"U|R2UR|S2UR|REDUX|VOTE", name):
        width = 4 if ".128" in name else 2 if re.search(r"\.64|\.WIDE", name) else 1
        writes = {int(target[1]) + i for i in range(width)}
        operands = operands[target.end() :]
    for before, kind, number in re.findall(r"(R\d+, R\d+, )?(gdesc\[|desc\[)?\bUR(\d+)\b", operands):
        # a product's two descriptors are four registers; where one factor is in R..., the latter two
        at = range(2 if before else 0, 4) if kind == "gdesc[" else range(2) if kind else range(1)
        reads |= {int(number) + i for i in at}
    return reads, writes


# --- the calls --------------------------------------------------------------------------------------------

B, H = 2, 3
# a K and a V for each kind of decay; the last is a pair where ptxas 12.8 fails at chunks of 64
WIDTHS_OF_DECAYS = {"none": (64, 64), "head": (128, 128), "token": (128, 64), "channel": (16, 128)}


def call_linear(
    K: int, V: int, dtype: torch.dtype, decay: str, T: int, start: bool, needs_dg: bool = True
) -> None:
    """Call forward, backward and step of linear attention; ``needs_dg``: with the gradient of the decays."""
    from linattn_kernels import chunk_linear_attention, step_linear_attention

    shapes = {"none": None, "head": (H,), "token": (B, T, H), "channel": (B, T, H, K)}
    shape = shapes[decay]
    q, k, v = (torch.zeros(B, T, H, W, dtype=dtype, requires_grad=True) for W in (K, K, V))
    g = None if shape is None else torch.zeros(shape, requires_grad=needs_dg)
    initial = torch.zeros(B, H, K, V, requires_grad=True) if start else None
    o, state = chunk_linear_attention(q, k, v, g, initial_state=initial)
    torch.autograd.backward((o, state), (torch.zeros_like(o), torch.zeros_like(state)))
    with torch.no_grad():
        one: Tensor | None = g if g is None or g.ndim == 1 else g[:, :1]
        step_linear_attention(q[:, :1], k[:, :1], v[:, :1], one, state=torch.zeros(B, H, K, V))


def call_delta_rule(K: int, V: int, dtype: torch.dtype, decay: str, T: int, start: bool) -> None:
    """Call forward, backward and step of the delta rule."""
    from linattn_kernels import chunk_delta_rule, step_delta_rule

    shapes = {"none": None, "head": (H,), "token": (B, T, H), "channel": (B, T, H, K)}
    shape = shapes[decay]
    q, k, v = (torch.zeros(B, T, H, W, dtype=dtype, requires_grad=True) for W in (K, K, V))
    beta = torch.zeros(B, T, H, dtype=dtype, requires_grad=True)
    g = None if shape is None else torch.zeros(shape, requires_grad=True)
    initial = torch.zeros(B, H, K, V, requires_grad=True) if start else None
    o, state = chunk_delta_rule(q, k, v, beta, g, initial_state=initial)
    torch.autograd.backward((o, state), (torch.zeros_like(o), torch.zeros_like(state)))
    with torch.no_grad():
        one: Tensor | None = g if g is None or g.ndim == 1 else g[:, :1]
        step_delta_rule(q[:, :1], k[:, :1], v[:, :1], beta[:, :1], one, state=torch.zeros(B, H, K, V))


def call_softmax(
    K: int, V: int, dtype: torch.dtype, chunk_size: int, packed: tuple[int, ...] | None = None
) -> None:
    """Call forward, backward and step of softmax attention."""
    from linattn_kernels import chunk_softmax_attention, step_softmax_attention

    sizes = (1 if packed else B, 200, H)
    q, k, v = (torch.zeros(*sizes, W, dtype=dtype, requires_grad=True) for W in (K, K, V))
    o, _ = chunk_softmax_attention(q, k, v, cu_seqlens=packed and torch.tensor(packed), chunk_size=chunk_size)
    o.backward(torch.zeros_like(o))
    with torch.no_grad():
        step_softmax_attention(q[:, :1], k[:, :1], v[:, :1])


def call_packed(K: int, V: int, dtype: torch.dtype, decay: str) -> None:
    """Call forward and backward of linear attention and the delta rule on packed sequences."""
    from linattn_kernels import chunk_delta_rule, chunk_linear_attention

    T, ends = 2000, torch.tensor([0, 700, 2000], dtype=torch.int32)
    shapes = {"none": None, "head": (H,), "token": (1, T, H), "channel": (1, T, H, K)}
    shape = shapes[decay]
    q, k, v = (torch.zeros(1, T, H, W, dtype=dtype, requires_grad=True) for W in (K, K, V))
    beta = torch.zeros(1, T, H, dtype=dtype, requires_grad=True)
    g = None if shape is None else torch.zeros(shape, requires_grad=True)
    for o, state in (
        chunk_linear_attention(q, k, v, g, cu_seqlens=ends),
        chunk_delta_rule(q, k, v, beta, g, cu_seqlens=ends),
    ):
        torch.autograd.backward((o, state), (torch.zeros_like(o), torch.zeros_like(state)))


def call_scan(D: int, N: int, dtype: torch.dtype) -> None:
    """Call forward and backward of the selective scan, in segments."""
    from linattn_kernels.selective_scan import associative_selective_scan

    u, delta = (torch.zeros(1, 2000, D, dtype=dtype, requires_grad=True) for _ in range(2))
    B, C = (torch.zeros(1, 2000, N, dtype=dtype, requires_grad=True) for _ in range(2))
    A, skip = torch.zeros(D, N, requires_grad=True), torch.zeros(D, requires_grad=True)
    y, _ = associative_selective_scan(u, delta, A, B, C, skip)
    y.backward(torch.zeros_like(y))


def few_calls(dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield a few calls, by name: in bfloat16 they launch every kernel, in other dtypes those of chunks."""
    for decay in WIDTHS_OF_DECAYS if dtype == torch.bfloat16 else ("token", "channel"):
        K, V = WIDTHS_OF_DECAYS[decay]
        yield f"{decay}, K {K}, V {V}", partial(call_linear, K, V, dtype, decay, 1000, True)
        name = f"delta rule, {decay}, K {K}, V {V}"
        yield name, partial(call_delta_rule, K, V, dtype, decay, 1000, True)
    if dtype == torch.bfloat16:
        yield "head, no dg", partial(call_linear, 128, 128, dtype, "head", 1000, True, False)
        yield "token, no dg", partial(call_linear, 64, 64, dtype, "token", 1000, True, False)
        yield "scan", partial(call_scan, 1024, 16, dtype)
        yield "packed, no decay", partial(call_packed, 64, 64, dtype, "none")
        yield "packed, channel", partial(call_packed, 128, 128, dtype, "channel")
        yield "packed softmax", partial(call_softmax, 64, 64, dtype, 64, (0, 70, 200))
    yield "softmax", partial(call_softmax, 64, 64, dtype, 64)


def all_calls(dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield calls with all pairs of widths; T = 1024 and 1000 differ for Triton, and in segments."""
    for K, V in product((128, 64, 32, 16), repeat=2):
        for decay, (T, start) in product(WIDTHS_OF_DECAYS, ((1024, False), (1000, True))):
            for needs_dg in (True, False) if decay in ("head", "token") else (True,):
                name = f"{decay}, K {K}, V {V}, T {T}" + ", no dg" * (not needs_dg)
                yield name, partial(call_linear, K, V, dtype, decay, T, start, needs_dg)
            name = f"delta rule, {decay}, K {K}, V {V}, T {T}"
            yield name, partial(call_delta_rule, K, V, dtype, decay, T, start)
        for C in (16, 32, 64, 128):
            yield f"softmax, K {K}, V {V}, C {C}", partial(call_softmax, K, V, dtype, C)


def widest_calls(dtype: torch.dtype, gpu: int) -> Iterator[tuple[str, Call]]:
    """Yield the calls that need most shared memory, and those of 64 columns, where some kernels differ."""
    for K, decay in product((128, 64), WIDTHS_OF_DECAYS):
        yield f"{decay}, K = V = {K}", partial(call_linear, K, K, dtype, decay, 1024, True)
        name = f"delta rule, {decay}, K = V = {K}"
        yield name, partial(call_delta_rule, K, K, dtype, decay, 1024, True)
    yield "head, no dg", partial(call_linear, 128, 128, dtype, "head", 1024, True, False)
    if gpu != 100:
        yield "packed, channel", partial(call_packed, 128, 128, dtype, "channel")
    yield "scan", partial(call_scan, 1024, 128, dtype)
    for C in (64, 128):
        yield f"softmax, C {C}", partial(call_softmax, 128, 128, dtype, C)


def main() -> int:
    """Compile what the command line asks for, print faults, and return the exit status."""
    parser = argparse.ArgumentParser(prog="compile_kernels.py")
    parser.add_argument("dtypes", nargs="+", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--all", action="store_true", help="all pairs of widths, not a few")
    parser.add_argument(
        "--gpu", type=int, choices=SHARED_MEMORY, default=90, help="compute capability, times ten"
    )
    args = parser.parse_args()
    hopper = all_calls if args.all else few_calls
    calls_of = hopper if args.gpu == 90 else partial(widest_calls, gpu=args.gpu)
    kernels = faults = 0

    def report(name: str, machine_code: bytes, shared: int) -> None:
        nonlocal kernels, faults
        kernels += 1
        if shared > SHARED_MEMORY[args.gpu]:
            faults += 1
            print(f"{dtype}, {label}: {name} needs {shared} bytes of shared memory", flush=True)
        if args.gpu != 90:
            return  # the fault is one of Hopper's products
        for instruction in find_unwritten_reads(disassemble(machine_code)):
            faults += 1
            print(f"{dtype}, {label}: {name} reads what nothing has written: {instruction}", flush=True)

    with compile_only(report, args.gpu):
        for dtype in args.dtypes:
            for label, call in calls_of(getattr(torch, dtype)):  # noqa: B007 - report prints it
                call()
    print(f"{kernels} kernels, {faults} faults")
    return 1 if faults or not kernels else 0


if __name__ == "__main__":
    raise SystemExit(main())
