"""Train small models on tasks whose answers are known, and measure the share of right answers.

All batches of a run are drawn before it and lie on the device, so that a GPU can capture a step as a graph.
At this size, starting operations costs more than the operations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from linattn_ref.model import LanguageModel
from linattn_ref.training.tasks import IGNORED
from linattn_ref.training.tasks.recall import Recall
from linattn_study.device_trainer import DeviceTrainer

Draw = Callable[[int, torch.Generator], Recall]  # how many sequences -> inputs and targets
VALIDATION_SEED = 406_16690  # one choice of validation sequences for all runs
DRAWN_AT_ONCE = 4096


@dataclass(frozen=True)
class Practice:
    """Say how a model practises a task.

    Args:
        steps: optimiser steps.
        batch_size: sequences of each.
        rate: peak learning rate, reached after a tenth of the steps; it then falls to 0 in a straight line.
        seed: of weights and training batches.
        weight_decay: of the matrices; default 0.1.
    """

    steps: int
    batch_size: int
    rate: float
    seed: int
    weight_decay: float = 0.1

    def compute_rates(self) -> list[float]:
        """Return the learning rate of each step."""
        warmup = max(1, self.steps // 10)
        falling = max(1, self.steps - warmup)
        return [self.rate * min((i + 1) / warmup, (self.steps - i) / falling) for i in range(self.steps)]


class DrawnBatches:
    """Hold the batches of a run on a device.

    Args:
        draw: draws sequences of the task.
        practice: how many, and the seed.
        device: where they lie.
    """

    def __init__(self, draw: Draw, practice: Practice, device: torch.device) -> None:
        self.generator = torch.Generator().manual_seed(practice.seed)
        self.size = practice.batch_size
        drawn = draw_sequences(draw, practice.steps * self.size, self.generator)
        self.inputs, self.targets = (x.to(torch.int16).to(device) for x in drawn)

    def draw_training_batch(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a step, given as int64 [1]."""
        rows = step * self.size + torch.arange(self.size, device=self.inputs.device)
        return self.inputs.index_select(0, rows).long(), self.targets.index_select(0, rows).long()

    def compute_validation_loss(self, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        """Return NaN: accuracy is what is asked for, see ``measure_accuracy``."""
        return float("nan")


@torch.no_grad()
def initialise_by_width(model: LanguageModel) -> None:
    """Draw all linear maps anew, with entries of a size that falls with the width of what they read.

    ``LanguageModel`` draws with a standard deviation of 0.02, as large models do. At width 64 queries, keys
    and steps are then so small that gated models learn nothing for thousands of steps. Here entries are
    uniform up to 1 / sqrt(width), PyTorch's own choice and that of Mamba's code; what writes to the residual
    stream is divided by sqrt(2 L).
    """
    writes = ("mixer.out", "mlp.out")
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.reset_parameters()
            if name.endswith(writes):
                module.weight /= (2 * model.config.n_layers) ** 0.5


def draw_sequences(draw: Draw, n: int, generator: torch.Generator) -> Recall:
    """Draw n sequences of a task, some thousand at a time."""
    parts = [draw(min(DRAWN_AT_ONCE, n - i), generator) for i in range(0, n, DRAWN_AT_ONCE)]
    return Recall(*(torch.cat(x) for x in zip(*parts, strict=True)))


def practise(model: nn.Module, draw: Draw, practice: Practice, device: torch.device, **options: Any) -> float:
    """Train a model in place, and return its mean loss over the last tenth of the steps, in nats.

    Args:
        model: a language model on the backend "triton" if there is a GPU: its steps are then captured.
        draw: draws sequences of the task.
        practice: how it is trained.
        device: where.
        options: for ``DeviceTrainer``.
    """
    batches = DrawnBatches(draw, practice, device)
    captured = device.type == "cuda"
    trainer = DeviceTrainer(
        model,
        batches,
        practice.compute_rates(),
        captured=captured,
        device=device,
        dtype="float32",  # trained in bfloat16, Mamba answered worse in float32 than it had in training
        weight_decay=practice.weight_decay,
        **options,
    )
    last = max(1, practice.steps // 10)
    if practice.steps > last:
        trainer.advance(practice.steps - last)
    return trainer.advance(last).train


@torch.no_grad()
def measure_accuracy(
    model: LanguageModel, draw: Draw, n: int, device: torch.device, batch: int = 64
) -> float:
    """Return the share of right answers where one is asked for, in n sequences of a fixed seed."""
    inputs, targets = draw_sequences(draw, n, torch.Generator().manual_seed(VALIDATION_SEED))
    model.eval()
    right = asked = 0
    for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
        said = model(x.to(device))[0].argmax(-1).cpu()
        right += int((said == y).sum())
        asked += int((y != IGNORED).sum())
    return right / asked
