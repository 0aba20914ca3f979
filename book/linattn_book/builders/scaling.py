"""The page of the scaling study: ``python -m linattn_book.builders.scaling`` writes book/scaling.ipynb.

``--check`` compares it. Its words stand in ``scaling.md``, section by section, with [[names]] where numbers
and tables go, all of which come from ``linattn_book.results``. It is a notebook, so that a reader can run it,
with outputs that are made here.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import plotly.graph_objects as go

from linattn_book import results
from linattn_study.findings import figures, laws, losses, recall, recall_figures, speed_figures
from linattn_study.findings.losses import ARCHITECTURES, SIZES
from linattn_study.plan import CORPORA
from linattn_study.scaling.fits import WARM_UP

from . import scaling_beside as beside
from . import scaling_numbers as numbers
from . import scaling_speed as speeds
from . import scaling_tables as tables
from . import scaling_variants as variants
from .execute import normalise
from .generated import run
from .notebooks import PLOTLY, dump_notebook
from .repository import read_address, render_setup_cell
from .scaling_numbers import percent

Part = str | tuple[str, Callable[[], go.Figure]]
PLACE, HEADING = re.compile(r"\[\[(\w+)\]\]"), re.compile(r"(?m)^<!-- (\w+) -->$")
IMPORT = "from linattn_study.findings import figures, recall_figures, speed_figures"


def page(root: Path) -> str:
    """The notebook as text."""
    new = nbformat.v4
    setup = new.new_code_cell(render_setup_cell(read_address(root)), metadata={"tags": ["setup"]})
    cells = [new.new_markdown_cell(text("opening", **numbers.opening())), setup, new.new_code_cell(IMPORT)]
    for part in parts():
        if isinstance(part, str):
            cells.append(new.new_markdown_cell(part))
        else:
            source, make = part
            output = new.new_output("execute_result", {PLOTLY: drawn(make())}, execution_count=1)
            cells.append(new.new_code_cell(source, outputs=[output]))
    count = 0
    for number, cell in enumerate(cells):
        cell.id = f"scaling-{number:02d}"
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                output.execution_count = count
    return dump_notebook(normalise(new.new_notebook(cells=cells)))


def drawn(figure: go.Figure) -> Any:
    """As Jupyter stores it."""
    return json.loads(figure.to_json()) | {"config": {"plotlyServerURL": "https://plot.ly"}}


def parts() -> Iterator[Part]:
    """The page, section by section."""
    yield text("trained", sizes=tables.sizes(), flops=tables.flops())
    counted, pflops, off = tables.accounting()
    yield text("accounting", table=counted, pflops=f"{pflops:.3f}", off=percent(off, 2))
    yield text("rates", rates=tables.rates(), **rate_numbers())
    yield "figures.draw_tuning()", figures.draw_tuning
    final = {"prose": tables.final_losses("novels"), "code": tables.final_losses("code")}
    yield text("loss", **final, **numbers.repeats())
    yield "figures.draw_loss_by_size()", figures.draw_loss_by_size
    both = {"prose": tables.gaps("novels"), "code": tables.gaps("code")}
    yield text("gap", train=tables.train_gaps(), along=tables.along(), **both, **gap_numbers())
    yield "figures.draw_gaps()", figures.draw_gaps
    yield text("costs", costs=tables.costs(), speeds=speeds.of_the_grid("novels"), device=origin()["device"])
    yield text("repetition", table=variants.repetition(), **beside.repetition())
    yield text("heads", table=variants.heads(), **beside.heads())
    yield text("where", strings=tables.strings("32M"), twice=tables.twice("32M"), **where_numbers())
    yield "recall_figures.draw_by_position()", recall_figures.draw_by_position
    yield text("hybrid", table=variants.hybrid(), copies=variants.copies(), **beside.hybrid())
    exponents = {"loss": tables.law_table("loss"), "six": tables.six(), "swapped": variants.swapped()}
    held = tables.coverage_of_loss()
    yield text("laws", held=held, **exponents, **law_numbers(), **beside.swapped())
    yield "figures.draw_envelopes()", figures.draw_envelopes
    yield text("ways", decades=decades())
    yield 'figures.draw_exponents("loss")', lambda: figures.draw_exponents("loss")
    fitted = {law: tables.law_table(law) for law in ("parameters", "tokens", "product")}
    yield text("parameters", coverage=tables.coverage(), **fitted)
    yield 'figures.draw_exponents("parameters")', lambda: figures.draw_exponents("parameters")
    yield text("surface", surfaces=tables.surfaces())
    yield text("beyond", table=tables.beyond("32M"))
    yield "recall_figures.draw_beyond()", recall_figures.draw_beyond
    asked = {
        "needles": tables.needles("code", "llama", "32M"),
        "depths": tables.depths("code", "llama", "32M"),
    }
    yield text("needles", **asked, **needle_numbers())
    yield text("trained_needles", table=variants.needles(), **beside.trained_needles())
    yield "recall_figures.draw_trained_needles()", recall_figures.draw_trained_needles
    yield text("needles_after", **beside.few_needles())
    yield text("pairs", **beside.pairs_trained())
    yield "recall_figures.draw_by_pairs()", recall_figures.draw_by_pairs
    yield "recall_figures.draw_by_state()", recall_figures.draw_by_state
    yield "recall_figures.draw_learning()", recall_figures.draw_learning
    yield text("pairs_after", **beside.pairs_found())
    yield text("decay", table=variants.decay(), **beside.decay())
    yield text("shape", table=variants.shape(), **beside.shape())
    late, whole = variants.windows(1024, 512, (256, 1024)), variants.windows(4096, 0, (1024, 4096))
    yield text("length", table=variants.lengths(), late=late, whole=whole, **beside.length())
    yield text("speed", **speeds.training())
    yield "speed_figures.draw_training()", speed_figures.draw_training
    yield text("generation", **speeds.generation())
    yield "speed_figures.draw_generation()", speed_figures.draw_generation
    yield text("memory", **speeds.memory())
    yield "speed_figures.draw_memory()", speed_figures.draw_memory
    yield text("claims", **claim_numbers(), **numbers.claims())
    yield text("papers") + "\n\n" + papers()
    yield text("origin", **origin(), **numbers.origin())


def text(name: str, **numbers: str) -> str:
    """A section's words with its numbers in their places, all of them and no others."""
    words = sections()[name]
    wanted = set(PLACE.findall(words))
    if wanted != set(numbers):
        raise ValueError(f"{name}: scaling.md has places for {sorted(wanted)}, got {sorted(numbers)}")
    return PLACE.sub(lambda found: numbers[found[1]], words)


@functools.cache
def sections() -> dict[str, str]:
    """Name -> words, in the order of the page."""
    _, *found = HEADING.split(Path(__file__).with_name("scaling.md").read_text("utf-8"))
    return {name: words.strip() for name, words in zip(found[::2], found[1::2], strict=True)}


# --- numbers in sentences -----------------------------------------------------------------------------------


def gap_numbers() -> dict[str, str]:
    clear = [size for size in SIZES if losses.estimate_gap("novels", "hgrn2", size).high < 0]
    below = [size for size in SIZES if losses.estimate_gap("novels", "hgrn2", size).value < 0]
    return {
        "below": str(len(below)),
        "clear": ", ".join(clear),
        "six": percent(losses.estimate_gap("code", "hgrn2", "6M").value),
        "last": percent(losses.estimate_gap("code", "hgrn2", "32M").value),
    }


def rate_numbers() -> dict[str, str]:
    """What half or double the best rate costs, and what the main grid's rates cost, where they were tried."""
    beside, ours = [], []
    for (_, arch, size), by_rate in losses.load_tuning().items():
        best = min(by_rate, key=by_rate.__getitem__)
        excess = {lr: 100 * (loss / by_rate[best] - 1) for lr, loss in by_rate.items()}
        beside += [excess[lr] for lr in by_rate if lr in (best / 2, 2 * best)]
        grid = losses.select(losses.load_evaluations(), arch=arch, size=size)[0]["lr"]
        ours += [excess[grid]] if grid in excess else []
    return {"least": percent(min(beside)), "most": percent(max(beside)), "cost": percent(max(ours))}


def where_numbers() -> dict[str, str]:
    share = {c: recall.average_strings(c, "llama", "32M", "repeated")[1] for c in CORPORA}
    of = {
        (arch, kind): recall.average_strings("code", arch, "32M", kind)[0]
        for arch in ("llama", "hgrn2")
        for kind in ("repeated", "new")
    }
    repeated = share["code"] * (of["hgrn2", "repeated"] - of["llama", "repeated"])
    new = (1 - share["code"]) * (of["hgrn2", "new"] - of["llama", "new"])
    return {
        "share_prose": percent(100 * share["novels"]),
        "share_code": percent(100 * share["code"], 0),
        "part": percent(100 * repeated / (repeated + new), 0),
        "times": f"{of['hgrn2', 'repeated'] / of['llama', 'repeated']:.1f}",
    }


TRIO = ("llama", "hgrn2", "cosformer2")


def apart(way: str) -> str:
    """How far the exponents of loss of these three are from each other at most."""
    widest = 0.0
    for corpus in CORPORA:
        found = [laws.find_fit(corpus, arch, way, "loss") for arch in TRIO]
        values = [one.value for one in found if one is not None]
        widest = max(widest, max(values) - min(values))
    return f"{widest:.3f}"


def apart_numbers() -> dict[str, str]:
    return {"apart": apart("C = 6 N D"), "apart_without": apart("C = 6 N D, without the smallest size")}


def law_numbers() -> dict[str, str]:
    rows = (
        losses.select(losses.load_evaluations(), arch="llama", size=size)[0] for size in (SIZES[0], SIZES[-1])
    )
    small, large = (row["flops"] / (6 * row["n_params"] * row["tokens"]) for row in rows)
    divided = [
        laws.load_paper_value(arch, "loss") / laws.load_paper_value(arch, "product") for arch in ARCHITECTURES
    ]
    others = (f"{divided[0]:.3f}", f"{min(divided[1:]):.3f} to {max(divided[1:]):.3f}")
    names = dict(zip(("paper_llama", "paper_others"), (x.replace("-", "−") for x in others), strict=True))
    return apart_numbers() | names | {"small": f"{small:.1f}", "large": f"{large:.1f}"}


def decades() -> str:
    """Of compute, that LLaMA's envelope spans."""
    rows = [row for row in losses.select(losses.load_evaluations(), arch="llama") if row["tokens"] >= WARM_UP]
    flops = [row["flops"] for row in rows]
    return f"{math.log10(max(flops) / min(flops)):.1f}"


def claim_numbers() -> dict[str, str]:
    every = (
        laws.find_fit(corpus, arch, way, "parameters")
        for corpus in CORPORA
        for arch in ARCHITECTURES
        for way in laws.list_fit_methods("parameters")
    )
    a = [one.value for one in every if one is not None]
    heads = {"apart_heads": apart("C = 6 N D, more heads")}
    return apart_numbers() | heads | {"a_low": f"{min(a):.1f}", "a_high": f"{max(a):.1f}"}


def needle_numbers() -> dict[str, str]:
    def of(arch: str, mode: str, corpus: str = "code", length: int = 1024) -> float:
        return 100 * recall.estimate_needles(corpus, arch, "32M", mode, length).value

    modes, linear = ("easy", "standard", "twice"), ARCHITECTURES[1:]
    found = {
        "once": of("llama", "standard", length=512),
        "twice": of("llama", "twice"),
        "once_short": of("llama", "standard", length=256),
        "twice_short": of("llama", "twice", length=512),
        "prose": max(of(arch, mode, "novels") for arch in ARCHITECTURES for mode in modes),
        "linear": max(of(a, mode, length=n) for a in linear for mode in modes for n in recall.list_lengths()),
    }
    rows = [
        row
        for a in linear
        for mode in modes
        for row in recall.select_probes("code", a, "32M", f"needle-{mode}")
    ]
    digit = [row["loss"] for row in losses.select(rows, length=1024)]
    costs = {"digit_low": min(digit), "digit_high": max(digit), "guess": math.log(10)}
    shares = {name: percent(value, 0) for name, value in found.items()}
    return shares | {name: f"{value:.1f}" for name, value in costs.items()}


def papers() -> str:
    folded = (
        f":::{{dropdown}} {title}\n{source}, theirs. {meaning}\n\n{body}\n:::"
        for title, source, meaning, body in tables.papers()
    )
    return "\n\n".join(folded)


def origin() -> dict[str, str]:
    made = results.provenance("scaling")
    keep = ("device", "date", "command")
    return {name: str(made[name]) for name in keep} | {
        "torch": made["versions"]["torch"],
        "triton": made["versions"]["triton"],
        "hash": made["source_hash"][:12],
        "runs": str(len({(r["corpus"], r["arch"], r["size"], r["seed"]) for r in losses.load_evaluations()})),
    }


if __name__ == "__main__":
    run(page, "scaling", ".ipynb")
