"""One recurrence, many models: each mixer is the general recurrence with its own gate, write and read.

The recurrence is run in the loop of the oracle, and compared with the mixer. Then gate, write or read is
changed, and the results must differ.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from linattn_ref import oracle
from linattn_ref.mixers import MIXERS, Mixer
from linattn_ref.mixers.equation import evaluate
from tests.mixers.mixer_cases import build, inputs
from tests.support.closeness import assert_close, err

WITH_EQUATIONS = [name for name in MIXERS if MIXERS[name].equation is not None]
T = 20
BY_TOKEN = torch.linspace(1, 3, T, dtype=torch.float64)[:, None, None, None]

# part of the equation -> a change that no norm or denominator behind it undoes
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "gate": lambda gate: 0.5 * gate,
    "write": lambda write: write * BY_TOKEN,
    "read": lambda o: o * torch.linspace(1, 3, o.shape[2] * o.shape[3]).view(o.shape[2:]),
}


def by_the_equation(
    mixer: Mixer, x: Tensor, part: str = "", change: Callable[[Tensor], Tensor] = lambda y: y
) -> tuple[Tensor, Tensor]:
    """Return o and y of a mixer by its equation and the loop of the oracle, with one part changed."""
    equation, (z, _) = mixer.equation, mixer.project(x, None)
    assert equation is not None
    names = equation.names(mixer, z)
    kept = lambda name, value: change(value) if name == part else value  # noqa: E731
    gate = kept("gate", evaluate(equation.gate, names))
    write = kept("write", evaluate(equation.write, names | {"G": gate}))  # [B, T, H, K, V]
    B, T, H, K, V = write.shape
    matrix = equation.gating == "matrix"  # else numbers per token, head and row of the state
    gate = gate.expand(B, T, H, K, K) if matrix else gate.expand(B, T, H, K)[..., None]
    act = np.matmul if matrix else np.multiply
    S = torch.empty_like(write)
    for b, h in np.ndindex(B, H):
        start = np.zeros((K, V), dtype=write.numpy().dtype)
        states = oracle.recurrence(gate[b, :, h].numpy(), write[b, :, h].numpy(), start, act)
        S[b, :, h] = torch.from_numpy(states)
    S_past = torch.cat([torch.zeros_like(S[:, :1]), S[:, :-1]], 1)
    o = kept("read", evaluate(equation.read, names | {"S": S, "S_past": S_past}))
    o = o.reshape_as(mixer.mix(z, None)[0])  # heads of width 1 are channels
    return o, mixer.output(o, z)


@pytest.mark.parametrize("name", WITH_EQUATIONS)
@torch.no_grad()
def test_a_mixer_is_the_recurrence_of_its_equation(name: str) -> None:
    """Before the norm as well, which would undo a factor."""
    mixer, x = build(name), inputs(T)
    o, y = by_the_equation(mixer, x)
    z, _ = mixer.project(x, None)
    assert_close("o", o, mixer.mix(z, None)[0], 1e-10)
    assert_close("y", y, mixer(x)[0], 1e-10)


@pytest.mark.parametrize("name", WITH_EQUATIONS)
@pytest.mark.parametrize("part", CHANGES)
@torch.no_grad()
def test_another_gate_write_or_read_is_another_model(name: str, part: str) -> None:
    """So that a part that never matters, such as a gate that is forgotten again, cannot pass.

    What is written grows from token to token, and what is read differs from value to value: norms and
    denominators would undo a factor.
    """
    mixer, x = build(name), inputs(T)
    _, y = by_the_equation(mixer, x, part, CHANGES[part])
    assert err(y, mixer(x)[0]) > 1e-3


@pytest.mark.parametrize("name", WITH_EQUATIONS)
def test_the_text_of_an_equation_is_what_is_evaluated(name: str) -> None:
    """It is an expression with the names of the function: all its arguments, and what it calls."""
    equation = MIXERS[name].equation
    assert equation is not None
    for part in ("gate", "write", "read"):
        code = getattr(equation, part).__code__
        names = compile(equation.text(part), part, "eval").co_names
        assert set(names) == {*code.co_varnames, *code.co_names}


def test_only_softmax_attention_has_no_equation() -> None:
    """Its state grows with every token."""
    assert set(MIXERS) - set(WITH_EQUATIONS) == {"softmax"}
