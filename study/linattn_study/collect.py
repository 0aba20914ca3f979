"""Collect the rows of many trials into one table, with where they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from linattn_book import results
from linattn_study.trial import Trial
from linattn_study.work import DIVERGED, DONE, find_run_dir

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
TableRow = Mapping[str, Any]
OWN_FIELDS = {  # of Trial: a column where some trial differs from the main grid
    "seq_len": "bytes in a row, in training",
    "schedule": "of the learning rate after the warm-up; linear: a line down to 0 at the last step",
    "window": "tokens that softmax attention looks back; 0: all",
    "weight_decay": "decoupled, on weight matrices only",
}
RUN_TOKENS = {"run_tokens": "bytes of the whole run"}  # a column where trials differ in nothing else
READINGS = {  # columns where trials are asked for them at each evaluation
    "first_reading_loss": "nats per byte, over halves of windows: see study.probes.measure_second_reading",
    "second_reading_loss": "nats per byte, over the same bytes right after they were read",
}

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


def choose_columns(trials: Sequence[Trial], probes: bool = False) -> dict[str, str]:
    """Return the columns of a table of these trials, name -> meaning.

    Where some of them differ from the main grid in something else, there is a column for that.

    Args:
        trials: all trials of the table.
        probes: whether the table holds probes, not evaluations; default False.
    """
    own = {
        name: meaning
        for name, meaning in OWN_FIELDS.items()
        if any(getattr(trial, name) != getattr(Trial, name) for trial in trials)
    }
    own = own | {name: f"{name} of the model, see ModelConfig" for name in _list_overridden(trials)}
    own = own | (RUN_TOKENS if _some_differ_in_length_alone(trials) else {})
    always, first = list((PROBES if probes else COLUMNS).items()), list(COLUMNS).index("seed")
    readings = READINGS if not probes and any(trial.second_reading for trial in trials) else {}
    return dict(always[:first]) | own | dict(always[first:]) | readings


def _some_differ_in_length_alone(trials: Sequence[Trial]) -> bool:
    """Return whether nothing but the bytes of the whole run tells some trials apart."""
    alike = {replace(trial, tokens=Trial.tokens, warmup_tokens=Trial.warmup_tokens) for trial in trials}
    return len(alike) < len(trials)


def _list_overridden(trials: Sequence[Trial]) -> dict[str, None]:
    """Return the names that are overridden in at least one trial, in the order of their appearance."""
    return dict.fromkeys(name for trial in trials for name, _ in trial.overrides)


def collect_rows(
    trials: Sequence[Trial], out: Path, probes: bool = False, existing: Sequence[TableRow] = ()
) -> list[dict[str, Any]]:
    """Return the evaluations, or probes, of the trials that are done, in their order.

    Args:
        trials: all trials of the table; those that diverged have no rows.
        out: the folder of the study.
        probes: whether probes are wanted, not evaluations; default False.
        existing: rows of the table as it was; they are kept for trials that are not done in ``out``.
    """
    columns, rows = choose_columns(trials, probes), list[dict[str, Any]]()
    for trial in trials:
        identity = _identify(trial, columns)
        run_dir = find_run_dir(trial, out)
        manifest = run_dir.load_manifest()
        if manifest.get("status") != DONE:
            rows += _find_rows(identity, existing)
            continue
        about = identity | {name: manifest[name] for name in ("n_params", "n_layers", "d_model", "device")}
        about["tokens"] = trial.tokens
        for row in run_dir.load_probes() if probes else run_dir.load_rows():
            facts = about | row | {"lr": trial.lr}  # that of a row is the rate at its step
            rows.append({name: facts.get(name) if name in READINGS else facts[name] for name in columns})
    return rows


def _identify(trial: Trial, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns that tell a trial from the others of its table; None where it has no value."""
    always = {name: getattr(trial, name) for name in ("corpus", "arch", "size", "seed", "lr")}
    more = {name: getattr(trial, name) for name in OWN_FIELDS} | dict(trial.overrides)
    more |= {"run_tokens": trial.tokens}
    return always | {name: more.get(name) for name in columns if name not in COLUMNS | PROBES | READINGS}


def _find_rows(identity: Mapping[str, Any], table: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Return the rows of a table that belong to a trial."""
    rounded = {name: results.rounded(value, DIGITS) for name, value in identity.items()}
    return [dict(row) for row in table if all(row[name] == value for name, value in rounded.items())]


def _load_existing_rows(
    table: str, columns: Mapping[str, str], made: Mapping[str, Any], directory: Path
) -> list[TableRow]:
    """Return the rows that a table has, if they were made by the same code on the same kind of device."""
    if table not in results.names(directory=directory):
        return []
    origin = results.provenance(table, directory=directory)
    same_code = results.same_code(origin["source_hash"], made["source_hash"])
    usable = same_code and origin["device"] == made["device"] and list(origin["columns"]) == list(columns)
    return [*results.load(table, directory=directory)] if usable else []


def find_missing_trials(
    name: str, trials: Sequence[Trial], made: Mapping[str, Any], directory: Path
) -> Sequence[Trial]:
    """Return the trials that a study's table does not have, or has from another source or device.

    Args:
        name: of the table.
        trials: all trials of the study.
        made: ``source_hash`` and ``device`` of what would be trained now.
        directory: of the table.
    """
    columns = choose_columns(trials)
    table = _load_existing_rows(name, columns, made, directory)
    return [trial for trial in trials if not _find_rows(_identify(trial, columns), table)]


def collect(
    name: str, trials: Sequence[Trial], out: Path, directory: Path, table_name: str | None = None
) -> str:
    """Write NAME.csv and NAME_probes.csv, with their entries in index.json.

    Machines come and go: trials that the tables have already, made by the same code on the same kind of
    device, stay in them, though their runs are gone. Other tables of the name are replaced.

    Args:
        name: of the study.
        trials: all trials of the study.
        out: the folder of the study.
        directory: where tables are written.
        table_name: of the tables, for a second training of the same; default: the study's.

    Returns:
        A sentence that says how many trials are done.

    Raises:
        ValueError: no trial is done, or trials were made by different code or on different devices.
    """
    manifests = {trial.key: find_run_dir(trial, out).load_manifest() for trial in trials}
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
        columns = choose_columns(trials, probes)
        existing = _load_existing_rows(table, columns, done[0], directory)
        absent = [trial for trial in trials if manifests[trial.key].get("status") != DONE]
        kept = sum(bool(_find_rows(_identify(trial, columns), existing)) for trial in absent)
        rows = collect_rows(trials, out, probes, existing)
        results.save(
            table,
            rows,
            columns=columns,
            command=f"linattn study {name} --out DIR{again}",
            seed=sorted({row["seed"] for row in rows}),
            source_hash=done[0]["source_hash"],
            device=done[0]["device"],
            measured_with=done[0]["versions"],
            digits=DIGITS,
            directory=directory,
        )
    diverged = sum(manifest.get("status") == DIVERGED for manifest in manifests.values())
    more = f" here, {kept} more are in the table" if kept else ""
    return f"{len(done)} of {len(trials)} trials are done{more}; {diverged} diverged"
