"""Hold the kernels of the selective scan to the ladder, in Triton's interpreter.

They are not in the registry of kernels yet, since no GPU has run them.
"""

from typing import Any

import pytest
import torch

from linattn_kernels.selective_scan import (
    MAX_STATES,
    associative_selective_scan,
    step_selective_scan,
)
from linattn_ref.ops import Form
from tests.kernels.kernel_bounds import assert_accurate
from tests.ops.ladder import call_of as call_form
from tests.ops.ladder import cases_of, inputs_of, split_call, step_call_of
from tests.ops.ladder_cases import Case
from tests.ops.test_errors import assert_explains, good, table
from tests.ops.wrong_arguments import Bad, T

STRENGTHS = ("mild", "hard", "all -50", "slow")
COVER = cases_of(
    "selective_scan",
    (16,),
    ({"B": 2, "K": 5, "V": 4}, {"B": 1, "K": 9, "V": 3}),
    [("euler", strength) for strength in STRENGTHS],
    T=(1, 16, 37),
    dtype=(torch.float32, torch.float16),
)
LONG = [Case("selective_scan", T=150, B=1, K=3, V=2, decay="euler", start=True, dtype=torch.float32)]
FORM = Form("selective_scan", "associative", associative_selective_scan)


def example(**fields: Any) -> Case:
    """Return a small case of two tiles, with an initial state."""
    sizes = {"T": 21, "B": 2, "K": 5, "V": 3, "start": True, "dtype": torch.float32}
    return Case("selective_scan", decay="euler", **sizes | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [*COVER, *LONG], ids=str)
def test_scan_keeps_its_precision(case: Case) -> None:
    """Results and all gradients; the long one is cut into segments that are walked side by side."""
    assert_accurate(case, call_form(FORM, case), "scan")


@pytest.mark.parametrize("at", [1, 16, 20])
def test_scan_resumes_from_the_state_that_it_left(at: int) -> None:
    case = example()
    call = call_form(FORM, case)
    assert_accurate(case, split_call(case, at, call, call), f"split at {at}")


def test_step_is_a_scan_of_one_token() -> None:
    case = example(T=1)
    assert_accurate(case, step_call_of(case, step_selective_scan), "step")


def test_scan_without_a_skip() -> None:
    x = {name: y.clone().requires_grad_() for name, y in inputs_of(example()).items() if name != "D"}
    zero = torch.zeros(5)
    got, want = (associative_selective_scan(**x, D=D) for D in (None, zero))
    assert torch.equal(got.output, want.output)
    gradients = [torch.autograd.grad(y.output.sum(), list(x.values())) for y in (got, want)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_two_calls_give_equal_bits() -> None:
    case = example()
    runs = []
    for _ in range(2):
        x = {name: y.clone().requires_grad_() for name, y in inputs_of(case).items()}
        output, state = associative_selective_scan(**x)
        runs.append([output, state, *torch.autograd.grad(output.sum() + state.sum(), list(x.values()))])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


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
