"""Define ``Mixer``, the base class of all token mixers, and small functions that several of them use."""

from types import ModuleType
from typing import Any, ClassVar

import torch
from torch import nn

from linattn_ref.backend import load_ops
from linattn_ref.config import ModelConfig, Options
from linattn_ref.mixers.equation import StateEquation
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

State = tuple[Any, ...]  # what a mixer carries from call to call: (S, past), or a KVCache
Projections = dict[str, Any]  # what ``project`` makes of x, by name; "gate" is the output gate, not G


class Mixer(nn.Module):
    """Mix the tokens of a sequence: the interface of all mixers.

    ``mixer(x, state=None) -> (y, state)`` with x and y [B, T, D]; None starts a sequence. The same call
    trains, prefills and decodes. A mixer defines three steps, ``project``, ``mix`` and ``output``::

        z, past = project(x, past)       # queries, keys, values, gates; what the next call needs of x
        o, S    = mix(z, S)              # one op
        y       = output(o, z)           # norm, output gate, output projection

    The state is the tuple ``(S, past)``: S is what the op carries, ``past`` what ``project`` carries: the
    number of tokens so far, the last few inputs, or None. Softmax attention alone defines ``forward``
    instead; its state is its cache.

    A mixer states in ``equation`` what the steps mean as gate, write and read, and names the class of its
    options in ``options_class``. Its output projection is called ``out``: by this name the model finds the
    matrix and starts it smaller. The mixers here derive from this class alone, never from each other.

    Args:
        config: the configuration of the model; a mixer reads its sizes, ``backend`` and ``options``.
        layer: the number of its block, 0..L-1.
        shared: the module that all layers share, if ``shared_module`` makes one.

    Raises:
        ValueError: if ``config.options`` are another mixer's, or the backend lacks the op that the mixer
            needs.
    """

    options_class: ClassVar[type[Options]] = Options  # the frozen dataclass of its options
    equation: ClassVar[StateEquation | None] = None  # None where there is none: softmax attention
    needs: ClassVar[str] = "chunk_linear_attention"  # the op that a backend must have
    state_in_float32: ClassVar[bool] = True  # in float32 at least; else in the dtype of the activations
    spared: ClassVar[tuple[str, ...]] = ()  # names of own parameters, see ``find_spared_parameters``
    decoding = False  # whether single tokens go through step ops, which may overwrite their state
    out: nn.Linear  # the output projection

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__()
        self.config, self.layer = config, layer
        own = type(config.options) is self.options_class
        require(own, "config.options", repr(config.options), self.options_class.__name__)
        known = hasattr(load_ops(config.backend), self.needs)  # raise here, not in the first forward pass
        came = f"{config.backend!r}, which has no {self.needs}"
        require(known, "backend", came, f"'reference' for {config.mixer!r}")

    @property
    def ops(self) -> ModuleType:
        """Return the ops of the configured backend, looked up anew: a module cannot be copied or pickled."""
        return load_ops(self.config.backend)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return y [B, T, D] and the state after the last token."""
        S, past = (None, None) if state is None else state
        z, past = self.project(x, past)
        o, S = self.mix(z, S)
        return self.output(o, z), (S, past)

    def project(self, x: Float[Tensor, "B T D"], past: Any) -> tuple[Projections, Any]:
        """Return z, the quantities of the equation and the output gate, and ``past`` for the next call."""
        raise TypeError(f"{type(self).__name__} does not define project")

    def mix(self, z: Projections, S: Any) -> tuple[Tensor, Any]:
        """Return the output o and the state S of the op."""
        raise TypeError(f"{type(self).__name__} does not define mix")

    def output(self, o: Tensor, z: Projections) -> Float[Tensor, "B T D"]:
        """Return y: norm and output gate, where there are any, then the output projection."""
        return self.out(merge_heads(o))

    def linear_attention(
        self,
        q: Float[Tensor, "B T H K"],
        k: Float[Tensor, "B T H K"],
        v: Float[Tensor, "B T H V"],
        log_decay: Tensor | None = None,
        *,
        scale: float | None = None,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Run linear attention: by a step for one token while ``decoding``, else in chunks."""
        if self.decoding and q.shape[1] == 1:
            return self.ops.step_linear_attention(q, k, v, log_decay, scale=scale, state=state)
        return self.ops.chunk_linear_attention(q, k, v, log_decay, scale=scale, initial_state=state)

    @classmethod
    def adds_sinusoids(cls, config: ModelConfig) -> bool:
        """Return whether a model with this mixer was published with sinusoids added to its embeddings."""
        return False

    @classmethod
    def shared_module(cls, config: ModelConfig) -> nn.Module | None:
        """Return the module that all layers of a model share and get as ``shared``, or None."""
        return None

    @classmethod
    def front_module(cls, config: ModelConfig) -> nn.Module | None:
        """Return the module before the first layer, ``(embeddings, state) -> (x, state)``, or None."""
        return None

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        """Return (K, V), the shape of the state of a head, for mixers where that is a matrix."""
        return config.head_dim, config.head_dim

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        """Return how many numbers a layer carries beside those: earlier tokens, a running maximum."""
        return 0

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        """Return how many numbers a layer carries per sequence after ``seq_len`` tokens.

        The number of tokens so far, which some states have, is not counted.
        """
        K, V = cls.widths(config)
        return config.n_heads * K * V + cls.past_numel(config)

    @classmethod
    def front_numel(cls, config: ModelConfig) -> int:
        """Return how many numbers the front module carries per sequence."""
        return 0

    @classmethod
    def front_flops(cls, config: ModelConfig, seq_len: int) -> int:
        """Return the forward FLOPs of the front module on one sequence."""
        return 0

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        """Return the forward matmul FLOPs of a layer on one sequence, its ``nn.Linear`` layers left out."""
        return count_chunk_flops(seq_len, config.n_heads, *cls.widths(config))


def number_tokens(x: Float[Tensor, "B T D"], start: int) -> Float[Tensor, " T"]:
    """Return start, start + 1, ... in float32 at least: half precision cannot count beyond 2048."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.arange(start, start + x.shape[1], device=x.device, dtype=dtype)


def check_rotation(config: ModelConfig, width: int) -> None:
    """Raise a ``ValueError`` if RoPE is chosen for heads of odd width: it turns pairs of channels."""
    if config.options.positions == "rope" and width % 2:
        raise ValueError(f"positions: got 'rope' for heads of width {width}, expected an even width")


def split_heads(x: Float[Tensor, "B T D"], n_heads: int) -> Float[Tensor, "B T H K"]:
    """Return the channels of x, shared out among ``n_heads`` heads."""
    return x.unflatten(-1, (n_heads, -1))


def merge_heads(x: Float[Tensor, "B T H V"]) -> Float[Tensor, "B T D"]:
    """Return the channels of all heads side by side."""
    return x.flatten(-2)


def count_chunk_flops(seq_len: int, n_heads: int, K: int, V: int, chunk_size: int = 64) -> int:
    """Return the forward matmul FLOPs of ``chunk_linear_attention`` on one sequence.

    T is filled up to whole chunks. Per head: scores 2 T C K, their sum of values 2 T C V, writing and
    reading the states 2 T K V each.
    """
    C = min(chunk_size, seq_len)
    T = C * -(-seq_len // C)
    return n_heads * (2 * T * C * (K + V) + 4 * T * K * V)
