"""Our ops against FLA's kernels.

Each function of ``rosetta.FLA`` gets the same numbers as our op. A row is how far the kernel's output, last
state or a gradient is from ours.
"""

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from linattn_benchmarks.agreement.rows import (
    DTYPES,
    ERROR,
    Case,
    Numbers,
    Rows,
    Study,
    gradients,
    measured,
    named,
)
from linattn_book.measure import default_device
from linattn_ref import ops
from linattn_ref.interop.rosetta import FLA, from_result, to_fla

B, T, H, K, V = 2, 500, 4, 64, 64
COLUMNS = {
    "function": "of FLA",
    "decay": "of our op: none, [H], [B, T, H] or [B, T, H, K]",
    "dtype": "of q, k, v in FLA; decays, strengths and states are float32",
    "quantity": "output, state, or the input whose gradient is compared",
    "error": ERROR,
    "size": "max|ours|",
}
SHAPES = {0: None, 1: (H,), 3: (B, T, H), 4: (B, T, H, K)}
NAMES = {0: "none", 1: "[H]", 3: "[B, T, H]", 4: "[B, T, H, K]"}


def inputs(function: str, dims: int, dtype: torch.dtype, device: torch.device) -> Numbers:
    """What our op takes, rounded to ``dtype``: unit keys for the delta rule, decays as trained ones are."""
    gen = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=gen)  # noqa: E731
    x = {"q": draw(B, T, H, K), "k": draw(B, T, H, K) * K**-0.5, "v": draw(B, T, H, V)}
    if "beta" in FLA[function].names:
        x |= {"k": normalize(x["k"], dim=-1), "beta": draw(B, T, H).sigmoid()}
    if "bonus" in FLA[function].names:
        x["bonus"] = draw(H, K)
    half = {name: y.to(dtype) for name, y in x.items() if name in ("q", "k", "v")}
    x |= half | {"initial_state": draw(B, H, K, V)}
    if shape := SHAPES[dims]:
        x["log_decay"] = logsigmoid(draw(*shape)) / 4
    return {name: y.to(device) for name, y in x.items()}


def our_op(function: str) -> Callable[..., ops.LinearResult]:
    names = FLA[function].names
    if "beta" in names:
        return ops.chunk_delta_rule
    return ops.chunk_rwkv6 if "bonus" in names else ops.chunk_linear_attention


def their_op(function: str) -> Callable[..., Any]:
    """From the module of its mechanism: ``fla.ops.gla`` has ``chunk_gla`` and ``fused_recurrent_gla``."""
    mechanism = function.removeprefix("chunk_").removeprefix("fused_recurrent_")
    return getattr(importlib.import_module(f"fla.ops.{mechanism}"), function)


def run(call: Callable[[Numbers], tuple[Tensor, Tensor]], x: Numbers, upstream: Numbers) -> Numbers:
    """Output, state, and the gradient of every input under fixed upstream gradients."""
    leaves = {name: y.detach().clone().requires_grad_() for name, y in x.items()}
    output, state = call(leaves)
    found = {"output": output, "state": state}
    return {name: y.detach() for name, y in (found | gradients(found, upstream, leaves)).items()}


def compare(function: str, dims: int, dtype: torch.dtype) -> Rows:
    """The rows of one function with one kind of decay."""
    device = default_device()
    x = inputs(function, dims, dtype, device)
    gen = torch.Generator().manual_seed(1)
    shapes = {"output": (B, T, H, V), "state": (B, H, K, V)}
    upstream = {name: torch.randn(s, generator=gen).double().to(device) for name, s in shapes.items()}
    theirs_op = their_op(function)

    def theirs(y: Numbers) -> tuple[Tensor, Tensor]:
        arguments: dict[str, Any] = dict(y)
        return from_result(theirs_op(**to_fla(function, **arguments)))

    ours = run(lambda y: our_op(function)(**y), {name: y.double() for name, y in x.items()}, upstream)
    shared = {"function": function, "decay": NAMES[dims], "dtype": named(dtype)}
    return [shared | measured(name, got, ours[name]) for name, got in run(theirs, x, upstream).items()]


def cases(function: str) -> Iterator[Case]:
    for dims in FLA[function].decay or [0]:
        for dtype in DTYPES:
            label = f"{function}, decay {NAMES[dims]}, {named(dtype)}"
            yield Case(label, partial(compare, function, dims, dtype))


OPS = Study(
    "fla_agreement",
    "",
    list(FLA),
    cases,
    COLUMNS,
    ("linattn_ref/ops", "linattn_ref/interop", "benchmarks/linattn_benchmarks/agreement"),
)
