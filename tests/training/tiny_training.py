"""A training run small enough for tests: a bigram model, a few words."""

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from linattn_ref.training.checkpoint import TrainRow
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import TrainConfig, train

TINY = TrainConfig(
    steps=12,
    batch_size=4,
    seq_len=16,
    lr=1e-2,
    warmup_steps=2,
    eval_every=4,
    eval_batches=2,
    checkpoint_every=5,
)


class Bigram(nn.Module):
    """The smallest model of the right kind: it knows the current byte and nothing before it."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: Tensor) -> tuple[Tensor, tuple[()]]:
        logits: Tensor = self.head(self.norm(self.embedding(tokens)))
        return logits, ()


def bigram(seed: int = 0, width: int = 16) -> Bigram:
    """A model with the same weights for the same seed; the global generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Bigram(width)


def corpus(word: bytes = b"linear") -> ByteCorpus:
    """Thirty small files of repeated lines, easy to learn."""
    files = {f"{i}.txt": b"%d %s attention\n" % (i, word) * 20 for i in range(30)}
    return ByteCorpus.from_documents("words", files)


def run(
    model: nn.Module,
    config: TrainConfig = TINY,
    checkpoint: Path | None = None,
    on_row: Callable[[TrainRow], None] | None = None,
) -> list[TrainRow]:
    """Train on the CPU, in silence and on one thread, so that every process adds in the same order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return train(
            model, corpus(), config, device="cpu", checkpoint=checkpoint, progress=False, on_row=on_row
        )
    finally:
        torch.set_num_threads(threads)


def digest(model: nn.Module) -> str:
    """sha256 of all weights, bit for bit."""
    total = hashlib.sha256()
    for name, x in model.state_dict().items():
        total.update(name.encode() + x.contiguous().numpy().tobytes())
    return total.hexdigest()


def timeless(rows: list[TrainRow]) -> list[tuple[object, ...]]:
    """What two equal runs share: everything but the clock."""
    return [(r["step"], r["tokens"], r["train_loss"], r["val_loss"], r["lr"]) for r in rows]


class Stop(Exception):
    """Raised in the middle of a run."""


def stop_after(step: int) -> Callable[[TrainRow], None]:
    def on_row(row: TrainRow) -> None:
        if row["step"] == step:
            raise Stop

    return on_row


SCRIPT = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
import tests.training.tiny_training as t
from linattn_ref.training.distributed import distributed

with distributed() as world:
    model = t.bigram(seed=world.rank)  # other weights on the other ranks: rank 0's must win
    rows = t.run(model, t.{config}, Path({checkpoint!r}), on_row=lambda row: time.sleep({pause}))
    Path({out!r} + str(world.rank)).write_text(json.dumps(rows))
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
LONG = dataclasses.replace(TINY, steps=60)


def script(tmp_path: Path, config: str, pause: float) -> tuple[Path, Path, Path]:
    """A program that trains, its checkpoint, and the beginning of the names of its outputs."""
    program, checkpoint, out = tmp_path / "program.py", tmp_path / "run.pt", tmp_path / "rows"
    values = {"config": config, "pause": pause, "checkpoint": str(checkpoint), "out": str(out)}
    program.write_text(SCRIPT.format(folder=str(Path(__file__).parents[2]), **values))
    return program, checkpoint, out
