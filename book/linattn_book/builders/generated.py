"""Write pages that follow from the code, by a command; ``--check`` compares them. None is edited by hand."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from linattn_ref.training.files import write_atomically

from .notebooks import find_root


def run(page: Callable[[Path], str], name: str, suffix: str = ".md") -> None:
    """Run the command of a page: ``python -m linattn_book.builders.NAME`` writes it, ``--check`` compares."""
    made = f"book/{name}{suffix}"
    parser = argparse.ArgumentParser(prog=f"python -m linattn_book.builders.{name}")
    parser.add_argument("--check", action="store_true", help=f"fail if {made} is out of date")
    arguments = parser.parse_args()
    try:
        root = find_root()
        file, text = root / made, page(root)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    if not arguments.check:
        write_atomically({file: text})
    elif not file.is_file() or file.read_text(encoding="utf-8") != text:
        sys.exit(f"{made} is out of date; python -m linattn_book.builders.{name} writes it anew")


def render_table(header: Iterable[str], rows: Iterable[Iterable[object]], right: bool = True) -> str:
    """Return a markdown table; columns after the first are right-aligned, or all to the left."""
    names = list(header)
    others = "---:" if right else "---"
    lines = [names, ["---"] + [others] * (len(names) - 1), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
