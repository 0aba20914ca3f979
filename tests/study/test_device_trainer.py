"""The trainer that never waits for the host trains as the plain one does, captured or not."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.training.checkpoint import identify_run, save_checkpoint
from linattn_ref.training.config import compute_learning_rate
from linattn_ref.training.trainer import CorpusBatches, Diverged, Trainer
from linattn_study.device_trainer import EAGER_STEPS, DeviceTrainer
from tests.training.tiny_training import TINY, bigram, corpus

RATES = [compute_learning_rate(TINY, step) for step in range(1, TINY.steps + 1)]


class FixedBatches(CorpusBatches):
    """Batches that follow from the number of the step alone, as those of the study do."""

    def draw_training_batch(self, step: Any) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(int(step))
        return self._draw("train", generator)


def device_trainer(**options: Any) -> DeviceTrainer:
    """Return a trainer of the bigram model on the CPU."""
    return DeviceTrainer(bigram(), FixedBatches(corpus(), TINY), RATES, device="cpu", **options)


def assert_same_weights(one: Trainer, other: Trainer, **bounds: float) -> None:
    """Fail unless two models have the same weights, within the bounds of ``torch.testing``."""
    for x, y in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(x, y, **bounds)


def test_both_trainers_take_the_same_steps() -> None:
    plain = Trainer(bigram(), FixedBatches(corpus(), TINY), lambda step: RATES[step - 1], device="cpu")
    fast = device_trainer()
    losses, norms = zip(*(plain.advance(1) for _ in range(8)), strict=True)
    found = fast.advance(8)
    assert found.train == pytest.approx(sum(losses) / 8, rel=1e-6)
    assert found.worst_norm == pytest.approx(max(norms), rel=1e-5)
    assert fast.evaluate() == pytest.approx(plain.evaluate(), rel=1e-5)
    assert_same_weights(fast, plain, rtol=1e-5, atol=1e-6)  # AdamW is fused in one of them


class Replay:
    """What stands in for a graph where there is no GPU."""

    def __init__(self, trainer: DeviceTrainer) -> None:
        self.trainer, self.replays = trainer, 0

    def replay(self) -> None:
        Trainer.take_step(self.trainer)
        self.replays += 1


def test_a_captured_step_is_replayed_after_some_eager_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceTrainer, "_capture", lambda self: Replay(self))
    captured, eager = device_trainer(), device_trainer()
    captured.captured = True  # which needs a GPU
    for n in (2, 5, 1):
        assert captured.advance(n) == eager.advance(n)
    assert isinstance(captured.graph, Replay)
    assert captured.graph.replays == 8 - EAGER_STEPS
    assert_same_weights(captured, eager, rtol=0, atol=0)


def test_it_goes_on_from_a_checkpoint_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceTrainer, "_capture", lambda self: Replay(self))
    whole, stopped, resumed = device_trainer(), device_trainer(), device_trainer()
    identity = identify_run(whole.model, dataclasses.asdict(TINY), corpus().sha256)
    whole.advance(12)
    stopped.advance(6)
    stopped.state.rows.append({"step": 6})
    save_checkpoint(tmp_path / "run.pt", stopped.state, identity)
    resumed.captured = True
    resumed.resume(tmp_path / "run.pt", identity)
    assert resumed.steps_done == 6
    resumed.advance(6)
    assert isinstance(resumed.graph, Replay)
    assert resumed.graph.replays == 6 - EAGER_STEPS  # a new process compiles and allocates anew
    assert_same_weights(resumed, whole, rtol=0, atol=0)


def test_a_loss_that_is_not_finite_is_reported_at_the_end() -> None:
    trainer = device_trainer()
    with torch.no_grad():
        trainer.model.get_parameter("head.bias").fill_(torch.nan)
    with pytest.raises(Diverged, match="train_loss is nan, gradient norm nan by step 3"):
        trainer.advance(3)


def test_nothing_is_captured_or_compiled_without_a_gpu() -> None:
    trainer = device_trainer(captured=True, compiled=True)
    trainer.advance(EAGER_STEPS + 2)
    assert trainer.graph is None
    assert trainer.replica is trainer.model
