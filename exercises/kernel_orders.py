"""Let Triton's interpreter do in another way what a GPU does in no promised one.

The interpreter combines the entries of a tile one after the other, and moves none where it may. On a GPU a
reduction pairs entries as it likes, a scan combines halves, and some operations may change the order of
entries. It rounds to the nearest number, where a GPU may join a product with a sum and round once. What a
GPU does promise is in kernel_numbers.py; which operations there are is said in kernel_front.py.

Like serialization.py this file imports nothing of ours.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

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
    """While the block runs, reductions, scans and operations that may reorder do so, and roundings vary.

    Args:
        builder: of the interpreter; what it is given is its own, so whoever made it takes that away again.
        seed: of the orders and roundings; no kernel is to know it.
    """
    from triton.runtime import interpreter as found

    rng = np.random.default_rng(seed)
    round_otherwise = _Rounding(rng)
    ours = {
        (found.ReduceOps, "generic_reduce"): _reduce_by_chance(rng),
        (found.ReduceOps, "sum"): round_otherwise.sum(found.ReduceOps.sum),
        (found.ScanOps, "generic_scan"): _scan,
        (found.ScanOps, "cumsum"): _scan_by(np.add, rng),
        (found.ScanOps, "cumprod"): _scan_by(np.multiply, rng),
    }
    before = {(owner, name): getattr(owner, name) for owner, name in ours}
    for (owner, name), function in ours.items():
        setattr(owner, name, function)
    builder.create_reshape = _reorder_if_allowed(builder.create_reshape, rng)
    builder.create_dot = _multiply_by_parts(builder.create_dot, rng)
    builder.create_fdiv = round_otherwise.divide(builder.create_fdiv)
    for name, exact in ROUNDED.items():
        setattr(builder, f"create_{name}", round_otherwise(getattr(builder, f"create_{name}"), exact))
    builder.create_fma = _fuse(builder.create_fma)
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
