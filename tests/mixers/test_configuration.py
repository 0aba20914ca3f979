"""What the arguments of a configuration do to every mixer, and which are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig
from tests.mixers.mixer_cases import BASE, FORBIDDEN, build, every_mixer, in_segments, inputs
from tests.support.closeness import err

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
    "gated_retnet": {"positions": {}, "rope_base": {}},
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
    assert change > 1e-4 if argument in claims else change < 1e-12  # threads may add in another order


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
