"""Checks of arguments cost a compiled graph nothing, say what is wrong, and let nothing through."""

import warnings

import pytest
import torch

from linattn_ref import ops
from linattn_ref.ops import Form, normalised
from tests.ops.every_form import BY_NAME, arguments


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_form_gives_shapes_on_the_meta_device(name: str) -> None:
    form: Form = BY_NAME[name]
    x = arguments(name, 10, H=3, K=8, V=5)
    on_meta = {key: y.to("meta") if isinstance(y, torch.Tensor) else y for key, y in x.items()}
    assert form.function(**on_meta).output.shape == form.function(**x).output.shape


X = torch.ones(1, 6, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X.long(), X.long(), X.long()), "q: got torch.int64"),
        ((X, X.double(), X), "k: got torch.float64"),
        ((X, X, [1.0]), "v: got list"),
        ((X, X[:, :3], X), "k: got shape"),
    ],
)
def test_normalised_checks_before_it_promotes(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalised(ops.chunk_linear_attention, *arguments)


def test_normalised_refuses_an_op_that_is_not_linear_attention() -> None:
    with pytest.raises(ValueError, match="op: got SoftmaxResult"):
        normalised(ops.chunk_softmax_attention, X, X, X)  # type: ignore[arg-type]


def test_normalised_takes_what_its_op_takes() -> None:
    """bfloat16 throughout, log decay included."""
    half = X.bfloat16()
    out = normalised(ops.chunk_linear_attention, half, half, half, log_decay=-torch.ones(2).bfloat16())
    assert out.output.dtype == torch.bfloat16
    assert out.state.dtype == torch.float32


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_normalised_gives_a_mean_only_while_scores_are_large_beside_eps(eps: float) -> None:
    """As documented: with features of 1e-4 the published eps shrinks the mean of ones; eps = 0 does not."""
    ones = torch.ones(1, 6, 1, 2, dtype=torch.float64)
    out = normalised(ops.parallel_linear_attention, 1e-4 * ones, 1e-4 * ones, ones, eps=eps).output
    assert bool((out > 0.999).all()) == (eps == 0)


@pytest.mark.parametrize(
    ("x", "positions", "message"),
    [
        (X, torch.arange(1.0), "positions: got shape"),
        (X[:, :1], torch.arange(5.0), "positions: got shape"),
        (X[0], torch.arange(6.0), "x: got shape"),
        (X.long(), torch.arange(6.0), "x: got torch.int64"),
        (X, torch.arange(6.0).bfloat16(), "positions: got torch.bfloat16"),
        (X, torch.arange(6), "positions: got torch.int64"),
    ],
)
@pytest.mark.parametrize("op", [ops.rotate, lambda x, t: ops.cos_reweight(x, t, 16)])
def test_positions_are_one_a_token(op, x: torch.Tensor, positions: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        op(x, positions)


def test_cos_reweighting_refuses_a_negative_position() -> None:
    with pytest.raises(ValueError, match="positions: got -2 to 3"):
        ops.cos_reweight(X, torch.arange(-2.0, 4.0), 8)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float32", "float32"), ("bfloat16", "bfloat16 or torch.float32")]
)
def test_message_names_each_dtype_once(dtype: str, expected: str) -> None:
    q = X.to(getattr(torch, dtype))
    with pytest.raises(ValueError, match=rf"log_decay: got torch.float64, expected torch.{expected}$"):
        ops.chunk_linear_attention(q, q, q, -torch.ones(2).double())
    with pytest.raises(ValueError, match=rf"beta: got torch.float64, expected torch.{expected}$"):
        ops.chunk_delta_rule(q, q, q, torch.ones(1, 6, 2).double())


# --- heads first: the shapes of FLA until 2024, and of PyTorch's own attention -----------------------------


def zeros(T: int, H: int) -> torch.Tensor:
    return torch.zeros(1, T, H, 2)


HEADS_FIRST = [(4, 64), (8, 128), (2, 512), (16, 64)]  # [B, H, T, K] of 2 to 16 heads, read as [B, T, H, K]
SEQUENCE_FIRST = [
    (1, 512),  # a step, whatever the heads
    (2, 32),  # a short prompt of LLaMA 7B
    (4, 63),
    (17, 64),
    (128, 256),
    (64, 4),
]


@pytest.mark.parametrize(("T", "H"), HEADS_FIRST)
@pytest.mark.parametrize("form", [BY_NAME[f"chunk-{op}"] for op in ("linear_attention", "softmax_attention")])
def test_heads_first_is_warned_of_at_the_line_of_the_call(form: Form, T: int, H: int) -> None:
    q = zeros(T, H)
    with pytest.warns(UserWarning, match=rf"q: got shape \[1, {T}, {H}, 2\].*are the heads first\?") as seen:
        form.function(q, q, q)
    assert {record.filename for record in seen} == {__file__}


@pytest.mark.parametrize("op", [ops.chunk_delta_rule, ops.chunk_rwkv6])
def test_heads_first_is_warned_of_once_in_a_program(op) -> None:
    q = zeros(4, 64)
    third = torch.zeros(1, 4, 64) if op is ops.chunk_delta_rule else torch.zeros(64, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        op(q, q, q, third)
    assert [record.filename for record in seen] == [__file__]


@pytest.mark.parametrize(("T", "H"), SEQUENCE_FIRST)
def test_sequence_first_is_not_warned_of(T: int, H: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = zeros(T, H)
        ops.chunk_linear_attention(q, q, q)


def test_compiled_form_does_not_warn() -> None:
    torch._dynamo.reset()
    q = zeros(4, 64)
    torch.compile(ops.parallel_linear_attention, backend="eager", fullgraph=True)(q, q, q)
