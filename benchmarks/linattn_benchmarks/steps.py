"""Measure a training step of the scaling study at each size, with our kernel for softmax and with torch's."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task, choose_device
from linattn_book import measure
from linattn_ref.backend import choose_backend
from linattn_ref.config import PAPER_ARCHITECTURES
from linattn_ref.mixers.base import State
from linattn_ref.mixers.softmax import SoftmaxMixer
from linattn_ref.ops.results import KVCache
from linattn_study.corpora import StudyCorpus
from linattn_study.loop import Loop
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, Trial

OURS, SDPA = "ours", "sdpa"
EARLY_STEPS = {Size.FULL: 8, Size.REDUCED: 4, Size.DRY_RUN: 1}  # in which it is compiled and captured
TIMED_STEPS = {Size.FULL: 20, Size.REDUCED: 5, Size.DRY_RUN: 1}
REPEATS = {Size.FULL: 10, Size.REDUCED: 3, Size.DRY_RUN: 1}


def attend_by_sdpa(q: Tensor, k: Tensor, v: Tensor, state: State | None) -> tuple[Tensor, KVCache]:
    """Return causal softmax attention of whole sequences [B, T, H, K] by torch, and the keys and values."""
    assert state is None, "a training step begins without a cache"
    heads_first = [z.transpose(1, 2) for z in (q, k, v)]  # [B, H, T, K]
    o = scaled_dot_product_attention(heads_first[0], heads_first[1], heads_first[2], is_causal=True)
    return o.transpose(1, 2), KVCache(k, v)


def use_sdpa(model: nn.Module) -> None:
    """Let every softmax layer of a model attend by torch's kernels."""
    for module in model.modules():
        if isinstance(module, SoftmaxMixer):
            module.attend = attend_by_sdpa  # type: ignore[method-assign]


def make_trial(arch: str, model_size: str, size: Size) -> Trial:
    """Return the main grid's trial of an architecture and size; a short one with small batches elsewhere."""
    if size is Size.FULL:
        return Trial("novels", arch, model_size, 1e-4)
    tokens = 64 * 2 * 64
    return Trial("novels", arch, model_size, 1e-4, tokens=tokens, seq_len=64, batch_size=2, warmup_tokens=128)


def measure_step(arch: str, attention: str, model_size: str, size: Size) -> Rows:
    """Measure the study's training step, compiled or not as in the study, captured where there is a GPU."""
    trial, device = make_trial(arch, model_size, size), choose_device(size)
    text = torch.randint(256, (2**22,), generator=torch.Generator().manual_seed(0)).byte()
    loop = Loop(trial, StudyCorpus(text, text, "random"), device, choose_backend(device))
    if attention == SDPA:
        use_sdpa(loop.model)
    loop.advance(EARLY_STEPS[size])
    steps = TIMED_STEPS[size]
    time = measure.seconds(lambda: loop.advance(steps), repeats=REPEATS[size], warmup=1)
    row: BenchmarkRow = {"step_ms": 1e3 * time / steps, "compiled": int(loop.replica is not loop.model)}
    return [row | {"tokens_per_second": trial.tokens_per_step * steps / time}]


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every architecture and size of the study, and LLaMA's twice."""
    sizes = tuple(MAIN_SIZES) if size is Size.FULL else ("0.2M",)
    kinds = [(arch, attention) for arch in ARCHITECTURES for attention in (OURS, SDPA)]
    return [
        Task(
            {"arch": arch, "attention": attention, "size": model_size},
            partial(measure_step, arch, attention, model_size, size),
        )
        for arch, attention in kinds
        if attention == OURS or PAPER_ARCHITECTURES[arch] == "softmax"
        for model_size in sizes
    ]


STEP_COST = Benchmark(
    name="step_cost",
    columns={
        "arch": "architecture",
        "attention": "ours: this book's kernels; sdpa: softmax by torch's scaled_dot_product_attention",
        "size": "of the scaling study",
        "step_ms": "milliseconds of a step of 64 sequences of 1,024 bytes: forward, backward and update, "
        "one graph",
        "compiled": "1 where torch.compile made the model's code, as the study has it, else 0",
        "tokens_per_second": "bytes",
    },
    tasks=list_tasks,
    mixers=tuple(PAPER_ARCHITECTURES.values()),
    group_by="arch",
)
