"""Run a kernel as its compiler reads it: Triton's intermediate code, with NumPy in place of a GPU.

What a kernel's text says is for Triton's compiler to decide; a GPU is given this code and nothing else. The
code is a text, in which each line is an operation on values that were made before, as in

    %y = arith.addf %x, %x : tensor<16xf32> loc(#loc3)

and which has blocks of such lines for loops and branches. What each operation gives is in kernel_numbers.py,
and in kernel_orders.py where GPUs leave it open. Like serialization.py this file imports little of ours.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

if __package__:
    from linattn_exercises import kernel_memory, kernel_numbers, kernel_orders
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_memory, kernel_numbers, kernel_orders = (
        sys.modules[f"kernel_{name}"] for name in ("memory", "numbers", "orders")
    )

ANYTHING = 3e4  # as large may be what a GPU leaves where a mask leaves something out; or NaN, or 0
NUMBERS = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "i1": np.dtype(bool),
    "index": np.dtype(np.int64),
}
# operations that take the smallest numbers of float32 for 0 on a GPU, among those with free last digits
FLUSHING = ("math.exp2", "math.sqrt", "math.rsqrt", "math.sin", "math.erf")
SUMS = {"arith.addf": 1, "arith.subf": -1}
EXPONENTIALS = ("math.exp", "math.exp2", "math.log", "math.log2")
# what computes nothing; threads of a program, for which there is a barrier, are not told apart here
IN_VAIN = ("tt.print", "ttg.barrier", "gpu.barrier")

VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
GIVEN = re.compile(r"(%[\w.$-]+) = ")  # what a loop gives to its region
RESULTS = re.compile(r"((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = ")
NAME = re.compile(r'"?([a-z]\w*\.[\w.]*\w)"?')
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
ATTRIBUTES = re.compile(r"(?:attributes )?<?\{[^{}]*\}>?")
# what a result, or an argument of a loop's block, is promised to be
PROMISE = re.compile(r"tt\.(divisibility|contiguity|constancy)(?:_arg(\d+))? = dense<(\[?[\d, ]+\]?)>")

Values = dict[str, Any]  # by name in the code
Step = Callable[[Values], None]


class Unknown(TypeError):
    """Say that an operation is not known here."""


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
    """Hold operations that are done one after the other.

    Args:
        arguments: names of the values that it is given.
        steps: the operations but the last, each with the number of its line.
        end: the last one.
    """

    arguments: list[str] = field(default_factory=list)
    steps: list[tuple[int, Step]] = field(default_factory=list)
    end: Callable[[Values], Leave] = field(default=lambda values: Leave("", ()))


Region = dict[str, Block]  # by label, that where it begins first


@dataclass
class Kind:
    """Say what a value is.

    Args:
        shape: of a tile; () for a number.
        dtype: of its numbers; addresses are int64.
        entry: bytes of what an address leads to, or 0.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    entry: int = 0


@dataclass
class Function:
    """Hold a function of the code: names and kinds of its arguments, and what it does."""

    arguments: list[str]
    kinds: list[Kind]
    body: Region


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


def read_kind(text: str) -> Kind:
    """Return what a type of the code stands for, such as "tensor<16x2x!tt.ptr<f32>>".

    Raises:
        Unknown: if it is none of those that are known.
    """
    shape: tuple[int, ...] = ()
    name = text.strip()
    if found := re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", name):
        shape, name = tuple(map(int, found[1].split("x")[:-1])), found[2]
    if found := re.fullmatch(r"!tt\.ptr<(\w+)(?:, \d+)?>", name):
        return Kind(shape, NUMBERS["i64"], _find_dtype(found[1]).itemsize)
    return Kind(shape, _find_dtype(name))


def _find_dtype(name: str) -> np.dtype:
    if name not in NUMBERS:
        raise Unknown(f"has numbers in {name}, which are not followed here as a GPU has them; do without")
    return NUMBERS[name]


# --- the text of the code -----------------------------------------------------------------------------------


class Code:
    """Hold a kernel's intermediate code, ready to be run.

    Args:
        text: of the code, with the places of its operations.
        find_line: takes the text of an operation, and returns file and number of the line of the kernel that
            it comes from, or None.

    Raises:
        Unknown: if an operation or a type is not known here.
    """

    def __init__(self, text: str, find_line: Callable[[str], tuple[str, int] | None]) -> None:
        self._lines = [line.strip() for line in text.splitlines()]
        self._find_line, self._at = find_line, 0
        self._launch: Launch
        self._functions: dict[str, Function] = {}
        self._products: dict[str, tuple[str, str]] = {}  # by names of products that are read: their factors
        while self._at < len(self._lines):
            line = self._next()
            if line.startswith("tt.func"):
                name = re.search(r"@(\"[^\"]+\"|[\w.$-]+)", line)
                assert name is not None
                self._functions[name[1]] = self._read_function(line)
                self._main = name[1] if " public " in line else getattr(self, "_main", name[1])

    def run(self, launch: Launch, programs: Sequence[int], arguments: Sequence[Any]) -> None:
        """Run programs one after the other.

        Args:
            launch: what they have in common.
            programs: their numbers, in order.
            arguments: numbers, and addresses of tensors; those of which the compiler made constants left out.

        Raises:
            Exception: what an operation raises, with the line of the kernel in its traceback.
        """
        self._launch = launch
        main = self._functions[self._main]
        given = [kind.dtype.type(x) for kind, x in zip(main.kinds, arguments, strict=True)]
        with np.errstate(all="ignore"):  # a GPU does not warn of a logarithm of 0 either
            for program in programs:
                launch.program = program
                self._call(self._main, given)

    def _next(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _read_function(self, line: str) -> Function:
        """Read a function whose first line this is."""
        self._products = {}
        head = _drop_places(line)
        given = head[head.index("(") + 1 : _find_end(head, head.index("("))]
        parts = [re.sub(r" \{.*?\}", "", one) for one in _split(given)]
        names, kinds = [one.split(":")[0].strip() for one in parts], [one.split(":", 1)[1] for one in parts]
        return Function(names, [read_kind(one) for one in kinds], self._read_region())

    def _read_region(self) -> Region:
        """Read blocks up to the brace that closes them, whose line is left as the next."""
        label, blocks = "first", Region()
        while not (line := self._next()).startswith("}"):
            if line.startswith("^"):
                head = _drop_places(line.partition("//")[0])
                label = head[1:].partition("(")[0].removesuffix(":")
                blocks[label] = Block(self._define(VALUE.findall(head)))
            elif line:
                self._read_operation(line, blocks.setdefault(label, Block()))
        self._at -= 1
        return blocks

    def _read_operation(self, line: str, block: Block) -> None:
        """Read an operation, and the regions that it has."""
        number = self._at - 1
        text = _drop_places(line)
        found = RESULTS.match(text)
        results = self._define(_list_results(found[1]) if found else [])
        text = text[found.end() :] if found else text
        if not (named := NAME.match(text)):
            raise Unknown(f"has the code `{text[:80]}`, which cannot be read")
        name, rest = named[1], text[named.end() :]
        if name in ENDS:
            block.end = ENDS[name](self, rest)
            return
        regions: list[Region] = []
        if rest.endswith("{"):
            self._define(GIVEN.findall(rest))
            regions, rest = self._read_regions(rest)
            number = self._at - 1  # where its place stands
        operation = Operation(name, results, rest, regions)
        block.steps.append((number, self._make_step(operation)))
        for promise, argument, steps in PROMISE.findall(rest):
            look = partial(_check_promise, promise, _list_steps(steps), _find_entry(rest))
            if not argument:
                block.steps += [(number, partial(look, one)) for one in results]
            for region in regions if argument else ():
                inner = next(iter(region.values()))
                inner.steps.insert(0, (number, partial(look, inner.arguments[int(argument)])))

    def _define(self, names: list[str]) -> list[str]:
        """Forget of names that they were products: beside each other, regions have the same names."""
        for name in names:
            self._products.pop(name, None)
        return names

    def _read_regions(self, rest: str) -> tuple[list[Region], str]:
        """Return the regions of an operation whose first line ends in a brace, and the text beside them."""
        regions = []
        while True:
            regions.append(self._read_region())
            line = _drop_places(self._next())
            if not line.endswith("{"):
                return regions, f"{rest.rstrip('{').rstrip('(').rstrip()} {line.lstrip('})').strip()}"

    def _make_step(self, operation: "Operation") -> Step:
        """Return what does an operation.

        Raises:
            Unknown: if it is not known.
        """
        if operation.name in WITH_REGIONS:
            return WITH_REGIONS[operation.name](self, operation)
        if operation.name == "arith.mulf":
            self._products[operation.results[0]] = (operation.operands[0], operation.operands[1])
        if operation.name in SUMS:
            return self._make_sum(operation)
        compute = self._find_function(operation)
        results, operands = operation.results, operation.operands
        if len(results) == 1:
            result = results[0]

            def step(values: Values) -> None:
                values[result] = compute(*[values[name] for name in operands])

            return step

        def step_with_several(values: Values) -> None:
            values.update(zip(results, compute(*[values[name] for name in operands]) or (), strict=True))

        return step_with_several

    def _make_sum(self, operation: "Operation") -> Step:
        """Return a sum or difference, of which a GPU may join one part with the product that it is."""
        (result,), (left, right), sign = operation.results, operation.operands, SUMS[operation.name]
        known = [self._products.get(name) for name in (left, right)]

        def add(values: Values) -> None:
            factors = [None if names is None else tuple(values[name] for name in names) for names in known]
            values[result] = self._launch.chance.join(sign, values[left], values[right], factors)

        return add

    def _find_function(self, operation: "Operation") -> Callable[..., Any]:
        """Return what an operation gives, as a function of its operands."""
        name = operation.name
        if name in ("arith.cmpi", "arith.cmpf"):
            compare = kernel_numbers.compare_whole if name == "arith.cmpi" else kernel_numbers.compare_floats
            return compare(operation.head.split(",")[0].strip())
        if name in kernel_numbers.OF_NUMBERS:
            return kernel_numbers.OF_NUMBERS[name]
        if name in kernel_numbers.CASTS:
            return kernel_numbers.CASTS[name](operation.result.dtype)
        if name in kernel_orders.ROUNDED:
            return partial(self._round, name)
        if name in OF_TILES:
            return OF_TILES[name](self, operation)
        raise Unknown(f"has the operation `{name}`, which is not followed here as a GPU has it; do without")

    # --- while it runs -----------------------------------------------------------------------------------

    def _call(self, name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return what a function gives."""
        function = self._functions[name]
        return self._run(function.body, dict(zip(function.arguments, arguments, strict=True)))

    def _run(self, region: Region, values: Values, given: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Run the blocks of a region until one leaves it; return what it hands on."""
        block = next(iter(region.values()))
        while True:
            values.update(zip(block.arguments, given, strict=True))
            line = 0
            try:
                for line, step in block.steps:  # noqa: B007, for a step that raises
                    step(values)
            except Exception as error:
                raise self._name_line(error, line) from None
            label, given = block.end(values)
            if not label:
                return given
            block = region[label]

    def _name_line(self, error: Exception, number: int) -> Exception:
        """Return an error with the line of the kernel in its traceback, that of the innermost operation."""
        if getattr(error, "has_line", False):
            return error
        error.has_line = True  # type: ignore[attr-defined]
        place = self._find_line(self._lines[number])
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
            self._launch.exponentials += np.size(numbers[0])
        if name in FLUSHING:
            made = self._launch.chance.compute(name, *map(kernel_numbers.flush, numbers))
            return kernel_numbers.flush(made)
        return self._launch.chance.compute(name, *numbers)

    def find_coordinate(self, axis: int) -> np.int32:
        return np.int32(np.unravel_index(self._launch.program, self._launch.grid)[axis])

    def load(self, kind: Kind, addresses: Any, mask: Any = None, other: Any = None) -> np.ndarray:
        """Return what stands at addresses where a mask lets through; elsewhere the other, or anything."""
        shape = np.shape(addresses)
        wanted = np.broadcast_to(True if mask is None else mask, shape)
        if other is not None:
            loaded = np.array(np.broadcast_to(other, shape), dtype=kind.dtype)
        elif kind.dtype.kind == "f" and self._launch.chance.happens(0.75):
            loaded = self._launch.chance.draw_anything(shape, kind.dtype, ANYTHING)
        else:
            loaded = np.zeros(shape, kind.dtype)
        if not wanted.any():
            self._launch.memory.skip()
            return loaded
        loaded = np.atleast_1d(loaded) if not shape else loaded
        places = np.atleast_1d(addresses)[np.atleast_1d(wanted)]
        found = self._launch.memory.load(self._launch.program, places, kind.dtype.itemsize)
        loaded[np.atleast_1d(wanted)] = np.frombuffer(found, dtype=kind.dtype)
        return loaded.reshape(shape)

    def store(self, addresses: Any, values: Any, mask: Any = None) -> None:
        """Write to addresses where a mask lets through."""
        wanted = np.broadcast_to(True if mask is None else mask, np.shape(addresses))
        if not wanted.any():
            self._launch.memory.skip()
            return
        places, chosen = np.asarray(addresses)[wanted], np.broadcast_to(values, np.shape(addresses))[wanted]
        self._launch.memory.store(self._launch.program, places, chosen.dtype.itemsize, chosen.tobytes())

    def multiply(self, precision: str, a: Any, b: Any, total: Any) -> np.ndarray:
        """Return a product of tiles and a sum, and count it; refuse one whose factors a GPU would round."""
        if a.dtype == np.float32 and precision not in ("ieee", "tf32x3"):
            raise TypeError(
                "multiplies tiles of float32 whose digits a GPU would cut to ten bits; write "
                '`tl.dot(a, b, input_precision="ieee")`'
            )
        self._launch.products += int(a.size * b.shape[-1])
        if precision == "tf32x3":  # each factor is a number of ten bits, and what is left in another one
            (a, a_left), (b, b_left) = map(kernel_numbers.cut_in_two, (a, b))
            left = a_left @ b + a @ b_left + total
            total = np.where(np.isnan(left), 0, left).astype(total.dtype)
        return self._launch.chance.multiply_tiles(a, b, total)

    def reorder(self, tile: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a tile of another shape, whose entries may come in another order."""
        return self._launch.chance.reshape(tile, shape)

    def draw_poison(self, kind: Kind) -> np.ndarray:
        return self._launch.chance.draw_anything(kind.shape, kind.dtype, ANYTHING)

    # --- operations that have regions ---------------------------------------------------------------------

    def make_for(self, operation: "Operation") -> Step:
        """Return a loop over a range, which hands values on from turn to turn."""
        (body,), results = operation.regions, operation.results
        variable, lower, upper, step = operation.operands[:4]
        carried = operation.operands[4::2], operation.operands[5::2]
        (block,) = body.values()
        block.arguments = [variable, *carried[0]]
        kind = read_kind(operation.kinds_text.split()[0])

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

    def make_while(self, operation: "Operation") -> Step:
        """Return a loop of two regions: one that finds out whether to go on, and one that does so."""
        before, body = operation.regions
        names, given = operation.operands[::2], operation.operands[1::2]
        next(iter(before.values())).arguments = names

        def loop(values: Values) -> None:
            state = tuple(values[name] for name in given)
            while True:
                goes_on, *state = self._run(before, values, state)  # type: ignore[assignment]
                if not goes_on:
                    break
                state = self._run(body, values, state)
            values.update(zip(operation.results, state, strict=True))

        return loop

    def make_if(self, operation: "Operation") -> Step:
        """Return a choice between two regions, of which the second may not be there."""
        (condition,), results = operation.operands, operation.results

        def choose(values: Values) -> None:
            taken = operation.regions[:1] if values[condition] else operation.regions[1:]
            for region in taken:
                values.update(zip(results, self._run(region, values), strict=True))

        return choose

    def make_reduce(self, operation: "Operation") -> Step:
        """Return a reduction of tiles along an axis, or a scan, by a region."""
        (body,), axis = operation.regions, operation.find_number("axis")
        reverse, scans = "reverse = true" in operation.rest, operation.name == "tt.scan"

        def combine(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
            made = self._run(body, values_of[-1], (*left, *right))
            return [np.broadcast_to(x, a.shape).astype(a.dtype) for x, a in zip(made, left, strict=True)]

        values_of: list[Values] = []  # where the region finds what was made before it

        def reduce(values: Values) -> None:
            values_of[:] = [values]
            tiles = [np.moveaxis(values[name], axis, 0) for name in operation.operands]
            _refuse_places_of_nan(tiles)
            if scans:
                tiles = [np.flip(x, 0) if reverse else x for x in tiles]
                tiles = self._launch.chance.scan(tiles, combine)
                made = [np.moveaxis(np.flip(x, 0) if reverse else x, 0, axis) for x in tiles]
            else:
                made = self._launch.chance.reduce(tiles, combine)
            values.update(zip(operation.results, made, strict=True))

        return reduce

    def make_call(self, operation: "Operation") -> Step:
        """Return a call of a function of the code."""
        name = re.search(r"@(\"[^\"]+\"|[\w.$-]+)", operation.rest)
        assert name is not None

        def call(values: Values) -> None:
            made = self._call(name[1], [values[one] for one in operation.operands])
            values.update(zip(operation.results, made, strict=True))

        return call


class Operation:
    """Hold one operation: its name, names of results, the text behind its name, and regions."""

    def __init__(self, name: str, results: list[str], rest: str, regions: list[Region]) -> None:
        self.name, self.results, self.rest, self.regions = name, results, rest, regions
        plain = ATTRIBUTES.sub("", QUOTED.sub("", rest))
        self.head, _, self.kinds_text = plain.rpartition(" : ") if " : " in plain else (plain, "", "")
        self.operands = VALUE.findall(self.head)

    @property
    def kinds(self) -> list[Kind]:
        """Return the types that stand behind the operation, those of results last."""
        return [read_kind(one) for one in _split(re.sub(r" (?:->|to|\*) ", ", ", self.kinds_text))]

    @property
    def result(self) -> Kind:
        """Return the type of its result."""
        return self.kinds[-1]

    def find_number(self, name: str) -> int:
        """Return an attribute that is a whole number."""
        found = re.search(rf"\b{name} = (-?\d+)", self.rest)
        assert found is not None
        return int(found[1])

    def list_numbers(self, name: str) -> list[int]:
        """Return an attribute that is a list of whole numbers."""
        found = re.search(rf"\b{name} = array<i32: ([\d, ]+)>", self.rest)
        assert found is not None
        return [int(one) for one in found[1].split(",")]


def _refuse_places_of_nan(tiles: Sequence[np.ndarray]) -> None:
    """Refuse numbers among which is NaN beside whole numbers, as for the place of the largest."""
    if any(x.dtype.kind == "i" for x in tiles) and any(np.isnan(x).any() for x in tiles):
        raise ValueError("asks in which place the largest of numbers and NaN is; a GPU may say any")


def _drop_places(line: str) -> str:
    """Return a line without what is said of places in the kernel's text, and without its last space."""
    kept, n, quoted = "", 0, False
    while n < len(line):
        if not quoted and line.startswith(" loc(", n):
            n = _find_end(line, n + 4) + 1
            continue
        quoted ^= line[n] == '"'
        kept += line[n]
        n += 1
    return kept.rstrip()


def _find_end(text: str, begin: int) -> int:
    """Return where the bracket closes that opens at a place."""
    depth, quoted = 0, False
    for n in range(begin, len(text)):
        quoted ^= text[n] == '"'
        depth += 0 if quoted else (text[n] == "(") - (text[n] == ")")
        if depth == 0:
            return n
    raise Unknown("has code with a bracket that is not closed")


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text.replace("->", "  "):
        depth += (letter in "(<{[") - (letter in ")>}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [one.strip() for one in parts if one.strip()]


def _list_results(text: str) -> list[str]:
    """Return the names of results: `%a, %b`, or `%a:2`, whose names are `%a#0` and `%a#1`."""
    names = []
    for one in text.split(", "):
        name, _, count = one.partition(":")
        names += [f"{name}#{n}" for n in range(int(count))] if count else [name]
    return names


# --- ends of blocks -----------------------------------------------------------------------------------------


def _hand_on(code: Code, rest: str) -> Callable[[Values], Leave]:
    """Return the end of a region, which hands values on."""
    names = VALUE.findall(rest)
    return lambda values: Leave("", tuple(values[name] for name in names))


def _branch(code: Code, rest: str) -> Callable[[Values], Leave]:
    """Return the end of a block that leads to another, or to one of two."""
    head = rest.partition("^")
    condition = VALUE.findall(head[0])
    targets = []
    for one in _split(head[1] + head[2]):
        label = one[1:].split("(")[0].strip()
        targets.append((label, VALUE.findall(one)))

    def leave(values: Values) -> Leave:
        label, names = targets[0 if not condition or values[condition[0]] else 1]
        return Leave(label, tuple(values[name] for name in names))

    return leave


ENDS: dict[str, Callable[[Code, str], Callable[[Values], Leave]]] = {
    **dict.fromkeys(("scf.yield", "scf.condition", "tt.return"), _hand_on),
    **dict.fromkeys(("tt.reduce.return", "tt.scan.return"), _hand_on),
    **dict.fromkeys(("cf.br", "cf.cond_br"), _branch),
}

# --- operations on tiles ------------------------------------------------------------------------------------


def _make_constant(code: Code, operation: Operation) -> Callable[..., Any]:
    """Return what gives a constant: a number, or a tile of one."""
    kind = read_kind(operation.kinds_text) if operation.kinds_text else Kind((), NUMBERS["i1"])
    found = re.search(r"dense<(.*)>", operation.head)
    number = (found[1] if found else operation.head).strip()
    if number.startswith("0x"):
        bits = f"u{kind.dtype.itemsize}"
        value = np.array(int(number, 16), bits).view(kind.dtype)
    elif number in ("true", "false"):
        value = np.array(number == "true")
    elif number.startswith("["):
        raise Unknown("has a tile of several constants, which are not followed here; do without")
    else:
        value = np.array(float(number) if kind.dtype.kind == "f" else int(number)).astype(kind.dtype)
    made = np.broadcast_to(value, kind.shape) if kind.shape else value[()]
    return lambda: made


def _make_range(code: Code, operation: Operation) -> Callable[..., Any]:
    made = np.arange(operation.find_number("start"), operation.find_number("end"), dtype=np.int32)
    return lambda: made


def _make_coordinate(code: Code, operation: Operation) -> Callable[..., Any]:
    axis = "xyz".index(operation.head.strip()[0])
    if operation.name == "tt.get_num_programs":
        return lambda: np.int32(code._launch.grid[axis])
    return lambda: code.find_coordinate(axis)


def _make_broadcast(code: Code, operation: Operation) -> Callable[..., Any]:
    shape = operation.result.shape
    return lambda x: np.broadcast_to(x, shape)


def _make_reshape(code: Code, operation: Operation) -> Callable[..., Any]:
    shape, may = operation.result.shape, "allow_reorder" in VALUE.sub("", operation.head)
    return lambda x: code.reorder(x, shape) if may else np.reshape(x, shape)


def _make_transpose(code: Code, operation: Operation) -> Callable[..., Any]:
    order = operation.list_numbers("order")
    return lambda x: np.transpose(x, order)


def _make_address(code: Code, operation: Operation) -> Callable[..., Any]:
    entry = operation.kinds[0].entry
    return lambda address, offset: address + np.asarray(offset, np.int64) * entry


def _make_load(code: Code, operation: Operation) -> Callable[..., Any]:
    address = operation.kinds_text
    kind = read_kind(re.sub(r"!tt\.ptr<(\w+)(?:, \d+)?>", r"\1", address))
    return partial(code.load, kind)


def _make_dot(code: Code, operation: Operation) -> Callable[..., Any]:
    found = re.search(r"inputPrecision = (\w+)", operation.rest)
    return partial(code.multiply, found[1] if found else "ieee")


def _make_assertion(code: Code, operation: Operation) -> Callable[..., Any]:
    found = re.search(r'"((?:[^"\\]|\\.)*)"', operation.rest)

    def check(condition: Any) -> None:
        if not np.all(condition):
            raise AssertionError(found[1] if found else "")

    return check


def _make_assumption(code: Code, operation: Operation) -> Callable[..., Any]:
    def check(condition: Any) -> None:
        if not np.all(condition):
            raise ValueError("assumes what does not hold, and a GPU believes it")

    return check


def _make_poison(code: Code, operation: Operation) -> Callable[..., Any]:
    kind = operation.result
    return lambda: code.draw_poison(kind)


def _do_nothing(code: Code, operation: Operation) -> Callable[..., Any]:
    return lambda *values: None


def _check_promise(promise: str, steps: list[int], entry: int, name: str, values: Values) -> None:
    """Refuse a promise of what a value is that does not hold; of numbers with a point none is meant."""
    data = np.asarray(values[name])
    if data.dtype.kind in "iub" and data.ndim in (0, len(steps)):
        rise = entry if data.dtype == np.int64 and entry else 1
        kernel_numbers.check_promise(promise, steps, data, rise)


def _find_entry(text: str) -> int:
    """Return the bytes of what addresses lead to, by the types of an operation; 0 if it has none."""
    found = re.search(r"!tt\.ptr<(\w+)", text)
    return _find_dtype(found[1]).itemsize if found else 0


def _list_steps(text: str) -> list[int]:
    """Return what is promised along each axis, such as of "dense<[1, 16]>"."""
    return [int(one) for one in re.findall(r"\d+", text)]


OF_TILES: dict[str, Callable[[Code, Operation], Callable[..., Any]]] = {
    "arith.constant": _make_constant,
    "tt.make_range": _make_range,
    "tt.get_program_id": _make_coordinate,
    "tt.get_num_programs": _make_coordinate,
    "tt.splat": _make_broadcast,
    "tt.broadcast": _make_broadcast,
    "tt.expand_dims": _make_reshape,
    "tt.reshape": _make_reshape,
    "tt.trans": _make_transpose,
    "tt.join": lambda code, operation: lambda a, b: np.stack([a, b], -1),
    "tt.split": lambda code, operation: lambda x: (x[..., 0], x[..., 1]),
    "tt.addptr": _make_address,
    "tt.load": _make_load,
    "tt.store": lambda code, operation: code.store,
    "tt.dot": _make_dot,
    "math.fma": lambda code, operation: _fuse,
    "tt.assert": _make_assertion,
    "llvm.intr.assume": _make_assumption,
    "ub.poison": _make_poison,
    **dict.fromkeys(IN_VAIN, _do_nothing),
}
WITH_REGIONS: dict[str, Callable[[Code, Operation], Step]] = {
    "scf.for": Code.make_for,
    "scf.while": Code.make_while,
    "scf.if": Code.make_if,
    "tt.reduce": Code.make_reduce,
    "tt.scan": Code.make_reduce,
    "tt.call": Code.make_call,
}


def _fuse(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once."""
    wide = kernel_orders.WIDER[np.result_type(a)]
    return (np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)).astype(np.result_type(a))
