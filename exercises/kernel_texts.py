"""Hand a kernel over as text, from the process of an answer to one that has run nothing of it.

What an answer has defined or replaced in its own process has no part in what its kernels give: of a kernel
and the functions that it calls only the text goes over, and what each global name stands for, as far as a
kernel may use it. On the other side they are made anew, and looked at again before anything of them runs.

Like serialization.py this file imports nothing of ours but what the sandbox has loaded.
"""

import ast
import builtins
import inspect
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

if __package__:
    from linattn_exercises import kernel_front, kernel_rules
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_front, kernel_rules = (sys.modules[f"kernel_{name}"] for name in ("front", "rules"))

MAX_FUNCTIONS = 100
MAX_CHARACTERS = 100_000  # of all texts together
LENT = "constexpr"  # what annotations are made with
CONSTANTS = (bool, int, float, str, types.NoneType)
_NUMBERS = itertools.count(1)  # of kernels that were made anew

# --- the answer's side --------------------------------------------------------------------------------------


def describe_kernel(kernel: Any) -> list[dict[str, Any]]:
    """Return a kernel and the functions that it calls as plain data, the kernel first.

    Args:
        kernel: what is to be launched.

    Raises:
        TypeError: if it is no kernel, or uses what no kernel may, see ``kernel_rules.check_kernel``.
        RuntimeError: if Triton was imported as a compiler.
    """
    with kernel_rules.ALONE:
        kernel_rules.check_kernel(kernel)
        return _describe_kernel(kernel)


def _describe_kernel(kernel: Any) -> list[dict[str, Any]]:
    """Return what ``describe_kernel`` does."""
    from triton.runtime.interpreter import InterpretedFunction

    kernels, described = [kernel], []
    for one in kernels:  # it grows meanwhile
        names = {}
        for name, value in _list_globals(one.fn):
            own = isinstance(value, InterpretedFunction)
            if own and not kernel_rules.is_of_language(value.fn.__module__):
                if value not in kernels:
                    kernels.append(value)
                names[name] = {"function": kernels.index(value)}
            else:
                names[name] = _describe_value(name, value, one.fn)
        text = textwrap.dedent(inspect.getsource(one.fn))
        defaults = [_unwrap(default) for default in one.fn.__defaults__ or ()]
        if not all(isinstance(default, CONSTANTS) for default in defaults):
            raise TypeError(f"has a default that is no number in `{one.fn.__name__}`; hand it over by name")
        options = kernel_front.describe_options(one)
        place = {
            "module": one.fn.__module__,
            "place": one.fn.__qualname__,
        }  # tell functions apart, on a GPU too
        described.append({"text": text, "names": names, "defaults": defaults, **place, **options})
    return described


def _list_globals(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the global names that a function reads, and what each stands for."""
    tree = _read_function(inspect.getsource(function))
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)} - kernel_rules.list_own_names(function)
    yield from ((name, known[name]) for name in sorted(used & known.keys()))


def _describe_value(name: str, value: Any, function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a global name stands for: a module, a part of Triton's language, or a constant."""
    if inspect.ismodule(value):
        if value.__name__ == "triton" or kernel_rules.is_of_language(value.__name__):
            return {"module": value.__name__}
        used = ast.walk(_read_function(inspect.getsource(function)))
        wanted = {node.attr for node in used if isinstance(node, ast.Attribute)}
        numbers = {key: getattr(value, key, None) for key in wanted}
        return {"numbers": {key: x for key, x in numbers.items() if type(x) in (int, float)}}
    constant = _unwrap(value)
    if _is_constant(constant):
        return {"constant": constant}
    for place, module in _list_language():
        for key, one in vars(module).items():
            if one is constant or one is value:
                return {"module": place, "part": key}
    raise TypeError(f"uses `{name}`, which is no part of Triton's language")


def _unwrap(value: Any) -> Any:
    """Return the value of a ``tl.constexpr``."""
    return value.value if type(value).__name__ == "constexpr" else value


def _is_constant(value: Any) -> bool:
    """Return whether a value is a constant, or a tuple of constants."""
    return isinstance(value, CONSTANTS) or (type(value) is tuple and all(map(_is_constant, value)))


def _restore_tuples(value: Any) -> Any:
    """Return a constant with tuples in place of lists, which they are on their way."""
    return tuple(map(_restore_tuples, value)) if type(value) is list else value


# --- the other side -----------------------------------------------------------------------------------------


def build_kernel(described: Any) -> Any:
    """Make a kernel anew, in a process that has run nothing of the answer.

    Args:
        described: see ``describe_kernel``; from elsewhere, it may be anything.

    Raises:
        TypeError: if it uses what no kernel may.
    """
    try:
        with kernel_rules.ALONE:
            return _build_kernel(described)
    except (ValueError, LookupError, AttributeError, SyntaxError, RecursionError) as error:
        raise TypeError(f"cannot be read: {error}") from None


def _build_kernel(described: Sequence[Mapping[str, Any]]) -> Any:
    """Make a kernel anew; what was described may be anything."""
    import triton

    texts = [str(one["text"]) for one in described]
    if not 0 < len(texts) <= MAX_FUNCTIONS or sum(map(len, texts)) > MAX_CHARACTERS:
        raise TypeError(f"is too long: {len(texts)} functions, {sum(map(len, texts)):,} characters")
    made = [_build_function(text, one) for text, one in zip(texts, described, strict=True)]
    kernels = [
        triton.jit(function, **_read_options(one)) for function, one in zip(made, described, strict=True)
    ]
    for function, one in zip(made, described, strict=True):
        for name, what in one["names"].items():
            own = kernel_rules.list_own_names(function)  # what the kernel gives values to itself
            if str(name).startswith("__") or name in {kernel_rules.NEEDED, *own, *function.__globals__} - {
                LENT
            }:
                raise TypeError(f"uses `{name}`, which is no part of Triton's language")
            function.__globals__[name] = (
                kernels[int(what["function"])] if "function" in what else _find_value(what)
            )
    kernel_rules.check_kernel(kernels[0])
    return kernels[0]


def _build_function(text: str, described: Mapping[str, Any]) -> types.FunctionType:
    """Define a function of a text without running any of it: no decorator, default or annotation."""
    import triton.language as tl

    tree = _read_function(text)
    tree.decorator_list, tree.returns = [], None
    tree.body = [one for one in tree.body if not _is_text(one)] or [ast.Pass()]
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    if tree.args.vararg or tree.args.kwarg or tree.args.kw_defaults or getattr(tree, "type_params", None):
        raise TypeError(
            f"has other arguments than Triton's functions: `def {tree.name}({ast.unparse(tree.args)})`"
        )
    for one in arguments:
        kind = described["kinds"].get(one.arg)
        one.annotation = None if kind is None else _name_kind(str(kind))
    given = list(described["defaults"])
    if len(given) != len(tree.args.defaults) or not all(isinstance(one, CONSTANTS) for one in given):
        raise TypeError("has a default that is no number")
    tree.args.defaults = [ast.Constant(one) for one in given]
    name, text = f"<kernel {next(_NUMBERS)}>", f"{ast.unparse(tree)}\n"
    tree = _read_function(text)
    lines = text.splitlines(keepends=True)
    linecache.cache[name] = (len(text), None, lines, name)
    lent = {name: getattr(builtins, name) for name in kernel_rules.BUILTINS}
    names: dict[str, Any] = {
        "__name__": f"answer.{described['module']}",
        "__builtins__": lent,
        LENT: tl.constexpr,
    }
    if tree.name in names:
        raise TypeError(f"is called `{tree.name}`, a name that is taken")
    definition = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(definition, name, "exec"), names)  # of a definition alone
    function: types.FunctionType = names.pop(tree.name)  # if it calls itself, then what is made of it
    function.__qualname__ = str(described["place"])
    return function


def _name_kind(kind: str) -> ast.expr:
    """Return the annotation that says of an argument what it is for the compiler."""
    return ast.Name("constexpr", ast.Load()) if "constexpr" in kind else ast.Constant(kind)


def _read_options(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``triton.jit`` that a function was defined with."""
    general = described["do_not_specialize"]
    if general is not None and not all(isinstance(one, (str, int)) for one in general):
        raise TypeError("has options that are no names")
    return {"noinline": bool(described["noinline"]), "do_not_specialize": general}


def _is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is only a constant, as a docstring is."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _find_value(what: Mapping[str, Any]) -> Any:
    """Return what ``_describe_value`` described."""
    import triton.language as tl

    if "numbers" in what:
        numbers = types.ModuleType("numbers")
        vars(numbers).update({key: x for key, x in what["numbers"].items() if type(x) in (int, float)})
        return numbers
    if "constant" in what:
        constant = _restore_tuples(what["constant"])
        if not _is_constant(constant):
            raise TypeError("has a constant that is no number")
        return tl.constexpr(constant)
    name = what["module"]
    if name != "triton" and not kernel_rules.is_of_language(name):
        raise TypeError(f"uses `{name}`, which is no part of Triton's language")
    module = sys.modules[name]
    if "part" not in what:
        return module
    if what["part"].startswith("_"):
        raise TypeError(f"uses `{what['part']}`, which is no part of Triton's language")
    part = getattr(module, what["part"])
    return tl.constexpr(part) if isinstance(part, CONSTANTS) else part


# --- both ---------------------------------------------------------------------------------------------------


def _read_function(text: str) -> ast.FunctionDef:
    """Return the one function that a text defines."""
    body = ast.parse(textwrap.dedent(text)).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise TypeError(f"is not one function: `{text.strip().splitlines()[0][:80] if text.strip() else ''}`")
    return body[0]


def _list_language() -> Iterator[tuple[str, Any]]:
    """Yield the modules of Triton's language, by name, that of its names first."""
    found = {name: one for name, one in sys.modules.items() if kernel_rules.is_of_language(name) and one}
    yield from sorted(found.items())
    yield "triton", sys.modules["triton"]
