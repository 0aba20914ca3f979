"""Figures of recall, each from ``results`` alone."""

import plotly.graph_objects as go

from linattn_ref.findings import recall
from linattn_ref.findings.figures import LINEAR, by_text, series_of
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.plots import Series
from linattn_ref.study.plan import CORPORA


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
