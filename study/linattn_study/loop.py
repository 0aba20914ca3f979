"""Training without a word to the host: text, order, rates and losses live on the device.

On a GPU the whole step, from bytes to updated weights, is captured once as a CUDA graph and replayed, since
the models are small and the launches of their kernels would cost more than the kernels. The first steps run
as they are written, so that everything is compiled and allocated; the same code runs on a CPU.
"""

import gc
import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from linattn_ref import costs
from linattn_ref.model import LanguageModel
from linattn_ref.training.checkpoint import TrainState
from linattn_ref.training.distributed import World
from linattn_ref.training.tasks import IGNORED
from linattn_ref.training.trainer import next_byte_loss, parameter_groups
from linattn_study.corpora import Text, recall_length
from linattn_study.trial import Trial

BETAS, GRAD_CLIP = (0.9, 0.95), 1.0
EAGER_STEPS = 3  # before a graph is captured
COMPILED_FLOPS = 2e15  # of a trial: half a minute of compiling makes a step 1.2 to 1.8 times as fast


class Losses(NamedTuple):
    """Since the last evaluation: mean training loss in nats per byte, and the largest gradient norm."""

    train: float
    worst_norm: float


class Diverged(FloatingPointError):
    """The loss is no longer a number."""


def span_of(trial: Trial) -> int:
    """Bytes of a window: T + 1 of text, or inputs and targets of recall side by side."""
    return 2 * trial.seq_len if recall_length(trial.corpus) else trial.seq_len + 1


def window_starts(n_bytes: int, trial: Trial) -> Tensor:
    """``[steps, B]`` int64: where each window begins.

    A pass goes through the text once, in windows side by side that begin at an offset of its own, shuffled;
    windows of recall have their places.
    """
    T, wanted = trial.seq_len, trial.n_steps * trial.batch_size
    if n_bytes < 2 * T:
        raise ValueError(f"corpus: got {n_bytes:,} bytes to train on, expected {2 * T:,} at least")
    generator = torch.Generator().manual_seed(trial.seed)
    passes, n = [], 0
    while n < wanted:
        offset, stride = int(torch.randint(T, (), generator=generator)), T
        if recall_length(trial.corpus):
            offset, stride = 0, 2 * T
        per_pass = (n_bytes - span_of(trial) - offset) // stride + 1
        passes.append(offset + stride * torch.randperm(per_pass, generator=generator))
        n += per_pass
    return torch.cat(passes)[:wanted].view(trial.n_steps, trial.batch_size)


class Loop:
    """A model, its optimiser, its text and its order, on one device; of several ranks, each has its part."""

    def __init__(
        self, trial: Trial, text: Text, device: torch.device, backend: str, world: World | None = None
    ) -> None:
        self.trial, self.device, self.world = trial, device, world or World()
        if trial.batch_size % self.world.size:
            raise ValueError(
                f"batch_size: got {trial.batch_size}, expected a multiple of {self.world.size} ranks"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            self.model = LanguageModel(trial.model_config(backend))
        self.config = self.model.config
        self.model.to(device)
        alone, on_gpu = self.world.size == 1, device.type == "cuda"
        self.replica: nn.Module = self.model if alone else DistributedDataParallel(self.model)
        if on_gpu and alone and self.flops_per_token * trial.tokens >= COMPILED_FLOPS:
            torch.compiler.reset()  # it gives up on code that it has compiled for several models
            self.replica = cast(nn.Module, torch.compile(self.model, dynamic=False))
        self.lr = torch.zeros((), device=device)
        groups = parameter_groups(self.model, trial.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, self.lr, BETAS, fused=True, capturable=on_gpu)
        self.state = TrainState(self.model, self.optimizer, torch.Generator())

        self.bytes = text.train.to(device)
        starts = window_starts(len(text.train), trial)
        self.starts = self.world.slice(starts.T).T.contiguous().to(device)  # [steps, B / ranks]
        self.rates = torch.tensor([trial.rate(step + 1) for step in range(trial.n_steps)], device=device)
        self.offsets = torch.arange(span_of(trial), device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.began = self.done = 0  # the step this process began with, and the same number as ``step``
        self.loss_sum, self.worst_norm = torch.zeros((), device=device), torch.zeros((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        # the reference looks at values, which makes the host wait: that cannot be captured
        self.captures = on_gpu and alone and backend == "triton"

        self.validation_text = text.validation.to(device)
        self.validation = self._validation(len(text.validation))

    def _validation(self, n_bytes: int) -> Tensor:
        """``[n, span]``: windows spread evenly over the text; of recall, the first."""
        T, span = self.trial.seq_len, span_of(self.trial)
        recall = recall_length(self.trial.corpus) > 0
        n = min(self.trial.validation_tokens // T, (n_bytes // span) if recall else (n_bytes - 1) // T)
        if n < 1:
            raise ValueError(f"corpus: got {n_bytes:,} bytes to validate on, expected a window")
        spacing = span if recall else (n_bytes - span) // max(1, n - 1)
        at = torch.arange(n) * spacing
        return self.validation_text[(at[:, None] + torch.arange(span)).to(self.device)]

    def pairs(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets ``[B, T]`` int64 of windows ``[B, span]``."""
        if recall_length(self.trial.corpus):
            inputs, targets = windows.long().chunk(2, 1)
            return inputs, targets.masked_fill(targets == 0, IGNORED)
        return windows[:, :-1].long(), windows[:, 1:].long()

    @property
    def flops_per_token(self) -> float:
        """The paper's closed form, without embeddings."""
        return costs.flops_per_token(self.config, self.trial.seq_len)

    @property
    def n_params(self) -> int:
        return costs.n_parameters(self.config, embedding=False)

    # ---- steps --------------------------------------------------------------------------------------------

    def advance(self, n: int) -> Losses:
        """Take n steps.

        Raises:
            Diverged: a loss or a gradient was not finite.
        """
        self.model.train()
        for _ in range(n):
            if self.graph is not None:
                self.graph.replay()
            elif self.captures and self.done >= self.began + EAGER_STEPS:
                self.graph = self._captured()
                self.graph.replay()
            else:
                self._step()
            self.done += 1
        loss = self.world.mean(self.loss_sum).item() / n
        norm = self.worst_norm.item()
        self.loss_sum.zero_()
        self.worst_norm.zero_()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Diverged(f"training loss {loss}, gradient norm {norm} up to step {self.done}")
        return Losses(loss, norm)

    def _step(self) -> None:
        self.optimizer.zero_grad()
        at = self.starts.index_select(0, self.step).T  # [B, 1]
        inputs, targets = self.pairs(self.bytes[at + self.offsets])
        with self.autocast():
            loss = next_byte_loss(self.replica, inputs, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), GRAD_CLIP)
        self.lr.copy_(self.rates.index_select(0, self.step)[0])
        self.optimizer.step()
        self.loss_sum += loss.detach()
        self.worst_norm.copy_(torch.maximum(self.worst_norm, norm))
        self.step += 1

    def _captured(self) -> torch.cuda.CUDAGraph:
        self.optimizer.zero_grad()
        gc.collect()  # what is left of earlier steps belongs to another stream, and would break the recording
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # the graph has memory of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()  # is recorded, not done
        return graph

    def autocast(self) -> torch.autocast:
        """bfloat16 for matrix products on GPUs that have it; a graph keeps no cache of casts."""
        has_bf16 = self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) >= (8, 0)
        return torch.autocast(self.device.type, torch.bfloat16, enabled=has_bf16, cache_enabled=False)

    # ---- evaluation ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self) -> float:
        """Mean loss over the validation windows in nats per byte; every rank takes all of them."""
        self.model.eval()
        total = torch.zeros((), device=self.device)
        for windows in self.validation.split(self.trial.batch_size):
            inputs, targets = self.pairs(windows)
            with self.autocast():
                loss = next_byte_loss(self.model, inputs, targets)
            total += loss * len(windows)
        return total.item() / len(self.validation)

    # ---- going on -----------------------------------------------------------------------------------------

    def resumed(self, load: Callable[[TrainState], Any]) -> None:
        """``load`` fills ``state``; the loop goes on after its last row."""
        load(self.state)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr  # which the checkpoint has replaced by a number of its own
        self.began = self.done = self.state.rows[-1]["step"]
        self.step.fill_(self.done)
