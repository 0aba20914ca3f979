"""Load the weights of released models, as ``transformers`` stores them, into our ``LanguageModel``.

``from_transformers`` takes a live model or a folder; ``architectures`` says how each of them reads here. Only
names, layouts and places of a factor change, never what is computed: a field or a tensor that we have no
place for is refused.

Sources: the classes ``...ForCausalLM`` of transformers 5, which the tests build with random weights and
compare.
"""

import json
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from linattn_ref.interop.architectures import (
    ARCHITECTURES,
    COMPUTED,
    LACKING,
    UNUSED,
    Tensors,
    require_field,
)
from linattn_ref.model import LanguageModel
from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import require


def from_transformers(model_or_folder: Any, *, dtype: torch.dtype | None = None) -> LanguageModel:
    """Load a model of ``transformers`` with its weights.

    It has LLaMA, Mamba, Mamba-2, MiniMax, Qwen3-Next, RWKV-4 and xLSTM. ``model(tokens)[0]`` are then the
    logits of the given model, up to rounding. (RWKV-4 in evaluation halves x after every ``rescale_every``
    layers, so that the epsilon of its norms weighs more there; ours are the logits without that, as in its
    training.) All rows of its embedding are kept, also those that fill up the
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
        require_field(config, field, *values)
    with torch.device("meta"):
        model = LanguageModel(architecture.configure(config))
    weights = _translate(architecture.names, architecture.prepare(theirs, config, live), model)
    dtype = dtype or torch.promote_types(weights["embedding.weight"].dtype, torch.float32)
    model.load_state_dict({name: x.to(dtype, copy=True) for name, x in weights.items()}, assign=True)
    if model.config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model


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
    unread = {name for name in theirs if not name.endswith(COMPUTED) and not name.startswith(UNUSED)}
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
    """Return filters [channels, 1, width] as [width, channels], [1, 1, D] as [1, D]; all else unchanged."""
    if name.endswith("conv1d.weight"):
        return x[:, 0].mT
    return x[0] if x.ndim == 3 and len(x) == 1 else x
