"""Run ``linattn study``."""

import argparse
import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from linattn_book import results
from linattn_ref.backend import choose_backend
from linattn_ref.training.command import read_corpus
from linattn_ref.training.distributed import distributed, get_default_device
from linattn_study import cluster, collect, corpora, launch, library, novels, source_code, work
from linattn_study.plan import STUDIES
from linattn_study.scaling.fits import save_fits
from linattn_study.trial import Trial

LIBRARY = {"library-prose": library.read_library_prose, "library-code": library.read_library_code}


STUDY = (
    "Train all models of a study on all GPUs; or, as NAME, corpora: prepare its texts. What was done is kept "
    "in --out; the same command goes on where it was stopped."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``linattn study``: its arguments, and what runs it."""
    parser.description = STUDY
    add = parser.add_argument
    add("name", metavar="NAME", help="a study, or corpora")
    add("--out", type=Path, metavar="DIR", help="where runs are kept; default: runs/NAME")
    add("--corpora", type=Path, default=Path("runs/corpora"), metavar="DIR", help="prepared texts")
    add("--novels", type=Path, metavar="PATH", help="corpora: the ELTeC-eng release; default: fetched")
    add("--code", type=Path, metavar="DIR", help="corpora: the source archives; default: fetched")
    more = "corpora: your own text, a file or folder, or hf:DATASET of the Hugging Face hub"
    add("--add", nargs="+", default=[], metavar="NAME=PATH", help=more)
    add("--pattern", default="*.txt", help="of the files of a folder in --add (*.txt)")
    add("--corpus", nargs="+", default=[], metavar="NAME", help="train on these instead of the study's")
    add("--only", default="", metavar="TEXT", help="only runs, or corpora, with this in their name")
    add("--workers", type=int, default=0, metavar="N", help="default: one per GPU, or per core, up to 4")
    add("--backend", choices=("auto", "reference", "triton"), default="auto", help="default: triton on GPUs")
    add("--minutes", type=float, metavar="M", help="stop at the first evaluation after M minutes")
    skip = "leave out runs that NAME.csv in DIR has, of this source and this kind of device"
    add("--skip-existing", type=Path, metavar="DIR", help=skip)
    add("--whole", action="store_true", help="with --minutes: begin no run that would not end in time")
    add("--list", action="store_true", help="print the names of the runs, and how far they are")
    add("--collect", type=Path, metavar="DIR", help="write NAME.csv and index.json of what is done into DIR")
    add("--as", dest="table", metavar="NAME", help="with --collect: of the tables; default: the study's")
    add("--fit", type=Path, metavar="DIR", help="fit all laws to NAME.csv of DIR: NAME_fits.csv")
    add(
        "--worker", action="store_true", help="work in this process, on its first GPU; under torchrun, on all"
    )
    shard = "with --worker under torchrun: a part of the weights on each GPU (FSDP2), not all on each (DDP)"
    add("--shard", action="store_true", help=shard)
    ray = "train on a Ray cluster, or on a Ray of this machine with --workers N (linattn-ref[cluster])"
    add("--cluster", action="store_true", help=ray)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit status."""
    if options.name == "corpora":
        return prepare_corpora(options)
    if options.name not in STUDIES:
        raise ValueError(f"name: got {options.name!r}, expected corpora or one of {', '.join(STUDIES)}")
    trials = [trial for trial in select_trials(options) if options.only in trial.key]
    if not trials:
        raise ValueError(f"only: no run of {options.name} has {options.only!r} in its name")
    out = options.out or Path("runs") / options.name
    if options.collect is not None:
        report(collect.collect(options.name, select_trials(options), out, options.collect, options.table))
        return 0
    if options.fit is not None:
        report(f"{save_fits(options.name, options.fit)} rows")
        return 0
    if options.skip_existing is not None:
        missing = find_missing_trials(options)
        n_there = sum(trial not in missing for trial in trials)
        report(f"{n_there} of {len(trials)} trials are in {options.skip_existing}")
        trials = [trial for trial in trials if trial in missing]
    if options.list or not trials:
        return list_trials(trials, out)
    if options.worker:
        return run_worker(trials, out, options)
    prepare_missing_corpora(trials, options.corpora)
    if options.cluster:
        options.corpora = options.corpora.resolve()  # tasks of Ray have folders of their own
        train = functools.partial(train_alone, build_worker_arguments(options, out.resolve()))
        return cluster.run(trials, out, train, options.workers, report)
    n_workers = options.workers or launch.choose_n_workers()
    launcher = launch.LocalProcesses(n_workers)
    return launch.run(trials, out, build_worker_arguments(options, out), n_workers, launcher, report)


def build_worker_arguments(options: argparse.Namespace, out: Path) -> list[str]:
    """Return the arguments of ``linattn study`` for a worker of this study."""
    arguments = [options.name, "--worker", "--out", str(out), "--corpora", str(options.corpora)]
    arguments += ["--backend", options.backend, f"--only={options.only}"]
    arguments += ["--corpus", *options.corpus] if options.corpus else []
    arguments += ["--whole"] if options.whole else []
    arguments += ["--skip-existing", str(options.skip_existing)] if options.skip_existing is not None else []
    return arguments + (["--minutes", str(options.minutes)] if options.minutes is not None else [])


def train_alone(arguments: Sequence[str], trial: Trial) -> int:
    """Train one trial of a study in this process, with the arguments of its workers; return the status."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([*arguments, f"--only={trial.key}"]))


def select_trials(options: argparse.Namespace) -> Sequence[Trial]:
    """Return the trials of a study, or the same on other corpora."""
    trials = STUDIES[options.name]()
    if not options.corpus:
        return trials
    moved = (replace(trial, corpus=corpus) for corpus in options.corpus for trial in trials)
    return list(dict.fromkeys(moved))


def find_missing_trials(options: argparse.Namespace) -> Sequence[Trial]:
    """Return the trials of the study that the table in ``--skip-existing`` does not have."""
    made = {"source_hash": work.hash_sources(resolve_backend(options)), "device": results.device_name()}
    return collect.find_missing_trials(options.name, select_trials(options), made, options.skip_existing)


def resolve_backend(options: argparse.Namespace) -> str:
    """Return the backend to train with: the one that was asked for, or the best that runs here."""
    return choose_backend(get_default_device()) if options.backend == "auto" else options.backend


def prepare_missing_corpora(trials: Sequence[Trial], folder: Path) -> None:
    """Prepare the texts that every installation has; the others must be there before a study begins.

    Args:
        trials: whose corpora are needed.
        folder: of the prepared ones.

    Raises:
        ValueError: another text is missing; the message says what makes it.
    """
    named = dict.fromkeys(trial.corpus for trial in trials if not corpora.parse_recall_length(trial.corpus))
    prepared = dict.fromkeys(corpora.find_prepared_name(name) for name in named)
    missing = [name for name in prepared if not (folder / f"{name}.json").is_file()]
    for name in [name for name in missing if name in LIBRARY]:
        report_corpus(name, corpora.prepare(name, LIBRARY[name](), folder))
    others = [name for name in missing if name not in LIBRARY]
    if others:
        has_recipe = any(name in corpora.RECIPES for name in others)
        command = "linattn study corpora" + ("" if has_recipe else " --add NAME=PATH")
        raise ValueError(f"corpora: no {', '.join(others)} in {folder}; `{command}` makes it")


def report(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)


def list_trials(trials: Sequence[Trial], out: Path) -> int:
    """Print the names of trials, how far each is, and its last loss; return the exit status."""
    for trial in trials:
        run_dir = work.find_run_dir(trial, out)
        rows, status = run_dir.load_rows(), run_dir.load_manifest().get("status", "not begun")
        share = rows[-1]["tokens"] / trial.tokens if rows else 0.0
        loss = f"  {rows[-1]['val_loss']:.4f}" if rows else ""
        report(f"{trial.key}  {status}  {100 * share:.0f} %{loss}")
    return 0


def run_worker(trials: Sequence[Trial], out: Path, options: argparse.Namespace) -> int:
    """Train trials in this process.

    Returns:
        0 if no trial failed, else 1; one that diverged, or that another process has, did not fail.
    """
    seconds = float("inf") if options.minutes is None else 60 * options.minutes
    with distributed() as world:
        device = get_default_device()
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = True  # for what autocast leaves in float32
        settings = work.Settings(
            out,
            options.corpora,
            device,
            resolve_backend(options),
            deadline=time.monotonic() + seconds,
            whole=options.whole,
            sharded=options.shard,
        )
        summary = work.work(trials, settings, report if world.rank == 0 else lambda text: None)
    return 1 if summary.failed else 0


def prepare_corpora(options: argparse.Namespace) -> int:
    """Prepare the corpora that are not there yet: ours, or those of ``--add``; return the exit status."""
    if options.add:
        for addition in options.add:
            add_corpus(addition, options.pattern, options.corpora)
        return 0
    folder: Path = options.corpora
    readers = {
        "novels": lambda: novels.read_novels(options.novels or novels.fetch_novels(folder / "eltec-eng.zip")),
        "code": lambda: source_code.read_code(options.code or source_code.fetch_code(folder / "archives")),
    } | LIBRARY
    wanted = {name: recipe for name, recipe in corpora.RECIPES.items() if options.only in name}
    for text in dict.fromkeys(recipe.text for recipe in wanted.values()):
        names = [name for name, recipe in wanted.items() if recipe.text == text]
        missing = [name for name in names if not (folder / f"{name}.json").is_file()]
        documents = readers[text]() if missing else {}
        for name in missing:
            corpora.prepare(name, documents, folder)
        for name in names:
            report_corpus(name, corpora.load(name, folder))
    return 0


def add_corpus(addition: str, pattern: str, folder: Path) -> None:
    """Prepare a text of the reader's own.

    Args:
        addition: NAME=PATH or NAME=hf:DATASET.
        pattern: of the files, if PATH is a folder.
        folder: of the prepared corpora.

    Raises:
        ValueError: another form, or a name that is taken.
    """
    name, _, source = addition.partition("=")
    if not name.replace("-", "").replace("_", "").isalnum() or not source or name in corpora.RECIPES:
        raise ValueError(f"add: got {addition!r}, expected NAME=PATH or NAME=hf:DATASET, with a new name")
    text = read_corpus(source, pattern)
    train, validation = (bytes(split.numpy()) for split in (text.train, text.validation))
    report_corpus(name, corpora.write(name, train, validation, folder))


def report_corpus(name: str, corpus: corpora.StudyCorpus) -> None:
    """Print the sizes and the hash of a corpus."""
    sizes = f"{len(corpus.train):,} bytes to train on, {len(corpus.validation):,} to validate on"
    report(f"{name}: {sizes}, sha256 {corpus.sha256[:12]}")
