"""Make data to train and test on. What is random is drawn from a generator that the caller passes in."""

from linattn_ref.training.tasks.corpus import SPLITS, ByteCorpus
from linattn_ref.training.tasks.recall import (
    IGNORED,
    Needle,
    Recall,
    insert_needles,
    make_needle,
    multi_query_recall,
    recall_accuracy,
)

__all__ = [
    "IGNORED",
    "SPLITS",
    "ByteCorpus",
    "Needle",
    "Recall",
    "insert_needles",
    "make_needle",
    "multi_query_recall",
    "recall_accuracy",
]
