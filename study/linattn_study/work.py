"""Train trials: one in its run folder, or one after the other as a worker of a study."""

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from linattn_book import results
from linattn_book.provenance import code_hash
from linattn_ref.config import PAPER_ARCHITECTURES
from linattn_ref.training.checkpoint import identify_run, save_checkpoint
from linattn_ref.training.distributed import World, get_current_world
from linattn_ref.training.trainer import Diverged
from linattn_study import corpora
from linattn_study.loop import Loop
from linattn_study.probes import measure_second_reading, probe
from linattn_study.run_dir import DiskFull, EvalRow, RunDir, RunLocked
from linattn_study.trial import Trial

DONE, DIVERGED, RUNNING, FAILED, STOPPED = "done", "diverged", "running", "failed", "stopped"
BYTES_PER_PARAMETER = 12  # weights and two moments, in float32


class Stopped(Exception):
    """Say that the time is over; the trial goes on from its checkpoint when the command is run again."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Hold what a worker needs to know besides its trials.

    Args:
        out: the folder of the study; each trial has a folder in it.
        corpora: the folder of prepared texts.
        device: where to train.
        backend: "reference" or "triton".
        deadline: a time of ``time.monotonic`` to stop at; default: never.
        checkpoint_seconds: a checkpoint is written at the first evaluation after so many; default 60.
        whole: begin no trial that would not end before the deadline, as far as trials like it tell; default
            False.
        sharded: whether each of several ranks keeps a part of the weights only, not all of them; default
            False.
    """

    out: Path
    corpora: Path
    device: torch.device
    backend: str
    deadline: float = float("inf")
    checkpoint_seconds: float = 60.0
    whole: bool = False
    sharded: bool = False


def find_run_dir(trial: Trial, out: Path) -> RunDir:
    """Return the folder of a trial in that of its study."""
    return RunDir(out / trial.key)


# --- one trial ----------------------------------------------------------------------------------------------


def train_trial(
    trial: Trial, settings: Settings, on_row: Callable[[EvalRow], None] = lambda row: None
) -> str:
    """Train what is left of a trial, and write what it finds into its folder.

    Args:
        trial: what to train.
        settings: where, and for how long.
        on_row: called with each new evaluation.

    Returns:
        "done" or "diverged".

    Raises:
        RunLocked: another process works on it.
        ValueError: its folder holds another trial, or its corpus is not what was prepared.
        DiskFull: there is no room for its checkpoints or rows.
        Stopped: the deadline is over; a checkpoint is written.
    """
    run_dir, world = find_run_dir(trial, settings.out), get_current_world()
    writes = world.rank == 0
    with _lock_by_first_rank(run_dir, world):
        manifest = run_dir.load_manifest()
        if manifest.get("status") in (DONE, DIVERGED):
            return str(manifest["status"])
        corpus = corpora.load(trial.corpus, settings.corpora)
        loop = Loop(trial, corpus, settings.device, settings.backend, world, sharded=settings.sharded)
        identity = identify_run(loop.model, trial.to_record(), corpus.sha256)
        if run_dir.checkpoint_file.is_file():
            loop.resume(run_dir.checkpoint_file, identity)
        manifest = _describe_run(trial, loop, corpus.sha256, settings, manifest)
        n_weights = sum(p.numel() for p in loop.model.parameters())
        run_dir.require_space(BYTES_PER_PARAMETER * n_weights)
        record = run_dir.save_manifest if writes else _write_nothing
        record(manifest)
        end: dict[str, Any] = {}
        try:
            end["status"] = _train(loop, run_dir, writes, identity, settings, on_row)
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
        record(manifest | end | {"peak_bytes": _read_peak_bytes(settings.device)})
        if writes:
            run_dir.checkpoint_file.unlink(missing_ok=True)
        return str(end["status"])


@contextmanager
def _lock_by_first_rank(run_dir: RunDir, world: World) -> Iterator[None]:
    """Lock a run folder for all ranks: the first rank does, and tells the others whether it could."""
    if world.rank == 0:
        try:
            with run_dir.lock():
                world.any(False)
                yield
        except RunLocked:
            world.any(True)
            raise
    elif world.any(False):
        raise RunLocked(f"{run_dir.folder}: another process works on this trial")
    else:
        yield


def _write_nothing(manifest: Any) -> None:
    """Stand in for writing on all ranks but the first."""


def _train(
    loop: Loop,
    run_dir: RunDir,
    writes: bool,
    identity: Any,
    settings: Settings,
    on_row: Callable[[EvalRow], None],
) -> str:
    """Train from evaluation to evaluation; rows and checkpoints go to ``run_dir``, if this rank writes."""
    trial, saved = loop.trial, time.monotonic()
    for step in trial.list_evaluations():
        if step <= loop.steps_done:
            continue
        loop.state.rows.append(_train_and_evaluate(loop, step))
        if writes:
            run_dir.save_rows(loop.state.rows)
            on_row(loop.state.rows[-1])
        now = time.monotonic()
        over = loop.world.any(now > settings.deadline) and step < trial.n_steps
        if loop.world.any(over or now - saved > settings.checkpoint_seconds):
            save_checkpoint(run_dir.checkpoint_file, loop.state, identity, writes)
            saved = time.monotonic()
        if over:
            raise Stopped
    answers = probe(loop)
    if writes:
        run_dir.save_probes(answers)
    return DONE


def _train_and_evaluate(loop: Loop, step: int) -> EvalRow:
    """Train up to ``step`` and evaluate."""
    trial, before, start = loop.trial, loop.steps_done, time.perf_counter()
    losses = loop.advance(step - before)
    seconds = time.perf_counter() - start
    val_loss = loop.evaluate()
    asked = measure_second_reading(loop) if trial.second_reading else {}
    wall = time.perf_counter() - start
    so_far = loop.state.rows[-1] if loop.state.rows else {"seconds": 0.0, "wall": 0.0}
    return {
        "step": step,
        "tokens": step * trial.tokens_per_step,
        "flops": step * trial.tokens_per_step * loop.flops_per_token,
        "lr": trial.compute_rate(step),
        "train_loss": losses.train,
        "val_loss": val_loss,
        "grad_norm": losses.worst_norm,
        "seconds": so_far["seconds"] + seconds,
        "wall": so_far["wall"] + wall,
        "tokens_per_second": (step - before) * trial.tokens_per_step / seconds,
    } | asked


def _describe_run(
    trial: Trial, loop: Loop, corpus_sha256: str, settings: Settings, before: dict[str, Any]
) -> dict[str, Any]:
    """Return what is recorded of a run when it begins or goes on."""
    plan = trial.to_record()
    return {
        "status": RUNNING,
        "trial": plan,
        "trial_sha256": hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest(),
        "corpus_sha256": corpus_sha256,
        "source_hash": hash_sources(settings.backend),
        "backend": settings.backend,
        "n_params": loop.n_params,
        "n_layers": loop.config.n_layers,
        "d_model": loop.config.d_model,
        "device": results.device_name(),
        "versions": results.versions(),
        "sessions": before.get("sessions", 0) + 1,  # how often a process has begun or gone on
    }


@functools.cache
def hash_sources(backend: str) -> str:
    """Return the hash of the code that decides the numbers of the four architectures on a backend."""
    modules = ("linattn_study.loop", "linattn_study.probes", "linattn_study.corpora")
    without = () if backend == "triton" else ("linattn_kernels",)
    return code_hash(*modules, mixers=PAPER_ARCHITECTURES.values(), without=without)


def _read_peak_bytes(device: torch.device) -> int | None:
    """Return the largest memory of tensors so far; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


# --- many ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class WorkSummary:
    """Hold what a worker did itself: keys of trials by how they ended.

    Args:
        done, diverged: trials that it trained to their end.
        failed: key -> the error.
        locked: trials that other processes work on.
        too_long: trials that would not have ended in time.
        stopped: whether the deadline came before all trials were done.
    """

    done: list[str] = dataclasses.field(default_factory=list)
    diverged: list[str] = dataclasses.field(default_factory=list)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    locked: list[str] = dataclasses.field(default_factory=list)
    too_long: list[str] = dataclasses.field(default_factory=list)
    stopped: bool = False


def work(
    trials: Sequence[Trial], settings: Settings, report: Callable[[str], None] = lambda text: None
) -> WorkSummary:
    """Train each trial that nobody else works on; one that fails does not stop the others.

    Args:
        trials: what to train, in this order.
        settings: where, and for how long.
        report: called with a line about each trial that ended.

    Returns:
        What became of the trials.

    Raises:
        DiskFull: there is no room; this does stop the others.
    """
    summary = WorkSummary()
    for trial in trials:
        if time.monotonic() > settings.deadline:
            summary.stopped = True
            break
        if find_run_dir(trial, settings.out).load_manifest().get("status") in (DONE, DIVERGED):
            continue
        speed = measure_speeds(trials, settings.out).get((trial.arch, trial.size)) if settings.whole else None
        if speed is not None and time.monotonic() + trial.tokens / speed > settings.deadline:
            summary.too_long.append(trial.key)
            report(f"{trial.key}: too long for the time that is left")
            continue
        if settings.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(settings.device)
        try:
            status = train_trial(trial, settings)
        except RunLocked:
            summary.locked.append(trial.key)
            continue
        except Stopped:
            summary.stopped = True
            break
        except DiskFull:
            raise
        except Exception as error:
            summary.failed[trial.key] = f"{type(error).__name__}: {error}"
            report(f"{trial.key}: {summary.failed[trial.key]}")
            continue
        (summary.done if status == DONE else summary.diverged).append(trial.key)
        report(f"{trial.key}: {status}")
    return summary


def measure_speeds(trials: Sequence[Trial], out: Path) -> dict[tuple[str, str], float]:
    """Return (architecture, size) -> bytes a second, evaluations included: mean over what was trained."""
    measured: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        rows = find_run_dir(trial, out).load_rows()
        if rows:
            measured.setdefault((trial.arch, trial.size), []).append(rows[-1]["tokens"] / rows[-1]["wall"])
    return {kind: sum(some) / len(some) for kind, some in measured.items()}
