"""Plain data: what crosses from the process that runs answers, and what is refused on either side."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from linattn_exercises import serialization
from linattn_exercises.calls import decode_outcome


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -2.5, math.inf, "text", [1, [2.0]], (1, "a"), {"a": 1, "b": (2,)}, {}, (),
        np.arange(6.0).reshape(2, 3), np.array([True]), np.zeros((0, 3)), np.float64(1.5),
        torch.randn(2, 2), torch.arange(3), torch.tensor(1.0, dtype=torch.float64),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_comes_back_as_it_went(value):
    back = serialization.decode(json.loads(json.dumps(serialization.encode(value))))
    if isinstance(value, np.ndarray | torch.Tensor):
        assert type(back) is type(value)
        assert back.dtype == value.dtype
        assert back.tolist() == value.tolist()
    else:
        assert back == value


def test_nan_comes_back_as_nan():
    assert math.isnan(serialization.decode(serialization.encode(math.nan)))
    assert serialization.decode(serialization.encode(np.array([np.nan]))).tolist() != [0.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(dtype):
    assert (
        serialization.decode(serialization.encode(torch.ones(2, dtype=dtype, requires_grad=True))).dtype
        == torch.float32
    )


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 1, b"bytes", 1j, np.array([None])])
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(TypeError):
        serialization.encode(value)


def test_what_is_too_large_is_refused():
    with pytest.raises(TypeError, match="expected at most"):
        serialization.encode(np.zeros(serialization.MAX_ENTRIES + 1))
    with pytest.raises(TypeError, match="whole number"):
        serialization.encode(10**5000)
    with pytest.raises(TypeError, match="10,001 items in all, expected at most"):
        serialization.encode([0] * (serialization.MAX_ITEMS + 1))
    assert len(serialization.encode("x" * 10**6)) == serialization.MAX_TEXT


@pytest.mark.parametrize("text", ["\ud800", "a\x1b[31mb", "\x00", "fine\ntwo"])
def test_texts_can_be_written_anywhere(text):
    serialization.encode(text).encode("utf-8")
    assert "\x1b" not in serialization.encode(text)


@pytest.mark.parametrize("value", [Fraction(3, 2), np.longdouble(1.5), np.float16(1.5)])
def test_other_real_numbers_become_plain_ones(value):
    assert serialization.encode(value) == 1.5


FORGED = r"not made by encode|reshape|buffer|base64|padding|Incorrect|dimensions"


@pytest.mark.parametrize(
    "data",
    [
        {"array": ["float64", [3], "AAAA"]},
        {"array": ["object", [1], "AAAAAAAA"]},
        {"array": ["float64", [-1], ""]},
        {"array": ["float64", [1], 5]},
        {"array": 3},
        {"tensor": ["float64", "ab", ""]},
        {"pickle": "x"},
        {"list": [1], "tuple": [2]},
        {"dict": [[[1], 2]]},
        [1, 2],
        {},
    ],
    ids=str,
)
def test_forged_data_is_refused(data):
    with pytest.raises(ValueError, match=FORGED):
        serialization.decode(data)


@pytest.mark.parametrize("outcome", [None, 3, "x", {"value": 1, "entries": "many"}, {"value": {"a": 1}}])
def test_a_forged_outcome_is_refused(outcome):
    with pytest.raises(ValueError, match=r"outcome|data"):
        decode_outcome(outcome)
