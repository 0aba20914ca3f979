"""The ladder: every form of every op against the ground truth and against every other form.

What is tested is read from a registry of forms (``linattn_ref.ops.FORMS``; kernels bring their own). A form
that joins it is tested with no new code. An op that joins it needs one entry in ``OPS``.

Bounds, with ``err(a, b) = max|a - b| / max(1, max|b|)``:

=========  ==============================================================================================
dtype      bound on outputs, states and gradients
=========  ==============================================================================================
float64    1e-10
float32    BACKWARD * (sensitivity + eps): the error that inputs wrong by BACKWARD units in the last
           place would cause. Measured over all cases and forms: at most 1.7
bfloat16   the float32 bound, plus, where the result itself is half precision, ROUNDINGS half units in
float16    the last place: everything is carried in float32 and a result rounded once, but a gradient that
           is the sum of two paths (of softmax's k and v) twice. Measured: at most 1.05
=========  ==============================================================================================

``sensitivity`` is measured in float64 for each result of each case: how far it moves when every input
number x becomes x (1 +- eps), and every log decay g besides g - eps, since the decay exp(g) of a recurrence
is a rounded number as well, and the same one at every step if g is. So the bound asks for backward
stability, and gives no more room where the mathematics is well conditioned.

Gradients need no second implementation: the oracle only adds, multiplies, divides and takes exponentials, so
it runs on complex numbers, and the imaginary part of f(x + i h d) / h at h = 1e-30 is the derivative along d
without any cancellation. Each gradient is held to it in a random direction, and to the other forms' in full.
"""

import functools
import itertools
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from helpers import assert_close, err
from torch import Generator, Tensor

from linattn_ref import oracle
from linattn_ref.ops import FORMS, Form, KVCache, step_linear_attention, step_softmax_attention

Tensors = dict[str, Tensor]
Arrays = dict[str, np.ndarray]

FLOAT64 = 1e-10
BACKWARD = 4  # twice what was measured
ROUNDINGS = 2
CACHED = 9  # tokens in a start cache
STEP = 1e-30  # of the complex derivative


# --- cases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One point of the ladder.

    ``decay`` is None, "head" [H], "token" [B, T, H] or "channel" [B, T, H, K]; ``strength`` is of the decays
    ("mild", "hard", "all -50", "zero", or "cliff": -50 for half of the time, then -1e-4) or of softmax's
    scores ("mild", "large").
    """

    op: str
    T: int
    B: int = 2
    H: int = 2
    K: int = 5
    V: int = 3
    decay: str | None = None
    strength: str = "mild"
    start: bool = False
    chunk_size: int = 16
    scale: float | None = None
    zeros: bool = False
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        extras = [
            self.decay or "no_decay",
            self.strength,
            "start" * self.start,
            "scaled" * (self.scale is not None),
            "zeros" * self.zeros,
        ]
        sizes = f"B{self.B}T{self.T}H{self.H}K{self.K}V{self.V}C{self.chunk_size}"
        dtype = str(self.dtype).removeprefix("torch.")
        return "-".join([self.op, sizes, *filter(None, extras), dtype])

    def generator(self, purpose: str) -> Generator:
        """Random numbers that depend on the case and the purpose, and on nothing else."""
        return Generator().manual_seed(zlib.crc32(f"{self} {purpose}".encode()))


def pairwise(**factors: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows in which any two levels of any two factors meet at least once (greedy; deterministic)."""
    levels = {name: list(values) for name, values in factors.items()}
    pairs = dict.fromkeys(
        frozenset([(a, i), (b, j)])
        for a, b in itertools.combinations(levels, 2)
        for i in range(len(levels[a]))
        for j in range(len(levels[b]))
    )
    rows = []
    while pairs:
        row = dict(sorted(next(iter(pairs))))
        for name in levels:
            if name not in row:
                met = [_met(pairs, row, name, i) for i in range(len(levels[name]))]
                row[name] = met.index(max(met))
        for pair in itertools.combinations(row.items(), 2):
            pairs.pop(frozenset(pair), None)
        rows.append({name: levels[name][row[name]] for name in levels})
    return rows


def _met(pairs: Mapping[frozenset, Any], row: dict[str, int], name: str, level: int) -> int:
    return sum(frozenset([(name, level), other]) in pairs for other in row.items())


# --- random inputs ---------------------------------------------------------------------------------------


def normal(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def qkv(case: Case, generator: Generator) -> Tensors:
    """q, k, v; with ``zeros``, whole tokens and single numbers of each are exactly zero."""
    head = (case.B, case.T, case.H)
    x = {
        name: normal(generator, *head, width)
        for name, width in zip("qkv", (case.K, case.K, case.V), strict=True)
    }
    if case.zeros:
        for name in x:
            x[name] = x[name] * (torch.rand(x[name].shape, generator=generator) > 0.3)
            x[name] = x[name] * (torch.rand(*head, 1, generator=generator) > 0.3)
    return x


def log_decays(case: Case, generator: Generator) -> Tensor:
    """Natural logarithms of decays: mild ones as a trained gate gives them, or those that break things."""
    shapes = {
        "head": (case.H,),
        "token": (case.B, case.T, case.H),
        "channel": (case.B, case.T, case.H, case.K),
    }
    shape = shapes[case.decay or "head"]
    if case.strength == "mild":
        return torch.nn.functional.logsigmoid(normal(generator, *shape)) / 4
    if case.strength == "cliff":
        late = torch.arange(case.T) >= case.T // 2
        g = torch.where(late, -1e-4, -50.0).double()
        return g.view(1, -1, 1, *[1] * (len(shape) - 3)).expand(shape).clone()
    levels = {"hard": [0.0, -1e-3, -1.0, -50.0], "all -50": [-50.0], "zero": [0.0]}[case.strength]
    choice = torch.randint(len(levels), shape, generator=generator)
    return torch.tensor(levels, dtype=torch.float64)[choice]


def linear_inputs(case: Case, generator: Generator) -> Tensors:
    x = qkv(case, generator)
    if case.decay:
        x["log_decay"] = log_decays(case, generator)
    if case.start:
        x["initial_state"] = normal(generator, case.B, case.H, case.K, case.V)
    return x


def softmax_inputs(case: Case, generator: Generator) -> Tensors:
    x = qkv(case, generator)
    if case.strength == "large":
        x["q"] = 40 * x["q"]  # scores in the hundreds: exp of them overflows float32
    if case.start:
        x["initial_state.k"] = normal(generator, case.B, CACHED, case.H, case.K)
        x["initial_state.v"] = normal(generator, case.B, CACHED, case.H, case.V)
    return x


# --- what the ladder knows of each op --------------------------------------------------------------------


def linear_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    return {**x, "scale": case.scale}


def softmax_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: x[name] for name in "qkv"}
    if "initial_state.k" in x:
        arguments["initial_state"] = KVCache(x["initial_state.k"], x["initial_state.v"])
    return {**arguments, "scale": case.scale}


def linear_state(state: Tensor) -> Tensors:
    return {"state": state}


def softmax_state(state: KVCache) -> Tensors:
    return {"state.k": state.k, "state.v": state.v}


def linear_oracle(case: Case, x: Arrays) -> Arrays:
    """Batch elements and heads one by one through the definition."""
    B, T, H, K = x["q"].shape
    decay = x.get("log_decay")
    alpha = None if decay is None else np.exp(decay)
    if alpha is not None and alpha.ndim == 1:
        alpha = np.broadcast_to(alpha, (B, T, H))
    start = x.get("initial_state")
    o, S = np.empty((2, B, H), dtype=object)
    for b, h in np.ndindex(B, H):
        o[b, h], S[b, h] = oracle.linear_attention(
            x["q"][b, :, h],
            x["k"][b, :, h],
            x["v"][b, :, h],
            None if alpha is None else alpha[b, :, h],
            case.scale or K**-0.5,
            None if start is None else start[b, h],
        )
    return {
        "output": np.stack([np.stack(row, 1) for row in o]),
        "state": np.stack([np.stack(row) for row in S]),
    }


def softmax_oracle(case: Case, x: Arrays) -> Arrays:
    """Batch elements and heads one by one through the definition."""
    B, _, H, K = x["q"].shape
    cache = [(x[f"initial_state.{name}"], x[name]) if case.start else (x[name],) for name in "kv"]
    k, v = (np.concatenate(parts, 1) for parts in cache)
    o = np.empty((B, H), dtype=object)
    for b, h in np.ndindex(B, H):
        o[b, h] = oracle.softmax_attention(x["q"][b, :, h], k[b, :, h], v[b, :, h], case.scale or K**-0.5)
    return {"output": _sequence(o), "state.k": k, "state.v": v}


def _sequence(o: np.ndarray) -> np.ndarray:
    """[B, H] arrays of [T, V] as one [B, T, H, V]."""
    return np.stack([np.stack(row, 1) for row in o])


@dataclass(frozen=True)
class Op:
    """What the ladder must know of an op.

    Inputs are named leaves; a start state's are called ``initial_state`` or ``initial_state.part``. Results
    are named alike: ``output``, and ``state`` or ``state.part``.
    """

    theorem: str  # the label under which the book states that the forms are equal
    inputs: Callable[[Case, Generator], Tensors]
    arguments: Callable[[Case, Tensors], dict[str, Any]]
    state: Callable[[Any], Tensors]
    oracle: Callable[[Case, Arrays], Arrays]
    step: Callable[..., Any]  # one token; its start state is called ``state``
    timed: frozenset[str]  # the leaves that have a time dimension, dimension 1 (a decay [H] has none)
    full: frozenset[str]  # leaves and results that are float32 at least, whatever the dtype


OPS: dict[str, Op] = {
    "softmax_attention": Op(
        "thm-softmax-forms",
        softmax_inputs,
        softmax_arguments,
        softmax_state,
        softmax_oracle,
        step_softmax_attention,
        timed=frozenset("qkv"),
        full=frozenset(),
    ),
    "linear_attention": Op(
        "thm-linear-forms",
        linear_inputs,
        linear_arguments,
        linear_state,
        linear_oracle,
        step_linear_attention,
        timed=frozenset([*"qkv", "log_decay"]),
        full=frozenset(["log_decay", "initial_state", "state"]),
    ),
}


def forms_of(op: str, forms: Iterable[Form] = FORMS) -> list[Form]:
    return [form for form in forms if form.op == op]


# --- problems, truths and runs ---------------------------------------------------------------------------


def dtype_of(case: Case, name: str) -> torch.dtype:
    """The dtype of a leaf or of a result."""
    return torch.promote_types(case.dtype, torch.float32) if name in OPS[case.op].full else case.dtype


def make_inputs(case: Case, generator: Generator) -> Tensors:
    leaves = OPS[case.op].inputs(case, generator)
    return {name: x.to(dtype_of(case, name)) for name, x in leaves.items()}


@functools.cache
def inputs_of(case: Case) -> Tensors:
    return make_inputs(case, case.generator("inputs"))


@functools.cache
def truth_of(case: Case) -> Tensors:
    """The oracle's outputs and state, in float64, for the inputs as rounded to the case's dtype."""
    x = {name: leaf.double().numpy() for name, leaf in inputs_of(case).items()}
    return {name: torch.from_numpy(y) for name, y in OPS[case.op].oracle(case, x).items()}


@functools.cache
def upstream_of(case: Case) -> Tensors:
    """A random upstream gradient for every result, representable in the case's dtype."""
    generator = case.generator("upstream")
    return {name: normal(generator, *y.shape).to(case.dtype).double() for name, y in truth_of(case).items()}


@functools.cache
def slopes_of(case: Case) -> dict[str, tuple[Tensor, float]]:
    """For every leaf a random direction and the oracle's exact derivative along it."""
    generator, upstream, slopes = case.generator("directions"), upstream_of(case), {}
    x = {name: leaf.double().numpy().astype(complex) for name, leaf in inputs_of(case).items()}
    for name in x:
        direction = normal(generator, *x[name].shape) / x[name].size ** 0.5
        moved = {**x, name: x[name] + 1j * STEP * direction.numpy()}
        results = OPS[case.op].oracle(case, moved)
        slope = sum((upstream[part].numpy() * y.imag / STEP).sum() for part, y in results.items())
        slopes[name] = direction, float(slope)
    return slopes


Call = Callable[[Tensors], Tensors]
Run = tuple[Tensors, Tensors]  # results, gradients


def call_of(form: Form, case: Case) -> Call:
    """A function from leaves to named results."""
    op = OPS[case.op]

    def call(x: Tensors) -> Tensors:
        arguments = op.arguments(case, x)
        if form.chunked:
            arguments["chunk_size"] = case.chunk_size
        output, state = form.function(**arguments)
        return {"output": output, **op.state(state)}

    return call


def step_call_of(case: Case) -> Call:
    """The one-token step as a function from leaves to named results."""
    op = OPS[case.op]

    def call(x: Tensors) -> Tensors:
        arguments = op.arguments(case, x)
        arguments["state"] = arguments.pop("initial_state", None)
        output, state = op.step(**arguments)
        return {"output": output, **op.state(state)}

    return call


def slice_time(case: Case, x: Tensors, start: int, stop: int) -> Tensors:
    timed = OPS[case.op].timed
    return {name: y[:, start:stop] if name in timed and y.ndim > 1 else y for name, y in x.items()}


def split_call(case: Case, at: int, first: Call, second: Call) -> Call:
    """``first`` up to a token, then ``second`` from the state that it left."""

    def call(x: Tensors) -> Tensors:
        head = first(slice_time(case, x, 0, at))
        handed = {f"initial_{name}": y for name, y in head.items() if name.startswith("state")}
        tail = second({**slice_time(case, x, at, case.T), **handed})
        return {**tail, "output": torch.cat([head["output"], tail["output"]], 1)}

    return call


def run(call: Call, leaves: Tensors, upstream: Tensors) -> Run:
    """Results, and the gradient of every leaf under random upstream gradients of every result."""
    x = {name: leaf.detach().clone().requires_grad_() for name, leaf in leaves.items()}
    results = call(x)
    weights = [upstream[name].to(y.dtype) for name, y in results.items()]
    gradients = torch.autograd.grad(list(results.values()), list(x.values()), weights)
    return results, dict(zip(x, gradients, strict=True))


# --- checks ----------------------------------------------------------------------------------------------


def check_against_oracle(case: Case, call: Call, label: str) -> None:
    """float64: outputs and states in full, every gradient along a random direction."""
    results, gradients = run(call, inputs_of(case), upstream_of(case))
    truth = truth_of(case)
    assert results.keys() == truth.keys()
    for name, want in truth.items():
        assert results[name].dtype == dtype_of(case, name)
        assert_close(f"{label}: {name}", results[name], want, FLOAT64)
    for name, (direction, slope) in slopes_of(case).items():
        got = (gradients[name] * direction).sum()
        assert_close(f"{label}: gradient of {name} along a direction", got, slope, FLOAT64)


def check_equal(case: Case, one: Call, other: Call, label: str) -> None:
    """float64: outputs, states and every number of every gradient."""
    got, want = (run(call, inputs_of(case), upstream_of(case)) for call in (one, other))
    for name, a, b in _pairs(got, want):
        assert_close(f"{label}: {name}", a, b, FLOAT64)


def check_refusal(case: Case, form: Form) -> None:
    """A case that a form does not support must raise, not return."""
    try:
        call_of(form, case)(inputs_of(case))
    except (ValueError, NotImplementedError):
        return
    raise AssertionError(f"{form.op} {form.form} does not support {case}, but returned")


@functools.cache
def sensitivities(case: Case, draws: int = 4) -> tuple[Tensors, Tensors, dict[str, float]]:
    """Results and gradients in float64, and how far each moves if every input moves by eps."""
    exact = replace(case, dtype=torch.float64)
    call = call_of(forms_of(case.op)[0], exact)
    leaves = {name: x.double() for name, x in inputs_of(case).items()}
    results, gradients = run(call, leaves, upstream_of(case))
    eps = torch.finfo(torch.float32).eps
    generator, moves = case.generator("rounding"), dict[str, float]()
    for _ in range(draws):
        moved = {name: _rounded(x, eps, generator) for name, x in leaves.items()}
        if "log_decay" in moved:
            moved["log_decay"] = moved["log_decay"] - eps
        upstream = {name: _rounded(x, eps, generator) for name, x in upstream_of(case).items()}
        for name, got, want in _pairs(run(call, moved, upstream), (results, gradients)):
            moves[name] = max(moves.get(name, 0.0), err(got, want))
    return results, gradients, moves


def _pairs(got: Run, want: Run) -> Iterable[tuple[str, Tensor, Tensor]]:
    """Every result and every gradient of two runs: its name, and both."""
    for what, a, b in zip(("", "gradient of "), got, want, strict=True):
        assert a.keys() == b.keys()
        yield from ((what + name, a[name], b[name]) for name in b)


def _rounded(x: Tensor, eps: float, generator: Generator) -> Tensor:
    """x (1 +- eps), signs at random."""
    signs = torch.randint(2, x.shape, generator=generator) * 2 - 1
    return x * (1 + eps * signs)


def precision_bounds(case: Case) -> dict[str, float]:
    """The bound of the table above for every result and gradient."""
    moves = sensitivities(case)[2]
    eps = torch.finfo(torch.float32).eps
    rounding = ROUNDINGS * torch.finfo(case.dtype).eps / 2
    bounds = {}
    for name, move in moves.items():
        half = dtype_of(case, name.removeprefix("gradient of ")) in (torch.bfloat16, torch.float16)
        bounds[name] = BACKWARD * (move + eps) + (rounding if half else 0.0)
    return bounds


def low_precision(case: Case, call: Call) -> Iterable[tuple[str, Tensor, Tensor]]:
    """Name, what the form gives, and what float64 gives, for every result and gradient."""
    yield from _pairs(run(call, inputs_of(case), upstream_of(case)), sensitivities(case)[:2])


def check_precision(case: Case, call: Call, label: str) -> None:
    """Below float64: right dtype, and within the stated bound of the float64 result."""
    bounds, truth = precision_bounds(case), truth_of(case)
    for name, got, want in low_precision(case, call):
        assert got.dtype == dtype_of(case, name.removeprefix("gradient of "))
        assert_close(f"{label}: {name}", got, want, bounds[name])
        if name in truth:
            assert_close(f"{label}: {name} against the oracle", got, truth[name], bounds[name])


# --- the cases -------------------------------------------------------------------------------------------


LENGTHS = (1, 2, 63, 64, 65, 200)
CHUNKS = (1, 7, 16, 64, 256)
SIZES = ({"B": 1, "H": 3, "K": 5, "V": 3}, {"B": 3, "H": 1, "K": 4, "V": 7}, {"B": 2, "H": 2, "K": 1, "V": 6})
STRENGTHS = ("mild", "hard", "all -50", "zero")
SCORES = ((None, "mild"), (None, "large"))
DECAYS = ((None, "mild"), *itertools.product(("head", "token", "channel"), STRENGTHS))
HALF = (torch.bfloat16, torch.float16)


def _case(row: dict[str, Any]) -> Case:
    decay, strength = row.pop("decays")
    return Case(**row.pop("sizes"), **row, decay=decay, strength=strength)


def _cases(op: str, **factors: Iterable[Any]) -> list[Case]:
    factors["decays"] = DECAYS if "log_decay" in OPS[op].timed else SCORES
    shared = {"sizes": SIZES, "start": (False, True), "scale": (None, 0.3), "zeros": (False, True)}
    return [_case(row | {"op": op}) for row in pairwise(**factors, **shared)]


EXACT_CASES = {op: _cases(op, T=LENGTHS, chunk_size=CHUNKS) for op in OPS}
LOW_CASES = {op: _cases(op, T=(1, 65, 200), chunk_size=(7, 64), dtype=(torch.float32, *HALF)) for op in OPS}
