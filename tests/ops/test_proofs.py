"""Exact proofs that the oracle's forms of linear and softmax attention are equal.

They run on symbols, and each pairwise difference simplifies to 0. No number is chosen: q, k, v, the decays
and the initial state are symbols, for every length up to 4. The other ops: ``test_proofs_other_ops.py``.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import sympy

from linattn_ref import oracle
from tests.ops.algebra import (
    Array,
    all_zero,
    decays,
    fresh_references,
    is_zero,
    symbols,
    with_symbols_for_exponentials,
)

K = V = 2
Result = tuple[Array, Array]


def qkv(T: int) -> tuple[Array, Array, Array]:
    return symbols("q", T, K), symbols("k", T, K), symbols("v", T, V)


# --- linear attention: polynomials -----------------------------------------------------------------------


def linear_forms(T: int, kind: str | None, start: bool) -> dict[str, Result]:
    q, k, v = qkv(T)
    rest = decays(kind, T, K), sympy.Symbol("scale"), symbols("S", K, V) if start else None
    forms = {
        "recurrent": oracle.linear_attention(q, k, v, *rest),
        "parallel": oracle.linear_attention_parallel(q, k, v, *rest),
    }
    for C in range(1, T + 1):
        forms[f"chunk of {C}"] = oracle.linear_attention_chunk(q, k, v, C, *rest)
    return forms


@pytest.mark.theorem("thm-linear-forms")
@pytest.mark.parametrize("start", [False, True], ids=["empty", "start"])
@pytest.mark.parametrize("kind", [None, "scalar", "channel"])
@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_linear_forms_are_equal_for_all_numbers(T: int, kind: str | None, start: bool) -> None:
    forms = linear_forms(T, kind, start)
    for (name, (o, S)), (other, (o2, S2)) in itertools.combinations(forms.items(), 2):
        assert all_zero(o - o2), f"outputs: {name}, {other}"
        assert all_zero(S - S2), f"state: {name}, {other}"


@pytest.mark.theorem("thm-linear-forms")
def test_two_tokens_expand_to_the_sum_in_the_book() -> None:
    """o_2 = scale (q_2 . k_2 v_2 + a_2 q_2 . k_1 v_1 + a_1 a_2 q_2 S): no a_1 on token 1, no a on token 2."""
    q, k, v = qkv(2)
    (a, S), scale = (symbols("a", 2), symbols("S", K, V)), sympy.Symbol("scale")
    o, _ = oracle.linear_attention(q, k, v, a, scale, S)
    want = scale * ((q[1] @ k[1]) * v[1] + a[1] * (q[1] @ k[0]) * v[0] + a[0] * a[1] * (q[1] @ S))
    assert all_zero(o[1] - want)


def exclusive(q: Array, k: Array, v: Array, alpha: Array) -> Array:
    """A wrong parallel form: a token's own decay applies to what it writes."""
    o = []
    for t in range(len(q)):
        left = [np.prod(alpha[j : t + 1], axis=0) for j in range(t + 1)]
        o.append(sum((q[t] @ (left[j] * k[j])) * v[j] for j in range(t + 1)))
    return np.array(o)


def late(q: Array, k: Array, v: Array, alpha: Array) -> Array:
    """A wrong recurrence: read before writing."""
    S, o = np.zeros((K, V), dtype=object), []
    for t in range(len(q)):
        S = alpha[t] * S
        o.append(q[t] @ S)
        S = S + np.outer(k[t], v[t])
    return np.array(o)


@pytest.mark.parametrize("wrong", [exclusive, late])
@pytest.mark.parametrize("T", [1, 2, 4])
def test_planted_wrong_linear_form_does_not_simplify_to_zero(wrong: Callable[..., Array], T: int) -> None:
    q, k, v = qkv(T)
    alpha = symbols("a", T)
    right, _ = oracle.linear_attention(q, k, v, alpha)
    assert not all_zero(right - wrong(q, k, v, alpha))


# --- softmax attention: rational functions of exponentials -----------------------------------------------


def softmax_forms(T: int, S: int) -> dict[str, Array]:
    """Return the forms of softmax attention of T queries after S cached tokens."""
    q, k, v = symbols("q", T, K), symbols("k", S + T, K), symbols("v", S + T, V)
    scale = sympy.Symbol("scale")
    forms = {
        "definition": oracle.softmax_attention(q, k, v, scale, sympy.exp),
        "restart": oracle.softmax_attention_restart(q, k, v, scale, sympy.exp),
    }
    for tile in range(1, S + T + 1):
        forms[f"online, tiles of {tile}"] = oracle.softmax_attention_online(
            q, k, v, tile, scale, sympy.exp, fresh_references()
        )
    return forms


@pytest.mark.theorem("thm-softmax-forms")
@pytest.mark.parametrize(("T", "S"), [(1, 0), (2, 0), (3, 0), (4, 0), (1, 2), (2, 2)])
def test_softmax_forms_are_equal_for_all_numbers_and_references(T: int, S: int) -> None:
    forms = softmax_forms(T, S)
    definition = forms.pop("definition")
    for name, o in forms.items():
        difference = np.vectorize(with_symbols_for_exponentials, otypes=[object])(o - definition)
        assert all_zero(difference), name


def unshrunk(q: Array, k: Array, v: Array) -> Array:
    """A wrong online form: the old sums are kept as they are when the reference changes."""
    reference, o = fresh_references(), []
    for t in range(len(q)):
        weight = [sympy.exp(q[t] @ k[j] - reference([])) for j in range(t + 1)]
        o.append(sum(weight[j] * v[j] for j in range(t + 1)) / sum(weight))
    return np.array(o)


def test_planted_wrong_softmax_form_does_not_simplify_to_zero() -> None:
    q, k, v = qkv(2)
    difference = oracle.softmax_attention(q, k, v, 1, sympy.exp) - unshrunk(q, k, v)
    converted = np.vectorize(with_symbols_for_exponentials, otypes=[object])(difference)
    assert all_zero(converted[0])
    assert not all_zero(converted[1])


def test_zero_is_recognised_only_where_it_is() -> None:
    x, y = sympy.symbols("x y")
    assert is_zero((x + y) ** 2 - x**2 - 2 * x * y - y**2)
    assert is_zero(x / (x + y) + y / (x + y) - 1)
    assert not is_zero(x / (x + y) - 1)
