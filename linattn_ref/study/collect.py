"""The rows of many trials as one table, with where they come from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linattn_ref import results
from linattn_ref.study.trial import Trial
from linattn_ref.study.work import DIVERGED, DONE, place_of

COLUMNS = {
    "corpus": "text trained on",
    "arch": "architecture",
    "size": "name of layers and width",
    "n_params": "parameters without embeddings",
    "n_layers": "blocks",
    "d_model": "width",
    "seed": "of the first weights and of the order of the text",
    "lr": "learning rate after the warm-up",
    "tokens": "bytes trained on so far",
    "flops": "FLOPs so far, forward and backward, without embeddings: the closed form of arXiv 2406.16690",
    "train_loss": "nats per byte, mean since the row before",
    "val_loss": "nats per byte",
    "seconds": "of training so far, evaluations left out",
    "device": "that it was trained on",
}


def rows_of(trials: Sequence[Trial], out: Path) -> list[dict[str, Any]]:
    """Of the trials that are done, in their order; trials that diverged have none."""
    found = []
    for trial in trials:
        place = place_of(trial, out)
        manifest = place.manifest()
        if manifest.get("status") != DONE:
            continue
        about = {"corpus": trial.corpus, "arch": trial.arch, "size": trial.size, "seed": trial.seed}
        about |= {name: manifest[name] for name in ("n_params", "n_layers", "d_model", "device")}
        for row in place.rows():
            facts = (
                about
                | {"lr": trial.lr}
                | {name: row[name] for name in COLUMNS if name in row and name != "lr"}
            )
            found.append({name: facts[name] for name in COLUMNS})
    return found


def collect(name: str, trials: Sequence[Trial], out: Path, directory: Path) -> str:
    """Write NAME.csv and its entry of index.json into ``directory``; what there is, in words.

    Raises:
        ValueError: no trial is done, or trials were made by different code or on different devices.
    """
    manifests = {trial.key: place_of(trial, out).manifest() for trial in trials}
    done = [manifest for manifest in manifests.values() if manifest.get("status") == DONE]
    if not done:
        raise ValueError(f"out: no trial of {name} is done in {out}")
    for fact in ("source_hash", "device"):
        several = sorted({manifest[fact] for manifest in done})
        if len(several) > 1:
            raise ValueError(f"out: the trials in {out} have several {fact}: {', '.join(several)}")
    rows = rows_of(trials, out)
    results.save(
        name,
        rows,
        columns=COLUMNS,
        command=f"linattn study {name} --out DIR",
        seed=sorted({trial.seed for trial in trials}),
        source_hash=done[0]["source_hash"],
        device=done[0]["device"],
        measured_with=done[0]["versions"],
        directory=directory,
    )
    diverged = sum(manifest.get("status") == DIVERGED for manifest in manifests.values())
    return f"{len(rows)} rows of {len(done)} trials of {len(trials)}; {diverged} diverged"
