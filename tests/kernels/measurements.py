"""Measure how far a run of a kernel is from what it should be, and bound how far it may be.

Bounds are those of ``kernel_bounds.py``. They ask how far results move with the inputs, which says little of
sums over a thousand float32 numbers and more: there a kernel may also be as far off as twice the reference in
float32.
"""

import functools
import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from linattn_benchmarks.compare import max_error
from tests.kernels.kernel_bounds import kernel_bounds_from, kernel_sensitivities
from tests.kernels.kernel_calls import call_in_parts, kernel_call
from tests.kernels.ladder_report import Measurement
from tests.ops.ladder import (
    Call,
    Run,
    call_of,
    dtype_of,
    forms_of,
    make_inputs,
    pairs,
    run,
    upstream_like,
)
from tests.ops.ladder_cases import Case, Tensors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LONG = 1000  # tokens
# float64 takes so many at a time
PART_TOKENS = {
    "linear_attention": 8192,
    "delta_rule": 8192,
    "softmax_attention": 1024,
    "selective_scan": 8192,
}
FAST_FORMS = {
    "softmax_attention": "parallel",
    "selective_scan": "associative",
}  # of the others the chunk form


class Problem(NamedTuple):
    """Hold inputs, upstream gradients, float64's results and gradients, and the bounds."""

    leaves: Tensors
    upstream: Tensors
    exact: Run
    bounds: dict[str, float]


# --- float64 -----------------------------------------------------------------------------------------------


def reference_call(case: Case) -> Call:
    """Return the reference in few steps; long sequences in parts, so that gradients fit into the memory."""
    fast = FAST_FORMS.get(case.op, "chunk")
    form = next(form for form in forms_of(case.op) if form.form == fast)
    call = call_of(form, replace(case, chunk_size=64))
    length = PART_TOKENS[case.op]
    return call_in_parts(case, length, call, recompute=True) if length < case.T else call


@functools.lru_cache(1)
def solve(case: Case) -> Problem:
    """Return the problem of a case, solved in float64."""
    leaves = {name: x.to(DEVICE) for name, x in make_inputs(case, case.generator("inputs")).items()}
    call = reference_call(case)
    with torch.no_grad():
        results = call({name: x.double() for name, x in leaves.items()})
    upstream = {name: x.to(DEVICE) for name, x in upstream_like(case, results).items()}
    *exact, moves = kernel_sensitivities(case, call, leaves, upstream)
    bounds = kernel_bounds_from(case, moves)
    if case.dtype == torch.float32 and case.T >= LONG:
        bounds = widen_bounds(bounds, run(call, leaves, upstream), (exact[0], exact[1]))
    return Problem(leaves, upstream, (exact[0], exact[1]), bounds)


def widen_bounds(bounds: dict[str, float], reference: Run, exact: Run) -> dict[str, float]:
    """Return bounds that are at least twice what the reference itself is off in float32."""
    return {name: max(bounds[name], 2 * error_between(a, b)) for name, a, b in pairs(reference, exact)}


# --- comparisons -------------------------------------------------------------------------------------------


def error_between(got: Tensor, want: Tensor) -> float:
    """Return the error; infinite where shapes differ or a number is not finite."""
    error = max_error(got, want)
    return math.inf if math.isnan(error) else error


def compare_runs(
    case: Case, got: Run, want: Run, bounds: dict[str, float] | None = None
) -> list[Measurement]:
    """Measure every result and gradient; without bounds both runs must give the same bits."""
    found = []
    for name, a, b in pairs(got, want):
        right = a.dtype == dtype_of(case, name.removeprefix("gradient of "))
        error = error_between(a, b) if right else math.inf
        found.append(Measurement(name, error, bounds[name] if bounds else 0.0))
    return found


def run_problem(case: Case, call: Call) -> Run:
    """Return results and gradients of a call for the inputs of a case."""
    problem = solve(case)
    return run(call, problem.leaves, problem.upstream)


def compare_with_float64(case: Case, call: Call) -> list[Measurement]:
    """Measure a call against float64."""
    problem = solve(case)
    return compare_runs(case, run_problem(case, call), problem.exact, problem.bounds)


def compare_bits(case: Case, call: Call) -> list[Measurement]:
    """Measure a call that must give the bits that the kernel gives."""
    return compare_runs(case, run_problem(case, call), run_problem(case, kernel_call(case)))
