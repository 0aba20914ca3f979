"""Say for each architecture of ``transformers`` how its configuration and its names read here.

``ARCHITECTURES`` lists them by ``model_type``: a function of the configuration, a table of names, the values
of fields for which ours computes the same, and what has to be done to tensors before they are renamed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.functional import layer_norm

from linattn_ref.config import ModelConfig
from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import require

Tensors = Mapping[str, Callable[[], Tensor]]  # name -> a function that reads the tensor


class Architecture(NamedTuple):
    """Describe how an architecture of ``transformers`` reads here.

    Attributes:
        configure: their configuration -> ours; raises for what ours cannot express.
        names: their names -> ours, both separated by blanks. Theirs are stacked along the rows in that order,
            and shared out to ours by their numbers of rows. "*" is the number of a layer, and ".weight" may
            be left out.
        only: fields of their configuration -> the values for which our model computes the same.
        prepare: their tensors, their configuration and the live model, or None -> their tensors, with what
            has no place here worked into others, and rows in our order.
    """

    configure: Callable[[Any], ModelConfig]
    names: Mapping[str, str]
    only: Mapping[str, tuple[Any, ...]]
    prepare: Callable[[Tensors, Any, Any], Tensors] = lambda theirs, config, live: theirs


def require_field(config: Any, field: str, *values: Any) -> None:
    """Raise unless a field of their configuration has one of ``values``."""
    value = getattr(config, field, None)
    value = tuple(value) if isinstance(value, list) else value
    expected = " or ".join(map(repr, values))
    require(value in values, f"config.{field}", repr(value), f"{expected}, all that our model has")


def _read_fields(theirs: Any, **names: str) -> dict[str, Any]:
    """Return fields of their configuration by our names."""
    return {ours: getattr(theirs, name) for ours, name in names.items()}


def _configure_mamba(theirs: Any) -> ModelConfig:
    """Return the configuration of a Mamba: blocks without an MLP."""
    require_field(theirs, "time_step_rank", math.ceil(theirs.hidden_size / 16))
    options = _read_fields(theirs, state_size="state_size", conv_bias="use_conv_bias")
    sizes = _read_fields(theirs, norm_eps="layer_norm_epsilon", **SIZES)
    return ModelConfig("mamba", n_heads=1, mlp="none", options=options, **sizes)


def _configure_mamba2(theirs: Any) -> ModelConfig:
    """Return the configuration of a Mamba-2: blocks without an MLP."""
    options = _read_fields(theirs, state_size="state_size", conv_bias="use_conv_bias", n_groups="n_groups")
    sizes = _read_fields(theirs, norm_eps="layer_norm_epsilon", n_heads="num_heads", **SIZES)
    return ModelConfig("mamba2", mlp="none", options=options, **sizes)


def _configure_llama(theirs: Any) -> ModelConfig:
    """Return the configuration of a LLaMA."""
    sizes = _read_fields(theirs, d_ff="intermediate_size", **SOFTMAX_SIZES)
    return ModelConfig(options=_read_softmax_options(theirs), **sizes)


def _read_softmax_options(theirs: Any, partial_width: bool = False) -> dict[str, Any]:
    """Return the options of their softmax attention: heads and rotation, of a part of a head if allowed."""
    rope = dict(theirs.rope_parameters)
    options = _read_fields(theirs, n_kv_heads="num_key_value_heads")
    options["head_dim"] = theirs.head_dim or 0
    options["rope_base"] = rope.pop("rope_theta")
    if partial_width:
        options["rope_width"] = int(theirs.head_dim * rope.pop("partial_rotary_factor", 1.0))
    if (kind := rope.pop("rope_type", "default")) == "llama3" and rope.keys() == set(LLAMA3):
        options["rope_scaling"] = tuple(rope.pop(name) for name in LLAMA3)
    expected = f"a rope_type 'default' alone, or 'llama3' with {', '.join(LLAMA3)}"
    fits = not rope and kind in ("default", "llama3")
    require(fits, "config.rope_parameters", f"{theirs.rope_parameters}", expected)
    return options


def _read_softmax_every(theirs: Any) -> int:
    """Return n where layers number n, 2 n, ... are those with softmax attention; 0 for none."""
    kinds = tuple(theirs.layer_types)
    n = kinds.index("full_attention") + 1 if "full_attention" in kinds else 0
    is_softmax = [n > 0 and (layer + 1) % n == 0 for layer in range(len(kinds))]
    wanted = tuple("full_attention" if softmax else "linear_attention" for softmax in is_softmax)
    require(kinds == wanted, "config.layer_types", f"{kinds}", "full attention in every n-th layer alone")
    return n


def _configure_minimax(theirs: Any) -> ModelConfig:
    """Return the configuration of a MiniMax: lightning attention, a hybrid, with experts."""
    factors = (theirs.linear_attn_alpha_factor, theirs.full_attn_alpha_factor, theirs.mlp_alpha_factor)
    require(len(set(factors)) == 1, "config.*_alpha_factor", f"{factors}", "one number for all three")
    experts = _read_fields(theirs, n_experts="num_local_experts", experts_per_token="num_experts_per_tok")
    sizes = _read_fields(theirs, d_ff="intermediate_size", **SOFTMAX_SIZES) | experts
    return ModelConfig(
        "tnl",
        options={"form": "minimax", "decay": "minimax", "head_dim": theirs.head_dim or 0},
        softmax_every=_read_softmax_every(theirs),
        softmax_options=_read_softmax_options(theirs),
        residual=float(factors[0]),
        **sizes,
    )


def _configure_qwen3_next(theirs: Any) -> ModelConfig:
    """Return the configuration of a Qwen3-Next: Gated DeltaNet and gated attention, with experts."""
    options = _read_fields(theirs, n_value_heads="linear_num_value_heads", n_key_heads="linear_num_key_heads")
    options |= _read_fields(theirs, key_dim="linear_key_head_dim", value_dim="linear_value_head_dim")
    experts = _read_fields(theirs, n_experts="num_experts", experts_per_token="num_experts_per_tok")
    experts |= _read_fields(theirs, shared_ff="shared_expert_intermediate_size")
    softmax_options = _read_softmax_options(theirs, partial_width=True) | {"head_norm": True, "gated": True}
    sizes = _read_fields(theirs, d_ff="moe_intermediate_size", **SOFTMAX_SIZES) | experts
    return ModelConfig(
        "gated_delta_net",
        options=options | {"key_eps": 1e-6},
        softmax_every=_read_softmax_every(theirs),
        softmax_options=softmax_options,
        **sizes,
    )


def _configure_rwkv(theirs: Any) -> ModelConfig:
    """Return the configuration of an RWKV-4, with its own norm and channel mixing."""
    require_field(theirs, "attention_hidden_size", theirs.hidden_size)
    sizes = _read_fields(theirs, norm_eps="layer_norm_epsilon", d_ff="intermediate_size", **SIZES)
    return ModelConfig("rwkv4", n_heads=1, mlp="channel_mix", norm="layer", **sizes)


def _configure_xlstm(theirs: Any) -> ModelConfig:
    """Return the configuration of an xLSTM, all blocks of which are mLSTM."""
    names = {"key_factor": "qk_dim_factor", "gate_cap": "gate_soft_cap", "denominator_eps": "eps"}
    options = _read_fields(theirs, **names) | {"head_norm": "layer"}
    sizes = _read_fields(theirs, norm_eps="norm_eps", n_heads="num_heads", **SIZES)
    unit, width = theirs.ffn_round_up_to_multiple_of, theirs.hidden_size * theirs.ffn_proj_factor
    sizes |= {"d_ff": int((width + unit - 1) // unit * unit), "logit_cap": theirs.output_logit_soft_cap}
    return ModelConfig("mlstm", options=options, **sizes)


def _prepare_rwkv(theirs: Tensors, config: Any, live: Any) -> Tensors:
    """Work the norm of the embeddings into them, and undo what was divided by powers of 2.

    In evaluation their code halves x after every few layers and divides the matrices that write into it, so
    that half precision does not overflow. But for the epsilon of the norms this changes no logits.
    """
    lacking = [name for name in (RWKV_EMBEDDING, *RWKV_NORM) if name not in theirs]
    require(not lacking, "tensors", f"no {lacking}", "the embedding and its norm")
    table, gain, bias = (theirs[name]() for name in (RWKV_EMBEDDING, *RWKV_NORM))
    new = {name: x for name, x in theirs.items() if name not in RWKV_NORM}
    new[RWKV_EMBEDDING] = partial(layer_norm, table, [len(gain)], gain, bias, 1e-5)
    every = live.config.rescale_every if live and live.rwkv.layers_are_rescaled else 0
    for name in [name for name in theirs if name.endswith(RWKV_WRITES)] if every > 0 else []:
        new[name] = partial(torch.mul, theirs[name](), 2 ** (int(name.split(".")[2]) // every))
    return new


def _prepare_minimax(theirs: Tensors, config: Any, live: Any) -> Tensors:
    """Stack the experts; put q of all heads before k of all heads before v."""
    new = _stack_experts({name.replace("block_sparse_moe", "mlp"): x for name, x in theirs.items()}, MIXTRAL)
    for name in [name for name in new if name.endswith("qkv_proj.weight")]:
        new[name] = partial(_sort_rows, new[name], config.num_attention_heads, [1, 1, 1])
    return new


def _prepare_qwen3_next(theirs: Tensors, config: Any, live: Any) -> Tensors:
    """Stack the experts, sort rows that stand by heads of keys, and add the 1 that their gains leave out."""
    new = _stack_experts(theirs, LLAMA_MLP)
    n_keys, shared = config.linear_num_key_heads, config.linear_num_value_heads // config.linear_num_key_heads
    values = shared * config.linear_value_head_dim
    parts = [config.linear_key_head_dim, config.linear_key_head_dim, values, values]
    for name in theirs:
        if name.endswith("in_proj_qkvz.weight"):
            new[name] = partial(_sort_rows, theirs[name], n_keys, parts)
        elif name.endswith("in_proj_ba.weight"):
            new[name] = partial(_sort_rows, theirs[name], n_keys, [1, 1])
        elif name.endswith("q_proj.weight"):  # of every head q, then its gate
            for part, target in enumerate((name, name.replace("q_proj", "gate_proj"))):
                new[target] = partial(_sort_rows, theirs[name], config.num_attention_heads, [1, 1], part)
        elif name.endswith("norm.weight") and "linear_attn" not in name:
            new[name] = partial(torch.add, theirs[name](), 1)
    return new


def _sort_rows(
    read: Callable[[], Tensor], groups: int, parts: Sequence[int], only: int | None = None
) -> Tensor:
    """Return rows that stand group by group, each with ``parts`` in these proportions, part by part.

    Args:
        read: gives the rows.
        groups: how many there are.
        parts: the widths of the parts of a group, up to a common factor.
        only: the number of the one part that is returned; default None, all of them.
    """
    rows = read().unflatten(0, (groups, -1))
    unit = rows.shape[1] // sum(parts)
    sorted_parts = [part.flatten(0, 1) for part in rows.split([unit * part for part in parts], 1)]
    return torch.cat(sorted_parts) if only is None else sorted_parts[only]


def _stack_experts(theirs: Tensors, names: Sequence[str]) -> dict[str, Callable[[], Tensor]]:
    """Stack the matrices of a layer's experts, which stand one by one in a folder, as a live model has them.

    Args:
        theirs: their tensors.
        names: what a folder calls the gate, the one beside it and the one after it.
    """
    new = {name: x for name, x in theirs.items() if ".experts.0." not in name}
    for first in [name for name in theirs if name.endswith(f".experts.0.{names[0]}.weight")]:
        path = first.removesuffix(f"0.{names[0]}.weight")
        E = sum(name.startswith(path) and name.endswith(f".{names[0]}.weight") for name in theirs)
        gates, ups, downs = ([theirs[f"{path}{e}.{name}.weight"] for e in range(E)] for name in names)
        new[f"{path}gate_up_proj"] = partial(_stack, gates, ups)
        new[f"{path}down_proj"] = partial(_stack, downs)
        new = {name: x for name, x in new.items() if not re.match(rf"{re.escape(path)}\d", name)}
    return new


def _stack(*columns: Sequence[Callable[[], Tensor]]) -> Tensor:
    """Return [E, rows, columns]: for every expert its matrices on top of each other."""
    return torch.stack([torch.cat([read() for read in one]) for one in zip(*columns, strict=True)])


def _name_layers(theirs: str, ours: str, names: Mapping[str, str]) -> dict[str, str]:
    """Put the path of a layer before all names of a table."""
    place = lambda path, line: " ".join(f"{path}{name}" for name in line.split())  # noqa: E731
    return {place(theirs, old): place(ours, new) for old, new in names.items()}


SIZES = {"d_model": "hidden_size", "n_layers": "num_hidden_layers", "vocab_size": "vocab_size"}
SIZES |= {"tie_embeddings": "tie_word_embeddings"}
MAMBA_ONLY = {"expand": (2,), "conv_kernel": (4,), "use_bias": (False,), "hidden_act": ("silu", "swish")}
MAMBA_OUTSIDE = {"backbone.embeddings": "embedding", "backbone.norm_f": "norm", "lm_head": "head"}
MAMBA_OUTSIDE |= {"backbone.layers.*.norm": "blocks.*.mixer_norm"}
SSM = {"conv1d.weight": "conv.weight", "conv1d.bias": "conv.bias", "A_log": "log_A", "D": "D"}
SSM |= {"out_proj": "out"}
MAMBA = {"in_proj": "uz", "x_proj": "step.0 BC", "dt_proj.weight": "step.1", "dt_proj.bias": "step_bias"}
MAMBA2 = {"in_proj": "z xBC step", "dt_bias": "step_bias", "norm": "norm"}

# in some files, but no weights: speeds of rotation, powers of fixed decays
COMPUTED = ("rotary_emb.inv_freq", ".slope_rate", ".query_decay", ".key_decay", ".diagonal_decay")
UNUSED = "mtp."  # in some files, and read by nobody: layers that predict the token after the next
SOFTMAX_SIZES = SIZES | {"n_heads": "num_attention_heads", "norm_eps": "rms_norm_eps"}
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
LLAMA_ONLY = {"hidden_act": ("silu", "swish"), "attention_bias": (False,), "mlp_bias": (False,)}
LLAMA = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "head"}
LLAMA_LAYER = {"input_layernorm": "mixer_norm", "post_attention_layernorm": "mlp_norm"}
SOFTMAX = {"self_attn.q_proj self_attn.k_proj self_attn.v_proj": "mixer.qkv", "self_attn.o_proj": "mixer.out"}
LLAMA_MLP = ("gate_proj", "up_proj", "down_proj")  # names of the gate, the one beside it, the one after it
LLAMA_GATED = {"mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up", "mlp.down_proj": "mlp.out"}
MIXTRAL = ("w1", "w3", "w2")  # the same, as folders have them
EXPERTS = {"mlp.gate": "mlp.router", "mlp.experts.gate_up_proj": "mlp.into"}
EXPERTS |= {"mlp.experts.down_proj": "mlp.out"}
LIGHTNING = {"self_attn.qkv_proj": "mixer.qkv", "self_attn.output_gate": "mixer.gate"}
LIGHTNING |= {"self_attn.norm": "mixer.norm", "self_attn.out_proj": "mixer.out"}
MINIMAX_ONLY: dict[str, tuple[Any, ...]] = {"hidden_act": ("silu", "swish"), "attention_dropout": (0,)}
MINIMAX_ONLY |= {"sliding_window": (None,), "linear_attn_beta_factor": (1,), "full_attn_beta_factor": (1,)}
MINIMAX_ONLY |= {"mlp_beta_factor": (1,)}
GATED_SOFTMAX = {"self_attn.gate_proj": "mixer.gate", "self_attn.q_norm": "mixer.q_norm.norm"}
GATED_SOFTMAX |= {"self_attn.k_norm": "mixer.k_norm.norm"}
GATED_DELTA = {"in_proj_qkvz": "qkv gate", "in_proj_ba": "beta step", "dt_bias": "step_bias"}
GATED_DELTA |= {"A_log": "log_A", "conv1d.weight": "conv.weight", "norm": "norm.norm", "out_proj": "out"}
SHARED = {"shared_expert_gate": "shared_gate", "shared_expert.gate_proj": "shared.gate"}
SHARED |= {"shared_expert.up_proj": "shared.up", "shared_expert.down_proj": "shared.out"}
QWEN3_NEXT_ONLY: dict[str, tuple[Any, ...]] = {"hidden_act": ("silu", "swish"), "attention_dropout": (0,)}
QWEN3_NEXT_ONLY |= {"linear_conv_kernel_dim": (4,), "decoder_sparse_step": (1,), "mlp_only_layers": ((),)}
QWEN3_NEXT_ONLY |= {"attention_bias": (False,), "norm_topk_prob": (True,)}
RWKV_EMBEDDING = "rwkv.embeddings.weight"
RWKV_NORM = ("rwkv.blocks.0.pre_ln.weight", "rwkv.blocks.0.pre_ln.bias")
RWKV_WRITES = ("attention.output.weight", "feed_forward.value.weight")
RWKV_ONLY = {"layer_norm_epsilon": (1e-5,), "tie_word_embeddings": (False,)}
RWKV = {"rwkv.embeddings": "embedding", "head": "head"}
RWKV |= {"rwkv.ln_out.weight": "norm", "rwkv.ln_out.bias": "norm.bias"}
RWKV_LAYER = {"ln1.weight": "mixer_norm", "ln1.bias": "mixer_norm.bias"}
RWKV_LAYER |= {"ln2.weight": "mlp_norm", "ln2.bias": "mlp_norm.bias"}
RWKV_TIME = {"time_mix_receptance time_mix_key time_mix_value": "shift", "time_decay": "log_w"}
RWKV_TIME |= {"time_first": "u", "receptance": "r", "key": "k", "value": "v", "output": "out"}
RWKV_CHANNEL = {"time_mix_key time_mix_receptance": "shift", "key": "k", "receptance": "r", "value": "out"}

XLSTM = {"backbone.embeddings": "embedding", "backbone.out_norm": "norm", "lm_head": "head"}
XLSTM_LAYER = {"norm_mlstm": "mixer_norm", "norm_ffn": "mlp_norm"}
XLSTM_LAYER |= {"ffn.proj_up_gate": "mlp.gate", "ffn.proj_up": "mlp.up", "ffn.proj_down": "mlp.out"}
XLSTM_MIXER = {"q k v ogate_preact": "qkvg", "fgate_preact.weight igate_preact.weight": "gates.weight"}
XLSTM_MIXER |= {"fgate_preact.bias igate_preact.bias": "gates.bias"}
XLSTM_MIXER |= {"multihead_norm": "norm", "out_proj": "out"}

# What else transformers has of our mixers, and what keeps a whole model of it from being one of ours.
LACKING = {
    "kimi_linear": "attention to latent keys",
}

ARCHITECTURES: dict[str, Architecture] = {
    "mamba": Architecture(
        _configure_mamba,
        MAMBA_OUTSIDE | _name_layers("backbone.layers.*.mixer.", "blocks.*.mixer.", MAMBA | SSM),
        MAMBA_ONLY,
    ),
    "mamba2": Architecture(
        _configure_mamba2,
        MAMBA_OUTSIDE | _name_layers("backbone.layers.*.mixer.", "blocks.*.mixer.", MAMBA2 | SSM),
        MAMBA_ONLY | {"time_step_limit": ((0.0, math.inf),)},
    ),
    "llama": Architecture(
        _configure_llama,
        LLAMA | _name_layers("model.layers.*.", "blocks.*.", LLAMA_LAYER | SOFTMAX | LLAMA_GATED),
        LLAMA_ONLY | {"attention_dropout": (0,)},
    ),
    "minimax": Architecture(
        _configure_minimax,
        LLAMA | _name_layers("model.layers.*.", "blocks.*.", LLAMA_LAYER | SOFTMAX | LIGHTNING | EXPERTS),
        MINIMAX_ONLY,
        _prepare_minimax,
    ),
    "qwen3_next": Architecture(
        _configure_qwen3_next,
        LLAMA
        | _name_layers("model.layers.*.", "blocks.*.", LLAMA_LAYER | SOFTMAX | GATED_SOFTMAX | EXPERTS)
        | _name_layers("model.layers.*.linear_attn.", "blocks.*.mixer.", GATED_DELTA)
        | _name_layers("model.layers.*.mlp.", "blocks.*.mlp.", SHARED),
        QWEN3_NEXT_ONLY,
        _prepare_qwen3_next,
    ),
    "rwkv": Architecture(
        _configure_rwkv,
        RWKV
        | _name_layers("rwkv.blocks.*.", "blocks.*.", RWKV_LAYER)
        | _name_layers("rwkv.blocks.*.attention.", "blocks.*.mixer.", RWKV_TIME)
        | _name_layers("rwkv.blocks.*.feed_forward.", "blocks.*.mlp.", RWKV_CHANNEL),
        RWKV_ONLY,
        _prepare_rwkv,
    ),
    "xlstm": Architecture(
        _configure_xlstm,
        XLSTM
        | _name_layers("backbone.blocks.*.", "blocks.*.", XLSTM_LAYER)
        | _name_layers("backbone.blocks.*.mlstm_layer.", "blocks.*.mixer.", XLSTM_MIXER),
        {"use_bias": (False,), "v_dim_factor": (1.0,), "weight_mode": ("single",)},
    ),
}
