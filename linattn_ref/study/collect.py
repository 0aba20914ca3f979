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

LENGTH = {"seq_len": "bytes in a row, in training"}

PROBES = {
    name: meaning
    for name, meaning in COLUMNS.items()
    if name not in ("flops", "train_loss", "val_loss", "seconds")
} | {
    "probe": "text, twice, repeated, new or needle-...: see study.probes",
    "length": "bytes in a row",
    "first": "position of a range, from 0",
    "last": "position of it",
    "depth": "of a needle: 0 is the beginning of the text, 1 its end",
    "share": "of all bytes that are repeated, or new",
    "loss": "nats per byte, mean over the range",
    "accuracy": "share of needles whose digits are all right",
}


def columns_of(trials: Sequence[Trial], probes: bool = False) -> dict[str, str]:
    """What a table of these trials says: where they differ from the main grid's, that too."""
    ours = LENGTH if any(trial.seq_len != Trial.seq_len for trial in trials) else {}
    ours = ours | {name: f"{name} of the model, see ModelConfig" for name in _changed(trials)}
    always, first = list((PROBES if probes else COLUMNS).items()), list(COLUMNS).index("seed")
    return dict(always[:first]) | ours | dict(always[first:])


def _changed(trials: Sequence[Trial]) -> dict[str, None]:
    """Fields of ``ModelConfig`` that some of them change."""
    return dict.fromkeys(name for trial in trials for name, _ in trial.changes)


def rows_of(trials: Sequence[Trial], out: Path, probes: bool = False) -> list[dict[str, Any]]:
    """Evaluations, or probes, of the trials that are done, in their order; those that diverged have none."""
    columns, found = columns_of(trials, probes), []
    for trial in trials:
        place = place_of(trial, out)
        manifest = place.manifest()
        if manifest.get("status") != DONE:
            continue
        shown = ("corpus", "arch", "size", "seed", "seq_len", "tokens")
        about = _changed(trials) | {name: getattr(trial, name) for name in shown} | dict(trial.changes)
        about |= {name: manifest[name] for name in ("n_params", "n_layers", "d_model", "device")}
        for row in place.probes() if probes else place.rows():
            facts = about | row | {"lr": trial.lr}  # of a row, it is that of its step
            found.append({name: facts[name] for name in columns})
    return found


def collect(name: str, trials: Sequence[Trial], out: Path, directory: Path) -> str:
    """Write NAME.csv and NAME_probes.csv into ``directory``, with index.json; what there is, in words.

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
    for table, probes in ((name, False), (f"{name}_probes", True)):
        results.save(
            table,
            rows_of(trials, out, probes),
            columns=columns_of(trials, probes),
            command=f"linattn study {name} --out DIR",
            seed=sorted({trial.seed for trial in trials}),
            source_hash=done[0]["source_hash"],
            device=done[0]["device"],
            measured_with=done[0]["versions"],
            digits=7,
            directory=directory,
        )
    diverged = sum(manifest.get("status") == DIVERGED for manifest in manifests.values())
    return f"{len(done)} of {len(trials)} trials are done; {diverged} diverged"
