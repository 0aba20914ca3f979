"""What every token mixer is: x in, (y, state) out, the same call for training, prefill and decoding."""

from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from linattn_ref.backend import ops_of
from linattn_ref.config import ModelConfig
from linattn_ref.ops.shapes import Float, Tensor

State = tuple[Any, ...]
Quantities = dict[str, Any]


class Row(NamedTuple):
    """A mixer's row of the table: what it puts into S_t = G_t o S_{t-1} + W_t, o_t = read(q_t, S_t).

    ``gate``, ``write`` and ``read`` are Python over the mixer's ``quantities``, with ``G`` the gate, ``S``
    the states after each token, ``S_past`` those before it, and a few functions; the tests evaluate them.
    ``gating`` says how a gate acts: "times", element by element, or "matrix".
    """

    gate: str
    write: str
    read: str
    learned: str
    gating: str = "times"


class Mixer(nn.Module):
    """Interface of all mixers; final classes only, nobody overrides a concrete mixer.

    ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``. A state is a tuple; None starts a sequence.
    A mixer says in ``quantities`` what it makes of x, in ``mix`` which op that goes to, and in ``finish``
    what becomes of the result. ``shared`` and ``front`` are modules that belong to the model, see there.
    """

    row: ClassVar[Row | None] = None
    default_positions = "none"  # where the configuration names none
    state_in_float32 = True  # else the state has the dtype of the activations
    decoding = False  # then a state may be used up by the call it is given to: see ``model.decoding``
    needs: ClassVar[str] = "chunk_linear_attention"  # the op that a backend must have
    out: nn.Linear

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__()
        if not config.positions:
            config = replace(config, positions=self.default_positions)  # type: ignore[arg-type]
        self.config, self.layer = config, layer
        if config.positions == "rope" and not self.rotates(config):
            raise ValueError(f"positions: got 'rope' with {config.mixer}, which does not rotate")
        if not hasattr(ops_of(config.backend), self.needs):  # fails here, not in the first forward pass
            raise ValueError(
                f"backend: got {config.backend!r}, which has no {self.needs}, expected 'reference' "
                f"for {config.mixer!r}"
            )

    @property
    def ops(self) -> ModuleType:
        """The ops of the configured backend. Looked up, not kept: a module cannot be copied or pickled."""
        return ops_of(self.config.backend)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        S, past = (None, None) if state is None else state
        z, past = self.quantities(x, past)
        o, S = self.mix(z, S)
        return self.out(self.finish(o, z)), (S, past)

    def quantities(self, x: Float[Tensor, "B T D"], past: Any) -> tuple[Quantities, Any]:
        """What the row is written in; and what the next call needs of x: a count, or the last tokens."""
        raise TypeError(f"{type(self).__name__} does not define quantities")

    def mix(self, z: Quantities, S: Any) -> tuple[Tensor, Any]:
        """The op: output [B, T, H, V] and state."""
        raise TypeError(f"{type(self).__name__} does not define mix")

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
        """By the backend, in chunks; while decoding, a single token by its step."""
        if self.decoding and q.shape[1] == 1:
            return self.ops.step_linear_attention(q, k, v, log_decay, scale=scale, state=state)
        return self.ops.chunk_linear_attention(q, k, v, log_decay, scale=scale, initial_state=state)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        """Norms and gates between the op and the output projection."""
        return merge_heads(o)

    @classmethod
    def rotates(cls, config: ModelConfig) -> bool:
        """Whether ``positions="rope"`` means something to this mixer."""
        return False

    @classmethod
    def shared_module(cls, config: ModelConfig) -> nn.Module | None:
        """What all layers of a model learn together; it is given to each as ``shared``."""
        return None

    @classmethod
    def front_module(cls, config: ModelConfig) -> nn.Module | None:
        """What a model does to its embeddings before the first layer: ``(x, state) -> (x, state)``."""
        return None

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        """(K, V) of the state of a head, where that is a matrix."""
        return config.head_dim, config.head_dim

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        """Numbers carried beside the matrices: earlier tokens, a running maximum."""
        return 0

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        """Numbers that one layer carries per sequence after ``seq_len`` tokens, counts of tokens aside."""
        K, V = cls.widths(config)
        return config.n_heads * K * V + cls.past_numel(config)

    @classmethod
    def front_numel(cls, config: ModelConfig) -> int:
        """Numbers that the front module carries per sequence."""
        return 0

    @classmethod
    def front_flops(cls, config: ModelConfig, seq_len: int) -> int:
        """Forward FLOPs of the front module on one sequence."""
        return 0

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        """Forward matmul FLOPs of one layer on one sequence, without its ``nn.Linear`` projections."""
        return chunk_flops(seq_len, config.n_heads, *cls.widths(config))


def positions(x: Float[Tensor, "B T D"], start: int) -> Float[Tensor, " T"]:
    """start, start + 1, ... in float32 at least: half precision cannot count beyond 2048."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.arange(start, start + x.shape[1], device=x.device, dtype=dtype)


def check_rotation(config: ModelConfig, width: int) -> None:
    """RoPE turns planes: the width that it works on must be even."""
    if config.positions == "rope" and width % 2:
        raise ValueError(f"positions: got 'rope' for heads of width {width}, expected an even width")


def split_heads(x: Float[Tensor, "B T D"], n_heads: int) -> Float[Tensor, "B T H K"]:
    return x.unflatten(-1, (n_heads, -1))


def merge_heads(x: Float[Tensor, "B T H V"]) -> Float[Tensor, "B T D"]:
    return x.flatten(-2)


def chunk_flops(seq_len: int, n_heads: int, K: int, V: int, chunk_size: int = 64) -> int:
    """Forward matmul FLOPs of ``chunk_linear_attention`` on one sequence; T is filled up to whole chunks.

    Per head: scores 2 T C K, their sum of values 2 T C V, writing and reading the states 2 T K V each.
    """
    C = min(chunk_size, seq_len)
    T = C * -(-seq_len // C)
    return n_heads * (2 * T * C * (K + V) + 4 * T * K * V)
