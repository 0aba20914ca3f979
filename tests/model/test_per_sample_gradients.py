"""Gradients of each sample of a batch, by ``torch.func``: as if each had been alone."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig
from tests.support.closeness import assert_close

SAMPLES, T, VOCAB = 3, 10, 11


@pytest.mark.parametrize("mixer", MIXERS)
def test_per_sample_gradients_are_those_of_each_sample_alone(mixer: str) -> None:
    config = ModelConfig(mixer, d_model=16, n_layers=2, n_heads=2, vocab_size=VOCAB)
    model = LanguageModel(config).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    tokens = torch.randint(VOCAB, (SAMPLES, T + 1))

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        logits, _ = functional_call(model, parameters, (sample[None, :-1],))
        return cross_entropy(logits[0], sample[1:])

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, tokens)
    for i, sample in enumerate(tokens):
        for name, want in grad(loss)(parameters, sample).items():
            assert_close(f"{name}, sample {i}", together[name][i], want, 1e-10)
