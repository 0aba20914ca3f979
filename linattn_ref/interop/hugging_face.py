"""Load the weights of released models, as ``transformers`` stores them, into our ``LanguageModel``.

``from_transformers`` takes a live model or a folder; ``ARCHITECTURES`` holds for each architecture how its
configuration and its names read here. Only names, layouts and places of a factor change, never what is
computed: a field or a tensor that we have no place for is refused.

Sources: the classes ``...ForCausalLM`` of transformers 5, which the tests build with random weights and
compare.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.nn.functional import layer_norm

from linattn_ref.config import ModelConfig
from linattn_ref.model import LanguageModel
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
        prepare: their tensors and the live model, or None -> their tensors, with what has no place here
            worked into others.
    """

    configure: Callable[[Any], ModelConfig]
    names: Mapping[str, str]
    only: Mapping[str, tuple[Any, ...]]
    prepare: Callable[[Tensors, Any], Tensors] = lambda theirs, live: theirs


def from_transformers(model_or_folder: Any, *, dtype: torch.dtype | None = None) -> LanguageModel:
    """Load a model of ``transformers`` with its weights: Mamba, Mamba-2, LLaMA, RWKV-4, xLSTM.

    ``model(tokens)[0]`` are then the logits of the given model, up to rounding. (RWKV-4 in evaluation halves
    x after every ``rescale_every`` layers, so that the epsilon of its norms weighs more there; ours are the
    logits without that, as in its training.) All rows of its embedding are kept, also those that fill up the
    vocabulary and that no tokenizer gives. Tokens come from the tokenizer of the model, by its name and
    online::

        from transformers import AutoModelForCausalLM, AutoTokenizer

        name = "state-spaces/mamba-130m-hf"
        model = from_transformers(AutoModelForCausalLM.from_pretrained(name))
        tokenizer = AutoTokenizer.from_pretrained(name)
        tokens = tokenizer("A state is", return_tensors="pt")["input_ids"]
        print(tokenizer.decode(generate(model, tokens, 20, generator=torch.Generator())[0]))

    Args:
        model_or_folder: a ``...ForCausalLM`` of transformers, or the path of a folder with ``config.json``
            and the weights as ``model.safetensors``, whole or in parts with an index.
        dtype: of the loaded weights, which are copies. Default None: float32 at least, so that residuals are
            in float32 as ``residual_in_fp32`` asks for.

    Returns:
        The model, on the device of the weights.

    Raises:
        ValueError: for an architecture that we do not have, a field of its configuration that ours cannot
            express, a tensor that has no place here or is missing, a folder without weights.
        ImportError: transformers, or for a folder safetensors, is not installed.

    Source:
        none: names and layouts. What is computed stands in the mixers.

    Example:
        >>> from transformers import MambaConfig, MambaForCausalLM
        >>> theirs = MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2))
        >>> model, tokens = from_transformers(theirs), torch.tensor([[1, 2, 3]])
        >>> model.config.mixer, torch.allclose(model(tokens)[0], theirs(tokens).logits, atol=1e-5)
        ('mamba', True)
    """
    config, theirs, live = _read(model_or_folder)
    kind, known = getattr(config, "model_type", "None"), f"one of {sorted(ARCHITECTURES)}"
    reason = f"{known}; our model has no {LACKING[kind]}" if kind in LACKING else known
    require(kind in ARCHITECTURES, "model_type", repr(kind), reason)
    architecture = ARCHITECTURES[kind]
    for field, values in architecture.only.items():
        _require_field(config, field, *values)
    with torch.device("meta"):
        model = LanguageModel(architecture.configure(config))
    weights = _translate(architecture.names, architecture.prepare(theirs, live), model)
    dtype = dtype or torch.promote_types(weights["embedding.weight"].dtype, torch.float32)
    model.load_state_dict({name: x.to(dtype, copy=True) for name, x in weights.items()}, assign=True)
    if model.config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model


def _require_field(config: Any, field: str, *values: Any) -> None:
    """Raise unless a field of their configuration has one of ``values``."""
    value = getattr(config, field, None)
    value = tuple(value) if isinstance(value, list) else value
    expected = " or ".join(map(repr, values))
    require(value in values, f"config.{field}", repr(value), f"{expected}, all that our model has")


def _read(model_or_folder: Any) -> tuple[Any, Tensors, Any]:
    """Return their configuration, their tensors, and the model if it is a live one, else None."""
    if isinstance(live := model_or_folder, torch.nn.Module):
        tensors = {name: partial(torch.Tensor.detach, x) for name, x in live.state_dict().items()}
        return getattr(live, "config", None), tensors, live
    is_path = isinstance(model_or_folder, str | Path)
    require(is_path, "model_or_folder", type(model_or_folder).__name__, "a model of transformers or a path")
    folder = Path(model_or_folder)
    index, whole = folder / "model.safetensors.index.json", "model.safetensors"
    files = set(json.loads(index.read_text("utf-8"))["weight_map"].values()) if index.exists() else {whole}
    lacking = [name for name in ("config.json", *sorted(files)) if not (folder / name).is_file()]
    expected = "a folder with config.json and model.safetensors, as save_pretrained writes it"
    require(not lacking, "model_or_folder", f"{str(folder)!r} without {', '.join(lacking)}", expected)
    opened = [_import("safetensors").safe_open(folder / name, framework="pt") for name in sorted(files)]
    tensors = {name: partial(file.get_tensor, name) for file in opened for name in file.keys()}  # noqa: SIM118
    return _import("transformers").AutoConfig.from_pretrained(folder), tensors, None


def _import(name: str) -> ModuleType:
    """Import a library that the package does not depend on."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"from_transformers needs {name}: pip install 'linattn-ref[interop]'") from error


def _translate(names: Mapping[str, str], theirs: Tensors, model: LanguageModel) -> dict[str, Tensor]:
    """Return our state dict, made of their tensors; raise if one is left over or missing."""
    ours, found = model.state_dict(), dict[str, Tensor]()
    unread = {name for name in theirs if not name.endswith(COMPUTED)}
    layers = range(model.config.n_layers)
    lines = [(row, i) for row in names.items() for i in (layers if "*" in row[1] else layers[:1])]
    for (old, new), i in lines:
        sources = _find(old.replace("*", str(i)), theirs)
        targets = _find(new.replace("*", str(i)), ours)
        if not (set(targets) <= set(ours) and set(sources) <= set(theirs)):
            continue  # what is missing, or left over, is said below
        read = [_to_our_layout(name, theirs[name]()) for name in sources]
        rows = torch.cat(read) if len(read) > 1 else read[0]
        sizes = [ours[name].shape[0] for name in targets]
        require(
            len(rows) == sum(sizes), " ".join(sources), f"{len(rows)} rows", f"{sum(sizes)} for {targets}"
        )
        found |= zip(targets, rows.split(sizes), strict=True)
        unread -= set(sources)
    if model.config.tie_embeddings and "embedding.weight" in found:
        tied = found.setdefault("head.weight", found["embedding.weight"])
        require(torch.equal(tied, found["embedding.weight"]), "lm_head.weight", "another", "the embedding's")
    shapes = {name: (list(found[name].shape), list(x.shape)) for name, x in ours.items() if name in found}
    for name, (came, wanted) in shapes.items():
        require(came == wanted, name, f"shape {came}", f"{wanted}")
    require(not unread, "tensors", f"{sorted(unread)}", "none that our model has no place for")
    lacking = sorted(set(ours) - set(found))
    require(not lacking, "tensors", f"none for {lacking}", f"all of those in {list(names)}")
    return found


def _find(names: str, known: Mapping[str, Any]) -> list[str]:
    """Return the names in a line of a table, with ".weight" where ``known`` has them with it."""
    return [name if name in known else f"{name}.weight" for name in names.split()]


def _to_our_layout(name: str, x: Tensor) -> Tensor:
    """Return filters [channels, 1, width] as [width, channels], [1, 1, D] as a row; all else unchanged."""
    if name.endswith("conv1d.weight"):
        return x[:, 0].mT
    return x[0] if x.ndim == 3 else x


def _read_fields(theirs: Any, **names: str) -> dict[str, Any]:
    """Return fields of their configuration by our names."""
    return {ours: getattr(theirs, name) for ours, name in names.items()}


def _configure_mamba(theirs: Any) -> ModelConfig:
    """Return the configuration of a Mamba: blocks without an MLP."""
    _require_field(theirs, "time_step_rank", math.ceil(theirs.hidden_size / 16))
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
    rope = dict(theirs.rope_parameters)
    options = _read_fields(theirs, n_kv_heads="num_key_value_heads", head_dim="head_dim")
    options["rope_base"] = rope.pop("rope_theta")
    if (kind := rope.pop("rope_type", "default")) == "llama3" and rope.keys() == set(LLAMA3):
        options["rope_scaling"] = tuple(rope.pop(name) for name in LLAMA3)
    expected = f"a rope_type 'default' alone, or 'llama3' with {', '.join(LLAMA3)}"
    fits = not rope and kind in ("default", "llama3")
    require(fits, "config.rope_parameters", f"{theirs.rope_parameters}", expected)
    sizes = _read_fields(theirs, n_heads="num_attention_heads", d_ff="intermediate_size", **SIZES)
    return ModelConfig(norm_eps=theirs.rms_norm_eps, options=options, **sizes)


def _configure_rwkv(theirs: Any) -> ModelConfig:
    """Return the configuration of an RWKV-4, with its own norm and channel mixing."""
    _require_field(theirs, "attention_hidden_size", theirs.hidden_size)
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


def _prepare_rwkv(theirs: Tensors, live: Any) -> Tensors:
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

COMPUTED = "rotary_emb.inv_freq"  # in some files, but no weight: speeds of rotation
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
LLAMA_ONLY = {"hidden_act": ("silu", "swish"), "attention_bias": (False,), "mlp_bias": (False,)}
LLAMA = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "head"}
LLAMA_LAYER = {"input_layernorm": "mixer_norm", "post_attention_layernorm": "mlp_norm"}
LLAMA_LAYER |= {"self_attn.q_proj self_attn.k_proj self_attn.v_proj": "mixer.qkv"}
LLAMA_LAYER |= {"self_attn.o_proj": "mixer.out", "mlp.down_proj": "mlp.out"}
LLAMA_LAYER |= {"mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up"}
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
    "minimax": "experts, and no lightning attention with silu on v, a gain and a gate of full rank",
    "qwen3_next": "experts, no heads of v that share keys under the delta rule, no gated softmax attention",
    "kimi_linear": "experts, and no attention to latent keys",
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
        LLAMA | _name_layers("model.layers.*.", "blocks.*.", LLAMA_LAYER),
        LLAMA_ONLY | {"attention_dropout": (0,)},
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
