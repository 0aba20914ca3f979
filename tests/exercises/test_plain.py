"""Plain data: what crosses from the process that runs answers, and what is refused on either side."""

import json
import math

import numpy as np
import pytest
import torch

from linattn_exercises import plain
from linattn_exercises.questions import decoded


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
    back = plain.decode(json.loads(json.dumps(plain.encode(value))))
    if isinstance(value, np.ndarray | torch.Tensor):
        assert type(back) is type(value)
        assert back.dtype == value.dtype
        assert back.tolist() == value.tolist()
    else:
        assert back == value


def test_nan_comes_back_as_nan():
    assert math.isnan(plain.decode(plain.encode(math.nan)))
    assert plain.decode(plain.encode(np.array([np.nan]))).tolist() != [0.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(dtype):
    assert plain.decode(plain.encode(torch.ones(2, dtype=dtype, requires_grad=True))).dtype == torch.float32


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 1, b"bytes", 1j, np.array([None])])
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(TypeError):
        plain.encode(value)


def test_what_is_too_large_is_refused():
    with pytest.raises(TypeError, match="expected at most"):
        plain.encode(np.zeros(plain.MAX_ENTRIES + 1))
    with pytest.raises(TypeError, match="whole number"):
        plain.encode(10**5000)
    assert len(plain.encode("x" * 10**6)) == plain.MAX_TEXT


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
        plain.decode(data)


@pytest.mark.parametrize("outcome", [None, 3, "x", {"value": 1, "entries": "many"}, {"value": {"a": 1}}])
def test_a_forged_outcome_is_refused(outcome):
    with pytest.raises(ValueError, match=r"outcome|data"):
        decoded(outcome)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("x = 1", "x = 1"),
        ("%pip install x\ny = 2", "pass\ny = 2"),
        ("if True:\n    !ls\nz = 3", "if True:\n    pass\nz = 3"),
        ("%%time\nx = 1", ""),
        ("x = 5 % 3", "x = 5 % 3"),
    ],
)
def test_magics_are_taken_out(source, want):
    assert plain.without_magics(source) == want


def test_a_cell_that_fails_does_not_stop_those_after_it():
    namespace, failure = plain.run_cells(
        [["1 / 0", False], ["x = 2", True], ["y = z", True], ["w = x", False]]
    )
    assert (namespace["x"], namespace["w"]) == (2, 2)
    assert failure is not None
    assert failure["error"] == "NameError"
    assert failure["line"] == "y = z"


def test_a_failure_names_the_line_of_the_answer_and_not_torch_s():
    namespace, _ = plain.run_cells([["import torch\ndef f(x):\n    return torch.zeros(2) @ x", True]])
    outcome = plain.call(namespace, "f", [plain.encode(torch.zeros(3))], False)
    assert outcome["error"] == "RuntimeError"
    assert outcome["line"] == "return torch.zeros(2) @ x"
