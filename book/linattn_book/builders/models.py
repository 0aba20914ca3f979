"""Write the page of all models: ``python -m linattn_book.builders.models``; ``--check`` compares it.

The page is a function of the mixers: their equations, their docstrings, and the states they carry.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import torch

from linattn_ref.config import ModelConfig
from linattn_ref.costs.accounting import state_bytes
from linattn_ref.mixers import MIXERS, StateEquation

from .generated import render_table, run

WIDTH, HEADS, TOKENS = 1024, 8, 4096

INTRODUCTION = """\
# One recurrence, many models

Every model of the book writes a state and reads it:

$$
\\begin{aligned} S_t &= G_t \\odot S_{t-1} + W_t, \\\\ o_t &= \\mathrm{read}(q_t, S_t). \\end{aligned}
$$

A model is its choice of gate $G_t$, of what it writes, and of how it reads. The tables are generated from
the code of `linattn_ref.mixers`. Their entries are Python, and the source text of functions: for each model a
test evaluates gate, write and read, runs the recurrence above in a plain loop, and compares the result with
the mixer, which goes another way: in logs, in chunks, by FFT or scan. Another gate, write or read fails that
test.

`outer(k, v)` is $k^\\top v$, `dot(q, S)` is $qS$, `G` is the gate, `S_past` is $S_{t-1}$, `with_ones(v)`
is `v` with a column of ones, `K` is the key width. A gate is a number per head, or a vector that multiplies
the rows of $S$; that of the delta rule is a $K\\times K$ matrix and multiplies from the left, with
`eye(K)` the identity. State space models have one head per channel, with `N` numbers of state and values of
width 1. `ratio` divides by the last entry, `bounded` by its size or by 1 if that is larger, `quotient` the
first entry by the second; `paired` is twice the real part where numbers are complex. Below stands what each
model has around the recurrence: projections, short convolutions, norms, and what is simplified or open.
"""

SOFTMAX = "Softmax attention has no such equation: its state is the cache of all keys and values, and grows."
LEARNED = "learned, besides the projections to q, k and v"


def render_page(root: Path) -> str:
    """Return the whole page."""
    rows = [
        _render_formulas(name, mixer.equation) for name, mixer in MIXERS.items() if mixer.equation is not None
    ]
    parts = [
        INTRODUCTION.rstrip(),
        "## Gate, write, read",
        render_table(["model", "gate", "write", "read"], rows, right=False),
        SOFTMAX,
        "## What is learned, and what is carried",
        f"The state is that of one layer of width {WIDTH:,} with {HEADS} heads, for one sequence: float32, "
        f"short convolutions included; for softmax attention a cache of {TOKENS:,} tokens in bfloat16.",
        render_table(["model", LEARNED, "state, kB"], map(_render_costs, MIXERS), right=False),
        "## The models",
        *(f"(model-{_make_slug(name)})=\n### {name}\n\n{_render_note(name)}" for name in MIXERS),
    ]
    return "\n\n".join(parts) + "\n"


def _make_slug(name: str) -> str:
    return name.replace("_", "-")


def _render_formulas(name: str, equation: StateEquation) -> list[str]:
    texts = (equation.text(part) for part in ("gate", "write", "read"))
    return [f"[{name}](#model-{_make_slug(name)})", *(f"`{text}`" for text in texts)]


def _render_costs(name: str) -> list[str]:
    equation = MIXERS[name].equation
    config = ModelConfig(name, d_model=WIDTH, n_layers=1, n_heads=HEADS)
    carried = state_bytes(config, TOKENS, dtype=torch.bfloat16)
    return [name, equation.learned if equation else "nothing", f"{carried / 1000:,.0f}"]


def _render_note(name: str) -> str:
    """Return the docstring of the mixer without arguments and example, in the page's own markup."""
    text = inspect.cleandoc(MIXERS[name].__doc__ or "").replace("``", "`")
    note, _, rest = text.partition("\n\nArgs:\n")
    source = rest.partition("\nSource:\n")[2].partition("\n\n")[0]
    options = (
        inspect.cleandoc(MIXERS[name].options_class.__doc__ or "")
        if fields(MIXERS[name].options_class)
        else ""
    )
    return "\n\n".join(filter(None, [note, _render_options(options), f"Source: {' '.join(source.split())}"]))


def _render_options(text: str) -> str:
    """Return the options of a mixer as a list, from the docstring of their class."""
    described = text.partition("Args:\n")[2].partition("\n\n")[0]
    listed = re.sub(r"^    (\w+): ", r"- `\1`: ", described, flags=re.MULTILINE)
    return "Options:\n\n" + listed.replace("        ", "  ").replace("``", "`") if listed else ""


if __name__ == "__main__":
    run(render_page, "models")
