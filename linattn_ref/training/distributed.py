"""Several processes, one training run: what `torchrun` sets up, in two functions and one context.

Every rank holds the whole model, draws the same global batch and works on its own slice of it; gradients and
losses are averaged, so the run equals that of a single process up to rounding.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """This process's number, ``0 <= rank < size``, and how many processes train together."""

    rank: int = 0
    size: int = 1

    def slice(self, x: Tensor) -> Tensor:
        """This rank's part ``[B / size, ...]`` of a global batch ``[B, ...]``."""
        return x.chunk(self.size)[self.rank]

    def mean(self, x: Tensor) -> Tensor:
        """Mean over the ranks of a tensor that every rank holds, the same on all of them afterwards."""
        if self.size == 1:
            return x
        total = x.detach().clone()
        dist.all_reduce(total)  # sum
        return total / self.size

    def any(self, flag: bool) -> bool:
        """Whether it is so on one rank at least."""
        return self.mean(torch.tensor(float(flag))).item() > 0


@contextmanager
def distributed() -> Iterator[World]:
    """Join the processes that ``torchrun`` started; alone, do nothing.

    Reads ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``, which torchrun sets. CPU tensors travel by gloo, CUDA
    tensors by nccl, and ``LOCAL_RANK`` becomes the process's CUDA device. On leaving, the group is dissolved.

        with distributed() as world:
            rows = train(model, corpus, config)  # every rank calls it; every rank gets the rows
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


def current_world() -> World:
    """The ranks joined by `distributed`; a single one outside it.

    Raises:
        RuntimeError: torchrun started several processes but they were not joined: each would train alone and
            all would write the same checkpoint.
    """
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RuntimeError(
            "WORLD_SIZE is above 1, but the processes are not joined: use `with distributed():`"
        )
    return World()


def default_device() -> torch.device:
    """The current CUDA device if there is one (under `distributed`: number ``LOCAL_RANK``), else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
