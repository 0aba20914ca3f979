"""TNL's option ``decay``: decays from the data start at the fixed ones, the others differ from them."""

import pytest
import torch

from linattn_ref.model import LanguageModel, ModelConfig

TOKENS = torch.arange(40)[None] * 7 % 16


def logits_of(decay: str, weight: float = 0.0) -> torch.Tensor:
    """Return the logits of a model that differs in its decays alone.

    Args:
        decay: the option.
        weight: all weights that decays from the data have; 0 leaves their bias, as it was initialised.
    """
    config = ModelConfig("tnl", 24, 3, 3, vocab_size=16, options={"decay": decay})
    model = LanguageModel(config).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("decay.weight"):
                parameter.fill_(weight)
            elif parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=generator)
        return model(TOKENS)[0]


def test_decays_from_data_begin_at_the_fixed_ones() -> None:
    torch.testing.assert_close(logits_of("data"), logits_of("code"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("decay", "weight"), [("none", 0.0), ("data", 0.1)])
def test_other_decays_are_others(decay: str, weight: float) -> None:
    assert (logits_of(decay, weight) - logits_of("code")).abs().max() > 1e-2
