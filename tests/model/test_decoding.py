"""While decoding, single tokens go through the ops that are made for them."""

from typing import Any

import pytest
import torch

from linattn_ref import ops
from linattn_ref.mixers import Mixer
from linattn_ref.model import LanguageModel, ModelConfig, decoding, generate


def build(name: str) -> LanguageModel:
    torch.manual_seed(1)
    return LanguageModel(ModelConfig(name, d_model=16, n_layers=2, n_heads=2, vocab_size=32)).double()


LINEAR, DELTA = ("tnl", "hgrn2", "cosformer2", "gla", "retnet"), ("delta_net", "gated_delta_net", "kda")
STEPS = {
    "softmax": "step_softmax_attention",
    **dict.fromkeys(LINEAR, "step_linear_attention"),
    **dict.fromkeys(DELTA, "step_delta_rule"),
}


@pytest.mark.parametrize("name", STEPS)
@torch.no_grad()
def test_while_decoding_single_tokens_go_through_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = build(name), torch.randint(32, (2, 8), generator=torch.Generator().manual_seed(2))
    called: list[str] = []
    step = STEPS[name]
    original = getattr(ops, step)

    def counted(*args: Any, **options: Any) -> Any:
        called.append(step)
        return original(*args, **options)

    monkeypatch.setattr(ops, step, counted)
    _, state = model(tokens[:, :-1])
    want = model(tokens[:, -1:], state)[0]
    assert not called
    with decoding(model):
        model(tokens[:, :-1])  # more than one
        assert not called
        found = model(tokens[:, -1:], state)[0]
    assert len(called) == len(model.blocks)
    torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-10)


def test_decoding_ends_with_its_block_whatever_happens() -> None:
    model = build("tnl")
    with pytest.raises(RuntimeError, match="stop"), decoding(model):
        raise RuntimeError("stop")
    assert not any(getattr(module, "decoding", False) for module in model.modules())


def test_generation_inside_a_block_leaves_it_decoding() -> None:
    model = build("tnl")
    mixers = [module for module in model.modules() if isinstance(module, Mixer)]
    with decoding(model):
        generate(model, torch.zeros(1, 3, dtype=torch.long), 2, generator=torch.Generator())
        assert all(mixer.decoding for mixer in mixers)
    assert not any(mixer.decoding for mixer in mixers)
