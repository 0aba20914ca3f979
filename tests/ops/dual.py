"""Dual numbers: a value and its exact slope along one direction, for oracles that use complex numbers.

NumPy arrays of them add, multiply and divide element by element; ``np.exp`` and ``np.conj`` find the methods.
"""

import cmath
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

Number = Union[complex, "Dual"]


@dataclass(frozen=True)
class Dual:
    """One dual number, ``value + e slope`` with e^2 = 0."""

    value: complex
    slope: complex = 0.0

    def __add__(self, other: Number) -> "Dual":
        if isinstance(other, np.ndarray):
            return NotImplemented  # the array goes through its entries
        value, slope = _parts(other)
        return Dual(self.value + value, self.slope + slope)

    def __mul__(self, other: Number) -> "Dual":
        if isinstance(other, np.ndarray):
            return NotImplemented  # the array goes through its entries
        value, slope = _parts(other)
        return Dual(self.value * value, self.value * slope + self.slope * value)

    def __truediv__(self, other: Number) -> "Dual":
        if isinstance(other, np.ndarray):
            return NotImplemented  # the array goes through its entries
        value, slope = _parts(other)
        return Dual(self.value / value, (self.slope - self.value / value * slope) / value)

    def __rtruediv__(self, other: Number) -> "Dual":
        return Dual(*_parts(other)) / self

    def __neg__(self) -> "Dual":
        return self * -1

    def __sub__(self, other: Number) -> "Dual":
        return self + -other

    def __rsub__(self, other: Number) -> "Dual":
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def exp(self) -> "Dual":
        value = cmath.exp(self.value)
        return Dual(value, value * self.slope)

    def conjugate(self) -> "Dual":
        return Dual(self.value.conjugate(), self.slope.conjugate())


def _parts(x: Any) -> tuple[complex, complex]:
    return (x.value, x.slope) if isinstance(x, Dual) else (x, 0.0)


def along(x: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return an array of dual numbers: x, moving along ``direction``."""
    duals = np.empty(x.shape, dtype=object)
    for i in np.ndindex(x.shape):
        duals[i] = Dual(complex(x[i]), complex(direction[i]))
    return duals


def slope_of(x: np.ndarray) -> np.ndarray:
    """Return the real part of every slope."""
    return np.array([_parts(one)[1].real for one in np.ravel(x)]).reshape(x.shape)


def real_part(x: np.ndarray) -> np.ndarray:
    """Return the real parts of numbers and of their slopes."""
    return _each(x, lambda one: Dual(one.value.real, one.slope.real)) if x.dtype == object else x.real


def imaginary_part(x: np.ndarray) -> np.ndarray:
    """Return the imaginary parts of numbers and of their slopes."""
    return _each(x, lambda one: Dual(one.value.imag, one.slope.imag)) if x.dtype == object else x.imag


def _each(x: np.ndarray, change: Any) -> np.ndarray:
    changed = np.empty(x.shape, dtype=object)
    for i in np.ndindex(x.shape):
        changed[i] = change(x[i] if isinstance(x[i], Dual) else Dual(complex(x[i])))
    return changed
