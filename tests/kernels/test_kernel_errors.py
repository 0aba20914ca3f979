"""Test the errors of the reference, and those that only a kernel raises, which say what to call instead."""

import inspect
import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from linattn_kernels import hardware, validation
from tests.kernels.kernel_calls import KERNELS, get_step, kernel_call
from tests.kernels.kernel_cases import KERNEL_OPS, example
from tests.ops.ladder import OPS, inputs_of
from tests.ops.test_errors import STEP_ROWS, Arguments, assert_explains, good, table
from tests.ops.wrong_arguments import Bad, T

FORM_ROWS = [
    pytest.param(op, bad, id=f"{op}-{bad}")
    for op in KERNEL_OPS
    for bad in table(op)
    if bad.argument in inspect.signature(KERNELS[op].function).parameters
]


@pytest.fixture
def any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels take the widths of the reference's tests; their faults come before a kernel runs."""
    monkeypatch.setattr(validation, "HEAD_WIDTHS", (*validation.HEAD_WIDTHS, 1, 4, 5, 10))


@pytest.mark.usefixtures("any_width")
@pytest.mark.parametrize(("op", "bad"), FORM_ROWS)
def test_kernel_refuses_what_the_reference_refuses(op: str, bad: Bad) -> None:
    arguments = good(op, T)
    arguments[bad.argument] = bad.spoil(arguments.get(bad.argument))
    with pytest.raises(ValueError, match=f"^{re.escape(bad.named or bad.argument)}: got ") as raised:
        KERNELS[op].function(**arguments)
    assert_explains(str(raised.value), bad.words)


@pytest.mark.usefixtures("any_width")
@pytest.mark.parametrize(("op", "bad"), [row for row in STEP_ROWS if row.values[0] in KERNEL_OPS])
def test_kernel_step_refuses_what_the_reference_refuses(op: str, bad: Bad) -> None:
    arguments = good(op, 1)
    arguments["state"] = arguments.pop("initial_state")
    argument = bad.argument.replace("initial_state", "state")
    name = bad.named.replace("initial_state", "state") or argument
    arguments[argument] = bad.spoil(arguments[argument])
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}: got .*expected "):
        get_step(op)(**arguments)


# --- what only a kernel refuses ----------------------------------------------------------------------------


def narrow(**sizes: int) -> Callable[[Arguments], Arguments]:
    """Return a function that keeps fewer columns of q and k, or of v."""

    def take_columns(x: Arguments) -> Arguments:
        return {name: y[..., : sizes.get(name, y.shape[-1])] for name, y in x.items()}

    return take_columns


def cast_to(dtype: torch.dtype) -> Callable[[Arguments], Arguments]:
    """Return a function that casts all arguments to a dtype."""
    return lambda x: {name: y.to(dtype) for name, y in x.items()}


REFUSED: dict[str, tuple[Callable[[Arguments], Arguments], str, str]] = {
    "float64": (cast_to(torch.float64), "q", "torch.float64"),
    "bfloat16, in the interpreter": (cast_to(torch.bfloat16), "q", "torch.bfloat16"),
    "K = 5": (narrow(q=5, k=5), "q", "a width of 5"),
    "K = 24": (lambda x: {**x, "q": _widen(x["q"], 24), "k": _widen(x["k"], 24)}, "q", "a width of 24"),
}
REFUSED_BY_SOFTMAX: dict[str, tuple[Callable[[Arguments], Arguments], str, str]] = {
    "V = 5": (narrow(v=5), "v", "a width of 5"),
    "V = 256": (lambda x: {**x, "v": _widen(x["v"], 256)}, "v", "a width of 256"),
}


def _widen(x: torch.Tensor, width: int) -> torch.Tensor:
    """Return x with its columns repeated, ``width`` of them."""
    return x.repeat(1, 1, 1, 16)[..., :width]


def only_qkv(op: str, tokens: int) -> Arguments:
    """Return q, k and v, and what else must be given, without a decay or a state."""
    needed = ("q", "k", "v", "beta")
    return {name: x for name, x in inputs_of(example(op, T=tokens)).items() if name in needed}


@pytest.mark.parametrize("kind", ["chunk", "step"])
@pytest.mark.parametrize(
    ("op", "fault"),
    [*itertools.product(KERNEL_OPS, REFUSED), *itertools.product(["softmax_attention"], REFUSED_BY_SOFTMAX)],
)
def test_kernel_names_what_takes_other_arguments(op: str, fault: str, kind: str) -> None:
    spoil, argument, got = (REFUSED | REFUSED_BY_SOFTMAX)[fault]
    function, tokens = (KERNELS[op].function, 3) if kind == "chunk" else (get_step(op), 1)
    function(**only_qkv(op, tokens))  # right without the fault
    with pytest.raises(ValueError, match=f"^{argument}: got {re.escape(got)}, expected one of") as raised:
        function(**spoil(only_qkv(op, tokens)))
    assert f"linattn_ref.ops.{kind}_{op}" in str(raised.value)


@pytest.mark.parametrize("kind", ["chunk", "step"])
@pytest.mark.parametrize("op", KERNEL_OPS)
def test_the_error_names_what_to_call_where_a_gradient_is_wanted(op: str, kind: str) -> None:
    """It is a function of the same arguments, also where a step is computed by the chunk form."""
    x = {name: y.double().requires_grad_() for name, y in only_qkv(op, 1).items()}
    with pytest.raises(ValueError, match=f"^q: got torch.float64.*linattn_ref.ops.{kind}_{op}"):
        (KERNELS[op].function if kind == "chunk" else get_step(op))(**x)


@pytest.mark.parametrize("size", [7, 8, 48, 256])
@pytest.mark.parametrize("op", KERNEL_OPS)
def test_kernel_refuses_a_chunk_that_is_no_tile(op: str, size: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^chunk_size: got {size}, expected one of .*linattn_ref\.ops\.chunk_{op}"
    ):
        KERNELS[op].function(**only_qkv(op, 3), chunk_size=size)


@pytest.mark.parametrize("kind", ["chunk", "step"])
@pytest.mark.parametrize("op", KERNEL_OPS)
def test_kernel_refuses_the_cpu_where_it_is_not_interpreted(
    op: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "INTERPRETED", False)
    function, tokens = (KERNELS[op].function, 3) if kind == "chunk" else (get_step(op), 1)
    message = rf"^q: got a tensor on cpu, expected a CUDA tensor.*linattn_ref\.ops\.{kind}_{op}"
    with pytest.raises(ValueError, match=message):
        function(**only_qkv(op, tokens))


class OldGPU:
    """Look like a tensor on a GPU of 2018."""

    is_cuda, device = True, torch.device("cuda", 0)


def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "INTERPRETED", False)
    monkeypatch.setattr(hardware, "_read_properties", lambda device: SimpleNamespace(major=7, minor=5))
    with pytest.raises(
        ValueError, match=r"compute capability 7\.x, expected .* 8\.0 or later.*linattn_ref\.ops"
    ):
        validation.check_device(OldGPU(), "linattn_ref.ops.chunk_linear_attention takes any other")  # type: ignore[arg-type]


def test_values_are_checked_on_the_cpu() -> None:
    case = example("linear_attention", "token")
    x: dict[str, Any] = dict(inputs_of(case))
    with pytest.raises(ValueError, match="log_decay: got a largest value of"):
        kernel_call(case)({**x, "log_decay": -x["log_decay"]})


def test_every_op_has_its_wrong_arguments() -> None:
    for op in KERNEL_OPS:
        tested = {bad.argument for bad in table(op)}
        assert set(inspect.signature(KERNELS[op].function).parameters) <= tested
        assert OPS[op].step.__name__ == get_step(op).__name__
