"""Launch a Triton kernel without a GPU, with its memory kept elsewhere, see kernel_memory.py.

kernel_rules.py looks at its text, kernel_front.py lets Triton's compiler read it, and kernel_machine.py runs
what the compiler makes of it.

Triton must be imported as an interpreter: ``TRITON_INTERPRET=1`` in the environment, before that. This file
can be loaded by the sandbox of the grader.
"""

import dataclasses
import inspect
import math
import os
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

if __package__:
    from linattn_exercises import (
        kernel_code,
        kernel_front,
        kernel_machine,
        kernel_memory,
        kernel_orders,
        kernel_rules,
    )
else:  # in the sandbox, whose worker has loaded them by their paths
    kernel_code, kernel_front, kernel_machine, kernel_memory, kernel_orders, kernel_rules = (
        sys.modules[f"kernel_{name}"] for name in ("code", "front", "machine", "memory", "orders", "rules")
    )

kernel_front.remember()  # where Triton was imported before

GUARD = 1 << 20  # bytes on either side of a tensor that belong to no other
ALIGNED = 64  # bytes that an address is a multiple of

# --- a launch in this process -------------------------------------------------------------------------------


def run(
    kernel: Any,
    grid: Sequence[int],
    arguments: Sequence[Any],
    memory: kernel_memory.Memory,
    seed: int,
    order: int = 0,
) -> "Work":
    """Run a kernel as its compiler reads it, on tensors whose values a memory has.

    Args:
        kernel: a function under ``triton.jit``.
        grid: how many programs there are, along up to three axes.
        arguments: of the kernel; tensors only say which addresses they have.
        memory: what has the values.
        seed: of what is left to chance.
        order: the seed of the order in which programs run; 0 is that of their numbers.

    Returns:
        What the programs have computed.

    Raises:
        NotImplementedError: if the kernel is not written yet.
        TypeError: if that is no kernel, its text uses what no kernel may, or Triton does not compile it.
        IndexError, RuntimeError, ValueError: see ``Memory``.
        Exception: what the kernel raises.
    """
    with kernel_rules.ALONE:  # what is read exchanges Triton's language for all
        kernel_rules.check_kernel(kernel)
        given = dict(zip(list_arguments(kernel), arguments, strict=True))
        reading = _read(kernel, given)
    code = kernel_code.read(reading.code)
    machine = kernel_machine.Machine(code, reading.texts, partial(kernel_front.find_place, reading.code))
    chance = kernel_orders.Chance(seed)
    launch = kernel_machine.Launch(memory, (*grid, *(1,) * (3 - len(grid))), chance)
    programs = np.arange(math.prod(grid))
    if order:
        np.random.default_rng(order).shuffle(programs)
    numbers = [given[name] for name in reading.arguments]
    machine.run(
        launch, programs.tolist(), [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in numbers]
    )
    return Work(launch.products, launch.exponentials)


def _read(kernel: Any, arguments: dict[str, Any]) -> kernel_front.Reading:
    """Return what the compiler makes of a kernel; where it refuses, say which arguments are constants."""
    try:
        return kernel_front.read(kernel, arguments)
    except TypeError as error:
        if constants := kernel_front.list_ones(kernel, arguments):  # which is easily overlooked
            ones = " and ".join(f"`{name}`" for name in constants)
            error.args = (f"{error} (here {ones} is 1, of which Triton makes a constant)",)
        raise


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
    """Run a kernel as its compiler reads it, and return what it has moved and computed.

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
    work = run(kernel, grid, placed, memory, memory.fingerprint())
    return Trace(math.prod(grid), memory.bytes_loaded, memory.bytes_stored, *work)


def make_place(dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor that has an address which nobody can guess, and nothing of another one near it."""
    around = (GUARD + ALIGNED * secrets.randbelow(GUARD // ALIGNED)) // dtype.itemsize
    return torch.empty(math.prod(shape) + 2 * around, dtype=dtype)[around : around + math.prod(shape)].view(
        shape
    )


def list_arguments(kernel: Any) -> list[str]:
    """Return the names of the arguments of a kernel, or of a function."""
    return list(inspect.signature(getattr(kernel, "fn", kernel)).parameters)


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
    seed = kept.launch.order
    run(kernel, kept.launch.grid, placed, memory, seed, seed)


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
