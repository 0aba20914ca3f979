"""Several processes train as one does."""

import json
from pathlib import Path

import pytest
import torch

from linattn_ref.training.checkpoint import TrainRow
from linattn_ref.training.distributed import World
from tests.support.processes import torchrun
from tests.training.tiny_training import Stop, bigram, run, script, stop_after


def test_two_ranks_train_as_one_process_does_and_resume_its_checkpoint(tmp_path: Path) -> None:
    program, checkpoint, out = script(tmp_path, "TINY", pause=0.0)
    with pytest.raises(Stop):
        run(bigram(), checkpoint=checkpoint, on_row=stop_after(6))  # one process writes step 5
    torchrun(str(program))
    whole = bigram()
    expected = run(whole)
    for rank in (0, 1):
        rows: list[TrainRow] = json.loads(Path(f"{out}{rank}").read_text())
        assert len(rows) == 12
        for got, want in zip(rows, expected, strict=True):
            assert (got["step"], got["tokens"], got["lr"]) == (want["step"], want["tokens"], want["lr"])
            assert got["train_loss"] == pytest.approx(want["train_loss"], rel=1e-5)
            if want["val_loss"] is None:
                assert got["val_loss"] is None
            else:
                assert got["val_loss"] == pytest.approx(want["val_loss"], rel=1e-5)
    finished = bigram(seed=99)
    run(finished, checkpoint=checkpoint)  # written by rank 0
    for got_x, want_x in zip(finished.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(got_x, want_x, rtol=1e-4, atol=1e-5)


def test_ranks_that_were_not_joined_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"use `with distributed\(\):`"):
        run(bigram())


def test_batch_that_does_not_divide_by_the_ranks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linattn_ref.training.trainer.get_current_world", lambda: World(0, 3))
    with pytest.raises(ValueError, match="batch_size: got 4, expected a multiple of 3 ranks"):
        run(bigram())
