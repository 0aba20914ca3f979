"""Launch kernels again without asking Triton again which of its compilations fits.

At each launch Triton looks at all arguments: their types, which pointers and numbers are multiples of 16,
which numbers are 1. That is a sixth of the host's time for a call. A ``Launcher`` looks for the same numbers
and the same kinds of tensors in a table, and takes what Triton compiled for them the first time.
"""

from collections.abc import Callable, Iterable
from typing import Any

import triton
from torch import Tensor
from triton.compiler import CompiledKernel
from triton.runtime import driver

from linattn_kernels.hardware import INTERPRETED
from linattn_kernels.tiles import TileDescriptor

MAX_KEPT = 4096  # entries of a table: lengths may differ from call to call
ALIGNMENT = 16  # bytes: from an address that is a multiple of them Triton loads more at once


class Launcher:
    """Launch a kernel as ``kernel[grid](*args, **options)``; ``options`` are Triton's, not the kernel's.

    Attributes:
        kernel: what ``triton.jit`` has made of it.
        unspecialized: indices of integers of which only the type decides what is compiled.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.unspecialized = [] if INTERPRETED else [p.num for p in kernel.params if p.do_not_specialize]
        self._compiled: dict[tuple, CompiledKernel] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        """Return what launches on a grid."""
        if INTERPRETED:
            return self.kernel[grid]
        return lambda *args, **options: self._launch(grid, args, options)

    def _launch(self, grid: tuple[int, ...], args: tuple, options: dict[str, Any]) -> None:
        """Launch what was compiled for such arguments, on the current device, or have it compiled first."""
        key = describe_arguments(self._leave_out_unspecialized(args), options)
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[(*grid, 1, 1)](*args)
            return
        compiled = self.kernel[grid](*args, **options)
        if isinstance(compiled, CompiledKernel):  # not so where Triton compiles in the background
            if len(self._compiled) >= MAX_KEPT:
                self._compiled.clear()
            self._compiled[key] = compiled

    def _leave_out_unspecialized(self, args: tuple) -> Iterable[Any]:
        """Return the arguments, with integers that do not matter replaced by whether they have 64 bits."""
        if not self.unspecialized:
            return args
        kept = list(args)
        for i in self.unspecialized:
            kept[i] = kept[i].bit_length() > 31
        return kept


def describe_arguments(args: Iterable[Any], options: dict[str, Any]) -> tuple:
    """Return what decides which compilation fits; it says at least as much as Triton looks at."""
    key: list[Any] = [driver.active.get_current_device(), *options.values()]
    for x in args:
        if type(x) is int:
            key.append(x)
        elif isinstance(x, Tensor):
            key += x.dtype, x.data_ptr() % ALIGNMENT
        elif isinstance(x, TileDescriptor):
            key += x.base.dtype, *x.block_shape
        else:  # 1, 1.0 and True are equal
            key += type(x), x
    return tuple(key)


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Decorate a kernel that is launched, with options of ``triton.jit``; its helpers have that alone."""
    if function is None:
        return lambda function: kernel(function, **options)
    return Launcher(triton.jit(function, **options))
