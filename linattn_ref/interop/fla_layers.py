"""Build the layer of flash-linear-attention (FLA) that computes what a mixer of ours computes.

``to_fla_layer(mixer)`` builds the layer with our weights; ``FLA_LAYERS`` holds for every mixer the options
and weights with which the two are equal, and ``WITHOUT_FLA_LAYER`` says why another mixer has no layer.

* For 64 tokens or fewer FLA's layers run as "fused_recurrent", whatever their ``mode`` is.
* With gradients on, a layer runs as "chunk" instead of one of its ``forward_only_modes``.
* To normalise a vector FLA divides by sqrt(|k|^2 + 1e-6), we by max(|k|, 1e-6): 5e-7 apart at length 1.

Source: flash-linear-attention 0.6.0. What its options cannot express is refused with a ``ValueError``.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers import Mixer, gla, mamba, mamba2, retnet, rwkv
from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import require

Options = dict[str, Any]
Parameters = Mapping[str, Tensor]


class FLALayer(NamedTuple):
    """Describe the layer of FLA that computes what a mixer of ours computes.

    Attributes:
        path: the class is ``fla.layers.PATH``.
        options: our config -> keyword arguments of the class; raises for what it has no option for.
        copies: names of FLA's parameters -> names of ours, separated by blanks. Ours are stacked in that
            order along the rows and shared out equally.
        note: what a reader must know to use the layer.
        computed: our parameters and config -> the parameters of FLA that are no copies.
        arguments: our mixer -> what the layer's ``forward`` needs besides x.
        modes: values of the option ``mode``; None where the layer does not have it.
        forward_only_modes: modes that the layer takes only where no gradient is asked for.
    """

    path: str
    options: Callable[[ModelConfig], Options]
    copies: Mapping[str, str]
    note: str
    computed: Callable[[Parameters, ModelConfig], Parameters] = lambda ours, config: {}
    arguments: Callable[[Any], Options] = lambda mixer: {}
    modes: tuple[str | None, ...] = ("chunk", "fused_recurrent")
    forward_only_modes: tuple[str, ...] = ()

    def weights(self, mixer: Mixer) -> dict[str, Tensor]:
        """Return the whole ``state_dict`` of FLA's layer; gradients flow through it back to our weights."""
        ours: dict[str, Tensor] = dict(mixer.named_parameters())
        theirs: dict[str, Tensor] = {}
        for new, old in self.copies.items():
            stacked = torch.cat([to_conv1d_layout(name, ours[name]) for name in old.split()])
            names = new.split()
            theirs |= zip(names, stacked.chunk(len(names)), strict=True)
        return {**theirs, **self.computed(ours, mixer.config)}


def to_conv1d_layout(name: str, x: Tensor) -> Tensor:
    """Return a convolution's [width, channels] as Conv1d's [channels, 1, width]; other tensors unchanged."""
    return x.mT[:, None] if name == "conv.weight" else x


def to_fla_layer(mixer: Mixer, mode: str | None = None) -> nn.Module:
    """Build FLA's layer with the weights of our mixer.

    ``layer(x, **FLA_LAYERS[name].arguments(mixer))[0]`` is then the mixer's y, ``[B, T, D]``.

    Args:
        mixer: one of ours that has a layer in ``FLA_LAYERS``, on any device.
        mode: one of the layer's modes, for example ``"fused_recurrent"``. Default None, its first.

    Returns:
        The layer in evaluation mode, with the mixer's dtype and device. Its weights are copies.

    Raises:
        ValueError: FLA has no such layer or mode, or the layer has no option for what our config asks for.
        ModuleNotFoundError: flash-linear-attention, or the transformers that it needs, is not installed.

    Source:
        flash-linear-attention 0.6.0.

    Example:
        >>> from linattn_ref.mixers import MIXERS
        >>> mixer = MIXERS["gla"](ModelConfig("gla", d_model=64, n_heads=2, n_layers=1), 0)
        >>> layer = to_fla_layer(mixer)  # doctest: +SKIP
        >>> layer(x)[0]  # the same as mixer(x)[0]  # doctest: +SKIP
        >>> list(FLA_LAYERS["gla"].weights(mixer)["gk_proj.1.bias"].shape)
        [32]
    """
    name = mixer.config.mixer
    reason = WITHOUT_FLA_LAYER.get(name, f"one of {', '.join(FLA_LAYERS)}")
    require(name in FLA_LAYERS, "mixer", name, reason)
    layer = FLA_LAYERS[name]
    modes = (*layer.modes, *layer.forward_only_modes)
    mode = mode or modes[0]
    require(mode in modes, "mode", f"{mode}", f"one of {', '.join(map(str, modes))}")
    options = layer.options(mixer.config) | ({} if mode is None else {"mode": mode})
    cls = import_layer_class(layer.path)
    theirs = cls(**options, layer_idx=mixer.layer).to(next(mixer.parameters())).eval()
    theirs.load_state_dict(layer.weights(mixer), strict=True)
    return theirs


def import_layer_class(path: str) -> type[nn.Module]:
    """Import the class ``fla.layers.PATH``."""
    module, name = path.split(".")
    return getattr(importlib.import_module(f"fla.layers.{module}"), name)


def _make_options(c: ModelConfig, **others: Any) -> Options:
    """Return the options that nearly every layer has, and ``others``."""
    return {"hidden_size": c.d_model, "num_heads": c.n_heads, "norm_eps": c.norm_eps, **others}


def _require_options(config: ModelConfig, **allowed: tuple[Any, ...]) -> ModelConfig:
    """Return the config, or refuse a field whose value is not among the allowed ones."""
    for name, values in allowed.items():
        value = getattr(config.options, name, getattr(config, name, None))
        require(value in values, name, f"{value!r}", f"one of {values}")
    return config


def _convert_softmax(config: ModelConfig) -> Options:
    """Return the options of softmax attention."""
    _require_options(config, positions=ROPE)
    return {
        "hidden_size": config.d_model,
        "num_heads": config.n_heads,
        "rope_theta": config.options.rope_base,
    }


def _convert_linear(config: ModelConfig) -> Options:
    """Return the options of linear attention, with either normaliser."""
    _require_options(config, feature_map=tuple(MAPS), positions=("none",))
    divides = config.options.normaliser == "denominator"
    norm = {"do_feature_map_norm": divides, "output_norm": "identity" if divides else "rmsnorm"}
    return _make_options(config, feature_map=MAPS[config.options.feature_map]) | norm


def _convert_mamba(config: ModelConfig) -> Options:
    """Return the options of Mamba-1."""
    _require_options(config, hold=("euler",), conv_bias=(False,))
    sizes = {"hidden_size": config.d_model, "state_size": config.options.state_size, **PLAIN}
    return {**sizes, "intermediate_size": mamba.EXPAND * config.d_model}


def _convert_delta_net(config: ModelConfig) -> Options:
    """Return the options that DeltaNet and Gated DeltaNet share."""
    return _make_options(
        _require_options(config, beta_max=(1, 2)), expand_v=1.0, allow_neg_eigval=config.options.beta_max == 2
    )


def _list_usual_heads(config: ModelConfig) -> dict[str, tuple[Any, ...]]:
    """Return the options of Gated DeltaNet for which it has H heads of width D / H."""
    heads, width = (0, config.n_heads), (0, config.head_dim)
    return dict(n_value_heads=heads, n_key_heads=heads, key_dim=width, value_dim=width)


def _convert_gated_retnet(ours: Parameters, config: ModelConfig) -> Parameters:
    """Return the parameters of gated retention that are no copies.

    FLA rotates neighbouring channels where we rotate halves, so the rows of W_q and W_k are reordered; its
    norm has no gain, so ours goes into W_o.
    """
    rows, H = ours["qkvg.weight"].chunk(4), config.n_heads
    q, k = (w.unflatten(0, (H, 2, -1)).transpose(1, 2).flatten(0, 2) for w in rows[:2])
    out = ours["out.weight"] * ours["norm.norm.weight"].repeat(H)
    return {"q_proj.weight": q, "k_proj.weight": k, "o_proj.weight": out}


def _convert_rwkv6(ours: Parameters, config: ModelConfig) -> Parameters:
    """Return the parameters of RWKV-6 that are no copies.

    FLA has GroupNorm where we have RMSNorm. The mean of o and -o is 0, so the GroupNorm of both side by side
    is the RMSNorm of o; the gate is 0 on the half with -o.
    """
    D, H, rank = config.d_model, config.n_heads, 5 * MIXTURE_RANK
    zeros = ours["shift"].new_zeros

    def beside(x: Tensor, factor: int) -> Tensor:
        """Put factor x beside x in every head."""
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


def _append_weight(names: Mapping[str, str]) -> dict[str, str]:
    """Append ``.weight`` to every name."""
    line = lambda text: " ".join(f"{name}.weight" for name in text.split())  # noqa: E731
    return {line(new): line(old) for new, old in names.items()}


MIXTURE_RANK, ROPE, PLAIN = 32, ("rope",), {"use_conv_bias": False}
RANKS: Options = {"gate_low_rank_dim": rwkv.RANK, "proj_low_rank_dim": MIXTURE_RANK}
MAPS = {"elu_plus_one": "elu", "relu": "relu", "identity": "identity"}
ONLY_CHUNK: Options = {"modes": ("chunk",), "forward_only_modes": ("fused_recurrent",)}
OUT, SSM = {"o_proj": "out"}, {"conv1d": "conv", "out_proj": "out"}
QKV, QKVG = {"q_proj k_proj v_proj": "qkv", **OUT}, {"q_proj k_proj v_proj g_proj": "qkvg"}
GATED = {"g_norm_swish_gate": "norm.norm", **OUT}
GLA = {"q_proj k_proj": "qk", "v_proj g_proj": "vr", "gk_proj.0": "decay.0", "gk_proj.1": "decay.1", **GATED}
DELTA = {**QKV, "q_conv1d k_conv1d v_conv1d": "conv", "b_proj": "beta", "o_norm": "norm.norm"}
RWKV6 = {"k_proj.linear": "k", "w_proj.linear.lora.0": "decay_down", "w_proj.linear.lora.2": "decay_up"}

FLA_LAYERS: dict[str, FLALayer] = {
    "softmax": FLALayer(
        "parallax.Parallax",
        lambda c: _convert_softmax(
            _require_options(
                c,
                rope_scaling=(None,),
                n_kv_heads=(0, c.n_heads),
                head_dim=(0, c.head_dim),
                rope_width=(0, c.head_dim),
                head_norm=(False,),
                gated=(False,),
            )
        ),
        _append_weight(QKV),
        "with r = 0, and in half precision alone; Attention is the same without r, but needs flash-attn",
        lambda ours, c: {"r_proj.weight": torch.zeros_like(ours["out.weight"])},
        modes=(None,),
    ),
    "linear": FLALayer(
        "linear_attn.LinearAttention",
        _convert_linear,
        _append_weight(QKV),
        "adds 1e-10 to a denominator with scale, ours 1e-6 to one without: seen where scores are small",
        lambda ours, c: {"norm.weight": ours["norm.norm.weight"]} if c.options.normaliser == "norm" else {},
        **ONLY_CHUNK,
    ),
    "retnet": FLALayer(
        "multiscale_retention.MultiScaleRetention",
        lambda c: _make_options(
            _require_options(c, positions=ROPE, rope_base=(10_000,)), expand_k=1.0, expand_v=1.0
        ),
        _append_weight(QKVG | GATED),
        "values of width D have to be asked for; RMSNorm as ours, where the paper has GroupNorm",
        **ONLY_CHUNK,
    ),
    "gla": FLALayer(
        "gla.GatedLinearAttention",
        lambda c: _make_options(c, gate_logit_normalizer=gla.TEMPERATURE, gate_low_rank_dim=gla.RANK),
        _append_weight(GLA) | {"gk_proj.1.bias": "decay.1.bias"},
        "as it comes",
    ),
    "hgrn2": FLALayer(
        "hgrn2.HGRN2Attention",
        lambda c: _make_options(_require_options(c, norm_eps=(1e-5,)), expand_ratio=c.head_dim),
        _append_weight({"q_proj f_proj i_proj": "qfv", "g_norm": "norm", **OUT}),
        "its scale K^-1/2 is made good in W_v; forward takes the bounds; its option norm_eps has no effect",
        lambda ours, c: {"i_proj.weight": ours["qfv.weight"].chunk(3)[2] * c.head_dim**0.5},
        lambda mixer: {"lower_bound": mixer.bounds(mixer.layer)},
    ),
    "gated_retnet": FLALayer(
        "yoco.YOCOGatedRetention",
        lambda c: {**_make_options(c), **_convert_softmax(c), "gate_logit_normalizer": retnet.TEMPERATURE},
        _append_weight({**QKVG, "gk_proj": "decay"}),
        "turns neighbours, and has no gain; simple_gla.SimpleGatedLinearAttention does not turn",
        _convert_gated_retnet,
        **ONLY_CHUNK,
    ),
    "rwkv6": FLALayer(
        "rwkv6.RWKV6Attention",
        lambda c: _make_options(c, expand_k=1.0, expand_v=2.0, **RANKS),
        _append_weight(RWKV6) | {"w_proj.linear.lora.2.bias": "decay", "bonus": "bonus"},
        "mixtures that do not depend on the token; our scale in W_r; v and -v as values",
        _convert_rwkv6,
    ),
    "mamba": FLALayer(
        "mamba.Mamba",
        _convert_mamba,
        _append_weight({"in_proj": "uz", "x_proj": "step.0 BC", "dt_proj": "step.1", **SSM})
        | {"dt_proj.bias": "step_bias", "A_log": "log_A", "D": "D"},
        "convolution without bias; plain torch where mamba_ssm is not installed",
        modes=(None,),
    ),
    "mamba2": FLALayer(
        "mamba2.Mamba2",
        lambda c: (
            {**_make_options(_require_options(c, conv_bias=(False,), n_groups=(1,))), **PLAIN}
            | {"head_dim": mamba2.EXPAND * c.head_dim, "state_size": c.options.state_size}
        ),
        _append_weight({"in_proj": "z xBC step", "norm": "norm", **SSM})
        | {"dt_bias": "step_bias", "A_log": "log_A", "D": "D"},
        "convolution without bias, heads of width 2 D / H; plain torch where mamba_ssm is not installed",
        modes=(None,),
    ),
    "delta_net": FLALayer(
        "delta_net.DeltaNet", _convert_delta_net, _append_weight(DELTA), "its chunk form refuses float32"
    ),
    "gated_delta_net": FLALayer(
        "gated_deltanet.GatedDeltaNet",
        lambda c: _convert_delta_net(_require_options(c, **_list_usual_heads(c))) | {"head_dim": c.head_dim},
        _append_weight({**DELTA, "a_proj": "step", "g_proj": "gate"})
        | {"dt_bias": "step_bias", "A_log": "log_A"},
        "keys and values of width D / H have to be asked for; its recurrent form has no gradient",
        **ONLY_CHUNK,
    ),
}

WITHOUT_FLA_LAYER: dict[str, str] = {
    "cosformer": "FLA has no cosine of the distance",
    "cosformer2": "FLA has no cosine per channel",
    "tnl": "FLA has its kernel, lightning_attn; no layer has one norm over all heads and a sigmoid gate",
    "mlstm": "FLA has no exponential input gate with a running maximum",
    "rwkv4": "FLA has its kernel, fused_recurrent_rwkv4, and no layer",
    "s4d": (lti := "FLA has no state space model that ignores the data"),
    "h3": lti,
}
