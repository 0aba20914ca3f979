"""The ladder: every form of every op against the oracle, the ground truth, and against every other form.

What is tested is read from a registry of forms (``linattn_ref.ops.FORMS``; kernels bring their own). A form
that joins it is tested with no new code. An op that joins it needs one entry in ``OPS``, which comes from
``ladder_heads.py`` and ``ladder_channels.py``. What a case and an entry are is said in ``ladder_cases.py``.

A check takes a case and a call, a function from leaves to named results. ``call_of`` makes one of a form,
``step_call_of`` of the one-token step, ``split_call`` of two calls, one after the other. Then
``check_against_oracle`` and ``check_equal`` are for float64, ``check_precision`` for less.

Bounds, with ``err(a, b) = max|a - b| / max(1, max|b|)``:

=========  ==============================================================================================
dtype      bound on outputs, states and gradients
=========  ==============================================================================================
float64    1e-10
float32    BACKWARD * (sensitivity + eps): the error that inputs wrong by BACKWARD units in the last
           place would cause. Measured over all cases and forms: at most 2.5, of the 4 that are allowed
bfloat16   the float32 bound, plus, where the result itself is half precision, ROUNDINGS half units in
float16    the last place: everything is carried in float32 and a result rounded once, but a gradient that
           is the sum of two paths (of softmax's k and v) twice. Measured: at most 1.15, of 2 allowed
=========  ==============================================================================================

``sensitivity`` is measured in float64 for each result of each case: how far it moves when every input
number x becomes x (1 +- eps), and every log decay g besides g - eps, since the decay exp(g) of a recurrence
is a rounded number as well, and the same one at every step if g is. So the bound asks for backward
stability, and gives no more room where the mathematics is well conditioned.

Gradients need no second implementation: the oracle only adds, multiplies, divides and takes exponentials, so
it runs on complex numbers, and the imaginary part of f(x + i h d) / h at h = 1e-30 is the derivative along d
without any cancellation (dual numbers do it where the oracle's own numbers are complex). Each gradient is
held to it in a random direction, and to the other forms' in full.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from linattn_ref.ops import FORMS, Form
from tests.ops.dual import along, slope_of
from tests.ops.ladder_cases import Case, Op, Tensors, normal, pairwise
from tests.ops.ladder_channels import CHANNELS
from tests.ops.ladder_heads import HEADS
from tests.support.closeness import assert_close, err

FLOAT64 = 1e-10  # these three are in the table above
BACKWARD = 4
ROUNDINGS = 2
STEP = 1e-30  # of the complex derivative
EPS = torch.finfo(torch.float32).eps
HALF = (torch.bfloat16, torch.float16)

OPS: dict[str, Op] = HEADS | CHANNELS


def forms_of(op: str, forms: Iterable[Form] = FORMS) -> list[Form]:
    """Return the forms of an op."""
    return [form for form in forms if form.op == op]


# --- problems, truths and runs ---------------------------------------------------------------------------


def dtype_of(case: Case, name: str) -> torch.dtype:
    """Return the dtype of a leaf or of a result."""
    return torch.promote_types(case.dtype, torch.float32) if name in OPS[case.op].full else case.dtype


def make_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw the leaves of a case, each rounded to its dtype."""
    leaves = OPS[case.op].inputs(case, generator)
    return {name: x.to(dtype_of(case, name)) for name, x in leaves.items()}


@functools.cache
def inputs_of(case: Case) -> Tensors:
    """Return the leaves of a case, the same at each call; they must not be changed in place."""
    return make_inputs(case, case.generator("inputs"))


@functools.cache
def truth_of(case: Case) -> Tensors:
    """Return the oracle's outputs and state, in float64, for the inputs as rounded to the case's dtype."""
    x = {name: leaf.double().numpy() for name, leaf in inputs_of(case).items()}
    return {name: torch.from_numpy(y) for name, y in OPS[case.op].oracle(case, x).items()}


@functools.cache
def upstream_of(case: Case) -> Tensors:
    """Return a random upstream gradient for every result of a case, the same at each call."""
    return upstream_like(case, truth_of(case))


def upstream_like(case: Case, results: Tensors) -> Tensors:
    """Return a random upstream gradient for each of these results, representable in the case's dtype."""
    generator = case.generator("upstream")
    return {name: normal(generator, *y.shape).to(case.dtype).double() for name, y in results.items()}


@functools.cache
def slopes_of(case: Case) -> dict[str, tuple[Tensor, float]]:
    """Return for every leaf a random direction and the oracle's exact derivative along it."""
    generator, upstream, slopes = case.generator("directions"), upstream_of(case), {}
    x = {name: leaf.double().numpy() for name, leaf in inputs_of(case).items()}
    op = OPS[case.op]
    for name in x:
        direction = normal(generator, *x[name].shape) / x[name].size ** 0.5
        step = direction.numpy()
        moving = along(x[name], step) if op.dual else x[name] + 1j * STEP * step
        results = op.oracle(case, {**x, name: moving})
        slope = 0.0
        for part, y in results.items():
            slope += (upstream[part].numpy() * (slope_of(y) if op.dual else y.imag / STEP)).sum()
        slopes[name] = direction, float(slope)
    return slopes


Call = Callable[[Tensors], Tensors]
Run = tuple[Tensors, Tensors]  # results, gradients


def call_of(form: Form, case: Case) -> Call:
    """Return a form as a function from leaves to named results."""
    op = OPS[case.op]

    def call(x: Tensors) -> Tensors:
        arguments = op.arguments(case, x)
        if form.chunked:
            arguments["chunk_size"] = case.chunk_size
        output, state = form.function(**arguments)
        return {"output": output, **op.state(state)}

    return call


def step_call_of(case: Case, step: Callable[..., Any] | None = None) -> Call:
    """Return the one-token step (None: the reference's) as a function from leaves to named results."""
    op = OPS[case.op]
    step = step or op.step

    def call(x: Tensors) -> Tensors:
        arguments = op.arguments(case, x)
        arguments["state"] = arguments.pop("initial_state", None)
        output, state = step(**arguments)
        return {"output": output, **op.state(state)}

    return call


def slice_time(case: Case, x: Tensors, start: int, stop: int) -> Tensors:
    """Return leaves for the tokens from start to before stop; those without time are kept whole."""
    timed = OPS[case.op].timed
    return {name: y[:, start:stop] if name in timed and y.ndim > 1 else y for name, y in x.items()}


def split_call(case: Case, at: int, first: Call, second: Call) -> Call:
    """Return a call of ``first`` on ``at`` tokens, then of ``second`` on the rest, from the state left."""

    def call(x: Tensors) -> Tensors:
        head = first(slice_time(case, x, 0, at))
        handed = {f"initial_{name}": y for name, y in head.items() if name.startswith("state")}
        tail = second({**slice_time(case, x, at, case.T), **handed})
        return {**tail, "output": torch.cat([head["output"], tail["output"]], 1)}

    return call


def run(call: Call, leaves: Tensors, upstream: Tensors) -> Run:
    """Return results, and the gradient of every leaf under the given upstream gradients of every result."""
    x = {name: leaf.detach().clone().requires_grad_() for name, leaf in leaves.items()}
    results = call(x)
    weights = [upstream[name].to(y.dtype) for name, y in results.items()]
    gradients = torch.autograd.grad(list(results.values()), list(x.values()), weights)
    return results, dict(zip(x, gradients, strict=True))


# --- checks ----------------------------------------------------------------------------------------------


def check_against_oracle(case: Case, call: Call, label: str) -> None:
    """Compare in float64: outputs and states in full, every gradient along a random direction."""
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
    """Compare two calls in float64: outputs, states and every number of every gradient."""
    got, want = (run(call, inputs_of(case), upstream_of(case)) for call in (one, other))
    for name, a, b in pairs(got, want):
        assert_close(f"{label}: {name}", a, b, FLOAT64)


def check_refusal(case: Case, form: Form) -> None:
    """Fail unless a form raises for a case, one that it does not support."""
    try:
        call_of(form, case)(inputs_of(case))
    except (ValueError, NotImplementedError):
        return
    raise AssertionError(f"{form.op} {form.form} does not support {case}, but returned")


Moves = tuple[Tensors, Tensors, dict[str, float]]  # results, gradients, how far each moves


@functools.cache
def sensitivities(case: Case) -> Moves:
    """Return results and gradients in float64, and how far each moves if every input moves by EPS."""
    call = call_of(forms_of(case.op)[0], replace(case, dtype=torch.float64))
    return moves_of(case, call, inputs_of(case), upstream_of(case), lambda name: EPS)


def moves_of(
    case: Case,
    call: Call,
    leaves: Tensors,
    upstream: Tensors,
    eps: Callable[[str], float],
    draws: int = 4,
    nudge: Callable[[Tensors, float], Tensors] | None = None,
) -> Moves:
    """Return ``sensitivities`` of any call.

    Args:
        case: whose random signs are drawn, and whose op says how decays are nudged.
        call: what is run, in float64.
        leaves: its inputs.
        upstream: the upstream gradient of every result.
        eps: from the name of a leaf or an upstream gradient to how far, relatively, its numbers move.
        draws: how often signs are drawn; the largest move counts.
        nudge: moves all decays of a recurrence by a rounding; None: as the op's entry does it.
    """
    nudge = nudge or OPS[case.op].nudge
    leaves = {name: x.double() for name, x in leaves.items()}
    exact = run(call, leaves, upstream)
    generator, moves = case.generator("rounding"), dict[str, float]()
    for _ in range(draws):
        moved = {name: _rounded(x, eps(name), generator) for name, x in leaves.items()}
        weights = {name: _rounded(x, eps(name), generator) for name, x in upstream.items()}
        for name, got, want in pairs(run(call, nudge(moved, EPS), weights), exact):
            moves[name] = max(moves.get(name, 0.0), err(got, want))
    return *exact, moves


def pairs(got: Run, want: Run) -> Iterable[tuple[str, Tensor, Tensor]]:
    """Yield every result and every gradient of two runs: its name, and both."""
    for what, a, b in zip(("", "gradient of "), got, want, strict=True):
        assert a.keys() == b.keys()
        yield from ((what + name, a[name], b[name]) for name in b)


def _rounded(x: Tensor, eps: float, generator: Generator) -> Tensor:
    """Return x (1 +- eps), signs at random."""
    signs = torch.randint(2, x.shape, generator=generator) * 2 - 1
    return x * (1 + eps * signs.to(x.device))


def precision_bounds(case: Case) -> dict[str, float]:
    """Return the bound of the table above for every result and gradient of a case below float64."""
    return bounds_from(case, sensitivities(case)[2])


def bounds_from(case: Case, moves: dict[str, float]) -> dict[str, float]:
    """Return the bounds of results and gradients from how far each moves."""
    rounding, bounds = ROUNDINGS * torch.finfo(case.dtype).eps / 2, {}
    for name, move in moves.items():
        half = dtype_of(case, name.removeprefix("gradient of ")) in HALF
        bounds[name] = BACKWARD * (move + EPS) + (rounding if half else 0.0)
    return bounds


def low_precision(case: Case, call: Call) -> Iterable[tuple[str, Tensor, Tensor]]:
    """Yield name, what the call gives, and what float64 gives, for every result and gradient."""
    yield from pairs(run(call, inputs_of(case), upstream_of(case)), sensitivities(case)[:2])


def check_precision(case: Case, call: Call, label: str, bounds: dict[str, float] | None = None) -> None:
    """Compare below float64: the dtype is right, and the error within the bound (None: the table's)."""
    bounds, truth = bounds or precision_bounds(case), truth_of(case)
    for name, got, want in low_precision(case, call):
        assert got.dtype == dtype_of(case, name.removeprefix("gradient of "))
        assert_close(f"{label}: {name}", got, want, bounds[name])
        if name in truth:
            assert_close(f"{label}: {name} against the oracle", got, truth[name], bounds[name])


# --- the cases -------------------------------------------------------------------------------------------


LENGTHS = (1, 2, 63, 64, 65, 200)
CHUNKS = (1, 7, 16, 64, 256)
SIZES = ({"B": 1, "H": 3, "K": 5, "V": 3}, {"B": 3, "H": 1, "K": 4, "V": 7}, {"B": 2, "H": 2, "K": 1, "V": 6})


def _case(row: dict[str, Any]) -> Case:
    """Return a row of a cover as a case."""
    decay, strength = row.pop("decays")
    return Case(**row.pop("sizes"), **row, decay=decay, strength=strength)


def chunked(op: str) -> bool:
    """Return whether an op has a form with chunks."""
    return any(form.chunked for form in forms_of(op))


def cases_of(
    op: str,
    chunks: tuple[int, ...],
    sizes: Sequence[dict[str, int]] = SIZES,
    variants: Iterable[Any] | None = None,
    **factors: Iterable[Any],
) -> list[Case]:
    """Return a pairwise cover of cases: any two levels of any two factors meet in one at least.

    Chunk sizes and scales are factors only where a form of the op has them.

    Args:
        op: name of the op.
        chunks: chunk sizes.
        sizes: fields of a case that are chosen together.
        variants: decays and their strengths. None is all that the op has.
        factors: further fields of a case, and the levels of each.
    """
    factors["decays"] = OPS[op].variants if variants is None else variants
    if chunked(op):
        factors["chunk_size"] = chunks
    if op in HEADS:
        factors["scale"] = (None, 0.3)
    shared = {"sizes": sizes, "start": (False, True), "zeros": (False, True)}
    return [_case(row | {"op": op}) for row in pairwise(**factors, **shared)]


PACKED = ((1,), (70,), (1, 1, 1), (5, 40, 0, 1, 3), (0, 2, 16, 17, 0))  # lengths of packed sequences
PACKED_OPS = ("softmax_attention", "linear_attention", "delta_rule")


def packed_cases_of(
    op: str, chunks: tuple[int, ...], packed: Sequence[tuple[int, ...]] = PACKED, **factors: Any
) -> list[Case]:
    """Return cases of an op with packed sequences: as ``cases_of``, with their lengths as one factor."""
    sizes = [{"T": sum(lengths), "B": 1, "H": 2, "lengths": lengths} for lengths in packed]
    cases = cases_of(op, chunks, sizes, **factors)
    return [replace(case, start=False) for case in cases] if op == "softmax_attention" else cases


PACKED_CASES = {op: packed_cases_of(op, CHUNKS) for op in PACKED_OPS}
EXACT_CASES = {op: cases_of(op, CHUNKS, T=LENGTHS) for op in OPS}
LOW_CASES = {op: cases_of(op, (7, 64), T=(1, 65, 200), dtype=(torch.float32, *HALF)) for op in OPS}
