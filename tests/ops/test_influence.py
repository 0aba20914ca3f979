"""What has influence on a result: every argument, every number, no later token. Gradients say how much."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.ops import Form, KVCache, WKVState
from tests.ops.every_form import EXACT, LINEAR, PACKED, rows, steps
from tests.ops.ladder import OPS, call_of, inputs_of, run, upstream_of
from tests.ops.ladder_cases import Case
from tests.support.closeness import assert_close


@pytest.mark.check
@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_future_has_no_influence(form: Form, case: Case) -> None:
    x, call = inputs_of(case), call_of(form, case)
    want = call(x)["output"]
    for t in (0, 5, 6, 7, 13, 18):
        timed = [name for name in OPS[case.op].timed if name in x and x[name].ndim > 1]
        changed = {
            name: torch.cat([x[name][:, : t + 1], other(name, x[name][:, t + 1 :])], 1) for name in timed
        }
        got = call({**x, **changed})["output"]
        assert_close(f"{form.form}: outputs up to {t}", got[:, : t + 1], want[:, : t + 1], EXACT)
        assert not torch.allclose(got[:, t + 1 :], want[:, t + 1 :])


def other(name: str, x: Tensor) -> Tensor:
    """Return other numbers that the argument may have."""
    return {"beta": 2 - x, "rate": 1 - x, "delta": 3 * x + 0.1}.get(name, 3 * x - 1)


def arguments_of(case: Case) -> dict[str, Any]:
    """Return the arguments of an op, none of them at its default."""
    return OPS[case.op].arguments(replace(case, scale=0.3), inputs_of(case))


def changes(argument: Any) -> list[Any]:
    """Return changed values of an argument: one, or for a tuple one with each part changed."""
    if isinstance(argument, str):
        return [{"euler": "exact", "exact": "euler", "zoh": "bilinear"}[argument]]
    if isinstance(argument, KVCache | WKVState):
        return [argument._replace(**{name: 2 * part}) for name, part in argument._asdict().items()]
    if isinstance(argument, Tensor) and argument.dtype == torch.int32:  # offsets of packed sequences
        return [argument - (torch.arange(len(argument)) == 1).int()]
    return [2 * argument]


def everything(result: Any) -> Tensor:
    """Return output and state as one row of numbers."""
    parts = result.state if isinstance(result.state, tuple) else (result.state,)
    return torch.cat([x.flatten().to(torch.complex128) for x in (result.output, *parts)])


def assert_every_argument_matters(function: Callable, arguments: dict[str, Any]) -> None:
    """Fail if a result stays as it is though an argument changes, ``chunk_size`` left aside."""
    parameters = set(inspect.signature(function).parameters)
    packed_softmax = "cu_seqlens" in arguments and "log_decay" not in parameters  # it takes no cache
    optional = {"log_decay", "initial_state"} if packed_softmax else {"log_decay", "cu_seqlens"}
    assert parameters - {"chunk_size"} - set(arguments) <= optional, (
        "an argument that this test does not know"
    )
    want = everything(function(**arguments))
    for name, argument in arguments.items():
        for changed in changes(argument):
            got = everything(function(**{**arguments, name: changed}))
            assert (got - want).abs().max() > 1e-3, f"{name} is ignored"


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True))
def test_every_argument_of_a_form_matters(form: Form, case: Case) -> None:
    assert_every_argument_matters(form.function, arguments_of(case))


@pytest.mark.parametrize(("form", "case"), rows(PACKED, T=20, B=1, lengths=(8, 12)))
def test_every_argument_matters_beside_packed_sequences(form: Form, case: Case) -> None:
    case = replace(case, start=form.op != "softmax_attention")
    assert_every_argument_matters(form.function, arguments_of(case))


@pytest.mark.parametrize("case", steps(T=1, start=True))
def test_every_argument_of_a_step_matters(case: Case) -> None:
    arguments = arguments_of(case)
    arguments["state"] = arguments.pop("initial_state")
    assert_every_argument_matters(OPS[case.op].step, arguments)


def test_ignored_argument_is_caught() -> None:
    case = Case("linear_attention", T=20, decay="token", start=True)

    def deaf(q, k, v, log_decay=None, *, scale=None, initial_state=None):
        return LINEAR[0].function(q, k, v, log_decay, scale=0.3, initial_state=initial_state)

    with pytest.raises(AssertionError, match="scale is ignored"):
        assert_every_argument_matters(deaf, arguments_of(case))


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_every_number_of_every_input_has_influence(form: Form, case: Case) -> None:
    _, gradients = run(call_of(form, case), inputs_of(case), upstream_of(case))
    for name, gradient in gradients.items():
        assert (gradient != 0).all(), f"some numbers of {name} have no gradient"


@pytest.mark.parametrize(("form", "case"), rows(T=5, B=1, H=2, K=2, V=3, start=True, chunk_size=2))
def test_gradients_are_those_of_finite_differences(form: Form, case: Case) -> None:
    x = {name: y.clone().requires_grad_() for name, y in inputs_of(case).items()}

    def function(*leaves: Tensor) -> tuple[Tensor, ...]:
        return tuple(call_of(form, case)(dict(zip(x, leaves, strict=True))).values())

    assert torch.autograd.gradcheck(function, tuple(x.values()))
