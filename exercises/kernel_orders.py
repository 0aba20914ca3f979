"""Let Triton's interpreter do in another order what a GPU does in no promised one, and doubt false promises.

The interpreter combines the entries of a tile one after the other, and moves none where it may. On a GPU a
reduction pairs entries as it likes, a scan combines halves, and some operations may change the order of
entries. And where a kernel promises that offsets are multiples of something, a GPU believes it. Casts,
shifts, maxima and divisions meet numbers that NumPy takes otherwise than a GPU. Which operations there are
besides is said in kernel_front.py.

Like serialization.py this file imports nothing of ours.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

# what `multiple_of`, `max_contiguous` and `max_constancy` promise
DIVISIBILITY, CONTIGUITY, CONSTANCY = "tt.divisibility", "tt.contiguity", "tt.constancy"


class SeveralTruths(TypeError):
    """Say that a tile is taken as one truth value."""


@contextlib.contextmanager
def use_other_orders(builder: Any) -> Iterator[None]:
    """While the block runs, reductions, scans and operations that may reorder do so.

    Args:
        builder: of the interpreter; what it is given is its own, so whoever made it takes that away again.
    """
    from triton.runtime import interpreter as found

    before = found.ScanOps.generic_scan, found.TensorHandle.set_attr
    reduce, find_most = found.ReduceOps.generic_reduce, found.ReduceOps.min_max
    found.ReduceOps.generic_reduce, found.ScanOps.generic_scan = _reduce, _scan
    found.ReduceOps.min_max = _find_numbers(find_most)
    found.TensorHandle.set_attr = _make_promise(before[1])
    builder.create_reshape = _reorder_if_allowed(builder.create_reshape)
    builder.create_splat = _keep_truths(builder.create_splat)
    builder.create_add = _refuse_truths(builder.create_add)
    # of a number and NaN the number is taken, as by a GPU; Triton's other two functions hand NaN on
    builder.create_maxnumf = lambda left, right: builder.binary_op(left, right, np.fmax)
    builder.create_minnumf = lambda left, right: builder.binary_op(left, right, np.fmin)
    builder.create_clampf = partial(_clamp, builder)
    builder.create_fp_to_si = _cast_inside(builder.create_fp_to_si)
    for name in ("create_shl", "create_ashr"):
        setattr(builder, name, _shift_inside(getattr(builder, name)))
    for name in ("create_sdiv", "create_srem"):
        setattr(builder, name, _divide_by_numbers(getattr(builder, name)))
    try:
        yield
    finally:
        found.ScanOps.generic_scan, found.TensorHandle.set_attr = before
        found.ReduceOps.generic_reduce, found.ReduceOps.min_max = reduce, find_most


# --- reductions and scans -----------------------------------------------------------------------------------


def _combine(
    ops: Any, left: list[np.ndarray], right: list[np.ndarray], types: Sequence[Any]
) -> list[np.ndarray]:
    """Return what the function of a reduction or scan makes of two tiles, entry by entry."""
    try:
        return _combine_whole(ops, left, right, types)
    except SeveralTruths:  # for the compiler the function is one of numbers, which `if` and `max` may take
        shape = left[0].shape
        pairs = [
            [[a.reshape(-1)[n : n + 1] for a in side] for side in (left, right)] for n in range(left[0].size)
        ]
        entries = [_combine_whole(ops, one, other, types) for one, other in pairs]
        return [np.concatenate(made).reshape(shape) for made in zip(*entries, strict=True)]


def _combine_whole(
    ops: Any, left: list[np.ndarray], right: list[np.ndarray], types: Sequence[Any]
) -> list[np.ndarray]:
    """Return what ``_combine`` does, of a function that takes tiles."""
    pairs = [
        (ops.to_tensor(a, kind), ops.to_tensor(b, kind))
        for a, b, kind in zip(left, right, types, strict=True)
    ]
    made = ops.combine_fn.rewrite()(*(a for a, _ in pairs), *(b for _, b in pairs))
    parts = made if isinstance(made, tuple) or hasattr(made, "values") else (made,)
    arrays = [np.asarray(getattr(getattr(one, "handle", None), "data", one)) for one in parts]
    return [np.broadcast_to(one, a.shape).astype(a.dtype) for one, a in zip(arrays, left, strict=True)]


def _reduce(self: Any, values: Any) -> list[Any]:
    """Reduce by pairing the entries of the first half with those of the second, until one is left.

    Every second pair is exchanged, others in each step: a GPU does not say which of two comes first.
    """
    whole = self.axis is None
    values, axis = self.unravel(values, self.axis)
    dims, types = len(values[0].handle.data.shape), [x.dtype for x in values]
    arrays = [np.moveaxis(x.handle.data, axis, 0) for x in values]
    step = 0
    while (half := len(arrays[0]) // 2) > 0:
        order = np.arange(2 * half).reshape(2, half)
        order[:, step % 2 :: 2] = order[::-1, step % 2 :: 2].copy()
        arrays = _combine(self, [a[order[0]] for a in arrays], [a[order[1]] for a in arrays], types)
        step += 1
    results = []
    for a, kind in zip(arrays, types, strict=True):
        left = np.moveaxis(a, 0, axis) if self.keep_dims and not whole else a[0]
        if whole:
            left = left.reshape((1,) * dims) if self.keep_dims else left.item()
        results.append(self.to_tensor(left, kind))
    return results


def _find_numbers(find_most: Callable[..., Any]) -> Callable[..., Any]:
    """Return what finds a largest or least entry and its place, which refuses NaN."""

    def find_checked(self: Any, values: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        tile = values[0] if isinstance(values, tuple) else values
        if idx_reduce_op is not None and (tile.handle.data != tile.handle.data).any():
            raise ValueError("asks in which place the largest of numbers and NaN is; a GPU may say any")
        return find_most(self, values, val_reduce_op, idx_reduce_op)

    return find_checked


def _scan(self: Any, values: Any) -> list[Any]:
    """Scan by doubling: each entry takes in what ends one, two, four ... entries before it."""
    types = [x.dtype for x in values]
    arrays = [np.moveaxis(x.handle.data, self.axis, 0) for x in values]
    distance = 1
    while distance < len(arrays[0]):
        earlier = [np.roll(a, distance, 0) for a in arrays]  # whole tiles: their sizes are powers of 2
        made = _combine(self, earlier, arrays, types)
        arrays = [np.concatenate([a[:distance], b[distance:]]) for a, b in zip(arrays, made, strict=True)]
        distance *= 2
    return [self.to_tensor(np.moveaxis(a, 0, self.axis), kind) for a, kind in zip(arrays, types, strict=True)]


# --- what may reorder ---------------------------------------------------------------------------------------


def _reorder_if_allowed(reshape: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``reshape``, which reverses the order of entries where it may (as in ``tl.view``)."""

    def reshape_otherwise(tile: Any, shape: Any, may: bool) -> Any:
        made = reshape(tile, shape, may)
        made.data = np.flip(made.data) if may else made.data
        return made

    return reshape_otherwise


# --- promises and truths ------------------------------------------------------------------------------------


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


def _cast_inside(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Return a cast to whole numbers that refuses those which are none of the type, and NaN."""

    def cast_inside(tile: Any, kind: Any) -> Any:
        made = cast(tile, kind)
        limits, data = np.iinfo(made.data.dtype), np.trunc(np.asarray(tile.data, np.float64))
        if not (inside := (data >= limits.min) & (data <= limits.max)).all():
            raise ValueError(f"casts {data[~inside].flat[0]:g} to {kind.scalar}, which has no such number")
        return made

    return cast_inside


def _clamp(builder: Any, tile: Any, low: Any, high: Any, propagate: Any) -> Any:
    """Return ``clamp``: NaN becomes the lower bound, unless it is to be handed on."""
    if "ALL" in str(propagate):
        return builder.ternary_op(tile, low, high, np.clip)
    return builder.create_minnumf(builder.create_maxnumf(tile, low), high)


def _shift_inside(shift: Callable[..., Any]) -> Callable[..., Any]:
    """Return a shift that refuses one by as many bits as a number has, or by fewer than none."""

    def shift_inside(tile: Any, by: Any) -> Any:
        bits, by_all = 8 * tile.data.dtype.itemsize, np.asarray(by.data)
        if ((by_all < 0) | (by_all >= bits)).any():
            raise ValueError(f"shifts numbers of {bits} bits by {by_all.max()}, and a GPU may give anything")
        return shift(tile, by)

    return shift_inside


def _divide_by_numbers(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a division of whole numbers, which refuses one by 0."""

    def divide_checked(left: Any, right: Any) -> Any:
        if (np.asarray(right.data) == 0).any():
            raise ZeroDivisionError("divides a whole number by 0, and a GPU may give anything")
        return divide(left, right)

    return divide_checked


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
