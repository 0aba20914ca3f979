"""Laws of states, for every mixer: batches of prompts of different lengths; cut, picked and copied states."""

from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.mixers import MIXERS, detach_state, expand_state, reorder_state
from linattn_ref.model import LanguageModel, ModelConfig, decoding, generate, prefill, step
from tests.mixers.mixer_cases import tensors
from tests.support.closeness import assert_close

BASE: dict[str, Any] = {"d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 32}
CASES: dict[str, dict[str, Any]] = {
    **{name: {"mixer": name} for name in MIXERS},
    "linear with RoPE": {"mixer": "linear", "options": {"normaliser": "norm", "positions": "rope"}},
    "channel mixing": {"mixer": "rwkv4", "mlp": "channel_mix"},
    "hybrid": {"mixer": "cosformer2", "softmax_every": 2},
}
every_case = pytest.mark.parametrize("case", CASES)
T, LENGTHS = 12, [5, 12, 1, 5, 9]  # two of one length, and neighbours that are not of one group
EXACT = 1e-10


def build(case: str) -> LanguageModel:
    """Return a model in float64, with weights so large that tokens differ."""
    torch.manual_seed(1)
    model = LanguageModel(ModelConfig(**BASE | CASES[case])).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10 if parameter.ndim >= 2 else 1)
    return model


def draw(rows: int, length: int = T) -> Tensor:
    """Return tokens [rows, length], the same at each call."""
    return torch.randint(32, (rows, length), generator=torch.Generator().manual_seed(2))


@every_case
@torch.no_grad()
def test_prompts_of_different_lengths_are_read_as_each_alone(case: str) -> None:
    """Prefill and three steps, whatever the padding is."""
    model, prompts, more = build(case), draw(len(LENGTHS)), draw(len(LENGTHS), 3)
    alone = [
        model(torch.cat([prompt[:n], new])[None])[0][0, n - 1 :]
        for prompt, new, n in zip(prompts, more, LENGTHS, strict=True)
    ]
    with decoding(model):
        logits, groups = prefill(model, prompts, LENGTHS)
        for t in range(4):
            assert_close(f"logits {t}", logits, torch.stack([own[t] for own in alone]), EXACT)
            if t < 3:
                logits, groups = step(model, more[:, t], groups)
    assert sorted(len(rows) for rows, _ in groups) == [1, 1, 1, 2]


@every_case
@torch.no_grad()
def test_prompts_of_different_lengths_are_continued_as_each_alone(case: str) -> None:
    model, prompts = build(case), draw(len(LENGTHS))
    new = generate(model, prompts, 6, temperature=0, lengths=torch.tensor(LENGTHS))
    for row, n in enumerate(LENGTHS):
        assert torch.equal(new[row : row + 1], generate(model, prompts[row : row + 1, :n], 6, temperature=0))


def test_a_step_wants_a_token_for_each_sequence() -> None:
    model = build("gla")
    _, groups = prefill(model, draw(5), LENGTHS)
    with pytest.raises(ValueError, match=r"tokens: got \[4\], expected \[5\]"):
        step(model, draw(4, 1)[:, 0], groups)


@every_case
def test_no_gradient_passes_a_detached_state(case: str) -> None:
    model, tokens = build(case), draw(2)
    _, state = model(tokens[:, :7])
    carried = [x for x in tensors(state) if x.requires_grad]
    assert carried
    for cut in (False, True):
        logits, _ = model(tokens[:, 7:], detach_state(state) if cut else state)
        slopes = torch.autograd.grad(logits.square().sum(), carried, allow_unused=True)
        assert all((slope is None) == cut for slope in slopes)
    cut_parts = tensors(detach_state(state))
    assert all(torch.equal(a, b) for a, b in zip(cut_parts, tensors(state), strict=True))


@every_case
@pytest.mark.parametrize("how", ["reordered", "expanded"])
@torch.no_grad()
def test_a_picked_state_continues_the_sequences_that_were_picked(case: str, how: str) -> None:
    model, tokens, more = build(case), draw(3), draw(6, 2)
    rows = torch.tensor([2, 0, 0, 1, 2, 2]) if how == "reordered" else torch.arange(3).repeat_interleave(2)
    _, state = model(tokens)
    picked = reorder_state(state, rows) if how == "reordered" else expand_state(state, 2)
    assert type(picked) is type(state)
    assert [type(layer) for layer in picked[1]] == [type(layer) for layer in state[1]]
    want, _ = model(torch.cat([tokens[rows], more], 1))
    with decoding(model):
        first, picked = model(more[:, :1], picked)
        second, _ = model(more[:, 1:], picked)
    assert_close("logits", torch.cat([first, second], 1), want[:, T:], EXACT)


@pytest.mark.parametrize("rows", [[0, 1], torch.tensor([0.0]), torch.tensor([[0]]), torch.tensor([True])])
def test_rows_that_are_no_numbers_of_sequences_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"rows: got .* expected int64 or int32 \[R\]"):
        reorder_state((torch.zeros(2), None), rows)


def test_a_state_without_copies_is_refused() -> None:
    with pytest.raises(ValueError, match="branches: got 0, expected at least 1"):
        expand_state((torch.zeros(2), None), 0)
