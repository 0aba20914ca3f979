"""Experts in the place of an MLP, and residuals of the normed input: equations, refusals, training."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from linattn_ref.model import Block, Experts, LanguageModel, ModelConfig
from tests.support.closeness import assert_close

CONFIG = ModelConfig("tnl", 16, 2, 2, vocab_size=32, d_ff=24, n_experts=5, experts_per_token=2, shared_ff=8)
TOKENS = torch.arange(60).view(3, 20) * 7 % 32


def compute_token(experts: Experts, x: Tensor) -> Tensor:
    """Return y of one token, by the equation and one number at a time where there is a choice."""
    p = torch.softmax(experts.router(x), -1).tolist()
    chosen = sorted(range(len(p)), key=lambda e: p[e])[-experts.n_chosen :]
    y = torch.zeros_like(x)
    for e in chosen:
        gate, up = (experts.into[e] @ x).chunk(2)
        y = y + p[e] / sum(p[i] for i in chosen) * (experts.out[e] @ (silu(gate) * up))
    if experts.shared is not None and experts.shared_gate is not None:
        y = y + torch.sigmoid(experts.shared_gate(x)) * experts.shared(x)
    return y


@pytest.mark.parametrize("shared_ff", [0, 8])
@pytest.mark.parametrize("chosen", [1, 2, 5])
def test_every_token_has_what_its_experts_give(chosen: int, shared_ff: int) -> None:
    torch.manual_seed(0)
    experts = Experts(replace(CONFIG, experts_per_token=chosen, shared_ff=shared_ff)).double()
    x = torch.randn(3, 20, 16, dtype=torch.float64)
    want = torch.stack([compute_token(experts, token) for token in x.flatten(0, 1)]).view_as(x)
    assert_close("y", experts(x), want, 1e-12)
    assert len({tuple(row.topk(chosen).indices.tolist()) for row in experts.router(x).flatten(0, 1)}) > 1 or (
        chosen == 5
    )


def test_gradients_are_those_of_the_equation_and_reach_every_expert() -> None:
    torch.manual_seed(0)
    experts = Experts(CONFIG).double()
    x = torch.randn(1, 20, 16, dtype=torch.float64)
    got = torch.autograd.grad(experts(x).square().sum(), [*experts.parameters()])
    torch.manual_seed(0)
    y = torch.zeros_like(x)
    p = torch.softmax(experts.router(x), -1)
    top, which = p.topk(2)
    for i in range(2):  # with the weights of all experts gathered for every token
        into, out = experts.into[which[..., i]], experts.out[which[..., i]]
        gate, up = torch.einsum("btfd,btd->btf", into, x).chunk(2, -1)
        y = y + top[..., i, None] / top.sum(-1, keepdim=True) * torch.einsum(
            "btdf,btf->btd", out, silu(gate) * up
        )
    assert experts.shared is not None
    assert experts.shared_gate is not None
    y = y + torch.sigmoid(experts.shared_gate(x)) * experts.shared(x)
    want = torch.autograd.grad(y.square().sum(), [*experts.parameters()])
    for (name, _), one, other in zip(experts.named_parameters(), got, want, strict=True):
        assert_close(name, one, other, 1e-10)
        assert one.flatten(1).abs().sum(1).min() > 0


def test_a_model_with_experts_starts_as_others_do_and_learns() -> None:
    torch.manual_seed(0)
    model = LanguageModel(CONFIG)
    spread = {name: x.std().item() for name, x in model.named_parameters() if "mlp." in name and x.ndim > 1}
    assert spread["blocks.0.mlp.into"] == pytest.approx(0.02, rel=0.1)
    for name in ("out", "shared.out.weight"):
        assert spread[f"blocks.0.mlp.{name}"] == pytest.approx(0.01, rel=0.2)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(30):
        logits = model(TOKENS[:, :-1])[0]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), TOKENS[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    half = model.to(torch.bfloat16)(TOKENS)[0]
    assert half.dtype == torch.bfloat16
    assert half.isfinite().all()


@torch.no_grad()
def test_residuals_of_the_normed_input() -> None:
    torch.manual_seed(0)
    block = Block(replace(CONFIG, residual=2.5), layer=0).double()
    x = torch.randn(1, 20, 16, dtype=torch.float64)
    normed = block.mixer_norm(x)
    middle = 2.5 * normed + block.mixer(normed)[0]
    normed = block.mlp_norm(middle)
    want = 2.5 * normed + block.mlp(normed)  # type: ignore[misc, operator]
    assert_close("x", block(x)[0], want, 1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_experts": 1}, "n_experts: got 1"),
        ({"n_experts": 4, "mlp": "none"}, "n_experts: got 4 with mlp='none'"),
        ({"n_experts": 4, "experts_per_token": 5}, "experts_per_token: got 5, expected 1 to 4"),
        ({"experts_per_token": 2}, "experts_per_token: got 2, expected 1 to 1"),
        ({"n_experts": 4, "experts_per_token": 0}, "experts_per_token: got 0"),
        ({"shared_ff": 8}, "shared_ff: got 8, expected 0 without experts"),
        ({"residual": -1.0}, r"residual: got -1\.0"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig(**given)  # type: ignore[arg-type]
