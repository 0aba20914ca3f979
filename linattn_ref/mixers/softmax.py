"""Softmax attention with rotary positions."""

from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, State, check_rotation, merge_heads, positions, split_heads
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor


class SoftmaxMixer(Mixer):
    """Multi-head causal softmax attention (Vaswani et al. 2017, arXiv 1706.03762) as in LLaMA.

    Gate: none. Write: keep k and v. Read: softmax over all keys kept. State: the KV cache, 2 T D numbers,
    its keys already rotated. No biases, no grouped heads.
    """

    needs = "chunk_softmax_attention"
    default_positions = "rope"
    state_in_float32 = False

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(self.config, config.head_dim)
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        if self.config.positions == "rope":
            t = positions(x, 0 if state is None else state[0].shape[1])
            q, k = (rotate(z, t, self.config.rope_base) for z in (q, k))
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
    def rotates(cls, config: ModelConfig) -> bool:
        return True

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return 2 * seq_len * config.d_model

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 4 * seq_len**2 * config.d_model  # scores and weighted values, the masked half included
