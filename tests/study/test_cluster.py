"""A study on Ray: the same rows as without, and what a lost process costs."""

import functools
import logging
import os
import signal
import sys
from pathlib import Path

import pytest
import ray

import tests.study.study_helpers as s
from linattn_study import cluster, work
from linattn_study.trial import Trial

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def two_workers(monkeypatch):
    """Start a Ray of two workers on this machine, which find this package, and end it."""
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, *filter(None, sys.path)]))
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()


def train(folder: Path, dies: int, trial: Trial) -> int:
    """Train a trial; the first time, if its seed is ``dies``, kill the process after two evaluations."""
    where = s.settings(folder, checkpoint_seconds=0.0)
    there = work.find_run_dir(trial, where.out)
    first = not there.load_rows()

    def look(row: object) -> None:
        if first and trial.seed == dies and len(there.load_rows()) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    return 0 if work.train_trial(trial, where, look) == "done" else 1


def fail(trial: Trial) -> int:
    """Raise for one seed, and report a failure for another."""
    if trial.seed == 1:
        raise ValueError("no")
    return trial.seed // 2


def test_rows_are_the_same_and_a_killed_task_loses_one_evaluation(two_workers, tmp_path: Path) -> None:
    s.settings(tmp_path)
    lines: list[str] = []
    run = functools.partial(train, tmp_path, 1)
    assert cluster.run(s.STUDY, tmp_path / "runs", run, 2, lines.append) == 0
    assert lines[-1].startswith("3 of 3 trials, 100.0 %")
    for trial in s.STUDY:
        there = work.find_run_dir(trial, tmp_path / "runs")
        assert s.timeless(there.load_rows()) == s.trained(trial, tmp_path / f"alone{trial.seed}")
        assert there.load_manifest()["sessions"] == 1 + (trial.seed == 1)


def test_a_trial_that_fails_fails_the_study_and_no_other(two_workers, tmp_path: Path) -> None:
    lines: list[str] = []
    assert cluster.run(s.STUDY, tmp_path, fail, 2, lines.append) == 1
    assert any(s.STUDY[1].key in line and "ValueError" in line for line in lines)
