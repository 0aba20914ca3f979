"""A model can be copied, pickled and saved whole; a cache keeps nothing alive but itself."""

import copy
import io
import pickle

import pytest
import torch

from linattn_ref.costs.accounting import state_bytes
from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig

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
