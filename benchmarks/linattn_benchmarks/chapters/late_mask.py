"""A fault, measured: the mask after the softmax."""

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy

from linattn_benchmarks.chapters.study import TRAINING, Rows, Study
from linattn_book.measure import default_device
from linattn_ref import ops
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.ops.inputs import run_softmax
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import VALIDATION_SEED, TrainConfig, bits_per_byte, next_byte_loss, train


def masked_too_late(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """WRONG on purpose: every weight is divided by a sum that runs over the future keys too."""
    scores = torch.einsum("bthk,bshk->bhts", q, k)  # q is scaled
    weights = scores.softmax(-1).tril(k.shape[1] - q.shape[1])  # [B, H, T, S + T]
    return torch.einsum("bhts,bshv->bthv", weights, v)


MASKS: dict[str, Callable] = {
    "right": ops.parallel_softmax_attention,
    "late mask": partial(run_softmax, masked_too_late, scale=None),
}


@torch.no_grad()
def bits_both_ways(model: LanguageModel, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
    """Bits per byte of one pass over all inputs, and of passes over the bytes before each target alone."""
    full = next_byte_loss(model, inputs, targets)
    ends = [model(inputs[:, : t + 1])[0][:, -1] for t in range(inputs.shape[1])]  # T of [B, vocab]
    prefix = cross_entropy(torch.stack(ends, 1).flatten(0, 1), targets.flatten())
    return {"full_bits": bits_per_byte(full.item()), "prefix_bits": bits_per_byte(prefix.item())}


def late_mask(reduced: bool) -> Rows:
    """The small model of chapter 1 with the right mask and with the late one, on the same windows."""
    device = default_device()
    corpus = ByteCorpus.python_stdlib(max_bytes=4_000_000)
    rows: Rows = []
    for seed in range(1 if reduced else 2):
        config = TrainConfig(steps=60 if reduced else 240, batch_size=16, seq_len=128, seed=seed)
        fixed = torch.Generator().manual_seed(VALIDATION_SEED)
        windows = corpus.sample("validation", 16 if reduced else 64, config.seq_len, fixed, device)
        for name, op in MASKS.items():
            torch.manual_seed(seed)
            model = LanguageModel(ModelConfig("softmax", d_model=96, n_layers=2))
            with patch.object(ops, "parallel_softmax_attention", op):
                train(model, corpus, config, device=device, progress=False)
                bits = bits_both_ways(model, *windows)
            shared = {"model": name, "seed": seed, "steps": config.steps}
            rows.append(shared | bits | {"corpus_sha256": corpus.sha256})
    return rows


LATE_MASK = Study(
    late_mask,
    {
        "model": "right, or late mask: masked after the softmax",
        "seed": "of weights and data order",
        "steps": "optimiser steps",
        "full_bits": "bits per byte on validation windows, one pass over each",
        "prefix_bits": "the same bytes, each predicted by a pass over the bytes before it in its window",
        "corpus_sha256": "hash of the corpus",
    },
    TRAINING,
)
