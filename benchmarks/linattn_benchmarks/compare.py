"""Compare results: outputs, states and gradients of a call with those of another."""

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float32" for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def max_error(got: Tensor, want: Tensor) -> float:
    """Return ``max|got - want| / max(1, max|want|)``: absolute below 1, relative to the largest entry above.

    It is NaN where shapes differ or a number is not finite.
    """
    if got.shape != want.shape:
        return math.nan
    got, want = got.detach().double(), want.detach().double()
    error = ((got - want).abs().max() / want.abs().max().clamp(min=1)).item()
    return error if math.isfinite(error) else math.nan


def l2_error(got: Tensor, want: Tensor) -> float:
    """Return ``||got - want|| / ||want||``; NaN where shapes differ."""
    if got.shape != want.shape:
        return math.nan
    got, want = got.detach().double(), want.detach().double()
    return (torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want)).item()


def compute_gradients(
    results: Mapping[str, Tensor], upstream: Mapping[str, Tensor], leaves: Tensors
) -> Tensors:
    """Return the gradient of ``sum(result * upstream)`` over all results, for every leaf that it reaches.

    Args:
        results: by name.
        upstream: the gradient that each result receives, by the same names; results without one have none.
        leaves: what gradients are taken of, by name.

    Returns:
        Gradients by the name ``"gradient of LEAF"``.
    """
    pairs = [(results[name], weight) for name, weight in upstream.items() if results[name].requires_grad]
    if not pairs:
        return {}
    grads = torch.autograd.grad(
        [result for result, _ in pairs],
        list(leaves.values()),
        [weight.to(result.dtype) for result, weight in pairs],
        allow_unused=True,
    )
    found = zip(leaves, grads, strict=True)
    return {f"gradient of {name}": grad.detach() for name, grad in found if grad is not None}


def run_with_gradients(
    call: Callable[[Tensors], Tensors], inputs: Tensors, upstream: Mapping[str, Tensor], wanted: Iterable[str]
) -> Tensors:
    """Return what a call gives for the inputs, and the gradients of the wanted ones under ``upstream``.

    Args:
        call: inputs by name -> results by name.
        inputs: by name; they are not changed.
        upstream: as ``compute_gradients`` takes them; without any, nothing is differentiated.
        wanted: names of the inputs that gradients are taken of.
    """
    if not upstream:
        with torch.no_grad():
            return {name: x.detach() for name, x in call(inputs).items()}
    leaves = {name: inputs[name].detach().clone().requires_grad_() for name in wanted}
    results = call({**inputs, **leaves})
    found = compute_gradients(results, upstream, leaves)
    return {name: x.detach() for name, x in results.items()} | found
