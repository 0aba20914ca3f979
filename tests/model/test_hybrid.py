"""Models some of whose blocks have softmax attention: the same laws, and costs that add up."""

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch

from linattn_ref.config import PAPER_ARCHITECTURES, ModelConfig
from linattn_ref.costs.accounting import flops_exact, flops_per_token, state_bytes
from linattn_ref.mixers import MIXERS, SoftmaxMixer
from linattn_ref.model import LanguageModel

T = 12


def config_of(mixer: str, every: int = 2) -> ModelConfig:
    """Return a configuration of five blocks, numbers every, 2 every, ... of which have softmax attention."""
    return ModelConfig(mixer, 24, 5, 3, vocab_size=16, softmax_every=every, d_ff=64)


@pytest.mark.parametrize("mixer", MIXERS)
@torch.no_grad()
def test_a_hybrid_decodes_what_it_computes_at_once(mixer: str) -> None:
    torch.manual_seed(0)
    model = LanguageModel(config_of(mixer)).double().eval()
    kinds = [isinstance(block.mixer, SoftmaxMixer) for block in model.blocks]
    assert [i for i, kind in enumerate(kinds) if kind] == ([1, 3] if mixer != "softmax" else [*range(5)])
    tokens = torch.randint(16, (2, T))
    whole, _ = model(tokens)
    state, pieces = None, []
    for piece in tokens.split([5, 1, 1, 5], 1):
        logits, state = model(piece, state)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    assert not torch.allclose(whole[0, -1], model(tokens.flip(1).roll(1, 1))[0][0, -1])


def test_a_hybrid_has_positions_in_its_softmax_blocks() -> None:
    config = config_of("linear")
    assert [config.of_layer(layer).options.positions for layer in range(4)] == ["none", "rope"] * 2


@pytest.mark.parametrize("cost", [flops_exact, flops_per_token, state_bytes])
@pytest.mark.parametrize("mixer", sorted(PAPER_ARCHITECTURES.values()))
def test_costs_are_those_of_the_blocks(mixer: str, cost: Callable[[ModelConfig, int], float]) -> None:
    def of(mixer: str, n_layers: int) -> float:
        return cost(replace(config_of(mixer, 0), n_layers=n_layers), T)

    outside = 2 * of("softmax", 1) - of("softmax", 2)  # of all blocks, counted twice below
    assert cost(config_of(mixer), T) == pytest.approx(of(mixer, 3) + of("softmax", 2) - outside)


def test_softmax_blocks_have_options_of_their_own() -> None:
    config = replace(config_of("tnl"), softmax_options={"n_kv_heads": 1})
    model = LanguageModel(config)
    widths = [len(model.get_parameter(f"blocks.{i}.mixer.qkv.weight")) for i in range(5)]
    assert widths == [72, 40] * 2 + [72]
    assert replace(config, n_layers=2) == ModelConfig(**asdict(replace(config, n_layers=2)))
    with pytest.raises(ValueError, match=r"config\.options\.n_kv_heads: got 1, expected 3"):
        flops_per_token(config, T)
    with pytest.raises(ValueError, match=r"softmax_options: got .*, expected None where softmax_every is 0"):
        ModelConfig("tnl", softmax_options={"n_kv_heads": 1})
    with pytest.raises(ValueError, match="options: got 'decay' for the mixer 'softmax'"):
        replace(config, softmax_options={"decay": "code"})


def test_a_number_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="softmax_every: got -1, expected a whole number, at least 0"):
        config_of("tnl", -1)
