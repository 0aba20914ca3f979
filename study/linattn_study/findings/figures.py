"""Draw losses and laws, each figure from ``results`` alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from linattn_book import plots
from linattn_book.plots import Series
from linattn_study.findings import laws, losses
from linattn_study.findings.losses import ARCHITECTURES, SIZES, load_evaluations, select
from linattn_study.plan import CORPORA
from linattn_study.scaling import PFLOPS_DAY, Interval, find_lower_envelope, group_runs
from linattn_study.scaling.fits import WARM_UP

NAMES = {"llama": "LLaMA", "tnl": "TNL", "hgrn2": "HGRN2", "cosformer2": "cosFormer2"}
LOOKS = {"llama": "softmax", "tnl": "tnl", "hgrn2": "hgrn2", "cosformer2": "cosformer2"}
TEXTS = {"novels": "prose", "code": "code"}
LINEAR = ARCHITECTURES[1:]
MILLIONS = {1e6: "1M", 3e6: "3M", 1e7: "10M", 3e7: "30M"}


def load_n_params(arch: str, size: str) -> int:
    """Return the parameters of a model, without embeddings."""
    return int(select(load_evaluations(), arch=arch, size=size)[0]["n_params"])


def make_series(arch: str, x: list[float], y: list[Interval] | list[float]) -> Series:
    """Return the line of an architecture, with a band if y has intervals."""
    if isinstance(y[0], Interval):
        values, low, high = (list(column) for column in zip(*y, strict=True))  # type: ignore[call-overload]
        return Series(NAMES[arch], x, values, LOOKS[arch], low=low, high=high)
    return Series(NAMES[arch], x, y, LOOKS[arch])


def draw_by_text(
    make: Callable[[str], list[Series]], order: Sequence[str] = CORPORA, **options: Any
) -> go.Figure:
    """Draw the lines of each text, with a slider between the two; options as for ``plots.line_frames``."""
    frames = [(TEXTS[corpus], make(corpus)) for corpus in order]
    return plots.line_frames(frames, slider="text", **options)


def draw_loss_by_size() -> go.Figure:
    """Draw validation loss at the end, over parameters; prose and code."""

    def make_lines(corpus: str) -> list[Series]:
        """Return the lines of a text."""
        return [
            make_series(
                a, [load_n_params(a, s) for s in SIZES], [losses.estimate_loss(corpus, a, s) for s in SIZES]
            )
            for a in ARCHITECTURES
        ]

    return draw_by_text(
        make_lines,
        title="HGRN2 meets LLaMA on prose and trails it on code",
        x="parameters without embeddings",
        y="validation loss (nats per byte)",
        alt="Loss against parameters, 0.2 to 32 million, on logarithmic axes. On prose HGRN2 is just "
        "below LLaMA at all sizes, TNL and cosFormer2 are above, TNL far above at the two "
        "smallest. On code LLaMA is below all three by 8 to 28 percent from 0.8 million on.",
        log_x=True,
        log_y=True,
        x_ticks={3e5: "0.3M"} | MILLIONS,
        y_range=[0.52, 2.3],
        height=460,
    )


def draw_gaps() -> go.Figure:
    """Draw loss relative to LLaMA's of the same size; prose and code."""
    sizes = SIZES[1:]

    def make_lines(corpus: str) -> list[Series]:
        """Return the lines of a text."""
        lines = [
            make_series(
                a, [load_n_params(a, s) for s in sizes], [losses.estimate_gap(corpus, a, s) for s in sizes]
            )
            for a in LINEAR
        ]
        return [*lines, Series("LLaMA", y=[0.0], kind="reference")]

    return draw_by_text(
        make_lines,
        title="Loss above LLaMA's: a few percent on prose, a tenth and more on code",
        x="parameters without embeddings",
        y="loss above LLaMA's (%)",
        alt="Percent of loss above LLaMA of the same size, 0.8 to 32 million parameters, with "
        "intervals, for TNL, HGRN2 and cosFormer2. On prose HGRN2 is half a percent below zero, "
        "TNL 1 to 2 above from 2 million on and cosFormer2 2.5. On code all three are above, by "
        "12 to 18 percent at 2 and 6 million parameters and by about 10 at 32 million.",
        log_x=True,
        x_ticks=MILLIONS,
        y_range=[-3, 31],
    )


def draw_envelopes() -> go.Figure:
    """Draw training loss against compute: six sizes, the lowest of them and the law fitted to it."""
    frames = []
    for corpus in CORPORA:
        for arch in ARCHITECTURES:
            rows = [r for r in select(load_evaluations(), corpus=corpus, arch=arch) if r["tokens"] >= WARM_UP]
            lowest = find_lower_envelope(group_runs(rows), n_budgets=40, at_least=1)
            k, a = (
                laws.find_fit(corpus, arch, "paper's", "loss", part) for part in ("coefficient", "exponent")
            )
            assert k is not None
            assert a is not None
            C = np.geomspace(1e-7, 5e-4, 12)
            y = k.value * C**a.value
            group = [
                Series("each size", *_join_curves(select(rows, seed=0)), kind="reference"),
                Series("lowest of all", lowest.flops / PFLOPS_DAY, lowest.loss),
                Series("law fitted to it", C, y, kind="theory"),
            ]
            frames.append((f"{NAMES[arch]}, {TEXTS[corpus]}", group))
    return plots.line_frames(
        frames,
        slider="runs",
        title="The lowest loss for a budget bends away from a power law",
        x="training compute (PFLOP/s-days)",
        y="training loss (nats per byte)",
        alt="Training loss against compute on logarithmic axes: six dotted curves, one seed each, of "
        "which the smaller ones cross; the lowest loss of all, means over seeds, marked; and a "
        "dashed straight line. The marked points bend away from the line, and step up where a "
        "smaller model's run ends.",
        log_x=True,
        log_y=True,
        height=480,
    )


def _join_curves(rows: list[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the curves of all sizes as one line with gaps."""
    x, y = [], []
    for size in SIZES:
        mine = select(rows, size=size)
        x += [row["flops"] / PFLOPS_DAY for row in mine] + [mine[-1]["flops"] / PFLOPS_DAY]
        y += [row["train_loss"] for row in mine] + [float("nan")]
    return x, y


def draw_tuning() -> go.Figure:
    """Draw loss against learning rate, at two sizes and on both texts."""
    frames = []
    for size in ("0.8M", "6M"):
        for corpus in CORPORA:
            group = []
            for arch in ARCHITECTURES:
                by_rate = losses.load_tuning()[corpus, arch, size]
                best = min(by_rate.values())
                excess = [100 * (loss / best - 1) for loss in by_rate.values()]
                group.append(make_series(arch, list(by_rate), excess))
            frames.append((f"{size}, {TEXTS[corpus]}", group))
    return plots.line_frames(
        frames,
        slider="size and text",
        title="TNL and cosFormer2 want lower learning rates than LLaMA",
        x="learning rate",
        y="validation loss above the best (%)",
        alt="Validation loss, in percent above the best, against learning rate for the four "
        "architectures at two sizes, on prose and code. Every curve is lowest between its ends. "
        "LLaMA's best rate is never below the others', TNL's and cosFormer2's are a half to a "
        "quarter of it.",
        log_x=True,
    )


def draw_exponents(law: str) -> go.Figure:
    """Draw the exponents of a law, by way to fit; the paper's are the first row.

    Args:
        law: "loss", "parameters" or "tokens".
    """
    ways = laws.list_fit_methods(law)
    frames = []
    for corpus in CORPORA:
        group = []
        for arch in ARCHITECTURES:
            fits = [laws.find_fit(corpus, arch, way, law) or Interval(*[float("nan")] * 3) for way in ways]
            value = laws.load_paper_value(arch, law)
            group.append(
                make_series(arch, list(range(len(ways) + 1)), [Interval(value, value, value), *fits])
            )
        frames.append((TEXTS[corpus], group))
    what = {"loss": "loss", "parameters": "best number of parameters", "tokens": "best number of bytes"}[law]
    return plots.range_frames(
        ["the paper's Table 3", *("the paper's way" if way == "paper's" else way for way in ways)],
        frames,
        slider="text",
        title=f"The way to fit moves the exponent of compute in the {what}",
        x="exponent",
        y="way to fit",
        alt=f"Exponents of compute in the {what} for four architectures, a row for each way to fit, "
        "with 95 percent intervals. On prose LLaMA, HGRN2 and cosFormer2 lie close together in "
        "most rows and TNL apart; on code they are spread wider. From row to row the exponents of "
        "one model move by as much.",
    )
