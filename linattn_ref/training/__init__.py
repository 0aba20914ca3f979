"""Train a model: one loop, checkpoints that resume to the bit, corpora of bytes, tasks with known answers.

corpus = ByteCorpus.python_stdlib()
rows = train(LanguageModel(ModelConfig("linear")), corpus, TrainConfig(steps=300))
"""

from linattn_ref.training.config import TrainConfig, learning_rate
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import bits_per_byte, next_byte_loss, parameter_groups, train

__all__ = [
    "ByteCorpus",
    "TrainConfig",
    "bits_per_byte",
    "learning_rate",
    "next_byte_loss",
    "parameter_groups",
    "train",
]
