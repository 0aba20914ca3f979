"""The study's trials: what one is, the order of its text, and that it trains as a plain loop does."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tests.study.study_helpers as s
from linattn_ref.model import LanguageModel
from linattn_ref.training.trainer import group_parameters, next_byte_loss
from linattn_study import STUDIES, corpora, loop, work
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, Trial

pytestmark = pytest.mark.usefixtures("one_thread")


# --- trials -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_no_two_trials_of_a_study_have_one_folder(name: str) -> None:
    keys = [trial.key for trial in STUDIES[name]()]
    assert len(set(keys)) == len(keys) > 0


def test_every_field_makes_another_trial() -> None:
    other: dict[str, Any] = {"corpus": "code", "arch": "tnl", "size": "2M", "overrides": (("d_ff", 96),)}
    other |= {"schedule": "linear"}
    for field in dataclasses.fields(Trial):
        value = getattr(s.TINY, field.name)
        twice = (value and 2 * value) or 1
        changed = dataclasses.replace(s.TINY, **{field.name: other.get(field.name, twice)})
        assert changed.key != s.TINY.key, field.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "gpt"}, "arch: got 'gpt', expected one of"),
        ({"size": "7B"}, "size: got '7B', expected one of"),
        ({"lr": 0.0}, "lr: got 0.0, expected a positive number"),
        ({"seq_len": 0}, "seq_len: got 0, expected at least 1"),
        ({"tokens": 5}, "tokens: got 5, expected a batch of 128 at least"),
    ],
)
def test_a_trial_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(s.TINY, **changes)


def test_sizes_grow_from_a_fifth_of_a_million_to_thirty_million() -> None:
    for arch in ARCHITECTURES:
        counts = []
        for size in MAIN_SIZES:
            trial = dataclasses.replace(s.TINY, arch=arch, size=size)
            counts.append(loop.costs.n_parameters(trial.build_model_config(), embedding=False))
        assert counts == sorted(counts)
        assert 0.19e6 < counts[0] < 0.24e6
        assert 31e6 < counts[-1] < 33e6
        if arch == "llama":  # its closed form is 12 l d^2
            closed = [12 * n_layers * d**2 for n_layers, d in MAIN_SIZES.values()]
            assert counts == pytest.approx(closed, rel=0.02)


def test_evaluations_are_even_in_the_logarithm_and_end_at_the_end() -> None:
    trial = Trial("novels", "llama", "2M", 1e-3)
    steps = trial.list_evaluations()
    assert steps[0] == 16
    assert steps[-1] == trial.n_steps == 3540
    assert len(steps) == 40
    ratios = [b / a for a, b in itertools.pairwise(steps)]
    assert max(ratios[8:]) / min(ratios[8:]) < 1.03
    assert Trial("novels", "llama", "2M", 1e-3, tokens=70_000).list_evaluations() == [1]


def test_the_rate_is_a_line_and_then_constant() -> None:
    rates = [s.TINY.compute_rate(step) / s.TINY.lr for step in (1, 2, 3, 12)]
    assert rates == [0.5, 1.0, 1.0, 1.0]


# --- the order of the text ----------------------------------------------------------------------------------


def test_a_pass_takes_every_window_once() -> None:
    trial = dataclasses.replace(s.TINY, tokens=100 * 128)
    n_bytes = 32 * 101  # 100 windows with any offset: 4 passes
    starts = loop.draw_window_starts(n_bytes, trial).flatten()
    assert len(starts) == 400
    for one in starts.split(100):
        in_order = one.sort().values
        assert (in_order.diff() == 32).all()
        assert in_order[0] < 32
        assert in_order[-1] + 33 <= n_bytes
        assert not torch.equal(one, in_order)


def test_seeds_give_other_orders_and_a_short_text_is_refused() -> None:
    other = dataclasses.replace(s.TINY, seed=1)
    assert not torch.equal(loop.draw_window_starts(9999, s.TINY), loop.draw_window_starts(9999, other))
    with pytest.raises(ValueError, match="corpus: got 63 bytes to train on, expected 64 at least"):
        loop.draw_window_starts(63, s.TINY)


# --- one run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_run_learns_and_leaves_rows_and_a_manifest(arch: str, tmp_path: Path) -> None:
    trial = dataclasses.replace(s.TINY, arch=arch)
    rows = s.trained(trial, tmp_path)
    assert [row["step"] for row in rows] == trial.list_evaluations()
    assert rows[-1]["val_loss"] < rows[0]["val_loss"] < 6
    assert rows[-1]["tokens"] == trial.tokens
    config = trial.build_model_config()
    assert rows[-1]["flops"] == pytest.approx(trial.tokens * loop.costs.flops_per_token(config, 32))
    manifest = work.find_run_dir(trial, tmp_path / "runs").load_manifest()
    assert (manifest["status"], manifest["sessions"]) == ("done", 1)
    assert manifest["trial"]["arch"] == arch
    assert manifest["corpus_sha256"] == corpora.load("words", tmp_path / "text").sha256
    assert not work.find_run_dir(trial, tmp_path / "runs").checkpoint_file.exists()


def test_the_loop_trains_as_a_plain_loop_does(tmp_path: Path) -> None:
    """The same text, weights and rates, with none of what lives on the device."""
    where = s.settings(tmp_path)
    text = corpora.load("words", where.corpora)
    fast = loop.Loop(s.TINY, text, torch.device("cpu"), "reference")
    torch.manual_seed(s.TINY.seed)
    model = LanguageModel(s.TINY.build_model_config())
    optimizer = torch.optim.AdamW(group_parameters(model, s.TINY.weight_decay), 1.0, (0.9, 0.95))
    losses = []
    for step, starts in enumerate(loop.draw_window_starts(len(text.train), s.TINY)[:5]):
        windows = torch.stack([text.train[i : i + 33] for i in starts]).long()
        loss = next_byte_loss(model, windows[:, :-1], windows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = s.TINY.compute_rate(step + 1)
        optimizer.step()
        losses.append(loss.item())
    assert fast.advance(5).train == pytest.approx(sum(losses) / 5, rel=1e-5)
    for mine, plain in zip(fast.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, plain)


def test_a_run_that_is_over_is_not_made_again(tmp_path: Path) -> None:
    rows = s.trained(s.TINY, tmp_path)
    made: list[run_dir.EvalRow] = []
    assert work.train_trial(s.TINY, s.settings(tmp_path), made.append) == "done"
    assert made == []
    assert s.timeless(work.find_run_dir(s.TINY, tmp_path / "runs").load_rows()) == rows


# --- capture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_step_asks_the_host_for_nothing(arch: str) -> None:
    """No value is looked at and no constant comes from the host, else a step could not be captured."""
    asked: list[str] = []
    host = torch.ops.aten._local_scalar_dense.default, torch.ops.aten.lift_fresh.default

    class Asked(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            asked.extend([str(op)] if op in host else [])
            return op(*args, **(kwargs or {}))

    model = LanguageModel(Trial("novels", arch, "0.1M", 1e-3).build_model_config())
    tokens = torch.randint(256, (2, 33))
    # decays are looked at on a CPU alone, see ``linattn_kernels.validation``
    with mock.patch("linattn_ref.ops.validation.require_values"), Asked():
        next_byte_loss(model, tokens[:, :-1], tokens[:, 1:]).backward()
    assert asked == []
