"""Define softmax attention with rotary positions."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from linattn_ref.config import ModelConfig, Options, check_positive
from linattn_ref.mixers.base import Mixer, State, check_rotation, merge_heads, number_tokens, split_heads
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    """Choose the positions of softmax attention.

    Args:
        positions: "rope" turns queries and keys by their positions (default), "none" does not.
        rope_base: base of the speeds of rotation, see ``ops.rotate``; default 10,000.

    Raises:
        ValueError: for positions that are neither, or a base that is not a finite number above 0.
    """

    positions: Literal["rope", "none"] = "rope"
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "rope_base")


class SoftmaxMixer(Mixer):
    """Mix tokens by causal multi-head softmax attention, as in LLaMA (Vaswani et al. 2017, arXiv 1706.03762).

        o_t = sum_{s <= t} softmax_s(q_t k_s / sqrt K) v_s

    Gate: none. Write: keep k and v. Read: softmax over all keys kept. State: the KV cache, ``2 T D`` numbers,
    its keys already rotated. No biases, no grouped heads.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state a ``KVCache`` of k and v
    [B, S, H, K] in x's dtype.

    Args:
        config: sizes of the model, and ``SoftmaxOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for rotation of heads of odd width.

    Source:
        arXiv 1706.03762, equation 1; arXiv 2302.13971 (LLaMA), section 2.2.

    Example:
        >>> import torch
        >>> mixer = SoftmaxMixer(ModelConfig("softmax", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state.k.shape
        (torch.Size([1, 5, 32]), torch.Size([1, 5, 2, 16]))
    """

    options_class = SoftmaxOptions
    needs = "chunk_softmax_attention"
    state_in_float32 = False

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(config, config.head_dim)
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return y [B, T, D] and the cache with the keys and values of x appended."""
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        if self.config.options.positions == "rope":
            t = number_tokens(x, 0 if state is None else state[0].shape[1])
            q, k = (rotate(z, t, self.config.options.rope_base) for z in (q, k))
        v = v.contiguous()  # else the cache would keep the whole of qkv alive
        if self.decoding and x.shape[1] == 1:
            o, cache = self.ops.step_softmax_attention(q, k, v, state=state)
            return self.out(merge_heads(o)), cache
        # on a CPU one large product is faster than many tiles, which is what kernels are made of
        tiled = self.config.backend == "triton"
        op = self.ops.chunk_softmax_attention if tiled else self.ops.parallel_softmax_attention
        o, cache = op(q, k, v, initial_state=state)
        return self.out(merge_heads(o)), cache

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return 2 * seq_len * config.d_model

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 4 * seq_len**2 * config.d_model  # scores and weighted values, the masked half included
