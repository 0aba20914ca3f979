"""Training and generation of the study's four architectures against length: tokens a second, and memory."""

import gc
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import torch

import linattn_study.loop as study_loop
from linattn_benchmarks.chapters.study import TRAINING, Rows, Study, lengths, seconds
from linattn_book.measure import default_device
from linattn_ref.backend import backend_for
from linattn_ref.costs.accounting import state_bytes
from linattn_ref.model import LanguageModel, decoding
from linattn_study.corpora import Text
from linattn_study.trial import ARCHITECTURES, Trial

TOKENS, STEPS, NEW = 65_536, 10, 16  # of a training step; steps, and tokens of each sequence, that are timed
WHOLE = ("32M", 256, TOKENS, 16)  # size, shortest, longest, sequences in generation
REDUCED = ("0.1M", 64, 256, 2)
EARLY = 5  # steps before: allocated, captured


def speed(reduced: bool) -> Rows:
    """Steps of training and of generation, all architectures and lengths; spread over the GPUs."""
    n = min(torch.cuda.device_count(), len(ARCHITECTURES))
    if n < 2:
        return [row for arch in ARCHITECTURES for row in of(arch, reduced)]
    gpus = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(n)))).split(",")
    shares = [ARCHITECTURES[i::n] for i in range(n)]
    with ProcessPoolExecutor(n, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        parts = list(processes.map(on_gpu, gpus[:n], shares, [reduced] * n))
    return [row for arch in ARCHITECTURES for part in parts for row in part if row["arch"] == arch]


def on_gpu(gpu: str, archs: Sequence[str], reduced: bool) -> Rows:
    """Rows of some architectures, in a process that has not looked for GPUs yet."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    return [row for arch in archs for row in of(arch, reduced)]


def of(arch: str, reduced: bool) -> Rows:
    """Rows of one architecture."""
    size, first, tokens, batch = REDUCED if reduced else WHOLE
    rows = []
    for T in lengths(first, tokens):
        about = {"arch": arch, "size": size, "length": T}
        with uncompiled():
            rows.append(about | training(arch, size, T, tokens))
        rows += [about | row for row in generation(arch, size, T, batch)]
    return rows


def training(arch: str, size: str, T: int, tokens: int) -> dict[str, Any]:
    """Steps of the study's loop, captured."""
    device = default_device()
    n_steps = EARLY + 2 * STEPS
    trial = Trial(
        "novels",
        arch,
        size,
        1e-4,
        tokens=tokens * n_steps,
        seq_len=T,
        batch_size=tokens // T,
        warmup_tokens=tokens,
        validation_tokens=T,
    )
    generator = torch.Generator().manual_seed(0)
    train, validation = (torch.randint(256, (n,), generator=generator).byte() for n in (4 * tokens, 2 * T))
    found: dict[str, Any] = {"task": "train", "batch_size": tokens // T, "state_bytes": None}
    with measured(found, device):
        loop = study_loop.Loop(trial, Text(train, validation, "random"), device, backend_for(device))
        loop.advance(EARLY)
        time = seconds(lambda: loop.advance(STEPS), repeats=1, warmup=1, at_least=0.0)
        found["tokens_per_second"] = STEPS * tokens / time
    return found


@contextmanager
def uncompiled() -> Iterator[None]:
    """No model of a loop that is made inside is compiled, however long the trial."""
    rule = study_loop.COMPILED_FLOPS
    study_loop.COMPILED_FLOPS = math.inf
    try:
        yield
    finally:
        study_loop.COMPILED_FLOPS = rule


@torch.no_grad()
def generation(arch: str, size: str, T: int, batch: int) -> Rows:
    """A token of each sequence at a time, the likeliest, after T have been read; in half precision.

    Twice: launched from Python, operation by operation, and on a GPU as one graph that is replayed. A replay
    repeats the same step, so the cache of softmax attention stays as long as it was.
    """
    device = default_device()
    config = Trial("novels", arch, size, 1e-4).model_config(backend_for(device))
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    about: dict[str, Any] = {"batch_size": batch, "state_bytes": state_bytes(config, T, batch, dtype)}
    about |= {"tokens_per_second": None, "peak_bytes": None}
    replayed, launched = (about | {"task": task} for task in ("generate", "launched"))
    model = LanguageModel(config).to(device=device, dtype=dtype).eval()
    prompt = torch.randint(256, (batch, T), generator=torch.Generator().manual_seed(0)).to(device)
    latest: list[Any] = []  # token and state

    def step() -> None:
        logits, state = model(*latest)
        latest[:] = logits.argmax(-1), state

    def several() -> None:
        for _ in range(NEW):
            step()

    with decoding(model):
        with measured(launched, device):
            logits, state = model(prompt)
            latest[:] = logits[:, -1:].argmax(-1), state
            del logits, state
            forget_peak(device)
            time = seconds(several, at_least=0.0)
            launched["tokens_per_second"] = NEW * batch / time
        if device.type != "cuda":
            return [launched]
        if launched["tokens_per_second"] is not None:
            with measured(replayed, device):
                given = [*latest]  # what the graph reads at every replay must stay where it is
                replayed["tokens_per_second"] = batch / seconds(captured(step).replay)
                del given
    return [replayed, launched]


def captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """The step, recorded and not done; it has been done before."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


@contextmanager
def measured(found: dict[str, Any], device: torch.device) -> Iterator[None]:
    """Adds the peak of memory; where there is not enough of it, there is no speed either."""
    found |= {"tokens_per_second": None, "peak_bytes": None}
    gc.collect()
    forget_peak(device)
    try:
        yield
    except torch.OutOfMemoryError:
        return
    if device.type == "cuda":
        found["peak_bytes"] = torch.cuda.max_memory_allocated(device)


def forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


SPEED = Study(
    speed,
    {
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
    (*TRAINING, "study/linattn_study"),
)
