"""Measure what selection and erasure decide: copying among fillers, induction, recall, the parity of bits.

Each model practises at one length and is asked at longer ones.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import torch

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device
from linattn_benchmarks.tasks import Draw, Practice, initialise_by_width, measure_accuracy, practise
from linattn_ref.config import ModelConfig
from linattn_ref.model import LanguageModel
from linattn_ref.training.tasks.recall import multi_query_recall
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
        batch_size: sequences of a step.
        longer: the lengths are multiplied by these when a trained model is asked.
        models: names in ``MODELS``.
        vocab_size: tokens.
        n_layers: of the models.
    """

    draw: Any
    length: int
    batch_size: int
    longer: tuple[int, ...]
    models: tuple[str, ...]
    vocab_size: int
    n_layers: int = 2


def draw_copy(length: int, fixed: bool) -> Draw:
    """Return what draws sequences of ``selective_copy``; fillers grow with the length, not the tokens."""
    return lambda n, generator: selective_copy(n, length, min(COPIED, length // 2), generator, fixed=fixed)


def draw_induction(length: int) -> Draw:
    """Return what draws sequences of ``induction_heads``."""
    return lambda n, generator: induction_heads(n, length, generator)


def draw_pairs(length: int) -> Draw:
    """Return what draws sequences of ``multi_query_recall`` with a pair for every 8 tokens; fillers are 0."""
    return lambda n, generator: multi_query_recall(
        n, length, length // 8, generator, vocab_size=64, random_fillers=False
    )


def draw_parity(length: int) -> Draw:
    """Return what draws sequences of ``parity``."""
    return lambda n, generator: parity(n, length, generator)


SELECTING = ("softmax", "s4d", "h3", "mamba", "mamba2")
SIGNED = ("softmax", "mamba2", "delta_net", "delta_net, beta to 2")
EXERCISES = {
    "copy, fixed delay": Exercise(partial(draw_copy, fixed=True), 256, 32, (1,), SELECTING, 16),
    "copy, selective": Exercise(partial(draw_copy, fixed=False), 256, 32, (1, 2, 4), SELECTING, 16),
    "induction": Exercise(draw_induction, 64, 128, (1, 4, 16, 64, 256), SELECTING, 16),
    "associative recall": Exercise(draw_pairs, 64, 128, (1,), SELECTING, 64),
    "parity": Exercise(draw_parity, 256, 64, (1, 4, 16), SIGNED, 2, n_layers=1),
}
SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 4000, "n": 256, "rates": (1e-3, 3e-3), "share": 1},
    Size.REDUCED: {"steps": 300, "n": 64, "rates": (3e-3,), "share": 4},
    Size.DRY_RUN: {"steps": 3, "n": 4, "rates": (3e-3,), "share": 8},
}
WIDTH, HEADS = 64, 4
ASKED_AT_ONCE = 2**16  # tokens


def build(name: str, exercise: Exercise, seed: int, device: torch.device) -> LanguageModel:
    """Build one of ``MODELS``, with kernels where there are any for it."""
    torch.manual_seed(seed)
    has_kernels = device.type == "cuda" and name in ("softmax", "mamba2")
    sizes: dict[str, Any] = {"d_model": WIDTH, "n_heads": HEADS, "n_layers": exercise.n_layers}
    backend: Literal["reference", "triton"] = "triton" if has_kernels else "reference"
    config = ModelConfig(**MODELS[name], **sizes, vocab_size=exercise.vocab_size, backend=backend)
    model = LanguageModel(config)
    initialise_by_width(model)
    return model


def train_and_ask(task: str, name: str, rate: float, seed: int, size: Size) -> Rows:
    """Train one model on one of ``EXERCISES``; a row for each length at which it is asked."""
    plan, exercise, device = SIZES[size], EXERCISES[task], choose_device(size)
    length, batch_size = (max(2, x // plan["share"]) for x in (exercise.length, exercise.batch_size))
    model, trained = (build(name, exercise, seed, device) for _ in range(2))
    if device.type == "cuda":  # traced, the reference's checks do not stop a captured step
        torch.compiler.reset()
        trained.compile(backend="aot_eager", dynamic=False)  # not inductor: see LEDGER.md on Mamba
    practice = Practice(plan["steps"], batch_size, rate, seed)
    loss = practise(trained, exercise.draw(length), practice, device)
    model.load_state_dict(trained.state_dict())
    model.to(device)
    shared = {"n_layers": exercise.n_layers, "steps": plan["steps"], "T": length, "train_loss": loss}
    factors = exercise.longer if size is Size.FULL else exercise.longer[:2]
    return [
        shared | {"T_asked": T, "accuracy": ask(model, exercise.draw(T), plan["n"], T, device)}
        for T in (factor * length for factor in factors)
    ]


def ask(model: LanguageModel, draw: Draw, n: int, seq_len: int, device: torch.device) -> float:
    """Return the share of right answers in n sequences, few at a time if they are long."""
    return measure_accuracy(model, draw, n, device, batch=max(1, ASKED_AT_ONCE // seq_len))


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
        "model": "of width 64",
        "rate": "peak learning rate of AdamW",
        "seed": "of weights and sequences",
        "n_layers": "count",
        "steps": "optimiser steps",
        "T": "tokens of a training sequence",
        "train_loss": "nats per answer, mean of the last tenth of the steps",
        "T_asked": "tokens of the sequences that are asked",
        "accuracy": "share of right answers on them",
    },
    tasks=list_tasks,
    mixers=("softmax", "s4d", "h3", "mamba", "mamba2", "delta_net"),
    group_by="model",
    processes_share_gpu=True,
)
