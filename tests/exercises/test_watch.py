"""The keeper of watched tensors refuses what torch would take too far, and charges for what sizes tell."""

import jaxtyping
import pytest
import torch

from linattn_exercises import serialization
from linattn_exercises.watch import MAX_BITS, TOO_MUCH, Keeper, watch_call

REPEATS = torch.tensor([1, 2**16, 0, 2])


def ask(keeper, name, overload, *args, **kwargs):
    """Return the reply to a request for one operation."""
    request = {"run": f"aten::{name}", "overload": overload, "args": args, "kwargs": kwargs}
    return keeper.reply({**request, "default": "float32"})


def test_a_number_is_no_dtype():
    keeper = Keeper([[]])
    keeper.reply({"begin": 0})
    for name, args, named in (
        ("zeros", [{"list": [2]}], {"dtype": 4}),
        ("zeros", [{"list": [2]}], {"layout": 9}),
        ("promote_types", [1000, 0], {}),
    ):
        reply = ask(keeper, name, "default", *args, **named)
        assert reply["error"] == "TypeError"
        assert "got a number, expected a name" in reply["text"]
    assert "result" in ask(keeper, "zeros", "default", {"list": [2]}, dtype={"dtype": "float64"})


def test_a_size_that_repeats_decide_costs_its_own_bits():
    keeper = Keeper([[serialization.encode(REPEATS)]])
    (given,) = keeper.reply({"begin": 0})["arguments"]
    repeat = "repeat_interleave", "Tensor", {"handle": given["tensor"][0]}
    bits = int(REPEATS.sum()).bit_length()  # not those of the four numbers that are given
    for _ in range(MAX_BITS // bits):
        assert "result" in ask(keeper, *repeat)
    assert ask(keeper, *repeat) == {"error": "PermissionError", "text": TOO_MUCH}


def test_what_a_keeper_tells_is_counted_for_each_call():
    """Also of a call that another one begins in, and an error counts as a number."""
    keeper = Keeper([[serialization.encode(REPEATS)]] * 3)
    for number in (0, 2):
        (given,) = keeper.reply({"begin": number})["arguments"]
        handle = {"handle": given["tensor"][0]}
        ask(keeper, "equal", "default", handle, handle)
        ask(keeper, "no_such_operation", "default", handle)
    assert keeper.bits == [65, 0, 65]


def test_an_argument_that_was_changed_tells_as_much_as_another_error():
    keeper = Keeper([[serialization.encode(torch.ones(3))]])
    (given,) = keeper.reply({"begin": 0})["arguments"]
    ask(keeper, "add_", "Tensor", {"handle": given["tensor"][0]}, 1)
    assert "error" in keeper.reply({"end": None})
    assert keeper.bits == [64]


def test_complex_numbers_are_refused_before_anything_is_done():
    for made in ("torch.pow(x, torch.tensor(1 + 1j))", "x.to(torch.complex64)"):
        outcome = run_as_cell(f"def answer(x):\n    return {made}")
        assert "complex numbers are not counted here" in outcome["text"]


@pytest.mark.parametrize(
    ("made", "counted"),
    [
        ("x.expand(1000, 3).contiguous()", (1, 3000)),
        ("torch.ops.aten.contiguous(x.expand(1000, 3))", (1, 3000)),
        ("torch.ops.aten.reshape(x.expand(1000, 3), [3000])", (2, 6000)),
        ("x.reshape(3, 1).contiguous()", (0, 0)),
        ("x.expand(1000, 3).index_add(0, torch.tensor([0]), x[None])", (1, 3000)),
        ("x.new_zeros(3).index_add_(0, torch.tensor([0]), x[:1])", (2, 4)),
    ],
)
def test_what_is_copied_is_counted(made, counted):
    outcome = run_as_cell(f"def answer(x):\n    return {made}")
    assert (outcome["operations"], outcome["work"]) == counted, outcome


def test_a_mask_of_many_axes_is_refused():
    """Its true entries take so much memory that their number can be seen from outside."""
    with_mask = "def answer(x):\n    x = x.reshape(3, *[1] * {axes})\n    return x[x > 0]"
    assert "value" in run_as_cell(with_mask.format(axes=3))
    assert "a mask in an index has up to 4 axes" in run_as_cell(with_mask.format(axes=4))["text"]


def run_as_cell(source):
    """Return the outcome of a watched call of ``answer``, which a cell of a notebook has defined."""
    namespace = {"torch": torch, "checked": jaxtyping.jaxtyped(typechecker=None)}
    exec(compile(source, "<answer 0>", "exec"), namespace)
    return watch_call(namespace, "answer", [serialization.encode(torch.ones(3, dtype=torch.float64))])


def test_a_package_may_call_the_answer():
    outcome = run_as_cell("@checked\ndef answer(x):\n    return 2 * x")
    assert torch.equal(serialization.decode(outcome["value"]), torch.full((3,), 2.0, dtype=torch.float64))


@pytest.mark.parametrize(
    "make", ["new_ones(1)", "new_zeros(1)", "new_full((1,), 1.0)", "new_empty(1).fill_(1)"]
)
def test_a_new_tensor_costs_its_own_entries_alone(make):
    assert run_as_cell(f"def answer(x):\n    return x.{make}")["work"] <= 2  # x has 3


@pytest.mark.parametrize("name", ["apply_", "map_"])
def test_what_torch_would_do_to_values_in_place_is_refused(name):
    outcome = run_as_cell(f"def answer(x):\n    return x.{name}(lambda *a: a[0])")
    assert outcome["error"] == "TypeError"
    assert "tensors stay in torch" in outcome["text"]


@pytest.mark.parametrize(
    "body",
    [
        "x.T.reshape(-1)",
        "x.T.contiguous().view(-1)",
        "x.view(2, 3, 4).transpose(0, 1).flatten()",
        "torch.isneginf(-x / 0.0)",
        "torch.tensor([[float(i - j) for j in range(900)] for i in range(900)])[:2, :3]",
    ],
)
def test_ordinary_torch_gives_what_it_does_without_a_keeper(body):
    namespace: dict = {"torch": torch}
    exec(compile(f"def answer(x):\n    return {body}", "<answer 0>", "exec"), namespace)
    x = torch.arange(24.0).view(6, 4)
    outcome = watch_call(namespace, "answer", [serialization.encode(x)])
    assert torch.equal(serialization.decode(outcome["value"]), namespace["answer"](x))


def test_a_dtype_is_no_memory_format():
    keeper = Keeper([[serialization.encode(REPEATS)]])
    (given,) = keeper.reply({"begin": 0})["arguments"]
    handle = {"handle": given["tensor"][0]}
    for sent in ({"memory_format": "float32"}, {"dtype": "float32"}, 1):
        assert "error" in ask(keeper, "clone", "default", handle, memory_format=sent)
    assert "result" in ask(
        keeper, "clone", "default", handle, memory_format={"memory_format": "preserve_format"}
    )
