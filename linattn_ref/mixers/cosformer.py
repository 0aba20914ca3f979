"""cosFormer: ReLU features, re-weighted by the cosine of the distance."""

import torch
from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, State, chunk_flops, merge_heads, positions, split_heads
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import cos_reweight
from linattn_ref.shapes import Float, Tensor


class CosformerMixer(Mixer):
    """cosFormer (Qin et al. 2022, arXiv 2202.08791), causal.

    Gate: 1. Write: k'^T v with k' = [relu(k) cos a_t, relu(k) sin a_t]. Read: q' S, divided by the sum of the
    scores (the published code clamps that at 1e-6, we add 1e-6). State: 2 K x (V + 1) numbers a head.
    M is ``config.max_length``; the published code uses the current length, which cannot be streamed.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, layer)
        if config.positions == "rope":
            raise ValueError("positions: got 'rope' with cosformer, which re-weights by distance itself")
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        S, start = (None, 0) if state is None else state
        if start + x.shape[1] > self.config.max_length:
            raise ValueError(
                f"max_length: got {start + x.shape[1]} tokens, expected at most {self.config.max_length}"
            )
        t = positions(x, start)
        q, k = (cos_reweight(torch.relu(z), t, self.config.max_length) for z in (q, k))
        o, S = normalised(self.ops.chunk_linear_attention, q, k, v, initial_state=S)
        return self.out(merge_heads(o)), (S, start + x.shape[1])

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.n_heads * 2 * config.head_dim * (config.head_dim + 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return chunk_flops(seq_len, config.n_heads, 2 * config.head_dim, config.head_dim + 1)
