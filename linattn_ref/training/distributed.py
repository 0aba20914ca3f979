"""Train in several processes: what `torchrun` sets up, in two functions and one context.

Every rank holds the whole model, or a part of it (``sharding``), draws the same global batch and works on
its own slice of it; gradients and losses are averaged, so the run equals that of a single process up to
rounding.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from linattn_ref.ops.validation import require


@dataclass(frozen=True)
class World:
    """Hold this process's number, ``0 <= rank < size``, and how many processes train together.

    Args:
        rank: number of this process; default 0.
        size: number of processes; default 1.

    Example:
        >>> World(rank=1, size=2).slice(torch.arange(4))
        tensor([2, 3])
    """

    rank: int = 0
    size: int = 1

    def slice(self, x: Tensor) -> Tensor:
        """Return this rank's part [B / size, ...] of a global batch [B, ...]."""
        return x.chunk(self.size)[self.rank]

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean over the ranks of a tensor that every rank holds; it is the same on all of them."""
        if self.size == 1:
            return x
        total = x.detach().clone()
        dist.all_reduce(total)  # sum
        return total / self.size

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set on one rank at least."""
        return self.mean(torch.tensor(float(flag))).item() > 0

    def require_divides(self, batch_size: int) -> None:
        """Raise a ``ValueError`` if a batch does not divide evenly by the ranks."""
        fits = batch_size % self.size == 0
        require(fits, "batch_size", f"{batch_size}", f"a multiple of {self.size} ranks")


@contextmanager
def distributed() -> Iterator[World]:
    """Join the processes that ``torchrun`` started; alone, do nothing.

    Reads ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``, which torchrun sets. CPU tensors travel by gloo, CUDA
    tensors by nccl, and ``LOCAL_RANK`` becomes the process's CUDA device. On leaving, the group is dissolved.

        with distributed() as world:
            rows = train(model, corpus, config)  # every rank calls it; every rank gets the rows

    Yields:
        The ``World`` of this process.

    Example:
        >>> with distributed() as world:
        ...     print(world)
        World(rank=0, size=1)
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    has_cuda = torch.cuda.is_available()
    if has_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_cuda else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def get_current_world() -> World:
    """Return the ranks joined by ``distributed``; outside of it, this process alone.

    Returns:
        The ``World`` of this process.

    Raises:
        RuntimeError: torchrun started several processes but they were not joined: each would train alone and
            all would write the same checkpoint.

    Example:
        >>> get_current_world()
        World(rank=0, size=1)
    """
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RuntimeError(
            "WORLD_SIZE is above 1, but the processes are not joined: use `with distributed():`"
        )
    return World()


def get_default_device() -> torch.device:
    """Return the current CUDA device if there is one (under ``distributed``: ``LOCAL_RANK``), else the CPU.

    Returns:
        A ``torch.device``, with its number if it is a GPU.

    Example:
        >>> get_default_device().type in ("cuda", "cpu")
        True
    """
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
