"""What the page of the study says of models that differ from the main grid's in one thing."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from linattn_study.findings import losses, recall, variants
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import select_ends as rows
from linattn_study.plan import CORPORA
from linattn_study.scaling import Interval
from linattn_study.scaling.noise import student_t
from tests.study.findings_helpers import holds

LINEAR = ARCHITECTURES[1:]


def test_a_variant_is_compared_with_what_it_differs_from_in_one_thing() -> None:
    (row,) = rows("scaling_control", arch="tnl", size="2M")
    (base,) = rows("scaling_control", arch="llama", size="2M")
    found = variants.compare_with_llama("scaling_control", row)
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / base["val_loss"] - 1))
    spread = losses.estimate_noise("code", "2M", "tnl")
    wide = student_t(spread.freedom) * spread.sd * math.sqrt(2)  # one seed against one
    assert math.log1p(found.high / 100) - math.log1p(found.value / 100) == pytest.approx(wide)

    (row,) = rows("scaling_hybrid", arch="tnl", size="2M", corpus="code")
    found = variants.compare_with_llama("scaling_hybrid", row)
    mean = math.exp(np.log(losses.select_final_losses("code", "llama", "2M")).mean())
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / mean - 1))
    assert variants.compare_with_llama("scaling_hybrid", {**row, "seq_len": 77}) is None
    value, low, high = variants.estimate_loss(row)
    assert value == pytest.approx(row["val_loss"])
    assert low < value < high
    assert variants.find_grid_size("6M-3x384") == "6M"
    assert [variants.find_grid_corpus(name) for name in ("code-large", "code-many-needles", "novels")] == [
        "code", "code", "novels",
    ]  # fmt: skip


def test_runs_that_were_repeated_with_their_seed_differ_less_than_seeds_but_differ() -> None:
    first, *again = (
        rows(name, corpus="code", arch="tnl", seq_len=256)[0]["val_loss"]
        for name in ("scaling_length", *variants.REPEATS["scaling_length"])
    )
    assert len({first, *again}) == 3
    for corpus in CORPORA:
        assert (
            0
            < variants.estimate_repeat_noise(corpus, "2M").sd
            < losses.estimate_noise(corpus, "2M", "hgrn2").sd
        )
    found = variants.estimate_repeat_noise("code", "0.8M")
    pairs = [
        [
            rows(name, corpus="code", size="0.8M", arch=arch)[0]["val_loss"]
            for name in ("scaling_heads", "scaling_heads_repeat")
        ]
        for arch in ("tnl", "hgrn2")
    ]
    by_hand = math.sqrt(sum(math.log(a / b) ** 2 / 2 for a, b in pairs) / 2)
    assert found == (pytest.approx(by_hand), 2)
    with pytest.raises(ValueError, match="no run of novels, 6M was repeated"):
        variants.estimate_repeat_noise("novels", "6M")


def test_beyond_is_by_position() -> None:
    (found,) = (
        one.row for one in variants.list_variants("scaling")
        if (one.row["corpus"], one.row["arch"], one.row["size"]) == ("novels", "tnl", "32M")
    )  # fmt: skip
    expected = [loss for _, _, loss in recall.average_by_position("novels", "tnl", "32M", 4096)]
    assert variants.select_beyond("scaling", found) == expected


def changed(row: Mapping[str, Any]) -> Interval:
    """Return ``variants.estimate_change`` of a row, which must be there."""
    found = variants.estimate_change(row)
    assert found is not None
    return found


def test_deficits_remain_on_fresh_code() -> None:
    for row in rows("scaling_control"):
        assert -5 < changed(row).value < -1
        if row["arch"] == "llama":
            continue
        one, four = (
            variants.compare_with_llama("scaling_control", row),
            losses.estimate_gap("code", row["arch"], row["size"]),
        )
        assert one is not None
        assert one.low > 0
        assert one.low < four.high
        assert four.low < one.high
        if row["size"] == "14M" and row["arch"] != "cosformer2":
            assert one.value < four.value
            (llama,) = rows("scaling_control", arch="llama", size="14M")
            train = 100 * (row["train_loss"] / llama["train_loss"] - 1)
            assert abs(train - one.value) < 0.7
            assert four.value - losses.estimate_gap("code", row["arch"], "14M", "train_loss").value > 3


def test_more_heads_bring_tnl_back() -> None:
    for arch, lost in (("tnl", 0.1), ("hgrn2", 0.0)):
        few = losses.select(losses.load_evaluations(), arch=arch, size="0.2M")[0]["n_params"]
        (row, _) = rows("scaling_heads", arch=arch, size="0.2M")
        assert 1 - row["n_params"] / few == pytest.approx(lost, abs=0.015)
    assert all(changed(row).high < 0 for row in rows("scaling_heads", arch="tnl"))
    for row in rows("scaling_heads", arch="hgrn2"):
        assert changed(row).value > max(changed(other).value for other in rows("scaling_heads", arch="tnl"))
        assert (changed(row).high < 0) == (row["corpus"] == "novels")
    for row in rows("scaling_heads", arch="cosformer2"):
        assert changed(row).value > 0
        assert (changed(row).low > 0) == ((row["corpus"], row["size"]) != ("code", "0.2M"))  # three of four
    for row in rows("scaling_heads", arch="llama"):
        assert (changed(row).high < 0) == (row["corpus"] == "novels" or row["size"] == "0.2M")
        (hgrn2,) = rows("scaling_heads", arch="hgrn2", corpus=row["corpus"], size=row["size"])
        if row["corpus"] == "novels":
            assert holds(changed(hgrn2), changed(row).value)


def test_what_is_said_of_hybrids_is_so() -> None:
    for row in rows("scaling_hybrid"):
        gap, change = variants.compare_with_llama("scaling_hybrid", row), changed(row)
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
        read = variants.find_second_reading("scaling_hybrid", row)
        assert read is not None
        assert read < 0.3
    pure = {
        (size, c): recall.average_by_position(c, "hgrn2", size, 4096)[-1][2]
        for size in ("2M", "14M")
        for c in CORPORA
    }
    for (size, corpus), loss in pure.items():
        (row,) = rows("scaling_hybrid", corpus=corpus, arch="hgrn2", size=size)
        ratio = variants.select_beyond("scaling_hybrid", row)[-1] / loss
        assert 1.02 < ratio < 1.035 if corpus == "novels" else 0.9 < ratio < 1
        assert (ratio > 0.98) == ((size, corpus) != ("2M", "code"))


def test_a_second_reading_helps_no_more_with_a_decay_from_the_data() -> None:
    for size in ("2M", "6M"):
        (data,) = rows("scaling_decay", corpus="code", size=size, tnl_decay="data")
        fixed = rows("scaling", corpus="code", arch="tnl", size=size)
        assert len(fixed) == 2
        assert variants.compute_reading_gain("scaling_decay", data) < np.mean(
            [variants.compute_reading_gain("scaling", row) for row in fixed]
        )


def test_what_is_said_of_decay_is_so() -> None:
    for row in rows("scaling_decay"):
        change = variants.estimate_change(row)
        assert change is not None
        if row["tnl_decay"] == "none":
            assert change.low > 19
            continue
        if row["corpus"] == "code":
            assert (
                variants.compare_losses(row, losses.select_final_losses("code", "hgrn2", row["size"])).high
                < 0
            ) == (row["size"] == "2M")
        assert change.high < 0
        theirs = losses.select_final_losses(row["corpus"], "hgrn2", row["size"])
        against = variants.compare_losses(row, theirs)
        assert against.value < 0 if row["corpus"] == "code" else holds(against)
        extra = (
            row["n_params"]
            / losses.select(losses.load_evaluations(), arch="tnl", size=row["size"])[0]["n_params"]
        )
        assert extra == pytest.approx(1.001, abs=5e-4)
    for size in losses.SIZES[2:]:
        assert losses.estimate_gap("novels", "cosformer2", size, base="tnl").low > 0
        assert holds(losses.estimate_gap("code", "cosformer2", size, base="tnl"))


@pytest.mark.slow
def test_what_the_opening_says_is_so() -> None:
    for arch in LINEAR:
        (short,) = rows("scaling_length", corpus="code", arch=arch, seq_len=256)
        gap = variants.compare_with_llama("scaling_length", short)
        assert gap is not None
        assert 0.3 < gap.value / losses.estimate_gap("code", arch, "2M").value < 0.56
        (long,) = rows("scaling_length", corpus="code", arch=arch, seq_len=4096)
        gap = variants.compare_with_llama("scaling_length", long)
        assert gap is not None
        assert gap.value / losses.estimate_gap("code", arch, "2M").value > 1.6
        for row in rows("scaling", corpus="code", arch=arch, size="32M"):
            assert 0 < variants.compute_reading_gain("scaling", row) < 20
    for row in rows("scaling", corpus="code", arch="llama", size="32M"):
        assert variants.compute_reading_gain("scaling", row) > 65
    ends = {a: recall.average_by_position("novels", a, "32M", 4096) for a in ARCHITECTURES}
    for arch, ranges in ends.items():
        assert (ranges[-1][2] < ranges[-3][2] + 0.02) == (arch in ("tnl", "hgrn2"))
