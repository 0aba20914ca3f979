"""Launch a Triton kernel in its interpreter, with its memory kept elsewhere, see kernel_memory.py.

The interpreter is Python, so it takes much that Triton's compiler refuses; that is refused here as well.

Triton must be imported as an interpreter: ``TRITON_INTERPRET=1`` in the environment, before that. This file
can be loaded by the sandbox of the grader.
"""

import ast
import builtins
import functools
import inspect
import math
import os
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

if __package__:
    from linattn_exercises import kernel_front, kernel_memory, kernel_orders
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_memory, kernel_front, kernel_orders = (
        sys.modules[name] for name in ("kernel_memory", "kernel_front", "kernel_orders")
    )

kernel_front.remember()  # where Triton was imported before

ALONE = (
    threading.RLock()
)  # held through a launch or a look: launches exchange Triton's language for all threads
ANYTHING = (math.nan, 3e4, -2e4)  # what a GPU may leave where a mask leaves something out
UNKNOWN = object()  # in place of a value
GUARD = 1 << 20  # bytes on either side of a tensor that belong to no other
# What the text of a kernel may name besides Triton's language, other kernels and numbers.
OF_TRITON = {"triton.cdiv", "triton.next_power_of_2"}  # beside its language
BUILTINS = {"range", "min", "max", "len", "int", "float", "bool", "print"}
BUILTINS |= {"True", "False", "None", "NotImplementedError"}  # the last is what an empty answer raises
# classes of the language that a kernel may make or name
CLASSES = {"range", "static_range", "constexpr", "tuple", "PropagateNan", "PROPAGATE_NAN"}
# what tiles and dtypes say of themselves
OF_VALUES = {"shape", "dtype", "type", "value", "element_ty", "scalar", "numel", "primitive_bitwidth"}
WITH_TEXTS = {
    "static_assert",
    "static_print",
    "device_assert",
    "device_print",
    "print",
}  # they may put texts together
# What a compiled kernel may be made of, see Triton's code_generator.py; and `raise`, for an empty answer.
STATEMENTS = "Assign AugAssign AnnAssign For While If Expr Return Assert Pass Raise"
EXPRESSIONS = (
    "BoolOp BinOp UnaryOp IfExp Compare Call Constant Name Attribute Subscript Slice List Tuple Starred "
    "JoinedStr FormattedValue"
)
COMPILED = tuple(getattr(ast, name) for name in f"{STATEMENTS} {EXPRESSIONS}".split())
# of a language whose methods do so, or its functions: what is not to be left to `and` and `or`
ACCESSES = ("load", "store", "atomic", "gather", "scatter", "print", "assert")
WRONG_WAY = (
    'Triton was imported as a compiler. Set os.environ["TRITON_INTERPRET"] = "1" before anything imports it'
)


# --- a launch in this process -------------------------------------------------------------------------------


def run(
    kernel: Any, grid: Sequence[int], arguments: Sequence[Any], memory: kernel_memory.Memory, order: int = 0
) -> "Work":
    """Launch a kernel in Triton's interpreter on tensors whose values a memory has.

    Args:
        kernel: a function under ``triton.jit``.
        grid: how many programs there are, along up to three axes.
        arguments: of the kernel; tensors only say which addresses they have.
        memory: what has the values.
        order: the seed of the order in which programs run; 0 is that of the interpreter.

    Returns:
        What the programs have computed.

    Raises:
        TypeError: if that is no kernel, or its text uses what no kernel may.
        IndexError, RuntimeError, ValueError: see ``Memory``.
        Exception: what the kernel raises.
    """
    check_kernel(kernel)
    kernel_front.remember()  # before anything is changed
    with ALONE, _Patches(memory, grid, order) as patches:
        try:
            with np.errstate(all="ignore"):  # a GPU does not warn of a logarithm of 0 either
                kernel[tuple(grid)](*arguments)
        except Exception as error:
            raise _unwrap(error) from None
    return Work(patches.products, patches.exponentials)


class Work(NamedTuple):
    """Count what programs compute: multiplications in matrix products, and exponentials (with logarithms)."""

    products: int
    exponentials: int


@dataclass(frozen=True)
class Trace:
    """Say what a launch has moved and computed.

    Attributes:
        programs: how many there were.
        bytes_loaded, bytes_stored: that went between memory and programs.
        products: multiplications in matrix products (``tl.dot``).
        exponentials: numbers whose exponential or logarithm was taken.
    """

    programs: int
    bytes_loaded: int
    bytes_stored: int
    products: int
    exponentials: int


def trace(kernel: Any, grid: Sequence[int], *arguments: Any) -> Trace:
    """Launch a kernel in Triton's interpreter, and return what it has moved and computed.

    Args:
        kernel: a function under ``triton.jit``.
        grid: how many programs there are, along up to three axes.
        arguments: of the kernel, all of them in order; tensors are contiguous, on the processor.

    Raises:
        IndexError: if it reads or writes outside of its tensors.
        RuntimeError: if one program touches what another one has written.
        Exception: what the kernel raises.

    Example:
        >>> import torch, triton, triton.language as tl
        >>> @triton.jit
        ... def copy(x, y, n: tl.constexpr):
        ...     i = tl.arange(0, n)
        ...     tl.store(y + i, tl.load(x + i))
        >>> trace(copy, (1,), torch.ones(8), torch.empty(8), 8)
        Trace(programs=1, bytes_loaded=32, bytes_stored=32, products=0, exponentials=0)
    """
    names = list_arguments(kernel)
    tensors = {name: x for name, x in zip(names, arguments, strict=True) if isinstance(x, torch.Tensor)}
    places = {name: make_place(x.dtype, x.shape) for name, x in tensors.items()}
    memory = kernel_memory.Memory(
        list(tensors.values()), list(tensors), [x.data_ptr() for x in places.values()]
    )
    placed = [places.get(name, x) for name, x in zip(names, arguments, strict=True)]
    work = run(kernel, grid, placed, memory)
    return Trace(math.prod(grid), memory.bytes_loaded, memory.bytes_stored, *work)


def make_place(dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor that has an address, and nothing that belongs to another one near it."""
    around = GUARD // dtype.itemsize
    return torch.empty(math.prod(shape) + 2 * around, dtype=dtype)[around : around + math.prod(shape)].view(
        shape
    )


def list_arguments(kernel: Any) -> list[str]:
    """Return the names of the arguments of a kernel, or of a function."""
    return list(inspect.signature(getattr(kernel, "fn", kernel)).parameters)


class _Patches:
    """Lead what a kernel does with memory to ours, while the block runs."""

    def __init__(self, memory: kernel_memory.Memory, grid: Sequence[int], order: int) -> None:
        from triton.runtime import interpreter

        self._interpreter, self._builder = interpreter, interpreter.interpreter_builder
        self._memory, self._grid = memory, tuple(grid) + (1,) * (3 - len(grid))
        self._order = np.arange(math.prod(grid))
        if order:
            np.random.default_rng(order).shuffle(self._order)
        self._program = 0
        self.products = self.exponentials = self._loads = 0

    def __enter__(self) -> "_Patches":
        self._patch_tensor = self._interpreter._patch_lang_tensor
        self._interpreter._patch_lang_tensor = self._patch_truth
        self._load, self._place = self._builder.create_masked_load, self._builder.set_grid_idx
        for name in ("create_atomic_rmw", "create_atomic_cas"):
            setattr(self._builder, name, self._refuse_atomic)
        self._builder.create_masked_load = self._create_masked_load
        self._builder.create_masked_store = self._create_masked_store
        self._builder.set_grid_idx = self._set_grid_idx
        self._count("create_dot", _measure_product, "products")
        for name in ("create_exp", "create_exp2", "create_log", "create_log2"):
            self._count(name, lambda x: x.data.size, "exponentials")
        self._orders = kernel_orders.use_other_orders(self._builder)
        self._orders.__enter__()
        self._rewriter = self._interpreter.FunctionRewriter
        self._transform = self._rewriter._transform_ast
        self._rewriter._transform_ast = functools.partialmethod(_mark_places, self._transform)
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.__exit__(None, None, None)
        self._rewriter._transform_ast = self._transform
        self._interpreter._patch_lang_tensor = self._patch_tensor
        for name in [
            name for name in vars(self._builder) if callable(getattr(type(self._builder), name, None))
        ]:
            delattr(self._builder, name)

    def _patch_truth(self, tensor: Any, *scope: Any) -> None:
        """Let Triton change its tensors for the launch, but not take a tile as true."""
        self._patch_tensor(tensor, *scope)
        tensor.__bool__ = _tell_truth
        if not hasattr(tensor.__getitem__, "__wrapped__"):
            tensor.__getitem__ = _keep_axes(tensor.__getitem__)

    def _count(self, name: str, measure: Callable[..., int], counter: str) -> None:
        """Count what an operation of the interpreter computes."""
        operation = getattr(self._builder, name)

        def counted(*arguments: Any) -> Any:
            setattr(self, counter, getattr(self, counter) + measure(*arguments))
            return operation(*arguments)

        setattr(self._builder, name, counted)

    def _set_grid_idx(self, *place: int) -> None:
        """Begin the next program, in an order of ours."""
        self._program = int(self._order[np.ravel_multi_index(place, self._grid)])
        self._place(*map(int, np.unravel_index(self._program, self._grid)))

    def _create_masked_load(
        self, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        wanted = np.broadcast_to(np.asarray(mask.data), ptrs.data.shape).astype(bool)
        nothing = type(ptrs)(np.zeros_like(wanted), self._builder.get_int1_ty())
        loaded = self._load(ptrs, nothing, other, cache_modifier, eviction_policy, is_volatile)
        loaded.data = loaded.data.copy()
        if other is None and loaded.data.dtype.kind == "f":
            loaded.data[...] = np.resize(np.roll(ANYTHING, self._loads), loaded.data.shape)
            self._loads += 1
        if wanted.any():
            addresses = ptrs.data[wanted].astype(np.int64)
            size = loaded.data.dtype.itemsize
            values = self._memory.load(self._program, addresses, size)
            loaded.data[wanted] = np.frombuffer(values, dtype=loaded.data.dtype)
        else:
            self._memory.skip()
        return loaded

    def _create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any) -> None:
        wanted = np.broadcast_to(np.asarray(mask.data), ptrs.data.shape).astype(bool)
        if wanted.any():
            values = np.broadcast_to(value.data, ptrs.data.shape)[wanted]
            addresses = ptrs.data[wanted].astype(np.int64)
            self._memory.store(self._program, addresses, values.dtype.itemsize, values.tobytes())
        else:
            self._memory.skip()

    def _refuse_atomic(self, *_: Any) -> Any:
        raise TypeError(
            "atomic operations add in an order that differs from run to run, and so do the last digits; "
            "do without"
        )


def _measure_product(a: Any, b: Any, d: Any, precision: Any, *_: Any) -> int:
    """Return the multiplications of a product; refuse one whose factors a GPU would round."""
    if a.data.dtype == np.float32 and not str(precision).endswith(("IEEE", "TF32x3")):
        raise TypeError(
            "multiplies tiles of float32 whose digits a GPU would cut to ten bits; write "
            '`tl.dot(a, b, input_precision="ieee")`'
        )
    return int(a.data.size * b.data.shape[-1])


def _tell_truth(x: Any) -> bool:
    """Return whether a number of Triton is true; a tile is neither true nor false."""
    values = x.handle.data
    if values.size > 1 and not _is_triton(sys._getframe(1).f_code.co_filename):
        raise TypeError(
            f"takes {values.size} truth values as one, in `if`, `and`, `or`, `not`, `min` or `max`; for "
            "tiles there are `tl.where`, `&`, `|`, `~`, `tl.minimum` and `tl.maximum`"
        )
    return bool(values) if values.size == 1 else True


def _keep_axes(take: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``tensor[...]``, as Triton has it, with `:` and `None` alone."""

    @functools.wraps(take)
    def take_axes(tile: Any, index: Any, *rest: Any, **options: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        whole = [isinstance(one, slice) and one.start is one.stop is one.step is None for one in parts]
        if not all(kept or one is None for kept, one in zip(whole, parts, strict=True)):
            raise TypeError(
                "picks entries of a tile, which no program can; a sum over a mask with one entry left does: "
                "`tl.sum(tl.where(i == r, x, 0.0), 0)`"
            )
        return take(tile, index, *rest, **options)

    return take_axes


def _mark_places(rewriter: Any, transform: Callable[..., ast.Module], text: str) -> ast.Module:
    """Return the tree of a function as the interpreter rewrites it, with marks where it has ``Places``."""
    tree = transform(rewriter, text)
    if kernel_front.RAN in rewriter.fn.__globals__:
        tree = ast.fix_missing_locations(kernel_front.Marks().visit(tree))
    return tree


def _unwrap(error: BaseException) -> BaseException:
    """Return what a kernel has raised, without what the interpreter says of it."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    frames = error.__traceback__
    while (
        frames is not None and frames.tb_next is not None and _is_triton(frames.tb_frame.f_code.co_filename)
    ):
        frames = frames.tb_next
    return error.with_traceback(frames)


def _is_triton(file: str) -> bool:
    """Return whether a file is one of Triton's."""
    return f"{os.sep}triton{os.sep}" in file


# --- the text of a kernel -----------------------------------------------------------------------------------


def check_kernel(kernel: Any) -> None:
    """Refuse what Triton's compiler would refuse and its interpreter, which is Python, takes.

    Args:
        kernel: what is to be launched.

    Raises:
        TypeError: if it is no function under ``triton.jit``, or names what is no part of Triton's language.
        RuntimeError: if Triton was imported as a compiler.
    """
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    if isinstance(kernel, JITFunction):
        raise RuntimeError(WRONG_WAY)
    if not isinstance(kernel, InterpretedFunction):
        raise TypeError(f"is a {type(kernel).__name__}, expected a kernel: a function under `@triton.jit`")
    seen: set[int] = set()
    pending = [kernel.fn]
    with ALONE:
        while pending:
            function = pending.pop()
            if id(function) not in seen:
                seen.add(id(function))
                pending += _check_text(function, InterpretedFunction)


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
    if wrong := next((name for name in (*own, *_list_names(nodes)) if name.startswith("__")), None):
        raise TypeError(f"uses the name `{wrong}`, which Python keeps for itself")
    if wrong := next((name for name in _list_names(nodes) if name in lent), None):
        raise NameError(f"name '{wrong}' is not defined")  # the interpreter gives kernels all of its names
    for node in nodes:
        _check_syntax(node)
        _check_joined(node, known)
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
    _check_texts(function, nodes, known, said)
    return found


def _check_texts(
    function: Callable[..., Any], nodes: Sequence[ast.AST], known: Mapping[str, Any], said: set[int]
) -> None:
    """Refuse texts but where a function of the language takes one: a compiler computes nothing with them."""
    texts = {name for name, one in inspect.signature(function).parameters.items() if type(one.default) is str}
    texts |= {name for name, one in known.items() if isinstance(getattr(one, "value", None), str)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    given = {id(part) for node in calls for part in (*node.args, *(one.value for one in node.keywords))}
    foreign = {
        id(part)
        for node in calls
        if hasattr(value := _find_value(node.func, known), "fn") and not is_of_language(value.fn.__module__)
        for part in (*node.args, *(one.value for one in node.keywords))
    }
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # a docstring
    alone |= {id(node.annotation) for node in nodes if isinstance(node, ast.AnnAssign)}
    for node in nodes:
        text = isinstance(node, ast.Constant) and type(node.value) is str
        text = text or (isinstance(node, ast.Name) and node.id in texts)
        if text and id(node) not in said | alone and (id(node) not in given or id(node) in foreign):
            raise TypeError(
                f"does something else with the text `{ast.unparse(node)[:40]}` than give it to a function of "
                "Triton's language"
            )


def _check_joined(node: ast.AST, known: Mapping[str, Any]) -> None:
    """Refuse calls that do something behind `and` and `or`: a GPU makes them whatever stands before."""
    if not isinstance(node, ast.BoolOp):
        return
    for call in [part for one in node.values[1:] for part in ast.walk(one) if isinstance(part, ast.Call)]:
        value = _find_value(call.func, known)
        own = hasattr(value, "fn") and not is_of_language(value.fn.__module__)
        if own or any(word in ast.unparse(call.func).rpartition(".")[2] for word in ACCESSES):
            name = ast.unparse(call.func)
            raise TypeError(f"calls `{name}` behind `and` or `or`, which a GPU does in any case; use `if`")


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


# --- a launch of what was kept ------------------------------------------------------------------------------


def launch_kept(kernel: Any, kept: kernel_memory.KeptMemory) -> None:
    """Launch a kernel on the memory that is kept for it.

    Args:
        kernel: a function under ``triton.jit``.
        kept: has its arguments, and says how it is launched.

    Raises:
        TypeError: if it takes other arguments, is no kernel, or is not compiled by Triton.
        Exception: what ``run`` raises.
    """
    names, arguments = list_arguments(kernel), list(kept.arguments)
    if len(names) != len(arguments):
        raise TypeError(f"takes {len(names)} arguments ({', '.join(names)}), expected {len(arguments)}")
    placed = [make_place(x.dtype, x.shape) if isinstance(x, torch.Tensor) else x for x in arguments]
    tensors = {name: x for name, x in zip(names, placed, strict=True) if isinstance(x, torch.Tensor)}
    memory = kept.place([x.data_ptr() for x in tensors.values()], list(tensors))
    with ALONE:
        run(kernel, kept.launch.grid, placed, memory, kept.launch.order)
        kernel_front.check_compiles(kernel, dict(zip(names, placed, strict=True)))


def use_interpreter() -> None:
    """Make sure that Triton is imported as an interpreter, before anything else imports it.

    Raises:
        RuntimeError: if it was imported as a compiler.
    """
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton
    import triton.language

    if (
        not triton.knobs.runtime.interpret
        if hasattr(triton, "knobs")
        else not os.environ.get("TRITON_INTERPRET")
    ):
        raise RuntimeError(WRONG_WAY)
    kernel_front.remember()
