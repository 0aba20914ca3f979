"""Leave to chance what no GPU promises: in which order it sums, and to which side it rounds.

On a GPU a reduction goes through some entries one by one and pairs others, a scan combines stretches, and
some operations may change the order of entries. A product may be joined with a sum and rounded once, and
exponentials have digits of their own. What a GPU does promise is in kernel_numbers.py.

Like serialization.py this file imports nothing of ours.
"""

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

import numpy as np

# takes in two tuples of tiles, entry by entry
Combine = Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]
# Operations whose last digit no GPU promises, and what they are.
ROUNDED: dict[str, Callable[..., Any]] = {
    "arith.divf": np.divide,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.erf": np.vectorize(math.erf, otypes=[np.float64]),
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
}
INEXACT = ("arith.divf", "math.sqrt", "math.rsqrt")  # also where a number would be exact
EXACT_IN_FLOAT64 = ("arith.divf", "math.sqrt")  # as no other operation of these
PARTS = 8  # of a product of tiles
LONGEST = 16  # entries that are taken in one by one
WIDER = {
    np.dtype(np.float16): np.float32,
    np.dtype(np.float32): np.float64,
    np.dtype(np.float64): np.longdouble,
}
# What a product is until it is rounded: a number of two parts, the rounded product and what rounding took
# away. So what moves the one moves the other.
UNROUNDED: dict[np.dtype, np.dtype] = {
    np.dtype(np.float16): np.dtype(np.complex64),
    np.dtype(np.float32): np.dtype(np.complex128),
    np.dtype(np.float64): np.dtype(np.clongdouble),
}
ROUNDED_TO = {pair: kind for kind, pair in UNROUNDED.items()}
LOG2_E = np.float32(math.log2(math.e))
LASTING = ("everywhere", "at its place", "never")  # where what is decided stays so
# cuts numbers of the widest kind in two halves of their digits
CUT = np.longdouble(2 ** math.ceil((np.finfo(np.longdouble).nmant + 1) / 2) + 1)
Drawn = TypeVar("Drawn")


def multiply(a: Any, b: Any) -> Any:
    """Return a product that may still be taken into a sum before it is rounded."""
    return _unite(*find_product(a, b))


def _unite(rounded: Any, left: Any) -> Any:
    """Return a number that is not rounded yet: as it will be rounded, and what that takes away."""
    if not left.any():
        return rounded
    made = np.empty(np.shape(rounded), UNROUNDED[np.result_type(rounded)])
    made.real, made.imag = rounded, left
    return made


def find_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a product and what rounding takes away, exactly; where it is too large, all of the product."""
    kind = np.result_type(a)
    rounded, wide = np.multiply(a, b), WIDER[kind]
    (a, a_low), (b, b_low) = (_halve(np.asarray(x, wide), kind) for x in (a, b))
    left = ((a * b - rounded) + (a * b_low + a_low * b)) + a_low * b_low
    return rounded, np.where(np.isfinite(rounded), left, (a + a_low) * (b + b_low))


def _halve(x: np.ndarray, kind: np.dtype) -> tuple[np.ndarray, Any]:
    """Return numbers in two parts, whose products with such parts are exact in the wider kind."""
    if kind != np.float64:
        return x, x.dtype.type(0)
    high = x * CUT - (x * CUT - x)
    return np.where(np.isfinite(x), high, x), np.where(np.isfinite(x), x - high, 0)


def add(kind: np.dtype, *numbers: Any) -> np.ndarray:
    """Return the sum of three numbers of the wider kind, rounded once."""
    total, left = _add_two(numbers[0], numbers[1])
    total, more = _add_two(total, numbers[2])
    total, left = _add_two(total, left + more)
    even = np.fmod(total / np.spacing(np.abs(total)), 2) == 0
    # where something is left, the neighbour with an odd last bit is rounded as the sum would be
    other = np.nextafter(total, np.where(left > 0, np.inf, -np.inf).astype(total.dtype))
    odd = np.where(even & (left != 0) & np.isfinite(total), other, total)
    pair = numbers[0] + numbers[1]
    plain = np.where(numbers[2] == 0, pair, pair + numbers[2])
    return np.where(np.isfinite(plain) & (plain != 0), odd, plain).astype(kind)


def _add_two(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a sum, and what rounding has taken away."""
    total = np.add(a, b)
    part = total - a
    return total, (a - (total - part)) + (b - part)


def is_unrounded(x: Any) -> bool:
    """Return whether a number, or a tile, is a product that is not rounded yet."""
    return getattr(x, "dtype", None) in ROUNDED_TO


def round_off(x: Any) -> Any:
    """Return a number, or a tile, with products in it rounded."""
    return np.asarray(x.real).astype(ROUNDED_TO[x.dtype]) if is_unrounded(x) else x


def convert(x: Any, kind: np.dtype) -> np.ndarray:
    """Return numbers as others are: with a part that rounding took away, or without."""
    made = np.array(round_off(x) if kind not in ROUNDED_TO else x, kind)
    if kind in ROUNDED_TO and not is_unrounded(x):  # as ``find_product`` has what is not finite
        made.imag = np.where(np.isfinite(made.real), 0, made.real)
    return made


class Chance:
    """Decide what is left open.

    A GPU does the same with equal numbers each time that it comes to an instruction, and mostly at other
    places as well. So there are three kinds of launches, in equal shares: what is alike is decided once, or
    once at each place of the code (digits still once for all places, of which a GPU has one kind), or each
    time anew. In all of them ``reshape`` gives alike tiles one order.

    Args:
        seed: no kernel that is judged may know it, nor compute it from its inputs.

    Attributes:
        place: of the code at which the launch is; whoever runs the code sets it.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.place = 0
        self._lasting = LASTING[self.rng.integers(len(LASTING))]
        self._decided: dict[Hashable, Any] = {}  # what is alike, and its place if that matters
        self._moved: dict[tuple[tuple[int, ...], ...], np.ndarray] = {}  # by shape before and after: orders

    def happens(self, share: float = 0.5) -> bool:
        """Return True so often."""
        return self.rng.random() < share

    def _decide(self, what: Hashable, draw: Callable[[], Drawn], is_placed: bool = True) -> Drawn:
        """Return what is drawn, or what was drawn first for the same.

        Args:
            what: is decided.
            draw: draws it.
            is_placed: whether a GPU may decide it in one way at one place and in another at the next.
        """
        if self._lasting == "never":
            return draw()
        key = (self.place, what) if is_placed and self._lasting == "at its place" else what
        if key not in self._decided:
            self._decided[key] = draw()
        found: Drawn = self._decided[key]
        return found

    # --- roundings ---------------------------------------------------------------------------------------

    def compute(self, name: str, *numbers: Any) -> Any:
        """Return what an operation of ``ROUNDED`` gives, or the number on the other side of it."""
        exact, kind = ROUNDED[name], np.result_type(numbers[0])
        if kind == np.float64 and name in EXACT_IN_FLOAT64:
            return exact(*numbers)
        if name == "arith.divf" and kind == np.float32:
            return self._divide(*numbers)
        if name == "math.exp" and kind == np.float32 and self._decide("power", self.happens, False):
            # a power of 2, of a rounded product
            name, exact, numbers = "math.exp2", np.exp2, (np.multiply(numbers[0], LOG2_E),)
        true = exact(*(np.asarray(x, WIDER[kind]) for x in numbers))
        rounded = exact(*numbers) if name == "arith.divf" else true.astype(kind)
        if name in INEXACT:  # on a GPU x / x may be below 1 or above, but not a quotient by a power of 2
            beside = np.where(self._decide((name, "beside"), self.happens, False), 0, 2 * rounded)
            true = np.where((rounded == true) & (np.abs(np.frexp(numbers[-1])[0]) != 0.5), beside, true)
        return self._choose(name, np.asarray(rounded), true)

    def _divide(self, a: np.ndarray, b: np.ndarray) -> Any:
        """Return a quotient of float32 as a GPU makes it: a product with 1 / b, which may be rounded late."""
        part, power = np.frexp(b)
        exact = 1 / np.asarray(part, np.float64)
        inverse = self._choose("inverse", exact.astype(np.float32), exact)
        whole = np.ldexp(a * np.asarray(inverse, np.float64), np.where(np.isfinite(b), -power, 0))
        rounded = whole.astype(np.float32)
        return _unite(rounded, np.where(np.isfinite(rounded), whole - rounded, whole))

    def _choose(self, name: str, rounded: np.ndarray, true: np.ndarray) -> np.ndarray:
        """Return a number, or the next on the other side of what it was before it was rounded; equal ones
        alike, and those that differ in their sign or by a power of 2.

        Args:
            name: of the operation.
            rounded: the numbers.
            true: what they were.
        """
        away = (rounded != true) & np.isfinite(rounded)
        if not away.any():
            return rounded
        bits = rounded.view(f"u{rounded.dtype.itemsize}")
        last = 8 * bits.itemsize - 1
        factor, more = self._decide(("digits", name), self._draw_bits, False).astype(bits.dtype)
        digits = bits << (last + 1 - np.finfo(rounded.dtype).nmant)  # those behind the point
        # a bit that depends on all digits, and on neither sign nor exponent
        away &= (digits * (factor | bits.dtype.type(1)) + more >> last).astype(bool)
        towards = np.where(true > rounded, np.inf, -np.inf).astype(rounded.dtype)
        other = np.nextafter(rounded, towards)
        return np.where(away, other, rounded)

    def _draw_bits(self) -> np.ndarray:
        """Return two numbers of 64 bits."""
        return self.rng.integers(1 << 64, size=2, dtype=np.uint64)

    def join(self, sign: int, left: Any, right: Any) -> Any:
        """Return a sum (a difference, if the sign is -1), which may take in a product before it is rounded.

        Args:
            sign: of what stands on the right.
            left, right: the numbers; see ``multiply``.
        """
        parts = [round_off(left), round_off(right)]
        kind = np.result_type(parts[0])
        for n, one in enumerate((left, right)):
            if is_unrounded(one) and self._decide(("joins", n), self.happens):  # the other one is rounded
                rounded, beside = (np.asarray(x, WIDER[kind]) for x in (one.real, parts[1 - n]))
                rounded = np.where(np.isfinite(rounded), rounded, 0)  # then all of the product is beside it
                product, rest = (sign * x if n else x for x in (rounded, one.imag))
                return add(kind, product, beside if n else sign * beside, rest)
        return np.asarray(parts[0] + sign * parts[1]).astype(kind)

    def multiply_tiles(self, a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return ``total + a @ b``; at times it begins at the total and takes in the factors one by one, each
        rounded with the sum, or part by part."""
        a, b, kind = a.astype(total.dtype), b.astype(total.dtype), total.dtype
        wide = WIDER[kind]
        way = self._decide("products", lambda: int(self.rng.integers(3)))
        if way == 0:
            for column, row in zip(np.moveaxis(a, -1, 0), np.moveaxis(b, -2, 0), strict=True):
                product = column[..., :, None].astype(wide) * row[..., None, :]
                total = (product + total).astype(kind)
            return total
        if way == 1:
            size = max(1, a.shape[-1] // PARTS)
            for n in range(0, a.shape[-1], size):
                total = total + a[..., n : n + size] @ b[..., n : n + size, :]
            return total
        true = a.astype(wide) @ b.astype(wide) + total
        return self._choose("products", a @ b + total, true)

    # --- orders -------------------------------------------------------------------------------------------

    def reduce(self, tiles: list[np.ndarray], combine: Combine) -> list[np.ndarray]:
        """Return what is made of the entries along the first axis, whose number is a power of 2."""
        tiles = self._take_in(tiles, combine, self._find_stretch(len(tiles[0])))
        while (half := len(tiles[0]) // 2) > 0:
            first, second = self._decide(("pairs", half), partial(self._draw_pairs, half))
            tiles = combine([x[first] for x in tiles], [x[second] for x in tiles])
        return [x[0] for x in tiles]

    def _draw_pairs(self, half: int) -> np.ndarray:
        """Return numbers in pairs; a GPU does not say which of two comes first."""
        numbers = np.arange(2 * half)
        pairs = numbers.reshape(2, half) if self.happens() else numbers.reshape(half, 2).T
        return self.rng.permuted(pairs, axis=0)

    def _find_stretch(self, count: int) -> int:
        """Return how many entries a thread of a GPU has taken in one by one, a power of 2."""
        most = min(count.bit_length(), LONGEST.bit_length())
        return 1 << self._decide(("stretch", count), lambda: int(self.rng.integers(most)))

    def _take_in(self, tiles: list[np.ndarray], combine: Combine, length: int) -> list[np.ndarray]:
        """Return what is made of stretches of so many entries, one after the other."""
        near = self._decide("near", self.happens)
        parts = [_cut(x, length, near) for x in tiles]
        made = [x[0] for x in parts]
        for n in range(1, length):
            made = combine(made, [x[n] for x in parts])
        return made

    def scan(self, tiles: list[np.ndarray], combine: Combine) -> list[np.ndarray]:
        """Return what is made of the entries up to each, along the first axis: stretches one by one, and
        what ends each of them by doubling distances."""
        length = self._find_stretch(len(tiles[0]))
        parts = [_cut(x, length, True) for x in tiles]
        steps = [[x[0] for x in parts]]
        for n in range(1, length):
            steps.append(combine(steps[-1], [x[n] for x in parts]))
        before = _double(steps[-1], combine)
        whole = [combine([x[:-1] for x in before], [x[1:] for x in step]) for step in steps]
        joined = [
            [np.concatenate([step[k][:1], more[k]]) for step, more in zip(steps, whole, strict=True)]
            for k in range(len(tiles))
        ]
        return [np.stack(x, 1).reshape(tile.shape) for x, tile in zip(joined, tiles, strict=True)]

    def reshape(self, tile: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a tile of another shape whose entries come in any order, in alike tiles in the same."""
        shapes, entries = (np.shape(tile), shape), np.arange(np.size(tile))
        if shapes not in self._moved:
            self._moved[shapes] = self.rng.permutation(entries) if self.happens(0.75) else entries
        return np.reshape(tile, -1)[self._moved[shapes]].reshape(shape)

    # --- what nobody has written --------------------------------------------------------------------------

    def draw_anything(self, shape: tuple[int, ...], kind: np.dtype, most: float) -> np.ndarray:
        """Return what may stand where nothing was written: 0, NaN, another number, or any of these."""
        one = self._decide("anything", partial(self._draw_one, most))
        if one is not None:
            with np.errstate(invalid="ignore"):  # NaN is a whole number, too, if one asks a processor
                return np.full(shape, one).astype(kind)
        numbers = self.rng.uniform(-most, most, shape)
        if kind.kind != "f":
            return numbers.astype(kind)
        return np.where(self.rng.random(shape) < 0.3, np.nan, numbers).astype(kind)

    def _draw_one(self, most: float) -> float | None:
        """Return what stands in all places, if one thing does."""
        return (0.0, math.nan, self.rng.uniform(-most, most), None)[self.rng.integers(4)]


def _cut(tile: np.ndarray, length: int, near: bool) -> np.ndarray:
    """Return the n-th entries of all stretches of a length, for each n; stretches of neighbours, or not."""
    if near:
        return np.moveaxis(tile.reshape(-1, length, *tile.shape[1:]), 1, 0)
    return tile.reshape(length, -1, *tile.shape[1:])


def _double(tiles: list[np.ndarray], combine: Combine) -> list[np.ndarray]:
    """Return the scan of tiles along their first axis by doubling distances."""
    distance = 1
    while distance < len(tiles[0]):
        made = combine([x[:-distance] for x in tiles], [x[distance:] for x in tiles])
        tiles = [np.concatenate([x[:distance], y]) for x, y in zip(tiles, made, strict=True)]
        distance *= 2
    return tiles
