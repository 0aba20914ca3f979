"""Train by one loop: next-byte prediction, resumable to the bit, on one process or many.

    model = LanguageModel(ModelConfig("linear"))
    rows = train(model, ByteCorpus.python_stdlib(), TrainConfig(steps=300))

``Trainer`` takes steps and evaluates, whatever its batches are; ``train`` gives it windows of a corpus, a
checkpoint and a progress bar. From a shell, on this machine or on several GPUs:

    linattn train --mixer linear --steps 300 --checkpoint run.pt --rows rows.csv
    torchrun --nproc-per-node 8 -m linattn_ref.cli train --mixer linear --steps 300 --rows rows.csv
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from linattn_ref.mixers import find_weight_matrices
from linattn_ref.training.checkpoint import (
    TrainRow,
    TrainState,
    identify_run,
    load_checkpoint,
    save_checkpoint,
)
from linattn_ref.training.config import TrainConfig, compute_learning_rate
from linattn_ref.training.distributed import World, get_current_world, get_default_device
from linattn_ref.training.sharding import gather, shard_model
from linattn_ref.training.tasks import ByteCorpus

VALIDATION_SEED = 20_200_629  # one choice of validation windows for all runs, whatever their own seed


def group_parameters(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters of a model into those that decay and those that do not, for an optimiser.

    Weight matrices decay, embeddings included; vectors and scalars (norms, biases), and what the mixers spare
    (decay rates, short convolutions), do not. Frozen parameters are left out.

    Args:
        model: any module.
        weight_decay: of the matrices; 0.1 is usual with AdamW.

    Returns:
        Two groups in the form that ``torch.optim`` takes.

    Example:
        >>> groups = group_parameters(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)), 0.1)
        >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
        [(1, 0.1), (3, 0.0)]
    """
    decayed = find_weight_matrices(model)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in trained if name in decayed]
    others = [p for name, p in trained if name not in decayed]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def bits_per_byte(nats: float) -> float:
    """Convert a loss in nats per byte to bits per byte: divide it by ln 2.

    Args:
        nats: the loss; ln 256 is that of guessing.

    Returns:
        The loss in bits per byte.

    Example:
        >>> bits_per_byte(math.log(256))
        8.0
    """
    return nats / math.log(2)


def next_byte_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of a model's predictions.

        L = -mean_t log softmax(logits_t)[target_t]

    The softmax is taken in float32 at least. Targets of -100 (``tasks.IGNORED``) do not count.

    Args:
        model: called as ``model(inputs) -> (logits [B, T, vocab], state)``.
        inputs: int64 [B, T].
        targets: int64 [B, T]; in text, the byte after each input.

    Returns:
        The loss in nats, a scalar with a gradient.

    Example:
        >>> uniform = lambda tokens: (torch.zeros(*tokens.shape, 256), None)
        >>> next_byte_loss(uniform, torch.zeros(1, 4).long(), torch.ones(1, 4).long())
        tensor(5.5452)
    """
    logits, _ = model(inputs)  # [B, T, vocab]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Diverged(FloatingPointError):
    """Say that a loss or a gradient is no longer a finite number."""


class StepLosses(NamedTuple):
    """Hold what some steps report: mean training loss in nats per byte, and the largest gradient norm."""

    train: float
    worst_norm: float


class Batches(Protocol):
    """Describe where a trainer's batches come from: pairs of inputs and targets, int64 [B / ranks, T]."""

    generator: torch.Generator  # draws the training batches; a checkpoint holds its state

    def draw_training_batch(self, step: Any) -> tuple[Tensor, Tensor]:
        """Return this rank's part of the batch of a step (0 is the first), on its device."""
        ...

    def compute_validation_loss(self, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        """Return the mean of ``loss(inputs, targets)`` over the validation batches."""
        ...


class Trainer:
    """Take optimiser steps on a model, evaluate it, and hold what must be kept to go on.

    One step, with loss L, weights w and the rate of the step, lr:

        g = dL/dw, scaled down to norm grad_clip if it is longer
        w = AdamW(w, g, lr)

    ``state`` is all that changes: ``save_checkpoint`` writes it, ``resume`` reads it. Append a row with the
    number of the step as ``"step"`` to ``state.rows`` before a checkpoint is written.

    Args:
        model: called as ``model(inputs) -> (logits, state)``; it is moved to ``device`` and trained in place.
        batches: where inputs and targets come from.
        rate: step (1 is the first) -> learning rate.
        device: where to train; default: ``get_default_device()``.
        world: the ranks that train together; default: this process alone. Each has its part of a batch;
            gradients and losses are averaged.
        weight_decay: decoupled, see ``group_parameters``; default 0.1.
        betas: AdamW's two decay rates; default 0.9 and 0.95.
        grad_clip: largest norm of the gradient of all parameters; default 1, inf does not clip.
        dtype: of matrix products: "float32", "bfloat16" (autocast), or None (default): bfloat16 on GPUs that
            have it.
        sharded: whether each of several ranks keeps a part of the weights only (FSDP2), and not all of them
            (DDP); default False.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> config = TrainConfig(batch_size=2, seq_len=8)
        >>> corpus = ByteCorpus.from_documents("two", {"a": b"to be or not " * 9, "b": b"not to be " * 9})
        >>> model = LanguageModel(ModelConfig("linear", d_model=16, n_layers=1, n_heads=1))
        >>> trainer = Trainer(model, CorpusBatches(corpus, config), lambda step: 0.01, device="cpu")
        >>> before = trainer.evaluate()
        >>> losses = trainer.advance(20)
        >>> losses.train < before, trainer.evaluate() < before, trainer.steps_done
        (True, True, 20)
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        rate: Callable[[int], float],
        *,
        device: torch.device | str | None = None,
        world: World | None = None,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.95),
        grad_clip: float = 1.0,
        dtype: str | None = None,
        sharded: bool = False,
    ) -> None:
        self.device = get_default_device() if device is None else torch.device(device)
        self.world = world or World()
        self.model, self.batches, self.rate = model.to(self.device), batches, rate
        self.grad_clip, self.dtype = grad_clip, dtype
        self.replica = self.spread_model(sharded)
        self.optimizer = self.make_optimizer(group_parameters(model, weight_decay), betas)
        self.state = TrainState(model, self.optimizer, batches.generator)
        self.steps_done = 0
        total = torch.promote_types(next(model.parameters()).dtype, torch.float32)
        self.loss_sum = torch.zeros((), dtype=total, device=self.device)  # since the last report
        self.worst_norm = torch.zeros((), dtype=total, device=self.device)

    def spread_model(self, sharded: bool) -> nn.Module:
        """Return what is called in training: the model, or what lets several ranks train it together."""
        if self.world.size == 1:
            return self.model
        return shard_model(self.model) if sharded else DistributedDataParallel(self.model)

    def make_optimizer(
        self, groups: list[dict[str, Any]], betas: tuple[float, float]
    ) -> torch.optim.Optimizer:
        """Return the optimiser; its learning rate is set before each update."""
        return torch.optim.AdamW(groups, betas=betas)

    # ---- steps ---------------------------------------------------------------------------------------------

    def advance(self, n: int) -> StepLosses:
        """Take ``n`` steps and return their mean loss and their largest gradient norm, before clipping.

        Raises:
            Diverged: a loss or a gradient is not finite.
        """
        self.model.train()
        for _ in range(n):
            self.take_step()
            self.steps_done += 1
        losses = StepLosses(self.world.mean(self.loss_sum).item() / n, self.worst_norm.item())
        self.loss_sum.zero_()
        self.worst_norm.zero_()
        require_finite(*losses, self.steps_done)
        return losses

    def take_step(self) -> None:
        """Draw a batch, differentiate the loss, clip the gradient, update the weights."""
        self.optimizer.zero_grad()
        inputs, targets = self.draw_batch()
        loss = self.loss(self.replica, inputs, targets)
        loss.backward()
        norm = gather(nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_clip))
        self.prepare_update(loss.detach(), norm)
        self.optimizer.step()
        self.loss_sum += loss.detach()
        self.worst_norm.copy_(torch.maximum(self.worst_norm, norm))

    def draw_batch(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the next step."""
        return self.batches.draw_training_batch(self.steps_done)

    def prepare_update(self, loss: Tensor, norm: Tensor) -> None:
        """Refuse a gradient that is not finite, before it reaches the weights, and set the learning rate."""
        step = self.steps_done + 1
        require_finite(self.world.mean(loss).item(), norm.item(), step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(step)

    # ---- evaluation ----------------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the mean loss over the validation batches, in nats per byte."""
        self.model.eval()
        return self.batches.compute_validation_loss(
            lambda inputs, targets: self.loss(self.model, inputs, targets)
        )

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return ``next_byte_loss`` in the precision of this trainer."""
        with self.autocast():
            return next_byte_loss(model, inputs, targets)

    def autocast(self) -> torch.autocast:
        """Return the context in which the model computes: with bfloat16 matrix products, or without."""
        has_bf16 = self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) >= (8, 0)
        dtype = self.dtype or ("bfloat16" if has_bf16 else "float32")
        # Casts are not kept: a captured step (see the study) must not read one that was made outside of it.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=dtype == "bfloat16", cache_enabled=False
        )

    # ---- going on ------------------------------------------------------------------------------------------

    def resume(self, path: Path, identity: Mapping[str, Mapping[str, str]]) -> None:
        """Go on after the last row of a checkpoint.

        Args:
            path: a file that ``save_checkpoint`` wrote.
            identity: what must be equal for it to be the same run, see ``identify_run``.

        Raises:
            ValueError: the file is no checkpoint, or belongs to another run.
        """
        load_checkpoint(path, self.state, identity)
        self.steps_done = self.state.rows[-1]["step"] if self.state.rows else 0


def require_finite(loss: float, norm: float, step: int) -> None:
    """Raise ``Diverged`` if a training loss or a gradient norm is not finite."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise Diverged(f"train_loss is {loss}, gradient norm {norm} by step {step}: try a lower lr")


class CorpusBatches:
    """Draw windows of a corpus at random: this rank's part of each global batch, on its device.

    Every rank draws the whole batch, so all generators stay in step and the data do not depend on the number
    of ranks. The validation windows are drawn once, with a seed of their own.

    Args:
        corpus: the text.
        config: reads ``batch_size``, ``seq_len``, ``eval_batches`` and ``seed``.
        world: the ranks that train together; default: this process alone.
        device: where batches go; default: the CPU.

    Raises:
        ValueError: a split of the corpus is too short, or the batch does not divide by the ranks.
    """

    def __init__(
        self,
        corpus: ByteCorpus,
        config: TrainConfig,
        world: World | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.corpus, self.config, self.world, self.device = corpus, config, world or World(), device
        self.world.require_divides(config.batch_size)
        self.generator = torch.Generator().manual_seed(config.seed)
        fixed = torch.Generator().manual_seed(VALIDATION_SEED)
        self.validation = [self._draw("validation", fixed) for _ in range(config.eval_batches)]

    def draw_training_batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the next batch, whatever the number of the step: inputs, targets, int64 [B / ranks, T]."""
        return self._draw("train", self.generator)

    def compute_validation_loss(self, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        """Return the mean of ``loss(inputs, targets)`` over the validation batches, all ranks' parts."""
        losses = [loss(inputs, targets) for inputs, targets in self.validation]
        return self.world.mean(torch.stack(losses).mean()).item()

    def _draw(self, split: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a split."""
        inputs, targets = self.corpus.sample(split, self.config.batch_size, self.config.seq_len, generator)
        return self.world.slice(inputs).to(self.device), self.world.slice(targets).to(self.device)


def train(
    model: nn.Module,
    corpus: ByteCorpus,
    config: TrainConfig,
    *,
    device: torch.device | str | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    on_row: Callable[[TrainRow], None] | None = None,
    sharded: bool = False,
) -> list[TrainRow]:
    """Train a model in place, next byte by next byte, and return one row for each step.

    Batches come from a generator of this run's own, so nothing else that is random has an influence. On the
    CPU a run that was stopped and resumed gives the same losses and weights, bit for bit, as one that was
    not (on equally many threads, and with a model that draws no random numbers of its own, as dropout does).
    The model is left in evaluation mode, on ``device``.

    Under ``distributed``, every rank calls this alike and gets the rows; rank 0 alone shows the bar, calls
    ``on_row`` and writes the checkpoint, which all ranks must be able to read.

    Args:
        model: called as ``model(tokens) -> (logits, state)``: int64 [B, T] to [B, T, vocab].
        corpus: the text to train and to validate on.
        config: everything else that decides the run.
        device: where to train; the model is moved there. Default None: CUDA if there is any, else CPU.
        checkpoint: a file to resume from if it exists, and to write to. Default None: none.
        progress: whether to show a bar with loss and speed; default True.
        on_row: called with each new row as soon as it is there; default None.
        sharded: whether each of several ranks keeps a part of the weights only, see ``Trainer``; default
            False.

    Returns:
        The rows of all steps, those before a resumption included; see ``checkpoint.TrainRow``.

    Raises:
        ValueError: a split of the corpus is too short, the batch does not divide by the ranks, or the
            checkpoint is of another run.
        Diverged: a loss or gradient is no longer finite; the checkpoint is that of an earlier step.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> corpus = ByteCorpus.from_documents("two", {"a": b"to be or not " * 9, "b": b"not to be " * 9})
        >>> config = TrainConfig(steps=2, warmup_steps=0, batch_size=2, seq_len=8)
        >>> model = LanguageModel(ModelConfig("linear", d_model=16, n_layers=1, n_heads=1))
        >>> rows = train(model, corpus, config, device="cpu", progress=False)
        >>> [(row["step"], row["tokens"]) for row in rows]
        [(1, 16), (2, 32)]
    """
    world = get_current_world()
    device = get_default_device() if device is None else torch.device(device)
    path = None if checkpoint is None else Path(checkpoint)
    trainer = Trainer(
        model,
        CorpusBatches(corpus, config, world, device),
        lambda step: compute_learning_rate(config, step),
        device=device,
        world=world,
        weight_decay=config.weight_decay,
        betas=config.betas,
        grad_clip=config.grad_clip,
        dtype=config.dtype,
        sharded=sharded,
    )
    state, identity = trainer.state, identify_run(model, dataclasses.asdict(config), corpus.sha256)
    if path is not None and path.exists():
        trainer.resume(path, identity)

    quiet, done = not progress or world.rank > 0, trainer.steps_done
    steps = tqdm(
        range(done + 1, config.steps + 1), initial=done, total=config.steps, unit="step", disable=quiet
    )
    for step in steps:
        row = _make_train_row(trainer, config)
        is_last = step == config.steps
        if is_last or step % config.eval_every == 0:
            row["val_loss"] = val_loss = trainer.evaluate()
            if not math.isfinite(val_loss):
                raise Diverged(f"val_loss is {val_loss} at step {step}: try a lower lr")
        state.rows.append(row)
        steps.set_postfix(loss=f"{row['train_loss']:.3f}", tokens_per_s=f"{row['tokens_per_second']:.0f}")
        if world.rank == 0 and on_row is not None:
            on_row(row)
        if path is not None and (is_last or step % config.checkpoint_every == 0):
            save_checkpoint(path, state, identity, writes=world.rank == 0)
    model.eval()
    return state.rows


def _make_train_row(trainer: Trainer, config: TrainConfig) -> TrainRow:
    """Take one step and describe it; ``val_loss`` is left at None."""
    start = time.perf_counter()
    loss = trainer.advance(1).train
    seconds = time.perf_counter() - start
    per_step, rows = config.batch_size * config.seq_len, trainer.state.rows
    return TrainRow(
        step=trainer.steps_done,
        tokens=trainer.steps_done * per_step,
        train_loss=loss,
        val_loss=None,
        lr=compute_learning_rate(config, trainer.steps_done),
        seconds=(rows[-1]["seconds"] if rows else 0.0) + seconds,
        tokens_per_second=per_step / seconds,
    )
