"""Train small models fast: rates, step number and losses live on the device, which never waits for the host.

On a GPU the whole step, from bytes to updated weights, can be captured once as a CUDA graph and replayed:
with small models, launching kernels costs more than the kernels. The same code runs on a CPU.
"""

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from linattn_ref.training.trainer import Batches, Trainer

EAGER_STEPS = 3  # before a graph is captured, so that everything is compiled and allocated


class DeviceTrainer(Trainer):
    """Train as ``Trainer`` does, with no word to the host between reports.

    What differs: the batch of a step is asked for with its number as a tensor; AdamW is fused, so its last
    digits are others; and that a loss is not finite is found out at the end of ``advance``.

    Args:
        model, batches: as for ``Trainer``; ``batches.draw_training_batch`` gets an int64 tensor [1].
        rates: the learning rate of each step.
        compiled: whether to compile the model, on one GPU; default False.
        captured: whether to capture the step as a graph, on one GPU; default False. A captured model may
            not look at values of tensors, as the reference's ops do: take the backend "triton".
        options: the keyword arguments of ``Trainer``.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        rates: Sequence[float],
        *,
        compiled: bool = False,
        captured: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, batches, lambda step: rates[step - 1], **options)
        self.rates = torch.tensor(rates, device=self.device)
        self.step_number = torch.zeros(1, dtype=torch.int64, device=self.device)  # equals steps_done
        self.first_step = 0  # the first that this process takes
        one_gpu = self.device.type == "cuda" and self.world.size == 1
        if compiled and one_gpu:
            torch.compiler.reset()  # it gives up on code that it has compiled for several models
            self.replica = cast(nn.Module, torch.compile(self.model, dynamic=False))
        self.captured = captured and one_gpu
        self.graph: torch.cuda.CUDAGraph | None = None

    def make_optimizer(
        self, groups: list[dict[str, Any]], betas: tuple[float, float]
    ) -> torch.optim.Optimizer:
        """Return a fused AdamW whose learning rate is a tensor."""
        self.lr = torch.zeros((), device=self.device)
        return torch.optim.AdamW(groups, self.lr, betas, fused=True, capturable=self.device.type == "cuda")

    def draw_batch(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the next step."""
        return self.batches.draw_training_batch(self.step_number)

    def prepare_update(self, loss: Tensor, norm: Tensor) -> None:
        """Set the learning rate on the device."""
        self.lr.copy_(self.rates.index_select(0, self.step_number)[0])
        self.step_number += 1

    def take_step(self) -> None:
        """Take a step: as it is written at first, then by replaying its graph, if it is captured."""
        if self.graph is None and self.captured and self.steps_done >= self.first_step + EAGER_STEPS:
            self.graph = self._capture()
        if self.graph is None:
            super().take_step()
        else:
            self.graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record a step without doing it."""
        self.optimizer.zero_grad()
        gc.collect()  # what is left of earlier steps is another stream's, and would break the recording
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # the graph has memory of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            super().take_step()
        return graph

    def resume(self, path: Path, identity: Mapping[str, Mapping[str, str]]) -> None:
        """Go on after the last row of a checkpoint; see ``Trainer.resume``."""
        super().resume(path, identity)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr  # which the checkpoint has replaced by a number of its own
        self.first_step = self.steps_done
        self.step_number.fill_(self.steps_done)
