"""Linear attention with a feature map: no gate, one state that everything is added to."""

from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import (
    Mixer,
    State,
    check_rotation,
    chunk_flops,
    merge_heads,
    positions,
    split_heads,
)
from linattn_ref.ops.feature_maps import FEATURE_MAPS
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import rotate
from linattn_ref.shapes import Float, Tensor


class LinearMixer(Mixer):
    """Kernelised linear attention (Katharopoulos et al. 2020, arXiv 2006.16236).

    Gate: 1. Write: phi(k)^T v. Read: phi(q) S, divided by the sum of the scores
    (``normaliser="denominator"``, as published) or RMS-normalised per head with a learned gain
    (``"norm"``, as in RetNet; TransNormerLLM normalises all heads together, without a gain). State: the
    matrix S of each head, with one more column for the denominator. With "norm", positions may also be
    "rope", applied to the features; rotated features are not positive, so that a denominator would be no
    sum of weights.
    """

    default_positions = "sinusoidal"

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, layer)
        if config.positions == "rope" and config.normaliser == "denominator":
            raise ValueError(
                "positions: got 'rope' with normaliser 'denominator', expected normaliser 'norm'"
            )
        check_rotation(self.config, feature_width(config))
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.norm = nn.RMSNorm(config.head_dim, config.norm_eps) if config.normaliser == "norm" else None

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        S, start = (None, 0) if state is None else state
        phi = FEATURE_MAPS[self.config.feature_map].apply
        q, k = phi(q).to(v.dtype), phi(k).to(v.dtype)  # on a GPU, autocast computes exp in float32
        if self.config.positions == "rope":
            t = positions(x, start)
            q, k = (rotate(z, t, self.config.rope_base) for z in (q, k))
        op = self.ops.chunk_linear_attention
        if self.norm is None:
            o, S = normalised(op, q, k, v, initial_state=S)
        else:
            o, S = op(q, k, v, initial_state=S)
            o = self.norm(o.to(self.norm.weight.dtype))  # under autocast, o is half and the gain is not
        return self.out(merge_heads(o)), (S, start + x.shape[1])

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.n_heads * feature_width(config) * value_width(config)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return chunk_flops(seq_len, config.n_heads, feature_width(config), value_width(config))


def feature_width(config: ModelConfig) -> int:
    return FEATURE_MAPS[config.feature_map].width(config.head_dim)


def value_width(config: ModelConfig) -> int:
    return config.head_dim + (config.normaliser == "denominator")
