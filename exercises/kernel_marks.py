"""Note what a kernel does in Triton's interpreter, so that it can be compared with what the compiler read.

Every statement, branch, call and number of a kernel's text calls the ``Places`` of its function. What the
front end of the compiler has not read must not run; what it knows must have the same value; and what is a
number of the GPU for it is made one for the interpreter, which would go on with Python's. Like
serialization.py this file imports nothing of ours.
"""

import ast
import linecache
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

import numpy as np

RAN = "__ran__"  # under this name a kernel has its ``Places``
SCALARS = (bool, int, float, str, type(None))
PROMISES = ("multiple_of", "max_contiguous", "max_constancy")
COMPUTED = object()  # in place of a value that the compiler does not know


class Places:
    """Note what of a function ran, and with which numbers, and what the front end has read and knows.

    Args:
        file: name of the function's text.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.ran: set[tuple[Any, ...]] = set()
        self.read: set[tuple[Any, ...]] = set()
        self.found: dict[tuple[Any, ...], set[Any]] = {}  # numbers of Python that places had
        self.known: dict[tuple[Any, ...], set[Any]] = {}  # what the compiler knows of them, or ``COMPUTED``
        self.backwards: set[tuple[Any, ...]] = set()  # steps of ranges below 0
        self.kinds: dict[tuple[Any, ...], Any] = {}  # the dtypes of bounds of ranges
        self.bounds: dict[tuple[Any, ...], int] = {}  # their last values
        self.promises: set[tuple[Any, ...]] = set()  # of what offsets are multiples, and the like
        self.kept: set[tuple[Any, ...]] = set()  # those to which this program has come

    def __call__(self, place: tuple[Any, ...], value: Any = None) -> Any:
        """Note that a place has run, and return the value that it has."""
        self.ran.add(place)
        if place in self.promises:
            self.kept.add(place)
        return value

    def end_program(self) -> None:
        """Raise a ``TypeError`` if a program has not come to a promise, which a GPU believes in all."""
        missed, self.kept = self.promises - self.kept, set()
        self._refuse(missed, "makes a promise where some program never comes; make it before all branches")

    def note(self, place: tuple[Any, ...], value: Any) -> Any:
        """Note the value of an expression, if it is a number, and return it as the compiler has it."""
        plain = unwrap_constant(value)
        if not _is_constant(plain):  # a constant times a tile is a tile
            self.found.setdefault(place, set()).add(COMPUTED)
            return plain
        self.found.setdefault(place, set()).add(_name_value(plain))
        return _make_number(plain) if self.known.get(place) == {COMPUTED} else value

    def look_up(self, place: tuple[Any, ...], value: Any) -> Any:
        """Return what a name stands for, of which the compiler knows the value; note it, whatever it is."""
        plain = unwrap_constant(value)
        self.found.setdefault(place, set()).add(_name_value(plain) if _is_constant(plain) else COMPUTED)
        return value

    def assign(self, value: Any) -> Any:
        """Return what a variable is for the compiler: numbers, in tuples as well, are numbers of the GPU."""
        plain = unwrap_constant(value)
        if isinstance(plain, tuple):
            return tuple(map(self.assign, plain))
        if type(plain).__name__ == "tuple":  # Triton's own
            return type(plain)([self.assign(one) for one in plain.values])
        return _make_number(plain)

    def assign_again(self, value: Any) -> Any:
        """Return what ``assign`` does where a variable may have several values: they must be computed.

        Raises:
            TypeError: if one is a dtype, a text or a function: its compiler may keep another one than that
                which the interpreter comes to.
        """
        made = self.assign(value)
        if _is_fixed(made):
            raise TypeError(
                "gives a variable what is no number, in a loop, in a branch or a second time; do so once"
            )
        return made

    def give_back(self, value: Any) -> Any:
        """Return what a function returns, which must be computed as well, in tuples one by one."""
        made = self.assign(value)
        if unwrap_constant(value) is not None and _is_fixed(made):
            raise TypeError("returns what is no number; give it to the function as an argument")
        return value if hasattr(made, "handle") or made is None else made

    def declare(self, value: Any, kind: Any) -> Any:
        """Return what a variable with an annotation is for the compiler."""
        return value if getattr(kind, "__name__", "") == "constexpr" else self.assign_again(value)

    def bound(self, place: tuple[Any, ...], value: Any) -> Any:
        """Return a bound or the step of a range, and note it and its dtype."""
        number = _make_number(value)
        self.kinds[place], self.bounds[place] = number.dtype, int(number.handle.data.item())
        return value

    def count(self, value: Any, steps: bool, *places: tuple[Any, ...]) -> Any:
        """Return the variable of a loop, in the dtype that its bounds have together.

        Args:
            value: that it has for Python.
            steps: whether the last place is that of the step.
            places: of the bounds.

        Raises:
            OverflowError: if the next value is none of the dtype.
        """
        from triton.runtime.interpreter import interpreter_semantic as semantic

        number = _make_number(value)
        usual = [_make_number(0).dtype] * (3 - len(places))  # of a start at 0 and a step of 1
        kind = reduce(semantic.integer_promote_impl, [*(self.kinds[place] for place in places), *usual])
        after = int(number.handle.data.item()) + (self.bounds[places[-1]] if steps else 1)
        if not -(1 << kind.int_bitwidth - 1) <= after < 1 << kind.int_bitwidth - 1:
            raise OverflowError(f"counts to {after:,} in a loop, which is no {kind}, so a GPU never ends it")
        return number if kind == number.dtype else semantic.cast(number, kind)

    def take_value(self, x: Any) -> Any:
        """Return ``x.value``, which the compiler's constants have and the interpreter's numbers have not."""
        return x if isinstance(x, SCALARS) else x.value

    def step(self, place: tuple[Any, ...], value: Any) -> Any:
        """Return the step of a range, and note whether it is negative."""
        plain = unwrap_constant(value)
        if (plain if isinstance(plain, int) else getattr(plain, "handle", plain).data) < 0:
            self.backwards.add(place)
        return value

    def check_truth(self, value: Any) -> Any:
        """Return what stands beside `and` or `or`, if it is a truth value."""
        plain = unwrap_constant(value)
        if not isinstance(plain, bool) and str(getattr(plain, "dtype", "")) not in ("int1", "bool"):
            raise TypeError("joins by `and` or `or` what is no truth value, of which a GPU makes one")
        return value

    def compare(self) -> None:
        """Raise a ``TypeError`` for the first place that ran and was not read, or has another value."""
        self._refuse(self.ran - self.read, "is run by Triton's interpreter where its compiler never comes")
        unknown = {place for place in self.known if COMPUTED in self.known[place]}
        other = {
            place
            for place, values in self.found.items()
            if place in self.known and place not in unknown and not values <= self.known[place]
        }
        self._refuse(other, "has another value for Triton's compiler than for its interpreter")
        self._refuse(
            {place for place in unknown if len(self.known[place]) > 1 and self._differs(place)},
            "is a constant in one call and computed in another, and a GPU computes otherwise than Python",
        )
        self._refuse(
            self.backwards - (self.known.keys() - unknown),
            "counts down by a step that its compiler does not know, so a GPU never enters the loop",
        )

    def _differs(self, place: tuple[Any, ...]) -> bool:
        """Return whether a number of Python at a place may be none of the GPU, or is below 0."""
        numbers = [
            x for x in self.found.get(place, ()) if isinstance(x, (int, float)) and not isinstance(x, bool)
        ]
        return any(not 0 <= x < 2**31 if isinstance(x, int) else x != float(np.float32(x)) for x in numbers)

    def _refuse(self, places: set[tuple[Any, ...]], why: str) -> None:
        """Raise a ``TypeError`` for the first of these places, if there is one."""
        if places:
            line = linecache.getline(self.file, min(place[1] for place in places)).strip()
            raise TypeError(f"{why}, in `{line}`")


def unwrap_constant(value: Any) -> Any:
    """Return the value of a ``tl.constexpr``."""
    return value.value if type(value).__name__ == "constexpr" else value


def _make_number(value: Any) -> Any:
    """Return a number of Python as one of the GPU, and anything else as it is."""
    from triton.runtime.interpreter import interpreter_semantic

    return interpreter_semantic.to_tensor(value, False)


def _is_constant(value: Any) -> bool:
    """Return whether a value is one that the compiler can know: a number, a text, nothing, or a dtype."""
    return isinstance(value, SCALARS) or type(value).__name__ == "dtype"


def _is_fixed(made: Any) -> bool:
    """Return whether what a variable is for the compiler is no number of the GPU, or not in all parts."""
    parts = made if isinstance(made, tuple) else getattr(made, "values", None)
    return not hasattr(made, "handle") if parts is None else any(map(_is_fixed, parts))


def _name_value(value: Any) -> Any:
    """Return what is equal for equal numbers, NaN among them."""
    return "NaN" if value != value else value


def find_place(node: ast.AST) -> tuple[Any, ...]:
    """Return what tells a node of a text from all others."""
    place = (getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
    return type(node).__name__, *place


# --- marks in a text ----------------------------------------------------------------------------------------


class Marks(ast.NodeTransformer):
    """Let every statement, and every branch of an expression, call the ``Places`` of its function."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Put a mark before each statement of a body."""
        super().generic_visit(node)
        for name in ("body", "orelse"):
            if isinstance(part := getattr(node, name, None), list) and not isinstance(node, ast.Module):
                setattr(node, name, [x for one in part for x in (ast.Expr(_mark(find_place(one))), one)])
        return node

    def __init__(self, places: Places) -> None:
        self._places, self._known = places, places.known
        self._conditions: set[int] = set()  # of which only the truth matters
        self._given: Counter[str] = Counter()  # how often a name gets a value in the text
        self._first: set[int] = set()  # statements that are run once, before all branches

    def visit(self, node: ast.AST) -> ast.AST:
        """Find out what conditions are made of."""
        if (test := getattr(node, "test", None)) is not None:
            self._conditions.update(map(id, _list_conditions(test)))
        return super().visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """Leave out the call of the range, which the front end takes apart, but for its bounds."""
        call, node.iter = node.iter, ast.Constant(None)
        assert isinstance(call, ast.Call)
        static = ast.unparse(call.func).endswith("static_range")
        self.generic_visit(node)
        step = next((one for one in call.keywords if one.arg == "step"), None)
        places = [find_place(one) for one in call.args[:3]] + ([find_place(step.value)] if step else [])
        super().generic_visit(call)
        if len(call.args) > 2:
            call.args[2] = _call("step", places[2], call.args[2])
        elif step:
            step.value = _call("step", places[-1], step.value)
        if not static:
            call.args[:3] = map(partial(_call, "bound"), places, call.args[:3])
            if step:
                step.value = _call("bound", places[-1], step.value)
            if isinstance(node.target, ast.Name):
                self._count(node, node.target.id, places, bool(step) or len(places) > 2)
        node.iter = call
        return node

    @staticmethod
    def _count(node: ast.For, name: str, places: list[tuple[Any, ...]], steps: bool) -> None:
        """Let the variable of a loop be a number of the GPU in it, and be gone behind it."""
        found = ast.Tuple([ast.Constant(one) for one in places], ast.Load())  # type: ignore[arg-type]
        starred = ast.Starred(found, ast.Load())
        number = _call("count", None, ast.Name(name, ast.Load()), ast.Constant(steps), starred)
        node.body.insert(0, ast.Assign([ast.Name(name, ast.Store())], number))
        node.orelse += [
            ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)),
            ast.Delete([ast.Name(name, ast.Del())]),
        ]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count how often each name gets a value."""
        parts = list(ast.walk(node))
        stored = [x.id for x in parts if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)]
        self._given = Counter([*stored, *(x.arg for x in parts if isinstance(x, ast.arg))])
        self._first = set(map(id, node.body))
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Let what is assigned be what it is for the compiler."""
        names = [x.id for one in node.targets for x in ast.walk(one) if isinstance(x, ast.Name)]
        once = id(node) in self._first and all(self._given[name] == 1 for name in names)
        self.generic_visit(node)
        node.value = _call("assign" if once else "assign_again", None, node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Let what is returned be computed."""
        self.generic_visit(node)
        if node.value is not None:
            node.value = _call("give_back", None, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Let what is assigned be what it is for the compiler, a constant where it is declared as one."""
        assert node.value is not None  # see kernel_rules.py
        node.value = _call("declare", None, self.visit(node.value), node.annotation)  # type: ignore[arg-type]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Mark a call, of which the front end may leave out what it thinks is said in vain."""
        super().generic_visit(node)
        own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "interpreter_semantic"
        if own:
            return node  # its own calls are no part of the text
        if ast.unparse(node.func).rpartition(".")[2] in PROMISES:
            self._places.promises.add(find_place(node))
        return _mark(find_place(node), _call("note", find_place(node), node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark both branches, and note which value there is."""
        place, *places = (find_place(one) for one in (node, node.body, node.orelse))
        super().generic_visit(node)
        node.body, node.orelse = map(_mark, places, (node.body, node.orelse))
        return _call("note", place, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Mark all but the first, which are left out where the first decides."""
        place, *places = map(find_place, (node, *node.values[1:]))
        super().generic_visit(node)
        plain = id(node) in self._conditions
        if not plain:
            node.values = [_call("check_truth", None, one) for one in node.values]
        node.values[1:] = map(_mark, places, node.values[1:])
        return node if plain else _call("note", place, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Find the value of a constant."""
        self.generic_visit(node)
        return _call("take_value", None, node.value) if node.attr == "value" else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Note what a name stands for, where the compiler knows it: it forgets what an `if` makes of it."""
        place = find_place(node)
        if isinstance(node.ctx, ast.Load) and COMPUTED not in self._known.get(place, {COMPUTED}):
            return _call("look_up", place, node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Note what is taken out of a tuple."""
        return self._note(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Note what a comparison gives."""
        return self._note(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Note what a sign or a `not` gives."""
        return self._note(node)

    def _note(self, node: ast.expr) -> ast.AST:
        """Return a call that notes the value of an expression."""
        place = find_place(node)
        super().generic_visit(node)
        return _call("note", place, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Note what arithmetic gives."""
        return self._note(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Let `a += b` be `a = a + b`, as for the front end."""
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        whole = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        value = _call("assign_again", None, self.visit_BinOp(whole))  # type: ignore[arg-type]
        return ast.copy_location(ast.Assign([node.target], value), node)


def _list_conditions(test: ast.AST) -> Iterator[ast.AST]:
    """Yield a condition, and the conditions that it consists of."""
    yield test
    if isinstance(test, ast.BoolOp):
        for one in test.values:
            yield from _list_conditions(one)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _list_conditions(test.operand)


def _mark(place: Any, *value: ast.expr) -> ast.Call:
    """Return a call that notes a place, and returns the value there."""
    return ast.Call(ast.Name(RAN, ast.Load()), [ast.Constant(place), *value], [])


def _call(name: str, place: Any, *values: ast.expr) -> ast.Call:
    """Return a call of a method of ``Places``."""
    own = ast.Attribute(ast.Name(RAN, ast.Load()), name, ast.Load())
    return ast.Call(own, [*([] if place is None else [ast.Constant(place)]), *values], [])


# --- what is read -------------------------------------------------------------------------------------------


@contextmanager
def note_reading() -> Iterator[None]:
    """While the block runs, the front end notes where it comes in functions that have ``Places``."""
    from triton.compiler.code_generator import CodeGenerator

    visit, find = CodeGenerator.visit, CodeGenerator._find_carries

    def noting(generator: Any, node: Any) -> Any:
        value = visit(generator, node)
        if hasattr(node, "lineno") and isinstance(places := generator.gscope.get(RAN), Places):
            plain = unwrap_constant(value)
            places.read.add(find_place(node))
            if isinstance(node, ast.expr):
                known = _name_value(plain) if _is_constant(plain) else COMPUTED
                places.known.setdefault(find_place(node), set()).add(known)
        return value

    def finding(generator: Any, node: Any, before: dict[str, Any], *rest: Any, **options: Any) -> Any:
        found = find(generator, node, before, *rest, **options)
        _refuse_two_names(node, before, found[0])
        return found

    CodeGenerator.visit, CodeGenerator._find_carries = noting, finding
    try:
        yield
    finally:
        CodeGenerator.visit, CodeGenerator._find_carries = visit, find


def _refuse_two_names(loop: Any, before: dict[str, Any], carried: list[str]) -> None:
    """Refuse a loop that gives new values to two variables which are one number where it begins.

    The compiler looks which variables have another number after the first turn, so it takes one that was
    given the other's for unchanged.

    Args:
        loop: a `for` or `while`.
        before: the variables where it begins.
        carried: those of which the compiler knows that the loop changes them.

    Raises:
        TypeError: if there are two.
    """
    from triton.compiler.code_generator import _is_triton_value, flatten_values_to_ir

    parts = [x for one in loop.body for x in ast.walk(one) if isinstance(x, ast.Name)]
    given = {x.id for x in parts if isinstance(x.ctx, ast.Store) and _is_triton_value(before.get(x.id))}
    numbers = {name: flatten_values_to_ir([before[name]]) for name in {*given, *carried}}
    for name in sorted(given - set(carried)):
        for other in carried:
            if any(one in numbers[other] for one in numbers[name]):
                raise TypeError(
                    f"`{name}` and `{other}` are one number where a loop begins that changes both, and the "
                    f"compiler forgets one of them; begin with `{name} = {other} + 0`"
                )
