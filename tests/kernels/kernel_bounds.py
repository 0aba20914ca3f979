"""Bound how far a kernel may be from float64.

float32: the ladder's bound. Half precision: a matrix unit multiplies tiles of the inputs' dtype, so a kernel
rounds what it has computed (scores, weighted keys and values, states) once more. So::

    bound = HALF_BACKWARD * (sensitivity + eps / 2)        eps of the inputs' dtype

where ``sensitivity`` is how far a result moves, in float64, when every number of ``ROUNDED``, upstream
gradients included, moves by eps / 2 of itself, as if it had been rounded once more to the dtype it came in;
and all else, log decays above all, by the eps of float32, for it is never rounded. Softmax's queries and keys
only enter scores, which stay in float32: what a kernel rounds are the weights, and that is like rounding v.
Its backward reads the output again, rounded (as FlashAttention's does), so that counts as a move as well, on
a GPU in float32 too: with one key, say, the gradient of q is the difference of do . v and do . o, which are
equal but not summed in the same order.

HALF_BACKWARD = 2: the longest way to a number has four roundings (a score or a weighted key, a state or a
gradient of scores, the product's second factor, the result), which seldom all have one sign. How much of the
bound is used stands in the report of ``make test-gpu``.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from tests.ops.ladder import (
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
from tests.ops.ladder_cases import Case, Tensors
from tests.ops.ladder_heads import scale_of

HALF_BACKWARD = 2
MAX_TABLE_TOKENS = 2000  # a table of scores of so many tokens fits
ROUNDED = {
    "linear_attention": {"q", "k", "v", "initial_state", "output", "state"},
    "delta_rule": {"q", "k", "v", "initial_state", "output", "state"},
    "softmax_attention": {"v", "initial_state.v", "output"},
    "selective_scan": set(),  # all is computed in float32
}


def eps_by_name(case: Case) -> Callable[[str], float]:
    """Return a function from the name of a leaf or an upstream gradient to how far its numbers move."""
    half = torch.finfo(case.dtype).eps / 2
    return lambda name: half if case.dtype in HALF and name in ROUNDED[case.op] else EPS


def kernel_bounds_from(case: Case, moves: dict[str, float]) -> dict[str, float]:
    """Return the bounds of all results and gradients from their sensitivities."""
    if case.dtype not in HALF:
        return bounds_from(case, moves)
    return {name: HALF_BACKWARD * (move + torch.finfo(case.dtype).eps / 2) for name, move in moves.items()}


def kernel_sensitivities(
    case: Case, call: Call, leaves: Tensors, upstream: Tensors
) -> tuple[Tensors, Tensors, dict[str, float]]:
    """Return results and gradients in float64, and how far each moves by all that a kernel rounds."""
    results, gradients, moves = moves_of(case, call, leaves, upstream, eps_by_name(case))
    if case.op == "softmax_attention" and case.T <= MAX_TABLE_TOKENS:
        for name, move in sensitivity_to_rounded_output(case, leaves, upstream, results["output"]).items():
            size = max(1.0, gradients[name].abs().max().item())
            moves[f"gradient of {name}"] += move / size
    return results, gradients, moves


def sensitivity_to_rounded_output(
    case: Case, leaves: Tensors, upstream: Tensors, o: Tensor
) -> dict[str, float]:
    """Return how far gradients of softmax attention move if the output that their backward reads is rounded.

    The gradient of the scores is p_tj (do_t . v_j - do_t . o_t); with o + d it moves by -p_tj (do_t . d_t).
    """
    wide = {name: x.double() for name, x in leaves.items()}
    q, k = wide["q"], torch.cat([wide.get("initial_state.k", wide["k"][:, :0]), wide["k"]], 1)
    scale = scale_of(case)
    hidden = torch.ones(case.T, k.shape[1], dtype=torch.bool, device=q.device).triu(k.shape[1] - case.T + 1)
    if case.lengths:
        sequence = torch.arange(case.n_states).repeat_interleave(torch.tensor(case.lengths)).to(q.device)
        hidden |= sequence[:, None] != sequence
    scores = scale * torch.einsum("bthk,bshk->bhts", q, k)
    p = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    d = o.double() * torch.finfo(case.dtype).eps / 2
    d = d * (torch.randint(2, d.shape, generator=case.generator("output")) * 2 - 1).to(d.device)
    dscores = p * (upstream["output"].double() * d).sum(-1).movedim(1, 2)[..., None]
    dk = scale * torch.einsum("bhts,bthk->bshk", dscores, q)
    found = {"q": scale * torch.einsum("bhts,bshk->bthk", dscores, k), "k": dk[:, -case.T :]}
    if "initial_state.k" in leaves:
        found["initial_state.k"] = dk[:, : -case.T]
    return {name: x.abs().max().item() for name, x in found.items()}


@functools.cache
def kernel_bounds(case: Case) -> dict[str, float] | None:
    """Return the bounds of a case on the CPU; None in float32, where the ladder's own hold, if not packed."""
    if case.dtype not in HALF and not case.lengths:
        return None
    call = call_of(forms_of(case.op)[0], case)
    return kernel_bounds_from(case, kernel_sensitivities(case, call, inputs_of(case), upstream_of(case))[2])


def assert_accurate(case: Case, call: Call, label: str) -> None:
    """Assert dtypes, and that every result and gradient is within its bound of float64 and the oracle."""
    check_precision(case, call, label, kernel_bounds(case))
