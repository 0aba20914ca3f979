"""Linear attention with a feature map: no gate, one state that everything is added to."""

from torch import nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import (
    Mixer,
    Quantities,
    Row,
    check_rotation,
    merge_heads,
    positions,
    split_heads,
)
from linattn_ref.mixers.parts import HeadNorm, with_ones
from linattn_ref.ops.feature_maps import FEATURE_MAPS
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor


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
    row = Row("1", "outer(k, v1)", "ratio(dot(q, S))", "nothing")

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(self.config, feature_width(config))
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps) if config.normaliser == "norm" else None

    def quantities(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Quantities, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start = past or 0
        phi = FEATURE_MAPS[self.config.feature_map].apply
        q, k = phi(q).to(v.dtype), phi(k).to(v.dtype)  # on a GPU, autocast computes exp in float32
        if self.config.positions == "rope":
            t = positions(x, start)
            q, k = (rotate(z, t, self.config.rope_base) for z in (q, k))
        return {"q": q, "k": k, "v": v, "v1": with_ones(v)}, start + x.shape[1]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        op = self.ops.chunk_linear_attention
        if self.norm is None:
            return normalised(op, z["q"], z["k"], z["v"], initial_state=S)
        return op(z["q"], z["k"], z["v"], initial_state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(o if self.norm is None else self.norm(o))

    @classmethod
    def rotates(cls, config: ModelConfig) -> bool:
        return config.normaliser == "norm"

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return feature_width(config), config.head_dim + (config.normaliser == "denominator")


def feature_width(config: ModelConfig) -> int:
    return FEATURE_MAPS[config.feature_map].width(config.head_dim)
