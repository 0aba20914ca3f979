"""Measure kernels on more numbers than 32 bits count, against float64 on the first and the last head.

Heads are independent. So the reference takes one head, without gradients up to the last ``TAIL`` tokens, and
with them from there: the gradients of the last tokens depend on nothing that comes before but the state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tests.kernels.kernel_bounds import eps_by_name, kernel_bounds_from
from tests.kernels.kernel_calls import kernel_call, kernel_step_call
from tests.kernels.kernel_cases import LARGE_CACHE
from tests.kernels.measurements import DEVICE, Measurement, compare_runs, reference_call
from tests.ops.ladder import EPS, Call, Run, bounds_from, moves_of, slice_time, step_call_of
from tests.ops.ladder_cases import Case, Tensors

TAIL = 4096


def draw_leaves(case: Case) -> Tensors:
    """Return random leaves, drawn on the device."""
    generator = torch.Generator(DEVICE).manual_seed(0)

    def normal(*shape: int, dtype: torch.dtype = case.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=DEVICE).normal_(generator=generator)

    B, T, H, K, V = case.B, case.T, case.H, case.K, case.V
    x = {"q": normal(B, T, H, K), "k": normal(B, T, H, K), "v": normal(B, T, H, V)}
    if case.decay:
        shape = (B, T, H, K) if case.decay == "channel" else (B, T, H)
        x["log_decay"] = normal(*shape, dtype=torch.float32).abs_().mul_(-0.1)
    if case.start and case.op == "linear_attention":
        x["initial_state"] = normal(B, H, K, V, dtype=torch.float32)
    if case.start and case.op == "softmax_attention":
        x["initial_state.k"] = normal(B, LARGE_CACHE, H, K)
        x["initial_state.v"] = normal(B, LARGE_CACHE, H, V)
    return x


def take_head(x: Mapping[str, Tensor], b: int, h: int) -> Tensors:
    """Return one head: of [B, T, H, ...] it is [1, T, 1, ...], of a state [B, H, K, V] it is [1, 1, K, V]."""
    states = {"state", "initial_state", "gradient of initial_state"}
    return {
        name: y[b : b + 1, h : h + 1] if name in states else y[b : b + 1, :, h : h + 1]
        for name, y in x.items()
    }


def first_and_last_head(case: Case) -> list[tuple[int, int]]:
    """Return sequence and head of the first head and of the last."""
    return [(0, 0), (case.B - 1, case.H - 1)]


def measure_large(case: Case) -> list[Measurement]:
    """Measure the last outputs, the last state, and the gradients of the last tokens."""
    x = {name: y.requires_grad_() for name, y in draw_leaves(case).items()}
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
        for b, h in first_and_last_head(case)
        for m in _measure_tail(case, *(take_head(y, b, h) for y in (leaves, upstream, got, named)))
    ]


def _measure_tail(
    case: Case, leaves: Tensors, upstream: Tensors, got: Tensors, gradients: Tensors
) -> list[Measurement]:
    """Measure one head's last tokens against float64."""
    at = max(case.T - TAIL, case.T // 2)
    one = replace(case, B=1, H=1)
    tail = replace(one, T=case.T - at, start=True)
    with torch.no_grad():
        head = _state_at(one, leaves, at)
    inputs = {**slice_time(one, leaves, at, case.T), **head}
    weights = {"output": upstream["output"][:, at:].double()}
    weights |= {name: upstream[name].double() for name in upstream if name == "state"}
    (results, exact), bounds = _solve_tail(tail, reference_call(tail), inputs, weights)
    timed = {name: y[:, at:] for name, y in gradients.items()}
    kept = {"output": got["output"][:, at:], **{name: y for name, y in got.items() if name == "state"}}
    return compare_runs(
        tail, (kept, timed), ({n: results[n] for n in kept}, {n: exact[n] for n in timed}), bounds
    )


def _state_at(case: Case, leaves: Tensors, at: int) -> Tensors:
    """Return what the tokens before ``at`` leave, as leaves of what follows."""
    if case.op == "softmax_attention":
        return {f"initial_state.{name}": leaves[name][:, :at].double() for name in "kv"}
    short = replace(case, T=at)
    wide = {name: y.double() for name, y in slice_time(case, leaves, 0, at).items()}
    return {"initial_state": reference_call(short)(wide)["state"]}


def _solve_tail(case: Case, call: Call, inputs: Tensors, weights: Tensors) -> tuple[Run, dict[str, float]]:
    """Return results and gradients in float64, and their bounds; a cache has no upstream gradient."""

    def call_for_weights(x: Tensors) -> Tensors:
        return {name: y for name, y in call(x).items() if name in weights}

    results, gradients, moves = moves_of(case, call_for_weights, inputs, weights, eps_by_name(case))
    return (results, gradients), kernel_bounds_from(case, moves)


def measure_large_step(case: Case) -> list[Measurement]:
    """Measure a step on states, or against a cache, of more numbers than 32 bits count."""
    x = draw_leaves(case)
    corners = first_and_last_head(case)
    before = [{name: y.clone() for name, y in take_head(x, b, h).items()} for b, h in corners]
    with torch.no_grad():
        results = kernel_step_call(case)(x)
    got = {name: y for name, y in results.items() if name in ("output", "state")}
    return [
        m
        for (b, h), leaves in zip(corners, before, strict=True)
        for m in _measure_step(case, leaves, take_head(got, b, h))
    ]


def _measure_step(case: Case, leaves: Tensors, got: Tensors) -> Iterator[Measurement]:
    """Measure one head's step against float64."""
    one = replace(case, B=1, H=1)
    weights = {name: torch.ones_like(y, dtype=torch.float64) for name, y in got.items()}
    reference = step_call_of(one)

    def call(x: Tensors) -> Tensors:
        return {name: y for name, y in reference(x).items() if name in got}

    exact, _, moves = moves_of(one, call, leaves, weights, lambda name: EPS)
    yield from compare_runs(one, (got, {}), (exact, {}), bounds_from(one, moves))
