"""Make calls that must all give the same: a kernel whole, in parts, token by token, on strided memory."""

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

SCAN = Form("selective_scan", "associative", linattn_kernels.associative_selective_scan)  # takes no chunks
KERNELS: dict[str, Form] = {form.op: form for form in (*FORMS, SCAN)}


def kernel_call(case: Case) -> Call:
    """Return the chunk form (the scan) of a case on kernels, as a function from leaves to named results."""
    return call_of(KERNELS[case.op], case)


def get_step(op: str) -> Callable[..., Any]:
    """Return the one-token step of an op on kernels."""
    return getattr(linattn_kernels, f"step_{op}")


def kernel_step_call(case: Case) -> Call:
    """Return the step of a case on kernels, as a function from leaves to named results."""
    return step_call_of(case, get_step(case.op))


def call_in_parts(case: Case, length: int, part: Call, recompute: bool = False) -> Call:
    """Return a call of ``part`` on ``length`` tokens at a time; ``recompute``: again in the backward."""

    def call(x: Tensors) -> Tensors:
        state = {name: y for name, y in x.items() if name.startswith("initial_state")}
        inputs = {name: y for name, y in x.items() if name not in state}
        outputs = []
        for at in range(0, case.T, length):
            here = {**slice_time(case, inputs, at, at + length), **state}
            results = dict(checkpoint(part, here, use_reentrant=False) if recompute else part(here))
            outputs.append(results.pop("output"))
            state = {f"initial_{name}": y for name, y in results.items()}
        return {"output": torch.cat(outputs, 1), **results}

    return call


def split_decay_gradient(call: Call) -> Call:
    """Return a call whose gradients, but that of the decays, come from a run where that one is not wanted.

    Such a run has a backward of its own.
    """

    def with_split_gradient(x: Tensors) -> Tensors:
        rest = call({name: y.detach() if name == "log_decay" else y for name, y in x.items()})
        decays = call({name: y if name == "log_decay" else y.detach() for name, y in x.items()})
        return {name: y + (decays[name] - decays[name].detach()) for name, y in rest.items()}

    return with_split_gradient


def make_strided(x: Tensor) -> Tensor:
    """Return x with NaN between its numbers, and with its first two dimensions swapped in memory."""
    if x.ndim < 2:
        return torch.stack([x, torch.full_like(x, torch.nan)], -1)[..., 0]
    swapped = x.transpose(0, 1)
    return torch.stack([swapped, torch.full_like(swapped, torch.nan)], -1)[..., 0].transpose(0, 1)


def call_on_strided_memory(call: Call) -> Call:
    """Return the call on strided inputs; the gradients of its results are strided, too."""

    def strided_call(x: Tensors) -> Tensors:
        results = call({name: make_strided(leaf) for name, leaf in x.items()})
        return {name: _Strided.apply(y) for name, y in results.items()}

    return strided_call


class _Strided(torch.autograd.Function):
    """Return the input; its gradient lies strided in memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Tensor:  # type: ignore[override]
        return make_strided(dx)


def call_under_autocast(call: Call, device: str) -> Call:
    """Return the call under autocast to bfloat16."""

    def cast(x: Tensors) -> Tensors:
        with torch.autocast(device, dtype=torch.bfloat16):
            return call(x)

    return cast


def compile_call(call: Call, backend: str) -> Call:
    """Return the call compiled as one graph, without a break."""
    torch._dynamo.reset()
    return torch.compile(call, backend=backend, fullgraph=True)
