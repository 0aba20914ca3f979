"""Multi-query recall as it is read off a table: here one that is made by hand."""

from typing import Any

import pytest

from linattn_ref.findings import pairs, recall

RIGHT = {  # (size, rate, pairs) -> share
    ("0.1M", 1e-3, 4): 0.5,
    ("0.1M", 1e-3, 64): 0.1,
    ("0.1M", 3e-3, 4): 0.9,
    ("0.1M", 3e-3, 64): 0.0,
    ("0.4M", 1e-3, 4): 1.0,
    ("0.4M", 1e-3, 64): 0.8,
}
N_PARAMS = {"0.1M": 98_304, "0.4M": 393_216}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [
        {
            "arch": "tnl",
            "size": size,
            "n_params": N_PARAMS[size],
            "lr": lr,
            "probe": f"recall-{n}",
            "accuracy": share,
        }
        for (size, lr, n), share in reversed(RIGHT.items())
    ]
    monkeypatch.setattr(recall, "probes", lambda table: tuple(rows) if table == pairs.TABLE else ())


def test_the_best_rate_is_best_over_all_numbers_of_pairs(table: None) -> None:
    assert pairs.sizes() == ["0.1M", "0.4M"]
    assert pairs.best_rate("tnl", "0.1M") == 3e-3
    assert pairs.found("tnl", "0.1M", 64).value == 0.0
    value, low, high = pairs.found("tnl", "0.4M", 64)
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
    assert pairs.held(arch, "0.1M") == 4 * numbers
