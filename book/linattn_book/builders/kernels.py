"""Write the page of kernels: ``python -m linattn_book.builders.kernels``; ``--check`` compares it.

Its numbers are the rows of ``results.load("kernels")``, ``"kernels_h100"`` (the same benchmark on another
GPU), ``"scans"``, ``"kernels_ladder"`` and ``"whole_models"``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linattn_book import results
from linattn_book.provenance import code_hash

from .generated import render_table, run
from .pictures import Axis, Pair, draw_pairs

Row = dict[str, Any]
MODULES = {  # what decides the rows
    "kernels": ("linattn_benchmarks.kernels.rows",),
    "kernels_h100": ("linattn_benchmarks.kernels.rows",),
    "kernel_host": ("linattn_benchmarks.kernels.host",),
    "scans": ("linattn_benchmarks.kernels.scans",),
    "kernels_ladder": ("linattn_kernels",),
    "whole_models": ("linattn_benchmarks.whole_models",),
}
MODEL_NAMES = {"softmax": "softmax", "hgrn2": "HGRN2", "gla": "GLA", "gated_delta_net": "Gated DeltaNet"}
MIXERS = {"whole_models": ("softmax", "hgrn2", "gla", "gated_delta_net")}  # whose code decides, too

INTRODUCTION = """\
# Kernels

`linattn_kernels` holds Triton kernels under the names of `linattn_ref.ops`: `chunk_linear_attention` and
`chunk_delta_rule` with no decay, with `log_decay` `[H]`, `[B, T, H]` or `[B, T, H, K]`,
`chunk_softmax_attention`, Mamba's scan as `associative_selective_scan`, and a step of each for decoding. A
model runs on them by a switch, `ModelConfig(..., backend="triton")`; the reference stays what they are held
to. They need an NVIDIA GPU of compute capability 8.0 or later, `pip install "linattn-ref[kernels]"`, float32,
bfloat16 or float16, and $K$ (for softmax and the delta rule $V$, too) in 16, 32, 64, 128. For anything else
they raise an error that says what to call instead.

They have been tested and timed on the GPUs named below, and have trained the models of the study. With
$K = V$ of 64 and 128 they compile for capabilities 8.0, 8.9, 10.0 and 12.0, too, and have the shared memory
there that they need. The chunk functions also take packed sequences, `cu_seqlens`; for capability 10.x Triton
compiles that for softmax attention alone, and the others raise an error. Nothing in them depends on the order
in which programs run: two calls, forward and backward, give equal bits.

Each file of `kernels/linattn_kernels` begins with its derivation. `kernels/NOTES.md` is the ledger: what was
tried, what it was predicted to give, and what it gave.
"""

SPEED = """\
## How fast

The tables have our time; that of the fastest right function of
[flash-linear-attention](https://github.com/fla-org/flash-linear-attention) {version} (FLA); and that of
torch's `scaled_dot_product_attention` (SDPA). SDPA is softmax attention: beside linear attention it gives
the scale. All are medians of device time in milliseconds, without what the host takes to launch, on cold
caches, all candidates of a line in turn in one process, for {heads} heads with $K = V$ in {dtype} and decays
in float32. "Floors" says how often the floor fits into our time: a copy, at the {copy} GB/s of the same run,
that reads all inputs and writes all results once. Reading alone is a little faster than a copy. The
arithmetic of softmax attention grows with $T^2$, so it is far from that floor.

FLA tries configurations at the first shape that it meets and keeps its choice for other B and T, which costs
it dearly there; the ledger has an example. So each line is measured after all its choices are forgotten.
{gaps}

A line names the shape of `log_decay`: none, `[H]`, `[B, T, H]` or `[B, T, H, K]`, without brackets."""

PICTURE = """\
<figure class="book-pictures book-pairs">
<figcaption class="book-claim">Linear attention and the delta rule are faster than FLA’s in all {linear}
cases, softmax attention in {softmax_ahead} of {softmax}</figcaption>
{panels}
<figcaption>Dot: our time. Ring: the time of FLA, flash-linear-attention {version}. Both are counted in
floors, the time in which the GPU copies the inputs and results once: 1, the left edge, is as fast as such a
copy. The number at the right says how many times as long FLA takes. A row is batch × tokens, key width.
The floor of softmax attention is out of reach, as its arithmetic grows with the square of the tokens.
{device}.</figcaption>
</figure>"""
GROUPS = {
    "none": "linear attention, no decay", "H": "decay per head", "BTH": "decay per token and head",
    "BTHK": "decay per token and channel",
    "delta rule, none": "delta rule", "delta rule, BTH": "delta rule, decay per token and head",
    "delta rule, BTHK": "delta rule, decay per token and channel",
    "softmax": "softmax attention",
}  # fmt: skip
PANELS = {"fwd": "Forward", "fwdbwd": "Forward and backward"}

MODES = {
    "fwd": "### Forward",
    "fwdbwd": """\
### Forward and backward

With gradients of q, k and v, and of the log decay where every token has its own.""",
    "step": """\
### One token

For decoding. The softmax form reads a cache of 4,096 tokens.""",
}

MEANS = """\
### Over the shapes of an op

Geometric means; "least" is the shape where FLA comes closest to us, or is ahead (below 1)."""

OTHER_GPU = """\
### On another GPU

Tiles and warps were chosen on that GPU. On another one, which has the same cores and a slower memory, with
the same choices and FLA's made anew:"""

HOST = """\
### Before the GPU begins

A call returns when its kernels are in line. What Python, torch and the driver take for that is nearly all
that a small call costs. Milliseconds until it returns, for one sequence of 128 tokens and two heads of 64,
all functions in turn and nothing else on the host. FLA has functions that work chunk by chunk, which are
those of most lines above, and for some ops fused ones, which launch fewer kernels and are the faster ones
on the GPU only where heads are 64 wide or a fault of the compiler forbids the others."""

REPRODUCE = """\
To measure again, on a machine with a GPU, torch, Triton and FLA:

```bash
make bench OUT=DIR PYTHON=python3      # resumes where it was interrupted; prints these tables
make test-gpu OUT=DIR PYTHON=python3   # the ladder below; needs pytest-xdist and pytest-timeout
```
"""

SCANS = """\
### Mamba's scan

The peer is the CUDA kernel of [mamba-ssm](https://github.com/state-spaces/mamba), which has its own order of
dimensions and is given its inputs in that; the third is the reference's tree of compositions by
`torch.compile`. Times are taken as above, in milliseconds: u, $\\Delta$, B and C in bfloat16, without gate
and softplus. The floor counts bytes, and a scan is bound by other things, as chapter 6 says."""

MODELS = """\
## A whole model

24 layers of width 1,024 with 8 heads and a vocabulary of 32,000: our `LanguageModel` on these kernels, and
FLA's model of the same sizes. Training takes 8 sequences of 2,048 tokens, under autocast in bfloat16, with
fused AdamW; we make logits for 2,048 tokens at a time, and again in the backward pass, FLA's model as its
defaults have it. FLA's output layer is not tied to its embedding, which makes its models larger. (FLA's
Gated DeltaNet cannot be trained with this Triton on this GPU, and its HGRN2 and GLA, compiled, had ended in
segmentation faults in the run before.)

- *plain*: as the classes come. Every factor of a gate is kept for the backward, so ours take more memory.
- *lean*: `keep_less` of the benchmark casts what a norm gives once, and computes three things again in the
  backward: the product of an MLP's factors, a norm with its output gate, and HGRN2's gates.
- *blocks*: `block.compile()` for every block. Blocks that differ in nothing but weights are compiled once;
  those of HGRN2 differ in their bounds.
- *compiled*: `torch.compile` of the whole model.

Every model had a GPU to itself, while another one trained on the second GPU of that host. An uncompiled step
waits for Python: its speed is that of the machine's processor as well, so compare within this table alone,
and make nothing of a tenth. The modes of a model follow one another in one process: the second has its
kernels compiled already."""

SHORTLY = (
    "Our {name} trains {lean:.2f} times as fast in the lean mode as FLA's uncompiled, in {memory:.2f} of its "
    "memory, and {compiled:.2f} times as fast as that if ours is compiled."
)

DECODING = """\
Decoding goes on after 512 tokens, in bfloat16, for 1 or 64 sequences, launched from Python or as one CUDA
graph that is replayed. What is launched waits for Python even more, so the models decoded one after another,
with nothing else on the host. Tokens a second:"""

LADDER = """\
## How exact

The ladder that holds the reference to a plain loop holds the kernels to the reference in float64: outputs,
last states and every gradient, with random upstream gradients, poisoned memory, decays down to $e^{{-50}}$,
start states, lengths that are no multiple of anything, a split anywhere. In float32 the bound is the
reference's own, or from 1,000 tokens on twice what the reference is off in float32. In half precision a
kernel multiplies rounded tiles, so the bound is twice what rounding every input once more would cost. On a
CPU, cases of the same registry run in Triton's interpreter with every `make test`, and all kernels are
compiled for Hopper. On the GPU {cases:,} checks ran and {failed} failed. The worst of each dtype, as a share
of its bound:"""


def render_page(root: Path) -> str:
    """Return the whole page."""
    rows, ladder = results.load("kernels"), results.load("kernels_ladder")
    other_gpu = results.load("kernels_h100")
    introduction, how_fast = INTRODUCTION.rstrip(), render_speed(rows)
    heading, _, explained = how_fast.partition("\n\n")
    parts = [introduction, heading, render_picture(rows), explained]
    for mode, heading in MODES.items():
        timed = [row for row in rows if row["mode"] == mode]
        parts += [heading, render_table(*render_times(timed))] if timed else []
    parts += [
        MEANS,
        render_table(*render_means(rows)),
        describe_measurement("kernels", root),
        OTHER_GPU,
        render_table(*render_means(other_gpu)),
        describe_measurement("kernels_h100", root),
        HOST,
        render_table(*render_host(results.load("kernel_host"))),
        describe_measurement("kernel_host", root),
        SCANS,
        render_table(*render_scans(results.load("scans"))),
        describe_measurement("scans", root),
        REPRODUCE.rstrip(),
        MODELS,
        summarize_training(results.load("whole_models")),
        render_table(*render_training(results.load("whole_models"))),
        DECODING,
        render_table(*render_decoding(results.load("whole_models"))),
        describe_measurement("whole_models", root),
    ]
    parts += [
        render_ladder(ladder),
        render_table(*render_shares(ladder)),
        describe_measurement("kernels_ladder", root),
    ]
    return "\n\n".join(parts) + "\n"


def render_speed(rows: Sequence[Row]) -> str:
    dtypes, heads = ({row[name] for row in rows} for name in ("dtype", "H"))
    copies = {f"{row['copy_gbps']:,.0f}" for row in rows if row["copy_gbps"]}
    return SPEED.format(
        version=find_fla_version(),
        dtype=" and ".join(sorted(dtypes)),
        heads=" or ".join(map(str, sorted(heads))),
        copy=" to ".join(sorted({min(copies), max(copies)})),
        gaps=explain_gaps(rows),
    )


def explain_gaps(rows: Sequence[Row]) -> str:
    """Return why FLA has no time in some lines, in the words of its errors; empty if it has one in all."""
    remarks = {str(row["remark"]) for row in rows if row["fla_ms"] is None}
    said = " ".join(f"*{remark.partition('. ')[0]}.*" for remark in sorted(remarks))
    return f"A dash in its column stands where no right function of it ran: {said}" if said else ""


def render_picture(rows: Sequence[Row]) -> str:
    """Return the figure of our times beside FLA's, in floors.

    Raises:
        ValueError: the rows do not show what the figure's title claims.
    """
    both = [row for row in rows if row["mode"] in PANELS and row["ms"] and row["fla_ms"]]
    ahead: dict[bool, list[bool]] = {True: [], False: []}  # by whether it is softmax attention
    for row in both:
        ahead[name_decay(row["op"]) == "softmax"].append(row["fla_ms"] > row["ms"])
    if not all(ahead[False]):
        raise ValueError("rows: FLA is ahead in a case of linear attention, expected none, as the title says")
    return PICTURE.format(
        panels="\n".join(draw_mode(mode, both) for mode in PANELS),
        version=find_fla_version(),
        device=results.provenance("kernels")["device"],
        linear=len(ahead[False]),
        softmax_ahead=sum(ahead[True]), softmax=len(ahead[True]),
    )  # fmt: skip


def draw_mode(mode: str, rows: Sequence[Row]) -> str:
    """Return the panel of a mode: a row for every op and shape."""
    groups: dict[str, list[Pair]] = {}
    for row in (row for row in rows if row["mode"] == mode):
        name = f"{row['B']} × {row['T']:,}, {row['K']}"
        ours, other = row["ms"] / row["floor_ms"], row["fla_ms"] / row["floor_ms"]
        pair = Pair(name, ours, other, format_quotient(row["fla_ms"], row["ms"], 2))
        groups.setdefault(GROUPS[name_decay(row["op"])], []).append(pair)
    linear = [pair for group, pairs in groups.items() if group != GROUPS["softmax"] for pair in pairs]
    softmax = groups[GROUPS["softmax"]]
    low, high = min(pair.ours for pair in linear), max(pair.ours for pair in linear)
    return draw_pairs(
        PANELS[mode],
        f"{PANELS[mode]}, for each shape our time and FLA’s in floors. For linear attention our dot stands "
        f"between {low:.1f} and {high:.1f} and FLA’s ring always to its right, up to "
        f"{max(pair.other for pair in linear):.0f}. For softmax attention both stand far from the floor, "
        f"up to {max(pair.ours for pair in softmax):.0f}, and FLA is ahead in "
        f"{sum(pair.other < pair.ours for pair in softmax)} of {len(softmax)}.",
        groups,
        ("ours", "FLA"),
        Axis("times the floor", 1, 200, {1: "1", 3: "3", 10: "10", 30: "30", 100: "100"}),
        "FLA / ours",
    )


def find_fla_version() -> str:
    return str(results.provenance("kernels")["columns"]["fla_op"].rpartition(" ")[2])


def name_decay(op: str) -> str:
    """Return the decay, with the name of the op where it is the delta rule, or softmax."""
    name, _, decay = op.partition("/")
    return f"delta rule, {decay}" if "delta_rule" in name else decay or "softmax"


def render_times(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for every op and shape."""
    header = ["`log_decay`; B, T, K", "ours", "FLA", "FLA / ours", "SDPA", "floors"]
    lines = []
    for row in rows:
        name = f"{name_decay(row['op'])}; {row['B']}, {row['T']:,}, {row['K']}"
        line = [
            name,
            format_number(row["ms"]),
            format_number(row["fla_ms"]),
            format_quotient(row["fla_ms"], row["ms"], 2),
        ]
        lines.append([*line, format_number(row["sdpa_ms"]), format_quotient(row["ms"], row["floor_ms"], 1)])
    return header, lines


def render_means(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the geometric means of FLA / ours and of floors over the shapes of every op and mode."""
    lines = []
    for op, mode in dict.fromkeys((row["op"], row["mode"]) for row in rows):
        mine = [row for row in rows if (row["op"], row["mode"]) == (op, mode)]
        ratios = [row["fla_ms"] / row["ms"] for row in mine if row["fla_ms"] and row["ms"]]
        floors = [row["ms"] / row["floor_ms"] for row in mine if row["ms"]]
        least = f"{min(ratios):.2f}" if ratios else "–"
        line = [f"{name_decay(op)}, {mode}", str(len(ratios)), geometric_mean(ratios), least]
        lines.append([*line, geometric_mean(floors), f"{max(floors):.1f}"])
    return ["`log_decay`, mode", "shapes", "FLA / ours", "least", "floors", "most"], lines


def render_host(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the host time of ours and of FLA's, the least of its fused functions and of the others."""
    timed = [row for row in rows if row["host_ms"] and row["function"] != "sdpa"]
    lines = []
    for op, mode in dict.fromkeys((row["op"], row["mode"]) for row in timed):
        times = {row["function"]: row["host_ms"] for row in timed if (row["op"], row["mode"]) == (op, mode)}
        ours = times.pop("ours")
        line = [f"{name_decay(op)}, {mode}", f"{ours:.3f}"]
        for fused in (False, True):
            fla = min(
                (x for name, x in times.items() if name.startswith("fused_chunk") is fused), default=None
            )
            line += [format_number(fla), format_quotient(ours, fla, 2)]
        lines.append(line)
    return ["`log_decay`, mode", "ours", "FLA", "ours / FLA", "FLA, fused", "ours / FLA"], lines


def render_scans(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for every mode and shape of the scan."""
    lines = []
    for row in rows:
        shape = ", ".join(f"{row[name]:,}" for name in "BTDN")
        times = [format_number(row[f"{whose}ms"]) for whose in ("", "mamba_", "plain_")]
        ratios = (
            format_quotient(row["mamba_ms"], row["ms"], 2),
            format_quotient(row["ms"], row["floor_ms"], 1),
        )
        lines.append([f"{row['mode']}; {shape}", *times, *ratios])
    header = ["mode; B, T, D, N", "ours", "mamba-ssm", "compiled tree", "mamba-ssm / ours", "floors"]
    return header, lines


def name_model(row: Row) -> str:
    whose, _, mixer = row["model"].partition(" ")
    return f"{MODEL_NAMES[mixer]}, {'ours' if whose == 'ours' else 'FLA'}"


def render_training(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for every model and mode of training, those of one architecture together."""
    trained = [row for row in rows if row["task"] == "train"]
    lines = []
    for row in sorted(trained, key=lambda row: list(MODEL_NAMES).index(row["model"].split()[1])):
        line = [f"{name_model(row)}, {row['mode']}", format_scaled(row["parameters"], 1e6, 0)]
        line += [format_scaled(row["tokens_per_second"], 1e3), format_scaled(row["peak_bytes"], 1e9)]
        lines.append([*line, f"{row['first_seconds']:.1f}"])
    header = ["model, mode", "million parameters", "thousand tokens / s", "GB", "seconds to the first step"]
    return header, lines


def summarize_training(rows: Sequence[Row]) -> str:
    """Return how our models compare with FLA's as they come, where these can be trained."""
    trained = {(row["model"], row["mode"]): row for row in rows if row["task"] == "train"}
    sentences = []
    for mixer, name in MODEL_NAMES.items():
        if (theirs := trained.get((f"fla {mixer}", "plain"))) is None:
            continue
        lean, compiled = trained[f"ours {mixer}", "lean"], trained[f"ours {mixer}", "compiled"]
        speeds = (row["tokens_per_second"] / theirs["tokens_per_second"] for row in (lean, compiled))
        memory = lean["peak_bytes"] / theirs["peak_bytes"]
        said = dict(zip(("lean", "compiled"), speeds, strict=True), name=name, memory=memory)
        sentences.append("- " + SHORTLY.format(**said))
    return "\n".join(sentences)


def render_decoding(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for every model that decodes."""
    modes = [(batch, mode) for batch in (1, 64) for mode in ("launched", "graph")]
    lines: dict[str, list[str]] = {}
    for row in (row for row in rows if row["task"] == "decode"):
        line = lines.setdefault(name_model(row), ["–"] * len(modes))
        line[modes.index((row["batch"], row["mode"]))] = f"{row['tokens_per_second']:,.0f}"
    return ["model", *(f"{batch} {mode}" for batch, mode in modes)], [[k, *v] for k, v in lines.items()]


def format_scaled(x: float | None, unit: float, digits: int = 1) -> str:
    return "–" if x is None else f"{x / unit:.{digits}f}"


def render_ladder(rows: Sequence[Row]) -> str:
    return LADDER.format(cases=sum(row["cases"] for row in rows), failed=sum(row["failed"] for row in rows))


def render_shares(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the largest error / bound of every op and dtype."""
    dtypes = [name for name in ("float32", "bfloat16", "float16") if any(r["dtype"] == name for r in rows)]
    lines = []
    for op, form in dict.fromkeys((row["op"], row["form"]) for row in rows):
        mine = [row for row in rows if (row["op"], row["form"]) == (op, form)]
        line = [f"{op.replace('_', ' ')}, {form}", str(sum(row["cases"] for row in mine))]
        for dtype in dtypes:
            used = [r["bound_used"] for r in mine if r["dtype"] == dtype and r["bound_used"] is not None]
            line.append(f"{max(used):.2f}" if used else "–")
        lines.append(line)
    return ["op, form", "checks", *dtypes], lines


def describe_measurement(name: str, root: Path) -> str:
    """Return where the rows come from, and whether the kernels have changed since."""
    origin = results.provenance(name)
    versions = origin["versions"]
    now = code_hash(*MODULES[name], mixers=MIXERS.get(name, ()))
    same = results.same_code(origin["source_hash"], now)
    older = "" if same else f" **The sources have changed since, to `{now[:12]}`.**"
    return (
        f"Measured on {origin['device']}, {origin['date']}, torch {versions['torch']}, Triton "
        f"{versions['triton']}; sources `{origin['source_hash'][:12]}`; `{results.command(name)}`." + older
    )


def format_number(x: float | None) -> str:
    return "–" if x is None else f"{x:.4f}" if x < 0.1 else f"{x:.3f}" if x < 10 else f"{x:.1f}"


def format_quotient(x: float | None, y: float | None, digits: int) -> str:
    return "–" if x is None or y is None else f"{x / y:.{digits}f}"


def geometric_mean(x: Sequence[float]) -> str:
    """Geometric."""
    return f"{np.exp(np.mean(np.log(x))):.2f}" if x else "–"


if __name__ == "__main__":
    run(render_page, "kernels")
