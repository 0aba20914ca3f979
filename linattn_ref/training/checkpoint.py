"""Write what a training run leaves on disk, and read it: a checkpoint to resume from, and its rows as CSV.

A file is either the old one or the new one, whole, whenever the process or the machine dies: the new one is
written beside it, flushed to the disk, and renamed over it in one step.
"""

import csv
import dataclasses
import hashlib
import io
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch import nn

from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.training.files import write_atomically
from linattn_ref.training.sharding import find_plain_class, gather, scatter_model, scatter_optimizer

CONTENT = ("model", "optimizer", "generator", "rows")  # of a checkpoint, beside identity and config


class TrainRow(TypedDict):
    """Describe one optimiser step, as it is reported and stored."""

    step: int  # 1 for the first
    tokens: int  # bytes trained on so far, over all ranks
    train_loss: float  # nats per byte, of this step's batch before the update
    val_loss: float | None  # nats per byte, after the update; None = not evaluated at this step
    lr: float
    seconds: float  # spent in steps so far, resumed parts included; evaluation and checkpoints excluded
    tokens_per_second: float  # of this step, over all ranks


@dataclass
class TrainState:
    """Hold all that changes while training; a checkpoint is this and nothing else that matters.

    Args:
        model: its parameters and buffers.
        optimizer: its moments and numbers of steps.
        generator: draws the training batches.
        rows: what was reported so far, each with the number of its step as ``"step"``.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    rows: list[Any] = field(default_factory=list)


def identify_run(
    model: nn.Module, config: Mapping[str, Any], corpus_sha256: str
) -> dict[str, dict[str, str]]:
    """Return what must be equal for a run to be the same run: each item as text, by name, in four groups.

    The model's class and config are included: two mixers may have parameters of the same names and shapes.

    Args:
        model: the model to train, with a ``config`` if it has one.
        config: names and values of the settings, as JSON can hold them.
        corpus_sha256: hash of the text.

    Returns:
        group -> name -> text; the groups are config, corpus, model and parameters.

    Example:
        >>> identify_run(nn.Linear(2, 1), {"lr": 0.1}, "ab12")["parameters"]
        {'weight': 'torch.float32 [1, 2]', 'bias': 'torch.float32 [1]'}
    """
    shapes = {name: f"{x.dtype} {list(x.shape)}" for name, x in model.state_dict().items()}
    return {
        "config": {name: json.dumps(value) for name, value in config.items()},
        "corpus": {"sha256": corpus_sha256},
        "model": {
            "class": find_plain_class(model).__qualname__,
            "config": repr(getattr(model, "config", None)),
        },
        "parameters": shapes,
    }


def save_checkpoint(
    path: Path, state: TrainState, identity: Mapping[str, Mapping[str, str]], writes: bool = True
) -> None:
    """Write a run to a file, all or nothing.

    What is sharded over ranks is brought together, so the file does not depend on them; then all ranks must
    call it.

    Args:
        path: the file; folders on the way are made.
        state: what to write. The configuration of a ``LanguageModel`` is written with it.
        identity: of the run, see ``identify_run``.
        writes: whether this rank writes the file; default True.

    Returns:
        None.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> state = TrainState(model, torch.optim.SGD(model.parameters()), torch.Generator(), [{"step": 1}])
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(Path(folder) / "run.pt", state, identify_run(model, {}, "ab12"))
        ...     load_checkpoint(Path(folder) / "run.pt", state, identify_run(model, {}, "ab12"))
        >>> state.rows
        [{'step': 1}]
    """
    content = {
        "identity": identity,
        "identity_sha256": _hash(identity),
        "model_config": _parse_config(state.model),
        "model": gather(state.model.state_dict()),
        "optimizer": gather(state.optimizer.state_dict()),
        "generator": state.generator.get_state(),
        "rows": state.rows,
    }
    if writes:
        write_atomically({path: lambda file: torch.save(content, file)})


def load_checkpoint(path: Path, state: TrainState, identity: Mapping[str, Mapping[str, str]]) -> None:
    """Bring a run to where a checkpoint was written; nothing is changed if the file is refused.

    Args:
        path: a file that ``save_checkpoint`` wrote.
        state: model, optimiser, generator and rows, which are overwritten.
        identity: of the run that wants to go on, see ``identify_run``.

    Returns:
        None.

    Raises:
        ValueError: the file is no checkpoint of this module, or belongs to a run with another config, corpus
            or model; the message names what differs.

    Example:
        See ``save_checkpoint``.
    """
    content = _read(path)
    saved, digest = content["identity"], content["identity_sha256"]
    model, optimizer, generator, rows = (content[name] for name in CONTENT)
    if digest != _hash(identity):
        raise ValueError(f"checkpoint: {path} is of another run; {_find_differences(saved, identity)}")
    state.model.load_state_dict(scatter_model(model, state.model))
    state.optimizer.load_state_dict(scatter_optimizer(optimizer, state.optimizer))
    state.generator.set_state(generator)
    state.rows[:] = rows


def load_model(path: str | Path, backend: Literal["reference", "triton"] = "reference") -> LanguageModel:
    """Rebuild the language model of a checkpoint, with its weights.

    Args:
        path: a file that ``train`` or ``linattn train`` wrote.
        backend: where its ops come from; default "reference", whatever it was trained with.

    Returns:
        The model, in evaluation mode, on the CPU.

    Raises:
        ValueError: there is no such file, it is no checkpoint, or it is one of another kind of model.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=16, n_layers=1, n_heads=1))
        >>> state = TrainState(model, torch.optim.SGD(model.parameters()), torch.Generator())
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(Path(folder) / "run.pt", state, identify_run(model, {}, "ab12"))
        ...     again = load_model(Path(folder) / "run.pt")
        >>> again.config == model.config, torch.equal(again.head.weight, model.head.weight)
        (True, True)
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"checkpoint: got {path}, which does not exist, expected a file of `linattn train`")
    content = _read(path)
    config = content.get("model_config")
    if config is None:
        kind = content["identity"].get("model", {}).get("class", "unknown")
        raise ValueError(f"checkpoint: {path} is of a model of class {kind}, expected a LanguageModel")
    model = LanguageModel(ModelConfig(**config | {"backend": backend}))
    model.load_state_dict(content["model"])
    return model.eval()


def write_rows(path: Path, rows: Sequence[TrainRow]) -> None:
    """Write rows as CSV with a header, all or nothing; None becomes an empty cell.

    Args:
        path: the file; folders on the way are made.
        rows: what ``train`` returns.

    Returns:
        None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_rows(Path(folder) / "rows.csv", [])
        ...     print((Path(folder) / "rows.csv").read_text().strip())
        step,tokens,train_loss,val_loss,lr,seconds,tokens_per_second
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(TrainRow.__annotations__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically({path: text.getvalue()})


def _read(path: Path) -> dict[str, Any]:
    """Read a checkpoint and check that all its parts are there."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        missing = [name for name in ("identity", "identity_sha256", *CONTENT) if name not in content]
    except (RuntimeError, EOFError, LookupError, TypeError, pickle.UnpicklingError) as error:
        raise ValueError(f"checkpoint: {path} is not a checkpoint of this training loop: {error}") from error
    if missing:
        raise ValueError(f"checkpoint: {path} is not a checkpoint of this training loop: no {missing[0]}")
    return content


def _parse_config(model: nn.Module) -> dict[str, Any] | None:
    """Return the configuration of a language model as plain values; None for other models."""
    return dataclasses.asdict(model.config) if isinstance(model, LanguageModel) else None


def _hash(identity: Mapping[str, Mapping[str, str]]) -> str:
    """Return a hash of an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _find_differences(saved: Mapping[str, Mapping[str, str]], wanted: Mapping[str, Mapping[str, str]]) -> str:
    """Name what differs, at most five items: ``"config.lr: 0.1 there, 0.2 here; ..."``."""
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
