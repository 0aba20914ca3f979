"""One recurrence, many models: each mixer is the general recurrence with its row's gate, write and read."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linattn_ref import oracle
from linattn_ref.mixers import MIXERS, Mixer, Row
from tests.mixers.mixer_cases import build, inputs
from tests.support.closeness import assert_close, err

WITH_ROWS = [name for name in MIXERS if MIXERS[name].row is not None]
T = 20

FUNCTIONS: dict[str, Any] = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "outer": lambda k, v: k[..., :, None] * v[..., None, :],
    "dot": lambda q, S: (q[..., None, :] @ S)[..., 0, :],
    "ratio": lambda o: o[..., :-1] / (o[..., -1:] + 1e-6),
    "bounded": lambda o: o[..., :-1] / o[..., -1:].abs().clamp(min=1),
    "quotient": lambda S: S[..., 0, :1] / S[..., 0, 1:],
    "paired": lambda y: 2 * y.real if y.is_complex() else y,
    "by_token": torch.linspace(1, 3, T, dtype=torch.float64)[:, None, None, None],
    "tilted": lambda o: o * torch.linspace(1, 3, o.shape[2] * o.shape[3]).view(o.shape[2:]),
}


def evaluate(expression: str, names: dict[str, Any]) -> Tensor:
    value = eval(expression, {"__builtins__": {}}, FUNCTIONS | names)
    return torch.as_tensor(value, dtype=None if isinstance(value, Tensor) else torch.float64)


def by_the_row(mixer: Mixer, row: Row, x: Tensor) -> Tensor:
    """The mixer's output, from its row and the loop of the oracle."""
    z, _ = mixer.quantities(x, None)
    gate = evaluate(row.gate, z)
    write = evaluate(row.write, z | {"G": gate})  # [B, T, H, K, V]
    B, T, H, K, V = write.shape
    matrix = row.gating == "matrix"  # else numbers per token, head and row of the state
    gate = gate.expand(B, T, H, K, K) if matrix else gate.expand(B, T, H, K)[..., None]
    act = np.matmul if matrix else np.multiply
    S = torch.empty_like(write)
    for b, h in np.ndindex(B, H):
        start = np.zeros((K, V), dtype=write.numpy().dtype)
        states = oracle.recurrence(gate[b, :, h].numpy(), write[b, :, h].numpy(), start, act)
        S[b, :, h] = torch.from_numpy(states)
    S_past = torch.cat([torch.zeros_like(S[:, :1]), S[:, :-1]], 1)
    o = evaluate(row.read, z | {"S": S, "S_past": S_past})
    return mixer.out(mixer.finish(o, z))


@pytest.mark.parametrize("name", WITH_ROWS)
@torch.no_grad()
def test_a_mixer_is_the_recurrence_of_its_row(name: str) -> None:
    mixer, x = build(name, {}), inputs(T)
    row = MIXERS[name].row
    assert row is not None
    assert_close(name, by_the_row(mixer, row, x), mixer(x)[0], 1e-10)


@pytest.mark.parametrize("name", WITH_ROWS)
@torch.no_grad()
def test_another_gate_write_or_read_is_another_model(name: str) -> None:
    """So that a part that never matters, such as a gate that is forgotten again, cannot pass.

    What is written grows from token to token, and what is read differs from value to value: norms and
    denominators would undo a factor.
    """
    mixer, x = build(name, {}), inputs(T)
    row, want = MIXERS[name].row, mixer(x)[0]
    assert row is not None
    changes = {
        "gate": f"0.5 * ({row.gate})",
        "write": f"({row.write}) * by_token",
        "read": f"tilted({row.read})",
    }
    for part, changed in changes.items():
        got = by_the_row(mixer, row._replace(**{part: changed}), x)
        assert err(got, want) > 1e-3, f"{part} of {name}"


def test_only_softmax_attention_has_no_row() -> None:
    """Its state grows with every token."""
    assert set(MIXERS) - set(WITH_ROWS) == {"softmax"}
