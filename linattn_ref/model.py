"""Define a decoder-only language model, whose token mixer is chosen by name, and sample from it.

``LanguageModel`` is a stack of ``Block``, each a mixer and a ``GatedMLP``, ``Experts``, or RWKV-4's
``ChannelMix``.
``generate`` continues prompts, ``prefill`` and ``step`` read a batch of different lengths, ``decoding`` makes
single steps fast. ``ModelConfig``, ``paper_config`` and ``PAPER_SIZES`` belong to ``config`` and can be
imported from here as well.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.functional import linear, relu, silu

from linattn_ref.config import PAPER_SIZES, ModelConfig, paper_config
from linattn_ref.mixers import mixer_class
from linattn_ref.mixers.base import Mixer, State, number_tokens
from linattn_ref.mixers.parts import cap_softly, find_weight_matrices, shift_tokens, upcast
from linattn_ref.ops.shapes import Float, Int, Tensor
from linattn_ref.ops.validation import require

__all__ = [
    "PAPER_SIZES",
    "Block",
    "ChannelMix",
    "Experts",
    "GatedMLP",
    "LanguageModel",
    "ModelConfig",
    "decoding",
    "generate",
    "paper_config",
    "prefill",
    "step",
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


class Experts(nn.Module):
    """Transform every token by the few of E gated MLPs that a router chooses, the largest p_e.

        p = softmax(x W_r)
        y = sum over the chosen e of (p_e / sum of the chosen p) W_out,e (silu(W_gate,e x) * W_up,e x)
        y = y + sigmoid(x w) shared(x)    with config.shared_ff > 0

    An expert computes its own tokens alone, one expert after the other: right, and slow. Nothing balances the
    load of the experts, which training needs.

    Args:
        config: the configuration of the model; ``d_model``, ``ff_width``, ``n_experts``,
            ``experts_per_token`` and ``shared_ff`` are read.

    Source:
        arXiv 1701.06538, section 2; weights of the chosen as in Mixtral, arXiv 2401.04088, section 2.1; the
        shared expert as in Qwen3-Next's code.

    Example:
        >>> config = ModelConfig(d_model=32, n_experts=4, experts_per_token=2)
        >>> Experts(config)(torch.randn(1, 5, 32)).shape
        torch.Size([1, 5, 32])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        E, D, width = config.n_experts, config.d_model, config.ff_width
        self.n_chosen = config.experts_per_token
        self.router = nn.Linear(D, E, bias=False)
        self.into = nn.Parameter(torch.randn(E, 2 * width, D) * D**-0.5)  # W_gate above W_up
        self.out = nn.Parameter(torch.randn(E, D, width) * width**-0.5)
        self.shared = GatedMLP(replace(config, d_ff=config.shared_ff)) if config.shared_ff else None
        self.shared_gate = nn.Linear(D, 1, bias=False) if config.shared_ff else None

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return y [B, T, D]."""
        p = torch.softmax(upcast(self.router(x)), -1)  # [B, T, E]
        top, chosen = p.topk(self.n_chosen)
        weight = torch.zeros_like(p).scatter(-1, chosen, top / top.sum(-1, keepdim=True))
        y = torch.zeros_like(x)
        for e in range(len(self.into)):
            own = weight[..., e] > 0  # the tokens that chose it
            gate, up = linear(x[own], self.into[e]).chunk(2, -1)
            y[own] += (weight[..., e, None][own] * linear(silu(gate) * up, self.out[e])).to(y.dtype)
        if self.shared is None or self.shared_gate is None:
            return y
        return y + torch.sigmoid(self.shared_gate(x)) * self.shared(x)


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

    With ``config.residual`` r > 0 both are ``x = r norm(x) + f(norm(x))``.
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
        self.residual = config.residual
        self.mlp: GatedMLP | Experts | ChannelMix | None = None
        if config.mlp != "none":
            self.mlp_norm = make_norm(config)
            gated = Experts if config.n_experts else GatedMLP
            self.mlp = gated(config) if config.mlp == "gated" else ChannelMix(config)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return the new x [B, T, D] and the state of the block."""
        past = None
        if isinstance(self.mlp, ChannelMix):
            state, past = state or (None, None)
        normed = self.mixer_norm(x)
        y, state = self.mixer(normed, state)
        x = self.add(x, normed, y)
        if self.mlp is None:
            return x, state
        normed = self.mlp_norm(x)
        if isinstance(self.mlp, ChannelMix):
            y, past = self.mlp(normed, past)
            return self.add(x, normed, y), (state, past)
        return self.add(x, normed, self.mlp(normed)), state

    def add(self, x: Tensor, normed: Tensor, y: Tensor) -> Tensor:
        """Return the residual of x, or of what was made of it, and y."""
        return x + y if self.residual == 0 else self.residual * normed + y


def make_norm(config: ModelConfig) -> nn.RMSNorm | nn.LayerNorm:
    """Return a norm of width D: RMSNorm, or LayerNorm, as ``config.norm`` says."""
    return (nn.RMSNorm if config.norm == "rms" else nn.LayerNorm)(config.d_model, config.norm_eps)


class LanguageModel(nn.Module):
    """Predict the next token at every position: ``model(tokens, state=None) -> (logits, state)``.

        x = embedding(tokens)
        x = block_l(x), l = 0..L-1
        logits = W_head norm(x)    within config.logit_cap, if that is above 0

    One call for all uses: a full pass, the prefill of a prompt, and single steps give the same logits. The
    state is ``(front, layers)``: the number of tokens so far (with the state of the ``front`` module, if
    the mixer has one), and one tuple per layer. ``front`` changes the embeddings before the first layer (only
    cosFormer2 has one), ``shared`` holds parameters of all layers together (only HGRN2); else they are None.

    Initialisation: every matrix and the embedding N(0, 0.02^2); those that write into the residual stream
    of a block are divided by sqrt(2 n_layers) (GPT-2's rule); RMSNorm gains 1; vectors and what
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
            # into the residual stream; those of experts have no ".weight"
            writes = name.removesuffix(".weight").endswith(("mixer.out", "mlp.out", "mlp.shared.out"))
            nn.init.normal_(matrix, std=0.02 / math.sqrt(2 * self.config.n_layers) if writes else 0.02)

    def forward(
        self, tokens: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T vocab"], ModelState]:
        """Return logits [B, T, vocab_size] and the state after the last token."""
        check_tokens(tokens)
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
        logits = cap_softly(self.head(self.norm(x)), self.config.logit_cap)
        return logits, (read if memory is None else (read, memory), tuple(new_layers))


def check_tokens(tokens: Tensor) -> None:
    """Raise a ``ValueError`` unless tokens are int64 or int32 [B, T], T >= 1."""
    if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"tokens: got {tokens.dtype} {list(tokens.shape)}, expected int64 or int32 [B, T], T >= 1"
        )


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
    twice. Mixers of linear attention, the delta rule and softmax attention have such steps; the others
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


# --- reading prompts and continuing them ------------------------------------------------------------------

# The sequences of a batch, in groups that have read equally many tokens: their numbers in the batch [R], and
# the state of the model for these R.
Groups = list[tuple[Int[Tensor, " R"], ModelState]]


def prefill(
    model: LanguageModel, tokens: Int[Tensor, "B T"], lengths: Sequence[int] | Int[Tensor, " B"]
) -> tuple[Float[Tensor, "B vocab"], Groups]:
    """Read prompts of different lengths; logits and states are those of each prompt alone.

    What stands behind a prompt is not read: prompts of one length are run together, without their padding,
    and remain together. So every mixer is right, whatever its state holds: positions, convolutions, a cache.
    A pass costs as many calls of the model as there are different lengths. Do not pad on the left: the model
    would read the padding as part of the prompt, and its logits would differ. Where no state is wanted, as in
    training, call the model on tokens that are padded on the right: no token sees what comes after it.

    Args:
        model: a ``LanguageModel``.
        tokens: prompts, each with anything behind it, int64 or int32 [B, T].
        lengths: tokens of each prompt, B whole numbers from 1 to T.

    Returns:
        Logits after the last token of each prompt [B, vocab_size], and the groups of sequences that ``step``
        continues: a list of pairs, the numbers of the sequences and their state.

    Raises:
        ValueError: for lengths that are not B numbers from 1 to T; from the model, for tokens of another
            dtype or shape.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> logits, groups = prefill(model, torch.tensor([[1, 2, 3], [4, 0, 0]]), lengths=[3, 1])
        >>> alone, _ = model(torch.tensor([[4]]))
        >>> logits.shape, torch.allclose(logits[1], alone[0, -1], atol=1e-6)
        (torch.Size([2, 256]), True)
    """
    check_tokens(tokens)
    own = torch.as_tensor(lengths, device=tokens.device)
    right = own.shape == tokens.shape[:1] and not own.is_floating_point() and own.numel() > 0
    if not right or not 1 <= int(own.min()) <= int(own.max()) <= tokens.shape[1]:
        B, T = tokens.shape
        raise ValueError(f"lengths: got {own.tolist()}, expected {B} whole numbers from 1 to {T}")
    read = [(rows, tokens[rows, :n]) for n in own.unique().tolist() for rows in [(own == n).nonzero()[:, 0]]]
    return _collect([(rows, *model(prompts)) for rows, prompts in read])


def step(
    model: LanguageModel, tokens: Int[Tensor, " B"], groups: Groups
) -> tuple[Float[Tensor, "B vocab"], Groups]:
    """Read one more token of every sequence of a batch whose sequences have different lengths.

    Args:
        model: a ``LanguageModel``.
        tokens: the next token of each sequence, int64 or int32 [B].
        groups: as ``prefill`` or an earlier ``step`` returned them.

    Returns:
        Logits [B, vocab_size] and the groups with their new states.

    Raises:
        ValueError: for tokens that are not one for each sequence of the groups.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> _, groups = prefill(model, torch.tensor([[1, 2, 3], [4, 0, 0]]), lengths=[3, 1])
        >>> logits, groups = step(model, torch.tensor([7, 8]), groups)
        >>> logits.shape
        torch.Size([2, 256])
    """
    B = sum(len(rows) for rows, _ in groups)
    if tokens.shape != (B,):
        raise ValueError(f"tokens: got {list(tokens.shape)}, expected [{B}], one for each sequence")
    return _collect([(rows, *model(tokens[rows, None], state)) for rows, state in groups])


def _collect(
    results: list[tuple[Tensor, Tensor, ModelState]],
) -> tuple[Float[Tensor, "B vocab"], Groups]:
    """Return the last logits of all sequences in their order, and the groups."""
    order = torch.cat([rows for rows, _, _ in results]).argsort()
    logits = torch.cat([logits[:, -1] for _, logits, _ in results])
    return logits[order], [(rows, state) for rows, _, state in results]


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Int[Tensor, "B T"],
    n_tokens: int,
    *,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    end: int | None = None,
    lengths: Sequence[int] | Int[Tensor, " B"] | None = None,
) -> Int[Tensor, "B n_tokens"]:
    """Continue a prompt: prefill it, then choose one token at a time from the carried state.

    Args:
        model: a ``LanguageModel``.
        prompt: tokens, int64 or int32 [B, T], T >= 1, on the model's device.
        n_tokens: how many tokens to choose for every sequence.
        generator: draws the tokens; on the device of ``prompt``. None will do if the temperature is 0.
        temperature: divides the logits; 1 (default) samples from the model, near 0 the likeliest token is
            taken, and 0 takes it without drawing (greedy).
        top_k: draw from this many likeliest tokens only, at least 1; default None: from all.
        top_p: of these, draw only from the likeliest whose probabilities together reach this share, above 0
            and at most 1; default None: from all.
        end: the token with which a sequence ends: all that follow it are this token again; default None.
        lengths: tokens of each prompt, where what stands behind them is padding, see ``prefill``; default
            None: T for all.

    Returns:
        The new tokens, int64 [B, n_tokens].

    Raises:
        ValueError: for a temperature that is not finite, or neither 0 nor at least 1e-30, a negative
            ``n_tokens``, a generator that is missing or on another device, a ``top_k``, ``top_p``, ``end`` or
            ``lengths`` out of range; from the model, as ``tokens``, for a prompt that is empty or has another
            dtype or shape.

    Example:
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> new = generate(model, torch.tensor([[1, 2, 3]]), 4, generator=torch.Generator().manual_seed(0))
        >>> new.shape
        torch.Size([1, 4])
        >>> generate(model, torch.tensor([[1, 2, 3], [4, 0, 0]]), 4, temperature=0, lengths=[3, 1]).shape
        torch.Size([2, 4])
    """
    fits = temperature == 0 or COLDEST <= temperature < math.inf
    require(fits, "temperature", f"{temperature}", f"0 or a finite number, at least {COLDEST}")
    check_tokens(prompt)
    known = range(model.config.vocab_size)
    require(n_tokens >= 0, "n_tokens", str(n_tokens), "at least 0")
    require(top_k is None or top_k >= 1, "top_k", str(top_k), "at least 1")
    require(top_p is None or 0 < top_p <= 1, "top_p", str(top_p), "above 0 and at most 1")
    require(end is None or end in known, "end", str(end), f"from 0 to {known[-1]}")
    draws = generator is not None or temperature == 0
    require(draws, "generator", "None", "a torch.Generator, or temperature 0")
    here, there = prompt.device, prompt.device if generator is None else generator.device
    require(here.type == there.type, "generator", f"one on {there}", f"the device of prompt, {here}")
    new = prompt.new_full((prompt.shape[0], n_tokens), 0 if end is None else end, dtype=torch.int64)
    going = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)
    lengths = [prompt.shape[1]] * len(prompt) if lengths is None else lengths
    groups: Groups = []
    with decoding(model):
        for t in range(n_tokens):
            logits, groups = step(model, new[:, t - 1], groups) if t else prefill(model, prompt, lengths)
            chosen = _choose_tokens(logits.float(), generator, temperature, top_k, top_p)
            new[:, t] = torch.where(going, chosen, new[:, t])
            if end is not None:
                going = going & (chosen != end)
                if not going.any():
                    break
    return new


def _choose_tokens(
    logits: Float[Tensor, "B vocab"],
    generator: torch.Generator | None,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> Int[Tensor, " B"]:
    """Return a token for each row, as ``generate`` says."""
    if temperature == 0:
        return logits.argmax(-1)
    probabilities = (logits / temperature).softmax(-1)
    if top_k is not None or top_p is not None:
        ordered, order = probabilities.sort(-1, descending=True)
        ordered = ordered[:, :top_k] / ordered[:, :top_k].sum(-1, keepdim=True)
        likelier = ordered.cumsum(-1) - ordered
        ordered = ordered.masked_fill(likelier >= (1 if top_p is None else top_p), 0)
        probabilities = torch.zeros_like(probabilities).scatter(-1, order[:, :top_k], ordered)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
