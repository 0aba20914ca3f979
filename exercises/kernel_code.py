"""Read the intermediate code that Triton's compiler makes of a kernel, which is a text.

Each line of it is an operation on values that were made before, as in

    %y = arith.addf %x, %x : tensor<16xf32> loc(#loc3)

and loops and branches have blocks of such lines. What the operations do is in kernel_machine.py. Like
serialization.py this file imports nothing of ours.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

NUMBERS = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "i1": np.dtype(bool),
    "index": np.dtype(np.int64),
}
VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
RESULTS = re.compile(r"((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = ")
NAME = re.compile(r'"?([a-z]\w*\.[\w.]*\w)"?')
FUNCTION = re.compile(r"@(!\d+|[\w.$-]+)")  # the former if its name was hidden
TEXT = re.compile(r'"(\d+)"')  # by its number, see kernel_front.hide_texts
ATTRIBUTES = re.compile(r"(?:attributes )?<?\{[^{}]*\}>?")


class Unknown(TypeError):
    """Say that an operation is not known here."""


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


class Operation:
    """Hold one operation.

    Args:
        name: such as "arith.addf".
        results: names of the values that it makes.
        rest: the text behind its name and beside its regions.
        regions: of a loop, a branch or a reduction.
        line: the number of the line that says its place in the kernel.
    """

    def __init__(self, name: str, results: list[str], rest: str, regions: list["Region"], line: int) -> None:
        self.name, self.results, self.rest, self.regions, self.line = name, results, rest, regions, line
        plain = ATTRIBUTES.sub("", TEXT.sub("", rest))
        self.head, _, self.kinds_text = plain.rpartition(" : ") if " : " in plain else (plain, "", "")
        self.operands = VALUE.findall(self.head)

    @property
    def kinds(self) -> list[Kind]:
        """Return the types that stand behind the operation, those of results last."""
        return [read_kind(one) for one in split(re.sub(r" (?:->|to|\*) ", ", ", self.kinds_text))]

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


@dataclass
class Block:
    """Hold the operations of a block in their order, the last of which leads out of it.

    Args:
        arguments: names of the values that it is given.
    """

    arguments: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


Region = dict[str, Block]  # by label, that where it begins first


@dataclass
class Function:
    """Hold a function of the code: names and kinds of its arguments, and what it does."""

    arguments: list[str]
    kinds: list[Kind]
    body: Region


class Code(NamedTuple):
    """Hold a kernel's intermediate code.

    Args:
        lines: of the text.
        functions: by name.
        main: the name of the kernel's function.
    """

    lines: list[str]
    functions: dict[str, Function]
    main: str


def read(text: str) -> Code:
    """Read intermediate code.

    Raises:
        Unknown: if a type is not known here, or a line cannot be read.
    """
    return _Reader(text).read()


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
        return Kind(shape, NUMBERS["i64"], find_dtype(found[1]).itemsize)
    return Kind(shape, find_dtype(name))


def find_dtype(name: str) -> np.dtype:
    """Return what a name of numbers such as "f32" stands for."""
    if name not in NUMBERS:
        raise Unknown(f"has numbers in {name}, which are not followed here as a GPU has them; do without")
    return NUMBERS[name]


class _Reader:
    """Read a text line by line."""

    def __init__(self, text: str) -> None:
        self._lines = [line.strip() for line in text.splitlines()]
        self._at = 0

    def read(self) -> Code:
        functions, main = {}, ""
        while self._at < len(self._lines):
            line = self._next()
            if line.startswith("tt.func"):
                if (name := find_function(line)) in functions:
                    raise Unknown("has two functions of one name")
                functions[name] = self._read_function(line)
                main = name if line.startswith("tt.func public ") else main
        return Code(self._lines, functions, main)

    def _next(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _read_function(self, line: str) -> Function:
        """Read a function whose first line this is."""
        head = _drop_places(line)
        given = head[head.index("(") + 1 : _find_end(head, head.index("("))]
        parts = [re.sub(r" \{.*?\}", "", one) for one in split(given)]
        names, kinds = [one.split(":")[0].strip() for one in parts], [one.split(":", 1)[1] for one in parts]
        return Function(names, [read_kind(one) for one in kinds], self._read_region())

    def _read_region(self) -> Region:
        """Read blocks up to the brace that closes them, whose line is left as the next."""
        label, blocks = "first", Region()
        while not (line := self._next()).startswith("}"):
            if line.startswith("^"):
                head = _drop_places(line.partition("//")[0])
                label = head[1:].partition("(")[0].removesuffix(":")
                blocks[label] = Block(VALUE.findall(head))
            elif line:
                self._read_operation(line, blocks.setdefault(label, Block()))
        self._at -= 1
        return blocks or {label: Block()}  # of a branch that does nothing

    def _read_operation(self, line: str, block: Block) -> None:
        """Read an operation, and the regions that it has."""
        number, text = self._at - 1, _drop_places(line)
        found = RESULTS.match(text)
        results = _list_results(found[1]) if found else []
        text = text[found.end() :] if found else text
        if not (named := NAME.match(text)):
            raise Unknown(f"has the code `{text[:80]}`, which cannot be read")
        rest = text[named.end() :]
        regions: list[Region] = []
        if rest.endswith("{"):
            regions, rest = self._read_regions(rest)
            number = self._at - 1  # where its place stands
        block.operations.append(Operation(named[1], results, rest, regions, number))

    def _read_regions(self, rest: str) -> tuple[list[Region], str]:
        """Return the regions of an operation whose first line ends in a brace, and the text beside them."""
        regions = []
        while True:
            regions.append(self._read_region())
            line = _drop_places(self._next())
            if not line.endswith("{"):
                return regions, f"{rest.rstrip('{').rstrip('(').rstrip()} {line.lstrip('})').strip()}"


def find_function(text: str) -> str:
    """Return the name of the function that a text names."""
    found = FUNCTION.search(text)
    if not found:
        raise Unknown(f"has the code `{text[:80]}`, which cannot be read")
    return found[1]


def split(text: str) -> list[str]:
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
