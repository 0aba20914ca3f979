"""Hold the settings of a training run, checked, and compute the learning rate that follows from them."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from linattn_ref.ops.validation import require


def _make_option(default: Any, text: str) -> Any:
    """Return a field with its explanation, which is also the help text of the command line."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainConfig:
    """Hold everything that decides a run, besides model and corpus.

    Args:
        steps: optimiser steps; default 300.
        batch_size: sequences per step, B, over all ranks together; default 16.
        seq_len: bytes per sequence, T; default 256.
        lr: peak learning rate of AdamW; default 3e-3.
        schedule: "cosine" (default) or "constant", after the warm-up; see ``compute_learning_rate``.
        warmup_steps: steps of linear warm-up, the last of which has the peak rate; default 20.
        min_lr_fraction: share of the peak that the cosine ends at, at the last step; default 0.1.
        weight_decay: decoupled, on weight matrices only; default 0.1.
        betas: AdamW's two decay rates; default (0.9, 0.95).
        grad_clip: largest norm of the gradient of all parameters; inf does not clip; default 1.
        eval_every: steps between evaluations; the last step is always evaluated; default 50.
        eval_batches: validation batches, the same at each evaluation and for every seed; default 4.
        checkpoint_every: steps between checkpoints; the last step always writes one; default 100.
        seed: of the training batches; on the command line, of the first weights too; default 0.
        dtype: of matrix products: "float32", "bfloat16" (autocast), or None (default): bfloat16 on GPUs that
            have it.

    Raises:
        ValueError: a value out of range, named, with what came and what was expected.

    Example:
        >>> TrainConfig(steps=100, lr=1e-3).batch_size
        16
        >>> TrainConfig(lr=-1.0)
        Traceback (most recent call last):
            ...
        ValueError: lr: got -1.0, expected a positive number
    """

    steps: int = _make_option(300, "optimiser steps")
    batch_size: int = _make_option(16, "sequences per step, over all ranks together")
    seq_len: int = _make_option(256, "bytes per sequence, T")
    lr: float = _make_option(3e-3, "peak learning rate of AdamW")
    schedule: str = _make_option("cosine", "cosine or constant, after the warm-up")
    warmup_steps: int = _make_option(20, "steps of linear warm-up; the last of them has the peak rate")
    min_lr_fraction: float = _make_option(
        0.1, "the cosine ends at this fraction of the peak, at the last step"
    )
    weight_decay: float = _make_option(0.1, "decoupled, on parameters of two or more dimensions only")
    betas: tuple[float, float] = _make_option((0.9, 0.95), "AdamW's two decay rates")
    grad_clip: float = _make_option(1.0, "largest global norm of the gradient; inf = no clipping")
    eval_every: int = _make_option(50, "steps between evaluations; the last step is always evaluated")
    eval_batches: int = _make_option(4, "validation batches, the same at each evaluation and for every seed")
    checkpoint_every: int = _make_option(100, "steps between checkpoints; the last step always writes one")
    seed: int = _make_option(0, "of the training batches; on the command line, of the first weights too")
    dtype: str | None = _make_option(
        None, "float32, bfloat16 (autocast), or none given: bfloat16 on GPUs that have it"
    )

    def __post_init__(self) -> None:
        sizes = ("steps", "batch_size", "seq_len", "eval_every", "eval_batches", "checkpoint_every")
        for name in sizes:
            require(getattr(self, name) >= 1, name, repr(getattr(self, name)), "at least 1")
        require(0 < self.lr < math.inf, "lr", repr(self.lr), "a positive number")
        require(
            self.schedule in ("cosine", "constant"), "schedule", repr(self.schedule), "cosine or constant"
        )
        require(0 <= self.warmup_steps <= self.steps, "warmup_steps", repr(self.warmup_steps), "0 to steps")
        require(0 <= self.min_lr_fraction <= 1, "min_lr_fraction", repr(self.min_lr_fraction), "0 to 1")
        require(self.weight_decay >= 0, "weight_decay", repr(self.weight_decay), "at least 0")
        in_range = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(in_range, "betas", repr(self.betas), "two numbers in [0, 1)")
        require(self.grad_clip > 0, "grad_clip", repr(self.grad_clip), "a positive number or inf")
        known = self.dtype in (None, "float32", "bfloat16")
        require(known, "dtype", repr(self.dtype), "float32, bfloat16 or None")


def compute_learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of a step: a line up, then constant or half a cosine down.

        lr step / warmup_steps                                          up to warmup_steps
        lr                                                              then, for "constant"
        lr (f + (1 - f) (1 + cos(pi d)) / 2), f = min_lr_fraction       then, for "cosine"

    d goes from 0 at the end of the warm-up to 1 at the last step.

    Args:
        config: the settings of the run.
        step: number of the step; 1 is the first.

    Returns:
        The rate.

    Example:
        >>> config = TrainConfig(steps=100, warmup_steps=10, lr=1.0)
        >>> [round(compute_learning_rate(config, step), 2) for step in (1, 10, 55, 100)]
        [0.1, 1.0, 0.55, 0.1]
    """
    if step < config.warmup_steps:
        return config.lr * step / config.warmup_steps
    if config.schedule == "constant" or config.steps == config.warmup_steps:
        return config.lr
    done = (step - config.warmup_steps) / (config.steps - config.warmup_steps)  # 0 at the peak, 1 at the end
    low = config.min_lr_fraction
    return config.lr * (low + (1 - low) * (1 + math.cos(math.pi * done)) / 2)
