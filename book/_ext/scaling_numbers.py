"""Numbers in the page of the scaling study, of models that differ from the main grid's in one thing."""

import math
from itertools import product
from statistics import fmean

from linattn_ref import results
from linattn_ref.findings import laws, losses, pairs, recall, variants
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import PARTS, RECALL_VOCAB, WITH_NEEDLES
from linattn_ref.study.plan import CORPORA

from .scaling_tables import within
from .scaling_variants import in_windows, rows_of

BESIDE = (
    "scaling_control", "scaling_heads", "scaling_hybrid", "scaling_needles", "scaling_recall",
    "scaling_decay", "scaling_shape", "scaling_length",
)  # fmt: skip


def percent(x: float, digits: int = 1) -> str:
    """With its sign as print has it."""
    return f"{x:.{digits}f} %".replace("-", "−")


def gains(name: str, **wanted: str) -> dict[str, str]:
    """Least and most percent of loss by which runs of a study are below the main grid's."""
    changes = (variants.change(row) for row in rows_of(name, **wanted))
    found = [-change.value for change in changes if change is not None]
    return {"least": percent(min(found)), "most": percent(max(found))}


def opening() -> dict[str, str]:
    """HGRN2's leads on prose, and LLaMA's over all others on code."""
    three, later = ARCHITECTURES[1:], losses.SIZES[2:]
    far = [abs(losses.gap("novels", arch, size).value) for arch in three for size in later]
    leads = [gap for size in losses.SIZES if (gap := losses.gap("novels", "hgrn2", size)).value < 0]

    wider = []
    for arch in three:
        (row,) = rows_of("scaling_length", corpus="code", arch=arch, seq_len=4096)
        long = variants.above_llama("scaling_length", row)
        assert long is not None
        wider.append(long.value / losses.gap("code", arch, "2M").value)

    def behind(size: str) -> str:
        gaps = [losses.gap("code", arch, size).value for arch in three]
        return f"{min(gaps):.0f} to {max(gaps):.0f} %"

    return {
        "prose_most": percent(max(far)),
        "below": str(len(leads)),
        "clear": str(sum(gap.high < 0 for gap in leads)),
        "lead_low": percent(min(-gap.value for gap in leads)),
        "lead_high": percent(max(-gap.value for gap in leads)),
        "code_small": behind("0.8M"),
        "code_large": behind("32M"),
        "wider": f"{max(wider):.1f}",
    }


def claims() -> dict[str, str]:
    """In how many fits parameters grow faster than tokens."""
    faster = []
    for corpus, arch, way in product(CORPORA, ARCHITECTURES, laws.ways("parameters")):
        a, b = (laws.fit(corpus, arch, way, law) for law in ("parameters", "tokens"))
        if a is not None:
            faster.append(a.value > (1 - a.value if b is None else b.value))  # a surface has a + b = 1
    return {"above": str(sum(faster)), "fits": str(len(faster))} | data_decay()


def repeats() -> dict[str, str]:
    """How far final losses at 2M are off, in percent: with the same seed, and between seeds."""
    found = {"repeats": str(sum(len(rows_of(name)) for some in variants.REPEATS.values() for name in some))}
    for corpus, text in (("novels", "prose"), ("code", "code")):
        found[f"same_{text}"] = percent(100 * variants.repeated(corpus, "2M").sd, 2)
        found[f"seeds_{text}"] = percent(100 * losses.noise(corpus, "2M", "hgrn2").sd, 2)
    return found


def repetition() -> dict[str, str]:
    """Deficits with one pass, and how many runs are below the main grid's by more than their interval."""
    above = [variants.above_llama("scaling_control", row) for row in rows_of("scaling_control")]
    left = [one.value for one in above if one is not None and one.value > 0]
    changes = [variants.change(row) for row in rows_of("scaling_control")]
    clear = sum(change is not None and change.high < 0 for change in changes)
    names = {"low": percent(min(left), 0), "high": percent(max(left), 0), "clear": str(clear)}
    return names | gains("scaling_control")


def heads() -> dict[str, str]:
    """TNL's deficits at the smallest sizes, with few heads and with more."""
    found = {"tnl_small": percent(losses.gap("novels", "tnl", "0.2M").value, 0)}
    for corpus, text in (("novels", "prose"), ("code", "code")):
        for size, name in (("0.2M", "small"), ("0.8M", "large")):
            (row,) = rows_of("scaling_heads", corpus=corpus, size=size, arch="tnl")
            gap = variants.above_llama("scaling_heads", row)
            assert gap is not None
            found[f"{text}_{name}"] = percent(gap.value)
    return found


def swapped() -> dict[str, str]:
    """How far exponents of loss on prose move with the heads of small models, and differ without that."""

    def exponent(arch: str, way: str = "paper's") -> float:
        found = laws.fit("novels", arch, way, "loss")
        assert found is not None
        return found.value

    moved = {arch: exponent(arch, "more heads") - exponent(arch) for arch in ARCHITECTURES}
    three = [exponent(arch) for arch in ARCHITECTURES if arch != "tnl"]
    between = max(three) - min(three)
    return {
        "moved": f"{moved['tnl']:.3f}",
        "moved_hgrn2": f"{moved['hgrn2']:.3f}",
        "moved_least": f"{max(abs(moved[arch]) for arch in ('llama', 'cosformer2')):.3f}",
        "between": f"{between:.3f}",
    }


def hybrid() -> dict[str, str]:
    """FLOPs over LLaMA's, and losses on code by position at 14M, in windows four times as long."""
    found = {}
    for size, name in (("2M", "cost_small"), ("14M", "cost_large")):
        (row,) = rows_of("scaling_hybrid", corpus="code", arch="hgrn2", size=size)
        (theirs, *_) = losses.chosen(losses.evaluations(), arch="llama", size=size)
        found[name] = (row["flops"] / row["tokens"]) / (theirs["flops"] / theirs["tokens"])
    for arch, name in (("hgrn2", "mixed"), ("tnl", "mixed_tnl"), ("cosformer2", "mixed_cosformer2")):
        (row,) = rows_of("scaling_hybrid", corpus="code", arch=arch, size="14M")
        by_position = variants.beyond("scaling_hybrid", row)
        found[name] = by_position[-1]
        if name == "mixed":
            found["mixed_before"] = by_position[-3]
    for arch, name in (("llama", "llama"), ("hgrn2", "pure"), ("tnl", "pure_tnl")):
        found[name] = recall.by_position("code", arch, "14M", 4096)[-1][2]
    (row,) = rows_of("scaling_hybrid", corpus="code", arch="cosformer2", size="2M")
    gain = variants.change(row)
    assert gain is not None
    return {name: f"{value:.2f}" for name, value in found.items()} | {"gain": percent(-gain.value, 0)}


def trained_needles() -> dict[str, str]:
    """How many there are in prose, and what a digit costs where they are few."""
    text, every, n = WITH_NEEDLES["novels-many-needles"]
    rows = [row for row in recall.probes("scaling_needles") if row["probe"].startswith("needle")]
    digit = [row["loss"] for row in losses.chosen(rows, length=1024)]
    return {
        "low": f"{min(digit):.2f}",
        "high": f"{max(digit):.2f}",
        "guess": f"{math.log(10):.2f}",
        "needles": f"{round(n * (PARTS[text].train // every), -3):,}",
    }


def pairs_found() -> dict[str, str]:
    ends = {f"{row['val_loss']:.2f}" for row in rows_of(pairs.TABLE, arch="hgrn2")}
    kept = {arch: f"{pairs.held(arch, pairs.Model('0.4M')) / 1024:,.0f}" for arch in ("llama", "cosformer2")}
    return kept | {"guess": f"{math.log(RECALL_VOCAB / 2):.2f}", "hgrn2": " or ".join(sorted(ends))}


def data_decay() -> dict[str, str]:
    return gains("scaling_decay", tnl_decay="data")


def decay() -> dict[str, str]:
    """Beyond the length trained on, at 6M on prose; second readings of code; and who is ahead of whom."""
    found: dict[str, str] = {}
    for kind in ("none", "data"):
        (row,) = rows_of("scaling_decay", corpus="novels", size="6M", tnl_decay=kind)
        by_position = variants.beyond("scaling_decay", row)
        found |= {kind: f"{by_position[-1]:.2f}", f"{kind}_before": f"{by_position[-3]:.2f}"}
    ahead, gains_of_reading = [], dict[str, list[float]](fixed_gain=[], data_gain=[])
    for size in ("2M", "6M"):
        (row,) = rows_of("scaling_decay", corpus="code", size=size, tnl_decay="data")
        value, low, high = variants.above(row, losses.last("code", "hgrn2", size))
        ahead.append(f"{within(Interval(-value, -high, -low), 1)} (at {size})")
        fixed = rows_of("scaling", corpus="code", arch="tnl", size=size)
        gains_of_reading["fixed_gain"].append(fmean(variants.reading("scaling", one) for one in fixed))
        gains_of_reading["data_gain"].append(variants.reading("scaling_decay", row))
    tnl = [losses.gap("novels", "cosformer2", size, base="tnl").value for size in losses.SIZES[2:]]
    found |= {"ahead": " and ".join(ahead), "cos_least": percent(min(tnl)), "cos_most": percent(max(tnl))}
    words = {name: " and ".join(percent(x, 0) for x in some) for name, some in gains_of_reading.items()}
    return found | words | data_decay()


def shape() -> dict[str, str]:
    """What three wide layers cost, and 27 narrow ones."""
    cost = {}
    for name, layers in (("wide", "3x384"), ("deep", "27x128")):
        for row in rows_of("scaling_shape", size=f"6M-{layers}"):
            change = variants.above(row, losses.last(row["corpus"], row["arch"], "6M"))
            text = "" if row["corpus"] == "novels" else "_code"
            cost[f"{name}_{row['arch']}{text}"] = percent(change.value)
    like = {arch: rows_of("scaling", arch=arch, size="6M")[0] for arch in ("llama", "cosformer2")}
    flops = [row["flops"] / like["llama"]["flops"] for row in rows_of("scaling_shape", arch="llama")]
    size = [100 * (row["n_params"] / like[row["arch"]]["n_params"] - 1) for row in rows_of("scaling_shape")]
    cost |= {"least": f"{min(flops):.2f}", "most": f"{max(flops):.2f}"}
    cost |= {"fewer": percent(-min(size)), "more": percent(max(size))}
    theirs = results.load("paper_shape")
    for arch in ("llama", "cosformer2"):
        found = [float(row["niah_easy"] or 0) for row in losses.chosen(theirs, architecture=arch)]
        cost[f"{arch}_shapes"] = f"{min(found):.0f} to {max(found):.0f} %"
    return cost


def origin() -> dict[str, str]:
    """What was trained beside the main grid."""
    made = {name: results.provenance(name)["source_hash"][:12] for name in BESIDE}
    tuning = sum(len(rows_of(name)) for name in ("scaling_lr", "scaling_lr_edges"))
    return {
        "tuning": str(tuning),
        "others": str(sum(len(rows_of(name)) for name in BESIDE)),
        "other_hash": "`, `".join(sorted(set(made.values()))),
        "names": ", ".join(f"`{name}`" for name in BESIDE),
    }


def length() -> dict[str, str]:
    """Losses of LLaMA and HGRN2 on code by length trained on; what HGRN2 loses with short windows."""
    found = {}
    for arch in ("llama", "hgrn2"):
        found[f"{arch}_{variants.GRID_LENGTH}"] = f"{losses.loss('code', arch, '2M').value:.3f}"
        for row in rows_of("scaling_length", corpus="code", arch=arch):
            found[f"{arch}_{row['seq_len']}"] = f"{row['val_loss']:.3f}"
    for corpus, name in (("novels", "prose"), ("code", "code")):
        short, long = (in_windows(corpus, "hgrn2", T, 1024, 512) for T in (256, 1024))
        found[f"short_{name}"] = percent(100 * (short / long - 1))
    ours, theirs = (in_windows("code", *one, 4096) for one in (("hgrn2", 1024), ("llama", 4096)))
    found["best_hgrn2"] = percent(100 * (ours / theirs - 1), 0)
    needles = {
        (row["architecture"], row["length"]): float(row["niah_easy"] or 0)
        for row in results.load("paper_length")
    }
    best = {
        max((key for key in needles if key[0] == arch), key=needles.__getitem__)[1] for arch, _ in needles
    }
    found["needles"] = f"{min(needles.values()):.0f} to {max(needles.values()):.0f} %"
    return found | {"best": " or ".join(f"{length:,}" for length in best)}
