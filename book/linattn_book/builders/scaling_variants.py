"""Tables of the page of the scaling study: models that differ from the main grid's in one thing."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from linattn_study.corpora import PAIRS
from linattn_study.findings import laws, losses, recall, variants
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings.figures import NAMES, TEXTS
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import select_ends
from linattn_study.plan import CORPORA
from linattn_study.scaling import Interval
from linattn_study.trial import SIZES

from .generated import render_table
from .scaling_tables import ARCHS, FIXED, LINEAR, about, within

Row = Mapping[str, Any]


def sizes_of(name: str) -> list[str]:
    """In the order of its runs."""
    return list(dict.fromkeys(row["size"] for row in select_ends(name)))


def repetition() -> str:
    """Percent above LLaMA on code: four passes through 58 MB, one through four times as much."""
    lines = []
    for size in reversed(sizes_of("scaling_control")):
        four = [losses.estimate_gap("code", arch, size) for arch in LINEAR]
        (row,) = zip(*(select_ends("scaling_control", size=size, arch=arch) for arch in LINEAR), strict=True)
        one = [variants.compare_with_llama("scaling_control", mine) for mine in row]
        lines.append([f"{size}, four passes", *(within(found, 1) for found in four)])
        lines.append([f"{size}, one", *(within(found, 1) for found in one)])
    return render_table(["size, passes", *ARCHS[1:]], lines)


def heads() -> str:
    """Loss with more heads, and how far that is from the main grid's."""
    lines = []
    for corpus in CORPORA:
        for size in reversed(sizes_of("scaling_heads")):
            for row in select_ends("scaling_heads", corpus=corpus, size=size):
                lines.append(
                    [
                        f"{TEXTS[corpus]}, {size}, {NAMES[row['arch']]}",
                        f"{row['val_loss']:.3f}",
                        within(variants.estimate_change(row), 1),
                        ""
                        if row["arch"] == "llama"
                        else within(variants.compare_with_llama("scaling_heads", row), 1),
                    ]
                )
    return render_table(["text, size, model", "loss", "change, %", "above LLaMA, %"], lines)


def hybrid() -> str:
    """Percent above LLaMA without and with softmax layers."""
    lines = []
    for corpus in CORPORA:
        for size in reversed(sizes_of("scaling_hybrid")):
            for row in select_ends("scaling_hybrid", corpus=corpus, size=size):
                line = [f"{TEXTS[corpus]}, {size}, {NAMES[row['arch']]}"]
                line.append(within(losses.estimate_gap(corpus, row["arch"], size), 1))
                lines.append([*line, within(variants.compare_with_llama("scaling_hybrid", row), 1)])
    return render_table(["text, size, model", "without", "with softmax layers"], lines)


def copies() -> str:
    """Second reading and needles of models of code, without and with softmax layers."""
    lines = []
    for size in reversed(sizes_of("scaling_hybrid")):
        read, found = second("code", "llama", size), by_seed("code", "llama", size, 256)
        lines.append([f"{size}, LLaMA", read, "", found, ""])
        for row in select_ends("scaling_hybrid", corpus="code", size=size):
            arch = row["arch"]
            with_softmax = variants.estimate_needles("scaling_hybrid", row, "easy", 256)
            reads = [second("code", arch, size), again("scaling_hybrid", row)]
            found = by_seed("code", arch, size, 256)
            lines.append([f"{size}, {NAMES[arch]}", *reads, found, percent(with_softmax)])
    return render_table(["size, model", "second reading", "hybrid", "needles, %", "hybrid, %"], lines)


def by_seed(corpus: str, arch: str, size: str, length: int) -> str:
    """Percent of needles found by the models of the main grid, each seed's; with an interval if it is one."""
    rows = losses.select(recall.select_probes(corpus, arch, size, "needle-easy"), length=length)
    seeds = sorted({row["seed"] for row in rows})
    if len(seeds) == 1:
        return percent(recall.estimate_needles(corpus, arch, size, "easy", length))
    found = (fmean(row["accuracy"] for row in losses.select(rows, seed=seed)) for seed in seeds)
    return ", ".join(f"{100 * share:.0f}" for share in found)


def second(corpus: str, arch: str, size: str) -> str:
    """Loss at the second reading, of a model of the main grid."""
    rows = recall.average_by_position(corpus, arch, size, 1024, "twice")
    return f"{next(loss for start, _, loss in rows if start == 768):.3f}"


def again(name: str, row: Row) -> str:
    """The same of another study's."""
    loss = variants.find_second_reading(name, row)
    return "–" if loss is None else f"{loss:.3f}"


def decay() -> str:
    """TNL without decay, with its own, and with one from the data."""
    lines = []
    for corpus in CORPORA:
        for size in reversed(sizes_of("scaling_decay")):
            line = [f"{TEXTS[corpus]}, {size}", about(losses.estimate_loss(corpus, "tnl", size))]
            for kind in ("none", "data"):
                (row,) = select_ends("scaling_decay", corpus=corpus, size=size, tnl_decay=kind)
                line.append(within(variants.estimate_change(row), 1))
            ours = losses.estimate_gap(corpus, "hgrn2", size, base="tnl")
            lines.append([*line, within(ours, 1)])
    return render_table(["text, size", "fixed: loss", "none, %", "from the data, %", "HGRN2, %"], lines)


def shape() -> str:
    """Few wide layers or many narrow ones, as many parameters."""
    lines = []
    for arch in ("llama", "cosformer2"):
        for size in ("6M-3x384", "6M", "6M-12x192", "6M-27x128"):
            layers, width = SIZES[size]
            line = [f"{NAMES[arch]}, {layers}{FIXED}×{FIXED}{width}"]
            for corpus in CORPORA:
                line += _shape(corpus, arch, size)
            lines.append(line)
    return render_table(["model, layers × width", "prose", "code", "second reading", "needles, %"], lines)


def _shape(corpus: str, arch: str, size: str) -> list[str]:
    """Loss, and of code the second reading and the needles that are found."""
    if size == "6M":
        loss, read = losses.estimate_loss(corpus, arch, size), second(corpus, arch, size)
        found = by_seed(corpus, arch, size, 512)
    else:
        (row,) = select_ends("scaling_shape", corpus=corpus, arch=arch, size=size)
        loss, read = variants.estimate_loss(row), again("scaling_shape", row)
        found = percent(variants.estimate_needles("scaling_shape", row, "easy", 512))
    return [about(loss), read, found] if corpus == "code" else [about(loss)]


def percent(found: Interval) -> str:
    """A share and its interval in percent."""
    return within(Interval(*(100 * x for x in found)), 0)


def swapped() -> str:
    """Exponents of loss with the main grid's small models, and with those that have more heads."""
    lines = []
    for corpus in CORPORA:
        for arch in ARCHITECTURES:
            ways = ("paper's", "more heads", "C = 6 N D, more heads")
            found = (laws.find_fit(corpus, arch, way, "loss") for way in ways)
            lines.append([f"{TEXTS[corpus]}, {NAMES[arch]}", *map(within, found)])
    return render_table(["γ", "main grid", "more heads", "more heads, C = 6ND"], lines)


def needles() -> str:
    """Needles found in texts of 1,024 bytes by models that saw many in training, and what a digit costs."""
    name, lines = "scaling_many_needles", []
    for corpus in CORPORA:
        for size in sizes_of(name):
            for row in select_ends(name, corpus=f"{corpus}-many-needles", size=size):
                modes = (variants.estimate_needles(name, row, mode, 1024) for mode in ("easy", "standard"))
                digit = fmean(
                    one["loss"]
                    for one in variants.select_probes(name, row, "needle-standard")
                    if one["length"] == 1024
                )
                line = [f"{TEXTS[corpus]}, {size}, {NAMES[row['arch']]}", *map(percent, modes)]
                lines.append([*line, f"{digit:.2f}"])
    return render_table(["text, size, model", "easy, %", "standard, %", "nats a digit, standard"], lines)


def pair_table() -> str:
    """Values found in multi-query recall at the better rate, of most pairs at both, and the state."""

    def cell(arch: str, model: mqr.Model, n_pairs: int, lr: float) -> str:
        return ", ".join(f"{100 * share:.0f}" for share in mqr.select_accuracies(arch, model, n_pairs, lr))

    lines = []
    for size, shape in mqr.SHAPES.items():
        for arch in ARCHITECTURES:
            for model in (one for one in mqr.list_models(arch) if one.size == size):
                best = mqr.find_best_rate(arch, model)
                (other,) = mqr.has_learned(arch, model).keys() - {best}
                lines.append(
                    [
                        f"{shape}, {mqr.describe_heads(arch, model)}, {NAMES[arch]}",
                        f"{mqr.compute_state_size(arch, model) / 1024:,.0f}",
                        cell(arch, model, PAIRS[0], best),
                        cell(arch, model, PAIRS[-1], best),
                        f"{best:g}",
                        cell(arch, model, PAIRS[-1], other),
                    ]
                )
    first = "layers × width, width of heads, model"
    return render_table(
        [first, "KiB", f"of {PAIRS[0]}, %", f"of {PAIRS[-1]}, %", "rate", f"of {PAIRS[-1]} at the other, %"],
        lines,
    )


LENGTHS = (256, 1024, 4096)  # trained on, at 2M


def lengths() -> str:
    """Percent above LLaMA that was trained on the same length."""
    lines = []
    for corpus in CORPORA:
        for arch in LINEAR:
            found = (_of_length(corpus, arch, T) for T in LENGTHS)
            lines.append([f"{TEXTS[corpus]}, {NAMES[arch]}", *(within(one, 1) for one in found)])
    return render_table(["text, model", *(f"{T:,}" for T in LENGTHS)], lines)


def _of_length(corpus: str, arch: str, T: int) -> Interval | None:
    if T == variants.GRID_LENGTH:
        return losses.estimate_gap(corpus, arch, "2M")
    (row,) = select_ends("scaling_length", corpus=corpus, arch=arch, seq_len=T)
    return variants.compare_with_llama("scaling_length", row)


def windows(length: int, first: int, trained: Sequence[int]) -> str:
    """Loss in the same windows, from a position on, of models trained on different lengths."""
    lines = []
    for corpus in CORPORA:
        for arch in ARCHITECTURES:
            found = (
                f"{variants.average_by_training_length(corpus, arch, T, length, first):.3f}" for T in trained
            )
            lines.append([f"{TEXTS[corpus]}, {NAMES[arch]}", *found])
    return render_table(["text, model", *(f"trained on {T:,}" for T in trained)], lines)
