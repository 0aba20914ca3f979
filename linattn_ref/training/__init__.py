"""Train a model: one loop, checkpoints that resume to the bit, corpora of bytes, tasks with known answers.

    corpus = ByteCorpus.python_stdlib()
    rows = train(LanguageModel(ModelConfig("linear")), corpus, TrainConfig(steps=300))

``device_trainer`` is the same loop with no word to the host between reports, for many steps of small models.
"""

from linattn_ref.training.checkpoint import TrainRow, load_model, write_rows
from linattn_ref.training.config import TrainConfig, learning_rate
from linattn_ref.training.device_trainer import DeviceTrainer
from linattn_ref.training.distributed import World, current_world, default_device, distributed
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import (
    CorpusBatches,
    Trainer,
    bits_per_byte,
    next_byte_loss,
    parameter_groups,
    train,
)

__all__ = [
    "ByteCorpus",
    "CorpusBatches",
    "DeviceTrainer",
    "TrainConfig",
    "TrainRow",
    "Trainer",
    "World",
    "bits_per_byte",
    "current_world",
    "default_device",
    "distributed",
    "learning_rate",
    "load_model",
    "next_byte_loss",
    "parameter_groups",
    "train",
    "write_rows",
]
