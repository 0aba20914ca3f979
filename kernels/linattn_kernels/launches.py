"""How kernels are launched: tiles, warps, and how a sequence is cut. Numbers are measured, see NOTES.md."""

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from linattn_kernels.door import multiprocessors, shared_memory

ROOM = 160 * 2**10  # bytes
FEWEST = 4  # chunks in a segment, but for the last


class Launch(NamedTuple):
    """How a kernel is launched.

    Columns of a tile at most, warps of a program, stages of the pipeline that loads ahead, programs that a
    multiprocessor holds at a time, and registers of a thread at most (None leaves that to the compiler).
    """

    columns: int
    warps: int
    stages: int
    resident: int = 1
    registers: int | None = None

    @property
    def options(self) -> dict[str, int | None]:
        """What Triton takes."""
        options = {"num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers}
        return {name: n for name, n in options.items() if n is not None}


class Launches(NamedTuple):
    """Of one kernel: in half precision, in float32; in half precision with K and V of 64 at most, and where a
    GPU has less shared memory than ``ROOM``.

    Float32 takes twice the memory, and no matrix unit is exact: factors fill the registers.
    """

    half: Launch
    full: Launch
    small: Launch | None = None  # as half
    lean: Launch | None = None  # as half

    def of(self, q: Tensor, v: Tensor) -> Launch:
        """For q ``[..., K]`` and v ``[..., V]``."""
        if q.dtype == torch.float32:
            return self.full
        if self.small is not None and max(q.shape[-1], v.shape[-1]) <= 64:
            return self.small
        return self.half if self.lean is None or roomy(q) else self.lean


def roomy(x: Tensor) -> bool:
    """Whether a program may have 163 KB of shared memory or more, as in data centres; elsewhere, 99 KB."""
    return shared_memory(x) >= ROOM


class Cut(NamedTuple):
    """M chunks of C tokens in N segments of ``per`` chunks."""

    C: int
    M: int
    N: int
    per: int


def cut(T: int, C: int, programs: int, launch: Launch, x: Tensor) -> Cut:
    """T tokens in tiles of C: as many segments as fill the GPU, if one segment is ``programs`` programs.

    But no more than sqrt(2 M): a program takes up to N steps to the start of its segment (``states.py``) and
    M / N through it.
    """
    M = triton.cdiv(T, C)
    wanted = launch.resident * multiprocessors(x) // programs
    per = triton.cdiv(M, max(1, min(wanted, M // FEWEST, math.isqrt(2 * M))))
    return Cut(C, M, triton.cdiv(M, per), per)


def tile_of(q: Tensor, v: Tensor, chunk_size: int, full: int) -> int:
    """Tokens of a tile for q ``[B, T, H, K]`` and v ``[B, T, H, V]``; ``full`` is the most in float32.

    In half precision, products of 64 rows and few columns meet a fault of the assembler (NOTES.md).
    """
    most = max(16, triton.next_power_of_2(q.shape[1]))
    if q.dtype == torch.float32:
        most = min(most, full)
    elif min(q.shape[-1], v.shape[-1]) < 64:
        most = min(most, 32)
    return min(chunk_size, most)
