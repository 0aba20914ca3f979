"""Run a kernel as its compiler reads it: Triton's intermediate code, with NumPy in place of a GPU.

What a kernel's text says is for Triton's compiler to decide; a GPU is given this code and nothing else. Its
text is read in kernel_code.py. What operations give is in kernel_numbers.py, and in kernel_orders.py where
GPUs leave it open. Like serialization.py this file imports little of ours.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

if __package__:
    from linattn_exercises import kernel_code, kernel_memory, kernel_numbers, kernel_orders
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_code, kernel_memory, kernel_numbers, kernel_orders = (
        sys.modules[f"kernel_{name}"] for name in ("code", "memory", "numbers", "orders")
    )

ANYTHING = 3e4  # as large may be what a GPU leaves where a mask leaves something out; or NaN, or 0
# operations that take the smallest numbers of float32 for 0 on a GPU, among those with free last digits
FLUSHING = ("math.exp2", "math.sqrt", "math.rsqrt", "math.sin", "math.erf")
SUMS = {"arith.addf": 1, "arith.subf": -1}
EXPONENTIALS = ("math.exp", "math.exp2", "math.log", "math.log2")
# what computes nothing; threads of a program, for which there is a barrier, are not told apart here
IN_VAIN = ("tt.print", "ttg.barrier", "gpu.barrier")
# what only moves entries, so that a product may still be rounded after it
MOVES = {f"tt.{name}" for name in ("splat", "unsplat", "broadcast", "expand_dims", "reshape", "trans")}
MOVES |= {"tt.join", "tt.split"}

NOTHING = object()  # in the place of what has no value
NO_VALUE = (
    "computes with what has no value there: in Triton a loop's variable has none after its loop, and a "
    "function that ends without `return` gives none"
)
# which operands are used where others are handed on, which what has no value may be
USED = {"scf.for": slice(1, 4), "arith.select": slice(1), "scf.while": slice(0), "tt.call": slice(0)}

Values = dict[str, Any]  # by name in the code
Compute = Callable[..., Any]  # of operands
Step = Callable[[Values], None]


class Leave(NamedTuple):
    """Say where a block leads: to a block of the region, or out of it.

    Args:
        label: of the block; "" is out of the region.
        values: that are handed on.
    """

    label: str
    values: tuple[Any, ...]


@dataclass
class Block:
    """Hold what is done one after the other.

    Args:
        arguments: names of the values that it is given.
        steps: each with the number of its line.
        end: the last one.
        end_line: the number of its line.
    """

    arguments: list[str]
    steps: list[tuple[int, Step]] = field(default_factory=list)
    end: Callable[[Values], Leave] = field(default=lambda values: Leave("", ()))
    end_line: int = 0


Region = dict[str, Block]  # by label, that where it begins first


@dataclass
class Launch:
    """Hold what programs of one launch have in common, and count what they compute.

    Args:
        memory: what has the values of tensors.
        grid: how many programs there are along three axes.
        chance: decides what a GPU leaves open.
    """

    memory: kernel_memory.Memory
    grid: tuple[int, ...]
    chance: kernel_orders.Chance
    program: int = 0
    products: int = 0
    exponentials: int = 0


class Machine:
    """Run intermediate code.

    Args:
        code: see ``kernel_code.read``.
        texts: those of the kernel, by their numbers in the code.
        find_line: takes the text of an operation, and returns file and number of the line of the kernel that
            it comes from, or None.

    Raises:
        kernel_code.Unknown: if an operation or a type is not known here.
    """

    def __init__(
        self,
        code: kernel_code.Code,
        texts: Sequence[str],
        find_line: Callable[[str], tuple[str, int] | None],
    ) -> None:
        self._code, self.texts, self._find_line = code, texts, find_line
        self.launch: Launch
        self._may_lack = any("ub.poison" in line for line in code.lines)
        self._bodies = {name: self._prepare(one.body) for name, one in code.functions.items()}

    def run(self, launch: Launch, programs: Sequence[int], arguments: Sequence[Any]) -> None:
        """Run programs one after the other.

        Args:
            launch: what they have in common.
            programs: their numbers, in order.
            arguments: numbers, and addresses of tensors; those of which the compiler made constants left out.

        Raises:
            Exception: what an operation raises, with the line of the kernel in its traceback.
        """
        self.launch = launch
        kinds = self._code.functions[self._code.main].kinds
        given = [kind.dtype.type(x) for kind, x in zip(kinds, arguments, strict=True)]
        with np.errstate(all="ignore"):  # a GPU does not warn of a logarithm of 0 either
            for program in programs:
                launch.program = program
                self._call(self._code.main, given)

    def _prepare(self, region: kernel_code.Region) -> Region:
        """Return what the blocks of a region do."""
        prepared = {label: Block(block.arguments) for label, block in region.items()}
        for label, block in region.items():
            for operation in block.operations:
                if operation.name in ENDS:
                    prepared[label].end = ENDS[operation.name](operation)
                    prepared[label].end_line = operation.line
                else:
                    step = self._make_step(operation, [self._prepare(one) for one in operation.regions])
                    step = _refuse_nothing(operation, step) if self._may_lack else step
                    prepared[label].steps.append((operation.line, step))
        return prepared

    def _make_step(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return what does an operation."""
        if operation.name in WITH_REGIONS:
            return WITH_REGIONS[operation.name](self, operation, regions)
        if operation.name in SUMS:
            return self._make_sum(operation)
        compute, results, operands = self._find_function(operation), operation.results, operation.operands
        take = _keep if operation.name in MOVES else kernel_orders.round_off
        if len(results) == 1:
            result = results[0]

            def step(values: Values) -> None:
                values[result] = compute(*[take(values[name]) for name in operands])

            return step

        def step_with_several(values: Values) -> None:
            values.update(
                zip(results, compute(*[take(values[name]) for name in operands]) or (), strict=True)
            )

        return step_with_several

    def _make_sum(self, operation: kernel_code.Operation) -> Step:
        """Return a sum or difference, of which a GPU may join one part with the product that it is."""
        (result,), (left, right), sign = operation.results, operation.operands, SUMS[operation.name]

        def add(values: Values) -> None:
            values[result] = self.launch.chance.join(sign, values[left], values[right])

        return add

    def _find_function(self, operation: kernel_code.Operation) -> Callable[..., Any]:
        """Return what an operation gives, as a function of its operands."""
        name = operation.name
        if name in ("arith.cmpi", "arith.cmpf"):
            compare = kernel_numbers.compare_whole if name == "arith.cmpi" else kernel_numbers.compare_floats
            return compare(operation.head.split(",")[0].strip())
        if name == "arith.select" and self._may_lack:
            return _select
        if name in kernel_numbers.OF_NUMBERS:
            return kernel_numbers.OF_NUMBERS[name]
        if name in kernel_numbers.CASTS:
            return kernel_numbers.CASTS[name](operation.result.dtype)
        if name in kernel_orders.ROUNDED:
            return partial(self._round, name)
        if name in OF_TILES:
            return OF_TILES[name](self, operation)
        raise kernel_code.Unknown(
            f"has the operation `{name}`, which is not followed here as a GPU has it; do without"
        )

    # --- while it runs -----------------------------------------------------------------------------------

    def _call(self, name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return what a function gives."""
        names = self._code.functions[name].arguments
        return self._run(self._bodies[name], dict(zip(names, arguments, strict=True)))

    def _run(self, region: Region, values: Values, given: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Run the blocks of a region until one leaves it; return what it hands on."""
        block, chance = next(iter(region.values())), self.launch.chance
        while True:
            values.update(zip(block.arguments, given, strict=True))
            line = 0
            try:
                for line, step in block.steps:
                    chance.place = line
                    step(values)
                line = block.end_line
                label, given = block.end(values)
            except Exception as error:
                raise self._name_line(error, line) from None
            if not label:
                return given
            block = region[label]

    def _name_line(self, error: Exception, number: int) -> Exception:
        """Return an error with the line of the kernel in its traceback, that of the innermost operation."""
        if getattr(error, "has_line", False):
            return error
        error.has_line = True  # type: ignore[attr-defined]
        place = self._find_line(self._code.lines[number])
        if place is None:
            return error
        try:
            exec(compile("\n" * (place[1] - 1) + "raise error", place[0], "exec"), {"error": error})
        except Exception as raised:
            frames = raised.__traceback__
            return raised.with_traceback(frames.tb_next if frames else None)
        return error

    def _round(self, name: str, *numbers: Any) -> Any:
        """Return what an operation with a free last digit gives, and count it."""
        if name in EXPONENTIALS:
            self.launch.exponentials += np.size(numbers[0])
        if name in FLUSHING:
            made = self.launch.chance.compute(name, *map(kernel_numbers.flush, numbers))
            return kernel_numbers.flush(made)
        return self.launch.chance.compute(name, *numbers)

    def find_coordinate(self, axis: int) -> np.int32:
        return np.int32(np.unravel_index(self.launch.program, self.launch.grid)[axis])

    def load(self, kind: kernel_code.Kind, addresses: Any, mask: Any = None, other: Any = None) -> np.ndarray:
        """Return what stands at addresses where a mask lets through; elsewhere the other, or anything."""
        shape = np.shape(addresses)
        wanted = np.broadcast_to(True if mask is None else mask, shape)
        if other is not None:
            loaded = np.array(np.broadcast_to(other, shape), dtype=kind.dtype)
        else:
            loaded = self.launch.chance.draw_anything(shape, kind.dtype, ANYTHING)
        if not wanted.any():
            self.launch.memory.skip()
            return loaded
        loaded = np.atleast_1d(loaded) if not shape else loaded
        places = np.atleast_1d(addresses)[np.atleast_1d(wanted)]
        found = self.launch.memory.load(self.launch.program, places, kind.dtype.itemsize)
        loaded[np.atleast_1d(wanted)] = np.frombuffer(found, dtype=kind.dtype)
        return loaded.reshape(shape)

    def store(self, addresses: Any, values: Any, mask: Any = None) -> None:
        """Write to addresses where a mask lets through."""
        wanted = np.broadcast_to(True if mask is None else mask, np.shape(addresses))
        if not wanted.any():
            self.launch.memory.skip()
            return
        places, chosen = np.asarray(addresses)[wanted], np.broadcast_to(values, np.shape(addresses))[wanted]
        self.launch.memory.store(self.launch.program, places, chosen.dtype.itemsize, chosen.tobytes())

    def multiply(self, precision: str, a: Any, b: Any, total: Any) -> np.ndarray:
        """Return a product of tiles and a sum, and count it; refuse one whose factors a GPU would round."""
        if a.dtype == np.float32 and precision not in ("ieee", "tf32x3"):
            raise TypeError(
                f"multiplies tiles of float32 by `{precision}`, for which a GPU cuts their digits; write "
                '`tl.dot(a, b, input_precision="ieee")` (Triton makes one of a sum of products, too)'
            )
        self.launch.products += int(a.size * b.shape[-1])
        if precision != "tf32x3":
            return self.launch.chance.multiply_tiles(a, b, total)
        (a, a_left), (b, b_left) = map(kernel_numbers.cut_in_two, (a, b))  # of ten bits, and what is left
        left = a_left @ b + a @ b_left
        left = np.where(np.isnan(left), 0, left).astype(total.dtype)
        return self.launch.chance.multiply_tiles(a, b, left) + total

    def reorder(self, tile: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a tile of another shape, whose entries may come in another order."""
        return self.launch.chance.reshape(tile, shape)

    # --- operations that have regions ---------------------------------------------------------------------

    def make_for(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return a loop over a range, which hands values on from turn to turn."""
        (body,), results = regions, operation.results
        variable, lower, upper, step = operation.operands[:4]
        carried = operation.operands[4::2], operation.operands[5::2]
        (block,) = body.values()
        block.arguments = [variable, *carried[0]]
        kind = kernel_code.read_kind(operation.kinds_text.split()[0])

        def loop(values: Values) -> None:
            now, end, by = (int(values[name]) for name in (lower, upper, step))
            state = tuple(values[name] for name in carried[1])
            if now < end and by <= 0:
                raise ValueError(f"counts by {by} in a loop, which a GPU never ends")
            while now < end:
                state = self._run(body, values, (kind.dtype.type(now), *state))
                now += by
                if now > np.iinfo(kind.dtype).max:
                    raise OverflowError(
                        f"counts to {now:,} in a loop, which is no {kind.dtype}, so a GPU never ends it"
                    )
            values.update(zip(results, state, strict=True))

        return loop

    def make_while(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return a loop of two regions: one that finds out whether to go on, and one that does so."""
        before, body = regions
        names, given = operation.operands[::2], operation.operands[1::2]
        next(iter(before.values())).arguments = names

        def loop(values: Values) -> None:
            state = tuple(values[name] for name in given)
            while True:
                goes_on, *state = self._run(before, values, state)  # type: ignore[assignment]
                if not _use(goes_on):
                    break
                state = self._run(body, values, state)
            values.update(zip(operation.results, state, strict=True))

        return loop

    def make_if(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return a choice between two regions, of which the second may not be there."""
        (condition,), results = operation.operands, operation.results

        def choose(values: Values) -> None:
            taken = regions[:1] if values[condition] else regions[1:]
            for region in taken:
                values.update(zip(results, self._run(region, values), strict=True))

        return choose

    def make_reduce(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return a reduction of tiles along an axis, or a scan, by a region."""
        (body,), axis = regions, operation.find_number("axis")
        reverse, scans = "reverse = true" in operation.rest, operation.name == "tt.scan"
        (inside,), line = operation.regions[0].values(), operation.line
        may_branch = any(one.name == "tt.call" for one in inside.operations)

        def combine(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
            if may_branch:
                return combine_apart(left, right) if left[0].size else left
            made = self._run(body, values_of[-1], (*left, *right))
            self.launch.chance.place = line
            return [
                np.broadcast_to(kernel_orders.convert(_use(x), a.dtype), a.shape)
                for x, a in zip(made, left, strict=True)
            ]

        def combine_apart(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
            entries = zip(*map(np.ravel, (*left, *right)), strict=True)
            made = list(zip(*(self._run(body, values_of[-1], one) for one in entries), strict=True))
            self.launch.chance.place = line
            return [
                np.reshape([kernel_orders.convert(_use(x), a.dtype) for x in numbers], a.shape)
                for numbers, a in zip(made, left, strict=True)
            ]

        values_of: list[Values] = []  # where the region finds what was made before it

        def reduce(values: Values) -> None:
            values_of[:] = [values]
            tiles = [np.moveaxis(values[name], axis, 0) for name in operation.operands]
            _refuse_places_of_nan(tiles)
            if scans:
                tiles = [np.flip(x, 0) if reverse else x for x in tiles]
                tiles = self.launch.chance.scan(tiles, combine)
                made = [np.moveaxis(np.flip(x, 0) if reverse else x, 0, axis) for x in tiles]
            else:
                made = self.launch.chance.reduce(tiles, combine)
            values.update(zip(operation.results, made, strict=True))

        return reduce

    def make_call(self, operation: kernel_code.Operation, regions: list[Region]) -> Step:
        """Return a call of a function of the code."""
        name = kernel_code.find_function(operation.rest)

        def call(values: Values) -> None:
            made = self._call(name, [values[one] for one in operation.operands])
            values.update(zip(operation.results, made, strict=True))

        return call


def _refuse_places_of_nan(tiles: Sequence[np.ndarray]) -> None:
    """Refuse numbers among which is NaN beside whole numbers, as for the place of the largest."""
    if any(x.dtype.kind == "i" for x in tiles) and any(np.isnan(x).any() for x in tiles):
        raise ValueError("asks in which place the largest of numbers and NaN is; a GPU may say any")


# --- what has no value --------------------------------------------------------------------------------------


def _use(x: Any) -> Any:
    """Return what is used, and refuse what has no value, of which a GPU may make anything."""
    if x is NOTHING:
        raise ValueError(NO_VALUE)
    return x


def _refuse_nothing(operation: kernel_code.Operation, step: Step) -> Step:
    """Return a step that refuses operands without a value, except those that it hands on."""
    used = operation.operands[USED.get(operation.name, slice(None))]

    def step_with_values(values: Values) -> None:
        for name in used:
            _use(values[name])
        step(values)

    return step_with_values


def _select(condition: Any, a: Any, b: Any) -> Any:
    """Return entries of one tile or another, which may lack a value where none of it is taken."""
    if np.all(condition) or not np.any(condition):
        return a if np.all(condition) else b
    return np.where(condition, _use(a), _use(b))


# --- ends of blocks -----------------------------------------------------------------------------------------


def _hand_on(operation: kernel_code.Operation) -> Callable[[Values], Leave]:
    """Return the end of a region, which hands values on."""
    names = operation.operands
    return lambda values: Leave("", tuple(values[name] for name in names))


def _branch(operation: kernel_code.Operation) -> Callable[[Values], Leave]:
    """Return the end of a block that leads to another, or to one of two."""
    head = operation.rest.partition("^")
    condition = kernel_code.VALUE.findall(head[0])
    targets = []
    for one in kernel_code.split(head[1] + head[2]):
        label = one[1:].split("(")[0].strip()
        targets.append((label, kernel_code.VALUE.findall(one)))

    def leave(values: Values) -> Leave:
        label, names = targets[0 if not condition or _use(values[condition[0]]) else 1]
        return Leave(label, tuple(values[name] for name in names))

    return leave


ENDS: dict[str, Callable[[kernel_code.Operation], Callable[[Values], Leave]]] = {
    **dict.fromkeys(("scf.yield", "scf.condition", "tt.return"), _hand_on),
    **dict.fromkeys(("tt.reduce.return", "tt.scan.return"), _hand_on),
    **dict.fromkeys(("cf.br", "cf.cond_br"), _branch),
}


def _keep(x: Any) -> Any:
    return x


# --- operations on tiles ------------------------------------------------------------------------------------


def _make_constant(machine: Machine, operation: kernel_code.Operation) -> Compute:
    """Return what gives a constant: a number, or a tile of one."""
    kind = (
        kernel_code.read_kind(operation.kinds_text)
        if operation.kinds_text
        else kernel_code.Kind((), kernel_code.NUMBERS["i1"])
    )
    found = re.search(r"dense<(.*)>", operation.head)
    number = (found[1] if found else operation.head).strip()
    if number.startswith("0x"):
        bits = f"u{kind.dtype.itemsize}"
        value = np.array(int(number, 16), bits).view(kind.dtype)
    elif number in ("true", "false"):
        value = np.array(number == "true")
    elif number.startswith("["):
        raise kernel_code.Unknown("has a tile of several constants, which are not followed here; do without")
    else:
        value = np.array(float(number) if kind.dtype.kind == "f" else int(number)).astype(kind.dtype)
    made = np.broadcast_to(value, kind.shape) if kind.shape else value[()]
    return lambda: made


def _make_range(machine: Machine, operation: kernel_code.Operation) -> Compute:
    made = np.arange(operation.find_number("start"), operation.find_number("end"), dtype=np.int32)
    return lambda: made


def _make_coordinate(machine: Machine, operation: kernel_code.Operation) -> Compute:
    axis = "xyz".index(operation.head.strip()[0])
    if operation.name == "tt.get_num_programs":
        return lambda: np.int32(machine.launch.grid[axis])
    return lambda: machine.find_coordinate(axis)


def _make_broadcast(machine: Machine, operation: kernel_code.Operation) -> Compute:
    shape = operation.result.shape
    return lambda x: np.broadcast_to(x, shape)


def _make_reshape(machine: Machine, operation: kernel_code.Operation) -> Compute:
    shape, may = operation.result.shape, "allow_reorder" in kernel_code.VALUE.sub("", operation.head)
    return lambda x: machine.reorder(x, shape) if may else np.reshape(x, shape)


def _make_transpose(machine: Machine, operation: kernel_code.Operation) -> Compute:
    order = operation.list_numbers("order")
    return lambda x: np.transpose(x, order)


def _join_tiles(a: Any, b: Any) -> np.ndarray:
    kind = np.result_type(a, b)
    return np.stack([kernel_orders.convert(x, kind) for x in (a, b)], -1)


def _make_bitcast(machine: Machine, operation: kernel_code.Operation) -> Compute:
    """Return what takes the bits of numbers for others."""
    kind = operation.result.dtype

    def take(x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.kind == "f" != kind.kind and np.isnan(x).any():
            raise ValueError(
                "takes the bits of NaN, which may be any, as `tl.sort` and `tl.flip` do; do loads with "
                "a mask name an `other`?"
            )
        return x.view(kind)

    return take


def _make_address(machine: Machine, operation: kernel_code.Operation) -> Compute:
    entry = operation.kinds[0].entry
    return lambda address, offset: address + np.asarray(offset, np.int64) * entry


def _make_load(machine: Machine, operation: kernel_code.Operation) -> Compute:
    address = operation.kinds_text
    kind = kernel_code.read_kind(re.sub(r"!tt\.ptr<(\w+)(?:, \d+)?>", r"\1", address))
    return partial(machine.load, kind)


def _make_dot(machine: Machine, operation: kernel_code.Operation) -> Compute:
    found = re.search(r"inputPrecision = (\w+)", operation.rest)
    return partial(machine.multiply, found[1] if found else "ieee")


def _make_assertion(machine: Machine, operation: kernel_code.Operation) -> Compute:
    found = kernel_code.TEXT.search(operation.rest)
    text = machine.texts[int(found[1])] if found else ""

    def check(condition: Any) -> None:
        if not np.all(condition):
            raise AssertionError(text)

    return check


def _make_assumption(machine: Machine, operation: kernel_code.Operation) -> Compute:
    def check(condition: Any) -> None:
        if not np.all(condition):
            raise ValueError("assumes what does not hold, and a GPU believes it")

    return check


def _do_nothing(machine: Machine, operation: kernel_code.Operation) -> Compute:
    return lambda *values: None


OF_TILES: dict[str, Callable[[Machine, kernel_code.Operation], Compute]] = {
    "arith.constant": _make_constant,
    "tt.make_range": _make_range,
    "tt.get_program_id": _make_coordinate,
    "tt.get_num_programs": _make_coordinate,
    "tt.splat": _make_broadcast,
    "tt.unsplat": lambda machine, operation: lambda x: np.reshape(x, -1)[0],
    "tt.broadcast": _make_broadcast,
    "tt.expand_dims": _make_reshape,
    "tt.reshape": _make_reshape,
    "tt.trans": _make_transpose,
    "tt.join": lambda machine, operation: _join_tiles,
    "tt.split": lambda machine, operation: lambda x: (x[..., 0], x[..., 1]),
    "tt.addptr": _make_address,
    "tt.bitcast": _make_bitcast,
    "arith.bitcast": _make_bitcast,
    "tt.load": _make_load,
    "tt.store": lambda machine, operation: machine.store,
    "tt.dot": _make_dot,
    "arith.mulf": lambda machine, operation: kernel_orders.multiply,
    "math.fma": lambda machine, operation: _fuse,
    "tt.assert": _make_assertion,
    "llvm.intr.assume": _make_assumption,
    "ub.poison": lambda machine, operation: lambda: NOTHING,
    **dict.fromkeys(IN_VAIN, _do_nothing),
}
WITH_REGIONS: dict[str, Callable[[Machine, kernel_code.Operation, list[Region]], Step]] = {
    "scf.for": Machine.make_for,
    "scf.while": Machine.make_while,
    "scf.if": Machine.make_if,
    "tt.reduce": Machine.make_reduce,
    "tt.scan": Machine.make_reduce,
    "tt.call": Machine.make_call,
}


def _fuse(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once."""
    kind = np.result_type(a)
    rounded, left = (np.asarray(x, kernel_orders.WIDER[kind]) for x in kernel_orders.find_product(a, b))
    return kernel_orders.add(
        kind, np.where(np.isfinite(rounded), rounded, 0), np.asarray(c, rounded.dtype), left
    )
