"""Ask the GPU what it can do: compute capability, shared memory, multiprocessors, TMA stores, PDL.

TMA is the tensor memory accelerator, which copies tiles between global and shared memory from Hopper on
(compute capability 9.0). PDL is programmatic dependent launch, also from Hopper on: a kernel may start
while the one before it still runs.

Without a GPU the kernels run in Triton's interpreter, for tests: set ``TRITON_INTERPRET=1`` before the first
import of Triton. The functions below then answer for a small imaginary GPU without TMA or PDL.
"""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import triton
from torch import Tensor

F = TypeVar("F", bound=Callable)

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
LARGE_SHARED_MEMORY = 160 * 2**10  # bytes


# --- what the GPU has --------------------------------------------------------------------------------------


def read_compute_capability(x: Tensor) -> int:
    """Return the compute capability of the GPU that x lies on, times ten: 90 for 9.0. On a CPU, 0."""
    if x.device.type != "cuda":
        return 0
    properties = _read_properties(x.device)
    return 10 * properties.major + properties.minor


def count_multiprocessors(x: Tensor) -> int:
    """Return the number of multiprocessors. On a CPU it is small, so that tests, too, cut sequences."""
    if x.device.type != "cuda":
        return 8
    return _read_properties(x.device).multi_processor_count


_read_properties_once = functools.cache(torch.cuda.get_device_properties)


def _read_properties(device: torch.device) -> Any:
    """Return what CUDA says of a GPU. Torch asks for it anew each time; torch.compile knows no caches."""
    compiling = torch.compiler.is_compiling()
    return torch.cuda.get_device_properties(device) if compiling else _read_properties_once(device)


def read_max_shared_memory(x: Tensor) -> int:
    """Return the most shared memory that one program may have, in bytes."""
    if x.device.type != "cuda":
        return 2**18
    return _read_max_shared_memory_of(
        torch.cuda.current_device() if x.device.index is None else x.device.index
    )


@functools.cache
def _read_max_shared_memory_of(gpu: int) -> int:
    """Return the most shared memory that one program may have on the GPU of this number, in bytes."""
    return int(triton.runtime.driver.active.utils.get_device_properties(gpu)["max_shared_mem"])


def has_large_shared_memory(x: Tensor) -> bool:
    """Return whether a program may have 160 KB of shared memory: in data centres 163 KB or more, else 99."""
    return read_max_shared_memory(x) >= LARGE_SHARED_MEMORY


def supports_tma_store(x: Tensor) -> bool:
    """Return whether a pipelined loop may store by TMA: Triton 3.7 refuses it for capability 10.x."""
    return read_compute_capability(x) // 10 != 10


def supports_packed_walks(x: Tensor) -> bool:
    """Return whether walks can enter a sequence on the way: Triton 3.7 refuses that for capability 10.x."""
    return read_compute_capability(x) // 10 != 10


def supports_pdl(x: Tensor) -> bool:
    """Return whether the GPU has programmatic dependent launch (compute capability 9.0 or later)."""
    return read_compute_capability(x) >= 90


def pdl_options(x: Tensor) -> dict[str, bool]:
    """Return the launch options of a kernel that starts early and waits (``wait_for_previous_kernel``)."""
    return {"launch_pdl": True} if supports_pdl(x) else {}


# --- where a kernel is launched ----------------------------------------------------------------------------


def run_on_device_of_q(launcher: F) -> F:
    """Decorate a launcher so that kernels start on q's device, which need not be the current one."""

    @functools.wraps(launcher)
    def launch(q: Tensor, *args, **kwargs):
        if not q.is_cuda or q.device.index == torch.cuda.current_device():
            _bind_cuda_context(q)
            return launcher(q, *args, **kwargs)
        with torch.cuda.device(q.device):
            _bind_cuda_context(q)
            return launcher(q, *args, **kwargs)

    return cast(F, launch)


_thread = threading.local()


def _bind_cuda_context(q: Tensor) -> None:
    """Give this thread a CUDA context: a launch binds one, but Triton's descriptors need one before.

    Autograd's threads begin without (pytorch#124565).
    """
    if q.is_cuda and not getattr(_thread, "bound", False):
        q.new_empty(1).zero_()
        _thread.bound = True
