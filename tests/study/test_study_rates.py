"""The learning rates of the main grid follow from those that were tried."""

from statistics import mean
from typing import Any

import pytest

from linattn_book import results
from linattn_study.plan import choose_rate
from linattn_study.trial import ARCHITECTURES


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("size", ["0.8M", "6M"])
def test_a_rate_is_near_the_best_that_was_tried(arch: str, size: str) -> None:
    tables = ("scaling_lr", "scaling_lr_edges")
    rows: list[dict[str, Any]] = [dict(row) for name in tables for row in results.load(name)]
    rows = [row for row in rows if (row["arch"], row["size"]) == (arch, size)]
    end = max(row["tokens"] for row in rows)
    losses: dict[float, list[float]] = {}
    for row in rows:
        if row["tokens"] == end:
            losses.setdefault(row["lr"], []).append(row["val_loss"])
    on_both = {lr: mean(some) for lr, some in losses.items() if len(some) == 2}  # prose and code
    assert len(on_both) >= 2
    best = min(on_both, key=on_both.__getitem__)
    assert best / 1.5 <= choose_rate(arch, size) <= best * 1.5
