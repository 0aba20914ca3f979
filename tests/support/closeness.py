"""How tests compare numbers: one error, ``err``, and one assertion, ``assert_close``.

Unlike ``torch.testing.assert_close`` it compares any dtypes, in float64, and its bound is one number for a
whole tensor, relative to the largest.
"""

import numpy as np
import torch
from torch import Tensor

from linattn_benchmarks.compare import max_error

Numbers = Tensor | np.ndarray | float


def err(got: Numbers, want: Numbers) -> float:
    """Return ``max|got - want| / max(1, max|want|)``: absolute below 1, relative to the largest entry above.

    It is NaN where shapes differ or a number is not finite, and so never below a bound.
    """
    return max_error(_float64(got), _float64(want))


def assert_close(name: str, got: Numbers, want: Numbers, bound: float) -> None:
    """Fail, with the name, unless shapes are equal, all numbers finite, and ``err(got, want) <= bound``."""
    a, b = _float64(got), _float64(want)
    assert a.shape == b.shape, f"{name}: got shape {list(a.shape)}, expected {list(b.shape)}"
    for side, x in (("got", a), ("expected", b)):
        bad = (~x.isfinite()).sum().item()
        assert bad == 0, f"{name}: {bad} of {x.numel()} numbers {side} are NaN or infinite"
    worst = np.unravel_index(int((a - b).abs().argmax()), a.shape)
    where = tuple(int(i) for i in worst)
    assert err(a, b) <= bound, (
        f"{name}: error {err(a, b):.3e} > {bound:.3e}, worst at {where}: "
        f"got {a[worst].item():.9g}, expected {b[worst].item():.9g}"
    )


def _float64(x: Numbers) -> Tensor:
    """Return numbers as a tensor in float64 on the CPU."""
    return torch.as_tensor(np.float64(x) if isinstance(x, float) else x).detach().to("cpu", torch.float64)
