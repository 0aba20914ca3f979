"""Test that our kernels obey laws that others have broken, and what torch asks of an op."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode

import linattn_kernels as kernels
from linattn_kernels import validation
from linattn_ref.ops import chunk_linear_attention
from tests.kernels.kernel_bounds import assert_accurate
from tests.kernels.kernel_calls import (
    KERNELS,
    call_on_strided_memory,
    call_under_autocast,
    compile_call,
    kernel_call,
)
from tests.kernels.kernel_cases import KERNEL_OPS, example, examples
from tests.ops.every_form import assert_equal_runs
from tests.ops.ladder import OPS, Call, Run, call_of, inputs_of, run, upstream_of
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

every_example = pytest.mark.parametrize("case", examples(T=20), ids=str)
every_op = pytest.mark.parametrize("op", KERNEL_OPS)


def assert_same_bits(case: Case, got: Run, want: Run) -> None:
    """Assert that two runs are equal bit for bit."""
    for a, b in zip(got, want, strict=True):
        assert_equal_runs(KERNELS[case.op], case, a, b, 0.0)


def run_case(case: Case, call: Call) -> Run:
    """Return results and gradients of a call for the inputs of a case."""
    return run(call, inputs_of(case), upstream_of(case))


# --- exponents, scale, dtypes ------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", ["token", "channel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_hard_decays_followed_by_tiny_ones_stay_accurate(dtype: torch.dtype, decay: str) -> None:
    """fla#77, fla#122: exp(-50) for 100 tokens, then hardly any decay for 100 tokens."""
    case = example("linear_attention", decay, T=200, strength="cliff", chunk_size=64, dtype=dtype)
    assert_accurate(case, kernel_call(case), "cliff")


@every_op
def test_default_scale_is_one_over_root_k(op: str) -> None:
    case = example(op)
    given = call_of(KERNELS[op], replace(case, scale=case.K**-0.5))(inputs_of(case))
    default = kernel_call(case)(inputs_of(case))
    other = call_of(KERNELS[op], replace(case, scale=1.0))(inputs_of(case))
    assert_equal_runs(KERNELS[op], case, given, default, 0.0)
    assert not torch.allclose(other["output"], default["output"])


@every_op
def test_negative_scale(op: str) -> None:
    case = example(op, "token" if op == "linear_attention" else None, scale=-1.0)
    assert_accurate(case, kernel_call(case), "scale -1")


def test_linear_state_is_float32_under_half_precision() -> None:
    case = example("linear_attention", "token", dtype=torch.float16)
    x = inputs_of(case)
    output, state = KERNELS[case.op].function(**x)
    assert (output.dtype, state.dtype) == (torch.float16, torch.float32)
    with pytest.raises(ValueError, match=r"initial_state: got torch\.float16, expected torch\.float32"):
        KERNELS[case.op].function(**{**x, "initial_state": state.half()})


@pytest.mark.parametrize("decay", ["head", "token", "channel"])
def test_half_precision_decay_beside_half_precision_inputs(decay: str) -> None:
    """It is carried in float32; its gradient comes back in its own dtype."""
    case = example("linear_attention", decay, T=20, dtype=torch.float16)
    x = inputs_of(case)
    narrow = {**x, "log_decay": x["log_decay"].half()}
    wide = {**x, "log_decay": narrow["log_decay"].float()}
    got, want = (run(kernel_call(case), leaves, upstream_of(case)) for leaves in (narrow, wide))
    assert got[1]["log_decay"].dtype == torch.float16
    want[1]["log_decay"] = want[1]["log_decay"].half()
    assert_same_bits(case, got, want)


@every_op
def test_large_numbers_in_half_precision_do_not_overflow(op: str) -> None:
    """Keys and values near 100: a state beyond the range of float16 is carried in float32.

    The delta rule's keys are of length 1: values near 15,000, of either sign under one key.
    """
    case = example(op, dtype=torch.float16, start=False, scale=1e-4)
    x = inputs_of(case)
    if op == "delta_rule":
        x = {**x, "v": 15_000 * x["v"].sign(), "beta": torch.full_like(x["beta"], 2)}
    else:
        x = {**x, "k": 100 + x["k"], "v": 100 + x["v"]}
    output, state = KERNELS[op].function(**OPS[op].arguments(case, x))
    assert output.isfinite().all()
    assert all(y.isfinite().all() for y in OPS[op].state(state).values())


def test_scores_beyond_float16_do_not_overflow() -> None:
    """Scores of 80,000 and values near 0.01: an output of 800."""
    for decay in (None, "token", "channel"):
        case = example("linear_attention", decay, T=5, dtype=torch.float16, start=False, scale=1.0)
        x = inputs_of(case)
        x |= {"q": 70 + 0 * x["q"], "k": 70 + 0 * x["k"], "v": 0.01 + 0 * x["v"]}
        output, _ = KERNELS[case.op].function(**x, scale=1.0)
        want, _ = chunk_linear_attention(**{name: y.double() for name, y in x.items()}, scale=1.0)
        assert_close("output", output, want, 1e-2)


@pytest.mark.parametrize("depth", [-1e3, -1e6])
@pytest.mark.parametrize("decay", ["token", "channel"])
def test_a_reset_among_mild_decays_drowns_nothing(decay: str, depth: float) -> None:
    """A sum of log decays with -1e6 in it has no digits left for the others."""
    case = example("linear_attention", decay, T=60, dtype=torch.float16, chunk_size=64)
    x = inputs_of(case)
    g = torch.full_like(x["log_decay"], -0.1)
    g[:, 20] = depth
    x = {**x, "log_decay": g}
    output, state = KERNELS[case.op].function(**x)
    want = chunk_linear_attention(**{name: y.double() for name, y in x.items()})
    assert_close("output", output, want.output, 2e-3)
    assert_close("state", state, want.state, 2e-3)


# --- gradients that are wanted, and those that are not -----------------------------------------------------


def gradients_of_part(case: Case, results: set[str], leaves: set[str]) -> tuple[Tensors, Tensors]:
    """Return the gradients of some leaves where only some results are used, and those of a full run."""
    x = {name: y.clone().requires_grad_(name in leaves) for name, y in inputs_of(case).items()}
    y = kernel_call(case)(x)
    upstream = {name: w * (name in results) for name, w in upstream_of(case).items()}
    wanted = [x[name] for name in sorted(leaves)]
    weights = [upstream[name].to(y[name].dtype) for name in sorted(results)]
    got = torch.autograd.grad([y[name] for name in sorted(results)], wanted, weights)
    full = run(kernel_call(case), inputs_of(case), upstream)[1]
    return dict(zip(sorted(leaves), got, strict=True)), {name: full[name] for name in leaves}


@pytest.mark.parametrize(
    ("results", "leaves"),
    [
        ({"output"}, {"q", "k", "v", "log_decay"}),
        ({"output", "state"}, {"q", "k", "v", "initial_state"}),
        ({"state"}, {"k", "v", "log_decay", "initial_state"}),
        ({"output"}, {"v"}),
        ({"output", "state"}, {"log_decay"}),
    ],
    ids=lambda names: "+".join(sorted(names)),
)
@pytest.mark.parametrize("decay", ["head", "token", "channel"])
def test_gradients_do_not_depend_on_what_else_is_wanted(
    decay: str, results: set[str], leaves: set[str]
) -> None:
    case = example("linear_attention", decay, T=3)
    got, want = gradients_of_part(case, results, leaves)
    assert_equal_runs(KERNELS[case.op], case, got, want, 0.0)


def test_softmax_gradients_do_not_depend_on_what_else_is_wanted() -> None:
    case = example("softmax_attention", T=3)
    for results, leaves in (({"output"}, {"q"}), ({"state.k", "state.v"}, {"k", "v", "initial_state.k"})):
        got, want = gradients_of_part(case, results, leaves)
        assert_equal_runs(KERNELS[case.op], case, got, want, 0.0)


@every_example
def test_gradient_of_a_sum(case: Case) -> None:
    """Its upstream gradient is one number, expanded: strides of 0."""
    ones = {name: torch.ones_like(y) for name, y in upstream_of(case).items()}
    want = run(kernel_call(case), inputs_of(case), ones)[1]
    x = {name: leaf.clone().requires_grad_() for name, leaf in inputs_of(case).items()}
    sum(y.sum() for y in kernel_call(case)(x).values()).backward()  # type: ignore[union-attr]
    for name, leaf in x.items():
        assert leaf.grad is not None
        assert_close(name, leaf.grad, want[name], 0.0)


@every_example
def test_inputs_may_begin_anywhere_in_memory(case: Case) -> None:
    """TMA needs addresses that are multiples of 16 bytes."""

    def shifted(x: torch.Tensor) -> torch.Tensor:
        y = x.new_zeros(x.numel() + 1)[1:].view(x.shape)
        return y.copy_(x)

    x = inputs_of(case)
    got, want = (kernel_call(case)(y) for y in ({name: shifted(y) for name, y in x.items()}, x))
    for name, y in want.items():
        assert_close(name, got[name], y, 0.0)


@every_op
def test_second_derivative_is_refused(op: str) -> None:
    """Not silently zero."""
    case = example(op, T=3)
    x = {name: leaf.clone().requires_grad_() for name, leaf in inputs_of(case).items()}
    y = kernel_call(case)(x)["output"]
    (dq,) = torch.autograd.grad(y.square().sum(), x["q"], create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(dq.square().sum(), x["k"])


# --- memory and order --------------------------------------------------------------------------------------


@every_example
def test_inputs_and_gradients_may_lie_anywhere_in_memory(case: Case) -> None:
    x = {name: y.clone() for name, y in inputs_of(case).items()}
    got = run(call_on_strided_memory(kernel_call(case)), x, upstream_of(case))
    assert_same_bits(case, got, run_case(case, kernel_call(case)))
    assert all(torch.equal(x[name], y) for name, y in inputs_of(case).items())  # nothing was written into


def test_strided_memory_is_strided() -> None:
    seen: Tensors = {}
    case = example("linear_attention", "head")
    call_on_strided_memory(lambda x: seen.update(x) or {})(inputs_of(case))  # type: ignore[func-returns-value]
    assert seen.keys() == inputs_of(case).keys()
    for name, x in seen.items():
        assert not x.is_contiguous()
        assert x.stride(-1) == 2
        assert torch.equal(x, inputs_of(case)[name])


@pytest.mark.parametrize("case", examples(), ids=str)
def test_forward_gives_the_same_bits_every_time(case: Case) -> None:
    with torch.no_grad():
        first, second = (kernel_call(case)(inputs_of(case)) for _ in range(2))
    assert_equal_runs(KERNELS[case.op], case, first, second, 0.0)


# --- autocast and torch.compile ----------------------------------------------------------------------------


@every_example
def test_autocast_changes_nothing(case: Case) -> None:
    assert_same_bits(
        case, run_case(case, call_under_autocast(kernel_call(case), "cpu")), run_case(case, kernel_call(case))
    )


@pytest.mark.slow
@every_example
def test_compiled_kernel_equals_eager(case: Case) -> None:
    """One graph, no break; results and gradients."""
    assert_same_bits(
        case, run_case(case, compile_call(kernel_call(case), "aot_eager")), run_case(case, kernel_call(case))
    )


def test_compiled_kernel_is_compiled_once_for_all_lengths() -> None:
    """Once for the first length and once for any; no length is baked in."""
    case = example("linear_attention", "token", T=3)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    call = torch.compile(kernel_call(case), backend=counter, fullgraph=True)
    for T in (3, 20, 33, 16):
        other = replace(case, T=T)
        assert_same_bits(other, run_case(other, call), run_case(other, kernel_call(case)))
    assert counter.frame_count <= 2


class Onlooker(TorchDispatchMode):
    """Note every operation that torch's dispatcher sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(operation)
        return operation(*args, **(kwargs or {}))


def test_a_mode_that_looks_on_sees_one_operation() -> None:
    """Elsewhere the launcher is called without the dispatcher."""
    case = example("linear_attention", "token")
    with torch.no_grad(), Onlooker() as onlooker:
        kernel_call(case)(inputs_of(case))
    assert onlooker.seen.count(torch.ops.linattn.linear_forward.default) == 1


STRENGTHS = torch.rand(1, 5, 2)
UNITS = torch.ops.linattn.find_units(torch.tensor([0, 2, 5]), 5, 16)
OPCHECKS: dict[str, Callable[[Tensors], tuple]] = {
    "linear_forward": lambda x: (
        x["q"], x["k"], x["v"], x["log_decay"], x["initial_state"], 0.25, 16, None,
    ),
    "delta_forward": lambda x: (
        x["q"], x["k"], x["v"], STRENGTHS, x["log_decay"], x["initial_state"], 0.25, 16, None,
    ),
    "softmax_forward": lambda x: (x["q"], x["k"], x["v"], None, None, 0.25, 16),
    "find_units": lambda x: (torch.tensor([0, 2, 5]), 5, 16),
    "lay_apart": lambda x: (x["q"], *UNITS[1:], 16),
    "put_together": lambda x: (torch.ones(1, 32, 2, requires_grad=True), *UNITS[1:], 5),
    "scan_forward": lambda x: (
        *torch.rand(2, 1, 5, 3), -torch.rand(3, 2), *torch.rand(2, 1, 5, 2), None, None,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPCHECKS)
def test_torch_finds_the_op_well_registered(name: str) -> None:
    """Schema, shapes without data, and autograd, by torch's own checker."""
    x = {
        n: y.clone().requires_grad_()
        for n, y in inputs_of(example("linear_attention", "channel", T=5)).items()
    }
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(getattr(torch.ops.linattn, name).default, OPCHECKS[name](x), test_utils=checks)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("decay", [(), (1,), (1, 48, 1), (1, 48, 1, 16)], ids=str)
def test_a_nan_reaches_no_chunk_before_its_own(decay: tuple[int, ...], name: str) -> None:
    T, C, token = 48, 16, 25
    x = dict(zip("qkv", torch.randn(3, 1, T, 1, 16), strict=True))
    log_decay = -torch.rand(decay) if decay else None
    clean = kernels.chunk_linear_attention(**x, log_decay=log_decay, chunk_size=C).output
    x[name][0, token] = torch.nan
    spoilt = kernels.chunk_linear_attention(**x, log_decay=log_decay, chunk_size=C).output
    first = token if name == "q" else token - token % C
    assert torch.equal(spoilt[:, :first], clean[:, :first])
    assert spoilt[:, token].isnan().all()


def test_a_nan_in_a_key_reaches_no_earlier_softmax() -> None:
    q, k, v = torch.randn(3, 1, 48, 1, 16).unbind()
    clean = kernels.chunk_softmax_attention(q, k, v, chunk_size=16).output
    k[0, 25] = torch.nan
    spoilt = kernels.chunk_softmax_attention(q, k, v, chunk_size=16).output
    assert torch.equal(spoilt[:, :25], clean[:, :25])
    assert spoilt[:, 25].isnan().all()


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")  # of Triton's interpreter
@pytest.mark.parametrize(
    ("function", "name", "decay", "first"),
    [
        ("linear", "log_decay", (1,), 0),
        ("linear", "log_decay", (1, 112, 1), 60),
        ("linear", "log_decay", (1, 112, 1, 16), 48),  # a chunk has 16 tokens in float32
        ("softmax", "q", None, 60),
        ("softmax", "k", None, 60),
        ("softmax", "v", None, 32),  # a tile of keys has 32 tokens, one of queries 16
    ],
    ids=str,
)
def test_a_nan_reaches_back_as_far_as_the_help_says(
    function: str, name: str, decay: tuple[int, ...] | None, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the values of a log decay are not checked, so nothing refuses a NaN there."""
    monkeypatch.setattr(validation, "check_log_decay", lambda log_decay, q: None)
    T, token = 112, 60
    x = dict(zip("qkv", torch.randn(3, 1, T, 1, 16).unbind(), strict=True))
    if decay:
        x["log_decay"] = -torch.rand(decay)
    call = getattr(kernels, f"chunk_{function}_attention")
    clean = call(**x, chunk_size=32).output
    x[name][(0,) if decay == (1,) else (0, token)] = torch.nan
    spoilt = call(**x, chunk_size=32).output
    assert torch.equal(spoilt[:, :first], clean[:, :first])
    assert spoilt[:, first : token + 1].isnan().any(-1).all()


@pytest.mark.filterwarnings("ignore:(All-NaN slice|invalid value):RuntimeWarning")  # of the interpreter
@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("op", KERNEL_OPS)
def test_a_nan_in_a_step_reaches_later_steps_by_the_state_alone(op: str, name: str) -> None:
    step, state, reached = getattr(kernels, f"step_{op}"), None, []
    for t in range(4):
        x = dict(zip("qkv", torch.randn(3, 1, 1, 2, 16).unbind(), strict=True))
        if t == 1:
            x[name][0, 0, 0] = torch.nan
        if op == "delta_rule":
            x["beta"] = torch.ones(1, 1, 2)
        output, state = step(**x, state=state)
        reached.append(output[0, 0].isnan().all(-1).tolist())
    later = [name != "q", False]
    assert reached == [[False, False], [True, False], later, later]
