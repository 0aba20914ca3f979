"""What the study's pages and figures say follows from its committed tables.

So these tests fail when a table changes and the words do not; the words of the page stand in
``book/linattn_book/builders/scaling.md``.
"""

import math

import numpy as np
import pytest

from linattn_study.findings import figures, laws, losses, recall, recall_figures, variants
from linattn_study.findings.losses import ARCHITECTURES, SIZES, select
from linattn_study.loop import COMPILED_FLOPS
from linattn_study.plan import CORPORA
from linattn_study.scaling.fits import FIT_METHODS
from linattn_study.scaling.noise import student_t


def test_a_loss_is_the_mean_of_its_seeds() -> None:
    rows = losses.load_evaluations()
    end = max(row["tokens"] for row in rows)
    mine = [
        row["val_loss"]
        for row in rows
        if (row["corpus"], row["arch"], row["size"], row["tokens"]) == ("code", "tnl", "2M", end)
    ]
    assert len(mine) == 2
    value, low, high = losses.estimate_loss("code", "tnl", "2M")
    assert value == pytest.approx(math.exp(np.log(mine).mean()))
    assert low < value < high


def test_intervals_are_students_and_wider_for_one_seed() -> None:
    spread = losses.estimate_noise("novels", "2M", "hgrn2")
    assert spread.freedom == 3
    _, low, high = losses.estimate_loss("novels", "hgrn2", "2M")
    assert math.log(high / low) == pytest.approx(2 * student_t(3) * spread.sd / math.sqrt(2))
    alone = losses.estimate_noise("novels", "32M", "hgrn2")
    assert alone == losses.estimate_noise("novels", "14M", "llama")
    assert alone.freedom == 6
    _, low, high = losses.estimate_loss("novels", "hgrn2", "32M")
    assert math.log(high / low) == pytest.approx(2 * student_t(6) * alone.sd)


def test_what_is_said_of_tnl_holds_its_spread_and_nothing_else_does() -> None:
    assert losses.estimate_noise("novels", "0.2M", "tnl").freedom == 4
    assert (
        losses.estimate_noise("novels", "0.2M", "tnl").sd
        > 2 * losses.estimate_noise("novels", "0.2M", "llama").sd
    )


@pytest.mark.parametrize("corpus", CORPORA)
def test_llama_is_not_above_itself(corpus: str) -> None:
    gap = losses.estimate_gap(corpus, "llama", "6M")
    assert gap.value == pytest.approx(0.0)
    assert gap.low < 0 < gap.high
    same = losses.estimate_cost(corpus, "llama", 1.05)
    assert same.value == pytest.approx(1.0)
    assert same.low < 1 < same.high


def test_a_cost_is_where_a_loss_is_reached() -> None:
    """By hand, from the rows, without interpolation: within the spacing of evaluations."""
    curves = {}
    for arch in ("llama", "hgrn2"):
        rows = [row for row in losses.load_evaluations() if (row["corpus"], row["arch"]) == ("code", arch)]
        curves[arch] = [(row["flops"], row["val_loss"]) for row in rows]
    at = 1.05 * max(min(loss for _, loss in found) for found in curves.values())
    first = {arch: min(C for C, loss in found if loss <= at) for arch, found in curves.items()}
    ratio = losses.estimate_cost("code", "hgrn2", 1.05).value
    assert ratio == pytest.approx(first["hgrn2"] / first["llama"], rel=0.25)
    causal = losses.estimate_cost("code", "hgrn2", 1.05, "causal").value
    assert 1.1 < causal / ratio < 1.6  # half of attention, at widths from 64 to 512


@pytest.mark.slow
@pytest.mark.parametrize("count", ["all", "causal", "seconds"])
def test_what_the_page_says_of_costs_is_so(count: losses.Count) -> None:
    levels = [1 + step / 100 for step in range(21)]
    of = {
        (corpus, arch): sorted(losses.estimate_cost(corpus, arch, above, count).value for above in levels)
        for corpus in CORPORA
        for arch in ARCHITECTURES[1:]
    }
    assert of["novels", "hgrn2"][-1] < 1
    assert of["novels", "tnl"][10] > 0.9
    assert of["novels", "cosformer2"][0] > 1
    assert all(of["code", arch][0] > 1 for arch in ARCHITECTURES[1:])
    if count != "seconds":
        assert all(2 < of["code", arch][10] < 4.5 for arch in ARCHITECTURES[1:])


def test_what_the_page_says_of_speeds_is_so() -> None:
    for corpus in CORPORA:
        ahead = {
            size: losses.compute_bytes_per_second(corpus, "hgrn2", size)
            / losses.compute_bytes_per_second(corpus, "llama", size)
            for size in SIZES
        }
        assert ahead["2M"] == pytest.approx(1, abs=0.03)
        assert all(1.03 < ahead[size] < 1.15 for size in ("6M", "14M", "32M"))
        for arch in ARCHITECTURES[1:]:  # compiled, at 1,024
            assert losses.compute_bytes_per_second(corpus, arch, "32M") > losses.compute_bytes_per_second(
                corpus, "llama", "32M"
            )
    for size in ("6M", "14M", "32M"):
        flops = {
            arch: select(losses.load_evaluations(), arch=arch, size=size)[0]["flops"]
            for arch in ("llama", "hgrn2")
        }
        assert flops["llama"] / flops["hgrn2"] > 1.2


def test_the_rule_compiles_llama_at_08m_alone_and_all_from_2m_on() -> None:
    for arch in ARCHITECTURES:
        for size in SIZES:
            end = max(select(losses.load_evaluations(), arch=arch, size=size), key=lambda row: row["tokens"])
            small = size == "0.2M" or (size == "0.8M" and arch != "llama")
            assert (end["flops"] < COMPILED_FLOPS) == small


def test_a_loss_that_is_never_reached_has_no_interval() -> None:
    value, low, high = losses.estimate_cost("novels", "hgrn2", 1.0)
    assert value > 0
    assert math.isnan(low)
    assert math.isnan(high)


def test_on_the_way_the_gap_ends_where_the_runs_end() -> None:
    for column in ("val_loss", "train_loss"):
        there = losses.interpolate_gap("code", "tnl", "32M", 232e6, column)
        assert there == pytest.approx(losses.estimate_gap("code", "tnl", "32M", column).value, abs=0.05)
    for corpus in CORPORA:
        for arch in ARCHITECTURES[1:]:
            one, four = (losses.interpolate_gap(corpus, arch, "32M", passes * 58e6) for passes in (1, 4))
            assert (four / one < 0.7) == ((corpus, arch) != ("novels", "tnl"))
    for size in SIZES[1:]:
        for arch in ARCHITECTURES[1:]:
            one, four = (losses.interpolate_gap("code", arch, size, passes * 58e6) for passes in (1, 4))
            assert (four < one) == (size != "0.8M" or arch == "tnl")
    for arch, size in (
        ("tnl", "2M"),
        ("hgrn2", "0.8M"),
        ("hgrn2", "2M"),
        ("cosformer2", "0.8M"),
        ("cosformer2", "2M"),
    ):
        assert losses.interpolate_gap("code", arch, size, 25e6) < losses.interpolate_gap(
            "code", arch, size, 58e6
        )
    assert (
        losses.interpolate_gap("novels", "hgrn2", "32M", 25e6)
        < losses.interpolate_gap("novels", "hgrn2", "32M", 232e6)
        < 0
    )


def test_rates_that_were_tried_are_all_there() -> None:
    tried = losses.load_tuning()
    assert len(tried) == 16
    assert list(tried["novels", "llama", "0.8M"]) == [1e-3, 2e-3, 4e-3, 8e-3, 16e-3]
    for by_rate in tried.values():
        best = min(by_rate, key=by_rate.__getitem__)
        assert min(by_rate) < best < max(by_rate)


def test_every_fit_is_found_or_says_why() -> None:
    failed = {(corpus, arch, way) for corpus, arch, way, why in laws.list_failures() if why}
    for corpus in CORPORA:
        for arch in ARCHITECTURES:
            for way in FIT_METHODS:
                law = "alpha" if way.method == "parametric" else "loss"
                part = "value" if law == "alpha" else "exponent"
                found = laws.find_fit(corpus, arch, way.name, law, part)
                assert (found is None) == ((corpus, arch, way.name) in failed)
    assert laws.load_paper_value("llama", "product") == pytest.approx(1.222)


def test_ranges_of_positions_make_up_the_loss() -> None:
    """By position, weighted, it is the validation loss, up to other windows of the same text."""
    for arch in ARCHITECTURES:
        found = recall.average_by_position("novels", arch, "32M", 1024)
        total = sum((last - first + 1) * loss for first, last, loss in found) / 1024
        assert total == pytest.approx(losses.estimate_loss("novels", arch, "32M").value, rel=5e-3)
        repeated, share = recall.average_strings("novels", arch, "32M", "repeated")
        new, rest = recall.average_strings("novels", arch, "32M", "new")
        assert share + rest == pytest.approx(1.0, abs=1e-5)
        assert share * repeated + rest * new == pytest.approx(total, rel=1e-3)


def test_a_share_of_nothing_has_an_interval_too() -> None:
    value, low, high = recall.compute_wilson_interval(0.0, 160)
    assert (value, low) == (0.0, 0.0)
    assert high == pytest.approx(0.0234, abs=1e-3)  # about 3.84 / 164
    half = recall.compute_wilson_interval(0.5, 160)
    assert half.high - 0.5 == pytest.approx(0.5 - half.low)


def test_seeds_of_the_main_grid_are_about_as_good_as_the_main_grid() -> None:
    found = variants.list_variants("scaling")
    assert len(found) == 80
    by_model: dict[tuple[str, ...], list[float]] = {}
    for row, change in found:
        assert change is not None
        assert change.low < change.value < change.high
        key = tuple(row[name] for name in ("corpus", "arch", "size"))
        by_model.setdefault(key, []).append(math.log1p(change.value / 100))
    assert sorted({len(changes) for changes in by_model.values()}) == [1, 2]
    assert all(abs(sum(changes)) < 1e-9 for changes in by_model.values())
    outside = sum(not change.low < 0 < change.high for _, change in found if change is not None)
    assert outside <= 4  # of 64 with two seeds, one in twenty


def test_what_a_variant_was_asked_is_what_the_model_of_its_row_was_asked() -> None:
    (found,) = variants.select_ends("scaling", size="32M", arch="llama", corpus="code")
    *_, (first, _, loss) = recall.average_by_position("code", "llama", "32M", 1024, "twice")
    assert first == 768
    assert variants.find_second_reading("scaling", found) == loss
    assert variants.estimate_needles("scaling", found, "easy", 512) == recall.estimate_needles(
        "code", "llama", "32M", "easy", 512
    )
    assert variants.estimate_change({**found, "size": "6M-3x384"}) is None
    assert variants.estimate_change({**found, "corpus": "code-large"}) == variants.estimate_change(found)


@pytest.mark.parametrize(
    "make",
    [
        figures.draw_loss_by_size, figures.draw_gaps, figures.draw_envelopes, figures.draw_tuning,
        recall_figures.draw_by_position, recall_figures.draw_beyond,
        lambda: figures.draw_exponents("loss"), lambda: figures.draw_exponents("parameters"),
    ],
)  # fmt: skip
def test_figures_can_be_drawn(make: object) -> None:
    figure = make()  # type: ignore[operator]
    assert len(figure.frames) in (2, 4, 8)
    assert len(figure.layout.meta["alt"]) > 100


def test_what_alternative_texts_say_is_so() -> None:
    for size in SIZES[2:]:
        assert losses.estimate_gap("novels", "hgrn2", size).value < 0
        assert 0.5 < losses.estimate_gap("novels", "tnl", size).value < 2
        assert 2 < losses.estimate_gap("novels", "cosformer2", size).value < 3
    every = [
        losses.estimate_gap("code", arch, size).value for arch in ARCHITECTURES[1:] for size in SIZES[1:]
    ]
    assert 8 < min(every) < 9
    assert 27 < max(every) < 28
    for (corpus, arch, size), rates in losses.load_tuning().items():
        llama = losses.load_tuning()[corpus, "llama", size]
        if arch in ("tnl", "cosformer2"):
            assert min(rates, key=rates.__getitem__) <= min(llama, key=llama.__getitem__) / 2
    for arch in ARCHITECTURES[1:]:
        assert all(12 < losses.estimate_gap("code", arch, size).value < 18.5 for size in ("2M", "6M"))
        assert 8 < losses.estimate_gap("code", arch, "32M").value < 12
        base, mine = (recall.average_by_position("code", name, "32M", 1024) for name in ("llama", arch))
        assert 0.06 < mine[-1][2] - base[-1][2] < 0.09
        base, mine = (recall.average_by_position("novels", name, "32M", 1024) for name in ("llama", arch))
        assert all(abs(b[2] - a[2]) < 0.04 for a, b in zip(base, mine, strict=True))
        late = [(b[2] - a[2]) for a, b in zip(base, mine, strict=True) if a[0] >= 2]
        assert (max(late) < 0) == (arch == "hgrn2")
