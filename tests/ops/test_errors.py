"""Wrong in, clear error out: a ValueError that names the argument, what came, and what was expected."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from linattn_ref.ops import FORMS
from linattn_ref.ops.linear import parallel_body
from tests.ops.ladder import OPS, inputs_of
from tests.ops.ladder_cases import Case
from tests.ops.wrong_arguments import B, Bad, H, K, T, V

Arguments = dict[str, Any]


def good(op: str, tokens: int) -> Arguments:
    """Return arguments that every form of the op takes, of the sizes that the rows are for."""
    decay, strength = ("channel", "mild") if "log_decay" in OPS[op].timed else OPS[op].variants[0]
    sizes = {"B": B, "H": H, "K": K, "V": V}
    case = Case(
        op, T=tokens, **sizes, decay=decay, strength=strength, start=True, scale=0.5, dtype=torch.float32
    )
    return OPS[op].arguments(case, inputs_of(case))


def table(op: str) -> list[Bad]:
    """Return the wrong arguments of an op."""
    return list(OPS[op].wrong)


FORM_ROWS = [
    pytest.param(form.function, form.op, bad, id=f"{form.op}-{form.form}-{bad}")
    for form in FORMS
    for bad in table(form.op)
    if bad.argument in inspect.signature(form.function).parameters
]


@pytest.mark.parametrize(("function", "op", "bad"), FORM_ROWS)
def test_form_refuses(function: Callable, op: str, bad: Bad) -> None:
    arguments = good(op, T)
    function(**arguments)  # right without the fault
    arguments[bad.argument] = bad.spoil(arguments.get(bad.argument))
    with pytest.raises(ValueError, match=f"^{re.escape(bad.named or bad.argument)}: got ") as raised:
        function(**arguments)
    assert_explains(str(raised.value), bad.words)


def assert_explains(message: str, words: tuple[str, ...]) -> None:
    """Fail unless a message holds "expected" and all of these words."""
    missing = [word for word in ("expected", *words) if word not in message]
    assert not missing, f"{message!r} does not say {missing}"


def leading(op: str) -> str:
    """Return the name of an op's first argument, a sequence."""
    return next(iter(inspect.signature(OPS[op].step).parameters))


TWO_TOKENS = [
    Bad("of two tokens", name, lambda x: torch.cat([x, x], 1), ("one token",)) for name in ("q", "u", "k")
]
NEEDS_TWO_TOKENS = {"of another length", "with one token"}
STEP_ROWS = [
    pytest.param(op, bad, id=f"{op}-{bad}")
    for op in OPS
    for bad in (next(two for two in TWO_TOKENS if two.argument == leading(op)), *table(op))
    if bad.argument.replace("initial_state", "state") in inspect.signature(OPS[op].step).parameters
    and bad.claim not in NEEDS_TWO_TOKENS
]


@pytest.mark.parametrize(("op", "bad"), STEP_ROWS)
def test_step_refuses(op: str, bad: Bad) -> None:
    """A step takes T = 1 and calls its start ``state``; else its errors are those of the forms."""
    step, arguments = OPS[op].step, good(op, 1)
    arguments["state"] = arguments.pop("initial_state")
    step(**arguments)
    argument = bad.argument.replace("initial_state", "state")
    name = bad.named.replace("initial_state", "state") or argument
    arguments[argument] = bad.spoil(arguments[argument])
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}: got .*expected "):
        step(**arguments)


def test_every_argument_of_every_form_has_a_row() -> None:
    for form in FORMS:
        tested = {bad.argument for bad in table(form.op)}
        assert set(inspect.signature(form.function).parameters) <= tested


def test_message_without_the_expected_words_is_caught() -> None:
    with pytest.raises(AssertionError, match="does not say"):
        assert_explains("k: got shape [1, 2], expected the shape of q", ("[2, 2]",))


def test_internal_functions_enforce_their_annotations_under_pytest() -> None:
    q = torch.ones(B, T, H, K)
    parallel_body(q, q, q, None, None)
    with pytest.raises(TypeError, match=r"shape|dimension|annotation|hint"):
        parallel_body(q, q, q[:, :-1], None, None)
