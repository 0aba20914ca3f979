"""Multi-query recall: how many pairs of key and value a model finds again, and in what it keeps them."""

import math
from collections.abc import Mapping
from statistics import mean
from typing import Any, NamedTuple

import torch

from linattn_ref.config import ModelConfig
from linattn_ref.costs.accounting import state_bytes
from linattn_study.corpora import PAIRS, RECALL_VOCAB
from linattn_study.findings import losses, recall
from linattn_study.scaling import Interval
from linattn_study.trial import Trial

TABLE = "scaling_states"
SHORT = "scaling_recall"  # an earlier training, of an eighth of the steps
SHAPES = {"1.6M": "2×256", "0.8M": "4×128"}  # of the models of TABLE: layers × width
LENGTH = 512  # tokens of a sequence
GUESS = math.log(RECALL_VOCAB / 2)  # nats: any value
ANY_PAIR = sum(n * math.log(n) for n in PAIRS) / sum(PAIRS)  # any value that is paired with a key
LEARNED = ANY_PAIR - 0.1  # below this a model does more


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
    """All rows of a model, both rates and all seeds."""
    rows = losses.chosen(recall.probes(table), arch=arch, size=model.size)
    return [row for row in rows if row.get("n_heads") == model.n_heads]


def best_rate(arch: str, model: Model, table: str = TABLE) -> float:
    """The learning rate at which models find most, over all numbers of pairs and seeds."""
    rows = asked(arch, model, table)
    rates = sorted({row["lr"] for row in rows})
    return max(rates, key=lambda lr: mean(row["accuracy"] for row in losses.chosen(rows, lr=lr)))


def curves(arch: str, model: Model, lr: float) -> dict[int, list[tuple[int, float]]]:
    """Seed -> (tokens read, loss on the values asked for) at every evaluation."""
    rows = losses.chosen(losses.evaluations(TABLE), arch=arch, size=model.size, n_heads=model.n_heads, lr=lr)
    seeds = sorted({row["seed"] for row in rows})
    return {
        seed: [(row["tokens"], row["val_loss"]) for row in losses.chosen(rows, seed=seed)] for seed in seeds
    }


def learned(arch: str, model: Model) -> dict[float, list[bool]]:
    """Rate -> whether the loss ends below ``LEARNED``, for each seed."""
    rates = sorted({row["lr"] for row in asked(arch, model)})
    return {lr: [points[-1][1] < LEARNED for points in curves(arch, model, lr).values()] for lr in rates}


def crossed(arch: str, model: Model) -> list[tuple[float, float]]:
    """Shares of the training between which the loss falls below ``LEARNED`` for good, at the best rate.

    For each seed that has learned; they are those of evaluations.
    """
    found = []
    for points in curves(arch, model, best_rate(arch, model)).values():
        last = max(i for i, (_, loss) in enumerate(points) if loss > LEARNED)
        if last + 1 < len(points):
            found.append((points[last][0] / points[-1][0], points[last + 1][0] / points[-1][0]))
    return found


def shares(arch: str, model: Model, n_pairs: int, lr: float, table: str = TABLE) -> list[float]:
    """Of the values asked for that are right, for each seed."""
    rows = losses.chosen(asked(arch, model, table), probe=f"recall-{n_pairs}", lr=lr)
    return [row["accuracy"] for row in sorted(rows, key=lambda row: row["seed"])]


def found(arch: str, model: Model, n_pairs: int, table: str = TABLE) -> Interval:
    """Share of values that are right at the best rate: mean of the seeds, from the lowest to the highest."""
    right = shares(arch, model, n_pairs, best_rate(arch, model, table), table)
    return Interval(mean(right), min(right), max(right))


def held(arch: str, model: Model) -> int:
    """Bytes of state for one sequence after ``LENGTH`` tokens, in float32."""
    return state_bytes(_config(arch, model), LENGTH, 1, torch.float32)


def head_width(arch: str, model: Model) -> int:
    return _config(arch, model).head_dim


def _config(arch: str, model: Model) -> ModelConfig:
    changes = () if model.n_heads is None else (("n_heads", model.n_heads),)
    return Trial(f"recall-{LENGTH}", arch, model.size, 1e-3, seq_len=LENGTH, changes=changes).model_config()
