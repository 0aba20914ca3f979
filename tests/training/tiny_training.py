"""A training run small enough for tests: a bigram model, a few words; and how two runs are compared."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from linattn_ref.training.checkpoint import TrainRow
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import TrainConfig, train

# validation at steps 4, 8 and 12, checkpoints at 5 and 10
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
    """Return a model whose weights follow from the seed; the global generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Bigram(width)


def corpus(word: bytes = b"linear") -> ByteCorpus:
    """Return thirty small files of repeated lines, easy to learn."""
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
    """Return the sha256 of the names and bits of all weights."""
    total = hashlib.sha256()
    for name, x in model.state_dict().items():
        total.update(name.encode() + x.contiguous().numpy().tobytes())
    return total.hexdigest()


def timeless(rows: list[TrainRow]) -> list[tuple[object, ...]]:
    """Return what two equal runs share: everything but the clock."""
    return [(r["step"], r["tokens"], r["train_loss"], r["val_loss"], r["lr"]) for r in rows]


class Stop(Exception):
    """What ``stop_after`` raises in the middle of a run."""


def stop_after(step: int) -> Callable[[TrainRow], None]:
    """Return an ``on_row`` that ends a run after a step."""

    def on_row(row: TrainRow) -> None:
        if row["step"] == step:
            raise Stop

    return on_row


# A program: train, and write the rows of each rank to a file.
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
LONG = dataclasses.replace(TINY, steps=60)


def script(tmp_path: Path, config: str, pause: float) -> tuple[Path, Path, Path]:
    """Write a program that trains the bigram model.

    Args:
        tmp_path: the folder of its files.
        config: the name of a configuration of this module, "TINY" or "LONG".
        pause: seconds that it rests after each step.

    Returns:
        The program; its checkpoint; and the path to which a rank's number is added for the rows of that rank.
    """
    program, checkpoint, out = tmp_path / "program.py", tmp_path / "run.pt", tmp_path / "rows"
    values = {"config": config, "pause": pause, "checkpoint": str(checkpoint), "out": str(out)}
    program.write_text(SCRIPT.format(folder=str(Path(__file__).parents[2]), **values))
    return program, checkpoint, out
