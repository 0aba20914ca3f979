"""What the page of the study says of models that differ from the main grid's in one thing."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from linattn_ref.findings import laws, losses, pairs, recall, recall_figures, variants
from linattn_ref.findings.losses import ARCHITECTURES, chosen
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import N_TRAIN, PAIRS
from linattn_ref.study.plan import CORPORA
from linattn_ref.study.probes import DEPTHS
from linattn_ref.tasks import with_needles

LINEAR = ARCHITECTURES[1:]


def rows(table: str, **wanted: Any) -> list[Mapping[str, Any]]:
    return chosen([one.row for one in variants.variants(table)], **wanted)


def holds(found: Interval | None, value: float = 0.0) -> bool:
    assert found is not None
    return found.low <= value <= found.high


def test_a_variant_is_compared_with_what_it_differs_from_in_one_thing() -> None:
    (row,) = rows("scaling_control", arch="tnl", size="2M")
    (base,) = rows("scaling_control", arch="llama", size="2M")
    found = variants.above_llama("scaling_control", row)
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / base["val_loss"] - 1))
    spread = losses.noise("code", "2M", "tnl")
    wide = losses.T_975[spread.freedom] * spread.sd * math.sqrt(2)  # one seed against one
    assert math.log1p(found.high / 100) - math.log1p(found.value / 100) == pytest.approx(wide)

    (row,) = rows("scaling_hybrid", arch="tnl", size="2M", corpus="code")
    found = variants.above_llama("scaling_hybrid", row)
    mean = math.exp(np.log(losses.last("code", "llama", "2M")).mean())
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / mean - 1))
    assert variants.above_llama("scaling_hybrid", {**row, "seq_len": 77}) is None
    value, low, high = variants.loss(row)
    assert value == pytest.approx(row["val_loss"])
    assert low < value < high
    assert variants.of_the_grid("6M-3x384") == "6M"
    assert [variants.plain(name) for name in ("code-large", "code-many-needles", "novels")] == [
        "code", "code", "novels",
    ]  # fmt: skip


def test_beyond_is_by_position() -> None:
    (found,) = (
        one.row for one in variants.variants("scaling")
        if (one.row["corpus"], one.row["arch"], one.row["size"]) == ("novels", "tnl", "32M")
    )  # fmt: skip
    expected = [loss for _, _, loss in recall.by_position("novels", "tnl", "32M", 4096)]
    assert variants.beyond("scaling", found) == expected


def changed(row: Mapping[str, Any]) -> Interval:
    found = variants.change(row)
    assert found is not None
    return found


def test_deficits_remain_on_fresh_code() -> None:
    for row in rows("scaling_control"):
        assert -5 < changed(row).value < -1
        if row["arch"] == "llama":
            continue
        one, four = variants.above_llama("scaling_control", row), losses.gap("code", row["arch"], row["size"])
        assert one is not None
        assert one.low > 0
        assert one.low < four.high
        assert four.low < one.high
        if row["size"] in ("6M", "14M"):
            assert one.value < four.value


def test_more_heads_bring_tnl_back() -> None:
    for arch, lost in (("tnl", 0.1), ("hgrn2", 0.0)):
        few = losses.chosen(losses.evaluations(), arch=arch, size="0.2M")[0]["n_params"]
        (row, _) = rows("scaling_heads", arch=arch, size="0.2M")
        assert 1 - row["n_params"] / few == pytest.approx(lost, abs=0.015)
    assert all(changed(row).high < 0 for row in rows("scaling_heads", arch="tnl"))
    for row in rows("scaling_heads", arch="hgrn2"):
        assert changed(row).value > max(changed(other).value for other in rows("scaling_heads", arch="tnl"))
        assert (changed(row).high < 0) == (row["corpus"] == "novels")
    for corpus in CORPORA:
        grid, tnl = (laws.fit(corpus, "tnl", way, "loss") for way in ("paper's", "more heads"))
        hgrn2 = laws.fit(corpus, "hgrn2", "more heads", "loss")
        assert grid is not None
        assert tnl is not None
        assert hgrn2 is not None
        assert grid.high < tnl.low
        assert tnl.high < hgrn2.low


def test_what_is_said_of_hybrids_is_so() -> None:
    for row in rows("scaling_hybrid"):
        gap, change = variants.above_llama("scaling_hybrid", row), changed(row)
        assert gap is not None
        assert holds(gap) or row["arch"] != "hgrn2"
        kind = row["arch"], row["size"]
        if row["corpus"] == "novels":
            assert (abs(change.value) < 0.6) == (kind != ("cosformer2", "2M"))
        elif row["arch"] == "cosformer2":
            assert holds(change) == (row["size"] == "14M")
        elif kind == ("tnl", "14M"):
            assert gap.value < 3
    for size in ("2M", "14M"):
        (row,) = rows("scaling_hybrid", corpus="code", arch="hgrn2", size=size)
        read = variants.second_reading("scaling_hybrid", row)
        assert read is not None
        assert read < 0.3
    needles = variants.found_needles("scaling_hybrid", row, "easy", 256)
    assert needles.high < recall.needles("code", "llama", "14M", "easy", 256).low


def test_a_second_reading_helps_no_more_with_a_decay_from_the_data() -> None:
    def gain(table: str, row: Mapping[str, Any]) -> float:
        of = {one["first"]: one["loss"] for one in variants.asked(table, row, "twice")}
        return 1 - of[768] / of[256]

    for size in ("2M", "6M"):
        (data,) = rows("scaling_decay", corpus="code", size=size, tnl_decay="data")
        fixed = rows("scaling", corpus="code", arch="tnl", size=size)
        assert len(fixed) == 2
        assert gain("scaling_decay", data) < np.mean([gain("scaling", row) for row in fixed])


def test_a_third_of_the_needles_share_a_window_with_their_question() -> None:
    text = torch.randint(97, 123, (2_000_000,), generator=torch.Generator().manual_seed(0)).byte()
    text[::6] = 32
    found = bytes(with_needles(text, 2048, torch.Generator().manual_seed(0)).tolist())
    ends: dict[bytes, list[int]] = {}
    for one in re.finditer(rb"The number of (\w+) is \d{6}", found):
        ends.setdefault(one[1], []).extend(one.span())
    spans = np.array([places[-1] - places[0] for places in ends.values()])
    share = np.clip(1 - spans / 1024, 0, None).mean()
    assert share == pytest.approx(1 / 3, abs=0.04)


def test_what_is_said_of_needles_in_training_is_so() -> None:
    asked = [row for row in recall.probes("scaling_needles") if row["probe"].startswith("needle")]
    assert len(asked) == 8 * 3 * 5 * 5
    assert max(row["accuracy"] for row in asked) == 0.0
    assert all(abs(row["loss"] - math.log(10)) < 0.08 for row in asked if row["length"] == 1024)


def test_what_is_said_of_decay_is_so() -> None:
    for row in rows("scaling_decay"):
        change = variants.change(row)
        assert change is not None
        if row["tnl_decay"] == "none":
            assert change.low > 19
            continue
        assert change.high < 0
        theirs = losses.last(row["corpus"], "hgrn2", row["size"])
        against = variants.above(row, theirs)
        assert against.value < 0 if row["corpus"] == "code" else holds(against)
        extra = (
            row["n_params"] / losses.chosen(losses.evaluations(), arch="tnl", size=row["size"])[0]["n_params"]
        )
        assert extra == pytest.approx(1.001, abs=5e-4)
    for size in losses.SIZES[2:]:
        assert losses.gap("novels", "cosformer2", size, base="tnl").low > 0
        assert holds(losses.gap("code", "cosformer2", size, base="tnl"))


def test_what_is_said_of_shapes_is_so() -> None:
    off = {
        (row["corpus"], row["arch"], row["size"]): variants.above(
            row, losses.last(row["corpus"], row["arch"], "6M")
        )
        for row in rows("scaling_shape")
    }
    for corpus in CORPORA:
        for arch in ("llama", "cosformer2"):
            assert holds(off[corpus, arch, "6M-12x192"])
            assert off[corpus, arch, "6M-3x384"].low > 0
        assert off[corpus, "cosformer2", "6M-3x384"].value > off[corpus, "llama", "6M-3x384"].value
        assert off[corpus, "llama", "6M-27x128"].low > 0
    (grid, *_) = rows("scaling", arch="llama", size="6M")
    times = [row["flops"] / grid["flops"] for row in rows("scaling_shape", arch="llama")]
    assert (round(min(times), 2), round(max(times), 2)) == (0.84, 1.35)
    for row in rows("scaling_shape"):
        (like, *_) = rows("scaling", arch=row["arch"], size="6M")
        assert 0.955 <= round(row["n_params"] / like["n_params"], 3) <= 1


def test_what_is_said_of_pairs_is_so() -> None:
    for n in PAIRS:
        assert all(pairs.found("hgrn2", model, n).value < 0.015 for model in pairs.models("hgrn2"))
        for arch, size in (("tnl", "0.4M"), ("tnl", "1.6M"), ("llama", "0.1M")):
            assert 0.7 < n * pairs.found(arch, pairs.Model(size), n).value < 1.4
    for arch in ("llama", "cosformer2"):
        for size in ("0.4M", "1.6M"):
            assert pairs.found(arch, pairs.Model(size), 64).value == pytest.approx(
                pairs.found(arch, pairs.Model(size), 4).value, abs=0.04
            )
            assert pairs.found(arch, pairs.Model(size), 64).value > 0.85
    assert all(abs(row["val_loss"] - math.log(128)) < 5e-3 for row in rows(pairs.TABLE, arch="hgrn2"))
    asked = sum(PAIRS) / len(PAIRS) * N_TRAIN * 2
    assert asked == pytest.approx(6.5e6, rel=0.01)


@pytest.mark.parametrize("make", [recall_figures.by_pairs, recall_figures.by_state])
def test_figures_of_pairs_can_be_drawn(make: object) -> None:
    figure = make()  # type: ignore[operator]
    assert len(figure.frames) in (0, 3)
    assert len(figure.layout.meta["alt"]) > 100


def test_needles_by_depth_are_where_they_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [
        {
            "corpus": f"{corpus}-many-needles", "arch": arch, "size": "6M", "seed": seed,
            "probe": f"needle-{mode}", "length": length, "depth": depth,
            "accuracy": depth / 2 + (length == 4096) / 4 + seed / 8,
        }
        for corpus in CORPORA for arch in ARCHITECTURES for seed in (0, 1)
        for mode in recall_figures.MODES for length in (1024, 4096, 256) for depth in DEPTHS
    ]  # fmt: skip
    monkeypatch.setattr(recall, "probes", lambda table="scaling": tuple(asked))
    found = recall.by_depth("code-many-needles", "tnl", "6M", "easy", "any")
    assert found.shape == (5, 3)
    assert found[:, 0] == pytest.approx([depth / 2 + 1 / 16 for depth in DEPTHS])
    assert found[2].tolist() == pytest.approx([0.3125, 0.3125, 0.5625])  # 256, 1,024 and 4,096
    figure = recall_figures.trained_needles("any")
    assert len(figure.frames) == 8


def test_loss_at_a_position_is_that_of_the_shortest_windows_that_have_it() -> None:
    (row,) = (
        one.row for one in variants.variants("scaling")
        if (one.row["corpus"], one.row["arch"], one.row["size"]) == ("code", "llama", "32M")
    )  # fmt: skip
    for first, length in ((512, 1024), (1024, 4096)):
        expected = [loss for a, _, loss in recall.by_position("code", "llama", "32M", length) if a == first]
        assert [variants.at("scaling", row, first)] == expected
    assert variants.at("scaling", row, 4096) is None


def test_what_is_said_of_lengths_is_so() -> None:
    for arch in LINEAR:
        (row,) = rows("scaling_length", corpus="code", arch=arch, seq_len=256)
        short = variants.above_llama("scaling_length", row)
        assert short is not None
        assert short.high < losses.gap("code", arch, "2M").value
    (row,) = rows("scaling_length", corpus="novels", arch="hgrn2", seq_len=256)
    assert holds(variants.above_llama("scaling_length", row))
    for corpus in CORPORA:
        excess = {}
        for arch in ARCHITECTURES:
            (row,) = rows("scaling_length", corpus=corpus, arch=arch, seq_len=256)
            there = variants.at("scaling_length", row, 512)
            assert there is not None
            excess[arch] = there / recall.by_position(corpus, arch, "2M", 1024)[-1][2] - 1
        assert excess["hgrn2"] < 0.011 < excess["tnl"] < 0.08
        assert min(excess["llama"], excess["cosformer2"]) > 0.3


def test_exponents_on_prose_cannot_be_told_apart_but_tnls_can() -> None:
    for way in ("paper's", "C = 6 N D"):
        found = {(c, a): laws.fit(c, a, way, "loss") for c in CORPORA for a in ARCHITECTURES}
        three = [found["novels", arch] for arch in ARCHITECTURES if arch != "tnl"]
        assert all(one.low < other.high for one in three for other in three if one and other)
        tnl, llama = found["code", "tnl"], found["code", "llama"]
        assert tnl is not None
        assert llama is not None
        assert tnl.high < llama.low
    paper = {arch: laws.fit("code", arch, "paper's", "loss") for arch in ("llama", "hgrn2", "cosformer2")}
    assert all(paper["llama"].high < paper[arch].low for arch in ("hgrn2", "cosformer2"))  # type: ignore[union-attr]
