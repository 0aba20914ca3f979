"""Numbers in the page of the scaling study, of models that differ from the main grid's in one thing."""

import math

from linattn_ref.findings import laws, losses, pairs, recall, variants
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import RECALL_VOCAB

from .scaling_tables import within
from .scaling_variants import rows_of


def percent(x: float, digits: int = 1) -> str:
    """With its sign as print has it."""
    return f"{x:.{digits}f} %".replace("-", "−")


def gains(name: str, **wanted: str) -> dict[str, str]:
    """Least and most percent of loss by which runs of a study are below the main grid's."""
    changes = (variants.change(row) for row in rows_of(name, **wanted))
    found = [-change.value for change in changes if change is not None]
    return {"least": percent(min(found)), "most": percent(max(found))}


def repetition() -> dict[str, str]:
    return gains("scaling_control")


def heads() -> dict[str, str]:
    return {"tnl_small": percent(losses.gap("novels", "tnl", "0.2M").value, 0)}


def swapped() -> dict[str, str]:
    """How far exponents of loss on prose move with the heads of small models, and differ without that."""

    def exponent(arch: str, way: str = "paper's") -> float:
        found = laws.fit("novels", arch, way, "loss")
        assert found is not None
        return found.value

    moved = {a: exponent(a, "more heads") - exponent(a) for a in ("tnl", "hgrn2")}
    three = [exponent(arch) for arch in ARCHITECTURES if arch != "tnl"]
    between = max(three) - min(three)
    return {
        "moved": f"{moved['tnl']:.3f}",
        "moved_hgrn2": f"{moved['hgrn2']:.3f}",
        "between": f"{between:.3f}",
    }


def hybrid() -> dict[str, str]:
    """Loss at the end of windows four times as long, at 14M."""

    def mixed(corpus: str) -> float:
        (row,) = rows_of("scaling_hybrid", corpus=corpus, arch="hgrn2", size="14M")
        return variants.beyond("scaling_hybrid", row)[-1]

    found = {a: recall.by_position("code", a, "14M", 4096)[-1][2] for a in ("llama", "hgrn2")}
    each = {"llama": found["llama"], "pure": found["hgrn2"], "mixed": mixed("code"), "prose": mixed("novels")}
    return {name: f"{loss:.2f}" for name, loss in each.items()}


def trained_needles() -> dict[str, str]:
    rows = [row for row in recall.probes("scaling_needles") if row["probe"].startswith("needle")]
    digit = [row["loss"] for row in losses.chosen(rows, length=1024)]
    return {
        "low": f"{min(digit):.2f}",
        "high": f"{max(digit):.2f}",
        "guess": f"{math.log(10):.2f}",
    }


def pairs_found() -> dict[str, str]:
    ends = {f"{row['val_loss']:.2f}" for row in rows_of(pairs.TABLE, arch="hgrn2")}
    kept = {arch: f"{pairs.held(arch, '1.6M') / 1024:,.0f}" for arch in ("llama", "cosformer2")}
    return kept | {"guess": f"{math.log(RECALL_VOCAB / 2):.2f}", "hgrn2": " or ".join(sorted(ends))}


def data_decay() -> dict[str, str]:
    return gains("scaling_decay", tnl_decay="data")


def decay() -> dict[str, str]:
    rows = {
        kind: rows_of("scaling_decay", corpus="novels", size="6M", tnl_decay=kind)[0]
        for kind in ("none", "data")
    }
    found = {kind: variants.beyond("scaling_decay", row) for kind, row in rows.items()}
    ahead = []
    for size in ("2M", "6M"):
        (row,) = rows_of("scaling_decay", corpus="code", size=size, tnl_decay="data")
        value, low, high = variants.above(row, losses.last("code", "hgrn2", size))
        ahead.append(f"{within(Interval(-value, -high, -low), 1)} (at {size})")
    each = {"none": found["none"][-1], "none_before": found["none"][-3], "data": found["data"][-1]}
    return (
        data_decay() | {"ahead": " and ".join(ahead)} | {name: f"{loss:.2f}" for name, loss in each.items()}
    )


def shape() -> dict[str, str]:
    """What three wide layers cost on prose, and needles of two seeds."""
    cost = {}
    for name, layers in (("wide", "3x384"), ("deep", "27x128")):
        for row in rows_of("scaling_shape", corpus="novels", size=f"6M-{layers}"):
            change = variants.above(row, losses.last("novels", row["arch"], "6M"))
            cost[f"{name}_{row['arch']}"] = percent(change.value)
    rows = losses.chosen(recall.asked("code", "llama", "6M", "needle-easy"), length=512)
    for name, seed in (("one", 0), ("other", 1)):
        found = [row["accuracy"] for row in losses.chosen(rows, seed=seed)]
        cost[name] = percent(100 * sum(found) / len(found), 0)
    return cost


def length() -> dict[str, str]:
    """How much more loss HGRN2 has in positions 512 to 1,023 if it was trained on 256 bytes."""
    found = {}
    for corpus, name in (("novels", "prose"), ("code", "code")):
        (row,) = rows_of("scaling_length", corpus=corpus, arch="hgrn2", seq_len=256)
        short = variants.at("scaling_length", row, 512)
        long = recall.by_position(corpus, "hgrn2", "2M", 1024)[-1][2]
        assert short is not None
        found[f"hgrn2_{name}"] = percent(100 * (short / long - 1))
    return found
