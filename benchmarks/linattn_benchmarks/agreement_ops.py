"""Compare FLA's kernels with our ops, on a GPU: needs fla-core.

Each function of ``FLA_FUNCTIONS`` and our op get the same rounded numbers; ours computes in float64. A row is
how far the kernel's output, last state or a gradient is from ours. In a dry run our own op in float32 stands
in for FLA's.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import logsigmoid, normalize

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device
from linattn_benchmarks.compare import Tensors, dtype_name, max_error, run_with_gradients
from linattn_benchmarks.translation.fla import (
    FLA_FUNCTIONS,
    from_fla,
    from_fla_result,
    import_fla_function,
    to_fla,
)
from linattn_ref import ops

SIZES = {  # B, T, H, K, V
    Size.FULL: (2, 500, 4, 64, 64),
    Size.REDUCED: (1, 100, 2, 64, 64),
    Size.DRY_RUN: (2, 20, 2, 6, 4),
}
DTYPES = (torch.float32, torch.bfloat16)
DECAYS = {0: "none", 1: "[H]", 3: "[B, T, H]", 4: "[B, T, H, K]"}  # by number of dimensions
ERROR = "max|theirs - ours| / max(1, max|ours|), ours in float64 on the same rounded inputs"


def make_inputs(function: str, dims: int, dtype: torch.dtype, size: Size) -> Tensors:
    """Draw what our op takes, q, k, v in ``dtype``: unit keys for the delta rule, decays as if trained."""
    B, T, H, K, V = SIZES[size]
    gen = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=gen)  # noqa: E731
    row = FLA_FUNCTIONS[function]
    x = {"q": draw(B, T, H, K), "k": draw(B, T, H, K) * K**-0.5, "v": draw(B, T, H, V)}
    if "beta" in row.names:
        x |= {"k": normalize(x["k"], dim=-1), "beta": draw(B, T, H).sigmoid()}
    if "bonus" in row.names:
        x["bonus"] = draw(H, K)
    half = {name: y.to(dtype) for name, y in x.items() if name in ("q", "k", "v")}
    x |= half | {"initial_state": draw(B, H, K, V)}
    shapes = {1: (H,), 3: (B, T, H), 4: (B, T, H, K)}
    if row.built_in_decay:
        x["log_decay"] = row.built_in_decay(H)
    elif dims:
        x["log_decay"] = logsigmoid(draw(*shapes[dims])) / 4
    return {name: y.to(choose_device(size)) for name, y in x.items()}


def find_our_op(function: str) -> Callable[..., ops.LinearResult]:
    """Return the op of ours that a function of FLA computes."""
    names = FLA_FUNCTIONS[function].names
    if "beta" in names:
        return ops.chunk_delta_rule
    return ops.chunk_rwkv6 if "bonus" in names else ops.chunk_linear_attention


def make_stand_in(function: str) -> Callable[..., Any]:
    """Return our own op under the names of FLA's function."""
    return lambda **theirs: find_our_op(function)(**from_fla(function, **theirs))


def compare(function: str, dims: int, dtype: torch.dtype, size: Size) -> Rows:
    """Return the rows of one function with one kind of decay."""
    x = make_inputs(function, dims, dtype, size)
    B, T, H, K, V = SIZES[size]
    gen = torch.Generator().manual_seed(1)
    shapes = {"output": (B, T, H, V), "state": (B, H, K, V)}
    upstream = {name: torch.randn(s, generator=gen).to(choose_device(size)) for name, s in shapes.items()}
    their_op = (make_stand_in if size is Size.DRY_RUN else import_fla_function)(function)
    wanted = [name for name in x if name != "log_decay" or not FLA_FUNCTIONS[function].built_in_decay]

    def call_theirs(y: Tensors) -> Tensors:
        arguments: dict[str, Any] = dict(y)
        return from_fla_result(their_op(**to_fla(function, **arguments)))._asdict()

    exact = {name: y.double() for name, y in x.items()}
    ours = run_with_gradients(lambda y: find_our_op(function)(**y)._asdict(), exact, upstream, wanted)
    theirs = run_with_gradients(call_theirs, x, upstream, wanted)
    return [format_errors(name, max_error(got, ours[name]), ours[name]) for name, got in theirs.items()]


def format_errors(quantity: str, error: float, want: torch.Tensor) -> dict[str, Any]:
    """Return the cells of a row that are measured; no error where a number is missing or not finite."""
    size = want.double().abs().max().item()
    return {"quantity": quantity, "error": None if math.isnan(error) else error, "size": size}


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every function, kind of decay and dtype."""
    found = []
    for function, row in FLA_FUNCTIONS.items():
        for dims in row.decay or [1 if row.built_in_decay else 0]:
            for dtype in DTYPES:
                key = {"function": function, "decay": DECAYS[dims], "dtype": dtype_name(dtype)}
                found.append(Task(key, partial(compare, function, dims, dtype, size)))
    return found


def describe_largest_error(rows: Rows) -> str:
    """Return the largest error of some rows, and their remarks, as a line of text."""
    errors = [row["error"] for row in rows if row["error"] is not None]
    said = [f"largest error {max(errors):.2e}"] if errors else []
    return "; ".join(said + [row["remark"] for row in rows if row.get("remark")])


FLA_AGREEMENT = Benchmark(
    name="fla_agreement",
    columns={
        "function": "of FLA",
        "decay": "of our op: none, [H], [B, T, H] or [B, T, H, K]",
        "dtype": "of q, k, v in FLA; decays, strengths and states are float32",
        "quantity": "output, state, or the input whose gradient is compared",
        "error": ERROR,
        "size": "max|ours|",
    },
    tasks=list_tasks,
    needs_gpu=True,
    group_by="function",
    processes_share_gpu=True,
    describe=describe_largest_error,
)
