"""Multi-query recall as it is read off a table: here one that is made by hand."""

from typing import Any

import pytest

from linattn_ref.findings import pairs, recall
from linattn_ref.findings.pairs import Model

SMALL, LARGE, NARROW = Model("0.1M"), Model("0.4M"), Model("0.4M", 8)
RIGHT = {  # (size, rate, pairs) -> share
    (SMALL, 1e-3, 4): 0.5,
    (SMALL, 1e-3, 64): 0.1,
    (SMALL, 3e-3, 4): 0.9,
    (SMALL, 3e-3, 64): 0.0,
    (LARGE, 1e-3, 4): 1.0,
    (LARGE, 1e-3, 64): 0.8,
    (NARROW, 1e-3, 4): 0.6,
    (NARROW, 1e-3, 64): 0.2,
}
N_PARAMS = {"0.1M": 98_304, "0.4M": 393_216}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [
        {
            "arch": "tnl",
            "size": model.size,
            "n_heads": model.n_heads,
            "n_params": N_PARAMS[model.size],
            "lr": lr,
            "probe": f"recall-{n}",
            "accuracy": share,
        }
        for (model, lr, n), share in reversed(RIGHT.items())
    ]
    monkeypatch.setattr(recall, "probes", lambda table: tuple(rows) if table == pairs.TABLE else ())


def test_the_best_rate_is_best_over_all_numbers_of_pairs(table: None) -> None:
    assert pairs.models("tnl") == [SMALL, NARROW, LARGE]
    assert pairs.models("llama") == []
    assert pairs.best_rate("tnl", SMALL) == 3e-3
    assert pairs.found("tnl", SMALL, 64).value == 0.0
    assert pairs.found("tnl", NARROW, 64).value == 0.2
    value, low, high = pairs.found("tnl", LARGE, 64)
    assert value == 0.8
    assert 0.77 < low < 0.8 < high < 0.83


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
    assert pairs.held(arch, SMALL) == 4 * numbers


def test_narrow_heads_hold_less() -> None:
    for arch in ("tnl", "hgrn2"):
        assert 4 * pairs.held(arch, NARROW) == pairs.held(arch, LARGE)  # heads of 16, not of 64
    assert pairs.held("llama", NARROW) == pairs.held("llama", LARGE)
