"""Numbers in the page of the scaling study: of its summary, its claims and where it comes from."""

from itertools import product

from linattn_book import results
from linattn_study.findings import laws, losses, speed, variants
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import select_ends
from linattn_study.plan import CORPORA

from .scaling_tables import cost_range, signed, within

BESIDE = (
    "scaling_control", "scaling_heads", "scaling_hybrid", "scaling_needles", "scaling_many_needles",
    "scaling_recall", "scaling_states", "scaling_decay", "scaling_shape", "scaling_length",
)  # fmt: skip
REPEATS = [name for repeats in variants.REPEATS.values() for name in repeats]


def percent(x: float, digits: int = 1) -> str:
    """With its sign as print has it."""
    return f"{signed(x, digits)} %"


def gains(name: str, **wanted: str) -> dict[str, str]:
    """Least and most percent of loss by which runs of a study are below the main grid's."""
    changes = (variants.estimate_change(row) for row in select_ends(name, **wanted))
    found = [-change.value for change in changes if change is not None]
    return {"least": percent(min(found)), "most": percent(max(found))}


def opening() -> dict[str, str]:
    """HGRN2's leads on prose, and LLaMA's over all others on code."""
    three, later = ARCHITECTURES[1:], losses.SIZES[2:]
    far = [abs(losses.estimate_gap("novels", arch, size).value) for arch in three for size in later]
    leads = [gap for size in losses.SIZES if (gap := losses.estimate_gap("novels", "hgrn2", size)).value < 0]

    wider = []
    for arch in three:
        (row,) = select_ends("scaling_length", corpus="code", arch=arch, seq_len=4096)
        long = variants.compare_with_llama("scaling_length", row)
        assert long is not None
        wider.append(long.value / losses.estimate_gap("code", arch, "2M").value)

    def behind(size: str) -> str:
        gaps = [losses.estimate_gap("code", arch, size).value for arch in three]
        return f"{min(gaps):.0f} to {max(gaps):.0f} %"

    return {
        "prose_most": percent(max(far)),
        "below": str(len(leads)),
        "clear": str(sum(gap.high < 0 for gap in leads)),
        "lead_low": percent(min(-gap.value for gap in leads)),
        "lead_high": percent(max(-gap.value for gap in leads)),
        "code_small": behind("0.8M"),
        "code_large": behind("32M"),
        "wider": f"{min(wider):.1f} to {max(wider):.1f}",
    } | costs()


def costs() -> dict[str, str]:
    """What HGRN2 takes for an equal loss; what TNL finds in a small state; generation's cache and speed."""
    least, _, most = cost_range("novels", "hgrn2", "seconds")
    _, code, _ = cost_range("code", "hgrn2", "seconds")
    rows = losses.select(speed.load_rows(), task="generate", length=65_536)
    held = {row["arch"]: row["state_bytes"] for row in rows}
    fast = {row["arch"]: row["tokens_per_second"] for row in rows}
    faster = [fast[arch] / fast["llama"] for arch in ARCHITECTURES[1:]]
    states = [held[arch] / 2**20 for arch in ARCHITECTURES[1:]]
    return {
        "tnl_pairs": percent(100 * mqr.estimate_accuracy("tnl", mqr.Model("1.6M", 16), 64).value, 0),
        "time_low": f"{least:.2f}",
        "time_high": f"{most:.2f}",
        "time_code": f"{code:.1f}",
        "cache": f"{held['llama'] / 2**30:.0f}",
        "states": f"{min(states):.0f} to {max(states):.0f}",
        "faster": f"{min(faster):.0f} to {max(faster):.0f}",
    }


def claims() -> dict[str, str]:
    """In how many fits parameters grow faster than tokens."""
    faster: dict[str, list[bool]] = {}
    for corpus, arch, way in product(CORPORA, ARCHITECTURES, laws.list_fit_methods("parameters")):
        a, b = (laws.find_fit(corpus, arch, way, law) for law in ("parameters", "tokens"))
        if a is not None:  # a surface has a + b = 1
            faster.setdefault(way, []).append(a.value > (1 - a.value if b is None else b.value))
    every, one = [x for found in faster.values() for x in found], faster["isoFLOP"]
    counts = {"above": sum(every), "fits": len(every), "above_isoflop": sum(one), "fits_isoflop": len(one)}
    return {name: str(n) for name, n in counts.items()} | data_decay() | without_decay()


def without_decay() -> dict[str, str]:
    """cosFormer2's loss at 2M above TNL's, by the length of windows, in percent."""
    found = {}
    for corpus, text in (("novels", "prose"), ("code", "code")):
        found[f"cos_{text}_1024"] = within(losses.estimate_gap(corpus, "cosformer2", "2M", base="tnl"), 1)
        for T in (256, 4096):
            (row,), (tnl,) = (
                select_ends("scaling_length", corpus=corpus, arch=arch, seq_len=T)
                for arch in ("cosformer2", "tnl")
            )
            found[f"cos_{text}_{T}"] = within(variants.compare_losses(row, [tnl["val_loss"]]), 1)
    return found


def repeats() -> dict[str, str]:
    """How far final losses at 2M are off, in percent: with the same seed, and between seeds."""
    found = {"repeats": str(sum(len(select_ends(name)) for name in REPEATS))}
    for corpus, text in (("novels", "prose"), ("code", "code")):
        found[f"same_{text}"] = percent(100 * variants.estimate_repeat_noise(corpus, "2M").sd, 2)
        found[f"seeds_{text}"] = percent(100 * losses.estimate_noise(corpus, "2M", "hgrn2").sd, 2)
    found["same_prose_small"] = percent(100 * variants.estimate_repeat_noise("novels", "0.8M").sd, 2)
    found["seeds_prose_small"] = percent(100 * losses.estimate_noise("novels", "0.8M", "hgrn2").sd, 2)
    return found


def data_decay() -> dict[str, str]:
    return gains("scaling_decay", tnl_decay="data")


def origin() -> dict[str, str]:
    """What was trained beside the main grid."""
    made = {name: results.provenance(name)["source_hash"][:12] for name in BESIDE}
    tuning = sum(len(select_ends(name)) for name in ("scaling_lr", "scaling_lr_edges"))
    return {
        "tuning": str(tuning),
        "others": str(sum(len(select_ends(name)) for name in BESIDE)),
        "other_hash": "`, `".join(sorted(set(made.values()))),
        "names": ", ".join(f"`{name}`" for name in BESIDE),
        "repeats": ", ".join(f"`{name}`" for name in REPEATS),
        "speed": results.command("speed"),
        "speed_hash": results.provenance("speed")["source_hash"][:12],
    }
