"""What the ladder on a GPU checks of a case. A check gives errors and their bounds, and asserts nothing.

Bounds are those of ``kernel_bounds.py``. They ask how far results move with the inputs, which says little of
sums over a thousand float32 numbers and more: there a kernel may also be as far off as twice the reference in
float32.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from linattn_kernels.door import on_device_of_q
from tests.kernels.kernel_bounds import kernel_bounds_from, kernel_moves
from tests.kernels.kernel_calls import (
    compiled,
    decays_apart,
    in_parts,
    kernel_call,
    kernel_step_call,
    on_strided_memory,
    under_autocast,
)
from tests.ops.ladder import (
    EPS,
    Call,
    Run,
    bounds_from,
    call_of,
    dtype_of,
    forms_of,
    make_inputs,
    moves_of,
    pairs,
    split_call,
    step_call_of,
    upstream_like,
)
from tests.ops.ladder import run as run_call
from tests.ops.ladder_cases import Case, Tensors

LONG = 1000  # tokens
PART = {"linear_attention": 8192, "softmax_attention": 1024}  # tokens that float64 takes at a time


class Measurement(NamedTuple):
    """A result or gradient: how far it is from what it should be, and how far it may be."""

    name: str
    error: float
    bound: float


class Problem(NamedTuple):
    """Inputs, upstream gradients, and float64's results, gradients and sensitivities."""

    leaves: Tensors
    upstream: Tensors
    exact: Run
    bounds: dict[str, float]


# --- float64 -----------------------------------------------------------------------------------------------


def reference_call(case: Case) -> Call:
    """The reference in few steps; long sequences in parts, so that a GPU has room for the gradients."""
    fast = {"linear_attention": "chunk", "softmax_attention": "parallel"}[case.op]
    form = next(form for form in forms_of(case.op) if form.form == fast)
    call = call_of(form, replace(case, chunk_size=64))
    length = PART[case.op]
    return in_parts(case, length, call, forget=True) if length < case.T else call


@functools.lru_cache(1)
def problem(case: Case, device: str) -> Problem:
    leaves = {name: x.to(device) for name, x in make_inputs(case, case.generator("inputs")).items()}
    call = reference_call(case)
    with torch.no_grad():
        results = call({name: x.double() for name, x in leaves.items()})
    upstream = {name: x.to(device) for name, x in upstream_like(case, results).items()}
    *exact, moves = kernel_moves(case, call, leaves, upstream)
    bounds = kernel_bounds_from(case, moves)
    if case.dtype == torch.float32 and case.T >= LONG:
        bounds = widened(bounds, run_call(call, leaves, upstream), (exact[0], exact[1]))
    return Problem(leaves, upstream, (exact[0], exact[1]), bounds)


def widened(bounds: dict[str, float], reference: Run, exact: Run) -> dict[str, float]:
    """By what the reference itself is off in float32."""
    return {name: max(bounds[name], 2 * error_of(a, b)) for name, a, b in pairs(reference, exact)}


def error_of(got: Tensor, want: Tensor) -> float:
    """``helpers.err`` where the tensors are; infinite unless shapes agree and all is finite."""
    if got.shape != want.shape or not (got.isfinite().all() and want.isfinite().all()):
        return float("inf")
    want = want.detach().double()
    return ((got.detach().double() - want).abs().max() / want.abs().max().clamp(min=1)).item()


def compared(case: Case, got: Run, want: Run, bounds: dict[str, float] | None = None) -> list[Measurement]:
    """Every result and gradient; without bounds both must be the same bits."""
    found = []
    for name, a, b in pairs(got, want):
        right = a.dtype == dtype_of(case, name.removeprefix("gradient of "))
        error = error_of(a, b) if right else float("inf")
        found.append(Measurement(name, error, bounds[name] if bounds else 0.0))
    return found


# --- checks of a case --------------------------------------------------------------------------------------


def run(case: Case, call: Call, device: str) -> Run:
    p = problem(case, device)
    return run_call(call, p.leaves, p.upstream)


def held(case: Case, call: Call, device: str) -> list[Measurement]:
    """A call held to float64."""
    p = problem(case, device)
    return compared(case, run(case, call, device), p.exact, p.bounds)


def same(case: Case, call: Call, device: str) -> list[Measurement]:
    """A call that must give the bits that the kernel gives."""
    return compared(case, run(case, call, device), run(case, kernel_call(case), device))


def precision(case: Case, device: str) -> list[Measurement]:
    return held(case, kernel_call(case), device)


def decays_fixed(case: Case, device: str) -> list[Measurement]:
    """Where nobody wants the gradient of the decays."""
    return held(case, decays_apart(kernel_call(case)), device)


def split(case: Case, device: str) -> list[Measurement]:
    """Split in the first chunk, anywhere, and before the last token; and in four parts."""
    kernel, third = kernel_call(case), case.T // 3
    calls = [split_call(case, at, kernel, kernel) for at in (1, case.T * 2 // 5 + 1, case.T - 1)]
    calls.append(split_call(case, third, reference_call(replace(case, T=third)), kernel))
    calls.append(in_parts(case, case.T // 4 + 3, kernel))
    return [m for call in calls for m in held(case, call, device)]


def bits(case: Case, device: str) -> list[Measurement]:
    """Three runs, forward and backward, by every backward that there is."""
    calls = [kernel_call(case)] + [decays_apart(kernel_call(case))] * (len(precision_of(case)) - 1)
    found = []
    for call in calls:
        first = run(case, call, device)
        found += [m for _ in range(2) for m in compared(case, run(case, call, device), first)]
    return found


def strided(case: Case, device: str) -> list[Measurement]:
    return same(case, on_strided_memory(kernel_call(case)), device)


def fresh_thread(case: Case, device: str) -> list[Measurement]:
    """A thread that has done nothing yet, as autograd's have: a launcher finds a CUDA context there.

    The driver is asked, since poisoned memory is written by a launch, which would hide that there is none.
    """
    q = problem(case, device).leaves["q"]
    with ThreadPoolExecutor(1) as thread:
        before = thread.submit(_has_context, q).result()
        inside = thread.submit(on_device_of_q(_has_context), q).result()
    names = {"no context before": not before, "context": inside}
    return [Measurement(name, 0.0 if right else float("inf"), 0.0) for name, right in names.items()]


def _has_context(q: Tensor) -> bool:
    context = ctypes.c_void_p()
    if ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)) != 0:
        raise RuntimeError("the driver does not say whether this thread has a CUDA context")
    return bool(context)


def autocast(case: Case, device: str) -> list[Measurement]:
    return same(case, under_autocast(kernel_call(case), device), device)


def inductor(case: Case, device: str) -> list[Measurement]:
    return held(case, compiled(kernel_call(case), "inductor"), device)


def graph(case: Case, device: str) -> list[Measurement]:
    """The forward captured in a CUDA graph and replayed on other inputs."""
    leaves = {name: torch.zeros_like(x) for name, x in problem(case, device).leaves.items()}
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            kernel_call(case)(leaves)  # compiles
        torch.cuda.current_stream().wait_stream(stream)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            got = kernel_call(case)(leaves)
        for name, x in problem(case, device).leaves.items():
            leaves[name].copy_(x)
        captured.replay()
        return compared(case, (got, {}), (kernel_call(case)(leaves), {}))


def step_gradients(case: Case, device: str) -> list[Measurement]:
    """Four tokens, one by one, where gradients are wanted."""
    short = replace(case, T=4)
    return held(short, in_parts(short, 1, kernel_step_call(short)), device)


def steps(case: Case, device: str) -> list[Measurement]:
    """Token by token without gradients. Nothing but the output is rounded: the ladder's own bound."""
    leaves = {name: x.to(device) for name, x in make_inputs(case, case.generator("inputs")).items()}
    call = reference_call(case)
    with torch.no_grad():
        upstream = upstream_like(case, call({name: x.double() for name, x in leaves.items()}))
        results = in_parts(case, 1, kernel_step_call(case))({name: x.clone() for name, x in leaves.items()})
    upstream = {name: x.to(device) for name, x in upstream.items()}
    exact, _, moves = moves_of(case, call, leaves, upstream, lambda name: EPS)
    bounds = bounds_from(case, moves)
    if case.T >= LONG:
        with torch.no_grad():
            reference = in_parts(case, 1, step_call_of(case))(leaves)
        bounds |= widened(bounds, (reference, {}), (exact, {}))
    return compared(case, (results, {}), (exact, {}), bounds)


def in_place(case: Case, device: str) -> list[Measurement]:
    """A linear state is updated where it lies: the tensor given holds what comes back."""
    one = replace(case, T=1)
    x = {name: leaf.clone() for name, leaf in problem(one, device).leaves.items()}
    with torch.no_grad():
        results = kernel_step_call(one)(x)
    given = {"state": x["initial_state"]}
    if results["state"].data_ptr() != given["state"].data_ptr():
        return [Measurement("state", float("inf"), 0.0)]
    return compared(one, (given, {}), ({"state": results["state"]}, {}))


Check = Callable[[Case, str], list[Measurement]]
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        precision,
        decays_fixed,
        split,
        bits,
        strided,
        fresh_thread,
        autocast,
        inductor,
        graph,
        step_gradients,
        steps,
        in_place,
    )
}


def precision_of(case: Case) -> tuple[str, ...]:
    """Against float64, by every backward that there is."""
    return ("precision", "decays_fixed") if case.decay in ("head", "token") else ("precision",)


def laws_of(case: Case, device: str) -> Iterator[str]:
    """All checks of a case."""
    yield from (*precision_of(case), "split", "bits", "strided", "autocast")
    if device == "cuda":
        yield from ("fresh_thread", "inductor", "graph")
    yield from ("step_gradients", "steps")
    if case.op == "linear_attention":
        yield "in_place"
