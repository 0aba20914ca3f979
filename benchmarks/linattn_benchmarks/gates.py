"""Measure what gates decide: a memory and a count that a mark resets, and recall at equal size of the state.

The models differ in their gate alone: nothing forgets, a fixed decay per head, a number per head and token, a
number per channel and token. Queries, keys, values, norm and sizes are the same.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad

from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device
from linattn_benchmarks.tasks import (
    Draw,
    Practice,
    initialise_by_width,
    measure_accuracy,
    practise,
)
from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.linear import LinearOptions
from linattn_ref.mixers.parts import HeadNorm, ShortConvolution, upcast
from linattn_ref.model import Block, LanguageModel
from linattn_ref.ops.shapes import Tensor
from linattn_ref.training.tasks.recall import IGNORED, Recall, multi_query_recall
from linattn_ref.training.tasks.synthetic import count_since_mark, reset_on_mark

GATES = ("none", "fixed", "scalar", "vector")
LEAST_WIDTH = 16  # of keys that our kernels take
HalfLives = tuple[float, float]  # tokens, the shortest and the longest at the start


class GatedMixer(Mixer):
    """Mix tokens by linear attention with one of four gates, all else being equal.

        q, k, v = filters over the last four tokens of x W_q, x W_k, x W_v
        alpha_t = 1,  sigmoid(b) fixed,  sigmoid(x_t w + b) per head,  or sigmoid(x_t W + b) per channel
        S_t = Diag(alpha_t) S_{t-1} + k_t^T v_t,  o_t = q_t S_t / sqrt K,  y = RMSNorm(o) W_o

    The b are spread so that half-lives are even in logarithms.

    Args:
        config: sizes of the model; its options are not read.
        layer: the number of its block.
        gate: one of ``GATES``.
        key_width: K, so that a layer's state has ``n_heads * K * head_dim`` numbers.
        half_lives: of the gates at the start, the shortest and the longest, in tokens.
    """

    options_class = LinearOptions

    def __init__(
        self, config: ModelConfig, layer: int, gate: str, key_width: int, half_lives: HalfLives
    ) -> None:
        super().__init__(config, layer)
        D, H, self.gate = config.d_model, config.n_heads, gate
        self.widths_of_parts = [H * key_width, H * key_width, D]
        self.qkv = nn.Linear(D, sum(self.widths_of_parts), bias=False)
        self.filter = ShortConvolution(sum(self.widths_of_parts))
        n_gates = H * key_width if gate == "vector" else H
        first, last = map(math.log10, half_lives)
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
        """Return output and state; narrow keys are filled up with zeros, since kernels take 16 channels."""
        K = z["q"].shape[-1]
        q, k = (pad(x, (0, max(0, LEAST_WIDTH - K))) for x in (z["q"], z["k"]))
        log_decay = z["log_decay"]
        if self.gate == "vector":
            log_decay = pad(log_decay, (0, q.shape[-1] - K))
        return self.linear_attention(q, k, z["v"], log_decay, scale=K**-0.5, state=S)

    def output(self, o: Tensor, z: Projections) -> Tensor:
        """Return y."""
        return self.out(merge_heads(self.norm(o)))


def build(
    gate: str, key_width: int, half_lives: HalfLives, seed: int, device: torch.device, **sizes: Any
) -> LanguageModel:
    """Build a language model with ``GatedMixer`` in each block; of one seed, what they share starts equal."""
    backend: Literal["reference", "triton"] = "triton" if device.type == "cuda" else "reference"
    config = ModelConfig("linear", sinusoidal=False, backend=backend, **sizes)
    model, plain = (_assemble(config, one, key_width, half_lives, seed) for one in (gate, "none"))
    shared = {name: weight for name, weight in plain.state_dict().items() if not name.endswith("mixer.bias")}
    model.load_state_dict(shared, strict=False)
    return model


def _assemble(
    config: ModelConfig, gate: str, key_width: int, half_lives: HalfLives, seed: int
) -> LanguageModel:
    """Return a model of that seed."""
    torch.manual_seed(seed)
    model = LanguageModel(config)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        block.mixer = GatedMixer(config, layer, gate, key_width, half_lives)
    initialise_by_width(model)
    return model


# --- what a mark resets: the latest value, and a count ------------------------------------------------------

RESET_SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 2000, "batch_size": 64, "T": 256, "n": 1024, "rates": (3e-3, 1e-2)},
    Size.REDUCED: {"steps": 300, "batch_size": 32, "T": 128, "n": 128, "rates": (3e-3,)},
    Size.DRY_RUN: {"steps": 4, "batch_size": 2, "T": 24, "n": 4, "rates": (3e-3,)},
}
RESET_MODEL = {"d_model": 64, "n_heads": 4, "vocab_size": 64}
RESET_HALF_LIVES = (4.0, 256.0)
RESETS: dict[str, Callable[..., Recall]] = {
    "latest value": reset_on_mark,
    "count": partial(count_since_mark, classes=64, every=2.0, mark_every=96.0),
}


def draw_reset(task: str, seq_len: int) -> Draw:
    """Return what draws sequences of one of ``RESETS``."""
    return lambda n, generator: RESETS[task](n, seq_len, generator)


def train_on_marks(task: str, gate: str, n_layers: int, rate: float, seed: int, size: Size) -> Rows:
    """Train one model; a row."""
    plan, device = RESET_SIZES[size], choose_device(size)
    model = build(gate, 16, RESET_HALF_LIVES, seed, device, n_layers=n_layers, **RESET_MODEL)
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
    group_by="gate",
    processes_share_gpu=True,
)

# --- recall at equal size of the state ----------------------------------------------------------------------

VOCABULARY, BOUNDARY = 256, 256  # keys and values; the token at which a document begins


class Recalling(NamedTuple):
    """Describe a sequence in which pairs are asked for.

    Attributes:
        documents: how many follow each other in a sequence; each begins with ``BOUNDARY``.
        length: tokens of each.
        pairs: of key and value in each, different in every document.
    """

    documents: int
    length: int
    pairs: int


RECALLS: dict[Size, dict[str, Recalling]] = {
    Size.FULL: {"one document": Recalling(1, 256, 32), "packed documents": Recalling(8, 64, 12)},
    Size.REDUCED: {"one document": Recalling(1, 64, 8), "packed documents": Recalling(4, 32, 4)},
    Size.DRY_RUN: {"one document": Recalling(1, 32, 4), "packed documents": Recalling(2, 16, 2)},
}
RECALL_SIZES: dict[Size, dict[str, Any]] = {
    Size.FULL: {"steps": 2000, "tokens": 2**14, "n": 512, "rates": (4e-3, 1.2e-2)},
    Size.REDUCED: {"steps": 500, "tokens": 2**11, "n": 64, "rates": (3e-3,)},
    Size.DRY_RUN: {"steps": 4, "tokens": 2**6, "n": 4, "rates": (3e-3,)},
}
KEY_WIDTHS = (4, 8, 16)
RECALL_MODEL = {"d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": VOCABULARY + 1}
RECALL_HALF_LIVES = (64.0, 4096.0)
# One half-life for all heads: 16 pairs are best for 12 live ones (chapter 3), 85 tokens with 12 pairs in 64.
RECALL_GATES: dict[str, tuple[str, HalfLives]] = {gate: (gate, RECALL_HALF_LIVES) for gate in GATES}
ONE_HALF_LIFE = {f"fixed, {n} tokens": ("fixed", (float(n), float(n))) for n in (85, 32)}


def draw_recall(plan: Recalling) -> Draw:
    """Return what draws sequences of one or more documents of ``multi_query_recall``; fillers are 0."""

    def draw(n: int, generator: torch.Generator) -> Recall:
        inputs, targets = multi_query_recall(
            n * plan.documents,
            plan.length - 1,
            plan.pairs,
            generator,
            vocab_size=VOCABULARY,
            random_fillers=False,
        )
        begun = (pad(x, (1, 0), value=y) for x, y in ((inputs, BOUNDARY), (targets, IGNORED)))
        return Recall(*(x.reshape(n, -1) for x in begun))

    return draw


def train_on_pairs(task: str, gate: str, key_width: int, rate: float, seed: int, size: Size) -> Rows:
    """Train one model; a row."""
    plan, recalling, device = RECALL_SIZES[size], RECALLS[size][task], choose_device(size)
    draw, T = draw_recall(recalling), recalling.documents * recalling.length
    kind, half_lives = (RECALL_GATES | ONE_HALF_LIFE)[gate]
    model = build(kind, key_width, half_lives, seed, device, **RECALL_MODEL)
    loss = practise(model, draw, Practice(plan["steps"], plan["tokens"] // T, rate, seed), device)
    state = RECALL_MODEL["n_layers"] * key_width * RECALL_MODEL["d_model"]
    shared = {"state": state, "parameters": n_parameters_of(model), "steps": plan["steps"], "T": T}
    shared |= {"documents": recalling.documents, "pairs": recalling.pairs, "train_loss": loss}
    return [shared | {"accuracy": measure_accuracy(model, draw, plan["n"], device)}]


def list_recall_tasks(size: Size) -> list[Task]:
    """Return a task for every kind of sequence, gate, width of the keys, rate and seed."""
    seeds = range(2) if size is Size.FULL else range(1)
    widths = KEY_WIDTHS if size is Size.FULL else KEY_WIDTHS[:2]
    return [
        Task(
            {"task": task, "gate": gate, "key_width": key_width, "rate": rate, "seed": seed},
            partial(train_on_pairs, task, gate, key_width, rate, seed, size),
        )
        for seed in seeds
        for task in RECALLS[size]
        for key_width in widths
        for rate in RECALL_SIZES[size]["rates"]
        for gate in (*RECALL_GATES, *(ONE_HALF_LIFE if task == "packed documents" else ()))
    ]


GATE_RECALL = Benchmark(
    name="gate_recall",
    columns={
        "task": "pairs asked for in one document, or in each of several that follow each other",
        "gate": "as in gate_reset; fixed, n tokens: one half-life for all heads",
        "key_width": "K of each of 4 heads, whose values have width 16",
        "rate": "peak learning rate of AdamW",
        "seed": "of weights and sequences",
        "state": "numbers in the states of both layers",
        "parameters": "count, those that are trained",
        "steps": "optimiser steps",
        "T": "tokens of a sequence",
        "documents": "in a sequence",
        "pairs": "of key and value in a document",
        "train_loss": "nats per answer, mean of the last tenth of the steps",
        "accuracy": "share of right answers on new sequences",
    },
    tasks=list_recall_tasks,
    mixers=("linear",),
    group_by="gate",
    processes_share_gpu=True,
)
