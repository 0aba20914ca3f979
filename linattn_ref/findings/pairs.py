"""Multi-query recall: how many pairs of key and value a model finds again, and in what it keeps them."""

import math
from collections.abc import Mapping
from statistics import mean
from typing import Any, NamedTuple

import torch

from linattn_ref.accounting import state_bytes
from linattn_ref.config import ModelConfig
from linattn_ref.findings import losses, recall
from linattn_ref.scaling import Interval
from linattn_ref.study.corpora import PAIRS, RECALL_VOCAB
from linattn_ref.study.trial import Trial

TABLE = "scaling_states"
SHORT = "scaling_recall"  # an earlier training, of an eighth of the steps
SHAPES = {"1.6M": "2 × 256", "0.8M": "4 × 128"}  # of the models of TABLE: layers × width
LENGTH = 512  # tokens of a sequence
SEQUENCES = 1024  # of each number of pairs
GUESS = math.log(RECALL_VOCAB / 2)  # nats: any value
ANY_PAIR = sum(n * math.log(n) for n in PAIRS) / sum(PAIRS)  # any value that is paired with a key


class Model(NamedTuple):
    """A size, and how many heads if not the size's own number."""

    size: str
    n_heads: int | None = None


def models(arch: str, table: str = TABLE) -> list[Model]:
    """That were trained: smallest first, then smallest states first."""
    rows = losses.chosen(recall.probes(table), arch=arch)
    found = {Model(row["size"], row.get("n_heads")): row["n_params"] for row in rows}
    return sorted(found, key=lambda model: (found[model], held(arch, model)))


def asked(arch: str, model: Model, table: str = TABLE) -> list[Mapping[str, Any]]:
    """All rows of a model, both rates."""
    rows = losses.chosen(recall.probes(table), arch=arch, size=model.size)
    return [row for row in rows if row.get("n_heads") == model.n_heads]


def best_rate(arch: str, model: Model, table: str = TABLE) -> float:
    """The learning rate whose model finds most, over all numbers of pairs."""
    rows = asked(arch, model, table)
    rates = sorted({row["lr"] for row in rows})
    return max(rates, key=lambda lr: mean(row["accuracy"] for row in losses.chosen(rows, lr=lr)))


def curve(arch: str, model: Model, lr: float) -> list[tuple[int, float]]:
    """(tokens read, loss on the values asked for) at every evaluation."""
    rows = losses.chosen(losses.evaluations(TABLE), arch=arch, size=model.size, n_heads=model.n_heads, lr=lr)
    return [(row["tokens"], row["val_loss"]) for row in rows]


def rates_learned(arch: str, model: Model) -> int:
    """Rates at which the loss ends below that of naming any paired value."""
    rates = {row["lr"] for row in asked(arch, model)}
    return sum(curve(arch, model, lr)[-1][1] < ANY_PAIR for lr in rates)


def crossed(arch: str, model: Model) -> tuple[float, float]:
    """Shares of the training between which the loss falls below that for good, at the best rate.

    Of a model that has learned; they are those of evaluations.
    """
    points = curve(arch, model, best_rate(arch, model))
    last = max(i for i, (_, loss) in enumerate(points) if loss > ANY_PAIR)
    before, after = (points[i][0] / points[-1][0] for i in (last, last + 1))
    return before, after


def found(arch: str, model: Model, n_pairs: int, table: str = TABLE) -> Interval:
    """Share of values that are right at the best rate; Wilson's interval for as many sequences as were asked.

    Values of a sequence stand or fall together, so sequences are counted, not values.
    """
    best = best_rate(arch, model, table)
    rows = losses.chosen(asked(arch, model, table), probe=f"recall-{n_pairs}", lr=best)
    return recall.wilson(mean(row["accuracy"] for row in rows), SEQUENCES * len(rows))


def held(arch: str, model: Model) -> int:
    """Bytes of state for one sequence after ``LENGTH`` tokens, in float32."""
    return state_bytes(_config(arch, model), LENGTH, 1, torch.float32)


def head_width(arch: str, model: Model) -> int:
    return _config(arch, model).head_dim


def _config(arch: str, model: Model) -> ModelConfig:
    changes = () if model.n_heads is None else (("n_heads", model.n_heads),)
    return Trial(f"recall-{LENGTH}", arch, model.size, 1e-3, seq_len=LENGTH, changes=changes).model_config()
