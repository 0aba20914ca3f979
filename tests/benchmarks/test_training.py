"""The small training runs: wrong models are wrong where they should be, and compute nothing else anew."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from linattn_benchmarks import models, training
from linattn_benchmarks.benchmark import Size
from linattn_book import results
from linattn_ref import ops
from linattn_ref.config import ModelConfig
from linattn_ref.mixers.linear import LinearOptions
from linattn_ref.ops.feature_maps import elu_plus_one
from linattn_study.corpora import StudyCorpus
from linattn_study.trial import Trial


def test_the_naive_feature_map_is_the_same_function_in_float64() -> None:
    torch.manual_seed(0)
    right = training.build("linear", Size.DRY_RUN).double()
    torch.manual_seed(0)
    naive = training.build(training.NAIVE_ELU, Size.DRY_RUN).double()
    tokens = torch.randint(256, (2, 20))
    torch.testing.assert_close(naive(tokens)[0], right(tokens)[0], rtol=1e-12, atol=1e-12)
    assert all(type(block.mixer) is training.NaiveEluMixer for block in naive.blocks)


def test_the_naive_feature_map_cancels_in_bfloat16() -> None:
    config = ModelConfig("linear", d_model=32, n_heads=2, options=LinearOptions(feature_map="identity"))
    mixer = training.NaiveEluMixer(config, 0)
    x = torch.full((1, 1, 32), -9.0, dtype=torch.bfloat16)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.eye(32).repeat(3, 1))
        z, _ = mixer.bfloat16().project(x, None)
    assert (z["q"] == 0).all()
    assert (elu_plus_one(x) > 0).all()


def test_a_late_mask_lets_a_future_key_change_the_past_but_not_the_last_token() -> None:
    q, k, v = torch.randn(3, 1, 6, 2, 4, generator=torch.Generator().manual_seed(0))
    changed = torch.cat([k[:, :-1], k[:, -1:] + 1], 1)
    forms = (ops.parallel_softmax_attention, training.late_mask_attention)
    right, late = (op(q, k, v, initial_state=None).output for op in forms)
    after, late_after = (op(q, changed, v, initial_state=None).output for op in forms)
    torch.testing.assert_close(right[:, :-1], after[:, :-1])
    assert ((late - late_after)[:, :-1].abs().amax((0, 2, 3)) > 1e-3).all()
    torch.testing.assert_close(late[:, -1], right[:, -1])


def test_full_passes_and_prefixes_agree_if_and_only_if_the_mask_is_right() -> None:
    [right], [late] = (training.train_with_mask(name, 0, Size.DRY_RUN) for name in ("right", "late mask"))
    assert right["full_bits"] == pytest.approx(right["prefix_bits"], abs=1e-5)
    assert abs(late["full_bits"] - late["prefix_bits"]) > 1e-4


def test_committed_losses_show_what_the_late_mask_does() -> None:
    rows: list[dict[str, Any]] = results.load("late_mask")
    right, late = ([row for row in rows if row["model"] == name] for name in ("right", "late mask"))
    assert len(right) == len(late) == 2
    assert all(row["full_bits"] == pytest.approx(row["prefix_bits"], abs=1e-5) for row in right)
    assert all(row["full_bits"] < 0.5 and row["prefix_bits"] > 3.5 for row in late)


def test_speed_compiles_nothing_and_measures_as_many_steps_as_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advanced: list[int] = []

    def loop(trial: Trial, corpus: StudyCorpus, *_: Any, compile_from: float) -> Any:
        assert compile_from == torch.inf
        assert trial.n_steps == models.EARLY_STEPS + 2 * models.TIMED_STEPS
        return SimpleNamespace(advance=advanced.append)

    monkeypatch.setattr(models, "Loop", loop)
    row = models.measure_training_speed("llama", "0.1M", 64, 64, Size.DRY_RUN)
    assert advanced == [models.EARLY_STEPS, models.TIMED_STEPS, models.TIMED_STEPS]
    assert row["tokens_per_second"] > 0
