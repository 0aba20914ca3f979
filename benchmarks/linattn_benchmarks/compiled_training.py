"""Measure training of the study's architectures against length, compiled as its larger models are."""

from functools import partial

import torch

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task, choose_device
from linattn_benchmarks.steps import OURS, SDPA, use_sdpa
from linattn_book import measure
from linattn_ref.backend import choose_backend
from linattn_ref.config import PAPER_ARCHITECTURES
from linattn_study.corpora import StudyCorpus
from linattn_study.loop import Loop
from linattn_study.trial import ARCHITECTURES, Trial

EARLY_STEPS, TIMED_STEPS, REPEATS = 8, 20, 5  # in the first ones a model is compiled and captured
SIZES = {  # the study's size, the lengths, the tokens of a step
    Size.FULL: ("32M", (256, 512, 1024, 2048, 4096), 65_536),
    Size.REDUCED: ("0.8M", (64, 256), 1024),
    Size.DRY_RUN: ("0.1M", (32,), 64),
}


def measure_compiled(arch: str, attention: str, T: int, size: Size) -> Rows:
    """Measure steps of the study's training loop at one length."""
    model_size, _, tokens = SIZES[size]
    early, timed, repeats = (1, 1, 1) if size is Size.DRY_RUN else (EARLY_STEPS, TIMED_STEPS, REPEATS)
    device = choose_device(size)
    trial = Trial(
        "novels",
        arch,
        model_size,
        1e-4,
        tokens=tokens * (early + timed * (repeats + 1)),
        seq_len=T,
        batch_size=tokens // T,
        warmup_tokens=tokens,
        validation_tokens=T,
    )
    text = torch.randint(256, (8 * tokens,), generator=torch.Generator().manual_seed(0)).byte()
    torch.compiler.reset()  # of the lengths before it
    compile_from = 0.0 if device.type == "cuda" else float("inf")
    loop = Loop(
        trial, StudyCorpus(text, text, "random"), device, choose_backend(device), compile_from=compile_from
    )
    if attention == SDPA:
        use_sdpa(loop.model)
    row: BenchmarkRow = {"batch_size": trial.batch_size}
    row["first_seconds"] = measure.seconds(lambda: loop.advance(early), repeats=1, warmup=0)
    time = measure.seconds(lambda: loop.advance(timed), repeats=repeats, warmup=1)
    return [row | {"tokens_per_second": tokens * timed / time}]


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every architecture and length, and LLaMA's twice."""
    kinds = [(arch, attention) for arch in ARCHITECTURES for attention in (OURS, SDPA)]
    return [
        Task(
            {"model": f"{arch}, {attention}", "length": T},
            partial(measure_compiled, arch, attention, T, size),
        )
        for arch, attention in kinds
        if attention == OURS or PAPER_ARCHITECTURES[arch] == "softmax"
        for T in SIZES[size][1]
    ]


COMPILED_TRAINING = Benchmark(
    name="compiled_training",
    columns={
        "model": "architecture at 32M; ours: with this book's kernels; sdpa: with torch's softmax attention",
        "length": "bytes in a sequence",
        "batch_size": "sequences of a step",
        "first_seconds": f"for the first {EARLY_STEPS} steps, in which the model is compiled and captured",
        "tokens_per_second": "bytes: forward, backward and update, one graph",
    },
    tasks=list_tasks,
    mixers=tuple(PAPER_ARCHITECTURES.values()),
    group_by="model",
)
