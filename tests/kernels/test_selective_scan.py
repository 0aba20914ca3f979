"""Hold the kernels of the selective scan to the ladder, in Triton's interpreter.

They are not in the registry of kernels, whose ops have heads and chunks. What holds for every kernel, on
a GPU as well (parts, steps, equal bits, strides), is in ``test_gpu_ladder.py``.
"""

from typing import Any

import pytest
import torch

from linattn_kernels.selective_scan import (
    MAX_STATES,
    associative_selective_scan,
)
from tests.kernels.kernel_bounds import assert_accurate
from tests.kernels.kernel_calls import kernel_call
from tests.kernels.kernel_cases import SCAN_STRENGTHS
from tests.ops.ladder import cases_of, inputs_of
from tests.ops.ladder_cases import Case
from tests.ops.test_errors import assert_explains, good, table
from tests.ops.wrong_arguments import Bad, T

COVER = cases_of(
    "selective_scan",
    (16,),
    ({"B": 2, "K": 5, "V": 4}, {"B": 1, "K": 9, "V": 3}),
    SCAN_STRENGTHS,
    T=(1, 16, 37),
    dtype=(torch.float32, torch.float16),
)
WALKS = [  # one that is cut into segments, which are walked side by side, and one that has programs enough
    Case("selective_scan", T=T, B=B, K=3, V=2, decay="euler", start=True, dtype=torch.float32)
    for T, B in ((150, 1), (21, 25))
]


def example(**fields: Any) -> Case:
    """Return a small case of two tiles, with an initial state."""
    sizes = {"T": 21, "B": 2, "K": 5, "V": 3, "start": True, "dtype": torch.float32}
    return Case("selective_scan", decay="euler", **sizes | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [*COVER, *WALKS], ids=str)
def test_scan_keeps_its_precision(case: Case) -> None:
    """Results and all gradients."""
    assert_accurate(case, kernel_call(case), "scan")


def test_scan_without_a_skip() -> None:
    x = {name: y.clone().requires_grad_() for name, y in inputs_of(example()).items() if name != "D"}
    zero = torch.zeros(5)
    got, want = (associative_selective_scan(**x, D=D) for D in (None, zero))
    assert torch.equal(got.output, want.output)
    gradients = [torch.autograd.grad(y.output.sum(), list(x.values())) for y in (got, want)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_a_nan_reaches_no_earlier_output() -> None:
    x = inputs_of(example())
    for name in ("u", "B", "C"):
        y = x[name].clone()
        y[:, 10] = torch.nan
        output = associative_selective_scan(**{**x, name: y}).output
        assert not output[:, :10].isnan().any()
        assert output[:, 10].isnan().all()


@pytest.mark.parametrize("bad", table("selective_scan"), ids=str)
def test_scan_refuses_what_the_reference_refuses(bad: Bad) -> None:
    arguments = good("selective_scan", T)
    arguments[bad.argument] = bad.spoil(arguments.get(bad.argument))
    with pytest.raises(ValueError, match=f"^{bad.named or bad.argument}: got ") as raised:
        associative_selective_scan(**arguments)
    assert_explains(str(raised.value), bad.words)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hold": "exact"}, ("'exact'", "'euler'", "linattn_ref.ops.associative_selective_scan")),
        ({"u": torch.ones(2, 21, 5).double()}, ("torch.float64",)),
        ({"A": -torch.ones(5, MAX_STATES + 1)}, (str(MAX_STATES),)),
    ],
    ids=["hold", "float64", "states"],
)
def test_scan_refuses_what_no_kernel_has(changed: dict[str, Any], words: tuple[str, ...]) -> None:
    x = {**inputs_of(example(start=False)), **changed}
    if "A" in changed:
        x |= {name: torch.ones(2, 21, MAX_STATES + 1) for name in "BC"}
    if "u" in changed:
        x = {name: y.double() for name, y in x.items()}
    with pytest.raises(ValueError, match="expected") as raised:
        associative_selective_scan(**x)
    assert_explains(str(raised.value), words)
