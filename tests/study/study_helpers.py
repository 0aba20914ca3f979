"""Trials small enough for tests (a few words, the smallest model, a CPU), and programs that train them.

Programs are run by other processes and see this module as ``s``; so some names are here for them alone.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from linattn_ref import cli  # noqa: F401 (for programs)
from linattn_ref.training.distributed import distributed  # noqa: F401 (for programs)
from linattn_study import STUDIES, corpora  # noqa: F401 (for programs)
from linattn_study.run_dir import EvalRow
from linattn_study.trial import Trial
from linattn_study.work import Settings, find_run_dir, train_trial
from tests.support.processes import ENVIRONMENT

WORDS = {f"{i}.txt": b"%d words of linear attention, and %d more\n" % (i, i * i) * 20 for i in range(40)}
RECIPE = corpora.Recipe("words", 20_000, 3_000, 0.2)
# twelve steps of 128 bytes, evaluated five times
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


def settings(folder: Path, **changes: Any) -> Settings:
    """Return settings with runs in ``folder/runs`` and text in ``folder/text``, made if it is not there.

    Args:
        folder: of the test.
        changes: fields of ``Settings`` to replace.
    """
    if not (folder / "text" / "words.json").exists():
        corpora.prepare("words", WORDS, folder / "text", RECIPE)
    plain = Settings(folder / "runs", folder / "text", torch.device("cpu"), "reference")
    return dataclasses.replace(plain, **changes)


def trained(trial: Trial, folder: Path) -> list[EvalRow]:
    """Train a trial from beginning to end; return its rows without the clock."""
    assert train_trial(trial, settings(folder)) == "done"
    return timeless(find_run_dir(trial, folder / "runs").load_rows())


CLOCK = ("seconds", "wall", "tokens_per_second")


def timeless(rows: list[EvalRow]) -> list[EvalRow]:
    """Return what two equal runs share: everything but the clock."""
    return [{name: x for name, x in row.items() if name not in CLOCK} for row in rows]


def program_of(lines: str) -> str:
    """Return the text of a program: these lines, with this module as ``s``."""
    folder = str(Path(__file__).parents[2])
    return f"import sys, time; sys.path.insert(0, {folder!r}); import tests.study.study_helpers as s\n{lines}"


def command_of(lines: str) -> list[str]:
    """Return the command that runs such a program."""
    return [sys.executable, "-c", program_of(lines)]


def train_command(folder: Path, pause: float = 0.0) -> list[str]:
    """Return the command that trains ``TINY``, saves every evaluation, and rests after each."""
    return command_of(f"""
where = s.settings(s.Path({str(folder)!r}), checkpoint_seconds=0.0)
print(s.train_trial(s.TINY, where, lambda row: time.sleep({pause})))
""")


class Processes:
    """A launcher whose workers know the study ``words``, which is no study of the package.

    Attributes:
        slots: the numbers of the workers that were started.
    """

    def __init__(self) -> None:
        self.slots: list[int] = []

    def start(self, arguments: Sequence[str], slot: int) -> "subprocess.Popen[bytes]":
        """Start a worker, as ``launch.run`` asks for it."""
        self.slots.append(slot)
        text = "s.STUDIES['words'] = lambda: s.STUDY\nsys.exit(s.cli.main(['study', *sys.argv[1:]]))"
        return subprocess.Popen([*command_of(text), *arguments], env=ENVIRONMENT)
