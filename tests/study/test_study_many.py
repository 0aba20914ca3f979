"""Many trials: workers, progress, the table of their rows, and the command."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import tests.study.study_helpers as s
from linattn_book import results
from linattn_ref import cli
from linattn_ref.backend import choose_backend
from linattn_study import STUDIES, collect, command, corpora, launch, novels, source_code, work
from linattn_study.scaling import group_runs
from linattn_study.trial import Trial

pytestmark = pytest.mark.usefixtures("one_thread")


# --- many ---------------------------------------------------------------------------------------------------


def test_one_that_fails_or_diverges_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = dataclasses.replace(s.TINY, seed=1)
    broken = dataclasses.replace(s.TINY, seed=2)
    rate = Trial.compute_rate
    monkeypatch.setattr(
        Trial, "compute_rate", lambda self, step: 1e30 if self.seed == 1 else rate(self, step)
    )
    configure = Trial.build_model_config

    def model_config(self: Trial, backend: str = "reference") -> Any:
        if self.seed == 2:
            raise RuntimeError("no such thing")
        return configure(self, backend)

    monkeypatch.setattr(Trial, "build_model_config", model_config)
    said: list[str] = []
    summary = work.work([wild, broken, s.TINY], s.settings(tmp_path), said.append)
    assert (summary.diverged, summary.done) == ([wild.key], [s.TINY.key])
    assert summary.failed == {broken.key: "RuntimeError: no such thing"}
    assert [line.split(": ")[1] for line in said] == ["diverged", "RuntimeError", "done"]
    manifest = work.find_run_dir(wild, tmp_path / "runs").load_manifest()
    assert manifest["status"] == "diverged"
    assert "by step" in manifest["error"]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the package a study ``words`` of three tiny trials."""
    monkeypatch.setitem(STUDIES, "words", lambda: s.STUDY)


def test_workers_share_a_study_and_its_rows_become_a_result(tmp_path: Path, study: None) -> None:
    where, said = s.settings(tmp_path), list[str]()
    arguments = ["words", "--worker", "--out", str(where.out), "--corpora", str(where.corpora)]
    launcher = s.Processes()
    assert launch.run(s.STUDY, where.out, arguments, 2, launcher, said.append, every=0.0) == 0
    assert launcher.slots == [0, 1]
    assert said[-1] == "3 of 3 trials, 100.0 % of the bytes"
    alone = s.trained(s.STUDY[1], tmp_path / "alone")
    assert s.timeless(work.find_run_dir(s.STUDY[1], where.out).load_rows()) == alone

    assert cli.main(["study", "words", "--out", str(where.out), "--collect", str(tmp_path / "made")]) == 0
    rows = results.load("words", directory=tmp_path / "made")
    assert list(rows[0]) == list(collect.choose_columns(s.STUDY))
    losses = [row["val_loss"] for row in rows if row["seed"] == 1]
    assert losses == pytest.approx([row["val_loss"] for row in alone], rel=1e-6)  # to seven digits
    probes = results.load("words_probes", directory=tmp_path / "made")
    assert list(probes[0]) == list(collect.choose_columns(s.STUDY, probes=True))
    origin = results.provenance("words", directory=tmp_path / "made")
    assert origin["command"] == "linattn study words --out DIR"
    assert origin["seed"] == [0, 1, 2]


def test_a_table_says_where_its_trials_differ_from_the_main_grid() -> None:
    def more(name: str) -> list[str]:
        columns = [collect.choose_columns(STUDIES[name](), probes) for probes in (False, True)]
        found = [[c for c in some if c not in (*collect.COLUMNS, *collect.PROBES)] for some in columns]
        assert found[0] == found[1]
        return found[0]

    assert more("scaling") == []
    assert more("scaling_length") == ["seq_len"]
    assert more("scaling_decay") == ["tnl_decay"]
    assert more("scaling_heads") == ["n_heads"]


@pytest.mark.parametrize(
    ("capability", "backend"), [((7, 5), "reference"), ((8, 0), "triton"), ((9, 0), "triton")]
)
def test_kernels_are_chosen_where_they_run(
    capability: tuple[int, int], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    assert choose_backend(torch.device("cuda")) == backend
    assert choose_backend(torch.device("cpu")) == "reference"


def test_rows_of_other_code_are_not_mixed(tmp_path: Path, study: None) -> None:
    where = s.settings(tmp_path)
    for trial in s.STUDY[:2]:
        work.train_trial(trial, where)
    there = work.find_run_dir(s.STUDY[0], where.out)
    there.save_manifest(there.load_manifest() | {"source_hash": "another"})
    with pytest.raises(ValueError, match="have several source_hash"):
        collect.collect("words", s.STUDY, where.out, tmp_path / "made")


def test_trials_whose_runs_are_gone_stay_in_their_table(
    tmp_path: Path, study: None, capsys: pytest.CaptureFixture[str]
) -> None:
    where, made = s.settings(tmp_path), tmp_path / "made"
    for trial in s.STUDY[:2]:
        work.train_trial(trial, where)
    assert collect.collect("words", s.STUDY, where.out, made) == "2 of 3 trials are done; 0 diverged"
    first = {name: results.load(name, directory=made) for name in ("words", "words_probes")}

    elsewhere = dataclasses.replace(where, out=tmp_path / "elsewhere")
    known = ["study", "words", "--skip-existing", str(made), "--out", str(elsewhere.out), "--list"]
    assert cli.main([*known, "--backend", "reference"]) == 0
    said, *left = capsys.readouterr().out.splitlines()
    assert said == f"2 of 3 trials are in {made}"
    assert [line.split()[0] for line in left] == [s.STUDY[2].key]
    assert cli.main([*known, "--backend", "reference", "--only", "seed0"]) == 0
    assert capsys.readouterr().out == f"1 of 1 trials are in {made}\n"
    work.train_trial(s.STUDY[2], elsewhere)
    said = collect.collect("words", s.STUDY, elsewhere.out, made)
    assert said == "1 of 3 trials are done here, 2 more are in the table; 0 diverged"
    for name, rows in first.items():
        assert results.load(name, directory=made)[: len(rows)] == rows
    again = ["study", "words", "--only", "seed1", "--out", str(where.out), "--collect", str(made)]
    assert (
        cli.main([*again, "--as", "words_again", "--skip-existing", str(made)]) == 0
    )  # which is about training
    for name, rows in first.items():
        assert results.load(name.replace("words", "words_again"), directory=made) == rows  # not seed 1 alone
    made_by = results.provenance("words_again", directory=made)["command"]
    assert made_by == "linattn study words --out DIR --as words_again"
    seeds = {name: [row["seed"] for row in results.load(name, directory=made)] for name in first}
    assert all(list(dict.fromkeys(found)) == [0, 1, 2] for found in seeds.values())

    there = work.find_run_dir(s.STUDY[2], elsewhere.out)
    there.save_manifest(there.load_manifest() | {"source_hash": "another"})
    assert collect.collect("words", s.STUDY, elsewhere.out, made) == "1 of 3 trials are done; 0 diverged"
    assert {row["seed"] for row in results.load("words", directory=made)} == {2}
    assert cli.main([*known, "--backend", "reference"]) == 0
    assert f"0 of 3 trials are in {made}\n" in capsys.readouterr().out


def test_trials_that_differ_in_length_alone_are_told_apart(tmp_path: Path, study: None) -> None:
    where, made = s.settings(tmp_path), tmp_path / "made"
    longer = dataclasses.replace(s.TINY, tokens=2 * s.TINY.tokens)
    work.train_trial(s.TINY, where)
    assert collect.collect("words", (s.TINY, longer), where.out, made) == "1 of 2 trials are done; 0 diverged"
    elsewhere = dataclasses.replace(where, out=tmp_path / "elsewhere")
    work.train_trial(longer, elsewhere)
    collect.collect("words", (s.TINY, longer), elsewhere.out, made)
    rows = results.load("words", directory=made)
    lengths = dict.fromkeys(row["run_tokens"] for row in rows)
    assert list(lengths) == [s.TINY.tokens, longer.tokens]
    assert len(rows) == len({(row["run_tokens"], row["tokens"]) for row in rows})


def test_the_time_left_is_told_from_trials_alike(tmp_path: Path) -> None:
    small, large = s.TINY, dataclasses.replace(s.TINY, size="2M")
    trials = [small, dataclasses.replace(small, seed=1), large]
    row = {"step": 12, "tokens": small.tokens, "wall": 60.0}
    out = tmp_path
    assert "no telling yet" in str(launch.read_progress(trials, out, 1))
    there = work.find_run_dir(small, out)
    there.save_rows([row])
    there.save_manifest({"status": "done"})
    halfway = work.find_run_dir(trials[1], out)
    halfway.save_rows([row | {"step": 6, "tokens": small.tokens // 2, "wall": 30.0}])
    halfway.save_manifest({"status": "running"})
    now = launch.read_progress(trials, out, 1)
    assert (now.done, now.unknown_speed) == (1, 1)
    assert now.seconds == pytest.approx(30.0)
    assert str(now) == "1 of 3 trials, 50.0 % of the bytes, 0.5 minutes left and 1 trials of unknown speed"


# --- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "name: got 'nothing', expected corpora or one of"),
        (["words", "--only", "gpt"], "only: no run of words has 'gpt' in its name"),
        (["words", "--collect", "made"], "out: no trial of words is done"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], message: str, study: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["study", *arguments, "--out", str(tmp_path / "runs")]) == 2
    assert message in capsys.readouterr().err


def test_the_list_says_how_far_each_is(
    tmp_path: Path, study: None, capsys: pytest.CaptureFixture[str]
) -> None:
    where = s.settings(tmp_path)
    work.train_trial(s.STUDY[0], where)
    with pytest.raises(work.Stopped):
        work.train_trial(s.STUDY[1], dataclasses.replace(where, deadline=0.0))
    assert cli.main(["study", "words", "--out", str(where.out), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()[1:-1]) for line in lines[:2]] == ["done 100 %", "stopped 8 %"]
    assert lines[2].endswith("not begun 0 %".replace(" 0", "  0"))


def test_corpora_are_prepared_once_from_what_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpora, "RECIPES", {"novels": dataclasses.replace(s.RECIPE, text="novels")})
    reads: list[Path] = []

    def read(path: Path) -> dict[str, bytes]:
        reads.append(path)
        return s.WORDS

    monkeypatch.setattr(novels, "read_novels", read)
    monkeypatch.setattr(source_code, "read_code", lambda path: pytest.fail("nothing of code is wanted"))
    for _ in range(2):
        assert cli.main(["study", "corpora", "--novels", "eltec", "--corpora", str(tmp_path)]) == 0
    assert reads == [Path("eltec")]
    assert "novels: 20,000 bytes to train on, 3,000 to validate on" in capsys.readouterr().out
    assert json.loads((tmp_path / "novels.json").read_text())["train"] == 20_000


def test_your_own_text_is_added_and_trained_on(
    tmp_path: Path, study: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in s.WORDS.items():
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / name).write_bytes(data)
    texts = ["--corpora", str(tmp_path / "texts")]
    assert cli.main(["study", "corpora", *texts, "--add", f"mine={tmp_path / 'mine'}"]) == 0
    assert "mine: " in capsys.readouterr().out
    runs = ["--out", str(tmp_path / "runs"), "--corpus", "mine", "--backend", "reference"]
    assert cli.main(["study", "words", "--worker", *texts, *runs, "--only", "seed1"]) == 0
    assert capsys.readouterr().out.startswith("mine-llama-0.2M-lr0.004-seed1-")
    for wrong in ("mine", "=mine", "novels=mine", "a/b=mine"):
        assert cli.main(["study", "corpora", *texts, "--add", wrong]) == 2
        assert "expected NAME=PATH" in capsys.readouterr().err


@pytest.mark.slow
def test_the_study_of_a_laptop_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sizes, four architectures, two corpora: every run ends, below where it began, above nothing."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    texts, runs = ["--corpora", str(tmp_path / "texts")], ["--out", str(tmp_path / "runs")]
    assert cli.main(["study", "corpora", *texts, "--only", "library"]) == 0
    begin = time.monotonic()
    assert cli.main(["study", "laptop", *texts, *runs, "--workers", "2"]) == 0
    took = time.monotonic() - begin
    assert cli.main(["study", "laptop", *runs, "--collect", str(tmp_path)]) == 0
    rows = results.load("laptop", directory=tmp_path)
    trials = STUDIES["laptop"]()
    assert len(rows) == sum(len(trial.list_evaluations()) for trial in trials)
    for trial in trials:
        losses: list[Any] = [
            row["val_loss"]
            for row in rows
            if (row["corpus"], row["arch"], row["size"]) == (trial.corpus, trial.arch, trial.size)
        ]
        assert losses[-1] < min(losses[0], 5.0)  # 5.5 knows nothing
    for corpus in ("library-prose", "library-code"):
        assert len(group_runs([row for row in rows if (row["corpus"], row["arch"]) == (corpus, "tnl")])) == 3
    assert took < 180, f"{took:.0f} s"


def test_no_run_begins_that_would_not_end_in_time(tmp_path: Path) -> None:
    where = s.settings(tmp_path, whole=True)
    assert work.train_trial(s.STUDY[0], where) == "done"
    there = work.find_run_dir(s.STUDY[0], where.out)
    there.save_rows([row | {"wall": 3600.0} for row in there.load_rows()])
    said: list[str] = []
    soon = dataclasses.replace(where, deadline=time.monotonic() + 600)
    summary = work.work(s.STUDY, soon, said.append)
    assert summary.too_long == [trial.key for trial in s.STUDY[1:]]
    assert said[0].endswith("too long for the time that is left")
    later = dataclasses.replace(where, deadline=time.monotonic() + 5000)
    assert work.work(s.STUDY, later).done == [trial.key for trial in s.STUDY[1:]]


def test_a_study_says_at_once_which_text_it_lacks(tmp_path: Path) -> None:
    """And makes those that every installation has."""
    trials = [
        dataclasses.replace(s.TINY, corpus=corpus) for corpus in ("library-code", "code", "novels-needles")
    ]
    with pytest.raises(ValueError, match=r"no code, novels in .*; `linattn study corpora` makes it"):
        command.prepare_missing_corpora(trials, tmp_path)
    assert corpora.load("library-code", tmp_path).train.numel() == corpora.RECIPES["library-code"].train
    with pytest.raises(ValueError, match=r"no mine in .*; `linattn study corpora --add NAME=PATH` makes it"):
        command.prepare_missing_corpora([dataclasses.replace(s.TINY, corpus="mine")], tmp_path)
    recall = dataclasses.replace(s.TINY, corpus="recall-32")
    command.prepare_missing_corpora([recall, dataclasses.replace(s.TINY, corpus="library-code")], tmp_path)


def test_workers_share_the_cores_of_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "count_cores", lambda: 8)
    for gpus, workers, environment in ((0, 4, {"OMP_NUM_THREADS": "2"}), (3, 3, {})):
        monkeypatch.setattr("torch.cuda.is_available", lambda gpus=gpus: gpus > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda gpus=gpus: gpus)
        assert launch.choose_n_workers() == workers
        assert launch.LocalProcesses(workers).environment == environment
    assert launch.LocalProcesses(16).environment == {}
