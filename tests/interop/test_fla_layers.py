"""Weights lose nothing on their way to FLA's layers, and with them the layers, by definition, are ours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_benchmarks.agreement_layers import OPTIONS, draw_mixer
from linattn_book import results
from linattn_ref.config import ModelConfig
from linattn_ref.interop import fla_layers
from linattn_ref.interop.fla_layers import FLA_LAYERS, WITHOUT_FLA_LAYER, to_fla_layer
from linattn_ref.mixers import MIXERS, Mixer
from tests.interop.fla_definitions import DEFINITIONS, SIZES, STATES, StandIn, shapes
from tests.support.closeness import assert_close

CASES = [(name, options) for name in FLA_LAYERS for options in OPTIONS.get(name, [{}])]
CASES += [("linear", {"feature_map": phi, "normaliser": "norm"}) for phi in ("relu", "identity")]
CASES += [("softmax", {"rope_base": 50.0}), ("gated_retnet", {"rope_base": 50.0})]
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=str)


def drawn(name: str, options: dict[str, Any]) -> Mixer:
    """Draw a small mixer in float64."""
    return draw_mixer(name, STATES.get(name, {}) | options, SIZES).double()


def recorded(mixer: Mixer) -> str:
    """The name in ``shapes`` of the layer that has the same parameters."""
    name = mixer.config.mixer
    return "linear, norm" if name == "linear" and mixer.config.options.normaliser == "norm" else name


def stand_in(mixer: Mixer, path: str) -> Callable[..., StandIn]:
    assert path == FLA_LAYERS[mixer.config.mixer].path
    return partial(StandIn, recorded(mixer))


def test_layers_and_reasons_are_of_different_mixers() -> None:
    assert FLA_LAYERS.keys() | WITHOUT_FLA_LAYER.keys() <= MIXERS.keys()
    assert not FLA_LAYERS.keys() & WITHOUT_FLA_LAYER.keys()
    assert DEFINITIONS.keys() == FLA_LAYERS.keys()


def test_the_book_names_every_layer() -> None:
    page = (Path(__file__).parents[2] / "book" / "rosetta.md").read_text("utf-8")
    for name, layer in FLA_LAYERS.items():
        assert f", `{name}` | `{layer.path}` |" in page


def test_the_measured_rows_say_what_the_book_says_of_them() -> None:
    rows: list[dict[str, Any]] = results.load("fla_layers")
    assert {row["mixer"] for row in rows} == FLA_LAYERS.keys()

    def worst(dtype: str, modes: tuple[str | None, ...]) -> float:
        of = [row["error"] for row in rows if row["dtype"] == dtype and row["mode"] in modes]
        return max(error for error in of if error is not None)

    assert worst("float32", (None, "fused_recurrent")) < 1.1e-4
    assert worst("float32", ("chunk",)) < 5e-3
    assert 0.03 < worst("bfloat16", (None, "chunk", "fused_recurrent")) < 0.04
    refused = {row["mixer"] for row in rows if "Triton" in (row["remark"] or "")}
    assert refused == {"gated_retnet", "gated_delta_net"}


@every_case
def test_the_weights_are_all_parameters_of_flas_layer(name: str, options: dict[str, Any]) -> None:
    mixer = drawn(name, options)
    weights = FLA_LAYERS[name].weights(mixer)
    assert {parameter: tuple(x.shape) for parameter, x in weights.items()} == shapes(recorded(mixer))


def copies_back(mixer: Mixer, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters that are copied, out of FLA's."""
    ours = dict(mixer.named_parameters())
    found: dict[str, Tensor] = {}
    for new, old in FLA_LAYERS[mixer.config.mixer].copies.items():
        stacked = torch.cat([theirs[parameter] for parameter in new.split()])
        rows = [len(fla_layers.to_conv1d_layout(parameter, ours[parameter])) for parameter in old.split()]
        for parameter, x in zip(old.split(), stacked.split(rows), strict=True):
            assert parameter not in found, f"{parameter} is copied twice"
            found[parameter] = x[:, 0].mT if parameter == "conv.weight" else x
    return found


def linear_back(mixer: Mixer, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"norm.norm.weight": theirs["norm.weight"]} if "norm.weight" in theirs else {}


def gated_retnet_back(mixer: Mixer, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """W_o and the gain are one matrix there; with the gain known, W_o comes back."""
    gain = dict(mixer.named_parameters())["norm.norm.weight"]
    halves = lambda w: w.unflatten(0, (2, 4, 2)).transpose(1, 2).flatten(0, 2)  # noqa: E731
    rows = [halves(theirs[f"{name}_proj.weight"]) for name in "qk"]
    rows += [theirs[f"{name}_proj.weight"] for name in "vg"]
    out = theirs["o_proj.weight"] / gain.repeat(2)
    return {"qkvg.weight": torch.cat(rows), "out.weight": out, "norm.norm.weight": gain}


def hgrn2_back(mixer: Mixer, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The bounds are no part of the layer there."""
    rows = [theirs["q_proj.weight"], theirs["f_proj.weight"], theirs["i_proj.weight"] * 8**-0.5]
    return {"qfv.weight": torch.cat(rows), "bounds.logits": dict(mixer.named_parameters())["bounds.logits"]}


def rwkv6_back(mixer: Mixer, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    first = lambda w: w.unflatten(0, (2, 2, 8))[:, 0].flatten(0, 1)  # noqa: E731
    back = {f"{name}.weight": first(theirs[f"{name}_proj.linear.weight"]) for name in "vg"}
    back["r.weight"] = theirs["r_proj.linear.weight"] * 8**0.5
    back["out.weight"] = first(theirs["o_proj.weight"].mT).mT
    return back | {
        "shift": 1 - theirs["x_bias"][[0, 2, 3, 4, 1]],
        "norm.norm.weight": theirs["g_norm.weight"][:8],
    }


BACK = {"linear": linear_back, "gated_retnet": gated_retnet_back, "hgrn2": hgrn2_back, "rwkv6": rwkv6_back}


@every_case
def test_there_and_back_is_the_identity(name: str, options: dict[str, Any]) -> None:
    """What is copied comes back from the table alone, the rest by the inverse of what was computed."""
    mixer = drawn(name, options)
    theirs = FLA_LAYERS[name].weights(mixer)
    back = copies_back(mixer, theirs)
    if name in BACK:
        back |= BACK[name](mixer, theirs)
    ours = dict(mixer.named_parameters())
    assert back.keys() == ours.keys()
    for parameter, x in ours.items():
        assert_close(parameter, back[parameter], x, 1e-15)


@every_case
def test_by_definition_flas_layer_is_our_mixer(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixer = drawn(name, options)
    monkeypatch.setattr(fla_layers, "import_layer_class", partial(stand_in, mixer))
    x = torch.randn(2, 70, 16, dtype=torch.float64)
    y = to_fla_layer(mixer)(x, **FLA_LAYERS[name].arguments(mixer))[0]
    # lengths and denominators have other epsilons there
    bound = 1e-4 if "delta" in name else 1e-5 if recorded(mixer) == "linear" else 1e-12
    assert_close("y", y, mixer(x)[0], bound)


REFUSED = [
    ("linear", {"feature_map": "taylor"}, "feature_map: got 'taylor', expected one of"),
    ("linear", {"normaliser": "norm", "positions": "rope"}, "positions: got 'rope'"),
    ("retnet", {"rope_base": 100.0}, "rope_base: got 100.0"),
    ("retnet", {"positions": "none"}, "positions: got 'none'"),
    ("gated_retnet", {"positions": "none"}, "positions: got 'none'"),
    ("softmax", {"positions": "sinusoidal"}, "positions: got 'sinusoidal'"),
    ("mamba", {"hold": "exact"}, "hold: got 'exact'"),
    ("delta_net", {"beta_max": 1.5}, "beta_max: got 1.5"),
    ("gated_delta_net", {"beta_max": 1.5}, "beta_max: got 1.5"),
    ("gated_delta_net", {"value_dim": 4}, "value_dim: got 4"),
    ("softmax", {"gated": True}, "gated: got True"),
    ("tnl", {}, "mixer: got tnl, expected FLA has its kernel"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_what_the_options_cannot_say_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_fla_layer(draw_mixer(name, options, SIZES))


def test_an_epsilon_that_the_layer_ignores_is_refused() -> None:
    mixer = MIXERS["hgrn2"](ModelConfig("hgrn2", d_model=16, norm_eps=1e-6), 1)
    with pytest.raises(ValueError, match="norm_eps: got 1e-06"):
        to_fla_layer(mixer)


def test_a_mode_that_the_layer_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="mode: got fused_chunk, expected one of chunk, fused_recurrent"):
        to_fla_layer(drawn("gla", {}), "fused_chunk")
