"""The study loses nothing, refuses what is not its own, and trains on several ranks."""

import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import tests.study.study_helpers as s
from linattn_ref.training.distributed import World
from linattn_study import corpora, run_dir, work
from tests.support.processes import ENVIRONMENT, torchrun

pytestmark = pytest.mark.usefixtures("one_thread")


# --- interrupted --------------------------------------------------------------------------------------------


def test_stopped_at_every_evaluation_it_finds_the_same(tmp_path: Path) -> None:
    whole = s.trained(s.TINY, tmp_path / "whole")
    where = s.settings(tmp_path, deadline=0.0)
    for _ in s.TINY.list_evaluations()[:-1]:
        with pytest.raises(work.Stopped):
            work.train_trial(s.TINY, where)
    assert work.find_run_dir(s.TINY, where.out).load_manifest()["status"] == "stopped"
    assert work.train_trial(s.TINY, where) == "done"
    where_it_is = work.find_run_dir(s.TINY, where.out)
    assert s.timeless(where_it_is.load_rows()) == whole
    assert where_it_is.load_manifest()["sessions"] == len(s.TINY.list_evaluations())


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost(tmp_path: Path) -> None:
    """kill -9 three times, each time a little later; then the run is finished, and is that of no kill."""
    whole = s.trained(s.TINY, tmp_path / "whole")
    s.settings(tmp_path)
    there = work.find_run_dir(s.TINY, tmp_path / "runs")
    for rows_wanted in (1, 2, 3):
        process = subprocess.Popen(s.train_command(tmp_path, pause=0.3), env=ENVIRONMENT)
        end = time.monotonic() + 60
        while len(there.load_rows()) < rows_wanted and time.monotonic() < end:  # always a whole table
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert s.timeless(there.load_rows()) == whole[: len(there.load_rows())]
    done = subprocess.run(s.train_command(tmp_path), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr
    assert s.timeless(there.load_rows()) == whole
    assert there.load_manifest()["sessions"] == 4


# --- several ranks ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_ranks_train_a_trial_together_and_go_on_where_one_has_stopped(tmp_path: Path) -> None:
    whole = s.trained(s.TINY, tmp_path / "whole")
    where = s.settings(tmp_path, deadline=0.0)
    with pytest.raises(work.Stopped):
        work.train_trial(s.TINY, where)
    script = tmp_path / "ranks.py"
    script.write_text(
        s.program_of(f"""
with s.distributed() as world:
    where = s.settings(s.Path({str(tmp_path)!r}))
    assert s.train_trial(s.TINY, where) == "done"
    s.Path({str(tmp_path)!r}, f"rank{{world.rank}}").touch()
""")
    )
    torchrun(str(script))
    assert (tmp_path / "rank0").exists()
    assert (tmp_path / "rank1").exists()
    rows = s.timeless(work.find_run_dir(s.TINY, where.out).load_rows())
    assert rows[0] == whole[0]
    for row, alone in zip(rows, whole, strict=True):
        assert row == pytest.approx(alone, rel=1e-4)


@pytest.mark.slow
def test_ranks_that_have_parts_of_the_weights_go_on_and_hand_on_what_one_process_has(tmp_path: Path) -> None:
    whole = s.trained(s.TINY, tmp_path / "whole")
    where = s.settings(tmp_path, deadline=0.0)
    with pytest.raises(work.Stopped):
        work.train_trial(s.TINY, where)
    script = tmp_path / "ranks.py"
    script.write_text(
        s.program_of(f"""
import pytest
from linattn_study import work
from torch.distributed.tensor import DTensor

scatter, parts = work.Loop.resume, []
def resume(loop, *arguments):
    scatter(loop, *arguments)
    parts.extend(isinstance(weight, DTensor) for weight in loop.model.parameters())
work.Loop.resume = resume
with s.distributed() as world:
    where = s.settings(s.Path({str(tmp_path)!r}), deadline=0.0, sharded=True)
    with pytest.raises(work.Stopped):
        s.train_trial(s.TINY, where)
assert parts and all(parts)
""")
    )
    torchrun(str(script))
    there = work.find_run_dir(s.TINY, where.out)
    assert len(there.load_rows()) == 2
    assert work.train_trial(s.TINY, s.settings(tmp_path)) == "done"
    for row, alone in zip(s.timeless(there.load_rows()), whole, strict=True):
        assert row == pytest.approx(alone, rel=1e-4)


def test_ranks_share_a_batch_and_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = s.settings(tmp_path)
    monkeypatch.setattr(work, "get_current_world", lambda: World(0, 3))
    monkeypatch.setattr(World, "any", lambda self, flag: flag)
    with pytest.raises(ValueError, match="batch_size: got 4, expected a multiple of 3 ranks"):
        work.train_trial(s.TINY, where)
    monkeypatch.setattr(work, "get_current_world", lambda: World(1, 2))
    monkeypatch.setattr(World, "any", lambda self, flag: True)
    with pytest.raises(run_dir.RunLocked, match="another process works on this trial"):
        work.train_trial(s.TINY, where)


# --- refused ------------------------------------------------------------------------------------------------


def test_two_processes_cannot_lock_one_run(tmp_path: Path) -> None:
    where = s.settings(tmp_path)
    with (
        work.find_run_dir(s.TINY, where.out).lock(),
        pytest.raises(run_dir.RunLocked, match="another process works on this trial"),
    ):
        work.train_trial(s.TINY, where)
    assert work.train_trial(s.TINY, where) == "done"


def test_text_that_has_changed_is_refused(tmp_path: Path) -> None:
    where = s.settings(tmp_path)
    file = where.corpora / "words.bytes"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="is not what was prepared: sha256"):
        work.train_trial(s.TINY, where)
    with pytest.raises(ValueError, match="corpus: 'prose' is not in"):
        work.train_trial(dataclasses.replace(s.TINY, corpus="prose"), where)


def test_other_text_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    where = s.settings(tmp_path, deadline=0.0)
    with pytest.raises(work.Stopped):
        work.train_trial(s.TINY, where)
    corpora.prepare("words", s.WORDS | {"more.txt": b"more\n" * 99}, where.corpora, s.RECIPE)
    with pytest.raises(ValueError, match=r"is of another run; corpus.sha256"):
        work.train_trial(s.TINY, where)


def test_a_named_corpus_must_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = dataclasses.replace(s.RECIPE, sha256="0" * 64)
    monkeypatch.setitem(corpora.RECIPES, "novels", pinned)
    with pytest.raises(ValueError, match="is not that of novels, 000000000000"):
        corpora.prepare("novels", s.WORDS, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nobody_who_is_validated_on_was_trained_on(tmp_path: Path) -> None:
    texts = {
        f"ENG{year}_{name}.xml": f"{name} {year} ".encode() * 9 for year in range(9) for name in "ABCDEFGH"
    }
    recipe = corpora.Recipe("words", 1_000, 150, 0.3, by="author")
    train, validation = corpora.split_by_group(texts, recipe)
    sides = [{corpora.find_group(name, "author") for name in side} for side in (train, validation)]
    assert sides[0] | sides[1] == set("ABCDEFGH")
    assert sides[1]
    assert not sides[0] & sides[1]
    corpus = corpora.prepare("words", texts, tmp_path, recipe)
    read = bytes(corpus.validation.numpy()).decode()
    assert set(filter(str.isalpha, read)) <= sides[1]
    assert len(corpora.split_by_group(texts, dataclasses.replace(recipe, by="document"))[1]) % 9


def test_a_full_disk_is_named_before_and_during_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = s.settings(tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=10**6)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(run_dir.DiskFull, match=r"1 MB are free, a trial's checkpoints need \d+"):
            work.work([s.TINY], where)

    rows = work.find_run_dir(s.TINY, where.out).rows_file
    replace, written = os.replace, []

    def full(source: Any, target: Any) -> None:
        if Path(target) == rows:
            written.append(target)
            if len(written) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(run_dir.DiskFull, match="what was there before is unharmed"):
            work.work([s.TINY], where)
    assert len(work.find_run_dir(s.TINY, where.out).load_rows()) == 2
    assert work.train_trial(s.TINY, where) == "done"
