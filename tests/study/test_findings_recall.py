"""What the page of the study says of needles that were trained for, and of multi-query recall."""

import math
import re

import numpy as np
import pytest
import torch

from linattn_ref.training.tasks import insert_needles
from linattn_study.corpora import PAIRS
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings import recall, recall_figures, variants
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.findings.variants import select_ends as rows
from linattn_study.plan import CORPORA
from linattn_study.probes import DEPTHS


def test_half_of_the_needles_share_a_window_with_their_question() -> None:
    text = torch.randint(97, 123, (2_000_000,), generator=torch.Generator().manual_seed(0)).byte()
    text[::6] = 32
    found = bytes(insert_needles(text, 1024, torch.Generator().manual_seed(0), 4).tolist())
    ends: dict[bytes, list[int]] = {}
    for one in re.finditer(rb"The number of (\w+) is \d{6}", found):
        ends.setdefault(one[1], []).extend(one.span())
    spans = np.array([places[-1] - places[0] for places in ends.values()])
    share = np.clip(1 - spans / 1024, 0, None).mean()
    assert share == pytest.approx(1 / 2, abs=0.04)


def test_what_is_said_of_needles_in_training_is_so() -> None:
    asked = [row for row in recall.load_probes("scaling_needles") if row["probe"].startswith("needle")]
    assert len(asked) == 8 * 3 * 5 * 5
    assert max(row["accuracy"] for row in asked) == 0.0
    assert all(abs(row["loss"] - math.log(10)) < 0.08 for row in asked if row["length"] == 1024)


def test_what_is_said_of_many_needles_is_so() -> None:
    runs = rows("scaling_many_needles")
    assert len(runs) == len(CORPORA) * 2 * len(ARCHITECTURES)
    for row in runs:
        for mode in ("easy", "standard"):
            asked = [
                (one["length"], one["accuracy"])
                for one in variants.select_probes("scaling_many_needles", row, f"needle-{mode}")
            ]
            found = row["corpus"] == "code-many-needles" and row["arch"] == "llama"
            assert all((share > 0.9) == (found and length <= 1024) for length, share in asked)
            assert all(share == 0 for length, share in asked if not found or length > 1024)


def test_zero_shot_frame_is_as_described() -> None:
    found = recall.average_by_depth("code", "llama", "32M", "easy", "scaling")  # depths, lengths
    assert 0.5 <= found[:, :2].min() <= found[:, :2].max() <= 0.75
    assert (found[:2, 2] < 0.3).all()
    assert (found[2:, 2] > 0.6).all()
    assert (found[:, 3:] == 0).all()
    standard = recall.average_by_depth("code", "llama", "32M", "standard", "scaling")
    assert 0.33 < standard[:, :2].min() <= standard[:, :2].max() < 0.57
    assert found[0, 2] == standard[0, 2] == (standard[:, 3:]).max() == 0
    assert min(found[-1, 2], standard[-1, 2]) > 0.6


def share(arch: str, model: mqr.Model, n: int, table: str = mqr.TABLE) -> float:
    """Return the share of n pairs that a model recalls, the mean of its seeds."""
    return mqr.estimate_accuracy(arch, model, n, table).value


WIDE, NARROW = mqr.Model("1.6M"), mqr.Model("1.6M", 16)
DEEP, DEEP_NARROW = mqr.Model("0.8M"), mqr.Model("0.8M", 8)


def test_what_is_said_of_pairs_is_so_of_both_seeds() -> None:
    for arch, model in (("llama", WIDE), ("tnl", NARROW), ("cosformer2", WIDE)):
        assert all(mqr.estimate_accuracy(arch, model, n).low > 0.965 for n in PAIRS)
    assert mqr.estimate_accuracy("tnl", WIDE, 64).high < 0.03
    assert mqr.compute_state_size("tnl", WIDE) == 4 * mqr.compute_state_size("tnl", NARROW)
    for best, worst, model in (
        ("tnl", "hgrn2", NARROW),
        ("tnl", "cosformer2", NARROW),
        ("cosformer2", "hgrn2", WIDE),
        ("hgrn2", "tnl", WIDE),
    ):
        assert mqr.estimate_accuracy(best, model, 64).low > mqr.estimate_accuracy(worst, model, 64).high
    for arch in ARCHITECTURES:
        for model in (one for one in mqr.list_models(arch) if one.size == "0.8M"):
            assert mqr.estimate_accuracy(arch, model, 64).high < 0.1
            more = arch in ("tnl", "cosformer2") and model == DEEP_NARROW
            assert (mqr.estimate_accuracy(arch, model, 4).high > 0.26) == more
            assert any(map(any, mqr.has_learned(arch, model).values())) == more


def test_shares_in_alternative_texts_are_so() -> None:
    said = {
        ("tnl", WIDE): (22, 2), ("hgrn2", NARROW): (86, 31), ("hgrn2", WIDE): (87, 33),
        ("cosformer2", NARROW): (90, 34), ("cosformer2", DEEP_NARROW): (67, 9), ("tnl", DEEP_NARROW): (34, 3),
    }  # fmt: skip
    for (arch, model), percents in said.items():
        assert tuple(round(100 * share(arch, model, n)) for n in (4, 64)) == percents
    for arch in ARCHITECTURES:
        for model in (one for one in mqr.list_models(arch) if one.size == "0.8M" and (arch, one) not in said):
            assert share(arch, model, 4) < 0.25


def test_who_falls_still_is_said() -> None:
    """Of the models that have learned, those that are far from the bottom, with each seed."""
    assert mqr.find_learning_spans("llama", WIDE) == [pytest.approx((0.11, 0.16), abs=0.005)] * 2
    falling = {("hgrn2", WIDE), ("hgrn2", NARROW), ("cosformer2", NARROW)}
    for arch in ARCHITECTURES:
        for model in (one for one in mqr.list_models(arch) if one.size == "1.6M"):
            for (_, before), (_, end) in pairs_of_ends(arch, model):
                assert (before - end > 0.1) == ((arch, model) in falling)
    assert {one["lr"] for one in rows(mqr.TABLE)} == {1e-3, 4e-4}


def pairs_of_ends(arch: str, model: mqr.Model) -> list[list[tuple[int, float]]]:
    """Return the last two evaluations of each seed at the best rate: tokens and loss."""
    return [
        points[-2:] for points in mqr.collect_curves(arch, model, mqr.find_best_rate(arch, model)).values()
    ]


def test_who_learns_and_when_is_as_described() -> None:
    """Title and alternative text of the figure: millions of tokens before the first loss that counts."""
    before = {
        (arch, model): [start * 2**28 / 1e6 for start, _ in mqr.find_learning_spans(arch, model)]
        for arch in ARCHITECTURES
        for model in mqr.list_models(arch)
        if any(map(any, mqr.has_learned(arch, model).values()))
    }
    said = {
        ("llama", WIDE): [29, 29], ("tnl", NARROW): [42, 61], ("cosformer2", NARROW): [89, 89],
        ("hgrn2", NARROW): [128, 89], ("cosformer2", WIDE): [128, 89], ("hgrn2", WIDE): [185, 128],
        ("cosformer2", DEEP_NARROW): [185], ("tnl", DEEP_NARROW): [185],
    }  # fmt: skip
    assert before == {one: pytest.approx(starts, rel=0.02) for one, starts in said.items()}
    assert sum(len(mqr.list_models(arch)) for arch in ARCHITECTURES) == 14
    once = [one for one in before if sum(map(any, mqr.has_learned(*one).values())) == 1]
    assert len(once) == 5
    late = [start for starts in before.values() for start in starts if start > 180]
    assert len(late) == 3  # the last three
    ends = [points[-1][1] for points in mqr.collect_curves("tnl", DEEP_NARROW, 4e-4).values()]
    assert ends[1] < mqr.LEARNED < ends[0]  # one seed of the two


def test_where_seeds_are_missing_is_said() -> None:
    for arch in ARCHITECTURES:
        for model in mqr.list_models(arch):
            for lr, seeds in mqr.has_learned(arch, model).items():
                single = arch in ("hgrn2", "cosformer2") and model == DEEP_NARROW and lr == 1e-3
                assert len(seeds) == (1 if single else 2)


def test_any_pair_is_a_level_that_linear_models_of_256_come_to() -> None:
    for arch in ARCHITECTURES:
        for model in (one for one in mqr.list_models(arch) if one.size == "1.6M"):
            for points in mqr.collect_curves(arch, model, mqr.find_best_rate(arch, model)).values():
                near = any(abs(loss - mqr.ANY_PAIR) < 0.25 for _, loss in points)
                assert arch == "llama" or near


def test_what_is_said_of_the_short_training_is_so() -> None:
    for arch, least in (("llama", 0.85), ("cosformer2", 0.85)):
        for size in ("0.4M", "1.6M"):
            assert share(arch, mqr.Model(size), 64, mqr.SHORT) > least
    for size in ("0.4M", "1.6M"):
        assert all(0.7 < n * share("tnl", mqr.Model(size), n, mqr.SHORT) < 1.4 for n in PAIRS)
    assert share("tnl", mqr.Model("0.1M"), 4, mqr.SHORT) < 0.02
    assert all(abs(row["val_loss"] - mqr.GUESS) < 5e-3 for row in rows(mqr.SHORT, arch="hgrn2"))
    (tokens,) = {row["tokens"] for row in rows(mqr.SHORT)}
    assert (tokens, 8 * tokens // (128 * 512)) == (2**27, 2**28 // (32 * 512))  # an eighth of the steps


@pytest.mark.parametrize(
    "make", [recall_figures.draw_by_pairs, recall_figures.draw_by_state, recall_figures.draw_learning]
)
def test_figures_of_pairs_can_be_drawn(make: object) -> None:
    figure = make()  # type: ignore[operator]
    assert len(figure.frames) in (2, 4)
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
    monkeypatch.setattr(recall, "load_probes", lambda table="scaling": tuple(asked))
    found = recall.average_by_depth("code-many-needles", "tnl", "6M", "easy", "any")
    assert found.shape == (5, 3)
    assert found[:, 0] == pytest.approx([depth / 2 + 1 / 16 for depth in DEPTHS])
    assert found[2].tolist() == pytest.approx([0.3125, 0.3125, 0.5625])  # 256, 1,024 and 4,096
    monkeypatch.undo()
    figure = recall_figures.draw_trained_needles()
    assert [frame.name for frame in figure.frames[:4]] == ["LLaMA", "TNL", "HGRN2", "cosFormer2"]
