"""One training loop: next-byte prediction, resumable to the bit, on one process or many.

    model = LanguageModel(ModelConfig(mixer="linear"))
    rows = train(model, ByteCorpus.python_stdlib(), TrainConfig(steps=300))

From a shell, on this machine or on several GPUs:

    python -m linattn_ref.training.trainer --mixer linear --steps 300 --out rows.csv
    torchrun --nproc-per-node 8 -m linattn_ref.training.trainer --mixer linear --steps 300 --out rows.csv
"""

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.training.checkpoint import (
    Row,
    TrainState,
    identity_of,
    load_checkpoint,
    save_checkpoint,
    write_rows,
)
from linattn_ref.training.config import TrainConfig, learning_rate
from linattn_ref.training.distributed import World, current_world, default_device, distributed
from linattn_ref.training.tasks import ByteCorpus

VALIDATION_SEED = 20_200_629  # one choice of validation windows for all runs, whatever their own seed


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices (embeddings included) decay; vectors and scalars (norms, biases, decay rates) do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    decayed = [p.ndim >= 2 and not hasattr(p, "special") for p in parameters]
    matrices = [p for p, yes in zip(parameters, decayed, strict=True) if yes]
    others = [p for p, yes in zip(parameters, decayed, strict=True) if not yes]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def bits_per_byte(nats: float) -> float:
    """A loss in nats per byte, as bits per byte."""
    return nats / math.log(2)


def next_byte_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, taken in float32 at least. inputs, targets: ``[B, T]`` int64."""
    logits, _ = model(inputs)  # [B, T, vocab]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(
    model: nn.Module,
    corpus: ByteCorpus,
    config: TrainConfig,
    *,
    device: torch.device | str | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Train ``model`` in place, next byte by next byte, and return one row per step.

    Batches come from a generator of this run's own, so nothing else that is random has an influence. On the
    CPU a run that was stopped and resumed gives the same losses and weights, bit for bit, as one that was
    not (on equally many threads, and with a model that draws no random numbers of its own, as dropout does).

    The model is left in evaluation mode, on ``device``.

    Args:
        model: called as ``model(tokens) -> (logits, state)``: ``[B, T]`` int64 to ``[B, T, vocab]``.
        device: where to train; the model is moved there. None = CUDA if there is any, else CPU.
        checkpoint: a file to resume from if it exists, and to write to. None = none.
        progress: show a bar with loss and speed.
        on_row: called with each new row as soon as it is there.

    Under `distributed`, every rank calls this alike and gets the rows; rank 0 alone shows the bar, calls
    ``on_row`` and writes the checkpoint, which all ranks must be able to read.

    Raises:
        ValueError: a split of the corpus is too short, the batch does not divide by the ranks, or the
            checkpoint is of another run.
        FloatingPointError: a loss or gradient is no longer finite; the checkpoint is that of an earlier step.
    """
    world, config_dict = current_world(), dataclasses.asdict(config)
    if config.batch_size % world.size:
        raise ValueError(f"batch_size: expected a multiple of {world.size} ranks, got {config.batch_size}")
    device = default_device() if device is None else torch.device(device)
    path = None if checkpoint is None else Path(checkpoint)
    batches = _Batches(corpus, config, world, device)

    model.to(device)
    optimizer = torch.optim.AdamW(parameter_groups(model, config.weight_decay), betas=config.betas)
    state = TrainState(model, optimizer, torch.Generator().manual_seed(config.seed))
    identity = identity_of(model, config_dict, corpus.sha256)
    if path is not None and path.exists():
        load_checkpoint(path, state, identity)
    replica = DistributedDataParallel(model) if world.size > 1 else model  # averages the gradients

    done = len(state.rows)
    quiet = not progress or world.rank > 0
    steps = tqdm(
        range(done + 1, config.steps + 1), initial=done, total=config.steps, unit="step", disable=quiet
    )
    for step in steps:
        row = _train_step(replica, state, batches, step)
        is_last = step == config.steps
        if is_last or step % config.eval_every == 0:
            row["val_loss"] = val_loss = _evaluate(model, batches)
            if not math.isfinite(val_loss):
                raise FloatingPointError(f"val_loss is {val_loss} at step {step}: try a lower lr")
        state.rows.append(row)
        steps.set_postfix(loss=f"{row['train_loss']:.3f}", tokens_per_s=f"{row['tokens_per_second']:.0f}")
        if world.rank == 0 and on_row is not None:
            on_row(row)
        if world.rank == 0 and path is not None and (is_last or step % config.checkpoint_every == 0):
            save_checkpoint(path, state, identity)
    model.eval()
    return state.rows


class _Batches:
    """This rank's part of each global batch, on its device, and the precision to compute with.

    Every rank draws the whole batch, so all generators stay in step and the data do not depend on the number
    of ranks.
    """

    def __init__(self, corpus: ByteCorpus, config: TrainConfig, world: World, device: torch.device) -> None:
        self.corpus, self.config, self.world, self.device = corpus, config, world, device
        fixed = torch.Generator().manual_seed(VALIDATION_SEED)
        self.validation = [self.draw("validation", fixed) for _ in range(config.eval_batches)]

    def draw(self, split: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """inputs, targets: ``[B / ranks, T]`` int64 each."""
        inputs, targets = self.corpus.sample(split, self.config.batch_size, self.config.seq_len, generator)
        return self.world.slice(inputs).to(self.device), self.world.slice(targets).to(self.device)

    def autocast(self) -> torch.autocast:
        """bfloat16 for the matrix products if the config says so, or says nothing and the GPU has it."""
        has_bf16 = self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) >= (8, 0)
        dtype = self.config.dtype or ("bfloat16" if has_bf16 else "float32")
        return torch.autocast(self.device.type, torch.bfloat16, enabled=dtype == "bfloat16")


def _train_step(replica: nn.Module, state: TrainState, batches: _Batches, step: int) -> Row:
    """One update of the model; ``val_loss`` is left at None."""
    start, config = time.perf_counter(), batches.config
    lr = learning_rate(config, step)
    for group in state.optimizer.param_groups:
        group["lr"] = lr

    inputs, targets = batches.draw("train", state.generator)
    replica.train()
    with batches.autocast():
        loss = next_byte_loss(replica, inputs, targets)
    state.optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(state.model.parameters(), config.grad_clip).item()
    nats = batches.world.mean(loss).item()
    if not (math.isfinite(nats) and math.isfinite(norm)):  # before the weights have seen it
        raise FloatingPointError(
            f"train_loss is {nats}, gradient norm {norm} at step {step} (lr {lr:.3g}): try a lower lr"
        )
    state.optimizer.step()
    seconds = time.perf_counter() - start
    per_step = config.batch_size * config.seq_len
    before = state.rows[-1]["seconds"] if state.rows else 0.0
    return Row(
        step=step,
        tokens=step * per_step,
        train_loss=nats,
        val_loss=None,
        lr=lr,
        seconds=before + seconds,
        tokens_per_second=per_step / seconds,
    )


@torch.no_grad()
def _evaluate(model: nn.Module, batches: _Batches) -> float:
    """Mean loss over the fixed validation batches, all ranks' parts together, in nats per byte."""
    model.eval()
    with batches.autocast():
        losses = [next_byte_loss(model, inputs, targets) for inputs, targets in batches.validation]
    return batches.world.mean(torch.stack(losses).mean()).item()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m linattn_ref.training.trainer",
        description="Train a byte-level language model; start it with torchrun to use several devices.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--mixer", default="linear", help="a name in linattn_ref.mixers.MIXERS")
    parser.add_argument("--d-model", type=int, default=128, help="width")
    parser.add_argument("--n-layers", type=int, default=4, help="blocks")
    parser.add_argument("--n-heads", type=int, default=4, help="heads")
    parser.add_argument("--text", type=Path, help="file or folder of *.txt; none = Python's standard library")
    parser.add_argument("--max-bytes", type=int, help="use this much of the text")
    parser.add_argument("--device", help="such as cpu or cuda; none = cuda if there is any")
    parser.add_argument("--checkpoint", type=Path, help="resume from this file if it exists, and write to it")
    parser.add_argument("--out", type=Path, help="write the rows to this CSV file")
    for option in dataclasses.fields(TrainConfig):
        kind = {"betas": float, "dtype": str}.get(option.name, type(option.default))
        count = 2 if option.name == "betas" else None
        flag = "--" + option.name.replace("_", "-")
        text = option.metadata["help"]
        parser.add_argument(flag, type=kind, nargs=count, default=option.default, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: build model and corpus, train, write the rows, print the last one."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        values = {option.name: getattr(args, option.name) for option in dataclasses.fields(TrainConfig)}
        config = TrainConfig(**(values | {"betas": tuple(args.betas)}))
        sizes = ModelConfig(
            mixer=args.mixer, d_model=args.d_model, n_layers=args.n_layers, n_heads=args.n_heads
        )
        if args.text is None:
            corpus = ByteCorpus.python_stdlib(args.max_bytes)
        else:
            corpus = ByteCorpus.from_path(args.text, max_bytes=args.max_bytes)
        torch.manual_seed(config.seed)  # for the weights to start from
        model = LanguageModel(sizes)
    except ValueError as error:
        parser.error(str(error))
    with distributed() as world:
        rows = train(model, corpus, config, device=args.device, checkpoint=args.checkpoint)
        if world.rank == 0:
            if args.out is not None:
                write_rows(args.out, rows)
            bits = bits_per_byte(rows[-1]["val_loss"] or math.nan)
            print(f"{rows[-1]['tokens']:,} bytes seen, validation {bits:.3f} bits per byte")


if __name__ == "__main__":
    main()
