"""cosFormer2's positions before the first layer."""

import math

import pytest
import torch
from torch import nn

from linattn_ref import ops
from linattn_ref.mixers.cosformer2 import ToeplitzPositions


@pytest.mark.parametrize("start", [False, True])
def test_toeplitz_positions_are_a_diagonal_ssm(start: bool) -> None:
    """TPE is the recurrence h <- lambda h + (1 - lambda) x with the same lambda for every channel."""
    torch.manual_seed(0)
    B, T, D, N = 2, 9, 6, 4
    positions = ToeplitzPositions(D, N).double()
    nn.init.normal_(positions.weight)
    x = torch.randn(B, T, D, dtype=torch.float64)
    state = torch.randn(B, D, N, dtype=torch.float64) if start else None
    rate = (-math.log(2) / torch.logspace(0, 10, N, base=2, dtype=torch.float64)).expand(D, N)
    step = torch.ones(D, dtype=torch.float64)
    y, last = ops.recurrent_lti_ssm(x, step, rate, -rate, positions.weight, initial_state=state)
    got, got_last = positions(x, state)
    torch.testing.assert_close(got, x + y)
    torch.testing.assert_close(got_last, last)
