"""cosFormer: ReLU features, re-weighted by the cosine of the distance."""

import torch
from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, positions, split_heads
from linattn_ref.mixers.parts import with_ones
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import cos_reweight
from linattn_ref.ops.shapes import Float, Tensor


class CosformerMixer(Mixer):
    """cosFormer (Qin et al. 2022, arXiv 2202.08791), causal.

    Gate: 1. Write: k'^T v with k' = [relu(k) cos a_t, relu(k) sin a_t]. Read: q' S, divided by the sum of the
    scores (the published code clamps that at 1e-6, we add 1e-6). State: 2 K x (V + 1) numbers a head.
    M is ``config.max_length``; the published code uses the current length, which cannot be streamed.
    """

    row = Row("1", "outer(k, v1)", "ratio(dot(q, S))", "nothing")

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Quantities, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start = past or 0
        if start + x.shape[1] > self.config.max_length:
            raise ValueError(
                f"max_length: got {start + x.shape[1]} tokens, expected at most {self.config.max_length}"
            )
        t = positions(x, start)
        q, k = (cos_reweight(torch.relu(z), t, self.config.max_length) for z in (q, k))
        return {"q": q, "k": k, "v": v, "v1": with_ones(v)}, start + x.shape[1]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return normalised(self.ops.chunk_linear_attention, z["q"], z["k"], z["v"], initial_state=S)

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return 2 * config.head_dim, config.head_dim + 1
