"""Data to train and test on. What is drawn at random is drawn from a generator that the caller passes in."""

from linattn_ref.tasks.corpus import SPLITS, ByteCorpus

__all__ = ["SPLITS", "ByteCorpus"]
