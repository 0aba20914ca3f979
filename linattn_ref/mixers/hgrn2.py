"""HGRN2: a forget gate per channel, bounded from below, and no key but what the gate forgets."""

import torch
from torch import nn
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import special, wide
from linattn_ref.ops.shapes import Float, Tensor


class LayerBounds(nn.Module):
    """The lower bounds of the gates of all layers: a softmax over layers, summed up from the bottom.

    bound_0 = 0, growing with depth, below 1. The plain cumulative sum that is printed (arXiv 2406.16690, eq.
    12) gives the top layer a bound of 1, so f = 1 and k = 0: a dead layer. The released code subtracts the
    first row, and so do we.
    """

    def __init__(self, n_layers: int, width: int) -> None:
        super().__init__()
        self.logits = special(torch.zeros(n_layers, width))

    def forward(self, layer: int) -> Float[Tensor, " D"]:
        share = wide(self.logits).softmax(0)
        return share[1 : layer + 1].sum(0)


class HGRN2Mixer(Mixer):
    """HGRN2 (Qin et al. 2024, arXiv 2404.07904; arXiv 2406.16690, eqs. 12-13).

    f = bound + (1 - bound) sigmoid(x W_f), one number per channel of the state; the key is 1 - f. No scale;
    RMSNorm over all heads after attention. Activations differ between sources and the study prints none; as
    in FLA, q has a SiLU and v has none. The gate is kept in logs, and the key as (1 - bound) sigmoid(-x W_f):
    1 - exp(log f) would lose it in float32.
    """

    row = Row(
        gate="bound + (1 - bound) * sigmoid(f)",
        write="outer(1 - G, v)",
        read="dot(q, S)",
        learned="W_f [D, D], bound [D] of every layer",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qfv = nn.Linear(D, 3 * D, bias=False)
        self.norm = nn.RMSNorm(D, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)
        if shared is None:
            self.bounds = LayerBounds(config.n_layers, D)
        else:
            object.__setattr__(self, "bounds", shared)  # the model's, so not a part of this layer

    def quantities(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Quantities, None]:
        q, f, v = (split_heads(z, self.config.n_heads) for z in self.qfv(x).chunk(3, -1))
        bound = self.bounds(self.layer).unflatten(0, (self.config.n_heads, -1))  # [H, K]
        return {"q": silu(q), "f": wide(f), "v": v, "bound": bound}, None

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        f, bound, v = z["f"], z["bound"], z["v"]
        log_decay = logsigmoid(f)
        if self.layer > 0:  # at the bottom the bound is 0, and log 0 has no gradient
            log_decay = torch.logaddexp(bound.log(), torch.log1p(-bound) + log_decay).clamp(max=0)
        k = (1 - bound) * torch.sigmoid(-f)
        return self.linear_attention(z["q"], k.to(v.dtype), v, log_decay, scale=1.0, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return self.norm(merge_heads(o).to(self.norm.weight.dtype))

    @classmethod
    def shared_module(cls, config: ModelConfig) -> nn.Module | None:
        return LayerBounds(config.n_layers, config.d_model)
