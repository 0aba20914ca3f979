"""Laws of every mixer in the registry: one that joins ``MIXERS`` is held to them with no new test code."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from helpers import assert_close, err
from torch import Tensor

from linattn_ref.mixers import MIXERS, Mixer
from linattn_ref.mixers.base import State
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.ops.feature_maps import FEATURE_MAPS

BASE: dict[str, Any] = {"d_model": 12, "n_layers": 3, "n_heads": 2, "vocab_size": 16, "max_length": 160}
B, T, EXACT = 3, 70, 1e-10  # T is more than one chunk of 64, and no multiple

LINEAR = [
    {"feature_map": phi, "normaliser": normaliser, "positions": where}
    for phi, normaliser, where in product(
        FEATURE_MAPS, ("denominator", "norm"), ("none", "sinusoidal", "rope")
    )
]


def rotates(overrides: dict[str, Any]) -> bool:
    """A linear mixer rotates features of even width, and only where nothing divides by their sum."""
    width = FEATURE_MAPS[overrides["feature_map"]].width(BASE["d_model"] // BASE["n_heads"])
    return overrides["normaliser"] == "norm" and width % 2 == 0


ALLOWED = [o for o in LINEAR if o["positions"] != "rope" or rotates(o)]
FORBIDDEN = [o for o in LINEAR if o not in ALLOWED]

# Settings to try per mixer; a mixer that is not named here is tried as it comes.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "softmax": [{"positions": where} for where in ("rope", "sinusoidal", "none")],
    "linear": ALLOWED,
    "cosformer": [{"positions": where} for where in ("sinusoidal", "none")],
    "retnet": [{"positions": where} for where in ("rope", "none")],
    "s4d": [{"ssm_init": init, "state_size": 8} for init in ("lin", "inv", "real")],
    "h3": [{"ssm_init": init, "state_size": 8} for init in ("lin", "real")],
}
# Arguments that change what a mixer computes, and the setting in which each does; all others must not.
CLAIMS: dict[str, dict[str, dict[str, Any]]] = {
    "softmax": {"positions": {}, "rope_base": {}},
    "linear": {
        "feature_map": {},
        "positions": {},
        "normaliser": {"normaliser": "norm"},
        "rope_base": {"normaliser": "norm", "positions": "rope"},
    },
    "cosformer": {"max_length": {}},
    "cosformer2": {"rope_base": {}},
    "retnet": {"positions": {}, "rope_base": {}},
    "tnl": {"tnl_decay": {}},
    "s4d": {"state_size": {}, "ssm_init": {}},
    "h3": {"state_size": {}, "ssm_init": {}},
    "mamba": {"state_size": {}, "hold": {}},
    "mamba2": {"state_size": {}},
    "delta_net": {"beta_max": {}},
    "gated_delta_net": {"beta_max": {}},
}
OTHER_VALUES: dict[str, Any] = {
    "feature_map": "relu",
    "positions": "none",
    "normaliser": "denominator",
    "rope_base": 100.0,
    "max_length": 1000,
    "tnl_decay": "printed",
    "state_size": 8,
    "ssm_init": "real",
    "hold": "exact",
    "beta_max": 2.0,
}


def cases() -> Iterator[Any]:
    for name in MIXERS:
        for overrides in SETTINGS.get(name, [{}]):
            yield pytest.param(name, overrides, id="-".join([name, *map(str, overrides.values())]))


every_case = pytest.mark.parametrize(("name", "overrides"), list(cases()))
every_mixer = pytest.mark.parametrize("name", MIXERS)


def build(name: str, overrides: dict[str, Any], dtype: torch.dtype = torch.float64) -> Mixer:
    """A mixer whose weights are large enough for every nonlinearity to be felt."""
    mixer = MIXERS[name](ModelConfig(name, **BASE | overrides), 1).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in mixer.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=generator)
    return mixer


def inputs(length: int = T, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(B, length, BASE["d_model"], generator=generator, dtype=dtype)


def tensors(state: State) -> list[Tensor]:
    parts = [tensors(part) if isinstance(part, tuple) else [part] for part in state]
    return [part for several in parts for part in several if isinstance(part, Tensor)]


def in_segments(mixer: Mixer, x: Tensor, lengths: list[int]) -> tuple[Tensor, State]:
    outputs, state = [], None
    for segment in x.split(lengths, 1):
        y, state = mixer(segment, state)
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, 1), state


def assert_same_states(got: State, want: State, bound: float) -> None:
    counts = [[x for x in state if isinstance(x, int)] for state in (got, want)]
    assert counts[0] == counts[1]
    for number, (a, b) in enumerate(zip(tensors(got), tensors(want), strict=True)):
        assert_close(f"state {number}", a, b, bound)


# --- time, batch, gradients --------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("lengths", [[3, 64, 1, 2], [1] * 6 + [57] + [1] * 7], ids=["segments", "steps"])
@torch.no_grad()
def test_a_full_pass_equals_pieces_with_carried_state(
    name: str, overrides: dict[str, Any], lengths: list[int]
) -> None:
    mixer, x = build(name, overrides), inputs()
    y, state = mixer(x)
    pieces, carried = in_segments(mixer, x, lengths)
    assert_close("output", pieces, y, EXACT)
    assert_same_states(carried, state, EXACT)


@every_case
@torch.no_grad()
def test_later_tokens_leave_earlier_outputs_unchanged(name: str, overrides: dict[str, Any]) -> None:
    mixer, x = build(name, overrides), inputs()
    y, _ = mixer(x)
    for t in (1, 40, 64, T - 1):
        changed = torch.cat([x[:, :t], 3 - x[:, t:]], 1)
        z, _ = mixer(changed)
        assert_close(f"outputs before {t}", z[:, :t], y[:, :t], 1e-13)
        assert err(z[:, t], y[:, t]) > 1e-3, f"token {t} has no influence on its own output"


@every_case
@torch.no_grad()
def test_earlier_tokens_are_remembered(name: str, overrides: dict[str, Any]) -> None:
    """Over a few tokens; a gate may forget over many."""
    mixer, x = build(name, overrides), inputs(8)
    y, _ = mixer(x)
    z, _ = mixer(torch.cat([3 - x[:, :3], x[:, 3:]], 1))
    assert err(z[:, -1], y[:, -1]) > 1e-6


@every_case
@torch.no_grad()
def test_sequences_of_a_batch_do_not_know_each_other(name: str, overrides: dict[str, Any]) -> None:
    mixer, x = build(name, overrides), inputs()
    y, _ = mixer(x)
    order = torch.tensor([2, 0, 1])
    assert_close("reordered", mixer(x[order])[0], y[order], 1e-13)
    for b in range(B):
        assert_close(f"sequence {b} alone", mixer(x[b : b + 1])[0], y[b : b + 1], 1e-13)


@every_case
def test_every_parameter_and_the_input_get_a_finite_gradient(name: str, overrides: dict[str, Any]) -> None:
    mixer, x = build(name, overrides), inputs().requires_grad_()
    y, _ = mixer(x)
    (y * torch.randn(y.shape, dtype=y.dtype)).sum().backward()
    for what, leaf in {"x": x, **dict(mixer.named_parameters())}.items():
        assert leaf.grad is not None, what
        assert leaf.grad.isfinite().all(), what
        assert (leaf.grad != 0).any(), what


# --- states ------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("how", ["bfloat16 weights", "autocast"])
def test_linear_states_stay_float32_in_half_precision(name: str, overrides: dict[str, Any], how: str) -> None:
    autocast = how == "autocast"
    dtype = torch.float32 if autocast else torch.bfloat16
    mixer, x = build(name, overrides, dtype), inputs(dtype=dtype)
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
def test_a_state_is_a_tuple_of_the_declared_size(name: str, overrides: dict[str, Any], length: int) -> None:
    mixer = build(name, overrides)
    _, state = mixer(inputs(length))
    assert isinstance(state, tuple)
    assert sum(part.numel() for part in tensors(state)) == B * mixer.state_numel(mixer.config, length)


@every_case
@torch.no_grad()
def test_a_state_is_never_changed_in_place(name: str, overrides: dict[str, Any]) -> None:
    mixer, x = build(name, overrides), inputs()
    _, state = mixer(x[:, :10])
    before = [part.clone() for part in tensors(state)]
    first, _ = mixer(x[:, 10:12], state)
    again, _ = mixer(x[:, 10:12], state)
    assert torch.equal(first, again)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors(state), strict=True))


@every_case
@torch.no_grad()
def test_a_state_of_another_batch_is_refused(name: str, overrides: dict[str, Any]) -> None:
    mixer, x = build(name, overrides), inputs()
    _, state = mixer(x)
    with pytest.raises(ValueError, match="initial_state"):
        mixer(x[:1], state)


# --- the configuration -------------------------------------------------------------------------------------


def logits_of(name: str, overrides: dict[str, Any]) -> Tensor:
    """Of a model whose weights do not depend on the argument under test."""
    model = LanguageModel(ModelConfig(name, **BASE | overrides)).to(torch.float64)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=generator)
        return model(torch.arange(40)[None] * 7 % 16)[0]


@every_mixer
@pytest.mark.parametrize("argument", OTHER_VALUES)
def test_an_argument_changes_the_output_exactly_where_a_mixer_claims_it(name: str, argument: str) -> None:
    claims = CLAIMS.get(name, {})
    setting = claims.get(argument, {})
    change = err(logits_of(name, setting | {argument: OTHER_VALUES[argument]}), logits_of(name, setting))
    assert change > 1e-4 if argument in claims else change == 0


@every_mixer
def test_sinusoidal_positions_reach_every_mixer(name: str) -> None:
    assert err(logits_of(name, {"positions": "sinusoidal"}), logits_of(name, {"positions": "none"})) > 1e-4


@every_mixer
@torch.no_grad()
def test_a_mixer_by_itself_has_the_positions_it_was_published_with(name: str) -> None:
    published = MIXERS[name].default_positions
    assert torch.equal(build(name, {})(inputs())[0], build(name, {"positions": published})(inputs())[0])


@pytest.mark.parametrize("overrides", FORBIDDEN, ids=lambda o: "-".join(o.values()))
def test_rotation_is_refused_where_it_makes_no_sense(overrides: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positions: got 'rope'"):
        build("linear", overrides)


def test_rotation_of_an_odd_head_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"positions: got 'rope'.*width 3"):
        build("softmax", {"n_heads": 4})


def test_cosformer_refuses_positions_that_it_would_ignore() -> None:
    with pytest.raises(ValueError, match="positions: got 'rope'"):
        build("cosformer", {"positions": "rope"})


@pytest.mark.parametrize("lengths", [[161], [160, 1], [100, 61]])
def test_cosformer_refuses_tokens_beyond_max_length(lengths: list[int]) -> None:
    mixer = build("cosformer", {})
    in_segments(mixer, inputs(160), [160])
    with pytest.raises(ValueError, match=r"max_length: got 161 .* 160"):
        in_segments(mixer, inputs(161), lengths)


WRONG: list[tuple[str, Any]] = [
    ("feature_map", "square"),
    ("normaliser", "sum"),
    ("positions", "alibi"),
    ("backend", "numpy"),
    ("activation", "relu"),
    ("d_model", 13),
    ("d_model", 0),
    ("d_ff", -1),
    ("n_heads", 0),
    ("max_length", 0),
]


@pytest.mark.parametrize(("argument", "value"), WRONG)
def test_a_wrong_argument_is_named_with_its_value(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument}: got {value!r}"):
        LanguageModel(ModelConfig(**BASE | {argument: value}))


def test_an_unknown_mixer_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"mixer: got 'transformer', expected one of .*softmax"):
        LanguageModel(ModelConfig("transformer", **BASE))
