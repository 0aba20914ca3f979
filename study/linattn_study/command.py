"""What ``linattn study`` does."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from linattn_book import results
from linattn_ref.backend import backend_for
from linattn_ref.training.distributed import default_device, distributed
from linattn_ref.training.tasks import ByteCorpus, library
from linattn_study import code, collect, corpora, launch, novels, work
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
    add("--workers", type=int, default=0, metavar="N", help="default: one per GPU, or one on the CPU")
    add("--backend", choices=("auto", "reference", "triton"), default="auto", help="default: triton on GPUs")
    add("--minutes", type=float, metavar="M", help="stop at the first evaluation after M minutes")
    known = "leave out runs that NAME.csv in DIR has, of this source and this kind of device"
    add("--known", type=Path, metavar="DIR", help=known)
    add("--whole", action="store_true", help="with --minutes: begin no run that would not end in time")
    add("--list", action="store_true", help="print the names of the runs, and how far they are")
    add("--collect", type=Path, metavar="DIR", help="write NAME.csv and index.json of what is done into DIR")
    add("--as", dest="table", metavar="NAME", help="with --collect: of the tables; default: the study's")
    add("--fit", type=Path, metavar="DIR", help="fit all laws to NAME.csv of DIR: NAME_fits.csv")
    add(
        "--worker", action="store_true", help="work in this process, on its first GPU; under torchrun, on all"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """The exit status; errors are ``ValueError``, ``OSError`` and ``RuntimeError``."""
    if options.name == "corpora":
        return prepare(options)
    if options.name not in STUDIES:
        raise ValueError(f"name: got {options.name!r}, expected corpora or one of {', '.join(STUDIES)}")
    trials = [trial for trial in chosen(options) if options.only in trial.key]
    if not trials:
        raise ValueError(f"only: no run of {options.name} has {options.only!r} in its name")
    out = options.out or Path("runs") / options.name
    if options.collect is not None:
        say(collect.collect(options.name, chosen(options), out, options.collect, options.table))
        return 0
    if options.fit is not None:
        say(f"{save_fits(options.name, options.fit)} rows")
        return 0
    if options.known is not None:
        left = unknown(options)
        say(f"{sum(trial not in left for trial in trials)} of {len(trials)} trials are in {options.known}")
        trials = [trial for trial in trials if trial in left]
    if options.list or not trials:
        return show(trials, out)
    if options.worker:
        return worker(trials, out, options)
    provide(trials, options.corpora)
    n_workers = options.workers or max(1, torch.cuda.device_count())
    arguments = [options.name, "--worker", "--out", str(out), "--corpora", str(options.corpora)]
    arguments += ["--backend", options.backend, "--only", options.only]
    arguments += ["--corpus", *options.corpus] if options.corpus else []
    arguments += ["--whole"] if options.whole else []
    arguments += ["--known", str(options.known)] if options.known is not None else []
    if options.minutes is not None:
        arguments += ["--minutes", str(options.minutes)]
    return launch.run(trials, out, arguments, n_workers, launch.LocalProcesses(), say)


def chosen(options: argparse.Namespace) -> Sequence[Trial]:
    """The trials of a study, or the same on other corpora."""
    trials = STUDIES[options.name]()
    if not options.corpus:
        return trials
    moved = (replace(trial, corpus=corpus) for corpus in options.corpus for trial in trials)
    return list(dict.fromkeys(moved))


def unknown(options: argparse.Namespace) -> Sequence[Trial]:
    """Trials of the study that no table has yet."""
    made = {"source_hash": work.source_hash(backend_of(options)), "device": results.device_name()}
    return collect.unknown(options.name, chosen(options), made, options.known)


def backend_of(options: argparse.Namespace) -> str:
    """That which runs here."""
    return backend_for(default_device()) if options.backend == "auto" else options.backend


def provide(trials: Sequence[Trial], folder: Path) -> None:
    """Make the texts that every installation has; the others must be there before a study begins."""
    named = dict.fromkeys(trial.corpus for trial in trials if not corpora.recall_length(trial.corpus))
    files = dict.fromkeys(corpora.file_of(name) for name in named)
    missing = [name for name in files if not (folder / f"{name}.json").is_file()]
    for name in [name for name in missing if name in LIBRARY]:
        tell(name, corpora.prepare(name, LIBRARY[name](), folder))
    others = [name for name in missing if name not in LIBRARY]
    if others:
        ours = any(name in corpora.PARTS for name in others)
        command = "linattn study corpora" + ("" if ours else " --add NAME=PATH")
        raise ValueError(f"corpora: no {', '.join(others)} in {folder}; `{command}` makes it")


def say(text: str) -> None:
    print(text, flush=True)


def show(trials: Sequence[Trial], out: Path) -> int:
    for trial in trials:
        place = work.place_of(trial, out)
        rows, status = place.rows(), place.manifest().get("status", "not begun")
        share = rows[-1]["tokens"] / trial.tokens if rows else 0.0
        loss = f"  {rows[-1]['val_loss']:.4f}" if rows else ""
        say(f"{trial.key}  {status}  {100 * share:.0f} %{loss}")
    return 0


def worker(trials: Sequence[Trial], out: Path, options: argparse.Namespace) -> int:
    """0 if no trial failed; one that diverged, or is in other hands, did not fail."""
    seconds = float("inf") if options.minutes is None else 60 * options.minutes
    with distributed() as world:
        device = default_device()
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = True  # of what autocast leaves in float32
        settings = work.Settings(
            out, options.corpora, device, backend_of(options), time.monotonic() + seconds
        )
        settings = replace(settings, whole=options.whole)
        tally = work.work(trials, settings, say if world.rank == 0 else lambda text: None)
    return 1 if tally.failed else 0


def prepare(options: argparse.Namespace) -> int:
    """Make what is not there yet: texts of ours that are given or fetched, and those of ``--add``."""
    folder: Path = options.corpora
    readers = {
        "novels": lambda: novels.read_novels(options.novels or novels.fetch_novels(folder / "eltec-eng.zip")),
        "code": lambda: code.read_code(options.code or code.fetch_code(folder / "archives")),
    } | LIBRARY
    wanted = {name: part for name, part in corpora.PARTS.items() if options.only in name}
    if options.add:
        wanted = {}
    for text in dict.fromkeys(part.text for part in wanted.values()):
        names = [name for name, part in wanted.items() if part.text == text]
        missing = [name for name in names if not (folder / f"{name}.json").is_file()]
        documents = readers[text]() if missing else {}
        for name in missing:
            corpora.prepare(name, documents, folder)
        for name in names:
            tell(name, corpora.load(name, folder))
    for addition in options.add:
        name, _, source = addition.partition("=")
        if not name.replace("-", "").replace("_", "").isalnum() or not source or name in corpora.PARTS:
            raise ValueError(f"add: got {addition!r}, expected NAME=PATH or NAME=hf:DATASET, with a new name")
        found = (
            ByteCorpus.from_hugging_face(source[3:])
            if source.startswith("hf:")
            else ByteCorpus.from_path(source, options.pattern)
        )
        train, validation = (bytes(side.numpy()) for side in (found.train, found.validation))
        tell(name, corpora.write(name, train, validation, folder))
    return 0


def tell(name: str, text: corpora.Text) -> None:
    sizes = f"{len(text.train):,} bytes to train on, {len(text.validation):,} to validate on"
    say(f"{name}: {sizes}, sha256 {text.sha256[:12]}")
