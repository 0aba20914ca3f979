"""TNL's decays: a comparison with all else equal begins with equals."""

import pytest
import torch

from linattn_ref.model import LanguageModel, ModelConfig

TOKENS = torch.arange(40)[None] * 7 % 16


def logits_of(decay: str, **changes: float) -> torch.Tensor:
    config = ModelConfig("tnl", 24, 3, 3, vocab_size=16, options={"decay": decay})
    model = LanguageModel(config).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=None if "decay" in name else generator)
            if name.endswith("decay.weight"):
                parameter.fill_(changes.get("weight", 0.0))
        return model(TOKENS)[0]


def test_decays_from_data_begin_at_the_fixed_ones() -> None:
    torch.testing.assert_close(logits_of("data"), logits_of("code"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("decay", "changes"), [("none", {}), ("data", {"weight": 0.1})])
def test_other_decays_are_others(decay: str, changes: dict[str, float]) -> None:
    assert (logits_of(decay, **changes) - logits_of("code")).abs().max() > 1e-2
