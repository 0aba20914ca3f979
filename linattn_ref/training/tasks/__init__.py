"""Make data to train and test on. What is random is drawn from a generator that the caller passes in."""

from linattn_ref.training.tasks.corpus import SPLITS, ByteCorpus
from linattn_ref.training.tasks.recall import (
    IGNORED,
    Needle,
    Recall,
    multi_query_recall,
    needle,
    recall_accuracy,
    with_needles,
)

__all__ = [
    "IGNORED",
    "SPLITS",
    "ByteCorpus",
    "Needle",
    "Recall",
    "multi_query_recall",
    "needle",
    "recall_accuracy",
    "with_needles",
]
