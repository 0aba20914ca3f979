"""Numbers in the page of the scaling study, of models that differ from the main grid's in one thing."""

import math
from statistics import fmean

import torch

from linattn_book import results
from linattn_ref.training.tasks import insert_needles
from linattn_study.corpora import N_TRAIN, PAIRS, RECIPES, WITH_NEEDLES
from linattn_study.findings import laws, losses, recall, variants
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import average_by_training_length, select_ends
from linattn_study.plan import scaling_states
from linattn_study.scaling import Interval
from linattn_study.trial import Trial

from .scaling_numbers import data_decay, gains, percent
from .scaling_tables import within
from .scaling_variants import pair_table


def repetition() -> dict[str, str]:
    """Deficits with one pass, and how many runs are below the main grid's by more than their interval."""
    above = [variants.compare_with_llama("scaling_control", row) for row in select_ends("scaling_control")]
    left = [one.value for one in above if one is not None and one.value > 0]
    changes = [variants.estimate_change(row) for row in select_ends("scaling_control")]
    clear = sum(change is not None and change.high < 0 for change in changes)
    names = {"low": percent(min(left), 0), "high": percent(max(left), 0), "clear": str(clear)}
    (llama,) = select_ends("scaling_control", arch="llama", size="14M")
    parts = []
    for arch in ("tnl", "hgrn2"):
        (row,) = select_ends("scaling_control", arch=arch, size="14M")
        train, val = (100 * (row[loss] / llama[loss] - 1) for loss in ("train_loss", "val_loss"))
        names |= {f"train_{arch}": percent(train), f"val_{arch}": percent(val)}
        parts.append(100 * (1 - val / losses.estimate_gap("code", arch, "14M").value))
    names |= {"part_low": f"{min(parts):.0f}", "part_high": percent(max(parts), 0)}
    return names | gains("scaling_control")


def heads() -> dict[str, str]:
    """TNL's deficits at the smallest sizes, with few heads and with more."""
    found = {"tnl_small": percent(losses.estimate_gap("novels", "tnl", "0.2M").value, 0)}
    for corpus, text in (("novels", "prose"), ("code", "code")):
        for size, name in (("0.2M", "small"), ("0.8M", "large")):
            (row,) = select_ends("scaling_heads", corpus=corpus, size=size, arch="tnl")
            gap = variants.compare_with_llama("scaling_heads", row)
            assert gap is not None
            found[f"{text}_{name}"] = percent(gap.value)
    for table, size, name in (
        ("scaling_heads", "0.2M", "small"), ("scaling_heads", "0.8M", "large"),
        ("scaling_heads_repeat", "0.8M", "again"),
    ):  # fmt: skip
        (llama,) = select_ends("scaling_heads", corpus="novels", size=size, arch="llama")
        (row,) = select_ends(table, corpus="novels", size=size, arch="hgrn2")
        found[f"hgrn2_{name}"] = percent(variants.compare_losses(row, [llama["val_loss"]]).value)
    return found


def swapped() -> dict[str, str]:
    """How far exponents of loss on prose move with the heads of small models, and differ without that."""

    def exponent(arch: str, way: str = "paper's") -> float:
        found = laws.find_fit("novels", arch, way, "loss")
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
        (row,) = select_ends("scaling_hybrid", corpus="code", arch="hgrn2", size=size)
        (theirs, *_) = losses.select(losses.load_evaluations(), arch="llama", size=size)
        found[name] = (row["flops"] / row["tokens"]) / (theirs["flops"] / theirs["tokens"])
    for arch, name in (("hgrn2", "mixed"), ("tnl", "mixed_tnl"), ("cosformer2", "mixed_cosformer2")):
        (row,) = select_ends("scaling_hybrid", corpus="code", arch=arch, size="14M")
        by_position = variants.select_beyond("scaling_hybrid", row)
        found[name] = by_position[-1]
        if name == "mixed":
            found["mixed_before"] = by_position[-3]
    for arch, name in (("llama", "llama"), ("hgrn2", "pure"), ("tnl", "pure_tnl")):
        found[name] = recall.average_by_position("code", arch, "14M", 4096)[-1][2]
    for arch, name in (("hgrn2", "mixed_small"), ("tnl", "mixed_tnl_small")):
        (row,) = select_ends("scaling_hybrid", corpus="code", arch=arch, size="2M")
        found[name] = variants.select_beyond("scaling_hybrid", row)[-1]
    found["pure_small"] = recall.average_by_position("code", "hgrn2", "2M", 4096)[-1][2]
    (row,) = select_ends("scaling_hybrid", corpus="code", arch="cosformer2", size="2M")
    gain = variants.estimate_change(row)
    assert gain is not None
    words = {"gain": percent(-gain.value, 0)}
    off = []
    for size, name in (("2M", "small"), ("14M", "large")):
        (row,) = select_ends("scaling_hybrid", corpus="novels", arch="hgrn2", size=size)
        pure = recall.average_by_position("novels", "hgrn2", size, 4096)[-1][2]
        off.append(100 * (variants.select_beyond("scaling_hybrid", row)[-1] / pure - 1))
        (row,) = select_ends("scaling_hybrid", corpus="code", arch="hgrn2", size=size)
        share = variants.estimate_needles("scaling_hybrid", row, "easy", 256).value
        words[f"needles_{name}"] = percent(100 * share, 0) + f" ({size})"
    words["prose_off"] = f"{min(off):.0f} to {percent(max(off), 0)}"
    return {name: f"{value:.2f}" for name, value in found.items()} | words


def trained_needles() -> dict[str, str]:
    """How many there are in prose, and what they cost."""
    text, every, n = WITH_NEEDLES["novels-many-needles"]
    plain = torch.full((2**20,), ord(" "), dtype=torch.uint8)
    # as much longer as any text: needles are of one length
    longer = len(insert_needles(plain, every, torch.Generator().manual_seed(0), n)) / len(plain)
    costs = {}
    for corpus, name in (("novels", "prose"), ("code", "code")):
        rows = select_ends("scaling_many_needles", corpus=f"{corpus}-many-needles")
        found = [change.value for row in rows if (change := variants.estimate_change(row)) is not None]
        costs[f"cost_{name}"] = f"{min(found):.1f} to {percent(max(found))}"
    return {
        "share": percent(100 * (1 - 1 / longer), 0),
        "passes": f"{Trial.tokens / (RECIPES[text].train * longer):.1f}",
        "guess": f"{math.log(10):.2f}",
        "needles": f"{round(n * (RECIPES[text].train // every), -3):,}",
    } | costs


def few_needles() -> dict[str, str]:
    """What a digit costs where needles are few."""
    rows = [row for row in recall.load_probes("scaling_needles") if row["probe"].startswith("needle")]
    same: dict[tuple[str, ...], list[float]] = {}
    for row in losses.select(rows, length=1024):
        same.setdefault((row["arch"], row["size"], row["probe"]), []).append(row["loss"])
    digit = [fmean(found) for found in same.values()]
    return {"low": f"{min(digit):.2f}", "high": f"{max(digit):.2f}"}


def _models() -> list[tuple[str, mqr.Model]]:
    return [(arch, model) for arch in ARCHITECTURES for model in mqr.list_models(arch)]


def pairs_trained() -> dict[str, str]:
    """Steps and sequences of multi-query recall, and what is known of its losses."""
    (steps,) = {one.tokens // (one.seq_len * one.batch_size) for one in scaling_states()}
    (passes,) = {one.tokens / (one.seq_len * N_TRAIN) for one in scaling_states()}
    low = min(one.lr for one in scaling_states())
    return {
        "steps": f"{steps:,}",
        "sequences": f"{N_TRAIN:,}",
        "passes": f"{passes:g}",
        "asked": f"{sum(PAIRS) / len(PAIRS) * N_TRAIN * passes / 1e6:.0f}",
        "models": str(len(_models())),
        "lower": str(sum(mqr.find_best_rate(*one) == low for one in _models())),
        "guess": f"{mqr.GUESS:.2f}",
        "any_pair": f"{mqr.ANY_PAIR:.2f}",
        "unlearned": percent(100 * max(_unlearned(PAIRS[-1]))),
    }


def _unlearned(n_pairs: int) -> list[float]:
    """What is found in trainings that have not learned to look up."""
    return [
        share
        for one in _models()
        for lr, select_ends in mqr.has_learned(*one).items()
        for share, learned in zip(mqr.select_accuracies(*one, n_pairs, lr), select_ends, strict=True)
        if not learned
    ]


def pairs_found() -> dict[str, str]:
    """Who learns and when, at how many rates and seeds; what TNL keeps 64 pairs in; the short training."""
    outcomes = {one: mqr.has_learned(*one) for one in _models()}
    settings = [seeds for rates in outcomes.values() for seeds in rates.values()]
    learned = {one: rates for one, rates in outcomes.items() if any(map(any, rates.values()))}
    crossed = sorted(crossing for one in learned for crossing in mqr.find_learning_spans(*one))
    twice = [seeds for seeds in settings if len(seeds) == 2]
    narrow, most = mqr.Model("1.6M", 16), PAIRS[-1]
    short = [
        mqr.estimate_accuracy(arch, mqr.Model("0.4M"), most, mqr.SHORT) for arch in ("llama", "cosformer2")
    ]
    early, late = (
        f"{100 * before:.0f} and {percent(100 * after, 0)}" for before, after in (crossed[0], crossed[-1])
    )
    return {
        "table": pair_table(),
        "models": str(len(_models())),
        "learned": str(len(learned)),
        "trainings": str(sum(map(len, settings))),
        "ended": str(sum(map(sum, settings))),
        "one_rate": str(sum(sum(map(any, rates.values())) == 1 for rates in learned.values())),
        "twice": str(len(twice)),
        "crossings": str(len(crossed)),
        "agree": str(sum(len(set(seeds)) == 1 for seeds in twice)),
        "hgrn2": _both("hgrn2", mqr.Model("1.6M"), most),
        "cosformer2": _both("cosformer2", narrow, most),
        "early": early,
        "late": late,
        "tnl": f"{mqr.compute_state_size('tnl', narrow) / 1024:,.0f}",
        "tnl_found": percent(100 * mqr.estimate_accuracy("tnl", narrow, most).value, 0),
        "llama": f"{mqr.compute_state_size('llama', mqr.Model('1.6M')) / 1024:,.0f}",
        "short": percent(100 * min(found.value for found in short), 0),
    }


def _both(arch: str, model: mqr.Model, n_pairs: int) -> str:
    """What two seeds find."""
    _, low, high = mqr.estimate_accuracy(arch, model, n_pairs)
    return f"{100 * low:.0f} and {percent(100 * high, 0)}"


def decay() -> dict[str, str]:
    """Beyond the length trained on, at 6M on prose; second readings of code; and who is ahead of whom."""
    found: dict[str, str] = {}
    for kind in ("none", "data"):
        (row,) = select_ends("scaling_decay", corpus="novels", size="6M", tnl_decay=kind)
        by_position = variants.select_beyond("scaling_decay", row)
        found |= {kind: f"{by_position[-1]:.2f}", f"{kind}_before": f"{by_position[-3]:.2f}"}
    gains_of_reading = dict[str, list[float]](fixed_gain=[], data_gain=[])
    for size in ("2M", "6M"):
        (row,) = select_ends("scaling_decay", corpus="code", size=size, tnl_decay="data")
        value, low, high = variants.compare_losses(row, losses.select_final_losses("code", "hgrn2", size))
        found[f"ahead_{size}"] = within(Interval(-value, -high, -low), 1)
        fixed = select_ends("scaling", corpus="code", arch="tnl", size=size)
        gains_of_reading["fixed_gain"].append(
            fmean(variants.compute_reading_gain("scaling", one) for one in fixed)
        )
        gains_of_reading["data_gain"].append(variants.compute_reading_gain("scaling_decay", row))
    tnl = [losses.estimate_gap("novels", "cosformer2", size, base="tnl").value for size in losses.SIZES[2:]]
    found |= {"cos_least": percent(min(tnl)), "cos_most": percent(max(tnl))}
    words = {name: " and ".join(percent(x, 0) for x in some) for name, some in gains_of_reading.items()}
    return found | words | data_decay()


def shape() -> dict[str, str]:
    """What three wide layers cost, and 27 narrow ones."""
    cost = {}
    for name, layers in (("wide", "3x384"), ("deep", "27x128")):
        for row in select_ends("scaling_shape", size=f"6M-{layers}"):
            change = variants.compare_losses(
                row, losses.select_final_losses(row["corpus"], row["arch"], "6M")
            )
            text = "" if row["corpus"] == "novels" else "_code"
            cost[f"{name}_{row['arch']}{text}"] = percent(change.value)
    like = {arch: select_ends("scaling", arch=arch, size="6M")[0] for arch in ("llama", "cosformer2")}
    flops = [row["flops"] / like["llama"]["flops"] for row in select_ends("scaling_shape", arch="llama")]
    size = [
        100 * (row["n_params"] / like[row["arch"]]["n_params"] - 1) for row in select_ends("scaling_shape")
    ]
    cost |= {"least": f"{min(flops):.2f}", "most": f"{max(flops):.2f}"}
    cost |= {"fewer": percent(-min(size)), "more": percent(max(size))}
    theirs = results.load("paper_shape")
    for arch in ("llama", "cosformer2"):
        found = [float(row["niah_easy"] or 0) for row in losses.select(theirs, architecture=arch)]
        cost[f"{arch}_shapes"] = f"{min(found):.0f} to {max(found):.0f} %"
    return cost


def length() -> dict[str, str]:
    """Losses of LLaMA and HGRN2 on code by length trained on; what HGRN2 loses with short windows."""
    found = {}
    for arch in ("llama", "hgrn2"):
        found[f"{arch}_{variants.GRID_LENGTH}"] = f"{losses.estimate_loss('code', arch, '2M').value:.3f}"
        for row in select_ends("scaling_length", corpus="code", arch=arch):
            found[f"{arch}_{row['seq_len']}"] = f"{row['val_loss']:.3f}"
    for corpus, name in (("novels", "prose"), ("code", "code")):
        short, long = (average_by_training_length(corpus, "hgrn2", T, 1024, 512) for T in (256, 1024))
        found[f"short_{name}"] = percent(100 * (short / long - 1))
    ours, theirs = (
        average_by_training_length("code", *one, 4096) for one in (("hgrn2", 1024), ("llama", 4096))
    )
    short, long = (average_by_training_length("novels", "hgrn2", T, 4096) for T in (1024, 4096))
    found["long_prose"] = percent(100 * (long / short - 1))
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
