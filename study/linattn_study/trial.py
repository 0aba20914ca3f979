"""Describe one training run as data: its name, its rates, its evaluations. Nothing here touches a device."""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from linattn_ref.config import PAPER_ARCHITECTURES, ModelConfig
from linattn_ref.ops.validation import require

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
OPTION_NAMES = {"tnl_decay": "decay"}  # recorded when options were fields of ModelConfig -> name today
SCHEDULES = ("constant", "linear")
LATER_FIELDS = ("schedule", "second_reading", "window")  # of Trial: recorded where they are not the default
RECORDED_NAMES = {"overrides": "changes"}  # name of a field of Trial -> the one that is recorded
BETWEEN = {
    "0.15M": (3, 64),
    "0.3M": (3, 96),
    "0.4M-4x96": (4, 96),
    "1.5M": (5, 160),
    "4M": (8, 192),
    "9M": (7, 320),
}
SIZES = TWO_LAYERS | MAIN_SIZES | SHAPES | BETWEEN


@dataclass(frozen=True)
class Trial:
    """Hold everything that decides a training run, besides the code and the bytes of its corpus.

    Args:
        corpus: a name that ``corpora`` knows.
        arch: a name in ``ARCHITECTURES``.
        size: a name in ``SIZES``.
        lr: learning rate of AdamW after the warm-up.
        seed: of the first weights and of the order of the text; default 0.
        tokens: bytes to train on, over all passes through the corpus; default 232 million.
        seq_len: bytes of a sequence, T; default 1,024.
        batch_size: sequences a step, B; default 64.
        warmup_tokens: bytes of linear warm-up; default 8 million.
        n_evaluations: how often it is evaluated, evenly in the logarithm of tokens; default 40.
        first_evaluation: bytes before the first evaluation; default 2^20.
        validation_tokens: bytes of each evaluation, the same windows every time; default 2^19.
        weight_decay: decoupled, on weight matrices only; default 0.1.
        overrides: fields of ``ModelConfig`` or options of its mixer that differ, as (name, value); the names
            are those of the committed tables, see ``OPTION_NAMES``. Default: none.
        schedule: of the rate after the warm-up. "constant" (default): each evaluation is that of a run of its
            length. "linear": a line from ``lr`` to 0 at the last step; only the last evaluation is that of
            a run of its length.
        second_reading: whether each evaluation also asks for text that is read twice, see
            ``probes.measure_second_reading``; default False.
        window: tokens that softmax attention looks back, itself among them; default 0, all. Closed forms of
            FLOPs do not know it.

    Raises:
        ValueError: an unknown name, or a number out of range.

    Example:
        >>> trial = Trial("novels", "tnl", "2M", 1e-3, overrides=(("tnl_decay", "none"),))
        >>> trial.key, trial.n_steps
        ('novels-tnl-2M-lr0.001-seed0-a9ec4db3', 3540)
        >>> trial.build_model_config().options
        TNLOptions(decay='none', form='tnl', head_dim=0)
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
    overrides: tuple[tuple[str, Any], ...] = ()
    schedule: str = "constant"
    second_reading: bool = False
    window: int = 0

    def __post_init__(self) -> None:
        require(self.arch in ARCHITECTURES, "arch", repr(self.arch), f"one of {ARCHITECTURES}")
        require(self.size in SIZES, "size", repr(self.size), f"one of {tuple(SIZES)}")
        require(0 < self.lr < math.inf, "lr", repr(self.lr), "a positive number")
        for name in ("seq_len", "batch_size", "n_evaluations", "validation_tokens"):
            require(getattr(self, name) >= 1, name, repr(getattr(self, name)), "at least 1")
        kind, _, length = self.corpus.partition("-")
        fits = kind != "recall" or length == str(self.seq_len)
        require(fits, "seq_len", repr(self.seq_len), f"{length}, as {self.corpus} has it")
        require(not (self.second_reading and kind == "recall"), "corpus", self.corpus, "a text to read twice")
        require(self.window >= 0, "window", repr(self.window), "0 or above")
        softmax = self.window == 0 or PAPER_ARCHITECTURES[self.arch] == "softmax"
        require(softmax, "window", repr(self.window), f"0, since {self.arch} has no softmax attention")
        require(self.schedule in SCHEDULES, "schedule", repr(self.schedule), f"one of {SCHEDULES}")
        enough = self.tokens >= self.tokens_per_step
        require(enough, "tokens", repr(self.tokens), f"a batch of {self.tokens_per_step:,} at least")
        if self.schedule == "linear":
            needed = self._warmup + self.tokens_per_step
            require(self.tokens >= needed, "tokens", repr(self.tokens), f"{needed:,} at least, to decay")

    @property
    def _warmup(self) -> int:
        """Bytes of the warm-up, of a step at least."""
        return max(self.warmup_tokens, self.tokens_per_step)

    @property
    def tokens_per_step(self) -> int:
        """Bytes of a step, over all ranks."""
        return self.batch_size * self.seq_len

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return self.tokens // self.tokens_per_step

    @property
    def key(self) -> str:
        """The name of its folder: readable, and another one for every other trial."""
        digest = hashlib.sha256(json.dumps(self.to_record(), sort_keys=True).encode()).hexdigest()
        return f"{self.corpus}-{self.arch}-{self.size}-lr{self.lr:g}-seed{self.seed}-{digest[:8]}"

    def to_record(self) -> dict[str, Any]:
        """Return all fields by the names that folders, manifests and checkpoints were recorded with.

        Keys are hashes of this: a field may be renamed, its recorded name may not.
        """
        plain = {name: getattr(Trial, name) for name in LATER_FIELDS}
        recorded = {k: v for k, v in dataclasses.asdict(self).items() if k not in plain or v != plain[k]}
        return {RECORDED_NAMES.get(name, name): value for name, value in recorded.items()}

    def compute_rate(self, step: int) -> float:
        """Return the learning rate at ``step`` (1 is the first): a line up to ``lr``, then its schedule."""
        tokens = step * self.tokens_per_step
        share = min(1.0, tokens / self._warmup)
        if self.schedule == "linear":
            end = self.n_steps * self.tokens_per_step
            share = min(share, (end - tokens) / (end - self._warmup))
        return self.lr * share

    def list_evaluations(self) -> list[int]:
        """Return the steps after which it is evaluated, rising; the last step is one of them."""
        first = min(max(1, self.first_evaluation // self.tokens_per_step), self.n_steps)
        ratio = (self.n_steps / first) ** (1 / max(1, self.n_evaluations - 1))
        steps = {round(first * ratio**i) for i in range(self.n_evaluations - 1)} | {self.n_steps}
        return sorted(steps)

    def build_model_config(self, backend: str = "reference") -> ModelConfig:
        """Return the configuration of its model; ``backend`` is "reference" (default) or "triton".

        LLaMA's MLP is SwiGLU, that of the others has no activation: as in ``paper_config``. Its width is
        8 D / 3 up to 4, so that parameters and FLOPs are those of the closed forms within 2 %.
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
        return override(config, dict(self.overrides))


def override(config: ModelConfig, values: dict[str, Any]) -> ModelConfig:
    """Return ``config`` with other values of its fields, or of its mixer's options by recorded names.

    Args:
        config: of a model.
        values: recorded name -> value.
    """
    of_model = {field.name for field in dataclasses.fields(ModelConfig)}
    fields = {name: value for name, value in values.items() if name in of_model}
    options = {OPTION_NAMES.get(name, name): value for name, value in values.items() if name not in of_model}
    return dataclasses.replace(config, **fields, options=dataclasses.asdict(config.options) | options)
