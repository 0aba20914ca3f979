"""Measure small training runs: language models of equal size, and what a mask after the softmax does."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.functional import cross_entropy, elu

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task, choose_device
from linattn_ref import ops
from linattn_ref.costs.accounting import n_parameters
from linattn_ref.mixers import Mixer
from linattn_ref.mixers.linear import LinearMixer, LinearOptions
from linattn_ref.mixers.softmax import SoftmaxMixer
from linattn_ref.model import Block, LanguageModel, ModelConfig
from linattn_ref.ops.runners import run_softmax
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import VALIDATION_SEED, TrainConfig, bits_per_byte, next_byte_loss, train

LANGUAGE_CORPUS = {Size.FULL: None, Size.REDUCED: 2_000_000, Size.DRY_RUN: 300_000}  # bytes at most
MASK_CORPUS = {Size.FULL: 4_000_000, Size.REDUCED: 4_000_000, Size.DRY_RUN: 300_000}


@lru_cache(1)
def read_python_corpus(max_bytes: int | None) -> ByteCorpus:
    """Read the Python standard library; it is kept for the next run."""
    return ByteCorpus.python_stdlib(max_bytes=max_bytes)


def replace_mixers(model: LanguageModel, cls: type[Mixer], config: ModelConfig) -> None:
    """Put mixers of another class, of that configuration and with the same weights, into all blocks."""
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        mixer = cls(config, layer, model.shared)
        mixer.load_state_dict(block.mixer.state_dict())
        block.mixer = mixer


# --- language models of equal size --------------------------------------------------------------------------


class NaiveEluMixer(LinearMixer):
    """Mix tokens by linear attention with elu(x) + 1 as it is mostly written.

    In bfloat16 the sum cancels, see ``ops.feature_maps.elu_plus_one``. The options name the map "identity".
    """

    def project(self, x: torch.Tensor, past: int | None) -> tuple[dict[str, Any], int]:
        """Return queries and keys as features, and values."""
        z, past = super().project(x, past)
        features = {name: (elu(z[name]) + 1).to(z["v"].dtype) for name in ("q", "k")}
        return z | features, past


NAIVE_ELU = "linear, elu(x) + 1"
MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"mixer": "softmax"},
    "linear": {"mixer": "linear"},
    NAIVE_ELU: {"mixer": "linear"},
    "linear, norm and rope": {
        "mixer": "linear",
        "options": {"normaliser": "norm", "positions": "rope", "feature_map": "silu"},
    },
    "cosformer": {"mixer": "cosformer"},
}
MODEL_SIZES = {  # width, layers, heads
    Size.FULL: (256, 6, 4),
    Size.REDUCED: (64, 2, 2),
    Size.DRY_RUN: (32, 1, 2),
}
RUNS = {
    Size.FULL: TrainConfig(
        steps=800, batch_size=64, seq_len=512, warmup_steps=100, eval_every=100, eval_batches=8
    ),
    Size.REDUCED: TrainConfig(
        steps=100, batch_size=16, seq_len=128, warmup_steps=20, eval_every=25, eval_batches=8
    ),
    Size.DRY_RUN: TrainConfig(
        steps=4, batch_size=2, seq_len=32, warmup_steps=2, eval_every=2, eval_batches=1
    ),
}


def build(name: str, size: Size) -> LanguageModel:
    """Build one of ``MODELS``; its weights come from torch's own generator."""
    d_model, n_layers, n_heads = MODEL_SIZES[size]
    model = LanguageModel(ModelConfig(**MODELS[name], d_model=d_model, n_layers=n_layers, n_heads=n_heads))
    if name == NAIVE_ELU:
        options = LinearOptions(feature_map="identity")
        replace_mixers(model, NaiveEluMixer, replace(model.config, options=options))
    return model


def train_language_model(name: str, lr: float, seed: int, size: Size) -> Rows:
    """Train one model; a row per evaluation of its validation loss."""
    corpus = read_python_corpus(LANGUAGE_CORPUS[size])
    torch.manual_seed(seed)
    model = build(name, size)
    config = replace(RUNS[size], lr=lr, seed=seed, checkpoint_every=10**6)
    run = train(model, corpus, config, device=choose_device(size), progress=False)
    shared: BenchmarkRow = {"parameters": n_parameters(model.config)}
    shared |= {"corpus_bytes": corpus.n_bytes, "corpus_sha256": corpus.sha256}
    return [
        shared | {column: row[column] for column in ("step", "tokens", "val_loss")}
        for row in run
        if row["val_loss"] is not None
    ]


def list_language_tasks(size: Size) -> list[Task]:
    """Return a task for every model, learning rate and seed."""
    seeds, rates = (range(2), (1e-3, 2e-3)) if size is Size.FULL else (range(1), (2e-3,))
    return [
        Task({"model": name, "lr": lr, "seed": seed}, partial(train_language_model, name, lr, seed, size))
        for seed in seeds
        for lr in rates
        for name in MODELS
    ]


LANGUAGE_MODELS = Benchmark(
    name="language_models",
    columns={
        "model": "which model",
        "lr": "peak learning rate of AdamW",
        "seed": "of weights and data order",
        "parameters": "count",
        "step": "optimiser steps",
        "tokens": "bytes seen in training",
        "val_loss": "nats per byte on the validation split",
        "corpus_bytes": "bytes, training and validation",
        "corpus_sha256": "hash of the corpus",
    },
    tasks=list_language_tasks,
    mixers=tuple(model["mixer"] for model in MODELS.values()),
    group_by="model",
)

# --- the mask after the softmax -----------------------------------------------------------------------------


def attend_with_late_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute attention that is WRONG on purpose: weights are divided by a sum over the future keys too."""
    scores = torch.einsum("bthk,bshk->bhts", q, k)  # q is scaled
    weights = scores.softmax(-1).tril(k.shape[1] - q.shape[1])  # [B, H, T, S + T]
    return torch.einsum("bhts,bshv->bthv", weights, v)


late_mask_attention: Callable[..., ops.SoftmaxResult] = partial(
    run_softmax, attend_with_late_mask, scale=None
)


class LateMaskMixer(SoftmaxMixer):
    """Mix tokens by softmax attention whose mask comes too late."""

    @property
    def ops(self) -> Any:
        """Return the wrong op under the name of the right one."""
        return SimpleNamespace(parallel_softmax_attention=late_mask_attention)


MASK_RUNS = {  # seeds, windows that are predicted both ways, training
    Size.FULL: (range(2), 64, TrainConfig(steps=240, batch_size=16, seq_len=128)),
    Size.REDUCED: (range(1), 16, TrainConfig(steps=60, batch_size=16, seq_len=128)),
    Size.DRY_RUN: (range(1), 2, TrainConfig(steps=4, batch_size=2, seq_len=32, warmup_steps=2, eval_every=2)),
}


@torch.no_grad()
def measure_bits_both_ways(
    model: LanguageModel, inputs: torch.Tensor, targets: torch.Tensor
) -> dict[str, float]:
    """Return bits per byte of one pass over all inputs, and of passes over the bytes before each target."""
    full = next_byte_loss(model, inputs, targets)
    ends = [model(inputs[:, : t + 1])[0][:, -1] for t in range(inputs.shape[1])]  # T of [B, vocab]
    prefix = cross_entropy(torch.stack(ends, 1).flatten(0, 1), targets.flatten())
    return {"full_bits": bits_per_byte(full.item()), "prefix_bits": bits_per_byte(prefix.item())}


def train_with_mask(name: str, seed: int, size: Size) -> Rows:
    """Train the small model of chapter 1 with the right mask or the late one, on the same windows."""
    device, corpus = choose_device(size), read_python_corpus(MASK_CORPUS[size])
    _, n_windows, config = MASK_RUNS[size]
    config = replace(config, seed=seed)
    fixed = torch.Generator().manual_seed(VALIDATION_SEED)
    windows = corpus.sample("validation", n_windows, config.seq_len, fixed, device)
    torch.manual_seed(seed)
    model = LanguageModel(ModelConfig("softmax", d_model=96, n_layers=2))
    if name == "late mask":
        replace_mixers(model, LateMaskMixer, model.config)
    train(model, corpus, config, device=device, progress=False)
    shared = {"steps": config.steps, "corpus_sha256": corpus.sha256}
    return [shared | measure_bits_both_ways(model, *windows)]


def list_mask_tasks(size: Size) -> list[Task]:
    """Return a task for every mask and seed."""
    return [
        Task({"model": name, "seed": seed}, partial(train_with_mask, name, seed, size))
        for seed in MASK_RUNS[size][0]
        for name in ("right", "late mask")
    ]


LATE_MASK = Benchmark(
    name="late_mask",
    columns={
        "model": "right, or late mask: masked after the softmax",
        "seed": "of weights and data order",
        "steps": "optimiser steps",
        "full_bits": "bits per byte on validation windows, one pass over each",
        "prefix_bits": "the same bytes, each predicted by a pass over the bytes before it in its window",
        "corpus_sha256": "hash of the corpus",
    },
    tasks=list_mask_tasks,
    mixers=("softmax",),
)
