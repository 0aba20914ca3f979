"""Multi-query recall: how many pairs of key and value a model finds again, and in what it keeps them."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

import torch

from linattn_ref.accounting import state_bytes
from linattn_ref.findings import losses, recall
from linattn_ref.scaling import Interval
from linattn_ref.study.trial import Trial

TABLE = "scaling_recall"
LENGTH = 512  # tokens of a sequence
SEQUENCES = 1024  # of each number of pairs


def sizes() -> list[str]:
    """Smallest first."""
    found = dict.fromkeys((row["n_params"], row["size"]) for row in recall.probes(TABLE))
    return list(dict.fromkeys(size for _, size in sorted(found)))


def best_rate(arch: str, size: str) -> float:
    """The learning rate whose model finds most, over all numbers of pairs."""
    rows = losses.chosen(recall.probes(TABLE), arch=arch, size=size)
    rates = sorted({row["lr"] for row in rows})
    return max(rates, key=lambda lr: mean(row["accuracy"] for row in losses.chosen(rows, lr=lr)))


def found(arch: str, size: str, n_pairs: int) -> Interval:
    """Share of values that are right at the best rate; Wilson's interval for as many sequences as were asked.

    Values of a sequence stand or fall together, so sequences are counted, not values.
    """
    rows: list[Mapping[str, Any]] = losses.chosen(
        recall.probes(TABLE), arch=arch, size=size, probe=f"recall-{n_pairs}", lr=best_rate(arch, size)
    )
    return recall.wilson(mean(row["accuracy"] for row in rows), SEQUENCES * len(rows))


def held(arch: str, size: str) -> int:
    """Bytes of state for one sequence after ``LENGTH`` tokens, in float32."""
    config = Trial(f"recall-{LENGTH}", arch, size, 1e-3, seq_len=LENGTH).model_config()
    return state_bytes(config, LENGTH, 1, torch.float32)
