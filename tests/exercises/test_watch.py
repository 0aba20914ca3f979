"""The keeper of watched tensors refuses what torch would take too far, and charges for what sizes tell."""

import torch

from linattn_exercises import serialization
from linattn_exercises.watch import MAX_BITS, TOO_MUCH, Keeper

REPEATS = torch.tensor([1, 2**16, 0, 2])


def ask(keeper, name, overload, *args, **kwargs):
    """Return the reply to a request for one operation."""
    request = {"run": f"aten::{name}", "overload": overload, "args": args, "kwargs": kwargs}
    return keeper.reply({**request, "default": "float32"})


def test_a_number_is_no_dtype():
    keeper = Keeper([[]])
    keeper.reply({"begin": 0})
    reply = ask(keeper, "zeros", "default", {"list": [2]}, dtype=4)
    assert reply == {"error": "TypeError", "text": "dtype: got a number, expected a dtype"}
    assert "result" in ask(keeper, "zeros", "default", {"list": [2]}, dtype={"dtype": "float64"})


def test_a_size_that_repeats_decide_costs_its_own_bits():
    keeper = Keeper([[serialization.encode(REPEATS)]])
    (given,) = keeper.reply({"begin": 0})["arguments"]
    repeat = "repeat_interleave", "Tensor", {"handle": given["tensor"][0]}
    bits = int(REPEATS.sum()).bit_length()  # not those of the four numbers that are given
    for _ in range(MAX_BITS // bits):
        assert "result" in ask(keeper, *repeat)
    assert ask(keeper, *repeat) == {"error": "PermissionError", "text": TOO_MUCH}
