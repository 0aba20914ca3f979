"""Measure what gates decide: a memory and a count that a mark resets, and recall at equal size of the state.

The models differ in their gate alone: nothing forgets, a fixed decay per head, a number per head and token, a
number per channel and token. Queries, keys, values, norm and sizes are the same.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task
from linattn_benchmarks.run import choose_device
from linattn_benchmarks.tasks import Draw, Practice, measure_accuracy, practise
from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.linear import LinearOptions
from linattn_ref.mixers.parts import HeadNorm, ShortConvolution, upcast
from linattn_ref.model import Block, LanguageModel
from linattn_ref.ops.shapes import Tensor
from linattn_ref.training.tasks.recall import Recall, multi_query_recall
from linattn_ref.training.tasks.synthetic import count_since_mark, reset_on_mark

GATES = ("none", "fixed", "scalar", "vector")
HALF_LIVES = (4.0, 256.0)  # tokens, the shortest and the longest at the start


class GatedMixer(Mixer):
    """Mix tokens by linear attention with one of four gates, all else being equal.

        q, k, v = filters over the last four tokens of x W_q, x W_k, x W_v
        alpha_t = 1,  sigmoid(b) fixed,  sigmoid(x_t w + b) per head,  or sigmoid(x_t W + b) per channel
        S_t = Diag(alpha_t) S_{t-1} + k_t^T v_t,  o_t = q_t S_t / sqrt K,  y = RMSNorm(o) W_o

    The b are spread over ``HALF_LIVES``, evenly in logarithms.

    Args:
        config: sizes of the model; its options are not read.
        layer: the number of its block.
        gate: one of ``GATES``.
        key_width: K, so that a layer's state has ``n_heads * K * head_dim`` numbers.
    """

    options_class = LinearOptions

    def __init__(self, config: ModelConfig, layer: int, gate: str, key_width: int) -> None:
        super().__init__(config, layer)
        D, H, self.gate = config.d_model, config.n_heads, gate
        self.widths_of_parts = [H * key_width, H * key_width, D]
        self.qkv = nn.Linear(D, sum(self.widths_of_parts), bias=False)
        self.filter = ShortConvolution(sum(self.widths_of_parts))
        n_gates = H * key_width if gate == "vector" else H
        first, last = map(math.log10, HALF_LIVES)
        rate = math.log(2) / torch.logspace(first, last, n_gates)  # of forgetting, a token
        bias = -torch.log(torch.expm1(rate))  # sigmoid(b) = e^-rate
        if gate == "vector":  # each head has all half-lives
            bias = bias.view(key_width, H).T.flatten()
        self.bias = nn.Parameter(bias, requires_grad=gate in ("scalar", "vector"))
        self.decay = nn.Linear(D, n_gates, bias=False) if gate in ("scalar", "vector") else None
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Tensor, past: Any) -> tuple[Projections, Any]:
        """Return queries, keys, values and the logarithm of the gate."""
        qkv, past = self.filter(self.qkv(x), past)
        parts = qkv.split(self.widths_of_parts, -1)
        z = {name: split_heads(y, self.config.n_heads) for name, y in zip("qkv", parts, strict=True)}
        return {**z, "log_decay": self.compute_log_decay(x)}, past

    def compute_log_decay(self, x: Tensor) -> Tensor | None:
        """Return log alpha: None, [H], [B, T, H] or [B, T, H, K]."""
        if self.gate == "none":
            return None
        if self.decay is None:
            return logsigmoid(self.bias)
        log_decay = logsigmoid(upcast(self.decay(x)) + self.bias)
        return split_heads(log_decay, self.config.n_heads) if self.gate == "vector" else log_decay

    def mix(self, z: Projections, S: Any) -> tuple[Tensor, Any]:
        """Return the output and the state."""
        return self.linear_attention(z["q"], z["k"], z["v"], z["log_decay"], state=S)

    def output(self, o: Tensor, z: Projections) -> Tensor:
        """Return y."""
        return self.out(merge_heads(self.norm(o)))


def build(gate: str, key_width: int, seed: int, device: torch.device, **sizes: Any) -> LanguageModel:
    """Build a language model with ``GatedMixer`` in each block; of one seed, what they share starts equal."""
    backend: Literal["reference", "triton"] = "triton" if device.type == "cuda" else "reference"
    config = ModelConfig("linear", sinusoidal=False, backend=backend, **sizes)
    model, plain = (_assemble(config, one, key_width, seed) for one in (gate, "none"))
    shared = {name: weight for name, weight in plain.state_dict().items() if not name.endswith("mixer.bias")}
    model.load_state_dict(shared, strict=False)
    return model


def _assemble(config: ModelConfig, gate: str, key_width: int, seed: int) -> LanguageModel:
    """Return a model of that seed."""
    torch.manual_seed(seed)
    model = LanguageModel(config)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        block.mixer = GatedMixer(config, layer, gate, key_width)
    model.initialise()
    return model


# --- what a mark resets: the latest value, and a count ------------------------------------------------------

RESET_SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 1500, "batch_size": 64, "T": 256, "n": 1024, "rates": (1e-3, 3e-3, 1e-2)},
    Size.REDUCED: {"steps": 300, "batch_size": 32, "T": 128, "n": 128, "rates": (3e-3,)},
    Size.DRY_RUN: {"steps": 4, "batch_size": 2, "T": 24, "n": 4, "rates": (3e-3,)},
}
RESET_MODEL = {"d_model": 64, "n_heads": 4, "vocab_size": 16}


RESETS: dict[str, Callable[..., Recall]] = {"latest value": reset_on_mark, "count": count_since_mark}


def draw_reset(task: str, seq_len: int) -> Draw:
    """Return what draws sequences of one of ``RESETS``."""
    return lambda n, generator: RESETS[task](n, seq_len, generator)


def train_on_marks(task: str, gate: str, n_layers: int, rate: float, seed: int, size: Size) -> Rows:
    """Train one model; a row."""
    plan, device = RESET_SIZES[size], choose_device(size)
    model = build(gate, 16, seed, device, n_layers=n_layers, **RESET_MODEL)
    practice = Practice(plan["steps"], plan["batch_size"], rate, seed)
    loss = practise(model, draw_reset(task, plan["T"]), practice, device)
    right = {
        name: measure_accuracy(model, draw_reset(task, factor * plan["T"]), plan["n"] // factor, device)
        for name, factor in (("accuracy", 1), ("accuracy_longer", 4))
    }
    shared = {"parameters": n_parameters_of(model), "steps": plan["steps"], "T": plan["T"]}
    return [shared | {"train_loss": loss} | right]


def n_parameters_of(model: nn.Module) -> int:
    """Count the parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def list_reset_tasks(size: Size) -> list[Task]:
    """Return a task for every one of ``RESETS``, gate, depth, rate and seed."""
    seeds = range(2) if size is Size.FULL else range(1)
    return [
        Task(
            {"task": task, "gate": gate, "n_layers": n_layers, "rate": rate, "seed": seed},
            partial(train_on_marks, task, gate, n_layers, rate, seed, size),
        )
        for seed in seeds
        for rate in RESET_SIZES[size]["rates"]
        for task in RESETS
        for n_layers in (1, 2)
        for gate in GATES
    ]


GATE_RESET = Benchmark(
    name="gate_reset",
    columns={
        "task": "latest value since a mark, or count of events since a mark",
        "gate": "none, fixed per head, scalar per head and token, vector per channel and token",
        "n_layers": "blocks of mixer and MLP",
        "rate": "peak learning rate of AdamW",
        "seed": "of weights and sequences",
        "parameters": "count, those that are trained",
        "steps": "optimiser steps",
        "T": "tokens of a training sequence",
        "train_loss": "nats per place, mean of the last tenth of the steps",
        "accuracy": "share of right places on new sequences of T tokens",
        "accuracy_longer": "the same at 4 T tokens",
    },
    tasks=list_reset_tasks,
    mixers=("linear",),
)

# --- recall at equal size of the state ----------------------------------------------------------------------

RECALL_SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 4000, "batch_size": 64, "T": 256, "n": 512, "rates": (1e-3, 3e-3, 1e-2)},
    Size.REDUCED: {"steps": 500, "batch_size": 32, "T": 64, "n": 64, "rates": (3e-3,)},
    Size.DRY_RUN: {"steps": 4, "batch_size": 2, "T": 32, "n": 4, "rates": (3e-3,)},
}
KEY_WIDTHS = (16, 32, 64)
PAIRS = {Size.FULL: 32, Size.REDUCED: 8, Size.DRY_RUN: 4}
RECALL_MODEL = {"d_model": 64, "n_heads": 1, "n_layers": 2, "vocab_size": 256}


def draw_recall(seq_len: int, n_pairs: int) -> Draw:
    """Return what draws sequences of ``multi_query_recall``."""
    return lambda n, generator: multi_query_recall(n, seq_len, n_pairs, generator, vocab_size=256)


def train_on_pairs(gate: str, key_width: int, rate: float, seed: int, size: Size) -> Rows:
    """Train one model; a row."""
    plan, device = RECALL_SIZES[size], choose_device(size)
    draw = draw_recall(plan["T"], PAIRS[size])
    model = build(gate, key_width, seed, device, **RECALL_MODEL)
    loss = practise(model, draw, Practice(plan["steps"], plan["batch_size"], rate, seed), device)
    state = RECALL_MODEL["n_layers"] * key_width * RECALL_MODEL["d_model"]
    shared = {"state": state, "parameters": n_parameters_of(model), "steps": plan["steps"], "T": plan["T"]}
    right = measure_accuracy(model, draw, plan["n"], device)
    return [shared | {"pairs": PAIRS[size], "train_loss": loss, "accuracy": right}]


def list_recall_tasks(size: Size) -> list[Task]:
    """Return a task for every gate, width of the keys, rate and seed."""
    seeds = range(2) if size is Size.FULL else range(1)
    widths = KEY_WIDTHS if size is Size.FULL else KEY_WIDTHS[:2]
    return [
        Task(
            {"gate": gate, "key_width": key_width, "rate": rate, "seed": seed},
            partial(train_on_pairs, gate, key_width, rate, seed, size),
        )
        for seed in seeds
        for key_width in widths
        for rate in RECALL_SIZES[size]["rates"]
        for gate in GATES
    ]


GATE_RECALL = Benchmark(
    name="gate_recall",
    columns={
        "gate": "as in gate_reset",
        "key_width": "K of the one head; its values have width 64",
        "rate": "peak learning rate of AdamW",
        "seed": "of weights and sequences",
        "state": "numbers in the states of both layers",
        "parameters": "count, those that are trained",
        "steps": "optimiser steps",
        "T": "tokens of a sequence",
        "pairs": "of key and value in a sequence",
        "train_loss": "nats per answer, mean of the last tenth of the steps",
        "accuracy": "share of right answers on new sequences",
    },
    tasks=list_recall_tasks,
    mixers=("linear",),
)
