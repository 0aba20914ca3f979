"""Train a model: one loop, checkpoints that resume to the bit, corpora of bytes, tasks with known answers.

corpus = ByteCorpus.python_stdlib()
rows = train(LanguageModel(ModelConfig("linear")), corpus, TrainConfig(steps=300))
"""

from linattn_ref.training.checkpoint import TrainRow, load_model, write_rows
from linattn_ref.training.config import TrainConfig, compute_learning_rate
from linattn_ref.training.distributed import World, distributed, get_current_world, get_default_device
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import (
    CorpusBatches,
    Trainer,
    bits_per_byte,
    group_parameters,
    next_byte_loss,
    train,
)

__all__ = [
    "ByteCorpus",
    "CorpusBatches",
    "TrainConfig",
    "TrainRow",
    "Trainer",
    "World",
    "bits_per_byte",
    "compute_learning_rate",
    "distributed",
    "get_current_world",
    "get_default_device",
    "group_parameters",
    "load_model",
    "next_byte_loss",
    "train",
    "write_rows",
]
