"""Write the front page: ``python -m linattn_book.builders.index``; ``--check`` compares it.

Its words are in index.md beside this file. Its numbers and pictures come from saved measurements, and
from the figure of capacity that chapter 2 has stored, which every test run computes again.
"""

import re
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from linattn_book import results
from linattn_ref.training.trainer import bits_per_byte
from linattn_study.findings import losses

from .generated import run
from .notebooks import PLOTLY, join_prose, read_notebook
from .pictures import KEPT, Axis, Line, draw_panel, draw_state
from .repository import make_colab_link, read_address
from .thumbnails import draw_thumbnail

HEADLINE = "Attention re-reads. Linear attention remembers."
CAPACITY = "A fixed state forgets gracefully, and early"  # the title of chapter 2's figure
CHAPTER_1, CHAPTER_2, CHAPTER_3, CHAPTER_4, CHAPTER_5, CHAPTER_6, CHAPTER_7, CHAPTER_8, CHAPTER_9 = (
    Path(f"chapters/{name}.ipynb")
    for name in (
        "01_softmax_attention",
        "02_linear_attention",
        "03_decay_and_gates",
        "04_state_space_models",
        "05_selection_and_erasing",
        "06_making_it_fast",
        "07_four_architectures",
        "08_do_linear_models_scale",
        "09_recall",
    )
)
LENGTH = 4096
H200_BYTES_PER_SECOND = 4.8e12  # from its data sheet, as in chapter 2


class Chapter(NamedTuple):
    """Hold a chapter of the road: its numbers, title and question, and its notebook, if it is written."""

    numbers: str
    title: str
    question: str
    notebook: Path | None = None


ROAD = (
    Chapter(
        "1", "Softmax attention",
        "What does attention compute, what does it cost, and what can it do that a memory cannot?", CHAPTER_1,
    ),
    Chapter(
        "2", "Kernelised linear attention", "What do we gain and lose by moving one pair of brackets?",
        CHAPTER_2,
    ),
    Chapter(
        "3", "Decay and gates", "What should a memory that cannot hold everything let go, and who decides?",
        CHAPTER_3,
    ),
    Chapter(
        "4", "State space models", "How do a convolution and a recurrence come to be the same model?",
        CHAPTER_4,
    ),
    Chapter(
        "5", "Selection, Mamba and the delta rule", "What does it gain to erase before writing?", CHAPTER_5
    ),
    Chapter("6", "Making it fast", "What stands between a count of operations and a clock?", CHAPTER_6),
    Chapter("7", "Four architectures, one budget", "What is compared, and what is a budget?", CHAPTER_7),
    Chapter("8", "Do linear models scale?", "Which part of a law is the study's own?", CHAPTER_8),
    Chapter(
        "9", "Recall, and what loss hides", "Who copies, what teaches it, what can a state hold?", CHAPTER_9
    ),
)  # fmt: skip


class Recall(NamedTuple):
    """Hold shares of signs recalled of ``pairs`` numbers of pairs."""

    pairs: list[float]
    softmax: list[float]
    linear: list[float]


def render_page(root: Path) -> str:
    """Return the front page."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    recall = read_recall(root / CHAPTER_2)
    parts = find_numbers() | {
        "headline": HEADLINE, "kept": f"{KEPT}",
        "minutes_1": read_minutes(root / CHAPTER_1), "contents": render_contents(root),
        "colab": make_colab_link(read_address(root), CHAPTER_1.name),
        "time": draw_time(), "recall": draw_recall(recall), "state": draw_state(ALT_STATE),
    }  # fmt: skip
    return re.sub(r"\[\[(\w+)\]\]", lambda match: parts[match[1]], text)


def render_contents(root: Path) -> str:
    """Return the chapters in reading order, each with its thumbnail, title, minutes and question."""
    points = []
    for chapter in ROAD:
        picture = draw_thumbnail(int(chapter.numbers.split()[0]))
        if chapter.notebook is None:
            name, time = f"{chapter.numbers} {chapter.title}", "in preparation"
        else:
            name = f"{chapter.numbers} [{chapter.title}](../{chapter.notebook.with_suffix('')})"
            time = f"{read_minutes(root / chapter.notebook)} minutes"
        name = f'<span class="book-name">{name}</span> <span class="book-minutes">{time}</span>'
        points.append(f'- {picture}{name} <span class="book-question">{chapter.question}</span>')
    return "\n".join(points)


def read_minutes(chapter: Path) -> str:
    """Return how many minutes a chapter says that it takes to read."""
    found = re.search(r"\*\*Time\.\*\* (\d+) minutes to read", join_prose(read_notebook(chapter)))
    if found is None:
        raise ValueError(f"chapter: {chapter} does not say its time, expected '**Time.** N minutes to read'")
    return found[1]


def read_recall(chapter: Path) -> Recall:
    """Return what chapter 2's figure of capacity shows.

    Raises:
        ValueError: the chapter has no such figure.
    """
    for cell in read_notebook(chapter)["cells"]:
        for output in cell.get("outputs", []):
            figure = output.get("data", {}).get(PLOTLY)
            if figure and figure["layout"]["title"]["text"].replace("<br>", " ") == CAPACITY:
                by_name = {trace["name"].split(",")[0]: trace for trace in figure["data"]}
                return Recall(by_name["measured"]["x"], by_name["softmax"]["y"], by_name["measured"]["y"])
    raise ValueError(f"chapter: {chapter} has no stored figure {CAPACITY!r}, expected one")


ALT_STATE = (
    "A table of numbers, the state. A key on its left and a value above it say what is written: the row at "
    "which the key is large takes the value. A query on its right reads: the output below is that row again, "
    "with a little of the others."
)


def draw_time() -> str:
    """Return the picture of milliseconds for a token against the tokens already read."""
    rows = results.load("decode_cost")
    x = [row["context"] for row in losses.select(rows, mixer="linear")]
    lines = []
    for mixer in ("softmax", "linear"):
        y = [row["ms_per_step"] for row in losses.select(rows, mixer=mixer)]
        lines.append(Line(mixer, mixer, y, f"{y[-1]:.0f} ms"))
    softmax, linear = (line.y for line in lines)
    return draw_panel(
        "Time for the next token",
        f"Milliseconds for a token against tokens already read, {x[0]:,} to {x[-1]:,}. Softmax attention "
        f"begins level, at {softmax[0]:.0f}, and then doubles with the length, to {softmax[-1]:.0f}. Linear "
        f"attention stays at {linear[-1]:.0f}.",
        x, lines,
        Axis("tokens already read (log scale)", x[0], x[-1],
             {256: "256", 4096: "4k", 32768: "32k", 131072: "131k"}),
        Axis("ms", 0, 280, {0: "0", 100: "100", 200: "200"}),
    )  # fmt: skip


def draw_recall(recall: Recall) -> str:
    """Return the picture of recall against the number of pairs that were stored."""
    lines = [
        Line("softmax", "softmax", recall.softmax, f"{recall.softmax[-1]:.2f}"),
        Line("linear", "linear", recall.linear, f"{recall.linear[-1]:.2f}"),
    ]
    return draw_panel(
        "What comes back",
        f"Share of signs recalled against pairs stored, {recall.pairs[0]} to {recall.pairs[-1]:,}. "
        f"At the end softmax attention has {recall.softmax[-1]:.2f}, and a linear state of 64 by 64, "
        f"which falls all the way, {recall.linear[-1]:.2f}, where guessing gives 0.5.",
        recall.pairs, lines,
        Axis("pairs stored (log scale), keys of width 64", recall.pairs[0], recall.pairs[-1],
             {2: "2", 16: "16", 128: "128", 1280: "1,280"}),
        Axis("share recalled", 0.45, 1.03, {0.5: "guess", 0.75: "0.75", 1.0: "1"}),
    )  # fmt: skip


def find_numbers() -> dict[str, str]:
    """Return the numbers in the words of the page."""
    (row,) = losses.select(results.load("bracket_cost"), T=LENGTH)
    rows = results.load("language_models")
    end = losses.select(rows)[-1]["step"]
    good, ruined = (
        bits_per_byte(fmean(row["val_loss"] for row in losses.select(rows, model=model, step=end)))
        for model in ("linear", "linear, elu(x) + 1")
    )
    softmax, linear = (losses.select(results.load("decode_cost"), mixer=m)[-1] for m in ("softmax", "linear"))
    kernel = 1e3 * softmax["state_bytes"] / H200_BYTES_PER_SECOND + linear["ms_per_step"]
    code = losses.estimate_gap("code", "hgrn2", "32M")
    return {
        "operations": f"{LENGTH // row['K']}", "faster": f"{row['left_ms'] / row['right_ms']:.0f}",
        "good": f"{good:.1f}", "ruined": f"{ruined:.1f}",
        "code": f"{code.value:.0f}", "code_low": f"{code.low:.0f}", "code_high": f"{code.high:.0f}",
        "slow": f"{softmax['ms_per_step']:.0f}", "kernel": f"{kernel:.0f}",
    }  # fmt: skip


if __name__ == "__main__":
    run(render_page, "index")
