"""A decoder-only language model in which the token mixer is a name."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.functional import silu

from linattn_ref.config import PAPER_SIZES, ModelConfig, paper_config
from linattn_ref.mixers import mixer_of
from linattn_ref.mixers.base import Mixer, State, positions
from linattn_ref.ops.shapes import Float, Int, Tensor

__all__ = [
    "PAPER_SIZES",
    "Block",
    "GatedMLP",
    "LanguageModel",
    "ModelConfig",
    "decoding",
    "generate",
    "paper_config",
]

ModelState = tuple[Any, tuple[State, ...]]  # tokens so far (and the front's state), and every layer's state


class GatedMLP(nn.Module):
    """y = W_down(silu(W_gate x) * W_up x) (SwiGLU); without the silu for ``activation="none"`` (SGLU)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.d_model, config.ff_width, bias=False)
        self.up = nn.Linear(config.d_model, config.ff_width, bias=False)
        self.out = nn.Linear(config.ff_width, config.d_model, bias=False)
        self.activation = config.activation

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate = silu(self.gate(x)) if self.activation == "silu" else self.gate(x)
        return self.out(gate * self.up(x))


class Block(nn.Module):
    """x + mixer(norm(x)), then x + mlp(norm(x)): pre-norm, RMSNorm."""

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__()
        self.mixer_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        own = config.of_layer(layer)
        self.mixer = mixer_of(own)(own, layer, shared)
        self.mlp_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mlp = GatedMLP(config)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        y, state = self.mixer(self.mixer_norm(x), state)
        x = x + y
        return x + self.mlp(self.mlp_norm(x)), state


class LanguageModel(nn.Module):
    """``model(tokens [B, T], state=None) -> (logits [B, T, vocab], state)``.

    One call for all uses: a full pass, the prefill of a prompt, and single steps give the same logits.
    The state is ``(front, layers)``: the number of tokens so far (with the state of the ``front`` module, if
    the mixer has one), and one tuple per layer. What all layers learn together is ``shared``.

    Initialisation: every matrix and the embedding N(0, 0.02^2); the two matrices that write into the residual
    stream of each block are divided by sqrt(2 n_layers) (GPT-2's rule); RMSNorm gains 1; what a mixer calls
    special keeps its values.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if not config.positions:
            config = replace(config, positions=mixer_of(config).default_positions)  # type: ignore[arg-type]
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        mixer = mixer_of(config)
        self.front = mixer.front_module(config)  # cosFormer2's positions
        self.shared = mixer.shared_module(config)  # HGRN2's bounds
        self.blocks = nn.ModuleList(Block(config, layer, self.shared) for layer in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.initialise()
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight

    def initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2 and not hasattr(parameter, "special"):
                writes = name.endswith(("mixer.out.weight", "mlp.out.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.n_layers) if writes else 0.02)

    def forward(
        self, tokens: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T vocab"], ModelState]:
        if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens: got {tokens.dtype} {list(tokens.shape)}, expected int64 or int32 [B, T], T >= 1"
            )
        front, layers = state or (0, (None,) * len(self.blocks))
        start, memory = front if isinstance(front, tuple) else (front, None)
        x = self.embedding(tokens)
        if self.config.positions == "sinusoidal":
            x = x + 0.02 * sinusoids(positions(x, start), x.shape[-1]).to(x.dtype)
        if self.front is not None:
            x, memory = self.front(x, memory)
        new_layers = []
        for block, layer in zip(self.blocks, layers, strict=True):
            x, layer = block(x, layer)
            new_layers.append(layer)
        read = start + tokens.shape[1]
        return self.head(self.norm(x)), (read if memory is None else (read, memory), tuple(new_layers))


def sinusoids(t: Float[Tensor, " T"], D: int) -> Float[Tensor, "T D"]:
    """sin and cos of t at D/2 speeds from 1 down to nearly 1/10,000 (Vaswani et al. 2017, arXiv 1706.03762).

    The model adds 0.02 times this, so that positions and embeddings have similar size at the start.
    """
    angle = t[:, None] * 10_000.0 ** (-torch.arange(0, D, 2, device=t.device, dtype=t.dtype) / D)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :D]


@contextmanager
def decoding(model: LanguageModel) -> Iterator[None]:
    """Single tokens go through ops that are made for them. They may use up the state that they are given:
    who needs it twice copies it first.
    """
    mixers = [module for module in model.modules() if isinstance(module, Mixer)]
    for mixer in mixers:
        mixer.decoding = True
    try:
        yield
    finally:
        for mixer in mixers:
            mixer.decoding = False


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Int[Tensor, "B T"],
    n_tokens: int,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> Int[Tensor, "B n_tokens"]:
    """Prefill the prompt, then sample one token at a time from the carried state."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature: got {temperature}, expected a finite number above 0")
    if n_tokens < 0:
        raise ValueError(f"n_tokens: got {n_tokens}, expected at least 0")
    if generator.device.type != prompt.device.type:
        raise ValueError(
            f"generator: got one on {generator.device}, expected the device of prompt, {prompt.device}"
        )
    tokens, state = [prompt], None
    with decoding(model):
        for _ in range(n_tokens):
            logits, state = model(tokens[-1], state)
            probabilities = (logits[:, -1].float() / temperature).softmax(-1)
            tokens.append(torch.multinomial(probabilities, 1, generator=generator))
    return torch.cat([prompt[:, :0], *tokens[1:]], 1)
