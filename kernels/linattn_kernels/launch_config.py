"""Choose how kernels are launched: tiles, warps, and segments of a sequence. NOTES.md has the measurements.

Tiles are sized for Hopper, with smaller ones where shared memory is short.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from linattn_kernels.hardware import count_multiprocessors, has_large_shared_memory

MIN_CHUNKS_PER_SEGMENT = 4  # the last segment may have fewer


def ceil_div(n: int, d: int) -> int:
    """Return n / d, rounded up; ``triton.cdiv``, which kernels may call as well, takes the host 2 us."""
    return -(-n // d)


def round_up_to_power_of_2(n: int) -> int:
    """Return the least power of 2 that is not below n >= 1."""
    return 1 << (n - 1).bit_length()


class LaunchConfig(NamedTuple):
    """Hold the launch configuration of one kernel.

    Attributes:
        block_columns: columns of a tile at most.
        num_warps: warps of a program.
        num_stages: stages of the pipeline that loads ahead.
        programs_per_multiprocessor: programs that a multiprocessor holds at a time.
        max_registers: registers of a thread at most; None leaves that to the compiler.
    """

    block_columns: int
    num_warps: int
    num_stages: int
    programs_per_multiprocessor: int = 1
    max_registers: int | None = None

    @property
    def triton_options(self) -> dict[str, int]:
        """Return the keyword arguments of a Triton launch."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options if self.max_registers is None else options | {"maxnreg": self.max_registers}


class LaunchConfigs(NamedTuple):
    """Hold the launch configurations of one kernel for different inputs and GPUs.

    Float32 takes twice the memory, and no matrix unit multiplies it exactly: operands fill the registers.

    Attributes:
        half_precision: for bfloat16 and float16.
        float32: for float32.
        small_heads: for half precision with K and V of 64 at most; None: as ``half_precision``.
        small_memory: for half precision on GPUs without large shared memory; None: as on others.
    """

    half_precision: LaunchConfig
    float32: LaunchConfig
    small_heads: LaunchConfig | None = None
    small_memory: LaunchConfig | None = None

    def choose(self, q: Tensor, v: Tensor) -> LaunchConfig:
        """Return the configuration for q ``[..., K]`` and v ``[..., V]``."""
        if q.dtype == torch.float32:
            return self.float32
        if self.small_memory is not None and not has_large_shared_memory(q):
            return self.small_memory
        if self.small_heads is not None and max(q.shape[-1], v.shape[-1]) <= 64:
            return self.small_heads
        return self.half_precision


class SegmentLayout(NamedTuple):
    """Describe a sequence as M chunks of C tokens in N segments of ``chunks_per_segment`` chunks.

    ``sequences`` says of which sequence the chunks are, where several are packed (``packed.py``); else None.
    """

    C: int
    M: int
    N: int
    chunks_per_segment: int
    sequences: Tensor | None = None


def choose_segments(
    T: int, C: int, programs: int, config: LaunchConfig, x: Tensor, sequences: Tensor | None
) -> SegmentLayout:
    """Cut T tokens, in chunks of C, into as many segments as fill the GPU.

    There are no more than sqrt(2 M) segments: a program takes up to N steps to the start of its segment
    (``states.py``) and M / N through it.

    Args:
        T: tokens of the sequence.
        C: tokens of a chunk.
        programs: programs that work side by side on one segment.
        config: launch configuration of the kernel.
        x: any tensor on the device.
        sequences: of chunks where several sequences are packed, else None.
    """
    M = ceil_div(T, C)
    wanted = config.programs_per_multiprocessor * count_multiprocessors(x) // programs
    n_segments = max(1, min(wanted, M // MIN_CHUNKS_PER_SEGMENT, math.isqrt(2 * M)))
    chunks_per_segment = ceil_div(M, n_segments)
    return SegmentLayout(C, M, ceil_div(M, chunks_per_segment), chunks_per_segment, sequences)


def choose_tokens_per_tile(q: Tensor, v: Tensor, chunk_size: int, max_in_float32: int) -> int:
    """Return the tokens of a tile for q ``[B, T, H, K]`` and v ``[B, T, H, V]``, ``chunk_size`` at most.

    In half precision, products of 64 rows and few columns meet a fault of the assembler (NOTES.md).
    """
    limit = max(16, round_up_to_power_of_2(q.shape[1]))
    if q.dtype == torch.float32:
        limit = min(limit, max_in_float32)
    elif min(q.shape[-1], v.shape[-1]) < 64:
        limit = min(limit, 32)
    return min(chunk_size, limit)
