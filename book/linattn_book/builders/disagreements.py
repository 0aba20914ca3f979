"""Write the disagreements page: ``python -m linattn_book.builders.disagreements``; ``--check`` compares it.

It is made from the registry ``linattn_book.disagreements``: the sources are the docstrings of the functions,
the differences are measured anew each time, in float64 on fixed inputs, and shown to three digits.
"""

import inspect
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from linattn_book.disagreements import DISAGREEMENTS, Disagreement, measure

from .generated import render_table, run

HEADER = ["where they differ", "measured"]

INTRODUCTION = """\
# Where papers and implementations disagree

Two people can read about the same model and build two different ones. A formula is printed in one way and
released in another; a default differs; a symbol is counted from 0 or from 1. This page lists the cases that
we met. Each is a pair of functions in `linattn_book.disagreements`, run on the same inputs, and the
difference between their results.

A difference here is no rounding error; that would be near $10^{-15}$. Unless an entry says otherwise, the
inputs are 16 tokens of one head with $K = V = 4$, normal random numbers, the same on every run, in float64.
With outputs $a$ of the first source and $b$ of the other, the number is
$\\max|a - b| / \\max(1, \\max|b|)$; its size depends on the inputs. Where a special case makes the two agree,
the text names it, and a test checks it.

*Open* marks what cannot be read from the sources, such as which of two rules a published model was trained
with. Only its authors can settle that.

To run a pair yourself:

```python
from linattn_book.disagreements import find, measure

entry = find("{key}")
measure(entry)
```
"""


def format_value(value: float) -> str:
    """Return three digits: float64 agrees on them on every processor."""
    return f"{float(f'{value:.3g}'):,g}"


def render_source(function: Callable) -> str:
    """Return the docstring of a function, with links to arXiv and paths that may break across lines."""
    text = re.sub(
        r"\S+/\S+\.py", lambda path: re.sub("[/_]", r"\g<0><wbr>", path[0]), inspect.getdoc(function) or ""
    )
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)


def render_row(entry: Disagreement) -> list[str]:
    """Return one entry as a line of the table."""
    return [f"[{entry.title}](#disagreement-{entry.key})", f"{format_value(measure(entry))} {entry.unit}"]


def render_details(entry: Disagreement) -> str:
    """Return one entry in words: what differs, the two sources, what we do and what stays open."""
    equal = f" They are equal when {entry.equal_when}." if entry.equal_when else ""
    unsettled = f" *Open*: {entry.unsettled}." if entry.unsettled else ""
    lines = [
        f"(disagreement-{entry.key})=",
        f"### {entry.title}",
        "",
        f"{entry.what}{equal}",
        "",
        f"- One source: {render_source(entry.one)}",
        f"- The other: {render_source(entry.other)}",
        f"- Measured (`{entry.key}`): {format_value(measure(entry))} {entry.unit}.",
        f"- This book: {entry.ours}{unsettled}",
    ]
    return "\n".join(lines)


def render_page(root: Path) -> str:
    """Return the whole page: a table for each subject, then its entries."""
    parts = [INTRODUCTION.replace("{key}", DISAGREEMENTS[0].key).rstrip()]
    for subject, group in groupby(DISAGREEMENTS, key=lambda entry: entry.subject):
        entries = list(group)
        parts += [
            f"## {subject}",
            render_table(HEADER, map(render_row, entries), right=False),
            *map(render_details, entries),
        ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    run(render_page, "disagreements")
