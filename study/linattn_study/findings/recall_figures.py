"""Draw recall, each figure from ``results`` alone."""

from collections.abc import Callable, Sequence
from statistics import mean

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from linattn_book import plots
from linattn_book.plots import Series
from linattn_study.corpora import PAIRS
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings import recall
from linattn_study.findings.figures import LINEAR, NAMES, draw_by_text, make_series
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.multi_query_recall import Model
from linattn_study.plan import CORPORA
from linattn_study.probes import DEPTHS
from linattn_study.scaling import Interval


def draw_by_position() -> go.Figure:
    """Draw loss above LLaMA's by position, 32 million parameters."""

    def make_lines(corpus: str) -> list[Series]:
        """Return the lines of a text."""
        base = recall.average_by_position(corpus, "llama", "32M", 1024)
        x = [1 + (first + last) / 2 for first, last, _ in base]
        lines = []
        for arch in LINEAR:
            mine = recall.average_by_position(corpus, arch, "32M", 1024)
            y = [own[2] - theirs[2] for own, theirs in zip(mine, base, strict=True)]
            lines.append(make_series(arch, x, y))
        return [*lines, Series("LLaMA", y=[0.0], kind="reference")]

    return draw_by_text(
        make_lines,
        CORPORA[::-1],
        title="On code LLaMA's lead grows along the window",
        x="position in the window (bytes)",
        y="loss above LLaMA's (nats per byte)",
        alt="Difference in loss from LLaMA by position, 1 to 1,024, at 32 million parameters. On code the "
        "lines are near or below zero up to about 32 bytes and rise to between 0.06 and 0.09 at the end. "
        "On prose they stay within 0.04 of zero and rise slowly; HGRN2's is below zero from the third byte "
        "to the end.",
        log_x=True,
        y_range=[-0.1, 0.1],
    )


def draw_beyond() -> go.Figure:
    """Draw loss by position up to four times the length trained on, 32 million parameters."""

    def make_lines(corpus: str) -> list[Series]:
        """Return the lines of a text."""
        lines = []
        for arch in ARCHITECTURES:
            ranges = [one for one in recall.average_by_position(corpus, arch, "32M", 4096) if one[0] >= 16]
            lines.append(make_series(arch, [1 + (a + b) / 2 for a, b, _ in ranges], [y for *_, y in ranges]))
        return [*lines, Series("length trained on", x=[1024.0], kind="reference")]

    return draw_by_text(
        make_lines,
        title="Beyond 1,024 bytes TNL and HGRN2 hold, LLaMA and cosFormer2 do not",
        x="position (bytes)",
        y="loss (nats per byte)",
        alt="Loss by position up to 4,096 for models trained on 1,024 bytes. TNL and HGRN2 stay level beyond "
        "1,024; LLaMA rises steeply, cosFormer2 less so.",
        log_x=True,
    )


def draw_by_pairs() -> go.Figure:
    """Draw the share of values found against the number of pairs, at the best rate; a slider of models."""
    x = [float(n) for n in PAIRS]
    return plots.line_frames(
        _make_frames(lambda arch, model: make_series(arch, x, _compute_percent_found(arch, model, PAIRS))),
        slider="shape, heads",
        title="Multi-query recall: who finds depends on the heads and on the shape",
        x="pairs of key and value",
        y="values found (%)",
        alt="Percent of values found against 4 to 64 pairs, mean of two seeds and a bar between them. Two "
        "layers of 256: LLaMA finds nearly all, whatever the number. With heads of 16 TNL does, too, and "
        "HGRN2 and cosFormer2 fall from 86 and 90 percent of 4 pairs to 31 and 34 of 64. With heads of 64 "
        "cosFormer2 finds nearly all, HGRN2 falls from 87 to 33, TNL from 22 to 2. Four layers of 128: with "
        "heads of 16 cosFormer2, one seed, falls from 67 to 9 and TNL from 34 to 3, all others begin at 25 "
        "or less.",
        log_x=True,
        x_ticks=list(PAIRS),
        y_range=[0, 104],
    )


def draw_by_state() -> go.Figure:
    """Draw the share found of the most pairs against the bytes that a model keeps of a sequence."""
    frames = []
    for size, shape in mqr.SHAPES.items():
        group = []
        for arch in ARCHITECTURES:
            models = [model for model in mqr.list_models(arch) if model.size == size]
            x = [mqr.compute_state_size(arch, model) / 1024 for model in models]
            group.append(
                make_series(arch, x, [_compute_percent_found(arch, model, PAIRS[-1:])[0] for model in models])
            )
        frames.append((shape, group))
    return plots.line_frames(
        frames,
        slider="shape",
        title=f"With two layers of 256 TNL finds {PAIRS[-1]} pairs in 32 KiB, next to none in 128",
        x=f"state after {mqr.LENGTH} tokens (KiB)",
        y=f"values found of {PAIRS[-1]} pairs (%)",
        alt="Percent of values found of 64 pairs against bytes of state, heads of 16 and of 64, mean of two "
        "seeds with a bar between them. In models of 256 TNL falls from 99 percent at 32 KiB to 2 at 128, "
        "HGRN2 stays near 32, cosFormer2 rises from 34 at 80 KiB to 99 at 320, and LLaMA has nearly all at "
        "2,048. In models of 128 all are below 10; cosFormer2 with heads of 16 has one seed there.",
        log_x=True,
        x_ticks=[32, 128, 512, 2048],
        y_range=[0, 104],
    )


def draw_learning() -> go.Figure:
    """Draw loss in multi-query recall while models learn, at the rate that ends best, both seeds."""

    def make_curve(arch: str, model: Model) -> Series:
        """Return the mean of the seeds, with a band between them."""
        runs = mqr.collect_curves(arch, model, mqr.find_best_rate(arch, model)).values()
        at = [[loss for _, loss in same] for same in zip(*runs, strict=True)]
        tokens = [float(n) for n, _ in next(iter(runs))]
        return make_series(arch, tokens, [Interval(mean(same), min(same), max(same)) for same in at])

    levels = {"guess": mqr.GUESS, "any pair": mqr.ANY_PAIR}
    references = [Series(name, y=[level], kind="reference") for name, level in levels.items()]
    return plots.line_frames(
        [(name, [*group, *references]) for name, group in _make_frames(make_curve)],
        slider="shape, heads",
        title="Seven of 14 models learn to look up, an eighth with one of two seeds",
        x="tokens read",
        y="loss on the values asked for (nats)",
        alt="Loss against tokens read, 1 to 268 million, mean of two seeds with a band between them, and "
        "dotted lines at 4.85 for a guess and at 3.58 for naming any of the paired values. Two layers of "
        "256: LLaMA drops from 4.1 to below 1 between 29 and 42 million; with heads of 16 TNL from 42 "
        "million on, cosFormer2 and HGRN2 after 89; with heads of 64 cosFormer2 after 89 and HGRN2 after "
        "128, TNL stays at 3.7. Four layers of 128: with heads of 16 cosFormer2, one seed, drops below the "
        "lower line at the end, and so does one seed of TNL; all others stay above.",
        log_x=True,
        y_range=[0, 5.5],
        height=470,
        x_ticks={1e6: "1M", 1e7: "10M", 1e8: "100M"},
    )


def _make_frames(line: Callable[[str, Model], Series]) -> list[tuple[str, list[Series]]]:
    """Return a frame for each shape and width of heads, with a line of each architecture.

    LLaMA's cache does not depend on its heads, so it has one model of each shape.
    """
    frames = []
    for size, shape in mqr.SHAPES.items():
        for model in (one for one in mqr.list_models("tnl") if one.size == size):
            group = [line(arch, model if arch in LINEAR else Model(size)) for arch in ARCHITECTURES]
            frames.append((f"{shape}, {mqr.describe_heads('tnl', model)}", group))
    return frames


def _compute_percent_found(arch: str, model: Model, numbers: Sequence[int]) -> list[Interval]:
    """Return the percent of values found of each number of pairs."""
    return [Interval(*(100 * x for x in mqr.estimate_accuracy(arch, model, n))) for n in numbers]


MODES = ("easy", "standard")


def draw_trained_needles(table: str = "scaling_many_needles", size: str = "6M") -> go.Figure:
    """Draw needles found by models of code: depth against length, both modes, with and without training."""
    frames = [
        (NAMES[arch], _average_both_modes("code-many-needles", arch, size, table)) for arch in ARCHITECTURES
    ]
    frames.append(("zero-shot", _average_both_modes("code", "llama", "32M", "scaling")))
    return plots.heatmap_frames(
        frames,
        panels=MODES,
        slider="model",
        title="Trained on needles, LLaMA of code finds them up to the length it was trained on",
        x="length (bytes)",
        y="depth",
        colourbar="found (%)",
        alt="Percent of needles found by depth, 0 is the text's beginning, and by length from 256 to "
        "4,096 bytes, in easy and standard mode. Trained on needles, LLaMA of code finds nearly all "
        "up to 1,024 bytes at every depth and none beyond; TNL, HGRN2 and cosFormer2 find none. "
        "Without needles in training LLaMA finds half to three quarters of easy ones up to 512 bytes "
        "and a third to a half of the others, at 1,024 none at the beginning and two thirds at the "
        "end, and none beyond.",
        x_labels=[f"{n // 1024}k" if n >= 1024 else str(n) for n in recall.list_lengths(table)],
        y_labels=[f"{depth:g}" for depth in DEPTHS],
        zmin=0,
        zmax=100,
    )


def _average_both_modes(corpus: str, arch: str, size: str, table: str) -> list[NDArray[np.float64]]:
    """Return the percent of needles found by depth and length, for both modes."""
    return [100 * recall.average_by_depth(corpus, arch, size, mode, table) for mode in MODES]
