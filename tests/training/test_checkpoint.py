"""Stopping a run at any moment costs nothing: what is on the disk is whole, and resuming is exact."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from torch import nn

import linattn_ref.training.checkpoint as checkpoint_module
from linattn_ref.training.checkpoint import TrainRow, write_rows
from linattn_ref.training.files import write_atomically
from linattn_ref.training.trainer import train
from tests.support.processes import ENVIRONMENT
from tests.training.tiny_training import (
    LONG,
    TINY,
    Bigram,
    Stop,
    bigram,
    corpus,
    digest,
    run,
    script,
    stop_after,
    timeless,
)


def test_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path) -> None:
    whole = bigram()
    expected = run(whole)
    path = tmp_path / "new folder" / "run.pt"
    with pytest.raises(Stop):
        run(bigram(), checkpoint=path, on_row=stop_after(8))  # the checkpoint is of step 5
    resumed, new = bigram(seed=99), list[TrainRow]()  # other weights: all must come from the file
    rows = run(resumed, checkpoint=path, on_row=new.append)
    assert timeless(rows) == timeless(expected)
    assert [row["step"] for row in new] == [6, 7, 8, 9, 10, 11, 12]
    assert digest(resumed) == digest(whole)
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)


def test_finished_run_gives_its_rows_and_weights_again_without_training(tmp_path: Path) -> None:
    model, again, new = bigram(), bigram(seed=99), list[TrainRow]()
    rows = run(model, checkpoint=tmp_path / "run.pt")
    assert run(again, checkpoint=tmp_path / "run.pt", on_row=new.append) == rows
    assert digest(again) == digest(model)
    assert not new
    assert not again.training


class OtherBigram(Bigram):
    """Parameters of the same names and shapes, another model."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": dataclasses.replace(TINY, lr=0.5)}, r"config.lr: 0.01 there, 0.5 here$"),
        ({"corpus": corpus(b"softmax")}, r"corpus.sha256: \w+ there, \w+ here$"),
        (
            {"model": bigram(width=8)},
            r"embedding.weight: torch.float32 \[256, 16\] there, .*\[256, 8\] here",
        ),
        ({"model": OtherBigram()}, r"model.class: Bigram there, OtherBigram here$"),
        ({"model": bigram().double()}, r"torch.float32 \[256, 16\] there, torch.float64 \[256, 16\] here"),
    ],
)
def test_checkpoint_of_another_run_is_refused_and_nothing_is_changed(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "run.pt"
    run(bigram(), checkpoint=path)
    written = path.read_bytes()
    arguments = {"model": bigram(seed=1), "corpus": corpus(), "config": TINY, **change}
    model = arguments["model"]
    assert isinstance(model, nn.Module)
    before = digest(model)
    with pytest.raises(ValueError, match=rf"^checkpoint: .*is of another run; .*{message}"):
        train(**arguments, device="cpu", checkpoint=path, progress=False)  # type: ignore[arg-type]
    assert digest(model) == before
    assert path.read_bytes() == written


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"checkpoint: .* is not a checkpoint of this training loop"):
        run(bigram(), checkpoint=path)
    torch.save({"another": "file"}, path)
    with pytest.raises(ValueError, match=r"checkpoint: .* is not a checkpoint of this training loop"):
        run(bigram(), checkpoint=path)


def test_failure_in_the_middle_of_writing_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.pt"
    with pytest.raises(Stop):
        run(bigram(), checkpoint=path, on_row=stop_after(6))
    old = path.read_bytes()

    def disk_full(content: object, file: BinaryIO) -> None:
        file.write(b"half of it")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.torch, "save", disk_full)
        with pytest.raises(OSError, match="No space left"):
            run(bigram(), checkpoint=path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    assert timeless(run(bigram(seed=5), checkpoint=path)) == timeless(run(bigram()))


def test_bytes_reach_the_disk_before_the_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(number: int) -> None:
        order.append("fsync")
        real_fsync(number)

    def replace(source: Path, target: Path) -> None:
        order.append(f"replace at {source.stat().st_size} bytes")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically({tmp_path / "file": lambda file: file.write(b"12345"), tmp_path / "text": "words"})
    assert order == ["fsync", "fsync", "replace at 5 bytes", "replace at 5 bytes", "fsync"]
    assert (tmp_path / "file").read_bytes() == b"12345"
    assert (tmp_path / "text").read_text() == "words"


def test_rows_as_csv_have_a_header_and_empty_cells_for_none(tmp_path: Path) -> None:
    rows = run(bigram())
    write_rows(tmp_path / "rows.csv", rows)
    header, first, *rest = (tmp_path / "rows.csv").read_text().splitlines()
    assert header == "step,tokens,train_loss,val_loss,lr,seconds,tokens_per_second"
    assert first.split(",")[:4] == ["1", "64", repr(rows[0]["train_loss"]), ""]
    assert len(rest) == 11


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    program, checkpoint, _ = script(tmp_path, "LONG", pause=0.05)
    process = subprocess.Popen([sys.executable, str(program)], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 100
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.4)  # some steps on, at whatever moment
        assert process.poll() is None, "the run ended before it could be killed"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed, whole, new = bigram(seed=99), bigram(), list[TrainRow]()
    rows = run(resumed, LONG, checkpoint, on_row=new.append)
    assert 0 < len(new) < len(rows) == 60
    assert timeless(rows) == timeless(run(whole, LONG))
    assert digest(resumed) == digest(whole)
