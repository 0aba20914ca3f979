"""Multi-query recall as it is read off a table: here one that is made by hand."""

from typing import Any

import pytest

from linattn_study.findings import losses, recall
from linattn_study.findings import multi_query_recall as mqr
from linattn_study.findings.multi_query_recall import Model

SMALL, LARGE, NARROW = Model("0.1M"), Model("0.4M"), Model("0.4M", 8)
RIGHT = {  # (model, rate, pairs) -> share of each seed
    (SMALL, 1e-3, 4): (0.5, 0.7),
    (SMALL, 1e-3, 64): (0.1, 0.1),
    (SMALL, 3e-3, 4): (0.9, 0.8),
    (SMALL, 3e-3, 64): (0.0, 0.1),
    (LARGE, 1e-3, 4): (1.0, 1.0),
    (LARGE, 1e-3, 64): (0.8, 0.5),
    (NARROW, 1e-3, 4): (0.6,),
    (NARROW, 1e-3, 64): (0.2,),
}
N_PARAMS = {"0.1M": 98_304, "0.4M": 393_216}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the shares of ``RIGHT`` in the place of the committed table."""
    rows: list[dict[str, Any]] = [
        {
            "arch": "tnl",
            "size": model.size,
            "n_heads": model.n_heads,
            "n_params": N_PARAMS[model.size],
            "lr": lr,
            "seed": seed,
            "probe": f"recall-{n}",
            "accuracy": share,
        }
        for (model, lr, n), shares in reversed(RIGHT.items())
        for seed, share in reversed([*enumerate(shares)])
    ]
    monkeypatch.setattr(recall, "load_probes", lambda table: tuple(rows) if table == mqr.TABLE else ())


def test_the_best_rate_is_best_over_all_numbers_of_pairs_and_seeds(table: None) -> None:
    assert mqr.list_models("tnl") == [SMALL, NARROW, LARGE]
    assert mqr.list_models("llama") == []
    assert mqr.find_best_rate("tnl", SMALL) == 3e-3
    assert mqr.select_accuracies("tnl", SMALL, 4, 1e-3) == [0.5, 0.7]
    assert mqr.estimate_accuracy("tnl", SMALL, 64) == (0.05, 0.0, 0.1)
    assert mqr.estimate_accuracy("tnl", NARROW, 64) == (0.2, 0.2, 0.2)
    assert mqr.estimate_accuracy("tnl", LARGE, 64) == pytest.approx((0.65, 0.5, 0.8))


def test_a_model_has_learned_when_it_stays_below_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seeds one crosses it twice, one never, one ends a hair below naming any pair."""
    level = mqr.LEARNED
    assert level == pytest.approx(mqr.ANY_PAIR - 0.1)
    falls = {
        0: (5.0, level - 1, level + 1, level - 2),
        1: (5.0, 4.9, 4.8, 4.7),
        2: (5.0, 4.9, 4.8, level + 0.05),
    }
    rows: list[dict[str, Any]] = [
        {
            "arch": "tnl", "size": "0.4M", "n_heads": None, "n_params": 1, "lr": 1e-3, "seed": seed,
            "tokens": 10 * (i + 1), "val_loss": loss, "probe": "recall-4", "accuracy": 0.5,
        }
        for seed, found in falls.items() for i, loss in enumerate(found)
    ]  # fmt: skip
    monkeypatch.setattr(recall, "load_probes", lambda table: tuple(rows))
    monkeypatch.setattr(losses, "load_evaluations", lambda table: tuple(rows))
    assert mqr.collect_curves("tnl", LARGE, 1e-3)[1] == [(10, 5.0), (20, 4.9), (30, 4.8), (40, 4.7)]
    assert mqr.has_learned("tnl", LARGE) == {1e-3: [True, False, False]}
    assert mqr.find_learning_spans("tnl", LARGE) == [(0.75, 1.0)]


@pytest.mark.parametrize(
    ("arch", "numbers"),
    [
        ("llama", 2 * 2 * 512 * 64),  # layers, keys and values, tokens, width
        ("tnl", 2 * 64 * 64),
        ("hgrn2", 2 * 64 * 64),
        ("cosformer2", 2 * 2 * 64 * 64 + 64 * 64),  # cosine and sine, and the positions in front
    ],
)
def test_what_is_held_is_counted_by_hand(arch: str, numbers: int) -> None:
    assert mqr.compute_state_size(arch, SMALL) == 4 * numbers


def test_narrow_heads_hold_less() -> None:
    for arch in ("tnl", "hgrn2"):
        assert 4 * mqr.compute_state_size(arch, NARROW) == mqr.compute_state_size(
            arch, LARGE
        )  # heads of 16, not of 64
    assert mqr.compute_state_size("llama", NARROW) == mqr.compute_state_size("llama", LARGE)
