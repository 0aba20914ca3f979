"""What the page of the study says of needles that were trained for, and of multi-query recall."""

import math
import re
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from linattn_ref.findings import pairs, recall, recall_figures, variants
from linattn_ref.findings.losses import ARCHITECTURES, chosen, evaluations
from linattn_ref.findings.variants import ends as rows
from linattn_ref.study.corpora import N_TRAIN, PAIRS
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
    for row in rows("scaling_many_needles"):
        for mode in ("easy", "standard"):
            asked = [
                (one["length"], one["accuracy"])
                for one in variants.asked("scaling_many_needles", row, f"needle-{mode}")
            ]
            found = row["corpus"] == "code-many-needles" and row["arch"] == "llama"
            assert all((share > 0.9) == (found and length <= 1024) for length, share in asked)
            assert all(share == 0 for length, share in asked if not found or length > 1024)


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
    assert all(1.6 < n * pairs.found("cosformer2", pairs.Model("0.1M"), n).value < 2.6 for n in PAIRS)
    learned, rates = [], []
    for arch, size in product(("llama", "cosformer2"), ("0.4M", "1.6M")):
        both = rows(pairs.TABLE, arch=arch, size=size)
        found = {row["lr"]: row["val_loss"] for row in both}
        rates.append(sum(loss < 1 for loss in found.values()))
        best = min(found, key=found.__getitem__)
        curve = chosen(evaluations(pairs.TABLE), arch=arch, size=size, lr=best)
        before, _ = next(
            pair for pair in pairwise(curve) if pair[0]["val_loss"] > 3.5 > 1 > pair[1]["val_loss"]
        )
        learned.append(before["tokens"] / curve[-1]["tokens"])
    assert sum(share > 0.4 for share in learned) == 3
    assert sum(n == 1 for n in rates) == 3
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
