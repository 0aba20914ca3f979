"""Let Triton's interpreter do in another way what a GPU does in no promised one, and doubt false promises.

The interpreter combines the entries of a tile one after the other, and moves none where it may. On a GPU a
reduction pairs entries as it likes, a scan combines halves, and some operations may change the order of
entries. It rounds to the nearest number, where a GPU may join a product with a sum and round once. And where
a kernel promises that offsets are multiples of something, a GPU believes it. Casts, shifts, maxima, roots and
divisions meet numbers that NumPy takes otherwise than a GPU. Which operations there are besides is said in
kernel_front.py.

Like serialization.py this file imports nothing of ours.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

# what `multiple_of`, `max_contiguous` and `max_constancy` promise
DIVISIBILITY, CONTIGUITY, CONSTANCY = "tt.divisibility", "tt.contiguity", "tt.constancy"
# what takes numbers of float32 below 2^-126 for 0 on a GPU
FLUSHING = ("floor", "ceil", "sqrt", "rsqrt", "sin", "erf", "exp2")
# Operations whose last digit no GPU promises, for it joins a product with the sum that follows and has
# exponentials of its own; and what they are.
ROUNDED: dict[str, Callable[..., Any]] = {
    "fmul": np.multiply,
    "dot": lambda a, b, c: a @ b + c,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
}
PARTS = 8  # of a product of tiles
NEARLY_HALF = 0.25  # the share of a last digit from which on a product may be rounded to the other side
WIDER = {
    np.dtype(np.float16): np.float32,
    np.dtype(np.float32): np.float64,
    np.dtype(np.float64): np.longdouble,
}


class SeveralTruths(TypeError):
    """Say that a tile is taken as one truth value."""


@contextlib.contextmanager
def use_other_orders(builder: Any, seed: int) -> Iterator[None]:
    """While the block runs, reductions, scans and operations that may reorder do so.

    Args:
        builder: of the interpreter; what it is given is its own, so whoever made it takes that away again.
        seed: of the orders and roundings; no kernel is to know it.
    """
    from triton.runtime import interpreter as found

    rng = np.random.default_rng(seed)
    round_otherwise = _Rounding(rng)
    ours = {
        (found.ReduceOps, "generic_reduce"): _reduce_by_chance(rng),
        (found.ReduceOps, "min_max"): _find_numbers(found.ReduceOps.min_max),
        (found.ReduceOps, "sum"): round_otherwise.sum(found.ReduceOps.sum),
        (found.ScanOps, "generic_scan"): _scan,
        (found.ScanOps, "cumsum"): _scan_by(np.add, rng),
        (found.ScanOps, "cumprod"): _scan_by(np.multiply, rng),
        (found.TensorHandle, "set_attr"): _make_promise(found.TensorHandle.set_attr),
    }
    before = {(owner, name): getattr(owner, name) for owner, name in ours}
    for (owner, name), function in ours.items():
        setattr(owner, name, function)
    builder.create_reshape = _reorder_if_allowed(builder.create_reshape, rng)
    builder.create_splat = _keep_truths(builder.create_splat)
    builder.create_add = _refuse_truths(builder.create_add)
    # of a number and NaN the first two take the number, as a GPU does, and the others NaN
    for name, choose in (("num", (np.fmax, np.fmin)), ("imum", (np.maximum, np.minimum))):
        setattr(builder, f"create_max{name}f", partial(builder.binary_op, op=partial(_order, choose[0], 1)))
        setattr(builder, f"create_min{name}f", partial(builder.binary_op, op=partial(_order, choose[1], -1)))
    builder.create_dot = _multiply_by_parts(builder.create_dot, rng)
    builder.get_fp16 = lambda x: builder.cast_impl(builder.get_fp32(x), found.tl.float16)  # rounds twice
    builder.create_advance = _advance_inside(builder.create_advance)
    builder.create_fdiv = round_otherwise.divide(builder.create_fdiv)
    for name, exact in ROUNDED.items():
        setattr(builder, f"create_{name}", round_otherwise(getattr(builder, f"create_{name}"), exact))
    for name in FLUSHING:
        setattr(builder, f"create_{name}", _flush_small(getattr(builder, f"create_{name}")))
    builder.create_fma = _fuse(builder.create_fma)
    builder.create_fp_to_si = _cast_inside(builder.create_fp_to_si)
    builder.create_iabs = _refuse_least(builder.create_iabs)
    for name in ("create_shl", "create_ashr"):
        setattr(builder, name, _shift_inside(getattr(builder, name)))
    for name in ("create_sdiv", "create_srem"):
        setattr(builder, name, _divide_by_numbers(getattr(builder, name)))
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)


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


def _reduce_by_chance(rng: np.random.Generator) -> Callable[..., list[Any]]:
    """Return a reduction that pairs entries in an order which nobody knows before."""

    def reduce(self: Any, values: Any) -> list[Any]:
        whole = self.axis is None
        values, axis = self.unravel(values, self.axis)
        dims, types = len(values[0].handle.data.shape), [x.dtype for x in values]
        arrays = [np.moveaxis(x.handle.data, axis, 0) for x in values]
        while (half := len(arrays[0]) // 2) > 0:
            order = rng.permuted(_pair(half, rng), axis=0)  # a GPU does not say which of two comes first
            arrays = _combine(self, [a[order[0]] for a in arrays], [a[order[1]] for a in arrays], types)
        results = []
        for a, kind in zip(arrays, types, strict=True):
            left = np.moveaxis(a, 0, axis) if self.keep_dims and not whole else a[0]
            if whole:
                left = left.reshape((1,) * dims) if self.keep_dims else left.item()
            results.append(self.to_tensor(left, kind))
        return results

    return reduce


def _pair(half: int, rng: np.random.Generator) -> np.ndarray:
    """Return which entries are combined: neighbours, or those of the first half with those of the second."""
    order = np.arange(2 * half)
    return order.reshape(2, half) if rng.random() < 0.5 else order.reshape(half, 2).T


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


def _scan(self: Any, values: Any) -> list[Any]:
    """Scan by a function: each entry takes in what ends one, two, four ... entries before it."""
    types = [x.dtype for x in values]
    arrays = [np.moveaxis(x.handle.data, self.axis, 0) for x in values]
    arrays = _double(arrays, lambda earlier, now: _combine(self, earlier, now, types))
    return [self.to_tensor(np.moveaxis(a, 0, self.axis), kind) for a, kind in zip(arrays, types, strict=True)]


def _scan_by(combine: np.ufunc, rng: np.random.Generator) -> Callable[..., list[Any]]:
    """Return a scan by a sum or a product, in the same order or one by one."""

    def scan(self: Any, values: Any) -> list[Any]:
        tile = np.moveaxis(values.handle.data, self.axis, 0)
        if rng.random() < 0.5:
            made = combine.accumulate(tile, axis=0, dtype=tile.dtype)
        else:
            (made,) = _double([tile], lambda earlier, now: [combine(earlier[0], now[0])])
        return [self.to_tensor(np.moveaxis(made, 0, self.axis).astype(tile.dtype), values.dtype)]

    return scan


def _double(
    arrays: list[np.ndarray], combine: Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]
) -> list[np.ndarray]:
    """Return the scan of arrays along their first axis by doubling distances."""
    distance = 1
    while distance < len(arrays[0]):
        earlier = [np.roll(a, distance, 0) for a in arrays]  # whole tiles: their sizes are powers of 2
        made = combine(earlier, arrays)
        arrays = [np.concatenate([a[:distance], b[distance:]]) for a, b in zip(arrays, made, strict=True)]
        distance *= 2
    return arrays


# --- roundings ----------------------------------------------------------------------------------------------


class _Rounding:
    """Let operations round to either of the two numbers beside what they are, equal ones alike."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self, operation: Callable[..., Any], exact: Callable[..., Any]) -> Callable[..., Any]:
        """Return an operation that rounds by chance.

        Args:
            operation: of the interpreter.
            exact: takes arrays of more digits.
        """
        count = exact.nin if isinstance(exact, np.ufunc) else exact.__code__.co_argcount

        def round_by_chance(*arguments: Any) -> Any:
            made = operation(*arguments)
            if (wider := WIDER.get(made.data.dtype)) is not None:
                true = exact(*(one.data.astype(wider) for one in arguments[:count]))
                made.data = self._choose(made.data, true, NEARLY_HALF if exact is np.multiply else 0.0)
            return made

        return round_by_chance

    def divide(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Return a division whose last digit is left to chance: on a GPU x / x may be below 1."""

        def divide_by_chance(left: Any, right: Any) -> Any:
            made = operation(left, right)
            if (wider := WIDER.get(made.data.dtype)) is not None:
                true = left.data.astype(wider) / right.data.astype(wider)
                exact = (made.data == true) & (np.abs(np.frexp(right.data)[0]) != 0.5)  # and no power of 2
                made.data = self._choose(made.data, np.where(exact, 0, true))
            return made

        return divide_by_chance

    def sum(self, add: Callable[..., Any]) -> Callable[..., Any]:
        """Return a sum of a tile's entries in an order by chance, that rounds at each step."""

        def sum_by_chance(ops: Any, tile: Any) -> Any:
            data, how = tile.handle.data, {"axis": ops.axis, "keepdims": ops.keep_dims}
            if data.dtype.kind == "i":  # NumPy would take more digits, and a GPU wraps
                return ops.to_tensor(data.sum(**how, dtype=data.dtype), tile.dtype)
            if data.dtype.kind == "f":
                return ops.to_tensor(_sum_by_halves(data, **how, rng=self._rng), tile.dtype)
            return add(ops, tile)

        return sum_by_chance

    def _choose(self, rounded: np.ndarray, true: np.ndarray, least: float = 0.0) -> np.ndarray:
        """Return a number, or the next on the other side of what it was before it was rounded.

        Args:
            rounded: the numbers.
            true: what they were.
            least: the share of a last digit by which they must differ.
        """
        away = (rounded != true) & np.isfinite(rounded)
        if not away.any():
            return rounded
        bits = rounded.view(f"u{rounded.dtype.itemsize}")
        odd = bits.dtype.type(2 * self._rng.integers(1 << 14) + 1)
        # a bit that depends on all bits of the number
        away &= (bits * odd >> (8 * bits.itemsize - 1)).astype(bool)
        towards = np.where(true > rounded, np.inf, -np.inf).astype(rounded.dtype)
        other = np.nextafter(rounded, towards)
        away &= np.abs(true - rounded) > least * np.abs(other.astype(true.dtype) - rounded)
        return np.where(away, other, rounded)


def _sum_by_halves(
    data: np.ndarray, axis: int | None, keepdims: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return a sum in which one half of the entries is added to the other, until one is left."""
    rows = data.reshape(-1) if axis is None else np.moveaxis(data, axis, 0)
    rows = rows[rng.permutation(len(rows))]
    while (half := len(rows) // 2) > 0:
        rows = rows[:half] + rows[half:]
    shape = (1,) * data.ndim if axis is None else np.expand_dims(rows[0], axis).shape
    return rows[0].reshape(shape) if keepdims else rows[0]


def _multiply_by_parts(multiply: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    """Return ``dot``, which at times begins at what it adds to and takes in the factors part by part."""

    def multiply_by_parts(a: Any, b: Any, total: Any, *options: Any) -> Any:
        made = multiply(a, b, total, *options)
        if made.data.dtype.kind == "f" and rng.random() < 0.5:
            left, right = a.data.astype(made.data.dtype), b.data.astype(made.data.dtype)
            made.data, size = np.array(total.data), max(1, left.shape[-1] // PARTS)
            for n in range(0, left.shape[-1], size):
                made.data = made.data + left[..., n : n + size] @ right[..., n : n + size, :]
        return made

    return multiply_by_parts


def _fuse(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fma``, which rounds once."""

    def round_once(*factors: Any) -> Any:
        made = operation(*factors)
        a, b, c = (one.data.astype(WIDER[made.data.dtype]) for one in factors)
        made.data = (a * b + c).astype(made.data.dtype)
        return made

    return round_once


# --- what may reorder ---------------------------------------------------------------------------------------


def _reorder_if_allowed(reshape: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    """Return ``reshape``, which at times reverses the order of entries where it may (as in ``tl.view``)."""

    def reshape_otherwise(tile: Any, shape: Any, may: bool) -> Any:
        made = reshape(tile, shape, may)
        made.data = np.flip(made.data) if may and rng.random() < 0.5 else made.data
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
