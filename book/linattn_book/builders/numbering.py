"""Number the pages of chapters as their files: ``chapters/07_...`` is 7, though there is no chapter 6 yet."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

_assign_in_order = TocTreeCollectorWithStyles.assign_section_numbers


def number_as_files() -> None:
    """Let the collector of the table of contents take a chapter's number from the name of its file."""
    TocTreeCollectorWithStyles.assign_section_numbers = _assign_as_files  # type: ignore[method-assign]


def _assign_as_files(collector: TocTreeCollectorWithStyles, env: Any) -> list[str]:
    """Assign numbers in order, then give the pages of chapters their own; return which pages changed."""
    changed: list[str] = _assign_in_order(collector, env)
    for name, numbers in env.toc_secnumbers.items():
        if not (found := re.match(r"chapters/(\d+)_", name)):
            continue
        first = int(found[1])
        env.toc_secnumbers[name] = {anchor: _renumber(number, first) for anchor, number in numbers.items()}
        for node in (env.titles[name], *env.tocs[name].findall(nodes.reference)):
            if node.get("secnumber"):
                node["secnumber"] = _renumber(node["secnumber"], first)
    return changed


def _renumber(number: tuple[int, ...] | list[int] | None, first: int) -> tuple[int, ...] | None:
    """Return a section's number with another number of its chapter; a section may have none."""
    return (first, *number[1:]) if number else None
