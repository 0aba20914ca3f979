"""What a training run leaves on disk: a checkpoint to resume from, and its rows as CSV.

A file is either the old one or the new one, whole, whenever the process or the machine dies: the new one is
written beside it, flushed to the disk, and renamed over it in one step.
"""

import csv
import hashlib
import io
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import nn

from linattn_ref.training.files import write_atomically


class Row(TypedDict):
    """One optimiser step, as it is reported and stored."""

    step: int  # 1 for the first
    tokens: int  # bytes trained on so far, over all ranks
    train_loss: float  # nats per byte, of this step's batch before the update
    val_loss: float | None  # nats per byte, after the update; None = not evaluated at this step
    lr: float
    seconds: float  # spent in steps so far, resumed parts included; evaluation and checkpoints excluded
    tokens_per_second: float  # of this step, over all ranks


@dataclass
class TrainState:
    """All that changes while training: the checkpoint holds this and nothing else that matters."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator  # draws the training batches
    rows: list[Any] = field(default_factory=list)


def identity_of(model: nn.Module, config: Mapping[str, Any], corpus_sha256: str) -> dict[str, dict[str, str]]:
    """What must be equal for a run to be the same run: each item as text, by name, in four groups.

    The model's class and config are included: two mixers may have parameters of the same names and shapes.
    """
    shapes = {name: f"{x.dtype} {list(x.shape)}" for name, x in model.state_dict().items()}
    return {
        "config": {name: json.dumps(value) for name, value in config.items()},
        "corpus": {"sha256": corpus_sha256},
        "model": {"class": type(model).__qualname__, "config": repr(getattr(model, "config", None))},
        "parameters": shapes,
    }


def save_checkpoint(path: Path, state: TrainState, identity: Mapping[str, Mapping[str, str]]) -> None:
    """Write state and identity to ``path``, all or nothing."""
    content = {
        "identity": identity,
        "identity_sha256": _hash(identity),
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "generator": state.generator.get_state(),
        "rows": state.rows,
    }
    write_atomically({path: lambda file: torch.save(content, file)})


def load_checkpoint(path: Path, state: TrainState, identity: Mapping[str, Mapping[str, str]]) -> None:
    """Bring ``state`` to where ``path`` was written; nothing is changed if the file is refused.

    Raises:
        ValueError: the file is no checkpoint of this module, or belongs to a run with another config, corpus
            or model; the message names what differs.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        saved, digest = content["identity"], content["identity_sha256"]
        model, optimizer, generator, rows = (
            content[name] for name in ("model", "optimizer", "generator", "rows")
        )
    except (RuntimeError, EOFError, LookupError, TypeError, pickle.UnpicklingError) as error:
        raise ValueError(f"checkpoint: {path} is not a checkpoint of this training loop: {error}") from error
    if digest != _hash(identity):
        raise ValueError(f"checkpoint: {path} is of another run; {_differences(saved, identity)}")
    state.model.load_state_dict(model)
    state.optimizer.load_state_dict(optimizer)
    state.generator.set_state(generator)
    state.rows[:] = rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows as CSV with a header, all or nothing; None becomes an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(Row.__annotations__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically({path: text.getvalue()})


def _hash(identity: Mapping[str, Mapping[str, str]]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _differences(saved: Mapping[str, Mapping[str, str]], wanted: Mapping[str, Mapping[str, str]]) -> str:
    """``"config.lr: 0.1 there, 0.2 here; ..."``, at most five items."""
    found = []
    for group in wanted:
        there, here = saved.get(group, {}), wanted[group]
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                found.append(
                    f"{group}.{name}: {there.get(name, 'absent')} there, {here.get(name, 'absent')} here"
                )
    more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
    return "; ".join(found[:5]) + more
