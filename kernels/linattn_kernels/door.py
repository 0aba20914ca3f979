"""What every kernel does at its door: the checks of ``linattn_ref.ops``, and what only a kernel must ask.

A kernel takes float32, bfloat16 or float16 on an NVIDIA GPU of compute capability 8.0 or later, K and V in
``WIDTHS`` (linear attention: any V) and a chunk size in ``CHUNKS``. For anything else it raises, and
says what to call instead: nothing falls back to another path in silence. Values (a log decay above 0, NaN)
are looked at on the CPU alone, since a look would make the GPU wait; ``LINATTN_CHECK_VALUES=1`` asks for it.
Tiles are sized for Hopper, with smaller ones where shared memory is short (``launches.py``).

Without a GPU the kernels run in Triton's interpreter, for tests: set ``TRITON_INTERPRET=1`` before the first
import of Triton. bfloat16 is refused there, because the interpreter computes it wrongly.
"""

import functools
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_ref.ops.validation import (
    check_chunk_size,
    check_log_decay,
    require,
    require_like,
    require_tensor,
)

F = TypeVar("F", bound=Callable)

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
WIDTHS = (16, 32, 64, 128)  # of K and V: a tile is a power of two, and a matrix unit takes 16 at least
CHUNKS = (16, 32, 64)  # of linear attention, which has no room for more beside its states
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HERE = tuple(dtype for dtype in DTYPES if not (INTERPRETED and dtype == torch.bfloat16))


def check_kernel(op: str, q: Tensor, v: Tensor | None = None) -> None:
    """Raise unless the kernel of ``op`` runs on this hardware, with this dtype and these widths (v: any)."""
    instead = f"linattn_ref.ops.{op} takes any other"
    names = ", ".join(str(x) for x in HERE)
    require(q.dtype in HERE, "q", str(q.dtype), f"one of {names}; {instead}")
    for name, x in (("q", q), ("v", v)):
        if x is not None:
            width = int(x.shape[-1])
            require(width in WIDTHS, name, f"a width of {width}", f"one of {WIDTHS}; {instead}")
    _check_device(q, instead)


def _check_device(q: Tensor, instead: str) -> None:
    if INTERPRETED or torch.compiler.is_compiling():
        return
    expected = f"a CUDA tensor; {instead} device"
    require(q.is_cuda and torch.version.hip is None, "q", f"a tensor on {q.device}", expected)
    major = torch.cuda.get_device_capability(q.device)[0]
    name = "a GPU of compute capability"
    require(major >= 8, "q", f"{name} {major}.x", f"{name} 8.0 or later; {instead} device")


def check_chunk(op: str, chunk_size: int, chunks: tuple[int, ...] = CHUNKS) -> None:
    """A chunk is a tile of the matrix unit."""
    check_chunk_size(chunk_size)
    instead = f"linattn_ref.ops.{op} takes any other"
    require(chunk_size in chunks, "chunk_size", lambda: repr(chunk_size), f"one of {chunks}; {instead}")


def on_device_of_q(launcher: F) -> F:
    """Kernels start on the current device, which need not be that of the tensors: make it so."""

    @functools.wraps(launcher)
    def launch(q: Tensor, *args, **kwargs):
        with torch.cuda.device(q.device) if q.is_cuda else nullcontext():
            _bind_context(q)
            return launcher(q, *args, **kwargs)

    return cast(F, launch)


_thread = threading.local()


def _bind_context(q: Tensor) -> None:
    """Let this thread have a CUDA context: a launch binds one, but Triton's descriptors ask for one before.

    Autograd's threads begin without (pytorch#124565).
    """
    if q.is_cuda and not getattr(_thread, "bound", False):
        q.new_empty(1).zero_()
        _thread.bound = True


def decays_of(log_decay: Tensor | None, q: Tensor) -> Tensor | None:
    """``log_decay`` checked, in float32, contiguous."""
    if log_decay is None:
        return None
    require_tensor(log_decay, "log_decay", "a torch.Tensor or None")
    if log_decay.is_cuda and os.environ.get("LINATTN_CHECK_VALUES") != "1":
        require_like(log_decay, "log_decay", q, (log_decay.dtype,))
        check_log_decay(log_decay.to("meta"), q.to("meta"))  # which have no values to look at
    else:
        check_log_decay(log_decay, q)
    return log_decay.to(torch.float32).contiguous()


# --- what a dtype decides ---------------------------------------------------------------------------------


def state_dtype(x: Tensor) -> tl.dtype:
    """What states and scores are rounded to when a matrix unit takes them: float16 has too little range."""
    return tl.bfloat16 if x.dtype == torch.bfloat16 else tl.float32


def wide_dtype(x: Tensor) -> torch.dtype:
    """The same, for what is kept in memory: states and scores."""
    return x.dtype if x.dtype == torch.bfloat16 else torch.float32


def decay_dtype(x: Tensor) -> tl.dtype:
    """What log decays are summed in: differences of sums must keep the digits that the inputs have."""
    return tl.float64 if x.dtype == torch.float32 else tl.float32


def mildness(x: Tensor) -> float:
    """Largest exponent of either sign in a product that splits a decay: float32 inputs keep their digits."""
    return 8.0 if x.dtype == torch.float32 else 60.0


def precision(x: Tensor) -> str:
    """Of products of float32 tiles: float32 inputs keep theirs, float16 ones are exact in TF32."""
    return "tf32" if x.dtype == torch.float16 else "ieee"


def shared_memory(x: Tensor) -> int:
    """Bytes that a program may have of it."""
    if x.device.type != "cuda":
        return 2**18
    return _shared_memory_of(torch.cuda.current_device() if x.device.index is None else x.device.index)


@functools.cache
def _shared_memory_of(gpu: int) -> int:
    return int(triton.runtime.driver.active.utils.get_device_properties(gpu)["max_shared_mem"])


def capability(x: Tensor) -> int:
    """Of the GPU, 90 for 9.0; 0 in the interpreter."""
    if x.device.type != "cuda":
        return 0
    major, minor = torch.cuda.get_device_capability(x.device)
    return 10 * major + minor


def engine_writes(x: Tensor) -> bool:
    """Whether the copy engine may write in a pipelined loop: for capability 10.0, Triton 3.7 refuses that."""
    return capability(x) // 10 != 10


def overlaps(x: Tensor) -> bool:
    """Whether the GPU starts programs of a kernel while the kernel before still runs (capability 9.0 on)."""
    return capability(x) >= 90


def launched_early(x: Tensor) -> dict[str, bool]:
    """Launch options of a kernel that begins so, and waits (wait_for_kernel_before) for what it reads."""
    return {"EARLY": True, "launch_pdl": True} if overlaps(x) else {"EARLY": False}


def multiprocessors(x: Tensor) -> int:
    """How many programs run side by side; few in the interpreter, so that tests cut sequences too."""
    if x.device.type != "cuda":
        return 8
    return torch.cuda.get_device_properties(x.device).multi_processor_count
