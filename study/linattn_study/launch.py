"""Workers started, watched and waited for.

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

from linattn_study.place import Place
from linattn_study.trial import Trial
from linattn_study.work import DIVERGED, DONE, place_of, speeds


class Worker(Protocol):
    """What a launcher gives back; ``subprocess.Popen`` is one."""

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...


class Launcher(Protocol):
    def start(self, arguments: Sequence[str], slot: int) -> Worker:
        """Run ``linattn study`` with these arguments, on the GPU (or other device) number ``slot``."""
        ...


class LocalProcesses:
    """One process for each GPU of this machine, or for its CPU."""

    def start(self, arguments: Sequence[str], slot: int) -> subprocess.Popen[bytes]:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = visible.split(",") if visible else None
        gpu = gpus[slot] if gpus else str(slot)
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        return subprocess.Popen([sys.executable, "-m", "linattn_study", *arguments], env=environment)


class Progress(NamedTuple):
    """Of a study. ``seconds`` are those left, of what can be told; ``unknown`` trials had none like them."""

    done: int
    trials: int
    tokens: int
    all_tokens: int
    seconds: float
    unknown: int

    def __str__(self) -> str:
        share = 100 * self.tokens / self.all_tokens
        text = f"{self.done} of {self.trials} trials, {share:.1f} % of the bytes"
        if self.done == self.trials:
            return text
        left = f"{self.seconds / 60:.1f} minutes left"
        if self.unknown == self.trials - self.done:
            return f"{text}, no telling yet how long"
        return f"{text}, {left}" + (f" and {self.unknown} trials of unknown speed" if self.unknown else "")


def progress(trials: Sequence[Trial], out: Path, n_workers: int) -> Progress:
    """Read off the folder. A trial's speed is the mean of those of its architecture and size."""
    known, found = speeds(trials, out), []
    for trial in trials:
        place: Place = place_of(trial, out)
        rows, status = place.rows(), place.manifest().get("status")
        found.append((trial, rows[-1]["tokens"] if rows else 0, status in (DONE, DIVERGED)))
    seconds, unknown = 0.0, 0
    for trial, tokens, finished in found:
        speed = known.get((trial.arch, trial.size))
        if not finished and speed is None:
            unknown += 1
        elif not finished and speed is not None:
            seconds += (trial.tokens - tokens) / speed
    tokens = sum(trial.tokens if finished else tokens for trial, tokens, finished in found)
    n_done = sum(finished for *_, finished in found)
    everything = sum(trial.tokens for trial in trials)
    return Progress(n_done, len(trials), tokens, everything, seconds / n_workers, unknown)


def run(
    trials: Sequence[Trial],
    out: Path,
    arguments: Sequence[str],
    n_workers: int,
    launcher: Launcher,
    say: Callable[[str], None],
    every: float = 10.0,
) -> int:
    """Start workers and wait for them, with a word now and then; 0 if all of them came to a good end."""
    workers = [launcher.start(arguments, slot) for slot in range(n_workers)]
    told = ""
    try:
        last = 0.0
        while any(worker.poll() is None for worker in workers):
            time.sleep(0.2)
            if time.monotonic() - last > every:
                last = time.monotonic()
                now = str(progress(trials, out, n_workers))
                if now != told:
                    say(now)
                    told = now
    finally:  # interrupted: workers stop, too, and lose what they did since their last checkpoint
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
    say(str(progress(trials, out, n_workers)))
    return 0 if all(worker.poll() == 0 for worker in workers) else 1
