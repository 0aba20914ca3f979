"""A model can be copied, pickled and saved whole; a cache keeps nothing alive but itself."""

import copy
import io
import pickle

import pytest
import torch

from linattn_ref.costs.accounting import flops_exact, state_bytes
from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig, generate

TOKENS = torch.arange(12)[None]


def small(mixer: str) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(ModelConfig(mixer, d_model=32, n_layers=1, n_heads=2)).eval()


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_a_copy_gives_the_same_logits(mixer: str) -> None:
    model = small(mixer)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), saved):
        assert torch.equal(other(TOKENS)[0], model(TOKENS)[0])


def test_a_prefilled_cache_holds_no_more_than_it_is_said_to() -> None:
    model = small("softmax")
    _, (_, layers) = model(TOKENS)
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in layers[0]}
    assert sum(storages.values()) == state_bytes(model.config, 12, dtype=torch.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_tokens": -1}, "n_tokens: got -1"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"temperature": 0.0}, "temperature: got 0"),
        ({"prompt": TOKENS[:, :0]}, "tokens: got"),
    ],
)
def test_generate_refuses(options: dict, message: str) -> None:
    arguments = {"prompt": TOKENS, "n_tokens": 2, "generator": torch.Generator()} | options
    with pytest.raises(ValueError, match=message):
        generate(small("linear"), **arguments)


def test_counts_refuse_impossible_lengths() -> None:
    config = ModelConfig("linear", d_model=32, n_heads=2)
    with pytest.raises(ValueError, match="seq_len: got 0"):
        flops_exact(config, 0)
    with pytest.raises(ValueError, match="seq_len: got -5"):
        state_bytes(config, -5)
