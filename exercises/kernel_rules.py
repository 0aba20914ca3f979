"""Say what the text of a kernel may be: Triton's language.

Triton's compiler runs some of a kernel's text itself, such as calls of functions with constants. So what
could reach beyond its language is refused before, as is, in words that help, what it does not compile. What a
text means is for the compiler alone to say. Like serialization.py this file imports nothing of ours.
"""

import ast
import builtins
import inspect
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
WRONG_WAY = (
    'Triton was imported as a compiler. Start Python again, and set os.environ["TRITON_INTERPRET"] = "1" '
    "before anything imports it"
)
NEEDED = "interpreter_semantic"  # of the interpreter's names, which it gives to all kernels
OLDEST = (3, 6)  # version of Triton; the interpreter and the front end of earlier ones are built otherwise


def is_interpreter() -> bool:
    """Return whether Triton was imported as an interpreter; the environment may have been set too late."""
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    return not isinstance(tl.max, JITFunction)


def check_kernel(kernel: Any) -> None:
    """Refuse what is no kernel, and a text that names what is no part of Triton's language.

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
    functions = [kernel.fn]
    try:
        _check_returns(kernel.fn)
        with ALONE:
            for function in functions:  # it grows meanwhile
                called = _check_text(function, InterpretedFunction)
                functions += [one for one in called if one not in functions]
    except RecursionError:
        raise TypeError("has hundreds of signs or brackets in one expression; take it apart") from None


def _check_text(function: Callable[..., Any], kind: type) -> list[Callable[..., Any]]:
    """Check one function, and return those under ``triton.jit`` that it names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    known = {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}
    own = list_own_names(function)
    known = {name: value for name, value in known.items() if name not in own}
    for default in function.__defaults__ or ():
        if not (default is None or isinstance(default, str) or _is_of_language("", default)):
            raise TypeError(f"has a default of type {type(default).__name__}, expected numbers")
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # before a dot
    found = []
    lent = vars(sys.modules["triton.runtime.interpreter"]).keys() - known.keys() - own
    said = {id(part) for node in nodes for text in _list_said(node) for part in ast.walk(text)}
    if wrong := next(filter(_is_kept, (tree.name, *own, *_list_names(nodes))), None):
        raise TypeError(f"uses the name `{wrong}`, which Python or the interpreter keeps for itself")
    if wrong := next((name for name in _list_names(nodes) if name in lent), None):
        raise NameError(f"name '{wrong}' is not defined")  # the interpreter gives kernels all of its names
    for node in nodes:
        _check_syntax(node)
        if isinstance(node, ast.JoinedStr) and id(node) not in said:
            raise TypeError(f"puts a text together, which only asserts and prints may: `{ast.unparse(node)}`")
        if isinstance(node, ast.Attribute) and _find_value(node, known) is UNKNOWN:
            _check_attribute(node, known)
        if not isinstance(node, (ast.Name, ast.Attribute)) or (value := _find_value(node, known)) is UNKNOWN:
            continue
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


def _check_returns(function: Callable[..., Any]) -> None:
    """Refuse a kernel that returns what it has computed; the functions that it calls may."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Return) and not isinstance(node.value, (ast.Constant, types.NoneType)):
            raise TypeError(f"returns a value, for which a GPU has no place: `{ast.unparse(node)}`; store it")


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
