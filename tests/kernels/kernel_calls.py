"""Calls that must all give the same: a kernel whole, in parts, token by token, on strided memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import linattn_kernels
from linattn_kernels.forms import FORMS
from linattn_ref.ops import Form
from tests.ops.ladder import Call, call_of, slice_time, step_call_of
from tests.ops.ladder_cases import Case, Tensors

KERNELS: dict[str, Form] = {form.op: form for form in FORMS}


def kernel_call(case: Case) -> Call:
    return call_of(KERNELS[case.op], case)


def step_of(op: str) -> Callable[..., Any]:
    return getattr(linattn_kernels, f"step_{op}")


def kernel_step_call(case: Case) -> Call:
    return step_call_of(case, step_of(case.op))


def in_parts(case: Case, length: int, part: Call, forget: bool = False) -> Call:
    """``part`` on ``length`` tokens at a time; ``forget``: the backward computes each part again."""

    def call(x: Tensors) -> Tensors:
        state = {name: y for name, y in x.items() if name.startswith("initial_state")}
        inputs = {name: y for name, y in x.items() if name not in state}
        outputs = []
        for at in range(0, case.T, length):
            here = {**slice_time(case, inputs, at, at + length), **state}
            results = dict(checkpoint(part, here, use_reentrant=False) if forget else part(here))
            outputs.append(results.pop("output"))
            state = {f"initial_{name}": y for name, y in results.items()}
        return {"output": torch.cat(outputs, 1), **results}

    return call


def decays_apart(call: Call) -> Call:
    """All gradients but that of the decays from a call where nobody wants it, which has its own backward."""

    def apart(x: Tensors) -> Tensors:
        rest = call({name: y.detach() if name == "log_decay" else y for name, y in x.items()})
        decays = call({name: y if name == "log_decay" else y.detach() for name, y in x.items()})
        return {name: y + (decays[name] - decays[name].detach()) for name, y in rest.items()}

    return apart


def strided(x: Tensor) -> Tensor:
    """The same numbers with NaN between them, and the first two dimensions swapped in memory."""
    if x.ndim < 2:
        return torch.stack([x, torch.full_like(x, torch.nan)], -1)[..., 0]
    swapped = x.transpose(0, 1)
    return torch.stack([swapped, torch.full_like(swapped, torch.nan)], -1)[..., 0].transpose(0, 1)


def on_strided_memory(call: Call) -> Call:
    """All inputs strided, and the gradients of the results too."""

    def strided_call(x: Tensors) -> Tensors:
        results = call({name: strided(leaf) for name, leaf in x.items()})
        return {name: _Strided.apply(y) for name, y in results.items()}

    return strided_call


class _Strided(torch.autograd.Function):
    """The identity; its gradient lies strided in memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Tensor:  # type: ignore[override]
        return strided(dx)


def under_autocast(call: Call, device: str) -> Call:
    def cast(x: Tensors) -> Tensors:
        with torch.autocast(device, dtype=torch.bfloat16):
            return call(x)

    return cast


def compiled(call: Call, backend: str) -> Call:
    """One graph, no break."""
    torch._dynamo.reset()
    return torch.compile(call, backend=backend, fullgraph=True)
