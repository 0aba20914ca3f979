"""One training run as data: its name, its rates, its evaluations. Nothing here touches a device."""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from linattn_ref.config import PAPER_ARCHITECTURES, ModelConfig

ARCHITECTURES = tuple(PAPER_ARCHITECTURES)  # llama, tnl, hgrn2, cosformer2
HEAD_DIM = 64
MAIN_SIZES: dict[str, tuple[int, int]] = {  # layers, width: 0.2 to 31 million parameters without embeddings
    "0.2M": (4, 64),
    "0.8M": (4, 128),
    "2M": (5, 192),
    "6M": (7, 256),
    "14M": (8, 384),
    "32M": (10, 512),
}
TWO_LAYERS = {"0.03M": (2, 32), "0.1M": (2, 64), "0.4M": (2, 128), "1.6M": (2, 256)}
SHAPES = {"6M-3x384": (3, 384), "6M-12x192": (12, 192), "6M-27x128": (27, 128)}  # of as many parameters
SIZES = TWO_LAYERS | MAIN_SIZES | SHAPES


@dataclass(frozen=True)
class Trial:
    """One training run: everything that decides it, besides the code and the bytes of its corpus.

    Args:
        corpus: a name that ``corpora`` knows.
        arch: a name in ``ARCHITECTURES``.
        size: a name in ``SIZES``.
        lr: of AdamW, constant after the warm-up, so that each evaluation is that of a run of its length.
        seed: of the first weights and of the order of the text.
        tokens: bytes to train on, over all passes through the corpus.
        seq_len, batch_size: T, and sequences a step.
        warmup_tokens: of linear warm-up.
        n_evaluations, first_evaluation: how many, and tokens before the first; even in log tokens between.
        validation_tokens: of each evaluation, the same windows every time and for every trial.
        weight_decay: decoupled, on matrices only.
        changes: fields of ``ModelConfig`` that differ, as (name, value).

    Raises:
        ValueError: a name that nobody knows, or a number out of range.
    """

    corpus: str
    arch: str
    size: str
    lr: float
    seed: int = 0
    tokens: int = 232_000_000
    seq_len: int = 1024
    batch_size: int = 64
    warmup_tokens: int = 8_000_000
    n_evaluations: int = 40
    first_evaluation: int = 2**20
    validation_tokens: int = 2**19
    weight_decay: float = 0.1
    changes: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        _expect("arch", self.arch, self.arch in ARCHITECTURES, f"one of {ARCHITECTURES}")
        _expect("size", self.size, self.size in SIZES, f"one of {tuple(SIZES)}")
        _expect("lr", self.lr, 0 < self.lr < math.inf, "a positive number")
        for name in ("seq_len", "batch_size", "n_evaluations", "validation_tokens"):
            _expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        kind, _, length = self.corpus.partition("-")
        fits = kind != "recall" or length == str(self.seq_len)
        _expect("seq_len", self.seq_len, fits, f"{length}, as {self.corpus} has it")
        enough = self.tokens >= self.batch_size * self.seq_len
        _expect("tokens", self.tokens, enough, f"a batch of {self.batch_size * self.seq_len:,} at least")

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.seq_len

    @property
    def n_steps(self) -> int:
        return self.tokens // self.tokens_per_step

    @property
    def key(self) -> str:
        """A name for its folder: readable, and another one for every other trial."""
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.corpus}-{self.arch}-{self.size}-lr{self.lr:g}-seed{self.seed}-{digest[:8]}"

    def rate(self, step: int) -> float:
        """Learning rate at ``step`` (1 is the first): a line up to ``lr``, then constant."""
        return self.lr * min(1.0, step * self.tokens_per_step / max(self.warmup_tokens, self.tokens_per_step))

    def evaluations(self) -> list[int]:
        """Steps after which it is evaluated, rising; the last step is one of them."""
        first = min(max(1, self.first_evaluation // self.tokens_per_step), self.n_steps)
        ratio = (self.n_steps / first) ** (1 / max(1, self.n_evaluations - 1))
        steps = {round(first * ratio**i) for i in range(self.n_evaluations - 1)} | {self.n_steps}
        return sorted(steps)

    def model_config(self, backend: str = "reference") -> ModelConfig:
        """LLaMA's MLP is SwiGLU, that of the others has no activation: as in ``paper_config``.

        Its width is 8 D / 3 up to 4, so that parameters and FLOPs are those of the closed forms within 2 %.
        """
        n_layers, d_model = SIZES[self.size]
        config = ModelConfig(
            PAPER_ARCHITECTURES[self.arch],
            d_model,
            n_layers,
            max(1, d_model // HEAD_DIM),
            d_ff=8 * round(d_model / 3),
            activation="silu" if self.arch == "llama" else "none",
            backend=backend,  # type: ignore[arg-type]
        )
        return dataclasses.replace(config, **dict(self.changes))


def _expect(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
