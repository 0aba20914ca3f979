"""Arrays of symbols, and when an expression is 0: what the proofs are made of."""

import itertools
from collections.abc import Callable

import numpy as np
import sympy

Array = np.ndarray


def symbols(name: str, *shape: int) -> Array:
    """An array of independent symbols."""
    made = np.empty(shape, dtype=object)
    for i in np.ndindex(*shape):
        made[i] = sympy.Symbol("_".join([name, *map(str, i)]))
    return made


def is_zero(expression: sympy.Expr) -> bool:
    """Exact: a quotient is 0 if its numerator, multiplied out, is."""
    return sympy.expand(sympy.numer(sympy.together(expression))) == 0


def all_zero(difference: Array) -> bool:
    return all(is_zero(entry) for entry in np.ravel(difference))


def fresh_references() -> Callable[[list], sympy.Symbol]:
    """In place of the largest score, a new symbol every time: any reference gives the same output."""
    counter = itertools.count()
    return lambda scores: sympy.Symbol(f"m_{next(counter)}")


def with_symbols_for_exponentials(expression: sympy.Expr) -> sympy.Expr:
    """exp(a - b + c) becomes E_a / E_b E_c: nothing but exp(x + y) = exp(x) exp(y) and exp(0) = 1 is used."""

    def product(exponent: sympy.Expr) -> sympy.Expr:
        terms = sympy.expand(exponent).as_coefficients_dict()
        return sympy.prod(sympy.Symbol(f"E[{monomial}]") ** n for monomial, n in terms.items())

    return expression.replace(sympy.exp, product)
