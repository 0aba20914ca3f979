"""A token at a time: how long it takes and what is carried, against the tokens already read."""

from typing import Any

import torch

from linattn_benchmarks.chapters.study import MODELS, Rows, Study, lengths, seconds
from linattn_book.measure import default_device
from linattn_ref import ops
from linattn_ref.costs.accounting import n_parameters, state_bytes
from linattn_ref.model import LanguageModel, ModelConfig


def random_state(model: LanguageModel, context: int, batch_size: int) -> Any:
    """A state of the right shapes as if ``context`` tokens had been read; decoding costs the same."""
    tokens = torch.zeros(batch_size, 1, dtype=torch.long, device=model.embedding.weight.device)
    _, layers = model(tokens)[1]
    grown: list[Any] = []
    for layer in layers:
        if isinstance(layer, ops.KVCache):
            shape = (batch_size, context, *layer.k.shape[2:])
            grown.append(ops.KVCache(*(torch.randn(shape, device=x.device, dtype=x.dtype) for x in layer)))
        else:
            grown.append((layer[0], context))
    return context, tuple(grown)


def decode_cost(reduced: bool) -> Rows:
    """Time per token of a batch and bytes of state, against the tokens already read."""
    device = default_device()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    d, layers, batch, longest = (128, 2, 1, 8192) if reduced else (1024, 12, 8, 131_072)
    rows = []
    for mixer in ("softmax", "linear"):
        config = ModelConfig(mixer, d_model=d, n_layers=layers, n_heads=d // 64)
        model = LanguageModel(config).to(device=device, dtype=dtype).eval()
        token = torch.zeros(batch, 1, dtype=torch.long, device=device)
        for context in lengths(256, longest):
            with torch.no_grad():
                state = random_state(model, context, batch)
                time = seconds(lambda: model(token, state), repeats=30, warmup=5)
            held = state_bytes(config, context, batch, dtype)
            rows.append({"mixer": mixer, "context": context, "batch": batch, "ms_per_step": 1e3 * time})
            rows[-1] |= {"state_bytes": held, "parameters": n_parameters(config)}
            del state
    return rows


DECODE_COST = Study(
    decode_cost,
    {
        "mixer": "token mixer of the model",
        "context": "tokens already read",
        "batch": "sequences",
        "ms_per_step": "milliseconds for one token of every sequence, median",
        "state_bytes": "bytes of KV cache or states, whole batch and model",
        "parameters": "count",
    },
    MODELS,
)
