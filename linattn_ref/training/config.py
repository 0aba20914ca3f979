"""The settings of a training run: data that checks itself, and the learning rate that follows from it."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any


def _option(default: Any, text: str) -> Any:
    """A field with its explanation, which is also the help text of the command line."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run, besides model and corpus.

    Raises:
        ValueError: a value out of range, named, with what came and what was expected.
    """

    steps: int = _option(300, "optimiser steps")
    batch_size: int = _option(16, "sequences per step, over all ranks together")
    seq_len: int = _option(256, "bytes per sequence, T")
    lr: float = _option(3e-3, "peak learning rate of AdamW")
    schedule: str = _option("cosine", "cosine or constant, after the warm-up")
    warmup_steps: int = _option(20, "steps of linear warm-up; the last of them has the peak rate")
    min_lr_fraction: float = _option(0.1, "the cosine ends at this fraction of the peak, at the last step")
    weight_decay: float = _option(0.1, "decoupled, on parameters of two or more dimensions only")
    betas: tuple[float, float] = _option((0.9, 0.95), "AdamW's two decay rates")
    grad_clip: float = _option(1.0, "largest global norm of the gradient; inf = no clipping")
    eval_every: int = _option(50, "steps between evaluations; the last step is always evaluated")
    eval_batches: int = _option(4, "validation batches, the same at each evaluation and for every seed")
    checkpoint_every: int = _option(100, "steps between checkpoints; the last step always writes one")
    seed: int = _option(0, "of the training batches; on the command line, of the first weights too")
    dtype: str | None = _option(
        None, "float32, bfloat16 (autocast), or none given: bfloat16 on GPUs that have it"
    )

    def __post_init__(self) -> None:
        sizes = ("steps", "batch_size", "seq_len", "eval_every", "eval_batches", "checkpoint_every")
        for name in sizes:
            _expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        _expect("lr", self.lr, 0 < self.lr < math.inf, "a positive number")
        _expect("schedule", self.schedule, self.schedule in ("cosine", "constant"), "cosine or constant")
        _expect("warmup_steps", self.warmup_steps, 0 <= self.warmup_steps <= self.steps, "0 to steps")
        _expect("min_lr_fraction", self.min_lr_fraction, 0 <= self.min_lr_fraction <= 1, "0 to 1")
        _expect("weight_decay", self.weight_decay, self.weight_decay >= 0, "at least 0")
        in_range = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        _expect("betas", self.betas, in_range, "two numbers in [0, 1)")
        _expect("grad_clip", self.grad_clip, self.grad_clip > 0, "a positive number or inf")
        _expect("dtype", self.dtype, self.dtype in (None, "float32", "bfloat16"), "float32, bfloat16 or None")


def learning_rate(config: TrainConfig, step: int) -> float:
    """Rate at ``step`` (1 is the first): a line up to ``lr``, then constant or half a cosine down."""
    if step < config.warmup_steps:
        return config.lr * step / config.warmup_steps
    if config.schedule == "constant" or config.steps == config.warmup_steps:
        return config.lr
    done = (step - config.warmup_steps) / (config.steps - config.warmup_steps)  # 0 at the peak, 1 at the end
    low = config.min_lr_fraction
    return config.lr * (low + (1 - low) * (1 + math.cos(math.pi * done)) / 2)


def _expect(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
