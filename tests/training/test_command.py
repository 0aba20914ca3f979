"""The commands ``linattn train`` and ``linattn generate``: what they write, resume, refuse and explain."""

import csv
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from linattn_ref import cli
from linattn_ref.mixers import MIXERS
from linattn_ref.training.checkpoint import load_model
from linattn_ref.training.command import parse_option, read_corpus
from linattn_ref.training.config import TrainConfig
from tests.support.processes import ENVIRONMENT, torchrun
from tests.training.tiny_training import bigram, digest, run

SMALL = "--d-model 16 --n-layers 1 --n-heads 2 --batch-size 2 --seq-len 16 --warmup-steps 1 --device cpu"


def train_command(folder: Path, arguments: str = "") -> list[str]:
    """Return the arguments of ``linattn`` for a small run, with text, checkpoint and rows in ``folder``."""
    text = folder / "text.txt"
    if not text.exists():
        text.write_bytes(b"".join(b"the state %d is written and read\n" % i for i in range(200)))
    files = f"--corpus {text} --checkpoint {folder / 'run.pt'} --rows {folder / 'rows.csv'}"
    return ["train", *SMALL.split(), *files.split(), *arguments.split()]


def losses(file: Path) -> list[tuple[str, str, str]]:
    """Return step, training and validation loss of every row, as they are written."""
    with file.open() as opened:
        return [(row["step"], row["train_loss"], row["val_loss"]) for row in csv.DictReader(opened)]


def weights(folder: Path) -> str:
    """Return the digest of the weights in the checkpoint."""
    return digest(load_model(folder / "run.pt"))


# --- train --------------------------------------------------------------------------------------------------


def test_a_finished_run_is_read_from_its_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = train_command(tmp_path, "--mixer linear --steps 4 --betas 0.8 0.9")
    assert cli.main(command) == 0
    rows = (tmp_path / "rows.csv").read_text()
    assert len(rows.splitlines()) == 5
    captured = capsys.readouterr()
    assert "128 bytes seen, validation" in captured.out
    assert "4/4" in captured.err  # the bar
    assert cli.main(command) == 0
    assert (tmp_path / "rows.csv").read_text() == rows


@pytest.mark.parametrize(("mixer", "option"), [("tnl", "decay=printed"), ("mamba", "state_size=4")])
def test_options_of_a_mixer_reach_the_model(mixer: str, option: str, tmp_path: Path) -> None:
    assert cli.main(train_command(tmp_path, f"--mixer {mixer} --option {option} --steps 1")) == 0
    config, (name, value) = load_model(tmp_path / "run.pt").config, parse_option(option)
    assert config.mixer == mixer
    assert getattr(config.options, name) == value


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    settings = "--mixer gla --steps 20 --checkpoint-every 1 --eval-every 5 --seq-len 256 --d-model 64"
    process = subprocess.Popen(
        [sys.executable, "-m", "linattn_ref.cli", *train_command(killed, settings)],
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 100
        while not (killed / "run.pt").exists() and time.monotonic() < deadline:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    begun = len(torch.load(killed / "run.pt", weights_only=True)["rows"])
    assert 1 <= begun < 20
    assert not (killed / "rows.csv").exists()
    for folder in (killed, whole):
        command = [sys.executable, "-m", "linattn_ref.cli", *train_command(folder, settings)]
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    assert losses(killed / "rows.csv") == losses(whole / "rows.csv")
    assert len(losses(whole / "rows.csv")) == 20
    assert weights(killed) == weights(whole)


def test_two_ranks_train_as_one_process_does(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    assert cli.main(train_command(alone, "--steps 3")) == 0
    torchrun("-m", "linattn_ref.cli", *train_command(together, "--steps 3"))
    expected = [float(loss) for _, loss, _ in losses(alone / "rows.csv")]
    assert [float(loss) for _, loss, _ in losses(together / "rows.csv")] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--lr -1", "lr: got -1.0, expected a positive number"),
        ("--mixer lstm", "mixer: got 'lstm', expected one of"),
        ("--mixer tnl --option decays=none", "options: got 'decays' for the mixer 'tnl', expected some of"),
        ("--option decay", "option: got 'decay', expected NAME=VALUE"),
        ("--corpus nowhere", "path: got nowhere, which does not exist, expected a file or a folder"),
        ("--backend triton --mixer mamba2 --d-model 15", "d_model: got 15, expected a multiple"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(train_command(tmp_path, arguments)) == 2
    assert capsys.readouterr().err.startswith(f"linattn: {message}")
    assert not (tmp_path / "run.pt").exists()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(train_command(tmp_path, "--mixer linear --steps 1")) == 0
    capsys.readouterr()
    assert cli.main(train_command(tmp_path, "--mixer softmax --steps 1")) == 2
    assert "is of another run; model.config: " in capsys.readouterr().err


def test_the_help_names_all_settings_and_mixers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "--help"])
    words = capsys.readouterr().out
    assert all(f"--{field.name.replace('_', '-')}" in words for field in dataclasses.fields(TrainConfig))
    assert all(mixer in words for mixer in MIXERS)
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    words = capsys.readouterr().out
    assert all(command in words for command in ("train", "generate", "study", "grade"))


def test_a_corpus_may_be_a_dataset_or_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "linattn_ref.training.command.ByteCorpus.from_hugging_face",
        lambda name, max_bytes: asked.append((name, max_bytes)),
    )
    read_corpus("hf:roneneldan/TinyStories", max_bytes=100)
    assert asked == [("roneneldan/TinyStories", 100)]
    assert read_corpus(None, max_bytes=50_000).n_bytes == 50_000


def test_values_of_options_are_numbers_flags_or_words() -> None:
    given = ["a=1", "a=0.5", "a=true", "a=False", "a=null", "a=word", "a=x=y"]
    assert [parse_option(text)[1] for text in given] == [1, 0.5, True, False, None, "word", "x=y"]


# --- generate -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a model that can be asked for text; return its checkpoint."""
    folder = tmp_path_factory.mktemp("trained")
    settings = "--mixer gla --steps 60 --lr 0.02 --batch-size 8 --seq-len 32 --d-model 32"
    assert cli.main(train_command(folder, settings)) == 0
    return folder / "run.pt"


def generated(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return what ``linattn generate`` prints."""
    capsys.readouterr()
    assert cli.main(["generate", *map(str, arguments), "--device", "cpu"]) == 0
    return capsys.readouterr().out


def test_the_same_seed_writes_the_same_text(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (
        generated(capsys, trained, "--prompt", "the state", "--n-bytes", 80, "--seed", seed)
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first.startswith("the state")
    assert len(first.encode("utf-8", "replace")) >= len("the state") + 80


def test_a_low_temperature_writes_what_was_read(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = generated(capsys, trained, "--prompt", "the ", "--n-bytes", 20, "--temperature", 0.01)
    assert "the state" in text


def test_a_prompt_may_come_from_the_standard_input(trained: Path) -> None:
    command = [sys.executable, "-m", "linattn_ref.cli", "generate", str(trained), "--prompt", "-"]
    done = subprocess.run(
        [*command, "--n-bytes", "5"], input="the ", env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the ")


def test_a_file_without_a_language_model_is_refused(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.pt").write_text("no checkpoint")
    run(bigram(), checkpoint=tmp_path / "bigram.pt")
    wrong = {
        tmp_path / "missing.pt": "does not exist, expected a file of `linattn train`",
        tmp_path / "text.pt": "is not a checkpoint of this training loop",
        tmp_path / "bigram.pt": "is of a model of class Bigram, expected a LanguageModel",
    }
    for file, message in wrong.items():
        assert cli.main(["generate", str(file)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("linattn: checkpoint: ")
        assert message in error
    assert cli.main(["generate", str(trained), "--prompt", ""]) == 2
    assert "prompt: got an empty one, expected a byte at least" in capsys.readouterr().err
    assert cli.main(["generate", str(trained), "--temperature=-1", "--device", "cpu"]) == 2
    assert "temperature: got -1.0" in capsys.readouterr().err
