"""Say what the text of a kernel may be: what Triton compiles, and its language.

The interpreter is Python, so it takes much that Triton's compiler refuses; that is refused here as well, as
is all that could reach beyond Triton's language. Like serialization.py this file imports nothing of ours.
"""

import ast
import builtins
import inspect
import re
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

ALONE = threading.RLock()  # held through a launch or a look: launches exchange Triton's language for all
UNKNOWN = object()  # in place of a value
# What the text of a kernel may name besides Triton's language, other kernels and numbers.
OF_TRITON = {"triton.cdiv", "triton.next_power_of_2"}  # beside its language
BUILTINS = {"range", "min", "max", "len", "int", "float", "bool", "print"}
BUILTINS |= {"True", "False", "None", "NotImplementedError"}  # the last is what an empty answer raises
# classes of the language that a kernel may make or name
CLASSES = {"range", "static_range", "constexpr", "tuple", "PropagateNan", "PROPAGATE_NAN"}
# what tiles and dtypes say of themselves
OF_VALUES = {"shape", "dtype", "type", "value", "element_ty", "scalar", "numel", "primitive_bitwidth"}
# what may put texts together
WITH_TEXTS = {"static_assert", "static_print", "device_assert", "device_print", "print"}
# What a compiled kernel may be made of, see Triton's code_generator.py; and `raise`, for an empty answer.
STATEMENTS = "Assign AugAssign AnnAssign For While If Expr Return Assert Pass Raise"
EXPRESSIONS = (
    "BoolOp BinOp UnaryOp IfExp Compare Call Constant Name Attribute Subscript Slice List Tuple Starred "
    "JoinedStr FormattedValue"
)
COMPILED = tuple(getattr(ast, name) for name in f"{STATEMENTS} {EXPRESSIONS}".split())
# parts of names of what does more than to compute, which is not to be left to `and` and `or`
ACCESSES = ("load", "store", "atomic", "gather", "scatter", "print", "assert")
WRONG_WAY = (
    'Triton was imported as a compiler. Start Python again, and set os.environ["TRITON_INTERPRET"] = "1" '
    "before anything imports it"
)
NEEDED = "interpreter_semantic"  # of the interpreter's names, which it gives to all kernels
# What no text may hold that is given to a function: Triton makes these letters of brackets, quotes, points.
AMBIGUOUS = re.compile(r"[\[\]']|_d_|_sq_")
OLDEST = (3, 6)  # version of Triton; the interpreter and the front end of earlier ones are built otherwise


def is_interpreter() -> bool:
    """Return whether Triton was imported as an interpreter; the environment may have been set too late."""
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    return not isinstance(tl.max, JITFunction)


def check_kernel(kernel: Any) -> None:
    """Refuse what Triton's compiler would refuse and its interpreter, which is Python, takes.

    Args:
        kernel: what is to be launched.

    Raises:
        TypeError: if it is no function under ``triton.jit``, or names what is no part of Triton's language.
        RuntimeError: if Triton was imported as a compiler, or is too old.
    """
    import triton
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    if isinstance(kernel, JITFunction) or not is_interpreter():
        raise RuntimeError(WRONG_WAY)
    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST:
        raise RuntimeError(
            f"Triton {triton.__version__} is installed, expected {'.'.join(map(str, OLDEST))} or newer: "
            "`pip install -U triton`, then start Python again. No GPU is needed"
        )
    if not isinstance(kernel, InterpretedFunction):
        raise TypeError(f"is a {type(kernel).__name__}, expected a kernel: a function under `@triton.jit`")
    _check_returns(kernel.fn)
    seen: dict[tuple[str, str], Callable[..., Any]] = {}
    pending = [kernel.fn]
    with ALONE:
        while pending:
            function = pending.pop()
            name = function.__module__, function.__qualname__  # by which the compiler tells functions apart
            if name not in seen:
                seen[name] = function
                pending += _check_text(function, InterpretedFunction)
            elif seen[name] is not function:
                raise TypeError(f"calls two functions of the name `{function.__name__}`; rename one of them")


def _check_text(function: Callable[..., Any], kind: type) -> list[Callable[..., Any]]:
    """Check one function, and return those under ``triton.jit`` that it names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    known = {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}
    own = list_own_names(function)
    known = {name: value for name, value in known.items() if name not in own}
    for default in function.__defaults__ or ():
        _check_constant(default)
        if not (default is None or isinstance(default, str) or _is_of_language("", default)):
            raise TypeError(f"has a default of type {type(default).__name__}, expected numbers")
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # before a dot
    found = []
    lent = vars(sys.modules["triton.runtime.interpreter"]).keys() - known.keys() - own
    said = {id(part) for node in nodes for text in _list_said(node) for part in ast.walk(text)}
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # such as what a kernel is for
    if wrong := next(filter(_is_kept, (tree.name, *own, *_list_names(nodes))), None):
        raise TypeError(f"uses the name `{wrong}`, which Python or the interpreter keeps for itself")
    if wrong := next((name for name in _list_names(nodes) if name in lent), None):
        raise NameError(f"name '{wrong}' is not defined")  # the interpreter gives kernels all of its names
    for node in nodes:
        _check_syntax(node)
        _check_joined(node, known)
        _check_order(node, known)
        if isinstance(node, ast.JoinedStr) and id(node) not in said:
            raise TypeError(f"puts a text together, which only asserts and prints may: `{ast.unparse(node)}`")
        if isinstance(node, ast.Constant) and id(node) not in said | alone:
            _check_constant(node.value)
        if isinstance(node, ast.Attribute) and _find_value(node, known) is UNKNOWN:
            _check_attribute(node, known)
        if not isinstance(node, (ast.Name, ast.Attribute)) or (value := _find_value(node, known)) is UNKNOWN:
            continue
        _check_constant(value)
        if isinstance(value, kind) and not is_of_language(value.fn.__module__):  # type: ignore[attr-defined]
            found.append(value.fn)  # type: ignore[attr-defined]
        elif inspect.ismodule(value) and id(node) in inner:
            continue  # what is taken of it is looked at by itself
        elif inspect.ismodule(value):
            raise TypeError(f"uses `{ast.unparse(node)}` by itself, expected a function of it")
        elif not (isinstance(value, kind) or _is_of_language(ast.unparse(node), value)):
            raise TypeError(
                f"uses the number `{node.id}` of the module; there write `{node.id} = tl.constexpr({value})`"
                if isinstance(node, ast.Name) and isinstance(value, (int, float))
                else f"uses `{ast.unparse(node)}`, which is no part of Triton's language"
            )
    return found


def _check_constant(value: Any) -> None:
    """Refuse a text, also in a tuple, by which Triton names a function as by another text."""
    value = getattr(value, "value", value)  # of a tl.constexpr
    for one in value if isinstance(value, tuple) else ():
        _check_constant(one)
    if isinstance(value, str) and AMBIGUOUS.search(value):
        raise TypeError(f"has the text {value!r}, which Triton cannot tell from another one")


def _check_returns(function: Callable[..., Any]) -> None:
    """Refuse a kernel that returns what it has computed; the functions that it calls may."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Return) and not isinstance(node.value, (ast.Constant, types.NoneType)):
            raise TypeError(f"returns a value, for which a GPU has no place: `{ast.unparse(node)}`; store it")


def _check_joined(node: ast.AST, known: Mapping[str, Any]) -> None:
    """Refuse calls that do something behind `and` and `or`: a GPU makes them whatever stands before."""
    if not isinstance(node, ast.BoolOp):
        return
    for call in _list_acting([*node.values[1:]], known):
        name = ast.unparse(call.func)
        raise TypeError(f"calls `{name}` behind `and` or `or`, which a GPU does in any case; use `if`")


def _check_order(node: ast.AST, known: Mapping[str, Any]) -> None:
    """Refuse calls that act among arguments with a name and without: the compiler turns them round."""
    if isinstance(node, ast.Call):
        named = [one.value for one in node.keywords]
        first, second = _list_acting(node.args, known), _list_acting(named, known)
        if first and second and not all(_only_loads(call.func, known) for call in (*first, *second)):
            raise TypeError(
                f"calls `{ast.unparse(second[0].func)}` in an argument with a name, which a GPU does before "
                "those without; give it to a variable first"
            )


def _list_acting(nodes: Sequence[ast.AST], known: Mapping[str, Any]) -> list[ast.Call]:
    """Return the calls in these expressions that may do more than to compute."""
    return [
        part
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and _may_act(part.func, known)
    ]


def _may_act(called: ast.expr, known: Mapping[str, Any]) -> bool:
    """Return whether a function is of the kernel's own, is known by no name, or has access to memory."""
    return _is_own(called, known) or any(word in _name_last(called) for word in ACCESSES)


def _only_loads(called: ast.expr, known: Mapping[str, Any]) -> bool:
    """Return whether a function is the language's `load`, or a method of that name."""
    return _name_last(called) == "load" and not _is_own(called, known)


def _is_own(called: ast.expr, known: Mapping[str, Any]) -> bool:
    """Return whether a function is of the kernel's own, or is known by no name."""
    value = _find_value(called, known)
    own = hasattr(value, "fn") and not is_of_language(value.fn.__module__)
    return own or (value is UNKNOWN and not isinstance(called, ast.Attribute))


def _name_last(called: ast.expr) -> str:
    """Return the name of a function without what stands before its last dot."""
    return ast.unparse(called).rpartition(".")[2]


def list_own_names(function: Callable[..., Any]) -> set[str]:
    """Return the arguments of a function, and the names that it gives values to, as Python compiled it."""
    return set(function.__code__.co_varnames)


def _check_syntax(node: ast.AST) -> None:
    """Refuse what Triton does not compile."""
    text = ast.unparse(node).splitlines()[0][:80] if isinstance(node, (ast.stmt, ast.expr)) else ""
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        raise TypeError(f"uses `.{node.attr}`, which is no part of Triton's language")
    if isinstance(node, (ast.stmt, ast.expr)) and not isinstance(node, COMPILED):
        raise TypeError(f"has a statement that Triton does not compile: `{text}`")
    if isinstance(node, ast.keyword) and (node.arg or "_").startswith("_"):
        raise TypeError(f"gives an argument by the name {node.arg}, which is no part of Triton's language")
    if isinstance(node, ast.keyword) and node.arg in ("arg1", "arg2"):
        raise TypeError(f"gives a bound of a range by the name {node.arg}; write it in its place, without")
    if isinstance(node, ast.AnnAssign) and node.value is None:
        raise TypeError(f"names a type and no value, which Triton does not compile: `{text}`")
    if isinstance(node, ast.AnnAssign) and not all(map(_is_of_a_name, ast.walk(node.annotation))):
        raise TypeError(f"computes the type of a variable, expected the name of one: `{text}`")
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        raise TypeError(f"gives a value to `{text}`, which Triton does not compile")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        raise TypeError(f'uses `@`; a product of tiles is `tl.dot(a, b, input_precision="ieee")`: `{text}`')
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        raise TypeError(
            f"has two comparisons in one, which Triton does not compile: `{text}`; join them by `&`"
        )
    if (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        and ast.unparse(node.comparators[0]) != "None"
    ):
        raise TypeError(f"compares by `is`, which means something else to the compiler: `{text}`")
    if isinstance(node, ast.For) and not ast.unparse(node.iter).split("(")[0].endswith("range"):
        raise TypeError(
            f"has a loop over something else than a range, which Triton does not compile: `{text}`"
        )


def _is_kept(name: str) -> bool:
    """Return whether a name is Python's own, or the one that the interpreter calls itself by."""
    return name.startswith("__") or name == NEEDED


def _is_of_a_name(node: ast.AST) -> bool:
    """Return whether a node may be a part of the name of a type: `x`, `tl.x` or "x"."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.expr_context))


def _list_names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names that these nodes use."""
    yield from (node.id for node in nodes if isinstance(node, ast.Name))


def _list_said(node: ast.AST) -> list[ast.expr]:
    """Return the arguments of a call, or the part of an assertion, in which a text may be put together."""
    if isinstance(node, ast.Assert) and node.msg is not None:
        return [node.msg]
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in WITH_TEXTS:
        return [*node.args, *(one.value for one in node.keywords)]
    return []


def _check_attribute(node: ast.Attribute, known: Mapping[str, Any]) -> None:
    """Refuse an attribute of anything but a module, unless it is a method of tiles, or says what they are."""
    import triton.language as tl

    owner = _find_value(node.value, known)
    if inspect.ismodule(owner):
        return  # it has no such part, as the kernel will find
    allowed = set(OF_VALUES)
    if owner is UNKNOWN and inspect.isfunction(vars(tl.math).get(node.attr)):
        raise TypeError(f"uses `.{node.attr}()`, which Triton's interpreter lacks; write `tl.{node.attr}(x)`")
    if owner is UNKNOWN:  # something that the kernel computes
        allowed.update(vars(tl.core.tensor), vars(tl.core.tensor_descriptor_base))
    if owner is tl.PropagateNan:
        allowed = {"ALL", "NONE"}
    if node.attr not in allowed:
        raise TypeError(f"uses `.{node.attr}`, which is no part of Triton's language")


def _find_value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return what a global name stands for, or an attribute of a module; or ``UNKNOWN``."""
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute) and inspect.ismodule(module := _find_value(node.value, known)):
        return getattr(module, node.attr, UNKNOWN)
    return UNKNOWN


def _is_of_language(name: str, value: Any) -> bool:
    """Return whether a kernel may use a global name, or an attribute of a module."""
    if name in BUILTINS and value is getattr(builtins, name, None):
        return True
    if isinstance(value, (int, float, bool)):
        return "." in name or not name  # of a module, or a default; by itself it must be a tl.constexpr
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
    if inspect.isfunction(value) and is_of_language(module):  # others are the compiler's; one evaluates texts
        return bool(getattr(value, "__triton_builtin__", False))
    if inspect.isclass(value):
        return value.__name__ in CLASSES and (is_of_language(module) or module.startswith("triton._C."))
    return is_of_language(module) or f"{module}.{getattr(value, '__name__', '')}" in OF_TRITON


def is_of_language(module: str | None) -> bool:
    """Return whether a module is Triton itself, or one of its language; not that which tells GPUs apart."""
    return f"{module}.".startswith("triton.language.") and module != "triton.language.target_info"
