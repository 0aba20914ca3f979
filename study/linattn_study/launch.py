"""Start workers, watch them and wait for them.

A launcher starts a worker for a slot; workers share nothing but the folder of the study, where each claims
its trials. So another launcher, such as one for a cluster's queue, needs no more than a command and a folder
that all of its machines see.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from linattn_study.trial import Trial
from linattn_study.work import DIVERGED, DONE, find_run_dir, measure_speeds


class Worker(Protocol):
    """Describe what a launcher gives back; ``subprocess.Popen`` is one."""

    def poll(self) -> int | None:
        """Return the exit status, or None while it works."""
        ...

    def terminate(self) -> None:
        """Stop it."""
        ...


class Launcher(Protocol):
    """Describe what starts workers."""

    def start(self, arguments: Sequence[str], slot: int) -> Worker:
        """Run ``linattn study`` with these arguments, on the GPU (or other device) number ``slot``."""
        ...


class LocalProcesses:
    """Start a process for each GPU of this machine, or several that share the cores of its CPU.

    Args:
        n_workers: how many will be started.
    """

    def __init__(self, n_workers: int) -> None:
        # In models so small a second thread is waited for longer than it helps, above all on a busy machine.
        threads = str(count_cores() // n_workers or 1)
        self.environment = {} if torch.cuda.is_available() else {"OMP_NUM_THREADS": threads}

    def start(self, arguments: Sequence[str], slot: int) -> subprocess.Popen[bytes]:
        """Run ``linattn study`` with these arguments on the visible GPU number ``slot``."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = visible.split(",") if visible else None
        gpu = gpus[slot] if gpus else str(slot)
        environment = {**self.environment, **os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        return subprocess.Popen([sys.executable, "-m", "linattn_study", *arguments], env=environment)


def choose_n_workers() -> int:
    """Return how many trials to train at a time: one for each GPU, or for each core, four at most."""
    return torch.cuda.device_count() or min(count_cores(), 4)


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Progress(NamedTuple):
    """Say how far a study is: trials, bytes, and the time that is left.

    ``seconds`` is the time for the trials whose speed is known; ``unknown_speed`` counts the others.
    """

    done: int
    trials: int
    tokens: int
    all_tokens: int
    seconds: float
    unknown_speed: int

    def __str__(self) -> str:
        share = 100 * self.tokens / self.all_tokens
        text = f"{self.done} of {self.trials} trials, {share:.1f} % of the bytes"
        if self.done == self.trials:
            return text
        if self.unknown_speed == self.trials - self.done:
            return f"{text}, no telling yet how long"
        others = f" and {self.unknown_speed} trials of unknown speed" if self.unknown_speed else ""
        return f"{text}, {self.seconds / 60:.1f} minutes left{others}"


def read_progress(trials: Sequence[Trial], out: Path, n_workers: int) -> Progress:
    """Read off the folder of a study how far it is.

    Args:
        trials: of the study. The speed of one is the mean of those of its architecture and size.
        out: the folder of the study.
        n_workers: how many share what is left.
    """
    known = measure_speeds(trials, out)
    n_done, tokens, seconds, unknown_speed = 0, 0, 0.0, 0
    for trial in trials:
        run_dir = find_run_dir(trial, out)
        rows = run_dir.load_rows()
        finished = run_dir.load_manifest().get("status") in (DONE, DIVERGED)
        seen = trial.tokens if finished else rows[-1]["tokens"] if rows else 0
        n_done += finished
        tokens += seen
        if not finished:
            speed = known.get((trial.arch, trial.size))
            unknown_speed += speed is None
            seconds += 0.0 if speed is None else (trial.tokens - seen) / speed
    everything = sum(trial.tokens for trial in trials)
    return Progress(n_done, len(trials), tokens, everything, seconds / n_workers, unknown_speed)


def run(
    trials: Sequence[Trial],
    out: Path,
    arguments: Sequence[str],
    n_workers: int,
    launcher: Launcher,
    report: Callable[[str], None],
    every: float = 10.0,
) -> int:
    """Start workers and wait for them, with a line about their progress now and then.

    Args:
        trials: of the study.
        out: the folder of the study.
        arguments: of ``linattn study``, for every worker.
        n_workers: how many to start.
        launcher: what starts them.
        report: called with each line.
        every: seconds between two looks at the progress; default 10.

    Returns:
        0 if all workers ended with 0, else 1.
    """
    workers = [launcher.start(arguments, slot) for slot in range(n_workers)]
    reported = ""
    try:
        last = 0.0
        while any(worker.poll() is None for worker in workers):
            time.sleep(0.2)
            if time.monotonic() - last > every:
                last = time.monotonic()
                now = str(read_progress(trials, out, n_workers))
                if now != reported:
                    report(now)
                    reported = now
    finally:  # interrupted: workers stop, too, and lose what they did since their last checkpoint
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
    report(str(read_progress(trials, out, n_workers)))
    return 0 if all(worker.poll() == 0 for worker in workers) else 1
