"""Small language models of equal size, trained on the Python standard library."""

from typing import Any
from unittest.mock import patch

import torch
from torch.nn.functional import elu

from linattn_benchmarks.chapters.study import TRAINING, Rows, Study
from linattn_ref.costs.accounting import n_parameters
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.ops.feature_maps import FEATURE_MAPS, FeatureMap
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import TrainConfig, train

LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"mixer": "softmax"},
    "linear": {"mixer": "linear"},
    "linear, elu(x) + 1": {"mixer": "linear", "feature_map": "elu_then_one"},
    "linear, norm and rope": {
        "mixer": "linear",
        "normaliser": "norm",
        "positions": "rope",
        "feature_map": "silu",
    },
    "cosformer": {"mixer": "cosformer"},
}


def elu_then_one(x: torch.Tensor) -> torch.Tensor:
    """The linear model's map as it is mostly written; in bfloat16 the sum cancels, see ``elu_plus_one``."""
    return elu(x) + 1


def train_one(name: str, lr: float, seed: int, reduced: bool, device: str) -> Rows:
    """One run: a row per evaluation."""
    with patch.dict(FEATURE_MAPS, {"elu_then_one": FeatureMap(elu_then_one, lambda K: K, True)}):
        return _train_one(name, lr, seed, reduced, device)


def _train_one(name: str, lr: float, seed: int, reduced: bool, device: str) -> Rows:
    corpus = ByteCorpus.python_stdlib(max_bytes=2_000_000 if reduced else None)
    d_model, n_layers, n_heads = (64, 2, 2) if reduced else (256, 6, 4)
    torch.manual_seed(seed)
    size = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    model = LanguageModel(ModelConfig(**(LANGUAGE_MODELS[name] | size)))
    config = TrainConfig(
        steps=100 if reduced else 800,
        batch_size=16 if reduced else 64,
        seq_len=128 if reduced else 512,
        lr=lr,
        warmup_steps=20 if reduced else 100,
        eval_every=25 if reduced else 100,
        eval_batches=8,
        checkpoint_every=10**6,
        seed=seed,
    )
    run = train(model, corpus, config, device=device, progress=False)
    shared = {"model": name, "lr": lr, "seed": seed, "parameters": n_parameters(model.config)}
    corpus_facts = {"corpus_bytes": corpus.n_bytes, "corpus_sha256": corpus.sha256}
    return [
        shared | {"step": row["step"], "tokens": row["tokens"], "val_loss": row["val_loss"]} | corpus_facts
        for row in run
        if row["val_loss"] is not None
    ]


def language_models(reduced: bool) -> Rows:
    """Validation loss of small models of equal size on the Python standard library, at two rates.

    Runs are spread over the GPUs of the machine.
    """
    seeds, rates = (range(1), (2e-3,)) if reduced else (range(2), (1e-3, 2e-3))
    jobs = [(name, lr, seed) for seed in seeds for lr in rates for name in LANGUAGE_MODELS]
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
    tasks = [(*job, reduced, devices[i % len(devices)]) for i, job in enumerate(jobs)]
    if len(devices) == 1:
        return [row for task in tasks for row in train_one(*task)]
    spawn = torch.multiprocessing.get_context("spawn")
    # one CPU thread for each, or they fight for the cores
    with spawn.Pool(len(devices), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [row for rows in pool.starmap(train_one, tasks, chunksize=1) for row in rows]


LANGUAGE = Study(
    language_models,
    {
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
    TRAINING,
)
