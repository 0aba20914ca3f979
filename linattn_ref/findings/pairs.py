"""Multi-query recall: how many pairs of key and value a model finds again, and in what it keeps them."""

from collections.abc import Mapping
from statistics import mean
from typing import Any, NamedTuple

import torch

from linattn_ref.accounting import state_bytes
from linattn_ref.findings import losses, recall
from linattn_ref.scaling import Interval
from linattn_ref.study.trial import Trial

TABLE = "scaling_recall"
LENGTH = 512  # tokens of a sequence
SEQUENCES = 1024  # of each number of pairs


class Model(NamedTuple):
    """A size, and how many heads if not the size's own number."""

    size: str
    n_heads: int | None = None


def models(arch: str) -> list[Model]:
    """That were trained: smallest first, then smallest states first."""
    rows = losses.chosen(recall.probes(TABLE), arch=arch)
    found = {Model(row["size"], row.get("n_heads")): row["n_params"] for row in rows}
    return sorted(found, key=lambda model: (found[model], held(arch, model)))


def asked(arch: str, model: Model) -> list[Mapping[str, Any]]:
    """All rows of a model, both rates."""
    rows = losses.chosen(recall.probes(TABLE), arch=arch, size=model.size)
    return [row for row in rows if row.get("n_heads") == model.n_heads]


def best_rate(arch: str, model: Model) -> float:
    """The learning rate whose model finds most, over all numbers of pairs."""
    rows = asked(arch, model)
    rates = sorted({row["lr"] for row in rows})
    return max(rates, key=lambda lr: mean(row["accuracy"] for row in losses.chosen(rows, lr=lr)))


def found(arch: str, model: Model, n_pairs: int) -> Interval:
    """Share of values that are right at the best rate; Wilson's interval for as many sequences as were asked.

    Values of a sequence stand or fall together, so sequences are counted, not values.
    """
    rows = losses.chosen(asked(arch, model), probe=f"recall-{n_pairs}", lr=best_rate(arch, model))
    return recall.wilson(mean(row["accuracy"] for row in rows), SEQUENCES * len(rows))


def held(arch: str, model: Model) -> int:
    """Bytes of state for one sequence after ``LENGTH`` tokens, in float32."""
    changes = () if model.n_heads is None else (("n_heads", model.n_heads),)
    config = Trial(f"recall-{LENGTH}", arch, model.size, 1e-3, seq_len=LENGTH, changes=changes).model_config()
    return state_bytes(config, LENGTH, 1, torch.float32)
