"""Trials small enough for tests: a few words, the smallest model, a CPU."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from linattn_ref import cli  # noqa: F401
from linattn_ref.training.distributed import distributed  # noqa: F401
from linattn_study import STUDIES, corpora  # noqa: F401
from linattn_study.run_dir import EvalRow
from linattn_study.trial import Trial
from linattn_study.work import Settings, run_dir_of, train_trial

WORDS = {f"{i}.txt": b"%d words of linear attention, and %d more\n" % (i, i * i) * 20 for i in range(40)}
RECIPE = corpora.Recipe("words", 20_000, 3_000, 0.2)
TINY = Trial(
    "words",
    "llama",
    "0.2M",
    4e-3,
    tokens=12 * 128,
    seq_len=32,
    batch_size=4,
    warmup_tokens=256,
    n_evaluations=5,
    first_evaluation=128,
    validation_tokens=512,
)
STUDY = [dataclasses.replace(TINY, seed=seed) for seed in range(3)]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def settings(folder: Path, **changes: Any) -> Settings:
    """Runs in ``folder/runs``, text in ``folder/text``, which is made if it is not there."""
    if not (folder / "text" / "words.json").exists():
        corpora.prepare("words", WORDS, folder / "text", RECIPE)
    plain = Settings(folder / "runs", folder / "text", torch.device("cpu"), "reference")
    return dataclasses.replace(plain, **changes)


def trained(trial: Trial, folder: Path) -> list[EvalRow]:
    """The rows of a whole run, without the clock."""
    assert train_trial(trial, settings(folder)) == "done"
    return timeless(run_dir_of(trial, folder / "runs").rows())


CLOCK = ("seconds", "wall", "tokens_per_second")


def timeless(rows: list[EvalRow]) -> list[EvalRow]:
    return [{name: x for name, x in row.items() if name not in CLOCK} for row in rows]


def lines(text: str) -> str:
    """A program of these lines, with this module as ``s``."""
    folder = str(Path(__file__).parents[2])
    return f"import sys, time; sys.path.insert(0, {folder!r}); import tests.study.study_helpers as s\n{text}"


def program(text: str) -> list[str]:
    """A command that runs them."""
    return [sys.executable, "-c", lines(text)]


def run_of(folder: Path, pause: float = 0.0) -> list[str]:
    """Train ``TINY``, keep every evaluation, and rest after it."""
    return program(f"""
where = s.settings(s.Path({str(folder)!r}), checkpoint_seconds=0.0)
print(s.train_trial(s.TINY, where, lambda row: time.sleep({pause})))
""")


class Processes:
    """A launcher of its own: workers that know the study ``words``."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def start(self, arguments: Sequence[str], slot: int) -> "subprocess.Popen[bytes]":
        self.slots.append(slot)
        text = "s.STUDIES['words'] = lambda: s.STUDY\nsys.exit(s.cli.main(['study', *sys.argv[1:]]))"
        return subprocess.Popen([*program(text), *arguments], env=ENVIRONMENT)
