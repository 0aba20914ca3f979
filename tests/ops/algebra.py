"""Arrays of symbols, and when an expression is 0: what the proofs are made of."""

import itertools
from collections.abc import Callable

import numpy as np
import sympy

Array = np.ndarray


def symbols(name: str, *shape: int) -> Array:
    """Return an array of independent symbols."""
    made = np.empty(shape, dtype=object)
    for i in np.ndindex(*shape):
        made[i] = sympy.Symbol("_".join([name, *map(str, i)]))
    return made


def decays(kind: str | None, T: int, K: int) -> Array | None:
    """Return symbols for decays: None for none, one a token ("scalar"), or one a token and channel."""
    return {None: None, "scalar": symbols("a", T), "channel": symbols("a", T, K)}[kind]


def is_zero(expression: sympy.Expr) -> bool:
    """Return whether an expression is 0, exactly: a quotient is if its numerator, multiplied out, is."""
    return sympy.expand(sympy.numer(sympy.together(expression))) == 0


def all_zero(difference: Array) -> bool:
    """Return whether all entries are 0."""
    return all(is_zero(entry) for entry in np.ravel(difference))


def fresh_references() -> Callable[[list], sympy.Symbol]:
    """Return what takes the place of the maximum of scores: a new symbol at each call.

    With symbols a proof is one for any reference that is subtracted from the scores.
    """
    counter = itertools.count()
    return lambda scores: sympy.Symbol(f"m_{next(counter)}")


def with_symbols_for_exponentials(expression: sympy.Expr) -> sympy.Expr:
    """Return an expression with exp(a - b + c) written as E_a / E_b E_c, each E a symbol.

    Nothing but exp(x + y) = exp(x) exp(y) and exp(0) = 1 is used.
    """

    def product(exponent: sympy.Expr) -> sympy.Expr:
        terms = sympy.expand(exponent).as_coefficients_dict()
        return sympy.prod(sympy.Symbol(f"E[{monomial}]") ** n for monomial, n in terms.items())

    return expression.replace(sympy.exp, product)
