"""Only what is right is timed: output, last state and gradients against ``linattn_ref.ops`` in float64.

On fewer tokens than are timed, from the same rounded inputs. The error of a quantity is
||got - want|| / ||want||; that of a candidate is its largest.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from linattn_benchmarks.kernels.candidates import Candidate
from linattn_benchmarks.kernels.cases import Case, Inputs, inputs, leaves_of
from linattn_ref import ops

BOUNDS = {torch.bfloat16: 1e-2, torch.float32: 1e-4}
GATE_FACTOR = 2  # the gradient of a gate is a difference of sums that nearly cancel


def run(call: Callable[[Inputs], Any], x: Inputs, mode: str) -> dict[str, Tensor]:
    """Output, last state (where it is a tensor) and, with ``fwdbwd``, gradients."""
    if mode != "fwdbwd":
        with torch.no_grad():
            return named(*call(x))
    leaves = {name: x[name].detach().requires_grad_() for name in leaves_of(x)}
    output, state = call(x | leaves)
    of = torch.autograd.grad(output, list(leaves.values()), x["do"])
    gradients = {f"gradient of {name}": g for name, g in zip(leaves, of, strict=True)}
    return named(output, state) | gradients


def named(output: Tensor, state: Any) -> dict[str, Tensor]:
    found = {"output": output, "state": state} if isinstance(state, Tensor) else {"output": output}
    return {name: x.detach() for name, x in found.items()}


def reference(case: Case, x: Inputs) -> dict[str, Tensor]:
    exact = {name: in_float64(y) for name, y in x.items()}
    op: Callable[..., Any] = getattr(ops, case.function)
    return run(lambda y: op(**{name: z for name, z in y.items() if name != "do"}), exact, case.mode)


def in_float64(x: Any) -> Any:
    return x.double() if isinstance(x, Tensor) else ops.KVCache(*(y.double() for y in x))


def checked(candidate: Candidate, case: Case, device: torch.device) -> float:
    """The largest error of a candidate; raises if one is over the bound or not finite."""
    small = case.smaller()
    x = inputs(small, device, seed=1)
    if candidate.decay is not None:
        x["log_decay"] = candidate.decay(case.H).to(device)
    want = reference(small, x)
    got = run(candidate.call, candidate.arrange(x), case.mode)
    errors = {name: relative(y, want[name]) for name, y in got.items()}
    for name, error in errors.items():
        bound = BOUNDS[case.dtype] * (GATE_FACTOR if name == "gradient of log_decay" else 1)
        if not error <= bound:  # NaN too
            raise ArithmeticError(
                f"{name} is wrong: relative error {error:.2e}, expected at most {bound:.0e}"
            )
    return max(errors.values())


def relative(got: Tensor, want: Tensor) -> float:
    if got.shape != want.shape:
        raise ArithmeticError(f"got shape {list(got.shape)}, expected {list(want.shape)}")
    return (torch.linalg.vector_norm(got.double() - want) / torch.linalg.vector_norm(want)).item()
