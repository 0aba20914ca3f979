"""What the page of the study says of models that differ from the main grid's in one thing."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from linattn_ref.findings import laws, losses, pairs, recall, recall_figures, variants
from linattn_ref.findings.losses import ARCHITECTURES, chosen
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import PAIRS
from linattn_ref.study.plan import CORPORA
from linattn_ref.study.probes import DEPTHS

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


def test_fresh_code_changes_no_deficit() -> None:
    for row in rows("scaling_control"):
        change = variants.change(row)
        assert change is not None
        assert -5 < change.value < -1
        if row["arch"] != "llama":
            one = variants.above_llama("scaling_control", row)
            four = losses.gap("code", row["arch"], row["size"])
            assert one is not None
            assert one.low < four.high
            assert four.low < one.high


def test_more_heads_bring_tnl_back() -> None:
    for corpus, least, most in (("novels", -34, -32), ("code", -42, -40)):
        (row,) = rows("scaling_heads", corpus=corpus, arch="tnl", size="0.2M")
        change = variants.change(row)
        assert change is not None
        assert least < change.value < most
    for row in rows("scaling_heads", arch="hgrn2"):
        change = variants.change(row)
        assert change is not None
        assert -7 < change.value < 0
    for corpus in CORPORA:
        before, after = (laws.fit(corpus, "tnl", way, "loss") for way in ("paper's", "more heads"))
        assert before is not None
        assert after is not None
        assert before.high < after.low


def test_what_is_said_of_hybrids_is_so() -> None:
    for row in rows("scaling_hybrid"):
        gap = variants.above_llama("scaling_hybrid", row)
        change = variants.change(row)
        assert gap is not None
        assert change is not None
        if row["arch"] == "hgrn2":
            assert holds(gap)
        if row["corpus"] == "novels":
            assert abs(change.value) < 1.5
        if (row["arch"], row["size"], row["corpus"]) == ("tnl", "14M", "code"):
            assert gap.value < 3
    for size in ("2M", "14M"):
        (row,) = rows("scaling_hybrid", corpus="code", arch="hgrn2", size=size)
        read = variants.second_reading("scaling_hybrid", row)
        assert read is not None
        assert read < 0.3


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


def test_what_is_said_of_shapes_is_so() -> None:
    off = {
        (row["corpus"], row["arch"], row["size"]): variants.above(
            row, losses.last(row["corpus"], row["arch"], "6M")
        )
        for row in rows("scaling_shape")
    }
    for corpus in CORPORA:
        for arch in ("llama", "cosformer2"):
            assert off[corpus, arch, "6M-12x192"].value < 1
            assert off[corpus, arch, "6M-3x384"].low > 0
        assert off[corpus, "cosformer2", "6M-3x384"].value > off[corpus, "llama", "6M-3x384"].value
        assert off[corpus, "llama", "6M-27x128"].low > 0


def test_what_is_said_of_pairs_is_so() -> None:
    for n in PAIRS:
        assert all(pairs.found(arch, "1.6M", n).value > 0.96 for arch in ("llama", "cosformer2"))
        assert all(pairs.found("hgrn2", size, n).value < 0.015 for size in pairs.sizes())
        assert 0.75 < n * pairs.found("tnl", "1.6M", n).value < 1.5
        assert pairs.found("llama", "0.1M", n).value < 0.2
    assert all(abs(row["val_loss"] - math.log(128)) < 5e-3 for row in rows(pairs.TABLE, arch="hgrn2"))


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
