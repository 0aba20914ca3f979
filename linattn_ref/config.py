"""Describe a model: ``ModelConfig``, ``Options`` (the base class of a mixer's options), the paper's sizes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from linattn_ref.ops.validation import require


@dataclass(frozen=True)
class Options:
    """Hold the options of one mixer: the base class, which has none.

    A mixer with options defines a subclass in its own file. This class checks the fields that are annotated
    ``Literal[...]``. A subclass checks its numbers in its own ``__post_init__``, after
    ``super().__post_init__()``.

    Raises:
        ValueError: for a value that is not among those of its ``Literal``.

    Example:
        >>> from linattn_ref.mixers import TNLOptions
        >>> TNLOptions(decay="printed")
        TNLOptions(decay='printed', form='tnl', head_dim=0)
    """

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class ModelConfig:
    """Describe a decoder-only language model: width, depth, and a token mixer with its own options.

    A config is frozen, hashable, comparable and picklable; ``dataclasses.replace`` gives a changed one (with
    another ``mixer``, pass ``options=None`` as well). ``ModelConfig(**dataclasses.asdict(config)) ==
    config``.

    Args:
        mixer: a name in ``linattn_ref.mixers.MIXERS``; default "softmax".
        d_model: width D, a multiple of ``n_heads``; default 128.
        n_layers: number of blocks L; default 2.
        n_heads: number of heads H; a head has width D / H, unless the mixer says otherwise; default 4.
        vocab_size: number of tokens in the vocabulary; default 256, one for each byte.
        options: the options of the mixer: an object of the mixer's ``options_class``, a mapping of names to
            values, or None for the defaults. It is always an object of that class once the config is made.
        softmax_every: n > 0 makes a hybrid: blocks number n, 2 n, ... have softmax attention instead of
            ``mixer``; default 0, none has.
        softmax_options: the options of softmax attention in a hybrid, as ``options`` are given; default None,
            the defaults, so with rotary positions. Only a hybrid has them.
        sinusoidal: whether sinusoids of the position are added to the embeddings; default None: as the
            mixer was published (linear attention without rotation: yes; all others: no).
        d_ff: hidden width of the MLP; default 0, which means 8 D / 3, rounded up to a multiple of 32.
        mlp: what follows the mixer in a block: "gated", the gated MLP (default), "channel_mix", which also
            sees the token before, as in RWKV-4, or "none", as in Mamba's published models.
        n_experts: E > 0 puts E gated MLPs in the place of one, of which a router chooses
            ``experts_per_token`` for every token; default 0, one MLP for all.
        experts_per_token: how many; default 1. Only with experts.
        shared_ff: hidden width of one more expert, which every token has; default 0, there is none.
        norm: before mixers and MLPs, and after the last block: "rms", RMSNorm (default), or "layer",
            LayerNorm.
        norm_eps: epsilon of every norm; default 1e-6.
        activation: of the gated MLP: "silu" (SwiGLU, the default) or "none" (SGLU).
        residual: r > 0 adds what a mixer or an MLP gives to r times its *normed* input, as MiniMax does;
            default 0, to the input itself.
        tie_embeddings: whether the output layer is the transposed embedding; default True.
        logit_cap: c > 0 turns logits x into c tanh(x / c), as in xLSTM 7B; default 0, no cap.
        backend: where the ops come from: "reference" (this package, the default) or "triton"
            (``linattn_kernels``).

    Raises:
        ValueError: for a mixer that does not exist, an option that the mixer does not know (the message names
            those that it knows), or a value out of range.

    Example:
        >>> config = ModelConfig("tnl", d_model=64, options={"decay": "printed"})
        >>> config.options, config.head_dim
        (TNLOptions(decay='printed', form='tnl', head_dim=0), 16)
        >>> ModelConfig("gla", options={"decay": "printed"})
        Traceback (most recent call last):
            ...
        ValueError: options: got 'decay' for the mixer 'gla', expected no options
    """

    mixer: str = "softmax"
    d_model: int = 128
    n_layers: int = 2
    n_heads: int = 4
    vocab_size: int = 256
    # once the config is made, an object of the mixer's options class, which is known only at run time
    options: Any = None
    softmax_every: int = 0
    softmax_options: Any = None
    sinusoidal: bool | None = None
    d_ff: int = 0
    mlp: Literal["gated", "channel_mix", "none"] = "gated"
    n_experts: int = 0
    experts_per_token: int = 1
    shared_ff: int = 0
    norm: Literal["rms", "layer"] = "rms"
    norm_eps: float = 1e-6
    activation: Literal["silu", "none"] = "silu"
    residual: float = 0.0
    tie_embeddings: bool = True
    logit_cap: float = 0.0
    backend: Literal["reference", "triton"] = "reference"

    def __post_init__(self) -> None:
        check_at_least(self, 1, "d_model", "n_layers", "n_heads", "vocab_size")
        check_at_least(self, 0, "d_ff", "softmax_every", "n_experts", "shared_ff")
        check_positive(self, "norm_eps")
        check_not_negative(self, "logit_cap", "residual")
        fits = self.d_model % self.n_heads == 0
        require(fits, "d_model", str(self.d_model), f"a multiple of n_heads = {self.n_heads}")
        check_choices(self)
        self._check_experts()
        object.__setattr__(self, "options", _make_options_object(self.mixer, self.options))
        if self.softmax_every:
            object.__setattr__(self, "softmax_options", _make_options_object("softmax", self.softmax_options))
        else:
            none = self.softmax_options is None
            require(none, "softmax_options", repr(self.softmax_options), "None where softmax_every is 0")

    def _check_experts(self) -> None:
        """Raise a ``ValueError`` for a number of experts that cannot be."""
        E, k = self.n_experts, self.experts_per_token
        require(
            E != 1 and (E == 0 or self.mlp == "gated"),
            "n_experts",
            f"{E} with mlp={self.mlp!r}",
            "0, or at least 2 with mlp='gated'",
        )
        check_at_least(self, 1, "experts_per_token")
        require(k <= max(E, 1), "experts_per_token", str(k), f"1 to {max(E, 1)}")
        require(E > 0 or self.shared_ff == 0, "shared_ff", str(self.shared_ff), "0 without experts")

    @property
    def head_dim(self) -> int:
        """The width of a head, D / H. Some mixers have other keys or values, see ``Mixer.widths``."""
        return self.d_model // self.n_heads

    @property
    def ff_width(self) -> int:
        """The hidden width of the MLP: ``d_ff``, or for 0 its default."""
        # -(-a // b) is a / b rounded up
        return self.d_ff or 32 * -(-8 * self.d_model // (3 * 32))

    def of_layer(self, layer: int) -> "ModelConfig":
        """Return the configuration of block ``layer`` (0..L-1); in a hybrid some have softmax attention."""
        if self.softmax_every and (layer + 1) % self.softmax_every == 0:
            own = {"options": self.softmax_options, "softmax_options": None}
            return replace(self, mixer="softmax", softmax_every=0, **own)
        return self


def _make_options_object(mixer: str, given: Any) -> Options:
    """Return ``given``, an options object, a mapping or None, as the options object of ``mixer``."""
    # The mixers import this module, so their registry is imported here, when a config is made.
    options_class = import_module("linattn_ref.mixers").mixer_class(mixer).options_class
    if given is None or isinstance(given, Mapping):
        given = given or {}
        known = [field.name for field in fields(options_class)]
        unknown = ", ".join(repr(name) for name in given if name not in known)
        expected = f"some of {known}" if known else "no options"
        require(not unknown, "options", f"{unknown} for the mixer {mixer!r}", expected)
        return options_class(**given)
    right = type(given) is options_class
    require(
        right, "options", f"{given!r} for the mixer {mixer!r}", f"{options_class.__name__}, a mapping or None"
    )
    return given


def check_choices(config: object) -> None:
    """Raise a ``ValueError`` if a field annotated ``Literal[...]`` has a value that is not listed there."""
    for name, kind in get_type_hints(type(config)).items():
        if get_origin(kind) is Literal:
            value = getattr(config, name)
            require(value in get_args(kind), name, repr(value), f"one of {get_args(kind)}")


def check_at_least(config: object, least: int, *names: str) -> None:
    """Raise a ``ValueError`` if one of the fields ``names`` is not a whole number or is below ``least``."""
    for name in names:
        value = getattr(config, name)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        require(whole and value >= least, name, repr(value), f"a whole number, at least {least}")


def check_positive(config: object, *names: str) -> None:
    """Raise a ``ValueError`` if one of the fields ``names`` is not a finite number above 0."""
    check_not_negative(config, *names)
    for name in names:
        require(getattr(config, name) > 0, name, repr(getattr(config, name)), "a finite number above 0")


def check_not_negative(config: object, *names: str) -> None:
    """Raise a ``ValueError`` if one of the fields ``names`` is not a finite number, 0 or above."""
    for name in names:
        value = getattr(config, name)
        number = isinstance(value, Real) and not isinstance(value, bool)
        require(number and 0 <= value < math.inf, name, repr(value), "a finite number, 0 or above")


# Table 7 of arXiv 2406.16690: layers, width, heads, hidden width of the gated MLP. The 1B row is printed with
# 16 heads and hidden width 5632, but its parameters and FLOPs are those of 12 and 4096. The number of heads
# is width / 128 in all rows here.
PAPER_SIZES: dict[str, tuple[int, int, int, int]] = {
    "70M": (6, 512, 4, 1536),
    "160M": (12, 768, 6, 2048),
    "410M": (26, 1024, 8, 2816),
    "1B": (32, 1536, 12, 4096),
    "3B": (35, 2560, 20, 6912),
    "7B": (32, 4096, 32, 11008),
}
# The paper's name of an architecture -> our name of its mixer.
PAPER_ARCHITECTURES = {"llama": "softmax", "tnl": "tnl", "hgrn2": "hgrn2", "cosformer2": "cosformer2"}
# Layers of TNL and cosFormer2 at 410M, in place of 26: their output gates add parameters, and the paper's
# parameter counts are those of 25 layers.
GATED_LAYERS_AT_410M = 25


def paper_config(architecture: str, size: str) -> ModelConfig:
    """Return the configuration of one model of the scaling study, with 100,280 tokens in its vocabulary.

    LLaMA, our softmax attention, has a SwiGLU MLP; that of the others has no activation. Where the paper's
    tables contradict each other (heads and hidden width at 1B, layers at 410M), the sizes are those that give
    the parameter counts it prints.

    Args:
        architecture: "llama", "tnl", "hgrn2" or "cosformer2".
        size: "70M", "160M", "410M", "1B", "3B" or "7B".

    Returns:
        The ``ModelConfig``.

    Raises:
        ValueError: for an architecture or a size that the paper does not have.

    Source:
        arXiv 2406.16690, Table 7; equations 10, 14 and 18 for the MLP.

    Example:
        >>> config = paper_config("tnl", "160M")
        >>> config.n_layers, config.d_model, config.n_heads, config.ff_width
        (12, 768, 6, 2048)
    """
    known = sorted(PAPER_ARCHITECTURES)
    require(architecture in known, "architecture", f"{architecture!r}", f"one of {known}")
    require(size in PAPER_SIZES, "size", f"{size!r}", f"one of {list(PAPER_SIZES)}")
    n_layers, d_model, n_heads, d_ff = PAPER_SIZES[size]
    if size == "410M" and architecture in ("tnl", "cosformer2"):
        n_layers = GATED_LAYERS_AT_410M
    return ModelConfig(
        PAPER_ARCHITECTURES[architecture],
        d_model,
        n_layers,
        n_heads,
        vocab_size=100_280,
        d_ff=d_ff,
        activation="silu" if architecture == "llama" else "none",
    )
