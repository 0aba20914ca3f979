"""Who trains what: one trial in its place, a worker that takes one trial after the other, and their table."""

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import linattn_ref
from linattn_book import results
from linattn_ref.training.checkpoint import identity_of, load_checkpoint, save_checkpoint
from linattn_ref.training.distributed import World, current_world
from linattn_study import corpora
from linattn_study.loop import Diverged, Loop
from linattn_study.place import DiskFull, Place, Row, Taken
from linattn_study.probes import probe
from linattn_study.trial import Trial

HERE, REFERENCE = Path(__file__).parent, Path(linattn_ref.__file__).parent
SOURCES = [  # what decides the numbers
    *(HERE / name for name in ("trial.py", "loop.py", "probes.py", "corpora.py")),
    *(
        REFERENCE / name
        for name in ("ops", "mixers", "model.py", "config.py", "training/trainer.py", "costs")
    ),
]
DONE, DIVERGED, RUNNING, FAILED, STOPPED = "done", "diverged", "running", "failed", "stopped"
BYTES_PER_PARAMETER = 12  # weights and two moments, in float32


class Stopped(Exception):
    """The time is over; the trial goes on from its checkpoint when the command is run again."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a worker needs to know besides its trials.

    ``deadline`` is a time of ``time.monotonic``; with ``whole``, no trial begins that would not end before,
    as far as trials like it tell. A checkpoint is written at the first evaluation after
    ``checkpoint_seconds``.
    """

    out: Path
    corpora: Path
    device: torch.device
    backend: str
    deadline: float = float("inf")
    checkpoint_seconds: float = 60.0
    whole: bool = False


def place_of(trial: Trial, out: Path) -> Place:
    return Place(out / trial.key)


# --- one trial ----------------------------------------------------------------------------------------------


def train_trial(trial: Trial, settings: Settings, on_row: Callable[[Row], None] = lambda row: None) -> str:
    """Train what is left of a trial, in its place; how it ended: "done" or "diverged".

    Raises:
        Taken: another process works on it.
        ValueError: its place holds another trial, or its corpus is not what was prepared.
        DiskFull: there is no room for its checkpoints or rows.
        Stopped: the deadline is over; a checkpoint is written.
    """
    place, world = place_of(trial, settings.out), current_world()
    writes = world.rank == 0
    with _claimed(place, world):
        manifest = place.manifest()
        if manifest.get("status") in (DONE, DIVERGED):
            return str(manifest["status"])
        text = corpora.load(trial.corpus, settings.corpora)
        loop = Loop(trial, text, settings.device, settings.backend, world)
        identity = identity_of(loop.model, dataclasses.asdict(trial), text.sha256)
        if place.checkpoint_file.is_file():
            loop.resumed(lambda state: load_checkpoint(place.checkpoint_file, state, identity))
        manifest = _manifest(trial, loop, text.sha256, settings, manifest)
        n_weights = sum(p.numel() for p in loop.model.parameters())
        place.require_room(BYTES_PER_PARAMETER * n_weights)
        record = place.save_manifest if writes else _nothing
        record(manifest)
        end: Row = {}
        try:
            end["status"] = _train(loop, place if writes else None, identity, settings, on_row)
        except Diverged as error:
            end |= {"status": DIVERGED, "error": str(error)}
        except Stopped:
            record(manifest | {"status": STOPPED})
            raise
        except Exception as error:
            record(manifest | {"status": FAILED, "error": f"{type(error).__name__}: {error}"})
            raise
        if loop.state.rows:
            end |= {name: loop.state.rows[-1][name] for name in ("seconds", "tokens_per_second")}
        record(manifest | end | {"peak_bytes": _peak_bytes(settings.device)})
        if writes:
            place.checkpoint_file.unlink(missing_ok=True)
        return str(end["status"])


@contextmanager
def _claimed(place: Place, world: World) -> Iterator[None]:
    """The first rank claims a place for all of them."""
    if world.rank == 0:
        try:
            with place.claimed():
                world.any(False)
                yield
        except Taken:
            world.any(True)
            raise
    elif world.any(False):
        raise Taken(f"{place.folder}: another process works on this trial")
    else:
        yield


def _nothing(manifest: Any) -> None:
    """What other ranks than the first write."""


def _train(
    loop: Loop, place: Place | None, identity: Any, settings: Settings, on_row: Callable[[Row], None]
) -> str:
    """From evaluation to evaluation; ``place`` is where rows and checkpoints go, if this rank writes."""
    trial, saved = loop.trial, time.monotonic()
    for step in trial.evaluations():
        if step <= loop.done:
            continue
        loop.state.rows.append(_row(loop, step))
        if place is not None:
            place.save_rows(loop.state.rows)
            on_row(loop.state.rows[-1])
        now = time.monotonic()
        over = loop.world.any(now > settings.deadline) and step < trial.n_steps
        if place is not None and (over or now - saved > settings.checkpoint_seconds):
            save_checkpoint(place.checkpoint_file, loop.state, identity)
            saved = time.monotonic()
        if over:
            raise Stopped
    found = probe(loop)
    if place is not None:
        place.save_probes(found)
    return DONE


def _row(loop: Loop, step: int) -> Row:
    """Train up to ``step`` and evaluate."""
    trial, before, start = loop.trial, loop.done, time.perf_counter()
    losses = loop.advance(step - before)
    seconds = time.perf_counter() - start
    val_loss = loop.evaluate()
    wall = time.perf_counter() - start
    so_far = loop.state.rows[-1] if loop.state.rows else {"seconds": 0.0, "wall": 0.0}
    return {
        "step": step,
        "tokens": step * trial.tokens_per_step,
        "flops": step * trial.tokens_per_step * loop.flops_per_token,
        "lr": trial.rate(step),
        "train_loss": losses.train,
        "val_loss": val_loss,
        "grad_norm": losses.worst_norm,
        "seconds": so_far["seconds"] + seconds,
        "wall": so_far["wall"] + wall,
        "tokens_per_second": (step - before) * trial.tokens_per_step / seconds,
    }


def _manifest(
    trial: Trial, loop: Loop, corpus_sha256: str, settings: Settings, before: dict[str, Any]
) -> dict[str, Any]:
    plan = dataclasses.asdict(trial)
    return {
        "status": RUNNING,
        "trial": plan,
        "trial_sha256": hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest(),
        "corpus_sha256": corpus_sha256,
        "source_hash": source_hash(settings.backend),
        "backend": settings.backend,
        "n_params": loop.n_params,
        "n_layers": loop.config.n_layers,
        "d_model": loop.config.d_model,
        "device": results.device_name(),
        "versions": results.versions(),
        "sessions": before.get("sessions", 0) + 1,  # times that a process has begun or gone on
    }


@functools.cache
def source_hash(backend: str) -> str:
    """Of the code that decides the numbers."""
    kernels = find_spec("linattn_kernels") if backend == "triton" else None
    folders = kernels.submodule_search_locations or [] if kernels else []
    return results.source_hash([*SOURCES, *map(Path, folders)])


def _peak_bytes(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


# --- many ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tally:
    """What a worker did itself: names of trials by how they ended."""

    done: list[str] = dataclasses.field(default_factory=list)
    diverged: list[str] = dataclasses.field(default_factory=list)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    taken: list[str] = dataclasses.field(default_factory=list)
    too_long: list[str] = dataclasses.field(default_factory=list)
    stopped: bool = False


def work(
    trials: Sequence[Trial], settings: Settings, say: Callable[[str], None] = lambda text: None
) -> Tally:
    """Take each trial that nobody works on; one that fails does not stop the others, a full disk does."""
    tally = Tally()
    for trial in trials:
        if time.monotonic() > settings.deadline:
            tally.stopped = True
            break
        if place_of(trial, settings.out).manifest().get("status") in (DONE, DIVERGED):
            continue
        speed = speeds(trials, settings.out).get((trial.arch, trial.size)) if settings.whole else None
        if speed is not None and time.monotonic() + trial.tokens / speed > settings.deadline:
            tally.too_long.append(trial.key)
            say(f"{trial.key}: too long for the time that is left")
            continue
        if settings.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(settings.device)
        try:
            status = train_trial(trial, settings)
        except Taken:
            tally.taken.append(trial.key)
            continue
        except Stopped:
            tally.stopped = True
            break
        except DiskFull:
            raise
        except Exception as error:
            tally.failed[trial.key] = f"{type(error).__name__}: {error}"
            say(f"{trial.key}: {tally.failed[trial.key]}")
            continue
        (tally.done if status == DONE else tally.diverged).append(trial.key)
        say(f"{trial.key}: {status}")
    return tally


def speeds(trials: Sequence[Trial], out: Path) -> dict[tuple[str, str], float]:
    """Bytes a second, evaluations included, mean over what was trained so far: by architecture and size."""
    found: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        rows = place_of(trial, out).rows()
        if rows:
            found.setdefault((trial.arch, trial.size), []).append(rows[-1]["tokens"] / rows[-1]["wall"])
    return {kind: sum(some) / len(some) for kind, some in found.items()}
