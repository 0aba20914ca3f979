"""Say what a GPU makes of numbers: of each operation on whole numbers, truth values and numbers with a point.

Zeros have a sign, NaN is passed over by some maxima and not by others, the smallest numbers of float32 are 0
for some functions, and numbers of one bit are -1 where they have a sign. What a GPU may give anything for is
refused. What it leaves open is in kernel_orders.py.

Like serialization.py this file imports nothing of ours.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]
SIGNS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
SIGNS["ge"] = "greater_equal"


def _is_truth(x: Any) -> bool:
    """Return whether a number, or one of a tile, is a truth value."""
    return bool(np.result_type(x).kind == "b")


# --- whole numbers ------------------------------------------------------------------------------------------


def wrap(operation: np.ufunc, of_truths: np.ufunc) -> Function:
    """Return an operation on whole numbers, which keeps their last bits; of one bit that is another one."""
    return lambda a, b: (of_truths if _is_truth(a) else operation)(a, b)


def take_signed(x: Any) -> Any:
    """Return a number as one with a sign: one bit is 0 or -1."""
    return -np.asarray(x, np.int8) if _is_truth(x) else x


def take_unsigned(x: Any) -> Any:
    """Return a number as one without a sign."""
    return x if _is_truth(x) else np.asarray(x).view(f"u{np.result_type(x).itemsize}")


def divide(operation: Function) -> Function:
    """Return a division of whole numbers towards 0, which refuses one by 0, and one that leaves the range."""

    def divide_checked(a: Any, b: Any) -> Any:
        kind = np.result_type(a)
        if (np.asarray(b) == 0).any():
            raise ZeroDivisionError("divides a whole number by 0, and a GPU may give anything")
        if kind.kind == "i" and ((np.asarray(a) == np.iinfo(kind).min) & (np.asarray(b) == -1)).any():
            raise OverflowError("divides the least whole number by -1, and a GPU may give anything")
        return np.asarray(operation(a, b)).astype(kind)

    return divide_checked


@divide
def find_quotient(a: Any, b: Any) -> Any:
    return (a - np.fmod(a, b)) // b


def divide_unsigned(operation: Function) -> Function:
    """Return a division of numbers without a sign."""
    return lambda a, b: np.asarray(divide(operation)(take_unsigned(a), take_unsigned(b))).view(
        np.result_type(a)
    )


def shift(operation: np.ufunc) -> Function:
    """Return a shift, which refuses one by as many bits as a number has, or by fewer than none."""

    def shift_checked(a: Any, by: Any) -> Any:
        truths = _is_truth(a)
        bits = 1 if truths else 8 * np.result_type(a).itemsize
        if truths or ((np.asarray(by) < 0) | (np.asarray(by) >= bits)).any():
            raise ValueError(f"shifts numbers of {bits} bits by {np.max(by)}, and a GPU may give anything")
        return operation(a, by)

    return shift_checked


def find_absolute(x: Any) -> Any:
    """Return the absolute value of whole numbers; the least has none."""
    if (np.asarray(x) == np.iinfo(np.result_type(x)).min).any():
        raise OverflowError("takes the absolute value of the least whole number, which has none")
    return np.abs(x)


def compare_whole(sign: str) -> Function:
    """Return a comparison of whole numbers, such as "slt" or "ult"."""
    if sign in ("eq", "ne"):
        return getattr(np, SIGNS[sign])  # type: ignore[no-any-return]
    take, compare = take_signed if sign[0] == "s" else take_unsigned, getattr(np, SIGNS[sign[1:]])
    return lambda a, b: compare(take(a), take(b))


# --- numbers with a point -----------------------------------------------------------------------------------


def compare_floats(sign: str) -> Function:
    """Return a comparison of numbers of which some may be NaN: "olt" is false for it and "ult" true."""
    if sign in ("ord", "uno"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (sign == "uno")
    compare = getattr(np, SIGNS[sign[1:]])
    if sign[0] == "o":
        return lambda a, b: compare(a, b) & ~np.isnan(a) & ~np.isnan(b)
    return lambda a, b: compare(a, b) | np.isnan(a) | np.isnan(b)


def find_larger(choose: np.ufunc, sign: int) -> Function:
    """Return the larger of two numbers (the lesser, if the sign is -1): 0 is more than -0 for a GPU."""

    def find(a: Any, b: Any) -> Any:
        zeros = sign * (sign * a + sign * b)
        return np.where((a == 0) & (b == 0), zeros, choose(a, b)).astype(np.result_type(a))

    return find


def flush(x: Any) -> Any:
    """Return numbers of float32 without the smallest, and others as they are."""
    if np.result_type(x) != np.float32:
        return x
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def cut_in_two(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of float32 in ten bits behind the first, and what is left of them, in as many."""
    first = _round_to_ten_bits(x)
    return first, _round_to_ten_bits(x - first)


def _round_to_ten_bits(x: np.ndarray) -> np.ndarray:
    """Return numbers of float32 in ten bits behind the first; a half goes away from 0."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return np.where(np.isfinite(x), ((bits + 0x1000) & 0xFFFFE000).view(np.float32), x)


# --- from one type to another -------------------------------------------------------------------------------


def cast(kind: np.dtype) -> Function:
    """Return what makes numbers of another type, rounded to the nearest."""
    return lambda x: np.asarray(x).astype(kind)


def extend_signed(kind: np.dtype) -> Function:
    """Return what gives whole numbers more bits, or a point."""
    return lambda x: np.asarray(take_signed(x)).astype(kind)


def extend_unsigned(kind: np.dtype) -> Function:
    """Return what does so for numbers without a sign."""
    return lambda x: np.asarray(take_unsigned(x)).astype(kind)


def cut_bits(kind: np.dtype) -> Function:
    """Return what keeps the last bits of whole numbers."""
    return lambda x: (np.asarray(x) & 1 if kind.kind == "b" else np.asarray(x)).astype(kind)


def cut_digits(kind: np.dtype) -> Function:
    """Return a cast to whole numbers, which refuses those that are none of the type, and NaN."""

    def cast_inside(x: Any) -> Any:
        end, whole = 2.0 ** (8 * kind.itemsize - 1), np.trunc(np.asarray(x, np.float64))
        if not (inside := (whole >= -end) & (whole < end)).all():
            raise ValueError(f"casts {np.asarray(x)[~inside].flat[0]:g} to {kind}, which has no such number")
        return whole.astype(kind)

    return cast_inside


# --- all of them --------------------------------------------------------------------------------------------

# by the name of the operation in the compiler's intermediate code
OF_NUMBERS: dict[str, Function] = {
    "arith.addi": wrap(np.add, np.logical_xor),
    "arith.subi": wrap(np.subtract, np.logical_xor),
    "arith.muli": wrap(np.multiply, np.logical_and),
    "arith.divsi": find_quotient,
    "arith.remsi": divide(np.fmod),
    "arith.divui": divide_unsigned(np.floor_divide),
    "arith.remui": divide_unsigned(np.fmod),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": shift(np.left_shift),
    "arith.shrsi": shift(np.right_shift),
    "arith.minsi": lambda a, b: np.where(compare_whole("slt")(a, b), a, b),
    "arith.maxsi": lambda a, b: np.where(compare_whole("sgt")(a, b), a, b),
    "arith.maxnumf": find_larger(np.fmax, 1),
    "arith.minnumf": find_larger(np.fmin, -1),
    "arith.maximumf": find_larger(np.maximum, 1),
    "arith.minimumf": find_larger(np.minimum, -1),
    "arith.select": lambda condition, a, b: np.where(condition, a, b),
    "math.absf": np.abs,
    "math.absi": find_absolute,
    "math.floor": lambda x: flush(np.floor(flush(x))),
    "math.ceil": lambda x: flush(np.ceil(flush(x))),
    "tt.precise_divf": np.divide,
    "tt.precise_sqrt": np.sqrt,
}
# the same of casts, which also need the type
CASTS: dict[str, Callable[[np.dtype], Function]] = {
    "arith.extsi": extend_signed,
    "arith.sitofp": extend_signed,
    "arith.extui": extend_unsigned,
    "arith.uitofp": extend_unsigned,
    "arith.trunci": cut_bits,
    "arith.fptosi": cut_digits,
    "arith.extf": cast,
    "arith.truncf": cast,
}
