"""Tables of the page of the scaling study: from ``linattn_study.findings`` and the paper's own tables."""

from collections.abc import Iterable, Iterator

from linattn_book import results
from linattn_ref.config import paper_config
from linattn_ref.costs.accounting import flops_per_token, n_parameters
from linattn_study.findings import laws, losses, recall
from linattn_study.findings.figures import NAMES, TEXTS
from linattn_study.findings.losses import ARCHITECTURES, SIZES, load_evaluations, select
from linattn_study.plan import CORPORA
from linattn_study.scaling import Interval

from .generated import render_table

LINEAR = ARCHITECTURES[1:]
ARCHS = [NAMES[arch] for arch in ARCHITECTURES]
FIXED = "\N{NO-BREAK SPACE}"  # where a narrow table may not break a line


def within(found: Interval | None, digits: int = 3) -> str:
    """A value and its interval."""
    if found is None:
        return "–"
    value, low, high = (signed(x, digits) for x in found)
    return f"{value} [{low},{FIXED}{high}]"


def signed(x: float, digits: int) -> str:
    """With its sign as print has it, and no sign of zero."""
    return f"{round(x, digits) + 0.0:.{digits}f}".replace("-", "−")


def about(found: Interval, digits: int = 3) -> str:
    """A value and half its interval."""
    half = (found.high - found.low) / 2
    return f"{found.value:.{digits}f} ±{FIXED}{half:.{digits}f}".replace("-", "−")


def sizes() -> str:
    """What was trained: millions of parameters."""
    lines = []
    for size in SIZES:
        rows = [select(load_evaluations(), arch=arch, size=size)[0] for arch in ARCHITECTURES]
        layers, width = rows[0]["n_layers"], rows[0]["d_model"]
        millions = (f"{row['n_params'] / 1e6:.2f}" for row in rows)
        lines.append([size, f"{layers} × {width}", max(1, width // 64), *millions])
    return render_table(["size", "layers × width", "heads", *ARCHS], lines)


def flops() -> str:
    """Million FLOPs a byte."""
    lines = []
    for size in SIZES:
        rows = (select(load_evaluations(), arch=arch, size=size)[0] for arch in ARCHITECTURES)
        lines.append([size, *(f"{row['flops'] / row['tokens'] / 1e6:.1f}" for row in rows)])
    return render_table(["size", *ARCHS], lines)


def rates() -> str:
    """Learning rates of the main grid."""
    lines = []
    for arch in ARCHITECTURES:
        found = [select(load_evaluations(), arch=arch, size=size)[0]["lr"] for size in SIZES]
        lines.append([NAMES[arch], *(f"{1e3 * lr:.2g}" for lr in found)])
    return render_table(["architecture", *SIZES], lines)


def final_losses(corpus: str) -> str:
    """At the end of every run."""
    lines = [
        [size, *(about(losses.estimate_loss(corpus, arch, size)) for arch in ARCHITECTURES)] for size in SIZES
    ]
    return render_table([f"{TEXTS[corpus]}: size", *ARCHS], lines)


def gaps(corpus: str) -> str:
    """Against LLaMA, in percent."""
    lines = [
        [size, *(within(losses.estimate_gap(corpus, arch, size), 1) for arch in LINEAR)] for size in SIZES
    ]
    return render_table([f"{TEXTS[corpus]}: size", *ARCHS[1:]], lines)


def train_gaps() -> str:
    """The same in training loss, of the largest sizes."""
    lines = []
    for corpus in CORPORA:
        for size in SIZES[-3:]:
            found = (losses.estimate_gap(corpus, arch, size, "train_loss") for arch in LINEAR)
            lines.append([f"{TEXTS[corpus]}, {size}", *(within(one, 1) for one in found)])
    return render_table(["text, size", *ARCHS[1:]], lines)


def along() -> str:
    """The same on the way, at 32M: validation loss after some of the bytes."""
    after = (25e6, 58e6, 116e6, 232e6)
    lines = []
    for corpus in CORPORA:
        for arch in LINEAR:
            found = (losses.interpolate_gap(corpus, arch, "32M", tokens) for tokens in after)
            lines.append([f"{TEXTS[corpus]}, {NAMES[arch]}", *(f"{x:.1f}".replace("-", "−") for x in found)])
    return render_table(["text, model", *(f"{tokens / 1e6:.0f} MB" for tokens in after)], lines)


LEVELS = [1 + step / 100 for step in range(21)]  # times the lowest loss that both reach


def costs() -> str:
    """FLOPs and time for equal losses: median and range over losses, and what seeds do to one of them."""
    lines = []
    for corpus in CORPORA:
        for arch in LINEAR:
            line = [f"{TEXTS[corpus]}, {NAMES[arch]}"]
            for count in COUNTS:
                least, middle, most = cost_range(corpus, arch, count)
                line.append(f"{middle:.2f}, {least:.2f} to {most:.2f}")
            lines.append([*line, within(losses.estimate_cost(corpus, arch, 1.05), 2)])
    return render_table(["text, model", *COUNTS.values(), "5 % above lowest"], lines)


COUNTS: dict[losses.Count, str] = {"all": "FLOPs", "causal": "causal FLOPs", "seconds": "time"}


def cost_range(corpus: str, arch: str, count: losses.Count) -> tuple[float, float, float]:
    """FLOPs or time over LLaMA's for equal losses: the least, the median and the most."""
    found = sorted(losses.estimate_cost(corpus, arch, above, count).value for above in LEVELS)
    return found[0], found[len(found) // 2], found[-1]


def strings(size: str) -> str:
    """Loss on repeated and on new strings."""
    lines = []
    for corpus in CORPORA:
        for kind in ("repeated", "new"):
            found = [recall.average_strings(corpus, arch, size, kind) for arch in ARCHITECTURES]
            share = f"{100 * found[0][1]:.1f} %"
            lines.append([f"{TEXTS[corpus]}, {kind}", share, *(f"{loss:.3f}" for loss, _ in found)])
    return render_table(["bytes", "share", *ARCHS], lines)


def twice(size: str) -> str:
    """Second half of a passage of 512 bytes, at the first and at the second reading."""
    lines = []
    for corpus in CORPORA:
        for which, first in (("first", 256), ("second", 768)):
            found = [recall.average_by_position(corpus, arch, size, 1024, "twice") for arch in ARCHITECTURES]
            of_range = (next(loss for start, _, loss in rows if start == first) for rows in found)
            lines.append([f"{TEXTS[corpus]}, {which} reading", *(f"{loss:.3f}" for loss in of_range)])
    return render_table(["text", *ARCHS], lines)


def law_table(law: str) -> str:
    """Exponents: the paper's, and ours found in its way."""
    lines = []
    for arch in ARCHITECTURES:
        ours = (within(laws.find_fit(corpus, arch, "paper's", law)) for corpus in CORPORA)
        theirs = f"{laws.load_paper_value(arch, law):.4f}".replace("-", "−")
        lines.append([NAMES[arch], theirs, *ours])
    name = {"loss": "γ", "parameters": "a", "tokens": "b", "product": "a + b"}[law]
    return render_table([name, "the paper's", "ours, prose", "ours, code"], lines)


def six() -> str:
    """Exponents of loss where compute is 6 N D."""
    lines = [
        [NAMES[arch], *(within(laws.find_fit(corpus, arch, "C = 6 N D", "loss")) for corpus in CORPORA)]
        for arch in ARCHITECTURES
    ]
    return render_table(["γ, C = 6ND", "ours, prose", "ours, code"], lines)


COVERAGE = {  # a heading, and the design and the surface of its runs
    "ours, E = 0": ("study", "pure"),
    "ours, E > 0": ("study", "raised"),
    "the paper's, even in bytes": ("paper, even in tokens", "chinchilla"),
    "the paper's, even in logarithms": ("paper, even in logarithms", "chinchilla"),
}


def coverage() -> str:
    """How often an interval for a holds the truth, on runs like ours and like the paper's."""
    names = {
        "whole_envelope": "all of the envelope",
        "envelope": "where two sizes reach",
        "corners": "corners",
        "iso_flop": "isoFLOP",
        "parametric": "parametric (next section)",
    }
    held = {
        (row["design"], row["surface"], row["method"]): f"{row['held']} of {row['fitted']}"
        for row in results.load("fit_coverage")
        if row["quantity"] == "parameters"
    }
    lines = [
        [words, *(held.get((*made, name), "–") for made in COVERAGE.values())]
        for name, words in names.items()
    ]
    return render_table(["way to fit", *COVERAGE], lines)


def coverage_of_loss() -> str:
    """How often the interval for the exponent of loss holds the truth, in our reading of the paper's way."""
    row = next(
        row
        for row in results.load("fit_coverage")
        if (row["design"], row["surface"], row["method"], row["quantity"])
        == ("study", "pure", "whole_envelope", "loss")
    )
    return f"{row['held']} of {row['trials']} times"


def surfaces() -> str:
    """Parametric fits from two beginnings."""
    lines = []
    for corpus in CORPORA:
        for arch in ARCHITECTURES:
            parts = [
                laws.find_fit(corpus, arch, way, law, "value")
                for way in ("parametric, validation loss", "parametric, after one pass")
                for law in ("irreducible", "beta")
            ]
            lines.append([f"{TEXTS[corpus]}, {NAMES[arch]}", *map(_or_bound, parts)])
    return render_table(
        ["text, model", "E, from 8 MB", "β, from 8 MB", "E, from 58 MB", "β, from 58 MB"], lines
    )


def _or_bound(found: Interval | None) -> str:
    return "0, its bound" if found is not None and found.value < 1e-9 else within(found, 2)


def beyond(size: str) -> str:
    """Loss up to the length trained on, and at the end of windows four times as long."""
    lines = []
    for corpus in CORPORA:
        for words, place in (("512 to 1,023", -3), ("2,048 to 4,095", -1)):
            found = (recall.average_by_position(corpus, arch, size, 4096)[place][2] for arch in ARCHITECTURES)
            lines.append([f"{TEXTS[corpus]}, {words}", *(f"{loss:.2f}" for loss in found)])
    return render_table(["text, positions", *ARCHS], lines)


def needles(corpus: str, arch: str, size: str) -> str:
    """Zero-shot, by length of the text, over depths."""
    lengths = recall.list_lengths()
    lines = [
        [mode, *(_percent(recall.estimate_needles(corpus, arch, size, mode, length)) for length in lengths)]
        for mode in ("easy", "standard", "twice")
    ]
    return render_table(["mode", *(f"{length:,} bytes" for length in lengths)], lines)


def depths(corpus: str, arch: str, size: str, length: int = 1024) -> str:
    """The same by depth, at one length."""
    lines = []
    for mode in ("easy", "standard", "twice"):
        rows = select(recall.select_probes(corpus, arch, size, f"needle-{mode}"), length=length)
        found = sorted((row["depth"], row["accuracy"]) for row in rows)
        lines.append([mode, *(f"{100 * share:.0f} %" for _, share in found)])
    return render_table(["mode", *(f"{depth:g}" for depth, _ in found)], lines)


def _percent(found: Interval) -> str:
    value, low, high = (f"{100 * x:.0f}" for x in found)
    return f"{value} % [{low}, {high}]"


BATCH, LENGTH, LAST_DIGIT = 480, 8192, 0.1  # of the paper's Table 7


def accounting() -> tuple[str, float, float]:
    """Table 7 again; how far off PFLOPs are at most, and parameters, in percent beyond the last digit."""
    lines, pflops_off, off = [], 0.0, 0.0
    for row in results.load("paper_sizes"):
        config = paper_config(str(row["architecture"]), str(row["size"]))
        pflops = flops_per_token(config, LENGTH) * BATCH * LENGTH / 1e15
        millions = n_parameters(config, embedding=False) / 1e6
        theirs = {name: float(row[name] or 0) for name in ("pflops", "parameters")}
        residual = 100 * (millions / theirs["parameters"] - 1)
        beyond = 100 * (abs(millions - theirs["parameters"]) - LAST_DIGIT / 2) / theirs["parameters"]
        pflops_off, off = max(pflops_off, abs(pflops - theirs["pflops"])), max(off, beyond)
        line = [f"{row['size']}, {NAMES[str(row['architecture'])]}", f"{theirs['pflops']}", f"{pflops:.2f}"]
        line += [f"{theirs['parameters']}", f"{millions:.2f}", f"{residual:+.3f} %".replace("-", "−")]
        lines.append(line)
    header = ["size, model", "PFLOPs", "ours", "parameters", "ours", "residual"]
    return render_table(header, lines), pflops_off, off


# --- the paper's own ----------------------------------------------------------------------------------------

PAPERS = {
    "paper_sizes": "Sizes, parameters and PFLOPs a step",
    "paper_fits": "Fitted laws, C in PFLOP/s-days",
    "paper_results": "Common sense reasoning, perplexity, needles, SCROLLS",
    "paper_common_sense": "Common sense reasoning at 7B, by task",
    "paper_niah": "Needle in a haystack",
    "paper_scrolls": "SCROLLS at 7B, by task",
    "paper_shape": "Aspect ratio at 1B",
    "paper_length": "Length of pre-training at 1B",
}


def papers() -> Iterator[tuple[str, str, str, str]]:
    """(title, source, what the columns say, table) of each."""
    for name, title in PAPERS.items():
        rows = results.load(name)
        body = render_table(_words(rows[0]), (map(_cell, row.values()) for row in rows))
        made = results.provenance(name)
        columns = zip(_words(made["columns"]), made["columns"].values(), strict=True)
        meaning = "; ".join(f"*{word}*: {means}" for word, means in columns if word != "architecture")
        yield title, made["source"], f"{meaning}.", body


def _words(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return NAMES.get(value, value)
    return (
        f"{value:,.3g}".replace("-", "−")
        if isinstance(value, float) and abs(value) >= 1e6
        else f"{value}".replace("-", "−")
    )
