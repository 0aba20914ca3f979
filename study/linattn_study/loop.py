"""Train a trial by the reference's loop, with the text, its order and its rates on the device."""

from collections.abc import Callable

import torch
from torch import Tensor

from linattn_ref import costs
from linattn_ref.model import LanguageModel
from linattn_ref.training.distributed import World
from linattn_ref.training.tasks import IGNORED
from linattn_study.corpora import StudyCorpus, parse_recall_length
from linattn_study.device_trainer import DeviceTrainer
from linattn_study.trial import Trial
from linattn_study.window import limit_window

BETAS, GRAD_CLIP = (0.9, 0.95), 1.0
COMPILED_FLOPS = 2e15  # of a trial: half a minute of compiling makes a step 1.2 to 1.8 times as fast


def compute_window_length(trial: Trial) -> int:
    """Return the bytes of a window: T + 1 of text, or inputs and targets of recall side by side."""
    return 2 * trial.seq_len if parse_recall_length(trial.corpus) else trial.seq_len + 1


def draw_window_starts(n_bytes: int, trial: Trial) -> Tensor:
    """Return where each window of a trial begins, int64 [steps, B].

    A pass goes through the text once, in windows side by side that begin at an offset of its own, shuffled;
    windows of recall have their places.

    Args:
        n_bytes: length of the text to train on.
        trial: its batches and its seed.

    Raises:
        ValueError: the text is shorter than two windows.
    """
    T, wanted = trial.seq_len, trial.n_steps * trial.batch_size
    if n_bytes < 2 * T:
        raise ValueError(f"corpus: got {n_bytes:,} bytes to train on, expected {2 * T:,} at least")
    generator = torch.Generator().manual_seed(trial.seed)
    passes, n = [], 0
    while n < wanted:
        offset, stride = int(torch.randint(T, (), generator=generator)), T
        if parse_recall_length(trial.corpus):
            offset, stride = 0, 2 * T
        per_pass = (n_bytes - compute_window_length(trial) - offset) // stride + 1
        passes.append(offset + stride * torch.randperm(per_pass, generator=generator))
        n += per_pass
    return torch.cat(passes)[:wanted].view(trial.n_steps, trial.batch_size)


class Windows:
    """Cut the batches of a trial out of its text, on the device.

    Each rank has its part of every training batch, and all of the validation windows.

    Args:
        trial: its batches, its order and its number of validation bytes.
        corpus: the text.
        device: where the text lies.
        world: the ranks that train together.

    Raises:
        ValueError: a text is too short, or a batch does not divide by the ranks.
    """

    def __init__(self, trial: Trial, corpus: StudyCorpus, device: torch.device, world: World) -> None:
        world.require_divides(trial.batch_size)
        self.trial, self.device = trial, device
        self.generator = torch.Generator()  # nothing is drawn on the way
        self.training_text = corpus.train.to(device)
        starts = draw_window_starts(len(corpus.train), trial)
        self.starts = world.slice(starts.T).T.contiguous().to(device)  # [steps, B / ranks]
        self.offsets = torch.arange(compute_window_length(trial), device=device)
        self.validation_text = corpus.validation.to(device)
        self.validation = self._spread_windows(len(corpus.validation))

    def _spread_windows(self, n_bytes: int) -> Tensor:
        """Return windows [n, length] spread evenly over the validation text; of recall, the first."""
        T, length = self.trial.seq_len, compute_window_length(self.trial)
        recall = parse_recall_length(self.trial.corpus) > 0
        n = min(self.trial.validation_tokens // T, (n_bytes // length) if recall else (n_bytes - 1) // T)
        if n < 1:
            raise ValueError(f"corpus: got {n_bytes:,} bytes to validate on, expected a window")
        spacing = length if recall else (n_bytes - length) // max(1, n - 1)
        starts = torch.arange(n) * spacing
        return self.validation_text[(starts[:, None] + torch.arange(length)).to(self.device)]

    def split_windows(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two of windows [B, length], int64 [B, T] each."""
        if parse_recall_length(self.trial.corpus):
            inputs, targets = windows.long().chunk(2, 1)
            return inputs, targets.masked_fill(targets == 0, IGNORED)
        return windows[:, :-1].long(), windows[:, 1:].long()

    def draw_training_batch(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a step, given as int64 [1]."""
        starts = self.starts.index_select(0, step).T  # [B, 1]
        return self.split_windows(self.training_text[starts + self.offsets])

    def compute_validation_loss(self, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        """Return the mean of ``loss(inputs, targets)`` over the validation windows."""
        total = torch.zeros((), device=self.device)
        for windows in self.validation.split(self.trial.batch_size):
            total += loss(*self.split_windows(windows)) * len(windows)
        return total.item() / len(self.validation)


class Loop(DeviceTrainer):
    """Train the model of a trial on its text.

    Args:
        trial: what to train.
        corpus: the text that the trial names.
        device: where to train.
        backend: "reference" or "triton"; with the latter, a step on one GPU is captured as a graph.
        world: the ranks that train together; default: this process alone.
        compile_from: FLOPs of a trial from which on its model is compiled, on one GPU.
        sharded: whether each of several ranks keeps a part of the weights only; default False.
    """

    def __init__(
        self,
        trial: Trial,
        corpus: StudyCorpus,
        device: torch.device,
        backend: str,
        world: World | None = None,
        compile_from: float = COMPILED_FLOPS,
        sharded: bool = False,
    ) -> None:
        world = world or World()
        self.trial = trial
        self.windows = Windows(trial, corpus, device, world)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            model = LanguageModel(trial.build_model_config(backend))
        if trial.window:
            limit_window(model, trial.window)
        self.config = model.config
        super().__init__(
            model,
            self.windows,
            [trial.compute_rate(step + 1) for step in range(trial.n_steps)],
            compiled=self.flops_per_token * trial.tokens >= compile_from,
            captured=backend == "triton",
            device=device,
            world=world,
            weight_decay=trial.weight_decay,
            betas=BETAS,
            grad_clip=GRAD_CLIP,
            sharded=sharded,
        )

    @property
    def flops_per_token(self) -> float:
        """FLOPs of a token forward and backward: the paper's closed form, without embeddings."""
        return costs.flops_per_token(self.config, self.trial.seq_len)

    @property
    def n_params(self) -> int:
        """Parameters of the model, without embeddings."""
        return costs.n_parameters(self.config, embedding=False)
