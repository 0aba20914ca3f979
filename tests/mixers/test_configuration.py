"""``ModelConfig`` and the options of mixers: each option changes the output, a wrong value is refused."""

import pickle
import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_ref.mixers import MIXERS, SoftmaxOptions, TNLMixer, TNLOptions
from linattn_ref.model import LanguageModel, ModelConfig
from tests.mixers.mixer_cases import BASE, FORBIDDEN, build, every_case, every_mixer, in_segments, inputs
from tests.support.closeness import err

NORM = {"normaliser": "norm"}
# option: a value that is not its default, and the other options with which it matters
OTHER_VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "linear.feature_map": ("relu", {}),
    "linear.normaliser": ("norm", {}),
    "linear.positions": ("rope", NORM),
    "linear.rope_base": (100.0, NORM | {"positions": "rope"}),
    "positions": ("none", {}),
    "rope_base": (100.0, {}),
    "theta_base": (100.0, {}),
    "max_length": (1000, {}),
    "decay": ("printed", {}),
    "state_size": (8, {}),
    "init": ("real", {}),
    "hold": ("exact", {}),
    "beta_max": (2.0, {}),
    "rope_scaling": ((8.0, 1.0, 4.0, 30), {}),
    "n_kv_heads": (1, {}),
    "head_dim": (4, {}),
    "conv_bias": (True, {}),
    "n_groups": (2, {}),
    "key_factor": (0.5, {}),
    "gate_cap": (0.5, {}),
    "head_norm": ("layer", {}),
    "denominator_eps": (0.5, {}),
    "rope_width": (2, {}),
    "softmax.head_norm": (True, {}),
    "gated": (True, {}),
    "form": ("minimax", {}),
    "n_value_heads": (4, {}),
    "n_key_heads": (1, {}),
    "key_dim": (4, {}),
    "value_dim": (4, {}),
    "key_eps": (0.5, {}),
}
OPTIONS = [(name, field.name) for name, mixer in MIXERS.items() for field in fields(mixer.options_class)]


def logits_of(name: str, options: dict[str, Any], **sizes: Any) -> Tensor:
    """Return the logits of a model whose weights do not depend on the option under test."""
    model = LanguageModel(ModelConfig(name, **BASE | sizes, options=options)).to(torch.float64)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3, generator=generator)
        return model(torch.arange(40)[None] * 7 % 16)[0]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_of_a_mixer_changes_its_output(name: str, option: str) -> None:
    value, setting = OTHER_VALUES.get(f"{name}.{option}") or OTHER_VALUES[option]
    assert err(logits_of(name, setting | {option: value}), logits_of(name, setting)) > 1e-4


@every_mixer
def test_an_option_that_a_mixer_does_not_know_is_refused_with_those_that_it_knows(name: str) -> None:
    known = [field.name for field in fields(MIXERS[name].options_class)]
    for option in {option for _, option in OPTIONS} | {"tnl_decay"}:
        if option not in known:
            with pytest.raises(ValueError, match=f"options: got '{option}' for the mixer '{name}'") as error:
                ModelConfig(name, options={option: 1})
            assert all(repr(other) in str(error.value) for other in known)


def test_caps_below_zero_and_keys_without_whole_entries_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logit_cap: got -1\.0, expected a finite number, 0 or above"):
        ModelConfig("mlstm", **BASE, logit_cap=-1.0)
    with pytest.raises(ValueError, match=r"gate_cap: got -1\.0, expected a finite number, 0 or above"):
        ModelConfig("mlstm", options={"gate_cap": -1.0})
    with pytest.raises(ValueError, match=r"key_factor: got 0\.3, expected one that gives keys 1, 2"):
        LanguageModel(ModelConfig("mlstm", **BASE, options={"key_factor": 0.3}))


def test_options_of_another_mixer_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"options: got TNLOptions.* expected SoftmaxOptions, a mapping or None"
    ):
        ModelConfig("softmax", options=TNLOptions())
    with pytest.raises(ValueError, match=r"options: got SoftmaxOptions"):
        replace(ModelConfig("softmax"), mixer="tnl")
    with pytest.raises(ValueError, match=r"config\.options: got SoftmaxOptions.* expected TNLOptions"):
        TNLMixer(ModelConfig("softmax"), 0)
    with pytest.raises(TypeError, match="tnl_decay"):
        ModelConfig("softmax", tnl_decay="printed")  # type: ignore[call-arg]


@every_case
def test_a_configuration_is_data(name: str, options: dict[str, Any]) -> None:
    """Hashable, comparable, picklable, replaceable; a mapping is as good as the object."""
    config = ModelConfig(name, **BASE, options=options)
    assert type(config.options) is MIXERS[name].options_class
    assert config == ModelConfig(name, **BASE, options=config.options)
    assert config == ModelConfig(**asdict(config)) == pickle.loads(pickle.dumps(config)) == replace(config)
    assert hash(config) == hash(replace(config))
    assert replace(config, d_model=24).options == config.options
    assert replace(config, mixer="tnl", options=None).options == TNLOptions()
    assert asdict(config.options).items() >= options.items()


def test_configurations_differ_by_their_options() -> None:
    assert ModelConfig("softmax") != ModelConfig("softmax", options=SoftmaxOptions("none"))
    assert len({ModelConfig("tnl", options={"decay": decay}) for decay in ("code", "printed", "code")}) == 2


def test_a_new_mixer_touches_no_central_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class OddOptions(TNLOptions):
        oddity: int = 1

    class OddTNL(TNLMixer):
        options_class = OddOptions

    monkeypatch.setitem(MIXERS, "odd", OddTNL)
    model = LanguageModel(ModelConfig("odd", **BASE, options={"decay": "none", "oddity": 3}))
    assert model(torch.zeros(1, 3, dtype=torch.int64))[0].shape == (1, 3, 16)
    assert model.config.options == OddOptions("none", oddity=3)


@every_mixer
def test_sinusoids_reach_every_mixer_and_come_by_default_where_published(name: str) -> None:
    none, added, default = (logits_of(name, {}, sinusoidal=choice) for choice in (False, True, None))
    assert err(added, none) > 1e-4
    assert torch.equal(default, added if name == "linear" else none)


@pytest.mark.parametrize("options", FORBIDDEN, ids=lambda o: "-".join(o.values()))
def test_rotation_is_refused_where_it_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positions: got 'rope'"):
        build("linear", options)


@pytest.mark.parametrize("name", ["softmax", "retnet", "gated_retnet"])
def test_rotation_of_an_odd_head_width_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"positions: got 'rope'.*width 3"):
        build(name, n_heads=4)


@pytest.mark.parametrize("lengths", [[161], [160, 1], [100, 61]])
def test_cosformer_refuses_tokens_beyond_max_length(lengths: list[int]) -> None:
    mixer = build("cosformer", {"max_length": 160})
    in_segments(mixer, inputs(160), [160])
    with pytest.raises(ValueError, match=r"max_length: got 161 .* 160"):
        in_segments(mixer, inputs(161), lengths)


def test_heads_that_cannot_share_keys_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="n_kv_heads: got 2, expected a divisor of n_heads = 3"):
        build("softmax", {"n_kv_heads": 2, "positions": "none"}, n_heads=3)


def test_grouped_heads_are_heads_whose_keys_and_values_are_equal() -> None:
    few, all_heads = build("softmax", {"n_kv_heads": 2}, n_heads=6), build("softmax", n_heads=6)
    weights = few.state_dict()
    q, k, v = weights["qkv.weight"].split([12, 4, 4])
    spread = [x.view(2, 2, 12).repeat_interleave(3, 0).flatten(0, 1) for x in (k, v)]
    all_heads.load_state_dict(weights | {"qkv.weight": torch.cat([q, *spread])})
    (y, cache), (want, large) = few(inputs()), all_heads(inputs())
    assert err(y, want) < 1e-12
    assert err(cache.k, large.k[:, :, ::3]) < 1e-12
    assert err(cache.v, large.v[:, :, ::3]) < 1e-12


def test_heads_that_groups_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="n_groups: got 2, expected a divisor of n_heads = 3"):
        build("mamba2", {"n_groups": 2}, n_heads=3)


WRONG_FIELDS: list[tuple[str, Any]] = [
    ("backend", "numpy"),
    ("activation", "relu"),
    ("mlp", "mixture"),
    ("norm", "batch"),
    ("d_model", 13),
    ("d_model", 0),
    ("d_model", 12.0),
    ("d_ff", -1),
    ("n_heads", 0),
    ("softmax_every", -1),
    ("norm_eps", -1e-6),
    ("norm_eps", float("inf")),
]
WRONG_OPTIONS: list[tuple[str, str, Any]] = [
    ("linear", "feature_map", "square"),
    ("linear", "normaliser", "sum"),
    ("softmax", "positions", "alibi"),
    ("softmax", "positions", "sinusoidal"),
    ("softmax", "rope_base", -3.0),
    ("linear", "rope_base", "10000"),
    ("softmax", "rope_scaling", (8.0, 4.0, 1.0, 30)),
    ("softmax", "rope_scaling", (8.0, 1.0, 4.0)),
    ("softmax", "n_kv_heads", -1),
    ("softmax", "head_dim", 0.5),
    ("retnet", "rope_base", True),
    ("cosformer2", "theta_base", 0.0),
    ("delta_net", "beta_max", "1"),
    ("cosformer", "max_length", 0),
    ("tnl", "decay", "learned"),
    ("mamba", "state_size", 0),
    ("mamba2", "state_size", "8"),
    ("mamba2", "n_groups", 0),
    ("s4d", "state_size", 7),
    ("mamba", "hold", "bilinear"),
    ("delta_net", "beta_max", 2.5),
    ("gated_delta_net", "beta_max", 0),
]


@pytest.mark.parametrize(("argument", "value"), WRONG_FIELDS)
def test_a_wrong_field_is_named_with_its_value(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument}: got {value!r}"):
        ModelConfig(**BASE | {argument: value})


@pytest.mark.parametrize(("name", "option", "value"), WRONG_OPTIONS)
def test_a_wrong_option_is_named_with_its_value(name: str, option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{option}: got {re.escape(repr(value))}, expected"):
        ModelConfig(name, **BASE, options={option: value})


def test_an_unknown_mixer_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"mixer: got 'transformer', expected one of .*softmax"):
        LanguageModel(ModelConfig("transformer", **BASE))
    with pytest.raises(ValueError, match=r"mixer: got \['gla'\], expected one of .*softmax"):
        ModelConfig(["gla"], **BASE)  # type: ignore[arg-type]
