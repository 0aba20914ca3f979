"""Adapters lose nothing, and our ops agree with FLA's naive forms and with Mamba's definitions."""

import ast
import importlib.util
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Generator, Tensor

from linattn_benchmarks import translation
from linattn_benchmarks.translation import (
    FLA_FUNCTIONS,
    from_fla,
    from_fla_result,
    swap_time_and_heads,
    to_fla,
)
from linattn_ref import ops
from tests.ops.ladder_cases import Case, Tensors, normal
from tests.ops.ladder_heads import delta_inputs, linear_inputs, rwkv6_inputs
from tests.support.closeness import assert_close

DECAYS = {0: None, 1: "head", 3: "token", 4: "channel"}  # by number of dimensions, in the ladder's words
OPS: dict[str, tuple[Callable, Callable]] = {
    "beta": (ops.chunk_delta_rule, delta_inputs),
    "bonus": (ops.chunk_rwkv6, rwkv6_inputs),
}
LINEAR = (ops.chunk_linear_attention, linear_inputs)


def op_and_inputs(function: str, dims: int, T: int = 7, start: bool = True) -> tuple[Callable, Tensors]:
    """Return our op for FLA's ``function``, and the inputs that the ladder would give it."""
    row = FLA_FUNCTIONS[function]
    case = Case(op=function, T=T, decay=DECAYS[dims], start=start)
    op, inputs = next((OPS[name] for name in row.names if name in OPS), LINEAR)
    x = inputs(case, case.generator("inputs"))
    return op, x | ({"log_decay": row.built_in_decay(case.H).double()} if row.built_in_decay else {})


def assert_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert got.keys() == want.keys()
    for name, x in want.items():
        assert torch.equal(torch.as_tensor(got[name]), torch.as_tensor(x)), name


@pytest.mark.parametrize(
    ("function", "dims"), [(name, d) for name, row in FLA_FUNCTIONS.items() for d in row.decay or [0]]
)
def test_there_and_back_is_the_identity(function: str, dims: int) -> None:
    ours = op_and_inputs(function, dims)[1] | {"scale": torch.tensor(0.5)}
    for turned in {False, FLA_FUNCTIONS[function].state_v_first}:
        theirs = to_fla(function, state_v_first=turned, **ours)
        assert_same(from_fla(function, **theirs), ours)
        assert_same(to_fla(function, state_v_first=turned, **from_fla(function, **theirs)), theirs)
        assert theirs["initial_state"].shape == ((2, 2, 3, 5) if turned else (2, 2, 5, 3))


def test_layouts_there_and_back() -> None:
    state = torch.randn(2, 3, 5, 4)
    assert torch.equal(
        translation.from_fla_normalised_state(translation.to_fla_normalised_state(state)), state
    )
    for turn in (translation.transpose_state, swap_time_and_heads):
        assert torch.equal(turn(turn(state)), state)


x = torch.zeros(2, 7, 3, 5)
QKV: dict[str, Any] = {"q": x, "k": x, "v": x}
REFUSED = [
    (lambda: to_fla("chunk_gal", **QKV), "function: got 'chunk_gal', expected one of"),
    (lambda: to_fla("chunk_gla", **QKV, log_decay=x[..., 0]), "log_decay: got 3 dimensions, expected 4"),
    (lambda: to_fla("chunk_delta_rule", **QKV), "beta: got nothing"),
    (lambda: to_fla("chunk_rwkv6", state_v_first=True), "state_v_first: got True, expected False"),
    (lambda: to_fla("chunk_linear_attn", **QKV, log_decay=x), "log_decay: got an argument, expected one"),
    (lambda: to_fla("chunk_retention", **QKV), "log_decay: got other decays or none"),
    (lambda: to_fla("chunk_lightning_attn", **QKV, log_decay=x[0, 0, :, 0]), "log_decay: got other numbers"),
    (lambda: from_fla("chunk_linear_attn", **QKV), "normalize: got nothing, expected False"),
    (lambda: from_fla("chunk_simple_gla", **QKV, g=x, g_gamma=x), "log_decay: got g and g_gamma"),
    (lambda: from_fla("chunk_kda", **QKV, g=x, beta=x, safe_gate=True), "safe_gate: got an argument"),
    (lambda: from_fla_result((x, None)), "final_state: got None"),
    (lambda: translation.to_ssd(**QKV, log_decay=x), "log_decay: got a decay per channel"),
    (lambda: translation.from_ssd(x, x[..., 0], x[:, :, :2], x[:, :, :2]), "B, C: got shapes"),
    (lambda: translation.to_selective_scan({"u": x, "initial_state": x}), "groups: got"),
    (lambda: translation.from_selective_scan(x[0], x[0], x[0, 0], x[0, 0], x[0, 0]), "B: got shape"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_has_no_place_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def fla_file(path: str) -> Path:
    """A file of FLA's ``ops``, found without importing FLA, whose packages import Triton."""
    package = importlib.util.find_spec("fla")
    folders = (package and package.submodule_search_locations) or []
    files = [file for folder in folders if (file := Path(folder, "ops", path)).exists()]
    if not (files and importlib.util.find_spec("einops")):
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"FLA's ops/{path} or einops is not installed: see fla-core in constraints.txt")
    return files[0]


def naive(path: str, name: str) -> Callable[..., Any]:
    """One function out of one file, which needs torch and einops alone."""
    spec = importlib.util.spec_from_file_location("fla_naive", fla_file(f"{path}.py"))
    assert spec and spec.loader  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Naive(NamedTuple):
    """A naive form, the public function of FLA whose names it has, and what sets it apart from that."""

    path: str
    name: str
    function: str
    dims: int = 0  # of the log decay
    lacks: str = ""  # arguments of the public function that it does not take
    heads_first: bool = False
    multiple: int = 1  # what T must be a multiple of
    scale: float | None = None  # the one that it has if it takes none; None is K ** -0.5


STATE = "initial_state output_final_state"
NAIVE = [
    Naive("linear_attn/naive", "naive_recurrent_linear_attn", "chunk_linear_attn"),
    Naive("linear_attn/naive", "naive_chunk_linear_attn", "chunk_linear_attn", 0, STATE, multiple=64),
    Naive("simple_gla/naive", "naive_recurrent_simple_gla", "chunk_simple_gla", 3),
    Naive("simple_gla/naive", "naive_chunk_simple_gla", "chunk_simple_gla", 3),
    Naive("simple_gla/naive", "naive_parallel_simple_gla", "chunk_simple_gla", 3, STATE),  # gives its scores
    Naive("gla/naive", "naive_recurrent_gla", "fused_recurrent_gla", 4, "scale"),
    Naive("delta_rule/naive", "delta_rule_recurrence", "chunk_delta_rule", 0, "scale", True),
    Naive("delta_rule/naive", "delta_rule_chunkwise", "chunk_delta_rule", 0, f"scale {STATE}", True, 32),
    Naive("delta_rule/naive", "delta_rule_parallel", "chunk_delta_rule", 0, f"scale {STATE}", True, 128),
    Naive("gated_delta_rule/naive", "naive_recurrent_gated_delta_rule", "chunk_gated_delta_rule", 3),
    Naive("gated_delta_rule/naive", "naive_chunk_gated_delta_rule", "chunk_gated_delta_rule", 3),
    Naive("kda/naive", "naive_recurrent_kda", "chunk_kda", 4),
    Naive("kda/naive", "naive_chunk_kda", "chunk_kda", 4, multiple=64),
    Naive("rwkv6/recurrent_naive", "naive_recurrent_rwkv6", "chunk_rwkv6", 4, heads_first=True),
    Naive("rwkv6/chunk_naive", "naive_chunk_rwkv6", "chunk_rwkv6", 4, f"scale {STATE}", True, 32, 1.0),
]


def run(row: Naive, T: int) -> tuple[ops.LinearResult, ops.LinearResult]:
    """What the naive form gives in float32, and our op in float64."""
    form = naive(row.path, row.name)
    taken = set(inspect.signature(form).parameters)
    assert set(row.lacks.split()) == {"scale", *STATE.split()} - taken
    op, x = op_and_inputs(row.function, row.dims, T, start="initial_state" in taken)
    scale = 0.7 if "scale" in taken else row.scale
    theirs = to_fla(row.function, **{name: y.float() for name, y in x.items()}, scale=scale)
    theirs = {"q" if name == "r" else name: y for name, y in theirs.items()}  # RWKV-6's say q
    if row.heads_first:
        sequences = {"q", "k", "v", "w", "beta"} & set(theirs)
        theirs |= {name: swap_time_and_heads(theirs[name]) for name in sequences}
    result = form(**{name: y for name, y in theirs.items() if name in taken})
    o, state = result if isinstance(result, tuple) else (result, torch.empty(0))
    return from_fla_result((swap_time_and_heads(o) if row.heads_first else o, state)), op(**x, scale=scale)


@pytest.mark.parametrize("row", NAIVE, ids=lambda row: row.name)
def test_ours_are_flas_naive_forms(row: Naive) -> None:
    got, want = run(row, 150 if row.multiple == 1 else 2 * row.multiple)
    assert_close("output", got.output, want.output, 5e-6)
    if "output_final_state" not in row.lacks:
        assert_close("state", got.state, want.state, 5e-6)
    if row.multiple > 1:
        with pytest.raises((AssertionError, RuntimeError)):
            run(row, 2 * row.multiple - 1)


def test_retention_and_softmax_attention_are_flas(generator: Generator) -> None:
    q, k, v = (normal(generator, 2, 100, 3, 5) for _ in "qkv")
    want = ops.chunk_linear_attention(**from_fla("chunk_retention", q=q, k=k, v=v)).output
    o = naive("retention/naive", "naive_retention")(*map(swap_time_and_heads, (q, k, v)))
    assert_close("retention", swap_time_and_heads(o), want, 5e-6)
    o, _ = naive("attn/naive", "naive_parallel_attn")(q, k, v)
    assert_close("softmax", o, ops.chunk_softmax_attention(q, k, v).output, 1e-12)


def test_normalised_attention_and_its_state_are_flas(generator: Generator) -> None:
    q, k, v = (normal(generator, 2, 100, 3, 5) for _ in "qkv")
    q, k, start = q.exp(), k.exp(), torch.rand(2, 3, 5, 6, generator=generator, dtype=torch.float64)
    want = ops.normalised(ops.chunk_linear_attention, q, k, v, eps=0, initial_state=start)
    form, x = naive("linear_attn/naive", "naive_recurrent_linear_attn"), (q.float(), k.float(), v.float())
    o, state = form(*x, None, translation.to_fla_normalised_state(start.float()), True, normalize=True)
    assert_close("output", o, want.output, 5e-6)
    assert_close("state", translation.from_fla_normalised_state(state), want.state, 5e-6)


def definition_in_fla(function: str) -> ast.FunctionDef:
    """Return the syntax tree of a public function, which is read and not imported: FLA needs Triton."""
    module = FLA_FUNCTIONS[function].module
    form = function.removesuffix(f"_{module}")
    text = fla_file(f"{module}/{form}.py").read_text(encoding="utf-8")
    [found] = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == function]
    return found


@pytest.mark.parametrize("function", FLA_FUNCTIONS)
def test_names_are_arguments_of_flas_public_functions(function: str) -> None:
    """Every name exists, and nothing that is needed is missing."""
    found = definition_in_fla(function)
    arguments = [argument.arg for argument in found.args.args]
    for dims in FLA_FUNCTIONS[function].decay or [0]:
        names = set(to_fla(function, **op_and_inputs(function, dims)[1], scale=1.0))
        assert set(arguments[: -len(found.args.defaults)]) <= names <= set(arguments)
    assert ("state_v_first" in arguments) == FLA_FUNCTIONS[function].state_v_first


@pytest.mark.parametrize("function", [name for name, row in FLA_FUNCTIONS.items() if row.built_in_decay])
def test_built_in_decays_are_those_that_flas_function_makes(function: str) -> None:
    """The lines that make them, ``H, L = ...`` and ``g_gamma = ...``, are run without the rest."""
    made: dict[str, Any] = {"torch": torch, "q": torch.zeros(1, 1, 6, 1), **FLA_FUNCTIONS[function].constants}
    for line in definition_in_fla(function).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in ("(H, L)", "g_gamma"):
            exec(ast.unparse(line), made)
    own = FLA_FUNCTIONS[function].built_in_decay
    assert own
    torch.testing.assert_close(own(6), made["g_gamma"])


# --- Mamba: the definitions --------------------------------------------------------------------------------


def scan_by_definition(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, bias: Tensor):
    """Channel by channel: u, delta (B, D, L), A (D, N), B, C (B, G, N, L); y (B, D, L), h (B, D, N)."""
    y, h = torch.zeros_like(u), u.new_zeros(*u.shape[:2], A.shape[1])
    for b, d, t in torch.cartesian_prod(*map(torch.arange, u.shape)).tolist():
        group = d * B.shape[1] // u.shape[1]
        step = torch.log(1 + torch.exp(delta[b, d, t] + bias[d]))
        h[b, d] = torch.exp(step * A[d]) * h[b, d] + step * B[b, group, :, t] * u[b, d, t]
        y[b, d, t] = C[b, group, :, t] @ h[b, d] + D[d] * u[b, d, t]
    return y, h


def ssd_by_definition(X: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_states: Tensor):
    """Token by token: X (b, l, h, p), A (b, l, h), B, C (b, l, h, n), states (b, 1, h, p, n)."""
    Y, S = torch.zeros_like(X), initial_states[:, 0]
    for t in range(X.shape[1]):
        S = torch.exp(A[:, t, :, None, None]) * S + X[:, t, :, :, None] * B[:, t, :, None, :]
        Y[:, t] = (S * C[:, t, :, None, :]).sum(-1)
    return Y, S


@pytest.mark.parametrize("G", [1, 2, 6])
def test_selective_scan_is_mambas_and_back(G: int, generator: Generator) -> None:
    u, delta, z = (normal(generator, 2, 6, 9) for _ in range(3))
    A, (D, bias) = -normal(generator, 6, 4).exp(), normal(generator, 2, 6)
    B, C = (normal(generator, 2, G, 4, 9) for _ in "BC")
    y, state = scan_by_definition(u, delta, A, B, C, D, bias)
    if G == 1:
        B, C = B[:, 0], C[:, 0]  # Mamba takes (B, N, L) too
    got = translation.mamba_selective_scan(u, delta, A, B, C, D, z=z, delta_bias=bias, delta_softplus=True)
    assert_close("y", got[0], y * z / (1 + torch.exp(-z)), 1e-12)
    assert_close("last state", got[1], state, 1e-12)
    for skip in ({}, {"D": D}):
        theirs = {"u": u, "delta": delta.exp(), "A": A, "B": B, "C": C, **skip}
        ours = translation.from_selective_scan(**theirs)
        assert [x["u"].shape for x in ours] == [(2, 9, 6 // G)] * G
        assert_same(translation.to_selective_scan(*ours), theirs)


@pytest.mark.parametrize("dims", [0, 1, 3])
def test_ssd_is_linear_attention_and_back(dims: int) -> None:
    case = Case("ssd", T=9, H=4, decay=DECAYS[dims], start=True)
    ours: dict[str, Any] = linear_inputs(case, case.generator("inputs"))
    for scale in (None, 1.0):
        theirs = translation.to_ssd(**ours, scale=scale)
        want = ops.chunk_linear_attention(**ours, scale=scale)
        got = from_fla_result(ssd_by_definition(**theirs), state_v_first=True)
        assert_close("output", got.output, want.output, 1e-12)
        assert_close("state", got.state, want.state, 1e-12)
        assert_same(translation.to_ssd(**translation.from_ssd(**theirs)), theirs)
    assert_same(translation.from_ssd(**theirs), {**ours, "log_decay": theirs["A"], "scale": 1.0})
    grouped = {name: theirs[name][:, :, :2] for name in "BC"}  # two groups of two neighbouring heads
    repeated = {name: x[:, :, [0, 0, 1, 1]] for name, x in grouped.items()}
    assert_same(translation.from_ssd(**theirs | grouped), translation.from_ssd(**theirs | repeated))
