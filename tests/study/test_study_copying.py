"""The studies of copying and of annealing: text with repeats, the second reading, the rate that ends at 0."""

import dataclasses
import hashlib
from pathlib import Path

import pytest
import torch
from torch.nn.functional import one_hot, pad

import tests.study.study_helpers as s
from linattn_ref import costs
from linattn_study import STUDIES, collect, corpora, loop, plan, probes, repeats, work
from linattn_study.trial import Trial

pytestmark = pytest.mark.usefixtures("one_thread")

# they have ``schedule`` and ``second_reading``, or ``window``
LATER = (
    "scaling_copying",
    "scaling_copying_strong",
    "scaling_annealed",
    "scaling_recall_state",
    "scaling_isoflop",
    "scaling_quarter",
    "scaling_apart",
)
# twelve steps of 128 bytes; the last has a rate of 0
ANNEALED = dataclasses.replace(s.TINY, seq_len=64, batch_size=2, schedule="linear", second_reading=True)


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.check
def test_later_fields_leave_the_names_of_older_trials_as_they_were() -> None:
    keys = sorted({trial.key for name in STUDIES if name not in LATER for trial in STUDIES[name]()})
    assert len(keys) == 375
    digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()
    assert digest == "eb443995324563bf8ea2368effea15718972fb945dd8f9924f9606e965eb588b"
    assert not {"schedule", "second_reading", "window"} & s.TINY.to_record().keys()
    assert {"schedule", "second_reading"} <= ANNEALED.to_record().keys()


def test_what_the_studies_compare() -> None:
    copying, strong, annealed = (STUDIES[name]() for name in LATER[:3])
    assert (len(copying), len(strong), len(annealed)) == (48, 20, 84)
    plain = {dataclasses.replace(trial, corpus="novels") for trial in copying}
    assert plain > {dataclasses.replace(trial, corpus="novels") for trial in strong}
    assert {len(trial.list_evaluations()) for trial in copying} == {16}
    products = [trial.lr * trial.weight_decay for trial in annealed]
    assert products == pytest.approx([2e-4] * 84)
    assert len({trial.key for trial in annealed}) == 84
    assert list(collect.choose_columns(copying))[-2:] == ["first_reading_loss", "second_reading_loss"]
    assert {"schedule", "weight_decay"} <= collect.choose_columns(annealed, probes=True).keys()


def test_isoflop_spends_its_budgets_on_sizes_around_the_best() -> None:
    trials = STUDIES["scaling_isoflop"]()
    assert len({trial.key for trial in trials}) == 240
    spent: dict[tuple[str, float], set[str]] = {}
    for trial in trials:
        n_params = costs.n_parameters(trial.build_model_config(), embedding=False)
        tokens = trial.n_steps * trial.tokens_per_step
        budget = min(plan.ISO_BUDGETS, key=lambda one: abs(one - 6 * n_params * tokens))
        assert 6 * n_params * tokens == pytest.approx(budget, rel=0.007)  # whole steps
        assert trial.build_model_config().n_heads > 1
        spent.setdefault((trial.arch, budget), set()).add(trial.size)
    assert {len(sizes) for sizes in spent.values()} == {5}
    assert len(spent) == 8


# --- repeats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "passages"),
    [(0.1, repeats.SHORT), (0.25, repeats.SHORT), (0.5, repeats.LONG_NEAR), (0.5, repeats.LONG_FAR)],
)
def test_copies_have_their_share_and_stand_soon_after_what_they_copy(
    share: float, passages: repeats.Passages
) -> None:
    text = torch.randint(256, (300_500,), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)
    mixed = repeats.insert_repeats(text, share, torch.Generator().manual_seed(0), passages)
    again = repeats.insert_repeats(text, share, torch.Generator().manual_seed(0), passages)
    assert torch.equal(mixed, again)
    assert len(mixed) == len(text)
    end, written = 0, torch.zeros(len(text), dtype=torch.bool)
    drawn = torch.Generator().manual_seed(0)
    for source, at, length in repeats.draw_repeats(len(text), share, drawn, passages):
        assert passages.shortest <= length <= passages.longest
        assert torch.equal(mixed[at : at + length], mixed[source : source + length])
        assert at >= end  # in order, none over another
        assert length <= at - source <= passages.reach
        assert at // 1024 == (at + length - 1) // 1024  # within its stretch
        end = at + length
        written[at:end] = True
    assert torch.equal(mixed[~written], text[~written])
    assert written.float().mean().item() == pytest.approx(share, rel=0.01)
    shares = written[1024 : 293 * 1024].view(-1, 1024).float().mean(1)
    assert (shares - share).abs().max() <= passages.longest / 1024  # a passage more, or less


def test_a_corpus_with_repeats_has_the_plain_text_to_validate_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {corpora.find_prepared_name(name) for name in corpora.WITH_REPEATS} == {"novels"}
    where = s.settings(tmp_path).corpora
    monkeypatch.setitem(corpora.DERIVED, "words-repeats", corpora.RepeatsRecipe("words", 0.25))
    plain, mixed, again = (corpora.load(name, where) for name in ("words", "words-repeats", "words-repeats"))
    assert torch.equal(mixed.validation, plain.validation)
    assert len(mixed.train) == len(plain.train)
    assert not torch.equal(mixed.train, plain.train)
    assert mixed.sha256 == again.sha256 != plain.sha256
    with pytest.raises(ValueError, match=r"share: got 0.6, expected a number above 0"):
        repeats.insert_repeats(plain.train, 0.6, torch.Generator())
    for wrong in ((64, 256, 128), (0, 8, 8), (9, 8, 64), (64, 600, 640), (8, 16, 2000)):
        with pytest.raises(ValueError, match=r"passages: got .*, expected lengths that rise"):
            repeats.insert_repeats(plain.train, 0.5, torch.Generator(), repeats.Passages(*wrong))


# --- the rate -----------------------------------------------------------------------------------------------


def test_a_linear_rate_ends_at_0() -> None:
    trial = Trial("novels", "llama", "2M", 1e-3, schedule="linear")
    plain = dataclasses.replace(trial, schedule="constant")
    rates = torch.tensor([trial.compute_rate(step + 1) for step in range(trial.n_steps)], dtype=torch.float64)
    assert [trial.compute_rate(step) for step in (1, 60, 122)] == [
        plain.compute_rate(step) for step in (1, 60, 122)
    ]
    assert plain.compute_rate(plain.n_steps) == plain.lr
    assert rates[-1] == 0
    assert rates.max() <= trial.lr
    torch.testing.assert_close(
        rates[122:].diff(), torch.full((3417,), -1e-3 / 3418, dtype=torch.float64), rtol=1e-3, atol=0
    )
    with pytest.raises(ValueError, match=r"tokens: got 8000000, expected 8,065,536 at least, to decay"):
        dataclasses.replace(trial, tokens=8_000_000)
    with pytest.raises(ValueError, match="schedule: got 'cosine', expected one of"):
        dataclasses.replace(trial, schedule="cosine")


# --- the second reading -------------------------------------------------------------------------------------


def test_a_trial_with_both_records_them_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = s.trained(ANNEALED, tmp_path / "whole")
    assert list(whole[0])[-2:] == ["first_reading_loss", "second_reading_loss"]
    assert whole[-1]["lr"] == 0
    assert all(1 < row[name] < 7 for row in whole for name in collect.READINGS)
    where = s.settings(tmp_path, deadline=0.0)
    with pytest.raises(work.Stopped):
        work.train_trial(ANNEALED, where)
    assert s.trained(ANNEALED, tmp_path) == whole

    made = collect.collect_rows([ANNEALED], where.out)
    assert [row["second_reading_loss"] for row in made] == [row["second_reading_loss"] for row in whole]
    kept = collect.collect_rows([ANNEALED], tmp_path / "nowhere", existing=made)
    assert kept == made  # its readings do not tell a trial from others
    assert not collect.READINGS.keys() & s.trained(s.TINY, tmp_path)[0].keys()


def test_a_model_that_copies_is_seen_at_the_second_reading(tmp_path: Path) -> None:
    text = corpora.load("words", s.settings(tmp_path).corpora)
    asked = loop.Loop(ANNEALED, text, torch.device("cpu"), "reference")

    class Copies(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
            back = pad(tokens, (31, 0))[:, : tokens.shape[1]]  # what followed it half a window ago
            return 20.0 * one_hot(back, 256), None

    asked.model = Copies()  # type: ignore[assignment]
    found = probes.measure_second_reading(asked)
    assert found["second_reading_loss"] < 1e-4
    assert found["first_reading_loss"] > 1
    with pytest.raises(ValueError, match="corpus: got recall-64, expected a text to read twice"):
        dataclasses.replace(ANNEALED, corpus="recall-64")
