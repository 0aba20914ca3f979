"""The rows of many trials as one table, with where they come from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linattn_book import results
from linattn_study.trial import Trial
from linattn_study.work import DIVERGED, DONE, place_of

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

DIGITS = 7  # of floats
Row = Mapping[str, Any]
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


def rows_of(
    trials: Sequence[Trial], out: Path, probes: bool = False, before: Sequence[Row] = ()
) -> list[dict[str, Any]]:
    """Evaluations, or probes, of the trials that are done, in their order; those that diverged have none.

    Of trials that are not done in ``out``, the rows that a table has which was collected ``before``.
    """
    columns, found = columns_of(trials, probes), list[dict[str, Any]]()
    for trial in trials:
        told = _told(trial, columns)
        place = place_of(trial, out)
        manifest = place.manifest()
        if manifest.get("status") != DONE:
            found += _of(told, before)
            continue
        about = told | {name: manifest[name] for name in ("n_params", "n_layers", "d_model", "device")}
        about["tokens"] = trial.tokens
        for row in place.probes() if probes else place.rows():
            facts = about | row | {"lr": trial.lr}  # of a row, it is that of its step
            found.append({name: facts[name] for name in columns})
    return found


def _told(trial: Trial, columns: Mapping[str, str]) -> dict[str, Any]:
    """What tells a trial from the others of a table: a change of the model is None where it has none."""
    always = {name: getattr(trial, name) for name in ("corpus", "arch", "size", "seed", "lr")}
    changes = {"seq_len": trial.seq_len} | dict(trial.changes)
    return always | {name: changes.get(name) for name in columns if name not in COLUMNS | PROBES}


def _of(told: Mapping[str, Any], table: Sequence[Row]) -> list[dict[str, Any]]:
    rounded = {name: results.rounded(value, DIGITS) for name, value in told.items()}
    return [dict(row) for row in table if all(row[name] == value for name, value in rounded.items())]


def _before(table: str, columns: Mapping[str, str], made: Mapping[str, Any], directory: Path) -> list[Row]:
    """What is there of a table, if it was made by the same code on the same kind of device."""
    if table not in results.names(directory=directory):
        return []
    origin = results.provenance(table, directory=directory)
    same = all(origin[fact] == made[fact] for fact in ("source_hash", "device"))
    is_it = same and list(origin["columns"]) == list(columns)
    return [*results.load(table, directory=directory)] if is_it else []


def unknown(name: str, trials: Sequence[Trial], made: Mapping[str, Any], directory: Path) -> Sequence[Trial]:
    """Those of all trials of a study that its table does not have, or has from another source or device.

    Args:
        made: ``source_hash`` and ``device`` of what would be trained now.
    """
    columns = columns_of(trials)
    table = _before(name, columns, made, directory)
    return [trial for trial in trials if not _of(_told(trial, columns), table)]


def collect(
    name: str, trials: Sequence[Trial], out: Path, directory: Path, table_name: str | None = None
) -> str:
    """Write NAME.csv and NAME_probes.csv into ``directory``, with index.json; what there is, in words.

    With ``table_name`` they have that name: for a second time that the same was trained.

    Machines come and go: trials that the tables have already, made by the same code on the same kind of
    device, stay in them, though their runs are gone. Other tables of the name are replaced.

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
    kept = 0
    tables = table_name or name
    again = "" if table_name is None else f" --as {table_name}"
    for table, probes in ((tables, False), (f"{tables}_probes", True)):
        columns = columns_of(trials, probes)
        before = _before(table, columns, done[0], directory)
        absent = [trial for trial in trials if manifests[trial.key].get("status") != DONE]
        kept = sum(bool(_of(_told(trial, columns), before)) for trial in absent)
        results.save(
            table,
            rows_of(trials, out, probes, before),
            columns=columns,
            command=f"linattn study {name} --out DIR{again}",
            seed=sorted({trial.seed for trial in trials}),
            source_hash=done[0]["source_hash"],
            device=done[0]["device"],
            measured_with=done[0]["versions"],
            digits=DIGITS,
            directory=directory,
        )
    diverged = sum(manifest.get("status") == DIVERGED for manifest in manifests.values())
    more = f" here, {kept} more are in the table" if kept else ""
    return f"{len(done)} of {len(trials)} trials are done{more}; {diverged} diverged"
