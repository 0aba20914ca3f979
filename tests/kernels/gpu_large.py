"""More numbers than 32 bits count: a kernel on all of them, float64 on the first and the last head.

Heads are independent. So the reference takes one head, without gradients up to the last ``TAIL`` tokens, and
with them from there: the gradients of the last tokens depend on nothing that comes before but the state.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from tests.kernels.gpu_checks import Measurement, compared, reference_call
from tests.kernels.kernel_bounds import eps_of, kernel_bounds_from
from tests.kernels.kernel_calls import kernel_call, kernel_step_call
from tests.kernels.kernel_cases import LARGE_CACHE
from tests.ops.ladder import EPS, bounds_from, moves_of, slice_time, step_call_of
from tests.ops.ladder_cases import Case, Tensors

TAIL = 4096


def random(case: Case, device: str) -> Tensors:
    """Leaves, drawn on the device."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int, dtype: torch.dtype = case.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)

    B, T, H, K, V = case.B, case.T, case.H, case.K, case.V
    x = {"q": normal(B, T, H, K), "k": normal(B, T, H, K), "v": normal(B, T, H, V)}
    if case.decay:
        shape = (B, T, H, K) if case.decay == "channel" else (B, T, H)
        x["log_decay"] = normal(*shape, dtype=torch.float32).abs_().mul_(-0.1)
    if case.start and case.op == "linear_attention":
        x["initial_state"] = normal(B, H, K, V, dtype=torch.float32)
    if case.start and case.op == "softmax_attention":
        x["initial_state.k"], x["initial_state.v"] = (
            normal(B, LARGE_CACHE, H, K),
            normal(B, LARGE_CACHE, H, V),
        )
    return x


def one_head(x: Tensors, b: int, h: int) -> Tensors:
    """[B, T, H, ...] -> [1, T, 1, ...]; a state [B, H, K, V] -> [1, 1, K, V]."""
    states = {"state", "initial_state", "gradient of initial_state"}
    return {
        name: y[b : b + 1, h : h + 1] if name in states else y[b : b + 1, :, h : h + 1]
        for name, y in x.items()
    }


def corners(case: Case) -> list[tuple[int, int]]:
    return [(0, 0), (case.B - 1, case.H - 1)]


def large(case: Case, device: str) -> list[Measurement]:
    """Last outputs, last state, and gradients of the last tokens."""
    x = {name: y.requires_grad_() for name, y in random(case, device).items()}
    results = kernel_call(case)(x)
    used = [name for name in ("output", "state") if name in results]
    upstream = {name: torch.randn_like(results[name]) for name in used}
    gradients = torch.autograd.grad(
        [results[name] for name in used], list(x.values()), list(upstream.values())
    )
    got = {name: y.detach() for name, y in results.items() if name in used}
    leaves = {name: y.detach() for name, y in x.items()}
    del results, x
    named = dict(zip(leaves, gradients, strict=True))
    return [
        m
        for b, h in corners(case)
        for m in tail_of(case, *(one_head(y, b, h) for y in (leaves, upstream, got, named)))
    ]


def tail_of(
    case: Case, leaves: Tensors, upstream: Tensors, got: Tensors, gradients: Tensors
) -> list[Measurement]:
    """One head's last tokens against float64."""
    at = max(case.T - TAIL, case.T // 2)
    one = replace(case, B=1, H=1)
    tail = replace(one, T=case.T - at, start=True)
    with torch.no_grad():
        head = _state_at(one, leaves, at)
    inputs = {**slice_time(one, leaves, at, case.T), **head}
    weights = {"output": upstream["output"][:, at:].double()}
    weights |= {name: upstream[name].double() for name in upstream if name == "state"}
    call = reference_call(tail)
    (results, exact), bounds = _exact(tail, call, inputs, weights)
    timed = {name: y[:, at:] for name, y in gradients.items()}
    kept = {"output": got["output"][:, at:], **{name: y for name, y in got.items() if name == "state"}}
    return compared(
        tail, (kept, timed), ({n: results[n] for n in kept}, {n: exact[n] for n in timed}), bounds
    )


def _state_at(case: Case, leaves: Tensors, at: int) -> Tensors:
    """What the tokens before ``at`` leave, as leaves of what follows."""
    if case.op == "softmax_attention":
        return {f"initial_state.{name}": leaves[name][:, :at].double() for name in "kv"}
    short = replace(case, T=at)
    wide = {name: y.double() for name, y in slice_time(case, leaves, 0, at).items()}
    return {"initial_state": reference_call(short)(wide)["state"]}


def _exact(case: Case, call, inputs: Tensors, weights: Tensors):  # type: ignore[no-untyped-def]
    """Results and gradients in float64, and their bounds; a cache has no upstream gradient."""

    def with_weights_for_all(x: Tensors) -> Tensors:
        return {name: y for name, y in call(x).items() if name in weights}

    *exact, moves = moves_of(case, with_weights_for_all, inputs, weights, eps_of(case))
    return exact, kernel_bounds_from(case, moves)


def large_step(case: Case, device: str) -> list[Measurement]:
    """A step on states, or against a cache, of more numbers than 32 bits count."""
    x = random(case, device)
    before = [{name: y.clone() for name, y in one_head(x, b, h).items()} for b, h in corners(case)]
    with torch.no_grad():
        results = kernel_step_call(case)(x)
    got = {name: y for name, y in results.items() if name in ("output", "state")}
    return [
        m
        for (b, h), leaves in zip(corners(case), before, strict=True)
        for m in _step(case, leaves, one_head(got, b, h))
    ]


def _step(case: Case, leaves: Tensors, got: Tensors) -> Iterator[Measurement]:
    one = replace(case, B=1, H=1)
    weights = {name: torch.ones_like(y, dtype=torch.float64) for name, y in got.items()}
    reference = step_call_of(one)

    def call(x: Tensors) -> Tensors:
        return {name: y for name, y in reference(x).items() if name in got}

    exact, _, moves = moves_of(one, call, leaves, weights, lambda name: EPS)
    yield from compared(one, (got, {}), (exact, {}), bounds_from(one, moves))
