"""What the tests of mixers share: the mixers and options to test, a mixer, its inputs, its states."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.mixers import MIXERS, Mixer
from linattn_ref.mixers.base import State
from linattn_ref.model import ModelConfig
from linattn_ref.ops.feature_maps import FEATURE_MAPS
from tests.support.closeness import assert_close

BASE: dict[str, Any] = {"d_model": 12, "n_layers": 3, "n_heads": 2, "vocab_size": 16}
B, T = 3, 70  # T is more than one chunk of 64, and no multiple
EXACT = 1e-10  # bound on the error of what is equal but for rounding in float64

LINEAR = [
    {"feature_map": phi, "normaliser": normaliser, "positions": where}
    for phi, normaliser, where in product(FEATURE_MAPS, ("denominator", "norm"), ("none", "rope"))
]


def rotates(options: dict[str, Any]) -> bool:
    """Return whether a linear mixer may rotate: features of even width, and no division by their sum."""
    width = FEATURE_MAPS[options["feature_map"]].width(BASE["d_model"] // BASE["n_heads"])
    return options["normaliser"] == "norm" and width % 2 == 0


# Options of the linear mixer that it takes, and those that it refuses.
ALLOWED = [o for o in LINEAR if o["positions"] != "rope" or rotates(o)]
FORBIDDEN = [o for o in LINEAR if o not in ALLOWED]

# Options to try per mixer; a mixer that is not named here is tried as it comes.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "softmax": [
        {"positions": "rope"},
        {"positions": "none"},
        {"n_kv_heads": 1},
        {"rope_width": 4, "head_norm": True, "gated": True},
    ],
    "linear": ALLOWED,
    "cosformer": [{"max_length": 160}],
    "retnet": [{"positions": where} for where in ("rope", "none")],
    "gated_retnet": [{"positions": where} for where in ("rope", "none")],
    "tnl": [{"decay": decay} for decay in ("code", "printed", "none", "data")]
    + [{"decay": "minimax", "form": "minimax", "head_dim": 4}],
    "s4d": [{"init": init, "state_size": 8} for init in ("lin", "inv", "real")],
    "h3": [{"init": init, "state_size": 8} for init in ("lin", "real")],
    "mamba": [{}, {"conv_bias": True}],
    "mamba2": [{}, {"n_groups": 2, "conv_bias": True}],
    "gated_delta_net": [{}, {"n_value_heads": 4, "n_key_heads": 2, "key_dim": 4, "value_dim": 3}],
}


def cases() -> Iterator[Any]:
    """Yield every mixer with each of its settings."""
    for name in MIXERS:
        for options in SETTINGS.get(name, [{}]):
            yield pytest.param(name, options, id="-".join([name, *map(str, options.values())]))


every_case = pytest.mark.parametrize(("name", "options"), list(cases()))
every_mixer = pytest.mark.parametrize("name", MIXERS)


def build(
    name: str, options: dict[str, Any] | None = None, dtype: torch.dtype = torch.float64, **sizes: Any
) -> Mixer:
    """Return a mixer, of layer 1 of 3, with weights so large that no nonlinearity is close to linear."""
    mixer = MIXERS[name](ModelConfig(name, **BASE | sizes, options=options), 1).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in mixer.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=generator)
    return mixer


def inputs(length: int = T, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return x [B, length, D], the same at each call."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(B, length, BASE["d_model"], generator=generator, dtype=dtype)


def tensors(state: State) -> list[Tensor]:
    """Return all tensors of a state, which may be nested, in order; counts and None are left out."""
    parts = [tensors(part) if isinstance(part, tuple) else [part] for part in state]
    return [part for several in parts for part in several if isinstance(part, Tensor)]


def in_segments(mixer: Mixer, x: Tensor, lengths: list[int]) -> tuple[Tensor, State]:
    """Run a mixer on x in segments, with the state carried; return all outputs and the last state."""
    outputs, state = [], None
    for segment in x.split(lengths, 1):
        y, state = mixer(segment, state)
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, 1), state


def assert_same_states(got: State, want: State, bound: float) -> None:
    """Assert that counts are equal and tensors close."""
    counts = [[x for x in state if isinstance(x, int)] for state in (got, want)]
    assert counts[0] == counts[1]
    for number, (a, b) in enumerate(zip(tensors(got), tensors(want), strict=True)):
        assert_close(f"state {number}", a, b, bound)
