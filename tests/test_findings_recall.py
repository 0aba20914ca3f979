"""What the page of the study says of needles that were trained for, and of multi-query recall."""

import math
import re

import numpy as np
import pytest
import torch

from linattn_ref.findings import pairs, recall, recall_figures, variants
from linattn_ref.findings.losses import ARCHITECTURES
from linattn_ref.findings.variants import ends as rows
from linattn_ref.study.corpora import PAIRS
from linattn_ref.study.plan import CORPORA
from linattn_ref.study.probes import DEPTHS
from linattn_ref.tasks import with_needles


def test_half_of_the_needles_share_a_window_with_their_question() -> None:
    text = torch.randint(97, 123, (2_000_000,), generator=torch.Generator().manual_seed(0)).byte()
    text[::6] = 32
    found = bytes(with_needles(text, 1024, torch.Generator().manual_seed(0), 4).tolist())
    ends: dict[bytes, list[int]] = {}
    for one in re.finditer(rb"The number of (\w+) is \d{6}", found):
        ends.setdefault(one[1], []).extend(one.span())
    spans = np.array([places[-1] - places[0] for places in ends.values()])
    share = np.clip(1 - spans / 1024, 0, None).mean()
    assert share == pytest.approx(1 / 2, abs=0.04)


def test_what_is_said_of_needles_in_training_is_so() -> None:
    asked = [row for row in recall.probes("scaling_needles") if row["probe"].startswith("needle")]
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
                for one in variants.asked("scaling_many_needles", row, f"needle-{mode}")
            ]
            found = row["corpus"] == "code-many-needles" and row["arch"] == "llama"
            assert all((share > 0.9) == (found and length <= 1024) for length, share in asked)
            assert all(share == 0 for length, share in asked if not found or length > 1024)


def test_zero_shot_frame_is_as_described() -> None:
    found = recall.by_depth("code", "llama", "32M", "easy", "scaling")  # depths, lengths
    assert 0.5 <= found[:, :2].min() <= found[:, :2].max() <= 0.75
    assert (found[:2, 2] < 0.3).all()
    assert (found[2:, 2] > 0.6).all()
    assert (found[:, 3:] == 0).all()
    standard = recall.by_depth("code", "llama", "32M", "standard", "scaling")
    assert 0.33 < standard[:, :2].min() <= standard[:, :2].max() < 0.57
    assert found[0, 2] == standard[0, 2] == (standard[:, 3:]).max() == 0
    assert min(found[-1, 2], standard[-1, 2]) > 0.6


def share(arch: str, model: pairs.Model, n: int, table: str = pairs.TABLE) -> float:
    return pairs.found(arch, model, n, table).value


WIDE, NARROW = pairs.Model("1.6M"), pairs.Model("1.6M", 16)


def test_what_is_said_of_pairs_is_so() -> None:
    for arch, model in (("llama", WIDE), ("tnl", NARROW), ("cosformer2", WIDE)):
        assert all(share(arch, model, n) > 0.97 for n in PAIRS)
    assert share("tnl", WIDE, 64) < 0.03
    assert pairs.held("tnl", WIDE) == 4 * pairs.held("tnl", NARROW)
    assert 0.2 < share("cosformer2", NARROW, 64) < 0.3
    assert share("hgrn2", WIDE, 64) < share("hgrn2", NARROW, 64) < 0.31
    assert share("tnl", NARROW, 64) > share("hgrn2", NARROW, 64) > share("cosformer2", NARROW, 64)
    assert share("cosformer2", WIDE, 64) > share("hgrn2", WIDE, 64) > share("tnl", WIDE, 64)
    for arch in ARCHITECTURES:
        for model in (one for one in pairs.models(arch) if one.size == "0.8M"):
            assert share(arch, model, 64) < 0.09
            assert (share(arch, model, 4) > 0.26) == (arch == "cosformer2" and model.n_heads is not None)
            assert (pairs.rates_learned(arch, model) > 0) == (share(arch, model, 4) > 0.26)


def test_who_falls_still_is_said() -> None:
    """Of the models that have left the level of any pair, those that are far from the bottom."""
    assert pairs.crossed("llama", WIDE) == pytest.approx((0.11, 0.16), abs=0.005)
    falling = {
        ("hgrn2", WIDE),
        ("hgrn2", NARROW),
        ("cosformer2", NARROW),
        ("cosformer2", pairs.Model("0.8M", 8)),
    }
    for arch in ARCHITECTURES:
        for model in pairs.models(arch):
            if pairs.rates_learned(arch, model):
                (_, before), (_, end) = pairs.curve(arch, model, pairs.best_rate(arch, model))[-2:]
                assert (before - end > 0.1) == ((arch, model) in falling)
    assert {one["lr"] for one in rows(pairs.TABLE)} == {1e-3, 4e-4}


def test_who_learns_and_when_is_as_described() -> None:
    """Title and alternative text of the figure: millions of tokens before the first loss below any pair."""
    before = {
        (arch, model.size, pairs.head_width(arch, model)): pairs.crossed(arch, model)[0] * 2**28 / 1e6
        for arch in ARCHITECTURES
        for model in pairs.models(arch)
        if pairs.rates_learned(arch, model)
    }
    assert before == pytest.approx(
        {
            ("llama", "1.6M", 64): 29, ("tnl", "1.6M", 16): 42, ("cosformer2", "1.6M", 16): 89,
            ("hgrn2", "1.6M", 16): 128, ("cosformer2", "1.6M", 64): 128, ("hgrn2", "1.6M", 64): 185,
            ("cosformer2", "0.8M", 16): 185,
        },
        rel=0.02,
    )  # fmt: skip
    assert sum(len(pairs.models(arch)) for arch in ARCHITECTURES) == 14


def test_any_pair_is_a_level_that_linear_models_of_256_come_to() -> None:
    for arch in ARCHITECTURES:
        for model in (one for one in pairs.models(arch) if one.size == "1.6M"):
            losses = [loss for _, loss in pairs.curve(arch, model, pairs.best_rate(arch, model))]
            assert (arch == "llama") or any(abs(loss - pairs.ANY_PAIR) < 0.25 for loss in losses)


def test_what_is_said_of_the_short_training_is_so() -> None:
    for arch, least in (("llama", 0.85), ("cosformer2", 0.85)):
        for size in ("0.4M", "1.6M"):
            assert share(arch, pairs.Model(size), 64, pairs.SHORT) > least
    for size in ("0.4M", "1.6M"):
        assert all(0.7 < n * share("tnl", pairs.Model(size), n, pairs.SHORT) < 1.4 for n in PAIRS)
    assert share("tnl", pairs.Model("0.1M"), 4, pairs.SHORT) < 0.02
    assert all(abs(row["val_loss"] - pairs.GUESS) < 5e-3 for row in rows(pairs.SHORT, arch="hgrn2"))
    (tokens,) = {row["tokens"] for row in rows(pairs.SHORT)}
    assert (tokens, 8 * tokens // (128 * 512)) == (2**27, 2**28 // (32 * 512))  # an eighth of the steps


@pytest.mark.parametrize("make", [recall_figures.by_pairs, recall_figures.by_state, recall_figures.learning])
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
    monkeypatch.setattr(recall, "probes", lambda table="scaling": tuple(asked))
    found = recall.by_depth("code-many-needles", "tnl", "6M", "easy", "any")
    assert found.shape == (5, 3)
    assert found[:, 0] == pytest.approx([depth / 2 + 1 / 16 for depth in DEPTHS])
    assert found[2].tolist() == pytest.approx([0.3125, 0.3125, 0.5625])  # 256, 1,024 and 4,096
    monkeypatch.undo()
    figure = recall_figures.trained_needles()
    assert [frame.name for frame in figure.frames[:4]] == ["LLaMA", "TNL", "HGRN2", "cosFormer2"]
