"""Check a candidate before it is timed: output, last state and gradients against our ops in float64.

It is checked on fewer tokens than are timed, from the same rounded inputs. The error of a candidate is its
largest ``l2_error``.
"""

from typing import Any

import torch
from torch import Tensor

from linattn_benchmarks.compare import Tensors, l2_error, run_with_gradients
from linattn_benchmarks.kernels.candidates import Candidate, Result
from linattn_benchmarks.kernels.settings import Inputs, KernelSetting, list_differentiated, make_inputs
from linattn_ref import ops

BOUNDS = {torch.bfloat16: 1e-2, torch.float32: 1e-4}
GATE_FACTOR = 2  # the gradient of a gate is a difference of sums that nearly cancel


def name_results(result: Result) -> Tensors:
    """Return output and state by name; a softmax state, a cache, is nothing to compare."""
    output, state = result
    return {"output": output, "state": state} if isinstance(state, Tensor) else {"output": output}


def find_upstream(x: Inputs) -> Tensors:
    """Return the gradient that the output receives, where there is a backward pass."""
    return {"output": x["do"]} if "do" in x else {}


def compute_reference(setting: KernelSetting, x: Inputs) -> Tensors:
    """Return results and gradients of our op in float64."""
    exact = {name: to_float64(y) for name, y in x.items()}

    def call(y: Inputs) -> Tensors:
        return name_results(
            getattr(ops, setting.function)(**{name: z for name, z in y.items() if name != "do"})
        )

    return run_with_gradients(call, exact, find_upstream(exact), list_differentiated(exact))


def to_float64(x: Any) -> Any:
    """Return a tensor or a cache in float64."""
    return x.double() if isinstance(x, Tensor) else ops.KVCache(*(y.double() for y in x))


def check_candidate(candidate: Candidate, setting: KernelSetting, device: torch.device) -> float:
    """Return the largest error of a candidate.

    Raises:
        ArithmeticError: an error is over its bound, or not finite.
    """
    small = setting.smaller()
    x = make_inputs(small, device, seed=1)
    if candidate.decay is not None:
        x["log_decay"] = candidate.decay(setting.H).to(device)
    want = compute_reference(small, x)
    y = candidate.arrange(x)
    got = run_with_gradients(
        lambda z: name_results(candidate.call(z)), y, find_upstream(y), list_differentiated(y)
    )
    errors = {name: l2_error(z, want[name]) for name, z in got.items()}
    for name, error in errors.items():
        bound = BOUNDS[setting.dtype] * (GATE_FACTOR if name == "gradient of log_decay" else 1)
        if not error <= bound:  # NaN too
            raise ArithmeticError(
                f"{name} is wrong: relative error {error:.2e}, expected at most {bound:.0e}"
            )
    return max(errors.values())
