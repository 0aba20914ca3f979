"""Estimators of the study's findings, on its committed tables and by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from linattn_study.findings import isoflop, laws, losses, recall, speed, variants
from linattn_study.findings.losses import ARCHITECTURES, SIZES, select
from linattn_study.loop import COMPILED_FLOPS
from linattn_study.plan import CORPORA
from linattn_study.scaling import Surface
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
    rows = {arch: select(losses.load_evaluations(), corpus="code", arch=arch) for arch in ("llama", "hgrn2")}
    at = 1.05 * max(min(row["val_loss"] for row in found) for found in rows.values())
    reached = {arch: [row for row in found if row["val_loss"] <= at] for arch, found in rows.items()}
    ratio = losses.estimate_cost("code", "hgrn2", 1.05).value
    first = {arch: min(row["flops"] for row in found) for arch, found in reached.items()}
    assert ratio == pytest.approx(first["hgrn2"] / first["llama"], rel=0.25)
    first = {arch: min(row["n_params"] * row["tokens"] for row in found) for arch, found in reached.items()}
    plain = losses.estimate_cost("code", "hgrn2", 1.05, "6ND").value
    assert plain == pytest.approx(first["hgrn2"] / first["llama"], rel=0.25)
    causal = losses.estimate_cost("code", "hgrn2", 1.05, "causal").value
    assert 1.1 < causal / ratio < 1.6  # half of attention, at widths from 64 to 512


def test_a_loss_that_is_never_reached_has_no_interval() -> None:
    value, low, high = losses.estimate_cost("novels", "hgrn2", 1.0)
    assert value > 0
    assert math.isnan(low)
    assert math.isnan(high)


def test_the_rule_compiles_llama_at_08m_alone_and_all_from_2m_on() -> None:
    for arch in ARCHITECTURES:
        for size in SIZES:
            end = max(select(losses.load_evaluations(), arch=arch, size=size), key=lambda row: row["tokens"])
            small = size == "0.2M" or (size == "0.8M" and arch != "llama")
            assert (end["flops"] < COMPILED_FLOPS) == small


def test_on_the_way_the_gap_ends_where_the_runs_end() -> None:
    for column in ("val_loss", "train_loss"):
        there = losses.interpolate_gap("code", "tnl", "32M", 232e6, column)
        assert there == pytest.approx(losses.estimate_gap("code", "tnl", "32M", column).value, abs=0.05)


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


def test_a_run_is_compared_with_the_grid_by_its_size_and_text() -> None:
    (found,) = variants.select_ends("scaling", size="32M", arch="llama", corpus="code")
    assert variants.estimate_change({**found, "size": "6M-3x384"}) is None
    assert variants.estimate_change({**found, "corpus": "code-large"}) == variants.estimate_change(found)


@pytest.mark.parametrize(
    ("table", "runs"), [("scaling_copying", 48), ("scaling_annealed", 84), ("scaling_recall_state", 204)]
)
def test_a_run_is_one_whatever_is_measured_on_the_way(table: str, runs: int) -> None:
    assert len(variants.list_variants(table)) == runs


def test_a_variant_is_compared_with_what_it_differs_from_in_one_thing() -> None:
    (row,) = variants.select_ends("scaling_control", arch="tnl", size="2M")
    (base,) = variants.select_ends("scaling_control", arch="llama", size="2M")
    found = variants.compare_with_llama("scaling_control", row)
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / base["val_loss"] - 1))
    spread = losses.estimate_noise("code", "2M", "tnl")
    wide = student_t(spread.freedom) * spread.sd * math.sqrt(2)  # one seed against one
    assert math.log1p(found.high / 100) - math.log1p(found.value / 100) == pytest.approx(wide)

    (row,) = variants.select_ends("scaling_hybrid", arch="tnl", size="2M", corpus="code")
    found = variants.compare_with_llama("scaling_hybrid", row)
    mean = math.exp(np.log(losses.select_final_losses("code", "llama", "2M")).mean())
    assert found is not None
    assert found.value == pytest.approx(100 * (row["val_loss"] / mean - 1))
    assert variants.compare_with_llama("scaling_hybrid", {**row, "seq_len": 77}) is None
    assert variants.find_grid_size("6M-3x384") == "6M"
    assert [variants.find_grid_corpus(name) for name in ("code-large", "code-many-needles", "novels")] == [
        "code", "code", "novels",
    ]  # fmt: skip


def test_runs_that_were_repeated_with_their_seed_differ_less_than_seeds_but_differ() -> None:
    first, *again = (
        variants.select_ends(name, corpus="code", arch="tnl", seq_len=256)[0]["val_loss"]
        for name in ("scaling_length", *variants.REPEATS["scaling_length"])
    )
    assert len({first, *again}) == 3
    seeds = losses.estimate_noise("code", "2M", "hgrn2").sd
    assert 0 < variants.estimate_repeat_noise("code", "2M").sd < seeds
    prose = variants.estimate_repeat_noise("novels", "2M")
    assert prose.freedom >= 4 * 8  # five runs of each of eight
    found = variants.estimate_repeat_noise("code", "0.8M")
    pairs = [
        [
            variants.select_ends(name, corpus="code", size="0.8M", arch=arch)[0]["val_loss"]
            for name in ("scaling_heads", "scaling_heads_repeat")
        ]
        for arch in ("tnl", "hgrn2")
    ]
    by_hand = math.sqrt(sum(math.log(a / b) ** 2 / 2 for a, b in pairs) / 2)
    assert found == (pytest.approx(by_hand), 2)
    with pytest.raises(ValueError, match="no run of novels, 6M was repeated"):
        variants.estimate_repeat_noise("novels", "6M")


def test_a_shift_is_the_mean_over_runs_of_their_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = (1.0, 1.3, 1.1, 2.0)

    def repeat(shift: float, wobble: float = 0.0) -> list[dict[str, float]]:
        """Return the runs with losses that are higher by so much, and of odd seeds by some more."""
        return [
            {"seed": seed, "val_loss": x * math.exp(shift + wobble * (seed % 2))}
            for seed, x in enumerate(loss)
        ]

    alone = {"seed": 9, "val_loss": 7.0}
    tables = {"a": [*repeat(0.0), alone], "b": repeat(0.02, 0.01), "c": repeat(0.04, 0.01)}
    monkeypatch.setattr(variants, "select_ends", lambda name: tables[name])
    value, low, high = variants.estimate_shift(["a"], ["b", "c"])
    assert value == pytest.approx(100 * math.expm1(0.035))
    sd = 0.005 * math.sqrt(4 / 3)
    assert math.log((1 + high / 100) / (1 + low / 100)) == pytest.approx(2 * student_t(3) * sd / 2)


# --- isoFLOP by design --------------------------------------------------------------------------------------


def test_the_exponent_of_a_known_surface_is_found_at_its_budgets() -> None:
    """With equal exponents the valley is a parabola's to second order, and even in log N."""
    surface = Surface(0.0, 300.0, 300.0 * 6**0.3, 0.3, 0.3)  # best where N = D / 6, so a is a half
    valleys: list[tuple[Sequence[float], Sequence[float]]] = []
    for budget in isoflop.BUDGETS:
        best = math.sqrt(budget) / 6
        sizes = best * np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        valleys.append((sizes.tolist(), surface(sizes, budget / (6 * sizes)).tolist()))
        at, lowest = isoflop.find_lowest(*valleys[-1])
        assert at == pytest.approx(best)
        assert surface.find_best_size(budget) == pytest.approx(best)
        assert lowest == pytest.approx(valleys[-1][1][2], rel=0.02)  # it is no parabola at the ends
    assert isoflop.fit_exponent(valleys) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="open below"):
        isoflop.find_lowest([1.0, 2.0, 4.0], [1.0, 1.2, 1.1])


def test_a_valley_has_the_runs_of_its_budget_at_their_best_rate() -> None:
    rows = losses.load_evaluations("scaling_isoflop")
    for arch in ("llama", "hgrn2"):
        for budget in isoflop.BUDGETS:
            found = isoflop.select_valley(arch, budget)
            assert len(found.n_params) == 5
            assert found.n_params[0] < isoflop.find_bottom(found)[0] < found.n_params[-1]
            for n, seeds, rate in zip(*found, strict=True):
                mine = select(rows, arch=arch, n_params=n, lr=rate)
                ends = [row for row in mine if row["run_tokens"] * 6 * n == pytest.approx(budget, rel=1e-3)]
                last = max(row["tokens"] for row in ends)
                assert sorted(seeds) == sorted(row["val_loss"] for row in ends if row["tokens"] == last)
    value, low, high = isoflop.estimate_exponent("hgrn2")
    assert 0.5 < low < value < high < 1


def test_what_seeds_may_do_to_an_exponent_is_students() -> None:
    """Two seeds a size with a known spread: the draws spread as errors of the mean do, and some more."""
    rng, sd = np.random.default_rng(0), 0.002

    def make(budget: float) -> isoflop.Valley:
        sizes = math.sqrt(budget) / 6 * np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        logs = 0.1 * np.log(sizes / sizes[2]) ** 2
        return isoflop.Valley(sizes.tolist(), np.exp([[x - sd, x + sd] for x in logs]).tolist(), [1e-3] * 5)

    valleys = list(map(make, isoflop.BUDGETS))
    drawn = isoflop.draw_exponents(valleys, np.random.default_rng(1), 400)
    exact = [
        isoflop.fit_exponent(
            [
                (v.n_params, np.exp(np.log(isoflop.average(v)) + sd * rng.normal(size=5)).tolist())
                for v in valleys
            ]
        )
        for _ in range(400)
    ]
    assert np.median(drawn) == pytest.approx(0.5, abs=0.01)
    assert 1.0 < np.std(drawn) / np.std(exact) < 1.7  # Student's with five degrees of freedom: 1.3


def test_lengths_without_enough_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [(256, 800.0), (512, 400.0), (1024, None)]
    rows = [{"task": "train", "arch": "tnl", "length": n, "tokens_per_second": x} for n, x in measured]
    monkeypatch.setattr(speed, "load_rows", lambda: tuple(rows))
    assert speed.select_curve("train", "tnl") == {256: 800.0, 512: 400.0}
