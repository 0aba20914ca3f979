"""Define cosFormer: ReLU features, re-weighted by the cosine of the distance."""

from dataclasses import dataclass

import torch
from torch import nn

from linattn_ref.config import ModelConfig, Options, check_at_least
from linattn_ref.mixers.base import Mixer, Projections, number_tokens, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer, ratio
from linattn_ref.mixers.parts import with_ones
from linattn_ref.ops.linear import normalised
from linattn_ref.ops.position import cos_reweight
from linattn_ref.ops.shapes import Float, Tensor


@dataclass(frozen=True)
class CosformerOptions(Options):
    """Choose the longest sequence of cosFormer.

    Args:
        max_length: M, tokens that a sequence may have; longer ones raise; default 8192.

    Raises:
        ValueError: for a length below 1.
    """

    max_length: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "max_length")


class CosformerMixer(Mixer):
    """Mix tokens by causal cosFormer attention (Qin et al. 2022, arXiv 2202.08791).

        q'_t = [relu(q_t) cos a_t, relu(q_t) sin a_t],  a_t = pi t / (2 M), the same for k'
        S_t = S_{t-1} + k'_t^T [v_t, 1]
        [n_t, d_t] = q'_t S_t
        o_t = n_t / (d_t + 1e-6)

    Gate: 1. Write: ``k'^T [v, 1]``. Read: ``q' S``, divided by the sum of the scores (the published code
    clamps that at 1e-6, we add 1e-6). The state has ``2 K (V + 1)`` numbers a head. A score has the factor
    ``cos(pi (t - s) / (2 M))``. ``M`` is the option ``max_length``; the published code uses the current
    length, which cannot be streamed.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, 2 K, V + 1] in
    float32 and the number of tokens so far.

    Args:
        config: sizes of the model, and ``CosformerOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: when called, for tokens beyond ``max_length``.

    Source:
        arXiv 2202.08791, section 3; released code.

    Example:
        >>> mixer = CosformerMixer(ModelConfig("cosformer", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 32, 17]))
    """

    options_class = CosformerOptions
    equation = StateEquation(
        gate=lambda: 1,
        write=lambda k, v: outer(k, with_ones(v)),
        read=lambda q, S: ratio(dot(q, S)),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Projections, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start, M = past or 0, self.config.options.max_length
        if start + x.shape[1] > M:
            raise ValueError(
                f"max_length: got {start + x.shape[1]} tokens, expected at most {M}, the option of the mixer"
            )
        t = number_tokens(x, start)
        q, k = (cos_reweight(torch.relu(z), t, M) for z in (q, k))
        return {"q": q, "k": k, "v": v}, start + x.shape[1]

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return normalised(self.ops.chunk_linear_attention, z["q"], z["k"], z["v"], initial_state=S)

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return 2 * config.head_dim, config.head_dim + 1
