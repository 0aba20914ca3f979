"""The loss of a whole model, whose logits are made chunk by chunk, and a model that keeps less."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from linattn_benchmarks import whole_models
from linattn_ref.model import LanguageModel, ModelConfig


@pytest.mark.parametrize("chunk", [5, 7, 100])  # that divides the 14 tokens or not, or is longer
def test_the_loss_in_chunks_is_the_loss_with_its_gradients(chunk, monkeypatch):
    monkeypatch.setattr(whole_models, "CHUNK", chunk)
    hidden, weight = torch.randn(2, 7, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    targets = torch.randint(11, (2, 7))
    whole = cross_entropy((hidden @ weight.T).flatten(0, 1), targets.flatten())
    ours = whole_models.compute_loss(hidden, weight, targets)
    torch.testing.assert_close(ours, whole)
    for got, want in zip(*(torch.autograd.grad(x, (hidden, weight)) for x in (ours, whole)), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("mixer", ["hgrn2", "gla", "gated_delta_net"])
def test_a_model_that_keeps_less_has_the_same_gradients(mixer):
    gradients = []
    for keeps_less in (False, True):
        torch.manual_seed(0)
        model = LanguageModel(ModelConfig(mixer, 32, 2, 2, 64)).double()
        if keeps_less:
            whole_models.keep_less(model)
        model(torch.arange(20)[None])[0].square().mean().backward()
        gradients.append([weight.grad for weight in model.parameters() if weight.grad is not None])
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)
