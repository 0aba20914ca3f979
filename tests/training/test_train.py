"""The training loop: it learns, it says what it did, and only its own settings decide what happens."""

import dataclasses
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.training.checkpoint import TrainRow
from linattn_ref.training.trainer import (
    TrainConfig,
    bits_per_byte,
    compute_learning_rate,
    group_parameters,
    train,
)
from tests.training.tiny_training import TINY, Stop, bigram, corpus, digest, run, stop_after, timeless

# ---- learning ----------------------------------------------------------------------------------------------


def test_training_reduces_the_loss_below_the_unigram_baseline() -> None:
    config = dataclasses.replace(TINY, steps=150, lr=3e-2, batch_size=16, seq_len=32)
    rows = run(bigram(), config)
    assert rows[0]["train_loss"] > 5  # ln 256 = 5.5 is guessing
    assert rows[-1]["val_loss"] is not None
    assert bits_per_byte(rows[-1]["val_loss"]) < 0.8 * corpus().unigram_bits()


def test_rows_say_what_happened() -> None:
    seen: list[TrainRow] = []
    rows = run(bigram(), on_row=seen.append)
    assert seen == rows
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert [row["tokens"] for row in rows] == [64 * step for step in range(1, 13)]
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [4, 8, 12]
    assert [row["lr"] for row in rows] == [compute_learning_rate(TINY, step) for step in range(1, 13)]
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert rows[0]["tokens_per_second"] == pytest.approx(64 / rows[0]["seconds"])
    assert set(rows[0]) == set(TrainRow.__annotations__)


def test_first_loss_is_the_mean_cross_entropy_of_the_drawn_batch() -> None:
    generator = torch.Generator().manual_seed(TINY.seed)
    inputs, targets = corpus().sample("train", 4, 16, generator)
    log_p = bigram()(inputs)[0].log_softmax(-1)
    expected = -log_p.gather(-1, targets[..., None]).mean().item()
    assert run(bigram())[0]["train_loss"] == pytest.approx(expected, rel=1e-6)


def test_validation_windows_do_not_depend_on_the_seed() -> None:
    still = dataclasses.replace(TINY, lr=1e-30, weight_decay=0.0)
    losses = [run(bigram(), dataclasses.replace(still, seed=seed))[-1]["val_loss"] for seed in (0, 1)]
    assert losses[0] == losses[1]


def global_generators() -> list[object]:
    numpy_state: Any = np.random.get_state()
    return [torch.get_rng_state().tolist(), random.getstate(), numpy_state[1].tolist()]


def test_config_seed_decides_the_data_and_the_global_generators_nothing() -> None:
    torch.manual_seed(1)
    first = run(bigram())
    torch.manual_seed(2)
    random.seed(2)
    np.random.seed(2)
    before = global_generators()
    second = run(bigram())
    assert timeless(first) == timeless(second)
    assert global_generators() == before
    assert timeless(run(bigram(), dataclasses.replace(TINY, seed=1))) != timeless(first)


def test_model_is_left_in_evaluation_mode() -> None:
    model = bigram()
    run(model)
    assert not model.training


def test_loss_that_is_not_finite_stops_the_run_and_writes_no_checkpoint(tmp_path: Path) -> None:
    model = bigram()
    with torch.no_grad():
        model.head.bias.fill_(math.nan)
    config = dataclasses.replace(TINY, checkpoint_every=1)
    with pytest.raises(FloatingPointError, match="train_loss is nan, gradient norm nan by step 1"):
        run(model, config, tmp_path / "run.pt")
    assert not list(tmp_path.iterdir())


def test_bfloat16_can_be_asked_for_on_the_cpu() -> None:
    half = run(bigram(), dataclasses.replace(TINY, dtype="bfloat16"))
    full = run(bigram())
    assert half[-1]["train_loss"] != full[-1]["train_loss"]
    assert half[-1]["train_loss"] == pytest.approx(full[-1]["train_loss"], rel=2e-2)


def test_every_setting_matters() -> None:
    other = {
        "steps": 13, "batch_size": 2, "seq_len": 8, "lr": 1e-3, "schedule": "constant", "warmup_steps": 3,
        "min_lr_fraction": 0.5, "weight_decay": 0.5, "betas": (0.5, 0.5), "grad_clip": 1e-9, "eval_every": 3,
        "eval_batches": 1, "seed": 1, "dtype": "bfloat16",
    }  # fmt: skip
    left = {field.name for field in dataclasses.fields(TrainConfig)} - set(other)
    assert left == {"checkpoint_every"}  # shown by the tests of checkpoints, which resume at step 5
    plain = timeless(run(bigram()))
    for name, value in other.items():
        assert timeless(run(bigram(), dataclasses.replace(TINY, **{name: value}))) != plain, name  # type: ignore


# ---- settings ----------------------------------------------------------------------------------------------


def test_learning_rate_at_the_steps_that_matter() -> None:
    config = TrainConfig(steps=100, warmup_steps=10, lr=2.0, min_lr_fraction=0.1)
    assert compute_learning_rate(config, 1) == pytest.approx(0.2)
    assert compute_learning_rate(config, 5) == pytest.approx(1.0)
    assert compute_learning_rate(config, 10) == pytest.approx(2.0)  # the peak is reached, not approached
    assert compute_learning_rate(config, 55) == pytest.approx(1.1)  # half way down
    assert compute_learning_rate(config, 100) == pytest.approx(0.2)
    rates = [compute_learning_rate(config, step) for step in range(10, 101)]
    assert rates == sorted(rates, reverse=True)
    constant = dataclasses.replace(config, schedule="constant")
    assert {compute_learning_rate(constant, step) for step in range(10, 101)} == {2.0}
    assert compute_learning_rate(dataclasses.replace(config, warmup_steps=0), 1) == pytest.approx(
        2.0, rel=1e-3
    )
    assert compute_learning_rate(dataclasses.replace(config, warmup_steps=100), 100) == pytest.approx(2.0)


def test_matrices_decay_and_vectors_do_not() -> None:
    model = bigram()
    decayed, others = group_parameters(model, 0.1)
    assert {id(p) for p in decayed["params"]} == {id(model.embedding.weight), id(model.head.weight)}
    assert {id(p) for p in others["params"]} == {
        id(model.head.bias),
        id(model.norm.weight),
        id(model.norm.bias),
    }
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    model.head.weight.requires_grad_(False)
    assert len(group_parameters(model, 0.1)[0]["params"]) == 1


def test_bits_per_byte_of_guessing_is_eight() -> None:
    assert bits_per_byte(math.log(256)) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("batch_size", -1), ("seq_len", 0), ("lr", 0.0), ("lr", math.nan),
        ("schedule", "linear"), ("warmup_steps", 301), ("min_lr_fraction", 1.5), ("weight_decay", -0.1),
        ("betas", (0.9, 1.0)), ("betas", (0.9,)), ("grad_clip", 0.0), ("eval_every", 0), ("eval_batches", 0),
        ("checkpoint_every", 0), ("dtype", "float16"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: got .*, expected "):
        TrainConfig(**{name: value})  # type: ignore[arg-type]


def test_split_too_short_for_the_windows_is_said_before_the_first_step() -> None:
    seen: list[TrainRow] = []
    with pytest.raises(ValueError, match=r"seq_len: got 5000, expected \d+ at most: validation of"):
        run(bigram(), dataclasses.replace(TINY, seq_len=5000), on_row=seen.append)
    assert not seen


# ---- the language model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixer", ["softmax", "linear", "cosformer"])
def test_language_model_trains_and_resumes_to_the_same_bits(mixer: str, tmp_path: Path) -> None:
    def model() -> LanguageModel:
        torch.manual_seed(0)
        return LanguageModel(ModelConfig(mixer=mixer, d_model=32, n_layers=2, n_heads=2))

    config = dataclasses.replace(TINY, steps=8)
    whole, resumed = model(), model()
    expected = run(whole, config)
    assert expected[-1]["train_loss"] < expected[0]["train_loss"] - 0.5
    with pytest.raises(Stop):
        run(model(), config, tmp_path / "run.pt", stop_after(6))
    assert timeless(run(resumed, config, tmp_path / "run.pt")) == timeless(expected)
    assert digest(resumed) == digest(whole)


def test_two_mixers_of_equal_shapes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    small = ModelConfig(mixer="softmax", d_model=16, n_layers=1, n_heads=1)
    config = dataclasses.replace(TINY, steps=2)
    run(LanguageModel(small), config, tmp_path / "run.pt")
    other = dataclasses.replace(small, mixer="linear", options=None)
    with pytest.raises(ValueError, match=r"another run; model.config: .*softmax.* there, .*linear.* here"):
        run(LanguageModel(other), config, tmp_path / "run.pt")


def test_gradient_that_is_not_finite_never_reaches_weights_or_checkpoint(tmp_path: Path) -> None:
    """The loss of the step is finite, its gradient is not: the step before is what the checkpoint holds."""

    class Poisoned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.nan

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.calls = torch.nn.Embedding(256, 256), 0

        def forward(self, tokens):
            self.calls += self.training
            logits = self.table(tokens)
            return (Poisoned.apply(logits) if self.calls == 3 else logits), None

    config = TrainConfig(steps=3, warmup_steps=1, batch_size=2, seq_len=8, checkpoint_every=1, eval_every=1)
    model, path = Model(), tmp_path / "checkpoint.pt"
    with pytest.raises(FloatingPointError, match="gradient norm nan by step 3"):
        train(model, corpus(), config, checkpoint=path, progress=False, device="cpu")
    assert model.table.weight.isfinite().all()
    saved = torch.load(path, weights_only=True)
    assert len(saved["rows"]) == 2
    assert saved["model"]["table.weight"].isfinite().all()
