"""Launch a Triton kernel in its interpreter, with its memory kept elsewhere, see kernel_memory.py.

Before it, kernel_rules.py looks at its text, and kernel_front.py lets the compiler read it; after it the two
are compared.

Triton must be imported as an interpreter: ``TRITON_INTERPRET=1`` in the environment, before that. This file
can be loaded by the sandbox of the grader.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

if __package__:
    from linattn_exercises import (
        kernel_front,
        kernel_marks,
        kernel_memory,
        kernel_numbers,
        kernel_orders,
        kernel_rules,
    )
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_front, kernel_marks, kernel_memory, kernel_numbers, kernel_orders, kernel_rules = (
        sys.modules[f"kernel_{name}"] for name in ("front", "marks", "memory", "numbers", "orders", "rules")
    )

kernel_front.remember()  # where Triton was imported before

ANYTHING = 3e4  # as large may be what a GPU leaves where a mask leaves something out; or NaN, or 0
GUARD = 1 << 20  # bytes on either side of a tensor that belong to no other

# --- a launch in this process -------------------------------------------------------------------------------


def run(
    kernel: Any,
    grid: Sequence[int],
    arguments: Sequence[Any],
    memory: kernel_memory.Memory,
    order: int = 0,
    constants: Sequence[str] = (),
) -> "Work":
    """Launch a kernel in Triton's interpreter on tensors whose values a memory has.

    Args:
        kernel: a function under ``triton.jit``.
        grid: how many programs there are, along up to three axes.
        arguments: of the kernel; tensors only say which addresses they have.
        memory: what has the values.
        order: the seed of the order in which programs run; 0 is that of the interpreter.
        constants: names of arguments that are constants without being declared so.

    Returns:
        What the programs have computed.

    Raises:
        TypeError: if that is no kernel, or its text uses what no kernel may.
        IndexError, RuntimeError, ValueError: see ``Memory``.
        Exception: what the kernel raises.
    """
    kernel_rules.check_kernel(kernel)
    kernel_front.remember()  # before anything is changed
    with kernel_rules.ALONE, _Patches(memory, grid, order) as patches:
        try:
            kernel.rewrite().__annotations__.update(dict.fromkeys(constants, "constexpr"))
            patches.places = kernel_front.list_places(kernel)
            with np.errstate(all="ignore"):  # a GPU does not warn of a logarithm of 0 either
                kernel[tuple(grid)](*arguments)
            patches.end_program()
        except Exception as error:
            raised = _unwrap(error)
            if isinstance(raised, UnboundLocalError):
                raised.args = (f"{raised}; the variable of a loop has no value behind it",)
            raise raised from None
    return Work(patches.products, patches.exponentials)


class Work(NamedTuple):
    """Count what programs compute: multiplications in matrix products, and exponentials (with logarithms)."""

    products: int
    exponentials: int


@dataclasses.dataclass(frozen=True)
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
        self._program: int | None = None
        self._seed = memory.fingerprint()  # of what is left to chance: no text of a kernel knows its inputs
        self._rng = np.random.default_rng(self._seed)
        self.products = self.exponentials = 0
        self.places: list[kernel_marks.Places] = []

    def __enter__(self) -> "_Patches":
        self._patch_tensor = self._interpreter._patch_lang_tensor
        self._interpreter._patch_lang_tensor = self._patch_numbers
        self._patch_language, self._patched = self._interpreter._patch_lang, set[frozenset[int]]()
        self._interpreter._patch_lang = self._patch_once
        self._options = self._builder.options
        if not self._options.debug:  # else it computes all sums of whole numbers again, and looks at none
            self._builder.options = dataclasses.replace(self._options, sanitize_overflow=False)
        self._load, self._place = self._builder.create_masked_load, self._builder.set_grid_idx
        for name in ("create_atomic_rmw", "create_atomic_cas"):
            setattr(self._builder, name, self._refuse_atomic)
        self._builder.create_masked_load = self._create_masked_load
        self._builder.create_masked_store = self._create_masked_store
        self._builder.set_grid_idx = self._set_grid_idx
        self._count("create_dot", _measure_product, "products")
        for name in ("create_exp", "create_exp2", "create_log", "create_log2"):
            self._count(name, lambda x: x.data.size, "exponentials")
        self._as_a_gpu = contextlib.ExitStack()
        self._as_a_gpu.enter_context(kernel_orders.use_other_orders(self._builder, self._seed))
        self._as_a_gpu.enter_context(kernel_numbers.use_gpu_numbers(self._builder))
        self._rewriter = self._interpreter.FunctionRewriter
        self._transform = self._rewriter._transform_ast
        self._rewriter._transform_ast = functools.partialmethod(_mark_places, self._transform)
        return self

    def __exit__(self, *_: object) -> None:
        self._as_a_gpu.close()
        self._rewriter._transform_ast = self._transform
        self._interpreter._patch_lang_tensor = self._patch_tensor
        self._interpreter._patch_lang = self._patch_language
        self._builder.options = self._options
        for name in [
            name for name in vars(self._builder) if callable(getattr(type(self._builder), name, None))
        ]:
            delattr(self._builder, name)

    def _patch_once(self, function: Callable[..., Any]) -> Any:
        """Let Triton change its language for a function, once: it would do so at every call of `tl.sum`."""
        import triton.language as tl

        own = frozenset(id(x) for x in function.__globals__.values() if x is tl or x is tl.core)
        if own in self._patched:
            scope = getattr(self._interpreter, "_LangPatchScope", None)  # of newer versions
            return scope() if scope else None
        self._patched.add(own)
        return self._patch_language(function)

    def _patch_numbers(self, tensor: Any, *scope: Any) -> None:
        """Let Triton change its tensors for the launch, but not take a tile as true or as a count."""
        self._patch_tensor(tensor, *scope)
        tensor.__bool__ = _tell_truth
        tensor.__index__ = _tell_count  # before Triton 3.7 its own does not work with NumPy 2.4
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
        """End the program before, and begin the next, in an order of ours."""
        if self._program is not None:
            self.end_program()
        self._program = int(self._order[np.ravel_multi_index(place, self._grid)])
        self._place(*map(int, np.unravel_index(self._program, self._grid)))

    def end_program(self) -> None:
        """Look whether a program has come to all promises."""
        for places in self.places:
            places.end_program()

    def _create_masked_load(
        self, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        wanted = _read_mask(mask, ptrs)
        nothing = type(ptrs)(np.zeros_like(wanted), self._builder.get_int1_ty())
        loaded = self._load(ptrs, nothing, other, cache_modifier, eviction_policy, is_volatile)
        loaded.data = loaded.data.copy()
        if other is None and loaded.data.dtype.kind == "f" and self._rng.random() < 0.75:
            numbers = self._rng.uniform(-ANYTHING, ANYTHING, loaded.data.shape)
            loaded.data[...] = np.where(self._rng.random(loaded.data.shape) < 0.3, math.nan, numbers)
        if wanted.any():
            addresses = ptrs.data[wanted].astype(np.int64)
            size = loaded.data.dtype.itemsize
            values = self._memory.load(self._program or 0, addresses, size)
            loaded.data[wanted] = np.frombuffer(values, dtype=loaded.data.dtype)
        else:
            self._memory.skip()
        return loaded

    def _create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any) -> None:
        wanted = _read_mask(mask, ptrs)
        if wanted.any():
            values = np.broadcast_to(value.data, ptrs.data.shape)[wanted]
            addresses = ptrs.data[wanted].astype(np.int64)
            self._memory.store(self._program or 0, addresses, values.dtype.itemsize, values.tobytes())
        else:
            self._memory.skip()

    def _refuse_atomic(self, *_: Any) -> Any:
        raise TypeError(
            "atomic operations add in an order that differs from run to run, and so do the last digits; "
            "do without"
        )


def _read_mask(mask: Any, addresses: Any) -> np.ndarray:
    """Return which entries a mask lets through."""
    data = np.asarray(mask.data)
    if data.dtype != bool:
        raise TypeError(f"has a mask of {mask.dtype}, expected truth values such as `i < n`")
    return np.broadcast_to(data, addresses.data.shape)


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
    if sys._getframe(1).f_code.co_filename.endswith("semantic.py"):
        return True  # it asks whether there is one, such as `other` of a load
    if values.size > 1 and not _is_triton(sys._getframe(1).f_code.co_filename):
        raise kernel_orders.SeveralTruths(
            f"takes {values.size} truth values as one, in `if`, `and`, `or`, `not`, `min` or `max`; for "
            "tiles there are `tl.where`, `&`, `|`, `~`, `tl.minimum` and `tl.maximum`"
        )
    return bool(values) if values.size == 1 else True


def _tell_count(x: Any) -> int:
    """Return a number of Triton as a whole number of Python, as ``range`` asks for it."""
    return int(x.handle.data.item())


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
    tree, places = transform(rewriter, text), rewriter.fn.__globals__.get(kernel_marks.RAN)
    if isinstance(places, kernel_marks.Places):
        tree = ast.fix_missing_locations(kernel_marks.Marks(places).visit(tree))
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
    with kernel_rules.ALONE:
        kernel_rules.check_kernel(kernel)
        given = dict(zip(names, placed, strict=True))
        refused = kernel_front.read(kernel, given)
        constants = kernel_front.list_ones(kernel, given)
        try:
            run(kernel, kept.launch.grid, placed, memory, kept.launch.order, constants)
            if refused is not None:
                raise refused
        except (AttributeError, TypeError) as error:
            if constants:  # which is easily overlooked
                ones = " and ".join(f"`{name}`" for name in constants)
                error.args = (f"{error} (here {ones} is 1, of which Triton makes a constant)",)
            raise
        kernel_front.compare(kernel)


def use_interpreter() -> None:
    """Make sure that Triton is imported as an interpreter, before anything else imports it.

    Raises:
        RuntimeError: if it was imported as a compiler.
    """
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    if not kernel_rules.is_interpreter():
        raise RuntimeError(kernel_rules.WRONG_WAY)
    kernel_front.remember()
