"""Measure whole models against length: the cost of a decoded token, and tokens a second with their memory."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import torch

from linattn_benchmarks.benchmark import (
    Benchmark,
    BenchmarkRow,
    Rows,
    Size,
    Task,
    choose_device,
    doubling,
)
from linattn_benchmarks.clock import measure_wall_seconds
from linattn_book import measure
from linattn_ref import ops
from linattn_ref.backend import choose_backend
from linattn_ref.config import PAPER_ARCHITECTURES
from linattn_ref.costs.accounting import n_parameters, state_bytes
from linattn_ref.model import LanguageModel, ModelConfig, decoding
from linattn_study.corpora import StudyCorpus
from linattn_study.loop import Loop
from linattn_study.trial import ARCHITECTURES, Trial

# --- the cost of a token -----------------------------------------------------------------------------------

DECODE_SIZES = {  # width, layers, sequences, shortest and longest context
    Size.FULL: (1024, 12, 8, 256, 131_072),
    Size.REDUCED: (128, 2, 1, 256, 8192),
    Size.DRY_RUN: (128, 2, 1, 64, 64),
}


def choose_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 on a GPU and float32 on a CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


@lru_cache(1)
def build_decode_model(mixer: str, size: Size) -> LanguageModel:
    """Build the model whose tokens are timed; it is kept for the next length."""
    d, layers, _, _, _ = DECODE_SIZES[size]
    config = ModelConfig(mixer, d_model=d, n_layers=layers, n_heads=d // 64)
    device = choose_device(size)
    return LanguageModel(config).to(device=device, dtype=choose_dtype(device)).eval()


def draw_state(model: LanguageModel, context: int, batch_size: int) -> Any:
    """Return a state of the right shapes as if ``context`` tokens had been read; decoding costs the same."""
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


@torch.no_grad()
def measure_decode_cost(mixer: str, context: int, size: Size) -> Rows:
    """Measure the time per token of a batch and the bytes of state, after ``context`` tokens."""
    device, batch = choose_device(size), DECODE_SIZES[size][2]
    model = build_decode_model(mixer, size)
    token = torch.zeros(batch, 1, dtype=torch.long, device=device)
    state = draw_state(model, context, batch)
    time = measure_wall_seconds(lambda: model(token, state), size, repeats=30, warmup=5)
    held = state_bytes(model.config, context, batch, choose_dtype(device))
    row = {"batch": batch, "ms_per_step": 1e3 * time, "state_bytes": held}
    return [row | {"parameters": n_parameters(model.config)}]


def list_decode_tasks(size: Size) -> list[Task]:
    """Return a task for every mixer and context."""
    return [
        Task({"mixer": mixer, "context": context}, partial(measure_decode_cost, mixer, context, size))
        for mixer in ("softmax", "linear")
        for context in doubling(*DECODE_SIZES[size][3:])
    ]


DECODE_COST = Benchmark(
    name="decode_cost",
    columns={
        "mixer": "token mixer of the model",
        "context": "tokens already read",
        "batch": "sequences",
        "ms_per_step": "milliseconds for one token of every sequence, median",
        "state_bytes": "bytes of KV cache or states, whole batch and model",
        "parameters": "count",
    },
    tasks=list_decode_tasks,
    mixers=("softmax", "linear"),
)

# --- training and generation of the study's architectures ---------------------------------------------------

SPEED_SIZES = {  # the study's size; shortest; longest, which is also the tokens of a training step; sequences
    Size.FULL: ("32M", 256, 65_536, 16),
    Size.REDUCED: ("0.1M", 64, 256, 2),
    Size.DRY_RUN: ("0.1M", 64, 64, 2),
}
TIMED_STEPS, TIMED_TOKENS = 10, 16  # steps of training, and generated tokens of each sequence
EARLY_STEPS = 5  # steps before these, in which memory is allocated and the graph captured


def measure_speed(arch: str, T: int, size: Size) -> Rows:
    """Measure steps of training and of generation of one architecture at one length."""
    model_size, _, tokens, batch = SPEED_SIZES[size]
    return [
        measure_training_speed(arch, model_size, T, tokens, size),
        *measure_generation_speed(arch, model_size, T, batch, size),
    ]


def measure_training_speed(arch: str, model_size: str, T: int, tokens: int, size: Size) -> BenchmarkRow:
    """Measure steps of the study's training loop, captured as a graph where there is a GPU."""
    device = choose_device(size)
    n_steps = EARLY_STEPS + 2 * TIMED_STEPS
    trial = Trial(
        "novels",
        arch,
        model_size,
        1e-4,
        tokens=tokens * n_steps,
        seq_len=T,
        batch_size=tokens // T,
        warmup_tokens=tokens,
        validation_tokens=T,
    )
    generator = torch.Generator().manual_seed(0)
    train, validation = (torch.randint(256, (n,), generator=generator).byte() for n in (4 * tokens, 2 * T))
    row: BenchmarkRow = {"task": "train", "batch_size": tokens // T, "state_bytes": None}
    corpus = StudyCorpus(train, validation, "random")
    with add_peak_memory(row, device):
        loop = Loop(trial, corpus, device, choose_backend(device), compile_from=math.inf)  # never
        loop.advance(EARLY_STEPS)
        time = measure.seconds(lambda: loop.advance(TIMED_STEPS), repeats=1, warmup=1)
        row["tokens_per_second"] = TIMED_STEPS * tokens / time
    return row


@torch.no_grad()
def measure_generation_speed(arch: str, model_size: str, T: int, batch: int, size: Size) -> Rows:
    """Generate the likeliest token of each sequence, one at a time, after T have been read.

    Twice: launched from Python, operation by operation, and on a GPU as one graph that is replayed. A replay
    repeats the same step, so the cache of softmax attention stays as long as it was.
    """
    device = choose_device(size)
    config, dtype = (
        Trial("novels", arch, model_size, 1e-4).build_model_config(choose_backend(device)),
        choose_dtype(device),
    )
    shared: BenchmarkRow = {"batch_size": batch, "state_bytes": state_bytes(config, T, batch, dtype)}
    shared |= {"tokens_per_second": None, "peak_bytes": None}
    replayed, launched = (shared | {"task": task} for task in ("generate", "launched"))
    model = LanguageModel(config).to(device=device, dtype=dtype).eval()
    prompt = torch.randint(256, (batch, T), generator=torch.Generator().manual_seed(0)).to(device)
    latest: list[Any] = []  # token and state

    def step() -> None:
        logits, state = model(*latest)
        latest[:] = logits.argmax(-1), state

    def several() -> None:
        for _ in range(TIMED_TOKENS):
            step()

    with decoding(model):
        with add_peak_memory(launched, device):
            logits, state = model(prompt)
            latest[:] = logits[:, -1:].argmax(-1), state
            del logits, state
            forget_peak(device)
            repeats, warmup = (1, 0) if size is Size.DRY_RUN else (10, 2)
            time = measure.seconds(several, repeats=repeats, warmup=warmup)
            launched["tokens_per_second"] = TIMED_TOKENS * batch / time
        if device.type != "cuda":
            return [launched]
        if launched["tokens_per_second"] is not None:
            with add_peak_memory(replayed, device):
                given = [*latest]  # what the graph reads at every replay must stay where it is
                replay = capture_step(step).replay
                replayed["tokens_per_second"] = batch / measure_wall_seconds(replay, size)
                del given
    return [replayed, launched]


def capture_step(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Record a step that has been done before, as a graph, without doing it."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


@contextmanager
def add_peak_memory(row: BenchmarkRow, device: torch.device) -> Iterator[None]:
    """Add the peak of memory to a row; where there is not enough of it, there is no speed either."""
    row |= {"tokens_per_second": None, "peak_bytes": None}
    gc.collect()
    forget_peak(device)
    try:
        yield
    except torch.OutOfMemoryError:
        return
    if device.type == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated(device)


def forget_peak(device: torch.device) -> None:
    """Free cached memory and begin a new peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def list_speed_tasks(size: Size) -> list[Task]:
    """Return a task for every architecture and length."""
    model_size, first, last, _ = SPEED_SIZES[size]
    return [
        Task({"arch": arch, "size": model_size, "length": T}, partial(measure_speed, arch, T, size))
        for arch in ARCHITECTURES
        for T in doubling(first, last)
    ]


SPEED = Benchmark(
    name="speed",
    columns={
        "arch": "architecture",
        "size": "of the scaling study",
        "length": "bytes in a sequence of training, or read before the generation",
        "task": "train: forward, backward and update, one graph; generate: one token of each sequence at a "
        "time, one graph; launched: the same, kernel by kernel",
        "batch_size": "sequences",
        "state_bytes": "of the whole batch, in generation",
        "tokens_per_second": "bytes, of all sequences; none where memory was not enough",
        "peak_bytes": "of tensors at a time, in training or in generation; none on a CPU",
    },
    tasks=list_speed_tasks,
    mixers=tuple(PAPER_ARCHITECTURES.values()),
    group_by="arch",
)
