"""Measure where papers and implementations disagree: pairs of functions, and their difference.

Every entry of ``DISAGREEMENTS`` has two functions of the same inputs, ``one`` and ``other``, whose docstrings
name the sources. ``measure(entry)`` runs both and says how far apart they are. The book's page of
disagreements is made from this registry.
"""

from linattn_book.disagreements.entry import Disagreement, measure
from linattn_book.disagreements.gates import GATES
from linattn_book.disagreements.reading import READING
from linattn_book.disagreements.rules import RULES

__all__ = ["DISAGREEMENTS", "Disagreement", "find", "measure"]

DISAGREEMENTS: tuple[Disagreement, ...] = (*GATES, *READING, *RULES)


def find(key: str) -> Disagreement:
    """Return the entry of that key."""
    entries = {entry.key: entry for entry in DISAGREEMENTS}
    if key not in entries:
        raise ValueError(f"key: got {key!r}, expected one of {sorted(entries)}")
    return entries[key]
