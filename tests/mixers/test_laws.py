"""Laws of every mixer in the registry: one that joins ``MIXERS`` is held to them with no new test code."""

from typing import Any

import pytest
import torch

from linattn_ref.mixers import MIXERS
from tests.mixers.mixer_cases import (
    EXACT,
    B,
    T,
    assert_same_states,
    build,
    every_case,
    in_segments,
    inputs,
    tensors,
)
from tests.support.closeness import assert_close, err

# --- time, batch, gradients --------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("lengths", [[3, 64, 1, 2], [1] * 6 + [57] + [1] * 7], ids=["segments", "steps"])
@torch.no_grad()
def test_a_full_pass_equals_pieces_with_carried_state(
    name: str, options: dict[str, Any], lengths: list[int]
) -> None:
    mixer, x = build(name, options), inputs()
    y, state = mixer(x)
    pieces, carried = in_segments(mixer, x, lengths)
    assert_close("output", pieces, y, EXACT)
    assert_same_states(carried, state, EXACT)


@every_case
@torch.no_grad()
def test_later_tokens_leave_earlier_outputs_unchanged(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), inputs()
    y, _ = mixer(x)
    for t in (1, 40, 64, T - 1):
        changed = torch.cat([x[:, :t], 3 - x[:, t:]], 1)
        z, _ = mixer(changed)
        assert_close(f"outputs before {t}", z[:, :t], y[:, :t], 1e-13)
        assert err(z[:, t], y[:, t]) > 1e-3, f"token {t} has no influence on its own output"


@every_case
@torch.no_grad()
def test_earlier_tokens_are_remembered(name: str, options: dict[str, Any]) -> None:
    """Over a few tokens; a gate may forget over many."""
    mixer, x = build(name, options), inputs(8)
    y, _ = mixer(x)
    z, _ = mixer(torch.cat([3 - x[:, :3], x[:, 3:]], 1))
    assert err(z[:, -1], y[:, -1]) > 1e-6


@every_case
@torch.no_grad()
def test_sequences_of_a_batch_do_not_know_each_other(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), inputs()
    y, _ = mixer(x)
    order = torch.tensor([2, 0, 1])
    assert_close("reordered", mixer(x[order])[0], y[order], 1e-13)
    for b in range(B):
        assert_close(f"sequence {b} alone", mixer(x[b : b + 1])[0], y[b : b + 1], 1e-13)


@every_case
def test_every_parameter_and_the_input_get_a_finite_gradient(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), inputs().requires_grad_()
    y, _ = mixer(x)
    (y * torch.randn(y.shape, dtype=y.dtype)).sum().backward()
    for what, leaf in {"x": x, **dict(mixer.named_parameters())}.items():
        assert leaf.grad is not None, what
        assert leaf.grad.isfinite().all(), what
        assert (leaf.grad != 0).any(), what


# --- states ------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("how", ["bfloat16 weights", "autocast"])
def test_linear_states_stay_float32_in_half_precision(name: str, options: dict[str, Any], how: str) -> None:
    autocast = how == "autocast"
    dtype = torch.float32 if autocast else torch.bfloat16
    mixer, x = build(name, options, dtype), inputs(dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        _, state = mixer(x[:, :9])
        y, state = mixer(x[:, 9:], state)
    y.float().square().sum().backward()
    assert y.dtype == torch.bfloat16
    assert y.isfinite().all()
    expected = torch.float32 if MIXERS[name].state_in_float32 else torch.bfloat16
    assert [part.dtype for part in tensors(state)] == [expected] * len(tensors(state))


@every_case
@pytest.mark.parametrize("length", [5, T])
@torch.no_grad()
def test_a_state_is_a_tuple_of_the_declared_size(name: str, options: dict[str, Any], length: int) -> None:
    mixer = build(name, options)
    _, state = mixer(inputs(length))
    assert isinstance(state, tuple)
    assert sum(part.numel() for part in tensors(state)) == B * mixer.state_numel(mixer.config, length)


@every_case
@torch.no_grad()
def test_a_state_is_never_changed_in_place(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), inputs()
    _, state = mixer(x[:, :10])
    before = [part.clone() for part in tensors(state)]
    first, _ = mixer(x[:, 10:12], state)
    again, _ = mixer(x[:, 10:12], state)
    assert torch.equal(first, again)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors(state), strict=True))


@every_case
@torch.no_grad()
def test_a_state_of_another_batch_is_refused(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), inputs()
    _, state = mixer(x)
    with pytest.raises(ValueError, match="initial_state"):
        mixer(x[:1], state)
