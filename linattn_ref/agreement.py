"""Our ops against FLA's kernels, on a GPU: ``python -m linattn_ref.agreement --out DIR``.

Each function of ``rosetta.FLA`` gets the same numbers as our op, which computes in float64. A row is how far
the kernel's output, last state or a gradient is from ours. Needs fla-core and a GPU; the rows are kept as the
result ``fla_agreement``.
"""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from linattn_ref import ops, results
from linattn_ref.measure import default_device
from linattn_ref.rosetta import FLA, from_result, to_fla

B, T, H, K, V = 2, 500, 4, 64, 64
COLUMNS = {
    "function": "of FLA",
    "decay": "of our op: none, [H], [B, T, H] or [B, T, H, K]",
    "dtype": "of q, k, v in FLA; decays, strengths and states are float32",
    "quantity": "output, state, or the input whose gradient is compared",
    "error": "max|theirs - ours| / max(1, max|ours|), ours in float64 on the same rounded inputs",
    "size": "max|ours|",
}
SHAPES = {0: None, 1: (H,), 3: (B, T, H), 4: (B, T, H, K)}
NAMES = {0: "none", 1: "[H]", 3: "[B, T, H]", 4: "[B, T, H, K]"}
Numbers = dict[str, Tensor]


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
    loss = (output.double() * upstream["output"]).sum() + (state.double() * upstream["state"]).sum()
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    found = {"output": output, "state": state}
    found |= {f"gradient of {name}": g for name, g in zip(leaves, gradients, strict=True) if g is not None}
    return {name: y.detach().double() for name, y in found.items()}


def compare(function: str, dims: int, dtype: torch.dtype) -> list[dict[str, Any]]:
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
    shared = {"function": function, "decay": NAMES[dims], "dtype": str(dtype).removeprefix("torch.")}
    rows = []
    for name, got in run(theirs, x, upstream).items():
        size = ours[name].abs().max()
        error = ((got - ours[name]).abs().max() / size.clamp(min=1)).item()
        rows.append({**shared, "quantity": name, "error": error, "size": size.item()})
    return rows


def save(rows: list[dict[str, Any]], out: Path) -> None:
    root = Path(__file__).parent
    results.save(
        "fla_agreement",
        rows,
        columns=COLUMNS,
        command="python -m linattn_ref.agreement --out DIR",
        seed=0,
        source_hash=results.source_hash([root / name for name in ("ops", "rosetta.py", "agreement.py")]),
        directory=out,
    )


def main() -> None:
    """Compare the functions and save after each; one that fails is named, and the rest goes on."""
    parser = argparse.ArgumentParser(prog="python -m linattn_ref.agreement")
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help="of FLA; all of them by default")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV file and index.json")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for function in arguments.functions or FLA:
        for dims in FLA[function].decay or [0]:
            for dtype in (torch.float32, torch.bfloat16):
                try:
                    found = compare(function, dims, dtype)
                    report = f"{max(row['error'] for row in found):.2e}"
                except Exception as error:  # a kernel that does not compile must not hide the others
                    found, report = [], f"{type(error).__name__}: {str(error)[:300]}"
                print(f"{function}, decay {NAMES[dims]}, {dtype}: {report}", flush=True)
                rows += found
                if rows:
                    save(rows, arguments.out)


if __name__ == "__main__":
    main()
