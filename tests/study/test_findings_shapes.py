"""What the page of the study says of shapes, and of the length of windows in training."""

import math

import numpy as np
import pytest

from linattn_study.findings import losses, recall, variants
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import average_by_training_length
from linattn_study.findings.variants import select_ends as rows
from linattn_study.plan import CORPORA
from linattn_study.scaling.noise import student_t
from tests.study.findings_helpers import holds

LINEAR = ARCHITECTURES[1:]


@pytest.mark.slow
def test_what_is_said_of_shapes_is_so() -> None:
    off = {
        (row["corpus"], row["arch"], row["size"]): variants.compare_losses(
            row, losses.select_final_losses(row["corpus"], row["arch"], "6M")
        )
        for row in rows("scaling_shape")
    }
    for corpus in CORPORA:
        for arch in ("llama", "cosformer2"):
            assert holds(off[corpus, arch, "6M-12x192"])
            assert off[corpus, arch, "6M-3x384"].low > 0
        assert off[corpus, "cosformer2", "6M-3x384"].value > off[corpus, "llama", "6M-3x384"].value
        for arch in ("llama", "cosformer2"):
            assert (off[corpus, arch, "6M-27x128"].low > 0) == ((corpus, arch) != ("code", "cosformer2"))
        for shape, more, less in (("6M-3x384", "cosformer2", "llama"), ("6M-27x128", "llama", "cosformer2")):
            extra = math.log1p(off[corpus, more, shape].value / 100)
            extra -= math.log1p(off[corpus, less, shape].value / 100)
            spread = losses.estimate_noise(corpus, "6M", "llama")
            half = student_t(spread.freedom) * spread.sd * math.sqrt(2 * (1 + 1 / 2))
            assert (extra > half) == (corpus == "novels")
    reads = {
        row["size"]: variants.find_second_reading("scaling_shape", row)
        for row in rows("scaling_shape", corpus="code", arch="llama")
    }
    grid = [
        variants.find_second_reading("scaling", row)
        for row in rows("scaling", corpus="code", arch="llama", size="6M")
    ]
    assert min(reads, key=lambda size: reads[size] or 9.0) == "6M-12x192"
    assert all(loss is not None and loss > 0.26 for loss in grid)
    (seven, *_) = rows("scaling", arch="llama", size="6M")
    times = [row["flops"] / seven["flops"] for row in rows("scaling_shape", arch="llama")]
    assert (round(min(times), 2), round(max(times), 2)) == (0.84, 1.35)
    for row in rows("scaling_shape"):
        (like, *_) = rows("scaling", arch=row["arch"], size="6M")
        assert 0.955 <= round(row["n_params"] / like["n_params"], 3) <= 1.009


def test_loss_in_windows_is_the_mean_over_their_positions() -> None:
    (row,) = (
        one.row for one in variants.list_variants("scaling")
        if (one.row["corpus"], one.row["arch"], one.row["size"]) == ("code", "llama", "32M")
    )  # fmt: skip
    for length in (1024, 4096):
        found = {a: loss for a, _, loss in recall.average_by_position("code", "llama", "32M", length)}
        last, before = found[length // 2], found[length // 4]
        assert variants.average_windows("scaling", row, length, length // 2) == last
        assert variants.average_windows("scaling", row, length, length // 4) == pytest.approx(
            (2 * last + before) / 3
        )
    assert variants.average_windows("scaling", row, 1024) == pytest.approx(row["val_loss"], rel=0.02)
    assert variants.average_windows("scaling", row, 512) is None
    both = rows("scaling", corpus="code", arch="llama", size="2M")
    seeds = [variants.average_windows("scaling", one, 1024) for one in both]
    assert average_by_training_length("code", "llama", 1024, 1024) == pytest.approx(np.mean(seeds))  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_is_said_of_lengths_is_so() -> None:
    for corpus in CORPORA:
        gaps = {}
        for arch in LINEAR:
            for T in (256, 4096):
                (row,) = rows("scaling_length", corpus=corpus, arch=arch, seq_len=T)
                gap = variants.compare_with_llama("scaling_length", row)
                assert gap is not None
                gaps[arch, T] = gap
            gaps[arch, 1024] = losses.estimate_gap(corpus, arch, "2M")
        for arch in LINEAR:
            short, middle, long = (gaps[arch, T] for T in (256, 1024, 4096))
            if corpus == "code":
                assert short.high < middle.value < middle.high < long.low
            elif arch == "tnl":
                assert max(short.low, middle.low, long.low) < min(short.high, middle.high, long.high)
            elif arch == "hgrn2":
                assert long.value < middle.value < short.value < 0
                assert holds(short)
                assert holds(long, middle.value)
            else:
                assert holds(short)
                assert middle.high < long.low
        for arch in LINEAR:
            gain = math.log(
                average_by_training_length(corpus, arch, 1024, 4096)
                / average_by_training_length(corpus, arch, 4096, 4096)
            )
            spread = losses.estimate_noise(corpus, "2M", arch)
            half = student_t(spread.freedom) * spread.sd * math.sqrt(1 + 1 / 2)  # two seeds against one
            if arch == "cosformer2":
                assert gain > half
            else:
                assert gain < 0
                assert (gain < -half) == ((corpus, arch) != ("novels", "hgrn2"))
        spread = losses.estimate_noise(corpus, "2M", "hgrn2")
        off = math.log(
            average_by_training_length(corpus, "hgrn2", 256, 1024, 512)
            / average_by_training_length(corpus, "hgrn2", 1024, 1024, 512)
        )
        assert abs(off) < student_t(spread.freedom) * spread.sd * math.sqrt(1 + 1 / 2)
        excess = {
            a: average_by_training_length(corpus, a, 256, 1024, 512)
            / average_by_training_length(corpus, a, 1024, 1024, 512)
            for a in ARCHITECTURES
        }
        assert excess["hgrn2"] < 1.011 < excess["tnl"] < 1.08
        assert min(excess["llama"], excess["cosformer2"]) > 1.3
