"""Our mixers as layers of flash-linear-attention (FLA): the options and weights with which they are equal.

``fla_layer(mixer)`` builds the layer with our weights; ``layer(x, **LAYERS[name].arguments(mixer))[0]`` is y.
``LAYERS[name].weights(mixer)`` is its whole ``state_dict``; gradients flow through it back to ours.
``NO_LAYER`` says why the other mixers have none.

* For 64 tokens or fewer FLA's layers take "fused_recurrent", whatever their ``mode`` is.
* ``frozen`` modes are taken only where no gradient is asked for; with gradients on, the layer takes "chunk".
* For a unit vector FLA divides by sqrt(|k|^2 + 1e-6), we by max(|k|, 1e-6): 5e-7 apart at length 1.

Source: flash-linear-attention 0.6.0. What its options cannot say is refused with a ``ValueError``.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers import Mixer, gla, mamba, mamba2, retnet, rwkv
from linattn_ref.ops.inputs import require
from linattn_ref.ops.shapes import Tensor

Options = dict[str, Any]
Parameters = Mapping[str, Tensor]


class Layer(NamedTuple):
    """FLA's layer of a mixer.

    ``copies``: names of its parameters, and of ours, both stacked in that order and shared out equally.
    ``computed``: those that are no copies. ``arguments``: what its ``forward`` needs besides x.
    """

    path: str  # in fla.layers
    options: Callable[[ModelConfig], Options]
    copies: Mapping[str, str]
    note: str
    computed: Callable[[Parameters, ModelConfig], Parameters] = lambda ours, config: {}
    arguments: Callable[[Any], Options] = lambda mixer: {}
    modes: tuple[str | None, ...] = ("chunk", "fused_recurrent")
    frozen: tuple[str, ...] = ()

    def weights(self, mixer: Mixer) -> dict[str, Tensor]:
        """All parameters of FLA's layer, as functions of ours."""
        ours: dict[str, Tensor] = dict(mixer.named_parameters())
        theirs: dict[str, Tensor] = {}
        for new, old in self.copies.items():
            stacked = torch.cat([as_rows(name, ours[name]) for name in old.split()])
            names = new.split()
            theirs |= zip(names, stacked.chunk(len(names)), strict=True)
        return {**theirs, **self.computed(ours, mixer.config)}


def as_rows(name: str, x: Tensor) -> Tensor:
    """A convolution's [width, channels] as Conv1d has it, [channels, 1, width]; all others as they are."""
    return x.mT[:, None] if name == "conv.weight" else x


def fla_layer(mixer: Mixer, mode: str | None = None) -> nn.Module:
    """FLA's layer with our weights, in the first of its modes unless told."""
    name = mixer.config.mixer
    require(name in LAYERS, "mixer", name, NO_LAYER.get(name, ""))
    layer = LAYERS[name]
    modes = (*layer.modes, *layer.frozen)
    mode = mode or modes[0]
    require(mode in modes, "mode", f"{mode}", f"one of {', '.join(map(str, modes))}")
    options = layer.options(mixer.config) | ({} if mode is None else {"mode": mode})
    theirs = their_class(layer.path)(**options, layer_idx=mixer.layer).to(next(mixer.parameters())).eval()
    theirs.load_state_dict(layer.weights(mixer), strict=True)
    return theirs


def their_class(path: str) -> type[nn.Module]:
    module, kind = path.split(".")
    return getattr(importlib.import_module(f"fla.layers.{module}"), kind)


def _sizes(c: ModelConfig, **besides: Any) -> Options:
    return {"hidden_size": c.d_model, "num_heads": c.n_heads, "norm_eps": c.norm_eps, **besides}


def _only(config: ModelConfig, **allowed: tuple[Any, ...]) -> ModelConfig:
    for name, values in allowed.items():
        require(getattr(config, name) in values, name, f"{getattr(config, name)!r}", f"one of {values}")
    return config


def _softmax(config: ModelConfig) -> Options:
    _only(config, positions=ROPE)
    return {"hidden_size": config.d_model, "num_heads": config.n_heads, "rope_theta": config.rope_base}


def _linear(config: ModelConfig) -> Options:
    _only(config, feature_map=tuple(MAPS), positions=("", "sinusoidal", "none"))
    divides = config.normaliser == "denominator"
    norm = {"do_feature_map_norm": divides, "output_norm": "identity" if divides else "rmsnorm"}
    return _sizes(config, feature_map=MAPS[config.feature_map]) | norm


def _mamba(config: ModelConfig) -> Options:
    sizes = {"hidden_size": config.d_model, "state_size": mamba.state_size(config), **PLAIN}
    return {**sizes, "intermediate_size": mamba.EXPAND * _only(config, hold=("euler",)).d_model}


def _delta_net(config: ModelConfig) -> Options:
    return _sizes(_only(config, beta_max=(1, 2)), expand_v=1.0, allow_neg_eigval=config.beta_max == 2)


def _gated_retnet(ours: Parameters, config: ModelConfig) -> Parameters:
    """FLA turns neighbours, we halves; its norm has no gain, so that ours goes into W_o."""
    rows, H = ours["qkvg.weight"].chunk(4), config.n_heads
    q, k = (w.unflatten(0, (H, 2, -1)).transpose(1, 2).flatten(0, 2) for w in rows[:2])
    out = ours["out.weight"] * ours["norm.norm.weight"].repeat(H)
    return {"q_proj.weight": q, "k_proj.weight": k, "o_proj.weight": out}


def _rwkv6(ours: Parameters, config: ModelConfig) -> Parameters:
    """Of o and -o the mean is 0, so that GroupNorm of both is the RMSNorm of o; the gate shuts -o out."""
    D, H, rank = config.d_model, config.n_heads, 5 * MIXTURE_RANK
    zeros = ours["shift"].new_zeros

    def beside(x: Tensor, factor: int) -> Tensor:
        own = x.unflatten(0, (H, -1))
        return torch.cat([own, factor * own], 1).flatten(0, 1)

    return {
        "x_bias": 1 - ours["shift"][[0, 4, 1, 2, 3]],  # r, w, k, v, g; from the token to the one before it
        "x_proj.0.mu": zeros(D),
        "x_proj.0.linear.weight": zeros(rank, D),
        "x_proj.2.weight": zeros(D, rank),
        "r_proj.linear.weight": ours["r.weight"] * config.head_dim**-0.5,
        "v_proj.linear.weight": beside(ours["v.weight"], -1),
        "g_proj.linear.weight": beside(ours["g.weight"], 0),
        "g_norm.weight": beside(ours["norm.norm.weight"].repeat(H), 0),
        "g_norm.bias": zeros(2 * D),
        "o_proj.weight": beside(ours["out.weight"].mT, 0).mT,
    }


def _weights(names: Mapping[str, str]) -> dict[str, str]:
    """``.weight`` behind every name."""
    line = lambda text: " ".join(f"{name}.weight" for name in text.split())  # noqa: E731
    return {line(new): line(old) for new, old in names.items()}


MIXTURE_RANK, ROPE, PLAIN = 32, ("", "rope"), {"use_conv_bias": False}
RANKS: Options = {"gate_low_rank_dim": rwkv.RANK, "proj_low_rank_dim": MIXTURE_RANK}
MAPS = {"elu_plus_one": "elu", "relu": "relu", "identity": "identity"}
ONLY_CHUNK: Options = {"modes": ("chunk",), "frozen": ("fused_recurrent",)}  # with gradients on
OUT, SSM = {"o_proj": "out"}, {"conv1d": "conv", "out_proj": "out"}
QKV, QKVG = {"q_proj k_proj v_proj": "qkv", **OUT}, {"q_proj k_proj v_proj g_proj": "qkvg"}
GATED = {"g_norm_swish_gate": "norm.norm", **OUT}
GLA = {"q_proj k_proj": "qk", "v_proj g_proj": "vr", "gk_proj.0": "decay.0", "gk_proj.1": "decay.1", **GATED}
DELTA = {**QKV, "q_conv1d k_conv1d v_conv1d": "conv", "b_proj": "beta", "o_norm": "norm.norm"}
RWKV6 = {"k_proj.linear": "k", "w_proj.linear.lora.0": "decay_down", "w_proj.linear.lora.2": "decay_up"}

LAYERS: dict[str, Layer] = {
    "softmax": Layer(
        "parallax.Parallax",
        _softmax,
        _weights(QKV),
        "with r = 0, and in half precision alone; Attention is the same without r, but needs flash-attn",
        lambda ours, c: {"r_proj.weight": torch.zeros_like(ours["out.weight"])},
        modes=(None,),
    ),
    "linear": Layer(
        "linear_attn.LinearAttention",
        _linear,
        _weights(QKV),
        "adds 1e-10 to a denominator with scale, ours 1e-6 to one without: seen where scores are small",
        lambda ours, c: {"norm.weight": ours["norm.norm.weight"]} if c.normaliser == "norm" else {},
        **ONLY_CHUNK,
    ),
    "retnet": Layer(
        "multiscale_retention.MultiScaleRetention",
        lambda c: _sizes(_only(c, positions=ROPE, rope_base=(10_000,)), expand_k=1.0, expand_v=1.0),
        _weights(QKVG | GATED),
        "values of width D have to be asked for; RMSNorm as ours, where the paper has GroupNorm",
        **ONLY_CHUNK,
    ),
    "gla": Layer(
        "gla.GatedLinearAttention",
        lambda c: _sizes(c, gate_logit_normalizer=gla.TEMPERATURE, gate_low_rank_dim=gla.RANK),
        _weights(GLA) | {"gk_proj.1.bias": "decay.1.bias"},
        "as it comes",
    ),
    "hgrn2": Layer(
        "hgrn2.HGRN2Attention",
        lambda c: _sizes(_only(c, norm_eps=(1e-5,)), expand_ratio=c.head_dim),
        _weights({"q_proj f_proj i_proj": "qfv", "g_norm": "norm", **OUT}),
        "its scale K^-1/2 is made good in W_v; forward takes the bounds; its option norm_eps has no effect",
        lambda ours, c: {"i_proj.weight": ours["qfv.weight"].chunk(3)[2] * c.head_dim**0.5},
        lambda mixer: {"lower_bound": mixer.bounds(mixer.layer)},
    ),
    "gated_retnet": Layer(
        "yoco.YOCOGatedRetention",
        lambda c: {**_sizes(c), **_softmax(c), "gate_logit_normalizer": retnet.TEMPERATURE},
        _weights({**QKVG, "gk_proj": "decay"}),
        "turns neighbours, and has no gain; simple_gla.SimpleGatedLinearAttention does not turn",
        _gated_retnet,
        **ONLY_CHUNK,
    ),
    "rwkv6": Layer(
        "rwkv6.RWKV6Attention",
        lambda c: _sizes(c, expand_k=1.0, expand_v=2.0, **RANKS),
        _weights(RWKV6) | {"w_proj.linear.lora.2.bias": "decay", "bonus": "bonus"},
        "mixtures that do not depend on the token; our scale in W_r; v and -v as values",
        _rwkv6,
    ),
    "mamba": Layer(
        "mamba.Mamba",
        _mamba,
        _weights({"in_proj": "uz", "x_proj": "step.0 BC", "dt_proj": "step.1", **SSM})
        | {"dt_proj.bias": "step_bias", "A_log": "log_A", "D": "D"},
        "convolution without bias; plain torch where mamba_ssm is not installed",
        modes=(None,),
    ),
    "mamba2": Layer(
        "mamba2.Mamba2",
        lambda c: (
            {**_sizes(c), **PLAIN}
            | {"head_dim": mamba2.EXPAND * c.head_dim, "state_size": mamba2.state_size(c)}
        ),
        _weights({"in_proj": "z xBC step", "norm": "norm", **SSM})
        | {"dt_bias": "step_bias", "A_log": "log_A", "D": "D"},
        "convolution without bias, heads of width 2 D / H; plain torch where mamba_ssm is not installed",
        modes=(None,),
    ),
    "delta_net": Layer("delta_net.DeltaNet", _delta_net, _weights(DELTA), "its chunk form refuses float32"),
    "gated_delta_net": Layer(
        "gated_deltanet.GatedDeltaNet",
        lambda c: _delta_net(c) | {"head_dim": c.head_dim},
        _weights({**DELTA, "a_proj": "step", "g_proj": "gate"}) | {"dt_bias": "step_bias", "A_log": "log_A"},
        "keys and values of width D / H have to be asked for; its recurrent form has no gradient",
        **ONLY_CHUNK,
    ),
}

NO_LAYER: dict[str, str] = {
    "cosformer": "FLA has no cosine of the distance",
    "cosformer2": "FLA has no cosine per channel",
    "tnl": "FLA has its kernel, lightning_attn; no layer has one norm over all heads and a sigmoid gate",
    "mlstm": "FLA has no exponential input gate with a running maximum",
    "rwkv4": "FLA has its kernel, fused_recurrent_rwkv4, and no layer",
    "s4d": (lti := "FLA has no state space model that ignores the data"),
    "h3": lti,
}
