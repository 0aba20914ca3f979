"""Multi-query recall as a study: what is asked, in which order, and who answers right."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch.nn.functional import one_hot

import tests.study.study_helpers as s
from linattn_ref.training.tasks import IGNORED
from linattn_study import corpora, loop, probes, work
from linattn_study.trial import Trial

T = 256
TRIAL = Trial(
    "recall-256",
    "hgrn2",
    "0.03M",
    1e-3,
    tokens=8 * 4 * T,
    seq_len=T,
    batch_size=4,
    warmup_tokens=4 * T,
    n_evaluations=2,
    first_evaluation=4 * T,
    validation_tokens=8 * T,
)


@pytest.fixture(autouse=True)
def few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the corpus of recall have 20 sequences to train on and 10 to validate on."""
    monkeypatch.setattr(corpora, "N_TRAIN", 20)
    monkeypatch.setattr(corpora, "N_VALIDATION", 10)


def loop_of(tmp_path: Path) -> loop.Loop:
    """Return a loop of the trial that has not begun."""
    return loop.Loop(TRIAL, corpora.load("recall-256", tmp_path), torch.device("cpu"), "reference")


class LooksUp(torch.nn.Module):
    """A model that answers with the value that followed a key where it stood first."""

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
        found = torch.zeros_like(tokens)
        for row, values in zip(tokens.tolist(), found, strict=True):
            for i, key in enumerate(row):
                values[i] = row[min(row.index(key) + 1, len(row) - 1)]
        return 20.0 * one_hot(found, 256), None


def test_every_pass_has_every_sequence_once_and_whole(tmp_path: Path) -> None:
    asked = loop_of(tmp_path)
    starts = asked.windows.starts.flatten()
    assert (starts % (2 * T) == 0).all()
    assert sorted((starts[:20] // (2 * T)).tolist()) == list(range(20))
    inputs, targets = asked.windows.split_windows(
        asked.windows.training_text[starts[:20, None] + asked.windows.offsets]
    )
    counts = (targets != IGNORED).sum(1)
    assert sorted(counts.tolist()) == sorted(4 * list(corpora.PAIRS))
    assert targets[targets != IGNORED].min() >= corpora.RECALL_VOCAB // 2
    assert inputs.shape == targets.shape == (20, T)


def test_a_model_that_looks_up_is_right(tmp_path: Path) -> None:
    asked = loop_of(tmp_path)
    asked.model = LooksUp()  # type: ignore[assignment]
    assert asked.evaluate() < 1e-3
    rows = probes.probe(asked)
    assert [row["probe"] for row in rows] == [f"recall-{n}" for n in corpora.PAIRS]
    assert min(row["accuracy"] for row in rows) == 1
    assert max(row["loss"] for row in rows) < 1e-3


def test_a_trial_of_recall_is_trained(tmp_path: Path) -> None:
    where = s.settings(tmp_path)
    assert work.train_trial(TRIAL, where) == "done"
    place = work.find_run_dir(TRIAL, where.out)
    assert place.load_rows()[-1]["val_loss"] < place.load_rows()[0]["val_loss"]
    assert all(0 <= row["accuracy"] < 0.5 for row in place.load_probes())


def test_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="seq_len: got 1024, expected 512, as recall-512 has it"):
        Trial("recall-512", "tnl", "0.1M", 1e-3)


def test_a_window_hides_what_is_older_and_nothing_else(tmp_path: Path) -> None:
    trial = dataclasses.replace(TRIAL, arch="llama", window=5)
    corpus = corpora.load("recall-256", tmp_path)
    model = loop.Loop(trial, corpus, torch.device("cpu"), "reference").model.eval()
    tokens = torch.randint(256, (1, 40), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 256
    with torch.no_grad():
        differs = (model(tokens)[0] - model(changed)[0]).abs().amax(-1)[0] > 1e-6
    # two layers, each of which looks back 4 tokens
    assert differs.nonzero().flatten().tolist() == list(range(10, 19))


def test_a_window_as_long_as_the_sequence_is_none(tmp_path: Path) -> None:
    corpus, tokens = corpora.load("recall-256", tmp_path), torch.arange(T)[None]
    trial = dataclasses.replace(TRIAL, arch="llama")
    logits = [
        loop.Loop(one, corpus, torch.device("cpu"), "reference").model(tokens)[0]
        for one in (trial, dataclasses.replace(trial, window=T))
    ]
    torch.testing.assert_close(*logits, rtol=0, atol=1e-5)


def test_a_window_needs_softmax_attention() -> None:
    with pytest.raises(ValueError, match="window: got 5, expected 0, since hgrn2 has no softmax attention"):
        dataclasses.replace(TRIAL, window=5)
    assert "window" not in TRIAL.to_record()
