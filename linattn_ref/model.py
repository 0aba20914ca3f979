"""Define a decoder-only language model, whose token mixer is chosen by name, and sample from it.

``LanguageModel`` is a stack of ``Block``, each a mixer and a ``GatedMLP``, or RWKV-4's ``ChannelMix``.
``generate`` continues a prompt, ``decoding`` makes single steps fast. ``ModelConfig``, ``paper_config`` and
``PAPER_SIZES`` belong to ``config`` and can be imported from here as well.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.functional import relu, silu

from linattn_ref.config import PAPER_SIZES, ModelConfig, paper_config
from linattn_ref.mixers import mixer_class
from linattn_ref.mixers.base import Mixer, State, number_tokens
from linattn_ref.mixers.parts import find_weight_matrices, shift_tokens
from linattn_ref.ops.shapes import Float, Int, Tensor

__all__ = [
    "PAPER_SIZES",
    "Block",
    "ChannelMix",
    "GatedMLP",
    "LanguageModel",
    "ModelConfig",
    "decoding",
    "generate",
    "paper_config",
]

# (front, layers). front: the number of tokens so far, or that and the state of the front module if there is
# one; layers: the state of every layer.
ModelState = tuple[Any, tuple[State, ...]]
COLDEST = 1e-30  # the lowest temperature: logits divided by it stay finite in float32


class GatedMLP(nn.Module):
    """Transform every token by a gated MLP.

        y = W_down(silu(W_gate x) * W_up x)    SwiGLU; without the silu for activation="none" (SGLU)

    Args:
        config: the configuration of the model; ``d_model``, ``ff_width`` and ``activation`` are read.

    Source:
        arXiv 2002.05202, section 2 (SwiGLU); arXiv 2406.16690, equations 10, 14 and 18 (SGLU).

    Example:
        >>> GatedMLP(ModelConfig(d_model=32))(torch.randn(1, 5, 32)).shape
        torch.Size([1, 5, 32])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.d_model, config.ff_width, bias=False)
        self.up = nn.Linear(config.d_model, config.ff_width, bias=False)
        self.out = nn.Linear(config.ff_width, config.d_model, bias=False)
        self.activation = config.activation

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return y [B, T, D]."""
        gate = silu(self.gate(x)) if self.activation == "silu" else self.gate(x)
        return self.out(gate * self.up(x))


class ChannelMix(nn.Module):
    """Transform every token, with the one before it, by RWKV-4's channel mixing.

        y = sigmoid(r W_r) * (relu(k W_k)^2 W_out)

    Each of r and k is a learned mixture of the token and the one before it.

    Args:
        config: the configuration of the model; ``d_model`` and ``ff_width`` are read.

    Source:
        arXiv 2305.13048, published version, equations 18-20.

    Example:
        >>> y, past = ChannelMix(ModelConfig(d_model=32))(torch.randn(1, 5, 32))
        >>> y.shape, past.shape
        (torch.Size([1, 5, 32]), torch.Size([1, 1, 32]))
    """

    spared: ClassVar = ("shift",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((2, config.d_model), 0.5))
        self.k = nn.Linear(config.d_model, config.ff_width, bias=False)
        self.r = nn.Linear(config.d_model, config.d_model, bias=False)
        self.out = nn.Linear(config.ff_width, config.d_model, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], past: Float[Tensor, "B 1 D"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 1 D"]]:
        """Return y [B, T, D], and the last token for the next call."""
        before, past = shift_tokens(x, past)
        k, r = (torch.lerp(before, x, m.to(x.dtype)) for m in self.shift)
        return torch.sigmoid(self.r(r)) * self.out(relu(self.k(k)).square()), past


class Block(nn.Module):
    """Transform a sequence by a token mixer and an MLP, pre-norm, with residuals.

        x = x + mixer(norm(x))
        x = x + mlp(norm(x))    if config.mlp is not "none"

    The state is that of the mixer; with a ``ChannelMix`` a pair of it and the last token.

    Args:
        config: the configuration of the model; the mixer is that of ``config.of_layer(layer)``.
        layer: number of the block, 0..L-1.
        shared: the module that all layers share, see ``Mixer.shared_module``; default None.

    Example:
        >>> x, state = Block(ModelConfig("gla", d_model=32), layer=0)(torch.randn(1, 5, 32))
        >>> x.shape
        torch.Size([1, 5, 32])
    """

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__()
        self.mixer_norm = make_norm(config)
        own = config.of_layer(layer)
        self.mixer = mixer_class(own.mixer)(own, layer, shared)
        self.mlp: GatedMLP | ChannelMix | None = None
        if config.mlp != "none":
            self.mlp_norm = make_norm(config)
            self.mlp = GatedMLP(config) if config.mlp == "gated" else ChannelMix(config)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return the new x [B, T, D] and the state of the block."""
        past = None
        if isinstance(self.mlp, ChannelMix):
            state, past = state or (None, None)
        y, state = self.mixer(self.mixer_norm(x), state)
        x = x + y
        if isinstance(self.mlp, ChannelMix):
            y, past = self.mlp(self.mlp_norm(x), past)
            return x + y, (state, past)
        return (x if self.mlp is None else x + self.mlp(self.mlp_norm(x))), state


def make_norm(config: ModelConfig) -> nn.RMSNorm | nn.LayerNorm:
    """Return a norm of width D: RMSNorm, or LayerNorm, as ``config.norm`` says."""
    return (nn.RMSNorm if config.norm == "rms" else nn.LayerNorm)(config.d_model, config.norm_eps)


class LanguageModel(nn.Module):
    """Predict the next token at every position: ``model(tokens, state=None) -> (logits, state)``.

        x = embedding(tokens)
        x = block_l(x), l = 0..L-1
        logits = W_head norm(x)

    One call for all uses: a full pass, the prefill of a prompt, and single steps give the same logits. The
    state is ``(front, layers)``: the number of tokens so far (with the state of the ``front`` module, if
    the mixer has one), and one tuple per layer. ``front`` changes the embeddings before the first layer (only
    cosFormer2 has one), ``shared`` holds parameters of all layers together (only HGRN2); else they are None.

    Initialisation: every matrix and the embedding N(0, 0.02^2); the two matrices that write into the residual
    stream of each block are divided by sqrt(2 n_layers) (GPT-2's rule); RMSNorm gains 1; vectors and what
    ``mixers.find_spared_parameters`` names start with the values that the mixer gave them.

    Shapes: tokens int64 or int32 [B, T], T >= 1; logits [B, T, vocab_size] in the dtype of the weights.

    Args:
        config: the configuration of the model.

    Raises:
        ValueError: for sizes that the mixer cannot have, a backend that is not installed or lacks the mixer's
            op; when called, for tokens of another dtype or shape.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> tokens = torch.tensor([[1, 2, 3]])
        >>> logits, state = model(tokens)
        >>> _, before = model(tokens[:, :2])
        >>> last, _ = model(tokens[:, 2:], before)
        >>> logits.shape, torch.allclose(last[:, 0], logits[:, 2], atol=1e-6)
        (torch.Size([1, 3, 256]), True)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        mixer = mixer_class(config.mixer)
        self.sinusoidal = mixer.adds_sinusoids(config) if config.sinusoidal is None else config.sinusoidal
        self.front = mixer.front_module(config)  # cosFormer2's positions, else None
        self.shared = mixer.shared_module(config)  # HGRN2's bounds of the gates, else None
        self.blocks = nn.ModuleList(Block(config, layer, self.shared) for layer in range(config.n_layers))
        self.norm = make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.initialise()
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight

    def initialise(self) -> None:
        """Draw all matrices anew, as the docstring of the class says; nothing else is changed."""
        for name, matrix in find_weight_matrices(self).items():
            writes = name.endswith(("mixer.out.weight", "mlp.out.weight"))  # into the residual stream
            nn.init.normal_(matrix, std=0.02 / math.sqrt(2 * self.config.n_layers) if writes else 0.02)

    def forward(
        self, tokens: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T vocab"], ModelState]:
        """Return logits [B, T, vocab_size] and the state after the last token."""
        if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens: got {tokens.dtype} {list(tokens.shape)}, expected int64 or int32 [B, T], T >= 1"
            )
        front, layers = state or (0, (None,) * len(self.blocks))
        start, memory = front if isinstance(front, tuple) else (front, None)
        x = self.embedding(tokens)
        if self.sinusoidal:
            x = x + 0.02 * compute_sinusoids(number_tokens(x, start), x.shape[-1]).to(x.dtype)
        if self.front is not None:
            x, memory = self.front(x, memory)
        new_layers = []
        for block, layer in zip(self.blocks, layers, strict=True):
            x, layer = block(x, layer)
            new_layers.append(layer)
        read = start + tokens.shape[1]
        return self.head(self.norm(x)), (read if memory is None else (read, memory), tuple(new_layers))


def compute_sinusoids(t: Float[Tensor, " T"], D: int) -> Float[Tensor, "T D"]:
    """Return sin and cos of t at D/2 speeds from 1 down to nearly 1/10,000.

    The model adds 0.02 times this, so that positions and embeddings have similar size at the start.

    Args:
        t: positions, float [T].
        D: width; all sines come first, then all cosines.

    Returns:
        [T, D] in t's dtype.

    Source:
        arXiv 1706.03762, section 3.5.

    Example:
        >>> compute_sinusoids(torch.arange(2.0), 4)
        tensor([[0.0000, 0.0000, 1.0000, 1.0000],
                [0.8415, 0.0100, 0.5403, 0.9999]])
    """
    angle = t[:, None] * 10_000.0 ** (-torch.arange(0, D, 2, device=t.device, dtype=t.dtype) / D)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :D]


@contextmanager
def decoding(model: LanguageModel) -> Iterator[None]:
    """Compute single tokens with the step ops, inside a ``with`` statement.

    A step of the Triton kernels may overwrite the state that it is given: copy the state first if you need it
    twice. Mixers that call neither ``Mixer.linear_attention`` nor softmax attention have no step here: they
    compute a token with their usual op.

    Args:
        model: a ``LanguageModel``; the attribute ``decoding`` of all its mixers is set, and restored at the
            end.

    Yields:
        None.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> with torch.no_grad(), decoding(model):
        ...     logits, state = model(torch.tensor([[1, 2, 3]]))
        ...     logits, state = model(torch.tensor([[4]]), state)
        >>> logits.shape
        torch.Size([1, 1, 256])
    """
    mixers = [module for module in model.modules() if isinstance(module, Mixer)]
    before = [mixer.decoding for mixer in mixers]
    for mixer in mixers:
        mixer.decoding = True
    try:
        yield
    finally:
        for mixer, value in zip(mixers, before, strict=True):
            mixer.decoding = value


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Int[Tensor, "B T"],
    n_tokens: int,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> Int[Tensor, "B n_tokens"]:
    """Continue a prompt: prefill it, then sample one token at a time from the carried state.

    Args:
        model: a ``LanguageModel``.
        prompt: tokens, int64 or int32 [B, T], T >= 1, on the model's device.
        n_tokens: how many tokens to sample for every sequence.
        generator: draws the tokens; on the device of ``prompt``.
        temperature: divides the logits; near 0 the likeliest token is taken, 1 (default) samples from the
            model.

    Returns:
        The new tokens, int64 [B, n_tokens].

    Raises:
        ValueError: for a temperature that is not finite or below 1e-30, a negative ``n_tokens``, a
            generator on another device; from the model, as ``tokens``, for a prompt that is empty or has
            another dtype or shape.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> new = generate(model, torch.tensor([[1, 2, 3]]), 4, generator=torch.Generator().manual_seed(0))
        >>> new.shape
        torch.Size([1, 4])
    """
    if not COLDEST <= temperature < math.inf:
        raise ValueError(f"temperature: got {temperature}, expected a finite number, at least {COLDEST}")
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
