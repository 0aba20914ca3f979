"""Let Triton's interpreter make of numbers what a GPU makes of them, and doubt false promises.

Casts, shifts, maxima, roots and divisions meet numbers that NumPy takes otherwise than a GPU: zeros with a
sign, NaN, the smallest of float32, and those beyond a type. And where a kernel promises that offsets are
multiples of something, a GPU believes it. What GPUs leave open is in kernel_orders.py.

Like serialization.py this file imports nothing of ours.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

# what `multiple_of`, `max_contiguous` and `max_constancy` promise
DIVISIBILITY, CONTIGUITY, CONSTANCY = "tt.divisibility", "tt.contiguity", "tt.constancy"
# what takes numbers of float32 below 2^-126 for 0 on a GPU
FLUSHING = ("floor", "ceil", "sqrt", "rsqrt", "sin", "erf", "exp2")


@contextlib.contextmanager
def use_gpu_numbers(builder: Any) -> Iterator[None]:
    """While the block runs, operations give what a GPU does, or refuse that for which it may give anything.

    Args:
        builder: of the interpreter; what it is given is its own, so whoever made it takes that away again.
    """
    from triton.runtime import interpreter as found

    ours = {
        (found.ReduceOps, "min_max"): _find_numbers(found.ReduceOps.min_max),
        (found.TensorHandle, "set_attr"): _make_promise(found.TensorHandle.set_attr),
    }
    before = {(owner, name): getattr(owner, name) for owner, name in ours}
    for (owner, name), function in ours.items():
        setattr(owner, name, function)
    # of a number and NaN the first two take the number, as a GPU does, and the others NaN
    for name, choose in (("num", (np.fmax, np.fmin)), ("imum", (np.maximum, np.minimum))):
        setattr(builder, f"create_max{name}f", partial(builder.binary_op, op=partial(_order, choose[0], 1)))
        setattr(builder, f"create_min{name}f", partial(builder.binary_op, op=partial(_order, choose[1], -1)))
    builder.get_fp16 = lambda x: builder.cast_impl(builder.get_fp32(x), found.tl.float16)  # rounds twice
    for operation, change in CHANGED.items():
        setattr(builder, f"create_{operation}", change(getattr(builder, f"create_{operation}")))
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)


# --- numbers ------------------------------------------------------------------------------------------------


def _order(choose: Callable[..., Any], sign: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the larger of two numbers (the lesser, if the sign is -1): 0 is more than -0 for a GPU."""
    if np.result_type(left).kind != "f":
        return np.asarray(choose(left, right))
    return np.where((left == 0) & (right == 0), sign * (sign * left + sign * right), choose(left, right))


def _flush_small(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an operation that takes the smallest numbers of float32 for 0, and gives none."""

    def flush_and_operate(tile: Any) -> Any:
        made = operation(type(tile)(_flush(tile.data), tile.dtype))
        made.data = _flush(made.data)
        return made

    return flush_and_operate


def _flush(data: np.ndarray) -> np.ndarray:
    """Return numbers of float32 without the smallest, and others as they are."""
    if data.dtype != np.float32:
        return data
    return np.where(np.abs(data) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), data), data)


def _cast_inside(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Return a cast to whole numbers that refuses those which are none of the type, and NaN."""

    def cast_inside(tile: Any, kind: Any) -> Any:
        made = cast(tile, kind)
        limits, data = np.iinfo(made.data.dtype), np.trunc(np.asarray(tile.data, np.float64))
        if not (inside := (data >= limits.min) & (data <= limits.max)).all():
            raise ValueError(f"casts {data[~inside].flat[0]:g} to {kind.scalar}, which has no such number")
        return made

    return cast_inside


def _shift_inside(shift: Callable[..., Any]) -> Callable[..., Any]:
    """Return a shift that refuses one by as many bits as a number has, or by fewer than none."""

    def shift_inside(tile: Any, by: Any) -> Any:
        truths = tile.data.dtype == bool
        bits, by_all = 1 if truths else 8 * tile.data.dtype.itemsize, np.asarray(by.data)
        if truths or ((by_all < 0) | (by_all >= bits)).any():
            raise ValueError(f"shifts numbers of {bits} bits by {by_all.max()}, and a GPU may give anything")
        return shift(tile, by)

    return shift_inside


def _advance_inside(advance: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``advance`` of a block pointer, whose offsets have more bits on a GPU and must not need them."""

    def advance_inside(pointer: Any, offsets: Any) -> Any:
        for before, more in zip(pointer.offsets, offsets, strict=True):
            if abs(int(np.asarray(before.data).item()) + int(np.asarray(more.data).item())) >= 1 << 31:
                raise OverflowError("advances a block pointer by more than 2^31")
        return advance(pointer, offsets)

    return advance_inside


def _refuse_least(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``abs`` of whole numbers, which refuses the least: it has no positive counterpart."""

    def operate(tile: Any) -> Any:
        if (np.asarray(tile.data) == np.iinfo(tile.data.dtype).min).any():
            raise OverflowError("takes the absolute value of the least whole number, which has none")
        return operation(tile)

    return operate


def _divide_by_numbers(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a division of whole numbers, which refuses one by 0, and the one that leaves their range."""

    def divide_checked(left: Any, right: Any) -> Any:
        if (np.asarray(right.data) == 0).any():
            raise ZeroDivisionError("divides a whole number by 0, and a GPU may give anything")
        if ((np.asarray(left.data) == np.iinfo(left.data.dtype).min) & (np.asarray(right.data) == -1)).any():
            raise OverflowError("divides the least whole number by -1, and a GPU may give anything")
        return divide(left, right)

    return divide_checked


def _find_numbers(find_most: Callable[..., Any]) -> Callable[..., Any]:
    """Return what finds a largest or least entry and its place, which refuses NaN."""

    def find_checked(self: Any, values: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        tile = values[0] if isinstance(values, tuple) else values
        if idx_reduce_op is not None and (tile.handle.data != tile.handle.data).any():
            raise ValueError("asks in which place the largest of numbers and NaN is; a GPU may say any")
        found = find_most(self, values, val_reduce_op, idx_reduce_op)
        if idx_reduce_op is None:
            sign = 1 if val_reduce_op in (np.max, np.nanmax) else -1
            found.handle.data = _sign_zeros(
                found.handle.data, tile.handle.data, sign, self.axis, self.keep_dims
            )
        return found

    return find_checked


def _sign_zeros(most: np.ndarray, tile: np.ndarray, sign: int, axis: int | None, keep: bool) -> np.ndarray:
    """Return the largest entries (least, if the sign is -1) of a tile: 0 is more than -0 for a GPU."""
    if tile.dtype.kind != "f":
        return most
    zeros = np.where(tile == 0, sign * tile, -0.0).sum(axis=axis, keepdims=keep, dtype=tile.dtype)
    return np.where(most == 0, sign * zeros, most).astype(tile.dtype)


# --- truth values and promises ------------------------------------------------------------------------------


def _keep_truths(splat: Callable[..., Any]) -> Callable[..., Any]:
    """Return what spreads a number over a tile, which leaves a truth value one."""

    def splat_alike(kind: Any, number: Any) -> Any:
        made = splat(kind, number)
        if number.data.dtype == bool:  # a comparison's, which the interpreter calls int32
            made.data = made.data.astype(bool)
        return made

    return splat_alike


def _refuse_truths(add: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``+``, which refuses two truth values."""

    def add_numbers(left: Any, right: Any) -> Any:
        if left.data.dtype == right.data.dtype == np.dtype(bool):
            raise TypeError("adds truth values, of which a GPU keeps the last bit; write `|`")
        return add(left, right)

    return add_numbers


def _make_promise(set_attribute: Callable[..., None]) -> Callable[..., None]:
    """Return ``set_attr`` of a tile, which refuses a promise that does not hold."""

    def set_checked(self: Any, name: str, values: Any) -> None:
        data = np.asarray(self.data)
        steps = [int(one) for one in values] if name in (DIVISIBILITY, CONTIGUITY, CONSTANCY) else []
        if steps and data.size and data.dtype.kind in "iub":
            # addresses are in bytes, and rise by an entry
            entry = getattr(self.dtype, "element_ty", None)
            rise = 1 if entry is None else max(1, entry.primitive_bitwidth // 8)
            if name == DIVISIBILITY:
                for axis, step in enumerate(steps):
                    if (rest := _list_starts(data, axis, rise) % step).any():
                        raise ValueError(f"promises multiples of {step}, and has {rest.max()} more")
            if name == CONTIGUITY and not all(_rises(data, n, step, rise) for n, step in enumerate(steps)):
                raise ValueError(f"promises {steps} numbers in a row that rise by 1, which these do not")
            if name == CONSTANCY and not all(_rises(data, n, step, 0) for n, step in enumerate(steps)):
                raise ValueError(f"promises {steps} equal numbers in a row, which these are not")
        set_attribute(self, name, values)

    return set_checked


def _list_starts(data: np.ndarray, axis: int, rise: int) -> np.ndarray:
    """Return the first number of each stretch that rises along an axis: a promise is of these."""
    lines = np.moveaxis(np.atleast_1d(data), axis, -1).astype(np.int64)
    first = np.ones(lines.shape, dtype=bool)
    first[..., 1:] = np.diff(lines, axis=-1) != rise
    return lines[first]


def _rises(data: np.ndarray, axis: int, length: int, by: int) -> bool:
    """Return whether numbers rise by so much along an axis, in every stretch of a length."""
    if data.ndim == 0 or length < 2 or data.shape[axis] % length:
        return data.ndim == 0 or length < 2
    runs = np.moveaxis(data, axis, -1).reshape(-1, length)
    return bool((np.diff(runs.astype(np.int64), axis=-1) == by).all())


# how operations of the interpreter are changed
CHANGED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "splat": _keep_truths,
    "add": _refuse_truths,
    "advance": _advance_inside,
    "fp_to_si": _cast_inside,
    "iabs": _refuse_least,
    "shl": _shift_inside,
    "ashr": _shift_inside,
    "sdiv": _divide_by_numbers,
    "srem": _divide_by_numbers,
    **dict.fromkeys(FLUSHING, _flush_small),
}
