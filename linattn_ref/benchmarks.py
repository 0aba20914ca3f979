"""What chapters 1 and 2 quote: ``python -m linattn_ref.benchmarks NAME... [--reduced] --out DIR``.

Each study returns rows; the command writes them, with their provenance, where ``linattn_ref.results`` reads.
``--reduced`` runs the same code at sizes for a laptop.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy, elu, scaled_dot_product_attention

from linattn_ref import measure, ops, results
from linattn_ref.accounting import n_parameters, state_bytes
from linattn_ref.measure import default_device, peak_bytes
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.ops.feature_maps import FEATURE_MAPS, FeatureMap
from linattn_ref.ops.inputs import run_softmax
from linattn_ref.tasks import ByteCorpus
from linattn_ref.train import VALIDATION_SEED, TrainConfig, bits_per_byte, next_byte_loss, train

Rows = list[dict[str, Any]]
ROOT = Path(__file__).parent
seconds = partial(measure.seconds, repeats=10, warmup=2, at_least=0.2)


class Study(NamedTuple):
    """How to run it, what its columns mean, and which code made it."""

    run: Callable[[bool], Rows]
    columns: dict[str, str]
    sources: tuple[str, ...]


def lengths(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2


# --- one layer of attention against the length -------------------------------------------------------------


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's fused softmax attention: what a user would call."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True)


ATTENTION_FORMS: dict[str, tuple[Callable, int]] = {  # and the longest sequence it is asked for
    "softmax, parallel": (ops.parallel_softmax_attention, 16_384),
    "softmax, chunk": (ops.chunk_softmax_attention, 32_768),
    "softmax, fused (SDPA)": (sdpa, 131_072),
    "linear, parallel": (ops.parallel_linear_attention, 16_384),
    "linear, chunk": (ops.chunk_linear_attention, 131_072),
    "linear, recurrent": (ops.recurrent_linear_attention, 8_192),
}


def attention_cost(reduced: bool) -> Rows:
    """Forward time and peak memory of one attention op, without projections, batch 1."""
    device = default_device()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    H, K, longest = (2, 64, 2048) if reduced else (16, 64, 131_072)
    rows = []
    for name, (op, limit) in ATTENTION_FORMS.items():
        for T in lengths(256, min(limit, longest)):
            q, k, v = torch.randn(3, 1, T, H, K, device=device, dtype=dtype)
            with torch.no_grad():
                memory = peak_bytes(lambda: op(q, k, v), device)
                time = seconds(lambda: op(q, k, v), repeats=3 if T > 16_384 else 10)
            rows.append({"form": name, "T": T, "H": H, "K": K, "ms": 1e3 * time, "peak_bytes": memory})
    return rows


def bracket_cost(reduced: bool) -> Rows:
    """(Q K^T) V against Q (K^T V), without mask: one head, float32."""
    device = default_device()
    rows = []
    for T in lengths(256, 4096 if reduced else 32_768):
        q, k, v = torch.randn(3, T, 64, device=device)
        left = seconds(lambda: (q @ k.mT) @ v)
        right = seconds(lambda: q @ (k.mT @ v))
        rows.append({"T": T, "K": 64, "left_ms": 1e3 * left, "right_ms": 1e3 * right})
    return rows


# --- decoding ----------------------------------------------------------------------------------------------


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


# --- language models ----------------------------------------------------------------------------------------

LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"mixer": "softmax"},
    "linear": {"mixer": "linear"},
    "linear, elu(x) + 1": {"mixer": "linear", "feature_map": "elu_then_one"},
    "linear, norm and rope": {
        "mixer": "linear",
        "normaliser": "norm",
        "positions": "rope",
        "feature_map": "silu",
    },
    "cosformer": {"mixer": "cosformer"},
}


def elu_then_one(x: torch.Tensor) -> torch.Tensor:
    """The linear model's map as it is mostly written; in bfloat16 the sum cancels, see ``elu_plus_one``."""
    return elu(x) + 1


def train_one(name: str, lr: float, seed: int, reduced: bool, device: str) -> Rows:
    """One run: a row per evaluation."""
    with patch.dict(FEATURE_MAPS, {"elu_then_one": FeatureMap(elu_then_one, lambda K: K, True)}):
        return _train_one(name, lr, seed, reduced, device)


def _train_one(name: str, lr: float, seed: int, reduced: bool, device: str) -> Rows:
    corpus = ByteCorpus.python_stdlib(max_bytes=2_000_000 if reduced else None)
    d_model, n_layers, n_heads = (64, 2, 2) if reduced else (256, 6, 4)
    torch.manual_seed(seed)
    size = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    model = LanguageModel(ModelConfig(**(LANGUAGE_MODELS[name] | size)))
    config = TrainConfig(
        steps=100 if reduced else 800,
        batch_size=16 if reduced else 64,
        seq_len=128 if reduced else 512,
        lr=lr,
        warmup_steps=20 if reduced else 100,
        eval_every=25 if reduced else 100,
        eval_batches=8,
        checkpoint_every=10**6,
        seed=seed,
    )
    run = train(model, corpus, config, device=device, progress=False)
    shared = {"model": name, "lr": lr, "seed": seed, "parameters": n_parameters(model.config)}
    corpus_facts = {"corpus_bytes": corpus.n_bytes, "corpus_sha256": corpus.sha256}
    return [
        shared | {"step": row["step"], "tokens": row["tokens"], "val_loss": row["val_loss"]} | corpus_facts
        for row in run
        if row["val_loss"] is not None
    ]


def language_models(reduced: bool) -> Rows:
    """Validation loss of small models of equal size on the Python standard library, at two rates.

    Runs are spread over the GPUs of the machine.
    """
    seeds, rates = (range(1), (2e-3,)) if reduced else (range(2), (1e-3, 2e-3))
    jobs = [(name, lr, seed) for seed in seeds for lr in rates for name in LANGUAGE_MODELS]
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
    tasks = [(*job, reduced, devices[i % len(devices)]) for i, job in enumerate(jobs)]
    if len(devices) == 1:
        return [row for task in tasks for row in train_one(*task)]
    spawn = torch.multiprocessing.get_context("spawn")
    # one CPU thread for each, or they fight for the cores
    with spawn.Pool(len(devices), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [row for rows in pool.starmap(train_one, tasks, chunksize=1) for row in rows]


# --- a fault: the mask after the softmax --------------------------------------------------------------------


def masked_too_late(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """WRONG on purpose: every weight is divided by a sum that runs over the future keys too."""
    scores = torch.einsum("bthk,bshk->bhts", q, k)  # q is scaled
    weights = scores.softmax(-1).tril(k.shape[1] - q.shape[1])  # [B, H, T, S + T]
    return torch.einsum("bhts,bshv->bthv", weights, v)


MASKS: dict[str, Callable] = {
    "right": ops.parallel_softmax_attention,
    "late mask": partial(run_softmax, masked_too_late, scale=None),
}


@torch.no_grad()
def bits_both_ways(model: LanguageModel, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
    """Bits per byte of one pass over all inputs, and of passes over the bytes before each target alone."""
    full = next_byte_loss(model, inputs, targets)
    ends = [model(inputs[:, : t + 1])[0][:, -1] for t in range(inputs.shape[1])]  # T of [B, vocab]
    prefix = cross_entropy(torch.stack(ends, 1).flatten(0, 1), targets.flatten())
    return {"full_bits": bits_per_byte(full.item()), "prefix_bits": bits_per_byte(prefix.item())}


def late_mask(reduced: bool) -> Rows:
    """The small model of chapter 1 with the right mask and with the late one, on the same windows."""
    device = default_device()
    corpus = ByteCorpus.python_stdlib(max_bytes=4_000_000)
    rows: Rows = []
    for seed in range(1 if reduced else 2):
        config = TrainConfig(steps=60 if reduced else 240, batch_size=16, seq_len=128, seed=seed)
        fixed = torch.Generator().manual_seed(VALIDATION_SEED)
        windows = corpus.sample("validation", 16 if reduced else 64, config.seq_len, fixed, device)
        for name, op in MASKS.items():
            torch.manual_seed(seed)
            model = LanguageModel(ModelConfig("softmax", d_model=96, n_layers=2))
            with patch.object(ops, "parallel_softmax_attention", op):
                train(model, corpus, config, device=device, progress=False)
                bits = bits_both_ways(model, *windows)
            shared = {"model": name, "seed": seed, "steps": config.steps}
            rows.append(shared | bits | {"corpus_sha256": corpus.sha256})
    return rows


OPS = ("ops", "measure.py", "shapes.py", "benchmarks.py")
MODELS = (*OPS, "mixers", "accounting.py", "backend.py", "config.py", "model.py")
TRAINING = (*MODELS, "tasks", "files.py", "checkpoint.py", "distributed.py", "train.py", "train_config.py")
TRAINING_COLUMNS = {
    "model": "which model",
    "lr": "peak learning rate of AdamW",
    "seed": "of weights and data order",
    "parameters": "count",
    "step": "optimiser steps",
    "tokens": "bytes seen in training",
    "val_loss": "nats per byte on the validation split",
    "corpus_bytes": "bytes, training and validation",
    "corpus_sha256": "hash of the corpus",
}
STUDIES: dict[str, Study] = {
    "attention_cost": Study(
        attention_cost,
        {
            "form": "which op, in which form",
            "T": "tokens",
            "H": "heads",
            "K": "key and value width per head",
            "ms": "milliseconds, forward, median",
            "peak_bytes": "bytes held beyond the inputs, at most",
        },
        OPS,
    ),
    "bracket_cost": Study(
        bracket_cost,
        {
            "T": "tokens",
            "K": "key and value width",
            "left_ms": "milliseconds of (Q K^T) V, median",
            "right_ms": "milliseconds of Q (K^T V), median",
        },
        OPS,
    ),
    "decode_cost": Study(
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
    ),
    "language_models": Study(language_models, TRAINING_COLUMNS, TRAINING),
    "late_mask": Study(
        late_mask,
        {
            "model": "right, or late mask: masked after the softmax",
            "seed": "of weights and data order",
            "steps": "optimiser steps",
            "full_bits": "bits per byte on validation windows, one pass over each",
            "prefix_bits": "the same bytes, each predicted by a pass over the bytes before it in its window",
            "corpus_sha256": "hash of the corpus",
        },
        TRAINING,
    ),
}


def main() -> None:
    """Run the named studies and save each as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m linattn_ref.benchmarks")
    parser.add_argument("names", nargs="+", choices=sorted(STUDIES))
    parser.add_argument("--reduced", action="store_true", help="sizes for a laptop, minutes at most")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files and index.json")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        study = STUDIES[name]
        torch.manual_seed(0)
        rows = study.run(args.reduced)
        seeds = sorted({row.get("seed", 0) for row in rows})  # rows of one seed need no column for it
        results.save(
            name,
            rows,
            columns=study.columns,
            command=f"python -m linattn_ref.benchmarks {name}{' --reduced' * args.reduced} --out DIR",
            seed=seeds if len(seeds) > 1 else seeds[0],
            source_hash=results.source_hash([ROOT / source for source in study.sources]),
            directory=args.out,
        )
        print(f"{name}: written to {args.out}", flush=True)


if __name__ == "__main__":
    main()
