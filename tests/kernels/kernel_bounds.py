"""How far a kernel may be from float64.

float32: the ladder's bound, unchanged. Half precision: a matrix unit multiplies tiles of the inputs' dtype,
so a kernel rounds what it has computed (scores, weighted keys and values, states) once more. So::

    bound = HALF_BACKWARD * (sensitivity + eps / 2)        eps of the inputs' dtype

where ``sensitivity`` is how far a result moves, in float64, when every number of ``ROUNDED``, upstream
gradients included, moves by eps / 2 of itself, as if it had been rounded once more to the dtype it came in;
and all else, log decays above all, by the eps of float32, for it is never rounded. Softmax's queries and keys
only enter scores, which stay in float32: what a kernel rounds are the weights, and that is like rounding v.

HALF_BACKWARD = 4 counts the roundings on the longest way to a number: a score or a weighted key, a state or a
gradient of scores, the product's second factor, the result.
"""

import functools
from collections.abc import Callable

import torch
from ladder import (
    EPS,
    HALF,
    Call,
    bounds_from,
    call_of,
    check_precision,
    forms_of,
    inputs_of,
    moves_of,
    upstream_of,
)
from ladder_cases import Case

HALF_BACKWARD = 4
ROUNDED = {
    "linear_attention": {"q", "k", "v", "initial_state", "output", "state"},
    "softmax_attention": {"v", "initial_state.v", "output"},
}


def eps_of(case: Case) -> Callable[[str], float]:
    """How far a leaf or an upstream gradient moves."""
    half = torch.finfo(case.dtype).eps / 2
    return lambda name: half if case.dtype in HALF and name in ROUNDED[case.op] else EPS


def kernel_bounds_from(case: Case, moves: dict[str, float]) -> dict[str, float]:
    """Bounds of all results and gradients from their sensitivities."""
    if case.dtype not in HALF:
        return bounds_from(case, moves)
    return {name: HALF_BACKWARD * (move + torch.finfo(case.dtype).eps / 2) for name, move in moves.items()}


@functools.cache
def kernel_bounds(case: Case) -> dict[str, float] | None:
    """On the CPU, where the ladder's own are None."""
    if case.dtype not in HALF:
        return None
    call = call_of(forms_of(case.op)[0], case)
    return kernel_bounds_from(case, moves_of(case, call, inputs_of(case), upstream_of(case), eps_of(case))[2])


def check_kernel(case: Case, call: Call, label: str) -> None:
    """The ladder's check: dtypes, float64 and oracle, every result and every gradient."""
    check_precision(case, call, label, kernel_bounds(case))
