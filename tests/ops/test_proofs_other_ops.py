"""Exact proofs for the delta rule, RWKV and the state space models, as in ``test_proofs.py``.

Where a form is one pass from any start state, cutting the sequence anywhere and going on from the state must
change nothing: so the chunk forms are proven with it.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sympy

from linattn_ref import oracle
from tests.ops.algebra import (
    Array,
    all_zero,
    decays,
    fresh_references,
    symbols,
    with_symbols_for_exponentials,
)

K = 2
Pair = tuple[Array, Array]


def in_pieces(form: Callable[..., tuple[Array, Any]], T: int, C: int, state: Any) -> tuple[Array, Any]:
    """Return outputs and state of a form run on C tokens at a time: ``form(slice of tokens, state)``."""
    outputs = []
    for start in range(0, T, C):
        o, state = form(slice(start, start + C), state)
        outputs.append(o)
    return np.concatenate(outputs), state


# --- the delta rule -----------------------------------------------------------------------------------------


def delta_forms(T: int, kind: str | None, start: bool) -> dict[str, Pair]:
    q, k, v = symbols("q", T, K), symbols("k", T, K), symbols("v", T, 1)
    beta, alpha, scale = symbols("beta", T), decays(kind, T, K), sympy.Symbol("scale")
    state = symbols("S", K, 1) if start else np.zeros((K, 1), dtype=object)

    def part(form: Callable[..., Pair]) -> Callable[[slice, Array], Pair]:
        decay = lambda piece: None if alpha is None else alpha[piece]  # noqa: E731
        return lambda piece, S: form(q[piece], k[piece], v[piece], beta[piece], decay(piece), scale, S)

    forms = {"recurrent": part(oracle.delta_rule)(slice(0, T), state)}
    for C in range(1, T + 1):
        forms[f"WY, chunks of {C}"] = in_pieces(part(oracle.delta_rule_parallel), T, C, state)
    return forms


@pytest.mark.parametrize("kind", [None, "scalar", "channel"])
@pytest.mark.parametrize("start", [False, True], ids=["empty", "start"])
@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_delta_rule_forms_are_equal_for_all_numbers(T: int, start: bool, kind: str | None) -> None:
    """Columns of v do not meet: one is enough."""
    forms = delta_forms(T, kind, start)
    o, S = forms.pop("recurrent")
    for name, (o2, S2) in forms.items():
        assert all_zero(o - o2), f"outputs: {name}"
        assert all_zero(S - S2), f"state: {name}"


def test_deciding_before_forgetting_is_another_delta_rule() -> None:
    """Diag(alpha) - beta k^T k, the gate of RWKV-7: equal only if nothing is forgotten or corrected."""
    q, k, v = symbols("q", 2, K), symbols("k", 2, K), symbols("v", 2, 1)
    beta, alpha = symbols("beta", 2), symbols("a", 2)
    S = symbols("S", K, 1)
    _, right = oracle.delta_rule(q, k, v, beta, alpha, 1, S)
    rate = beta[:, None] * np.ones((1, K), dtype=object)
    _, S = oracle.rwkv7(q, k, beta[:, None] * v, k, rate, alpha, 1, S)
    assert not all_zero(right - S)
    ones = {a: 1 for a in alpha}
    assert all_zero(np.vectorize(lambda x: x.subs(ones), otypes=[object])(right - S))


def test_a_unit_key_is_recalled_exactly_after_a_correction_of_strength_one() -> None:
    t = sympy.Symbol("t")
    k = np.array([[(1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)]])  # every unit vector but one
    v, S = symbols("v", 1, 1), symbols("S", K, 1)
    for beta in (1, 2):
        o, _ = oracle.delta_rule(k, k, v, np.array([beta]), None, 1, S)
        assert all_zero(o - v) == (beta == 1)


# --- RWKV ---------------------------------------------------------------------------------------------------


def late(x: Array, first: Any) -> Array:
    """Return x one token later, with ``first`` in front."""
    return np.concatenate([np.full_like(x[:1], first), x[:-1]])


@pytest.mark.parametrize("channel", [False, True], ids=["scalar", "channel"])
@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_rwkv6_is_linear_attention_one_token_late_and_a_bonus(T: int, channel: bool) -> None:
    q, k, v = symbols("q", T, K), symbols("k", T, K), symbols("v", T, 2)
    alpha, bonus, S = symbols("a", T, K if channel else 1), symbols("u", K), symbols("S", K, 2)
    scale = sympy.Symbol("scale")
    o, _ = oracle.rwkv6(q, k, v, bonus, alpha, scale, S)
    past, _ = oracle.linear_attention(q, late(k, 0), late(v, 0), late(alpha, 1), scale, S)
    own = scale * ((q * bonus * k).sum(-1, keepdims=True) * v)
    assert all_zero(o - past - own)


def wkv_values(o: Array, state: Array) -> Array:
    """Return outputs, and the numerator and denominator that the state stands for, without exponentials."""
    a, b, m = state
    read = [*o, a * sympy.exp(m), b * sympy.exp(m)]
    return np.vectorize(with_symbols_for_exponentials, otypes=[object])(np.array(read))


@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_wkv_can_be_cut_anywhere_whatever_exponent_it_refers_to(T: int) -> None:
    k, v, start = symbols("k", T), symbols("v", T), symbols("s", 3)
    w, u, reference = sympy.Symbol("w"), sympy.Symbol("u"), fresh_references()

    def form(piece: slice, state: Array) -> Pair:
        return oracle.wkv(k[piece], v[piece], w, u, tuple(state), sympy.exp, reference)

    whole = wkv_values(*form(slice(0, T), start))
    for C in range(1, T):
        assert all_zero(whole - wkv_values(*in_pieces(form, T, C, start))), f"pieces of {C}"


# --- state space models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [False, True], ids=["empty", "start"])
@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_lti_recurrence_and_convolution_are_equal_for_all_numbers(T: int, start: bool) -> None:
    u, A, B, C = symbols("u", T), symbols("A", K), symbols("B", K), symbols("C", K)
    state = symbols("h", K) if start else None
    y, h = oracle.lti_ssm(u, A, B, C, sympy.Symbol("D"), state)
    y2, h2 = oracle.lti_ssm_convolution(u, A, B, C, sympy.Symbol("D"), state)
    assert all_zero(y - y2)
    assert all_zero(h - h2)


def test_discretisations_agree_to_the_order_that_the_book_says() -> None:
    """Against the exact exponential: bilinear to second order in the step, Euler to first."""
    step, A = sympy.Symbol("delta", positive=True), sympy.Symbol("A", nonzero=True)

    def first_terms(method: str) -> tuple[list, list]:
        pair = oracle.discretise(step, A, method, sympy.exp)
        return tuple([sympy.series(x, step, 0, 4).removeO().coeff(step, n) for n in range(4)] for x in pair)  # type: ignore[return-value]

    exact, bilinear, euler = (first_terms(method) for method in ("zoh", "bilinear", "euler"))
    agree = lambda x, y: [sympy.simplify(a - b) == 0 for a, b in zip(x, y, strict=True)]  # noqa: E731
    assert agree(exact[0], bilinear[0]) == [True, True, True, False]
    assert agree(exact[0], euler[0]) == [True, True, False, False]
    assert agree(exact[1], bilinear[1]) == [True, True, True, False]
    assert agree(exact[1], euler[1]) == [True, True, False, False]


def bracketings(steps: list) -> Iterator[Any]:
    """Yield every way to compose steps that leaves their order: Catalan's number of them."""
    if len(steps) == 1:
        yield steps[0]
    for n in range(1, len(steps)):
        for first, then in itertools.product(bracketings(steps[:n]), bracketings(steps[n:])):
            yield oracle.compose(first, then)


@pytest.mark.parametrize("hold", ["euler", "exact"])
@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_the_scan_composes_its_steps_in_any_order_to_the_recurrence(T: int, hold: str) -> None:
    u, delta, A = symbols("u", T), symbols("delta", T), symbols("A", K)
    B, C, h = symbols("B", T, K), symbols("C", T, K), symbols("h", K)
    exp = np.vectorize(lambda x: sympy.Symbol(f"E[{sympy.expand(x)}]"), otypes=[object])
    _, last = oracle.selective_scan(u, delta, A, B, C, 0, hold, h, exp)
    steps = []
    for t in range(T):
        decay = exp(delta[t] * A)
        steps.append((decay, (delta[t] if hold == "euler" else (decay - 1) / A) * B[t] * u[t]))
    ways = list(bracketings(steps))
    assert len(ways) == (1, 1, 2, 5)[T - 1]
    for decay, written in ways:
        assert all_zero(decay * h + written - last)


def test_steps_composed_in_the_wrong_order_do_not_give_the_recurrence() -> None:
    first, then = (symbols("a", 1), symbols("b", 1)), (symbols("c", 1), symbols("d", 1))
    right, wrong = oracle.compose(first, then), oracle.compose(then, first)
    assert all_zero(right[0] - wrong[0])
    assert not all_zero(right[1] - wrong[1])
