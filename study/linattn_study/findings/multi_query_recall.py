"""Read off how many pairs of key and value models find again, and how large a state they keep them in."""

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
    """Name a model by its size, and its number of heads if that is not the size's own."""

    size: str
    n_heads: int | None = None


def list_models(arch: str, table: str = TABLE) -> list[Model]:
    """Return the models that were trained: smallest first, then smallest states first."""
    rows = losses.select(recall.load_probes(table), arch=arch)
    n_params = {Model(row["size"], row.get("n_heads")): row["n_params"] for row in rows}
    return sorted(n_params, key=lambda model: (n_params[model], compute_state_size(arch, model)))


def select_probes(arch: str, model: Model, table: str = TABLE) -> list[Mapping[str, Any]]:
    """Return all probes of a model, both rates and all seeds."""
    rows = losses.select(recall.load_probes(table), arch=arch, size=model.size)
    return [row for row in rows if row.get("n_heads") == model.n_heads]


def find_best_rate(arch: str, model: Model, table: str = TABLE) -> float:
    """Return the learning rate at which models find most, over all numbers of pairs and seeds."""
    rows = select_probes(arch, model, table)
    rates = sorted({row["lr"] for row in rows})
    return max(rates, key=lambda lr: mean(row["accuracy"] for row in losses.select(rows, lr=lr)))


def collect_curves(arch: str, model: Model, lr: float) -> dict[int, list[tuple[int, float]]]:
    """Return seed -> (tokens read, loss on the values asked for) at every evaluation."""
    rows = losses.select(
        losses.load_evaluations(TABLE), arch=arch, size=model.size, n_heads=model.n_heads, lr=lr
    )
    seeds = sorted({row["seed"] for row in rows})
    return {
        seed: [(row["tokens"], row["val_loss"]) for row in losses.select(rows, seed=seed)] for seed in seeds
    }


def has_learned(arch: str, model: Model) -> dict[float, list[bool]]:
    """Return rate -> whether the loss ends below ``LEARNED``, for each seed."""
    rates = sorted({row["lr"] for row in select_probes(arch, model)})
    return {
        lr: [points[-1][1] < LEARNED for points in collect_curves(arch, model, lr).values()] for lr in rates
    }


def find_learning_spans(arch: str, model: Model) -> list[tuple[float, float]]:
    """Return when each seed learned, at the best rate: between which shares of the training.

    These are the evaluations between which the loss falls below ``LEARNED`` for good.
    """
    spans = []
    for points in collect_curves(arch, model, find_best_rate(arch, model)).values():
        last = max(i for i, (_, loss) in enumerate(points) if loss > LEARNED)
        if last + 1 < len(points):
            spans.append((points[last][0] / points[-1][0], points[last + 1][0] / points[-1][0]))
    return spans


def select_accuracies(arch: str, model: Model, n_pairs: int, lr: float, table: str = TABLE) -> list[float]:
    """Return the share of the values asked for that is right, for each seed."""
    rows = losses.select(select_probes(arch, model, table), probe=f"recall-{n_pairs}", lr=lr)
    return [row["accuracy"] for row in sorted(rows, key=lambda row: row["seed"])]


def estimate_accuracy(arch: str, model: Model, n_pairs: int, table: str = TABLE) -> Interval:
    """Return the share of right values at the best rate: the mean of the seeds, the lowest, the highest."""
    right = select_accuracies(arch, model, n_pairs, find_best_rate(arch, model, table), table)
    return Interval(mean(right), min(right), max(right))


def compute_state_size(arch: str, model: Model) -> int:
    """Return the bytes of state for one sequence after ``LENGTH`` tokens, in float32."""
    return state_bytes(_build_config(arch, model), LENGTH, 1, torch.float32)


def describe_heads(arch: str, model: Model) -> int:
    """Return the width of a head."""
    return _build_config(arch, model).head_dim


def _build_config(arch: str, model: Model) -> ModelConfig:
    """Return the configuration of a model."""
    overrides = () if model.n_heads is None else (("n_heads", model.n_heads),)
    return Trial(
        f"recall-{LENGTH}", arch, model.size, 1e-3, seq_len=LENGTH, overrides=overrides
    ).build_model_config()
