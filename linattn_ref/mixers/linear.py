"""Define linear attention with a feature map: no gate, one state that everything is added to."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from linattn_ref.config import ModelConfig, Options, check_positive
from linattn_ref.mixers.base import (
    Mixer,
    Projections,
    check_rotation,
    merge_heads,
    number_tokens,
    split_heads,
)
from linattn_ref.mixers.equation import StateEquation, dot, outer, ratio
from linattn_ref.mixers.parts import HeadNorm, with_ones
from linattn_ref.ops.feature_maps import FEATURE_MAPS
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require


@dataclass(frozen=True)
class LinearOptions(Options):
    """Choose feature map, normaliser and positions of linear attention.

    Args:
        feature_map: a name in ``ops.FEATURE_MAPS``; default "elu_plus_one", elu(x) + 1.
        normaliser: "denominator" divides by the sum of the scores (default, as published), "norm"
            normalises the output of each head (as later models do).
        positions: "none" (default), or with "norm" also "rope", which turns the features. Sinusoids are
            added to the embeddings unless the features turn: see ``ModelConfig.sinusoidal``.
        rope_base: base of the speeds of rotation, see ``ops.rotate``; default 10,000.

    Raises:
        ValueError: for an unknown name, rotation with a denominator, or a base that is not a finite number
            above 0.
    """

    feature_map: str = "elu_plus_one"
    normaliser: Literal["denominator", "norm"] = "denominator"
    positions: Literal["rope", "none"] = "none"
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "rope_base")
        known = self.feature_map in FEATURE_MAPS
        require(known, "feature_map", repr(self.feature_map), f"one of {sorted(FEATURE_MAPS)}")
        sums = self.positions == "rope" and self.normaliser == "denominator"
        require(not sums, "positions", "'rope'", "'none' with a denominator: turned features may be negative")


class LinearMixer(Mixer):
    """Mix tokens by linear attention with a feature map (Katharopoulos et al. 2020, arXiv 2006.16236).

        S_t = S_{t-1} + phi(k_t)^T [v_t, 1]
        [n_t, d_t] = phi(q_t) S_t
        o_t = n_t / (d_t + 1e-6)

    Gate: 1. Write: ``phi(k)^T [v, 1]``. Read: ``phi(q) S``, divided by the sum of the scores
    (``normaliser="denominator"``, as published) or RMS-normalised per head with a learned gain (``"norm"``,
    as in RetNet; TransNormerLLM normalises all heads together, without a gain). State: the matrix S of each
    head, with one more column for the denominator. With "norm", positions may also be "rope", applied to
    the features; turned features are not positive, so that a denominator would be no sum of weights.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K', V + 1] (V with
    "norm"; K' the width of the features) in float32 and the number of tokens so far.

    Args:
        config: sizes of the model, and ``LinearOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for rotation of features of odd width.

    Source:
        arXiv 2006.16236, sections 3.2 to 3.4; 1e-6 is the released code's.

    Example:
        >>> import torch
        >>> mixer = LinearMixer(ModelConfig("linear", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 17]))
    """

    options_class = LinearOptions
    equation = StateEquation(
        gate=lambda: 1,
        write=lambda k, v: outer(k, with_ones(v)),
        read=lambda q, S: ratio(dot(q, S)),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(config, compute_feature_width(config))
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        norm = config.options.normaliser == "norm"
        self.norm = HeadNorm(config.head_dim, config.norm_eps) if norm else None

    def project(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Projections, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start, options = past or 0, self.config.options
        phi = FEATURE_MAPS[options.feature_map].apply
        q, k = phi(q).to(v.dtype), phi(k).to(v.dtype)  # on a GPU, autocast computes exp in float32
        if options.positions == "rope":
            t = number_tokens(x, start)
            q, k = (rotate(z, t, options.rope_base) for z in (q, k))
        return {"q": q, "k": k, "v": v}, start + x.shape[1]

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        op = self.ops.chunk_linear_attention
        if self.norm is None:
            return normalised(op, z["q"], z["k"], z["v"], initial_state=S)
        return op(z["q"], z["k"], z["v"], initial_state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(o if self.norm is None else self.norm(o)))

    @classmethod
    def adds_sinusoids(cls, config: ModelConfig) -> bool:
        return config.options.positions == "none"

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return compute_feature_width(config), config.head_dim + (config.options.normaliser == "denominator")


def compute_feature_width(config: ModelConfig) -> int:
    """Return the width of the features of a head."""
    return FEATURE_MAPS[config.options.feature_map].width(config.head_dim)
