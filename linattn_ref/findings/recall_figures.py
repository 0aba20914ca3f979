"""Figures of recall, each from ``results`` alone."""

from collections.abc import Sequence

import plotly.graph_objects as go

from linattn_ref import plots
from linattn_ref.findings import pairs, recall
from linattn_ref.findings.figures import LINEAR, NAMES, TEXTS, by_text, series_of
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.findings.pairs import Model
from linattn_ref.plots import Series
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import PAIRS
from linattn_ref.study.plan import CORPORA
from linattn_ref.study.probes import DEPTHS


def by_position() -> go.Figure:
    """Loss above LLaMA's by position, 32 million parameters."""

    def of(corpus: str) -> list[Series]:
        base = recall.by_position(corpus, "llama", "32M", 1024)
        x = [1 + (first + last) / 2 for first, last, _ in base]
        lines = []
        for arch in LINEAR:
            mine = recall.by_position(corpus, arch, "32M", 1024)
            y = [own[2] - theirs[2] for own, theirs in zip(mine, base, strict=True)]
            lines.append(series_of(arch, x, y))
        return [*lines, Series("LLaMA", y=[0.0], kind="reference")]

    return by_text(
        of,
        CORPORA[::-1],
        title="On code LLaMA's lead grows along the window",
        x="position in the window (bytes)",
        y="loss above LLaMA's (nats per byte)",
        alt="Difference in loss from LLaMA by position, 1 to 1,024, at 32 million parameters. On code "
        "the lines are near or below zero up to about 32 bytes and rise to between 0.06 and 0.09 "
        "at the end. On prose they stay within 0.04 of zero and rise slowly; HGRN2's is below "
        "zero from the third byte to the end.",
        log_x=True,
        y_range=[-0.1, 0.1],
    )


def beyond() -> go.Figure:
    """Loss by position up to four times the length trained on, 32 million parameters."""

    def of(corpus: str) -> list[Series]:
        lines = []
        for arch in ARCHITECTURES:
            found = [one for one in recall.by_position(corpus, arch, "32M", 4096) if one[0] >= 16]
            lines.append(series_of(arch, [1 + (a + b) / 2 for a, b, _ in found], [y for *_, y in found]))
        return [*lines, Series("length trained on", x=[1024.0], kind="reference")]

    return by_text(
        of,
        title="Beyond 1,024 bytes TNL and HGRN2 hold, LLaMA and cosFormer2 do not",
        x="position (bytes)",
        y="loss (nats per byte)",
        alt="Loss by position up to 4,096 for models trained on 1,024 bytes. TNL and HGRN2 stay level "
        "beyond 1,024; LLaMA rises steeply, cosFormer2 less so.",
        log_x=True,
    )


def by_pairs() -> go.Figure:
    """Share of values found against the number of pairs, at the best rate; a slider of sizes."""
    frames = []
    for model in reversed(pairs.models("tnl")):  # LLaMA has no state that heads would change
        name = model.size if model.n_heads is None else f"{model.size}, {model.n_heads} heads"
        of = {arch: model if model in pairs.models(arch) else Model(model.size) for arch in ARCHITECTURES}
        lines = [series_of(a, [float(n) for n in PAIRS], _found(a, of[a], PAIRS)) for a in ARCHITECTURES]
        frames.append((name, lines))
    return plots.line_frames(
        frames,
        slider="model",
        title="Multi-query recall: cosFormer2 and LLaMA find, TNL and HGRN2 have not learned to",
        x="pairs of key and value",
        y="values found (%)",
        alt="Percent of values found against 4 to 64 pairs for models of two layers and 0.1, 0.4 and 1.6 "
        "million parameters. At 1.6 million cosFormer2 and LLaMA find nearly all at every number of "
        "pairs, TNL a fifth of four pairs and 2 percent of 64, HGRN2 under 1 percent.",
        log_x=True,
        x_ticks=list(PAIRS),
        y_range=[0, 104],
    )


def by_state() -> go.Figure:
    """Share found of the most pairs against the bytes that a model keeps of a sequence."""
    lines = []
    for arch in ARCHITECTURES:
        points = [(pairs.held(arch, m) / 1024, _found(arch, m, PAIRS[-1:])[0]) for m in pairs.models(arch)]
        x, found = zip(*sorted(points), strict=True)
        lines.append(series_of(arch, list(x), list(found)))
    return plots.lines(
        lines,
        title=f"cosFormer2 finds {PAIRS[-1]} pairs with less memory than LLaMA",
        x=f"state after {pairs.LENGTH} tokens (KiB)",
        y="values found (%)",
        alt="Percent of values found of 64 pairs against bytes of state, a point for each of three sizes. "
        "cosFormer2 rises from 4 percent at 80 KiB to all at 160 and 320 KiB, LLaMA from 2 percent at 512 "
        "KiB to 85 and to all at 2 MiB. TNL and HGRN2 stay below 3 percent up to 128 KiB.",
        log_x=True,
        x_ticks=[32, 128, 512, 2048],
        y_range=[0, 104],
    )


def _found(arch: str, model: Model, numbers: Sequence[int]) -> list[Interval]:
    """In percent."""
    return [Interval(*(100 * x for x in pairs.found(arch, model, n))) for n in numbers]


MODES = ("easy", "standard")


def trained_needles(table: str = "scaling_many_needles", size: str = "6M") -> go.Figure:
    """Needles found by models that saw some in training: depth against length, both modes."""
    frames = []
    for corpus in CORPORA[::-1]:
        for arch in ARCHITECTURES:
            shares = [recall.by_depth(f"{corpus}-many-needles", arch, size, mode, table) for mode in MODES]
            frames.append((f"{NAMES[arch]}, {TEXTS[corpus]}", [100 * found for found in shares]))
    return plots.heatmap_frames(
        frames,
        panels=MODES,
        slider="model",
        title="Needles found, by depth and length, of models that saw some in training",
        x="length (bytes)",
        y="depth",
        colourbar="found (%)",
        alt="Percent of needles found by depth, 0 is the text's beginning, and by length from 256 to 4,096 "
        "bytes, in easy and standard mode, for four architectures of each text, trained on 1,024 bytes.",
        x_labels=[f"{n // 1024}k" if n >= 1024 else str(n) for n in recall.haystacks(table)],
        y_labels=[f"{depth:g}" for depth in DEPTHS],
        zmin=0,
        zmax=100,
    )
