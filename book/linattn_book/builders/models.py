"""Write the page of all models: ``python -m linattn_book.builders.models``; ``--check`` compares it.

Its words are in models.md beside this file. All else follows from the mixers: their equations, their
docstrings, and the states they carry.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import torch

from linattn_ref.config import ModelConfig
from linattn_ref.costs.accounting import state_bytes
from linattn_ref.mixers import MIXERS

from .formulas import PARTS, translate_block, translate_equation, translate_text
from .generated import render_table, run
from .repository import read_address

WIDTH, HEADS, TOKENS = 1024, 8, 4096
PUBLISHED = {  # names as their papers write them, where the class of the mixer has another
    "softmax": "Softmax attention", "linear": "Linear attention", "cosformer": "cosFormer",
    "cosformer2": "cosFormer2", "gated_retnet": "Gated RetNet", "mlstm": "mLSTM", "rwkv4": "RWKV-4",
    "rwkv6": "RWKV-6", "rwkv7": "RWKV-7", "mamba2": "Mamba-2", "gated_delta_net": "Gated DeltaNet",
}  # fmt: skip

TAUGHT = {  # chapter and section that a model has
    "softmax": (1, "sec-retrieval"), "linear": (2, "sec-kernel"), "cosformer": (2, "sec-cosformer"),
    "retnet": (3, "sec-fixed-decay"), "tnl": (3, "sec-fixed-decay"), "gla": (3, "sec-gate-costs"),
    "gated_retnet": (3, "sec-gate-costs"), "mlstm": (3, "sec-gate-costs"), "rwkv6": (3, "sec-gate-costs"),
    "hgrn2": (3, "sec-hgrn2"), "rwkv4": (3, "sec-released-3"), "s4d": (4, "sec-hippo"), "h3": (4, "sec-h3"),
    "mamba": (5, "sec-mamba-block"), "mamba2": (5, "sec-ssd"), "delta_net": (5, "sec-delta"),
    "gated_delta_net": (5, "sec-wy"),
}  # fmt: skip

_SPAN = re.compile(r"``[^`]+``|\[[A-Z][^]`]*\](?!\()")  # code or mathematics, and shapes

NO_BREAK = "\N{NO-BREAK SPACE}"


def render_page(root: Path) -> str:
    """Return the whole page."""
    text, address = Path(__file__).with_suffix(".md").read_text("utf-8"), read_address(root)
    rows = [_render_formulas(name) for name, mixer in MIXERS.items() if mixer.equation is not None]
    costs = ["model", "in code", "paper, arXiv", "also learned", "state, kB"]
    parts = {
        "formulas": render_table(["model", *PARTS], rows, right=False),
        "costs": render_table(costs, map(_render_costs, MIXERS), right=False),
        "models": "\n\n".join(_render_section(name, address) for name in MIXERS),
        "width": f"{WIDTH:,}", "heads": f"{HEADS}", "tokens": f"{TOKENS:,}",
    }  # fmt: skip
    return re.sub(r"\[\[(\w+)\]\]", lambda match: parts[match[1]], text)


def name_model(name: str) -> str:
    """Return the name of a mixer as its paper writes it."""
    return PUBLISHED.get(name, MIXERS[name].__name__.removesuffix("Mixer"))


def find_paper(name: str) -> str:
    """Return the arXiv number of a mixer's paper, the first in its docstring."""
    found = re.search(r"arXiv (\d{4}\.\d{5})", inspect.getdoc(MIXERS[name]) or "")
    if found is None:
        raise ValueError(f"name: {name!r} has no paper in its docstring, expected arXiv NNNN.NNNNN")
    return found[1]


def _make_slug(name: str) -> str:
    return name.replace("_", "-")


def _link_model(name: str) -> str:
    return f"[{name_model(name)}](#model-{_make_slug(name)})"


def _link_papers(text: str) -> str:
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)


def _render_formulas(name: str) -> list[str]:
    formulas = (" where ".join(f"${one}$" for one in part) for part in translate_equation(name))
    return [_link_model(name), *formulas]


def _render_costs(name: str) -> list[str]:
    equation = MIXERS[name].equation
    config = ModelConfig(name, d_model=WIDTH, n_layers=1, n_heads=HEADS)
    carried = state_bytes(config, TOKENS, dtype=torch.bfloat16)
    learned = _render_learned(equation.learned) if equation else "nothing"
    paper = f"[{find_paper(name)}](https://arxiv.org/abs/{find_paper(name)})"
    return [_link_model(name), f"`{name}`", paper, learned, f"{carried / 1000:,.0f}"]


def _render_learned(text: str) -> str:
    """Return what is learned with its shapes as code and its letters as mathematics."""
    return re.sub(
        r"(\[[^]]*\])|\b([A-Za-z](?:_\w+)?|Delta|alpha)\b(?!')",
        lambda found: f"`{found[1].replace(' ', NO_BREAK)}`" if found[1] else f"${translate_text(found[2])}$",
        text.replace("Delta's", "for Delta"),
    )


def _render_section(name: str, address: str) -> str:
    """Return the section of a model: its name in code, its source, and its docstring as a page has it."""
    mixer = MIXERS[name]
    text = inspect.cleandoc(mixer.__doc__ or "")
    note, _, rest = text.partition("\n\nArgs:\n")
    source = rest.partition("\nSource:\n")[2].partition("\n\n")[0]
    options = inspect.cleandoc(mixer.options_class.__doc__ or "") if fields(mixer.options_class) else ""
    file = f"linattn_ref/mixers/{Path(inspect.getfile(mixer)).name}"
    parts = [
        f"(model-{_make_slug(name)})=\n### {name_model(name)}",
        f"In code `{name}`, [{file}]({address}/blob/main/{file}).{_link_chapter(name)}",
        _link_papers(_render_note(note.replace("Mix tokens", f"{name_model(name)} mixes tokens", 1))),
        _render_code(name),
        _link_papers(_render_options(options)),
        _link_papers(f"Source: {' '.join(source.split())}"),
    ]
    return "\n\n".join(filter(None, parts))


def _link_chapter(name: str) -> str:
    """Return a sentence with a link to the section that teaches a model, if there is one."""
    chapter, section = TAUGHT.get(name, (0, ""))
    return f" Taught in [chapter {chapter}]({section})." if section else ""


def _render_note(text: str) -> str:
    """Return a docstring's paragraphs with its equations, and what is mathematics in backticks, in LaTeX."""
    text = re.sub(r"Shapes: ``mixer[^`]*``, the state", "Carried as ``state``:", text)
    paragraphs = [
        translate_block(one) if one.startswith("    ") else _SPAN.sub(_render_span, one)
        for one in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def _render_span(found: re.Match[str]) -> str:
    """Return what stands in backticks as mathematics if it is that, else as code; shapes are code."""
    text = " ".join(found[0].strip("`").split())
    try:
        return f"`{text}`" if text.startswith("[") else f"${translate_text(text)}$"
    except ValueError:  # a name or a call
        return f"`{text}`"


def _render_code(name: str) -> str:
    """Return gate, write and read in Python: what the test evaluates."""
    equation = MIXERS[name].equation
    if equation is None:
        return ""
    lines = [f"{part:5} = {equation.text(part)}" for part in PARTS]
    return "In Python, as the test evaluates it:\n\n```python\n" + "\n".join(lines) + "\n```"


def _render_options(text: str) -> str:
    """Return the options of a mixer as a list, from the docstring of their class."""
    described = text.partition("Args:\n")[2].partition("\n\n")[0]
    listed = re.sub(r"^    (\w+): ", r"- `\1`: ", described, flags=re.MULTILINE)
    return "Options:\n\n" + listed.replace("        ", "  ").replace("``", "`") if listed else ""


if __name__ == "__main__":
    run(render_page, "models")
