"""What the gradients of linear attention are: the same op, with other letters."""

import pytest
import torch

from linattn_ref.ops import parallel_linear_attention
from tests.support.closeness import assert_close


@pytest.mark.theorem("thm-linear-backward")
@pytest.mark.parametrize("decay", [0.0, -0.3, -40.0])
def test_gradients_of_linear_attention_are_linear_attention(decay: float, generator: torch.Generator) -> None:
    """Once along time, twice against it; a decay per head, key and value widths that differ."""
    q, k = torch.randn(2, 1, 37, 2, 5, dtype=torch.float64, generator=generator)
    v, dout = torch.randn(2, 1, 37, 2, 7, dtype=torch.float64, generator=generator)
    g = torch.full((2,), decay, dtype=torch.float64)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return parallel_linear_attention(q, k, v, g, scale=1.0).output

    def attend_back(*x: torch.Tensor) -> torch.Tensor:
        return attend(*(y.flip(1) for y in x)).flip(1)

    inputs = [x.requires_grad_() for x in (q, k, v)]
    want = torch.autograd.grad(attend(*inputs), inputs, dout)
    made = attend(dout, v, k), attend_back(v, dout, q), attend_back(k, q, dout)
    for name, got, gradient in zip("qkv", made, want, strict=True):
        assert_close(f"gradient of {name}", got, gradient, 1e-10)
