"""RetNet and gated RetNet: rotation and a decay per head, fixed or from the token."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import logsigmoid, silu

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
from linattn_ref.mixers.parts import HeadNorm, wide
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor

TEMPERATURE = 16.0


class RetNetMixer(Mixer):
    """RetNet (Sun et al. 2023, arXiv 2307.08621, equations 5-8).

    gamma_h = 1 - 2^(-5-h), h = 0..H-1, fixed; q and k rotated, scaled by 1/sqrt K; normalised per head, gated
    by silu(x W_g), then W_o. Simplified: values of width D (the paper has 2 D), RMSNorm with a gain where it
    has GroupNorm, no rescaling of scores (the norm behind undoes it).
    """

    row = Row("1 - 2.0 ** (-5 - h)", "outer(k, v)", "dot(q, S) * K ** -0.5", "nothing")
    default_positions = "rope"

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(self.config, config.head_dim)
        D = config.d_model
        self.qkvg = nn.Linear(D, 4 * D, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Quantities, int]:
        h = torch.arange(self.config.n_heads, device=x.device)[:, None]  # [H, 1]
        return {**rotated(self, x, past), "h": h}, (past or 0) + x.shape[1]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(z["q"].dtype, torch.float32)
        log_decay = torch.log1p(-(2.0 ** (-5 - z["h"][:, 0].to(dtype))))
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def rotates(cls, config: ModelConfig) -> bool:
        return True


class GatedRetNetMixer(Mixer):
    """Gated RetNet (Sun et al. 2024, arXiv 2405.05254, YOCO, section 3.1, equation 4).

    RetNet with a decay from the token, gamma_t = sigmoid(x w_gamma)^(1/tau) per head, tau = 16 as in the
    released code; q and k rotated and scaled as there, values of width D. Simplified: RMSNorm with a gain
    where it has GroupNorm.
    """

    row = Row("sigmoid(a) ** (1 / 16)", "outer(k, v)", "dot(q, S) * K ** -0.5", "w_gamma [D, H]")
    default_positions = "rope"

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(self.config, config.head_dim)
        D = config.d_model
        self.qkvg = nn.Linear(D, 4 * D, bias=False)
        self.decay = nn.Linear(D, config.n_heads, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Quantities, int]:
        a = wide(self.decay(x))[..., None]  # [B, T, H, 1]
        return {**rotated(self, x, past), "a": a}, (past or 0) + x.shape[1]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        log_decay = logsigmoid(z["a"][..., 0]) / TEMPERATURE
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def rotates(cls, config: ModelConfig) -> bool:
        return True


def rotated(mixer: Any, x: Float[Tensor, "B T D"], past: int | None) -> Quantities:
    """q, k, v and the output gate of either; q and k turned by their positions."""
    config = mixer.config
    q, k, v, gate = mixer.qkvg(x).chunk(4, -1)
    q, k, v = (split_heads(z, config.n_heads) for z in (q, k, v))
    if config.positions == "rope":
        t = positions(x, past or 0)
        q, k = (rotate(z, t, config.rope_base) for z in (q, k))
    return {"q": q, "k": k, "v": v, "K": config.head_dim, "gate": silu(gate)}
