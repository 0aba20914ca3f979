"""Ask Triton's own front end whether it compiles a kernel, in a process where Triton is an interpreter.

The front end turns a kernel's text into Triton's intermediate code. It needs no GPU, and finds what the
interpreter, which is Python, lets pass: a variable that is not there after a loop, a type that changes in
one, a list. It works on functions of the compiler's kind, and here all are of the interpreter's, so they are
exchanged while it looks. What the interpreter has run and the front end has not read is refused as well: a
condition may be decided otherwise by the two. So is what the two give different values, as far as these are
known to the compiler. Like serialization.py this file imports nothing of ours.
"""

import ast
import linecache
import operator
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

TARGET = ("cuda", 90, 32)  # nothing is run on it
TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int32: "*i32", torch.int64: "*i64"}
REPRESENTED = re.compile(r"^\w+\((['\"])(.*)\1\)$")  # an exception, as in NameError('x')
RAN = "__ran__"  # under this name a kernel has its ``Places``
SCALARS = (bool, int, float, str, type(None))
COMPUTED = object()  # in place of a value that the compiler does not know
_SEEN: set[Any] = set()  # functions of kernels that were found to compile, with their constants
_PRISTINE: list[tuple[Any, dict[str, Any]]] = []  # modules and classes of Triton's language, as they were


def check_compiles(kernel: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse a kernel that Triton does not compile. Each is looked at once for the same constants.

    Args:
        kernel: a function under ``triton.jit``, of the interpreter's kind.
        arguments: of a launch, by name.

    Raises:
        TypeError: with what the front end says, and of which line; or if it did not come to one that has run.
    """
    remember()
    place = kernel.fn, tuple(arguments[name] for name in list_constants(kernel.fn))
    if place not in _SEEN and _PRISTINE:
        _read(kernel, arguments)
        _SEEN.add(place)
    own = kernel.fn.__globals__.get(RAN)
    if own is not None and own.read:
        for names in _list_globals(kernel.fn):
            names[RAN].compare()


def _read(kernel: Any, arguments: Mapping[str, Any]) -> None:
    """Let the front end read a kernel and what it calls; see ``check_compiles``."""
    with _compilers_language(_list_globals(kernel.fn)), warnings.catch_warnings(action="ignore"):
        try:
            front = _Front()
            front.read(_go_on, {"x": torch.zeros(1), "n": 1, "TILE": 2})
        except Exception:  # another version of Triton, which is built otherwise
            return
        try:
            with _noting_what_is_read():
                front.read(kernel.fn, arguments)
        except Exception as error:
            raise TypeError(f"is not compiled by Triton: {_describe(error)}") from None


def list_constants(function: Any) -> list[str]:
    """Return the names of the arguments that the compiler takes as constants."""
    return [name for name, kind in function.__annotations__.items() if "constexpr" in str(kind)]


def _go_on(x, n, TILE: "constexpr"):  # type: ignore  # Triton reads annotations
    """Be a kernel that every version of Triton compiles."""
    x += n + TILE


# --- what runs must have been read --------------------------------------------------------------------------


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
        self.floored: set[tuple[Any, ...]] = set()  # where a negative number was divided
        self.backwards: set[tuple[Any, ...]] = set()  # steps of ranges below 0

    def __call__(self, place: tuple[Any, ...], value: Any = None) -> Any:
        """Note that a place has run, and return the value that it has."""
        self.ran.add(place)
        return value

    def note(self, place: tuple[Any, ...], value: Any) -> Any:
        """Note the value of an expression, if it is a number of Python, and return it."""
        plain = _unwrap(value)
        if isinstance(plain, SCALARS):
            self.found.setdefault(place, set()).add(_name_value(plain))
        return value

    def divide(self, place: tuple[Any, ...], left: Any, right: Any, rest: bool) -> Any:
        """Return ``left // right``, or ``left % right``, and note whether a GPU would round otherwise."""
        a, b = _unwrap(left), _unwrap(right)
        if isinstance(a, int) and isinstance(b, int) and b != 0 and (a < 0) != (b < 0) and a % b:
            self.floored.add(place)
        return self.note(place, (operator.mod if rest else operator.floordiv)(left, right))

    def step(self, place: tuple[Any, ...], value: Any) -> Any:
        """Return the step of a range, and note whether it is negative."""
        plain = _unwrap(value)
        if (plain if isinstance(plain, int) else getattr(plain, "handle", plain).data) < 0:
            self.backwards.add(place)
        return value

    def check_truth(self, value: Any) -> Any:
        """Return what stands beside `and` or `or`, if it is a truth value."""
        plain = _unwrap(value)
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
        wide = {place for place, values in self.found.items() if not all(map(_is_of_a_gpu, values))}
        self._refuse(wide & unknown, "has a number of more than 32 bits")
        self._refuse(
            self.floored - (self.known.keys() - unknown),
            "divides a negative number, which a GPU rounds toward 0 and Python downwards",
        )
        self._refuse(
            self.backwards - (self.known.keys() - unknown),
            "counts down by a step that its compiler does not know, so a GPU never enters the loop",
        )

    def _refuse(self, places: set[tuple[Any, ...]], why: str) -> None:
        """Raise a ``TypeError`` for the first of these places, if there is one."""
        if places:
            line = linecache.getline(self.file, min(place[1] for place in places)).strip()
            raise TypeError(f"{why}, in `{line}`")


def _unwrap(value: Any) -> Any:
    """Return the value of a ``tl.constexpr``."""
    return value.value if type(value).__name__ == "constexpr" else value


def _is_of_a_gpu(value: Any) -> bool:
    """Return whether a whole number has 32 bits at most."""
    return not isinstance(value, int) or -(2**31) <= value < 2**31


def _name_value(value: Any) -> Any:
    """Return what is equal for equal numbers, NaN among them."""
    return "NaN" if value != value else value


def find_place(node: ast.AST) -> tuple[Any, ...]:
    """Return what tells a node of a text from all others."""
    place = (getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
    return type(node).__name__, *place


class Marks(ast.NodeTransformer):
    """Let every statement, and every branch of an expression, call the ``Places`` of its function."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Put a mark before each statement of a body."""
        super().generic_visit(node)
        for name in ("body", "orelse"):
            if isinstance(part := getattr(node, name, None), list) and not isinstance(node, ast.Module):
                setattr(node, name, [x for one in part for x in (ast.Expr(_mark(find_place(one))), one)])
        return node

    def __init__(self) -> None:
        self._conditions: set[int] = set()  # of which only the truth matters

    def visit(self, node: ast.AST) -> ast.AST:
        """Find out what conditions are made of."""
        if (test := getattr(node, "test", None)) is not None:
            self._conditions.update(map(id, _list_conditions(test)))
        return super().visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """Leave out the call of the range, which the front end takes apart, but for its step."""
        call, node.iter = node.iter, ast.Constant(None)
        self.generic_visit(node)
        steps = [*call.args[2:], *(one.value for one in call.keywords if one.arg == "step")]  # type: ignore
        places = {id(one): find_place(one) for one in steps}
        node.iter = super().generic_visit(call)  # type: ignore[assignment]
        if len(node.iter.args) > 2:  # type: ignore[attr-defined]
            node.iter.args[2] = _call("step", places[id(steps[0])], node.iter.args[2])  # type: ignore
        for one in node.iter.keywords:  # type: ignore[attr-defined]
            if one.arg == "step":
                one.value = _call("step", places[id(steps[-1])], one.value)
        static = ast.unparse(call.func).endswith("static_range")  # type: ignore[attr-defined]
        if isinstance(node.target, ast.Name) and not static:
            self._count(node, node.target.id)
        return node

    @staticmethod
    def _count(node: ast.For, name: str) -> None:
        """Let the variable of a loop be a number of the GPU in it, and be gone behind it."""
        make = ast.Attribute(ast.Name("interpreter_semantic", ast.Load()), "to_tensor", ast.Load())
        number = ast.Call(make, [ast.Name(name, ast.Load()), ast.Constant(False)], [])
        node.body.insert(0, ast.Assign([ast.Name(name, ast.Store())], number))
        node.orelse += [
            ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)),
            ast.Delete([ast.Name(name, ast.Del())]),
        ]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Mark a call, of which the front end may leave out what it thinks is said in vain."""
        super().generic_visit(node)
        own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "interpreter_semantic"
        if own:
            return node  # its own calls are no part of the text
        return _mark(find_place(node), _call("note", find_place(node), node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark both branches."""
        places = [find_place(one) for one in (node.body, node.orelse)]
        super().generic_visit(node)
        node.body, node.orelse = map(_mark, places, (node.body, node.orelse))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Mark all but the first, which are left out where the first decides."""
        places = [find_place(one) for one in node.values[1:]]
        super().generic_visit(node)
        if id(node) not in self._conditions:
            node.values = [_call("check_truth", None, one) for one in node.values]
        node.values[1:] = map(_mark, places, node.values[1:])
        return node

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
        """Note what arithmetic gives, and how it divides."""
        place = find_place(node)
        super().generic_visit(node)
        if not isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            return _call("note", place, node)
        return _call("divide", place, node.left, node.right, ast.Constant(isinstance(node.op, ast.Mod)))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Let `a += b` be `a = a + b`, as for the front end."""
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        whole = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit_BinOp(whole)), node)  # type: ignore


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


@contextmanager
def _noting_what_is_read() -> Iterator[None]:
    """While the block runs, the front end notes where it comes in functions that have ``Places``."""
    from triton.compiler.code_generator import CodeGenerator

    visit = CodeGenerator.visit

    def noting(generator: Any, node: Any) -> Any:
        value = visit(generator, node)
        if hasattr(node, "lineno") and RAN in generator.gscope:
            places, plain = generator.gscope[RAN], _unwrap(value)
            places.read.add(find_place(node))
            if isinstance(node, ast.expr):
                known = _name_value(plain) if isinstance(plain, SCALARS) else COMPUTED
                places.known.setdefault(find_place(node), set()).add(known)
        return value

    CodeGenerator.visit = noting
    try:
        yield
    finally:
        CodeGenerator.visit = visit


# --- the front end ------------------------------------------------------------------------------------------


class _Front:
    """Hold the parts of Triton's compiler that come before the code for a GPU."""

    def __init__(self) -> None:
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import ASTSource, make_backend

        self._source, self._target = ASTSource, GPUTarget(*TARGET)
        self._backend = make_backend(self._target)
        self._options = self._backend.parse_options({})
        self._context = ir.context()
        ir.load_dialects(self._context)
        self._backend.load_dialects(self._context)
        self._codegen = self._backend.get_codegen_implementation(self._options)
        self._modules = self._backend.get_module_map()
        _ = ASTSource.make_ir

    def read(self, function: Any, arguments: Mapping[str, Any]) -> None:
        """Read a kernel; what the front end refuses raises."""
        from triton.runtime.jit import JITFunction

        compiled = JITFunction(function)
        kinds, constants = {}, {}
        for number, one in enumerate(compiled.params):
            value = arguments[one.name]
            if one.is_constexpr:
                kinds[one.name], constants[(number,)] = "constexpr", value
            elif isinstance(value, torch.Tensor):
                kinds[one.name] = TYPES[value.dtype]
            else:
                kinds[one.name] = "i32" if isinstance(value, int) else "fp32"
        source = self._source(compiled, kinds, constants)
        source.make_ir(self._target, self._options, self._codegen, self._modules, self._context)


def remember() -> None:
    """Note what Triton's language is before the interpreter changes it, as it does, at times for good."""
    if not _PRISTINE and "triton.language" in sys.modules:
        import triton.language as tl

        if not tl.core.load.__code__.co_filename.endswith("interpreter.py"):
            _PRISTINE.extend(_list_spaces())


def _list_spaces() -> list[tuple[Any, dict[str, Any]]]:
    """Return the modules and classes in which the interpreter exchanges functions, and what they have now."""
    import triton.language as tl

    modules = [one for name, one in sys.modules.items() if name.startswith("triton.language") and one]
    return [(one, dict(vars(one))) for one in (*modules, tl.core.tensor, tl.core.tensor_descriptor_base)]


def _put_back(spaces: list[tuple[Any, dict[str, Any]]]) -> None:
    """Give modules and classes the contents that were noted."""
    for space, noted in spaces:
        for name, value in list(vars(space).items()):
            if name not in noted:
                delattr(space, name)
            elif value is not noted[name]:
                setattr(space, name, noted[name])
        for name in noted.keys() - vars(space).keys():
            setattr(space, name, noted[name])


def _list_globals(function: Any) -> list[dict[str, Any]]:
    """Return the global names of a kernel, and of the functions under ``triton.jit`` that it may call."""
    from triton.runtime.interpreter import InterpretedFunction

    found = [function.__globals__]
    for names in found:  # it grows meanwhile
        for value in list(names.values()):
            own = isinstance(value, InterpretedFunction) and not value.fn.__module__.startswith("triton.")
            if own and all(value.fn.__globals__ is not one for one in found):
                found.append(value.fn.__globals__)
    return found


@contextmanager
def _compilers_language(spaces: list[dict[str, Any]]) -> Iterator[None]:
    """While the block runs, Triton's language is the compiler's, as are functions under ``triton.jit``.

    Args:
        spaces: the global names of a kernel, and of what it calls.
    """
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    now = _list_spaces()
    own = [{name: x for name, x in one.items() if isinstance(x, InterpretedFunction)} for one in spaces]
    made: dict[Any, Any] = {}
    _put_back(_PRISTINE)
    try:
        for space, _ in _PRISTINE:
            for name, value in list(vars(space).items()):
                if isinstance(value, InterpretedFunction):
                    setattr(space, name, made.setdefault(value.fn, JITFunction(value.fn)))
        for name, value in vars(sys.modules["triton.language.standard"]).items():
            if isinstance(value, JITFunction) and name in vars(tl.core.tensor):  # methods, as in `x.sum()`
                setattr(tl.core.tensor, name, value)
        for names, functions in zip(spaces, own, strict=True):
            names.update({name: made.setdefault(x.fn, JITFunction(x.fn)) for name, x in functions.items()})
        yield
    finally:
        for names, functions in zip(spaces, own, strict=True):
            names.update(functions)
        _put_back(now)


def _describe(error: Exception) -> str:
    """Return what is wrong, and the line of the kernel."""
    while error.__cause__ is not None and getattr(error.__cause__, "src", None):  # in a function it calls
        error = error.__cause__  # type: ignore[assignment]
    said = [
        getattr(error, "error_message", None),
        error.__cause__,
        *reversed(str(error).strip().splitlines()),
    ]
    reasons = [str(one).strip().splitlines()[0] for one in said if one and str(one).strip(" ^\n")]
    reason = REPRESENTED.sub(r"\2", reasons[0] if reasons else type(error).__name__)
    source, node = getattr(error, "src", None), getattr(error, "node", None)
    lines = source.splitlines() if isinstance(source, str) else []
    number = getattr(node, "lineno", 0)
    where = f", in `{lines[number - 1].strip()}`" if 0 < number <= len(lines) else ""
    return f"{reason[:200]}{where}"
