"""Every mixer learns: a short run on the byte corpus, to below what the frequencies of bytes alone give."""

import math

import pytest
import torch

from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import TrainConfig, bits_per_byte, train

STEPS = 160
UNIGRAM = 4.7  # bits per byte of this corpus, if a byte is predicted from its frequency
BOUND = 4.0
FIRST = ("softmax", "gla", "mamba", "delta_net")  # four different ops; the others are of the second tier


@pytest.fixture(scope="module")
def corpus() -> ByteCorpus:
    return ByteCorpus.python_stdlib(max_bytes=2_000_000)


def test_the_bound_is_out_of_reach_of_frequencies(corpus: ByteCorpus) -> None:
    tokens, _ = corpus.sample("train", 200, 128, torch.Generator().manual_seed(0))
    share = torch.bincount(tokens.flatten(), minlength=256).double() / tokens.numel()
    entropy = -(share * share.clamp(min=1e-12).log2()).sum().item()
    assert abs(entropy - UNIGRAM) < 0.2
    assert entropy > BOUND + 0.3


@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in MIXERS]
)
def test_a_short_run_learns_more_than_frequencies(name: str, corpus: ByteCorpus) -> None:
    torch.manual_seed(0)
    small = {"state_size": 4} if hasattr(ModelConfig(name).options, "state_size") else None
    model = LanguageModel(ModelConfig(name, d_model=64, n_layers=2, n_heads=2, options=small))
    config = TrainConfig(
        steps=STEPS, batch_size=8, seq_len=64, lr=4e-3, warmup_steps=10, eval_every=STEPS, eval_batches=4
    )
    rows = train(model, corpus, config, device="cpu", progress=False)
    assert all(math.isfinite(row["train_loss"]) for row in rows)
    last = rows[-1]["val_loss"]
    assert last is not None
    assert bits_per_byte(last) < BOUND
