"""Measure what selection and erasure decide: copying among fillers, induction, and the parity of bits.

Each model practises at one length and is asked at longer ones.
"""

from functools import partial
from typing import Any, NamedTuple

import torch

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_benchmarks.run import choose_device
from linattn_benchmarks.tasks import Draw, Practice, measure_accuracy, practise
from linattn_ref.config import ModelConfig
from linattn_ref.model import LanguageModel
from linattn_ref.training.tasks.synthetic import induction_heads, parity, selective_copy

COPIED = 16  # tokens to say again
MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"mixer": "softmax"},
    "s4d": {"mixer": "s4d"},
    "h3": {"mixer": "h3"},
    "mamba": {"mixer": "mamba"},
    "mamba2": {"mixer": "mamba2"},
    "delta_net": {"mixer": "delta_net"},
    "delta_net, beta to 2": {"mixer": "delta_net", "options": {"beta_max": 2.0}},
}


class Exercise(NamedTuple):
    """Describe a task and who practises it.

    Attributes:
        draw: length -> what draws sequences of it.
        length: tokens of a sequence in training.
        longer: the lengths are multiplied by these when a trained model is asked.
        models: names in ``MODELS``.
        vocab_size: tokens.
    """

    draw: Any
    length: int
    longer: tuple[int, ...]
    models: tuple[str, ...]
    vocab_size: int


def draw_copy(length: int, fixed: bool) -> Draw:
    """Return what draws sequences of ``selective_copy``; fillers grow with the length, not the tokens."""
    return lambda n, generator: selective_copy(n, length, min(COPIED, length // 2), generator, fixed=fixed)


def draw_induction(length: int) -> Draw:
    """Return what draws sequences of ``induction_heads``."""
    return lambda n, generator: induction_heads(n, length, generator)


def draw_parity(length: int) -> Draw:
    """Return what draws sequences of ``parity``."""
    return lambda n, generator: parity(n, length, generator)


SELECTING = ("softmax", "s4d", "h3", "mamba", "mamba2")
EXERCISES = {
    "copy, fixed delay": Exercise(partial(draw_copy, fixed=True), 256, (1,), SELECTING, 16),
    "copy, selective": Exercise(partial(draw_copy, fixed=False), 256, (1, 4), SELECTING, 16),
    "induction": Exercise(draw_induction, 256, (1, 2, 4, 16, 64), SELECTING, 16),
    "parity": Exercise(
        draw_parity, 64, (1, 4, 16), ("softmax", "mamba2", "delta_net", "delta_net, beta to 2"), 2
    ),
}
SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 4000, "batch_size": 64, "n": 512, "rates": (1e-3, 3e-3), "share": 1},
    Size.REDUCED: {"steps": 300, "batch_size": 16, "n": 64, "rates": (3e-3,), "share": 4},
    Size.DRY_RUN: {"steps": 3, "batch_size": 2, "n": 4, "rates": (3e-3,), "share": 8},
}
WIDTH, LAYERS, HEADS = 64, 2, 4


def build(name: str, vocab_size: int, seed: int) -> LanguageModel:
    """Build one of ``MODELS``."""
    torch.manual_seed(seed)
    return LanguageModel(
        ModelConfig(**MODELS[name], d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, vocab_size=vocab_size)
    )


def train_and_ask(task: str, name: str, rate: float, seed: int, size: Size) -> Rows:
    """Train one model on one of ``EXERCISES``; a row for each length at which it is asked."""
    plan, exercise, device = SIZES[size], EXERCISES[task], choose_device(size)
    length = exercise.length // plan["share"]
    model = build(name, exercise.vocab_size, seed)
    practice = Practice(plan["steps"], plan["batch_size"], rate, seed)
    compiled = device.type == "cuda"  # the reference's checks then do not stop a captured step
    loss = practise(model, exercise.draw(length), practice, device, compiled=compiled)
    shared = {"steps": plan["steps"], "T": length, "train_loss": loss}
    factors = exercise.longer if size is Size.FULL else exercise.longer[:2]
    return [
        shared
        | {"T_asked": factor * length}
        | {
            "accuracy": measure_accuracy(
                model, exercise.draw(factor * length), _count(plan["n"], factor), device
            )
        }
        for factor in factors
    ]


def _count(n: int, factor: int) -> int:
    """Return how many sequences are asked for: fewer of long ones."""
    return max(4, n // factor)


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every exercise, model, rate and seed."""
    seeds = range(2) if size is Size.FULL else range(1)
    return [
        Task(
            {"task": task, "model": name, "rate": rate, "seed": seed},
            partial(train_and_ask, task, name, rate, seed, size),
        )
        for seed in seeds
        for rate in SIZES[size]["rates"]
        for task, exercise in EXERCISES.items()
        for name in exercise.models
    ]


SELECTION = Benchmark(
    name="selection",
    columns={
        "task": "what is asked for",
        "model": "two layers of width 64",
        "rate": "peak learning rate of AdamW",
        "seed": "of weights and sequences",
        "steps": "optimiser steps",
        "T": "tokens of a training sequence",
        "train_loss": "nats per answer, mean of the last tenth of the steps",
        "T_asked": "tokens of the sequences that are asked",
        "accuracy": "share of right answers on them",
    },
    tasks=list_tasks,
    mixers=("softmax", "s4d", "h3", "mamba", "mamba2", "delta_net"),
)
