"""Define HGRN2: a forget gate per channel, bounded from below, and no key but what the gate forgets."""

from typing import ClassVar

import torch
from torch import nn, sigmoid
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import upcast
from linattn_ref.ops.shapes import Float, Tensor


class LayerBounds(nn.Module):
    """Learn the lower bounds of the gates of all layers: a softmax over layers, summed up from the bottom.

        bound_l = sum_{0 < m <= l} softmax over layers(logits)_m

    bound_0 = 0, growing with depth, below 1. The plain cumulative sum that is printed gives the top layer a
    bound of 1, so f = 1 and k = 0: a dead layer. The released code subtracts the first row, and so do we.

    Args:
        n_layers: L.
        width: D, a bound for every channel.

    Source:
        arXiv 2406.16690, equation 12 (the plain sum); the released code.

    Example:
        >>> bounds = LayerBounds(n_layers=4, width=1)
        >>> [bounds(layer).item() for layer in range(4)]
        [0.0, 0.25, 0.5, 0.75]
    """

    spared: ClassVar = ("logits",)

    def __init__(self, n_layers: int, width: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_layers, width))

    def forward(self, layer: int) -> Float[Tensor, " D"]:
        """Return the bound of a layer [D], in float32 at least."""
        share = upcast(self.logits).softmax(0)
        return share[1 : layer + 1].sum(0)


class HGRN2Mixer(Mixer):
    """Mix tokens by HGRN2's gated recurrence (Qin et al. 2024, arXiv 2404.07904).

        f_t = x_t W_f,  q_t = silu(x_t W_q)
        alpha_t = gamma + (1 - gamma) sigmoid(f_t) per channel of the state
        S_t = Diag(alpha_t) S_{t-1} + (1 - alpha_t)^T v_t,  o_t = q_t S_t
        y = RMSNorm(o) W_o

    Gate: ``alpha_t``, never below ``gamma``, the bound of the layer. Write: ``(1 - alpha)^T v``: the key is
    what the gate forgets. Read: ``q S``. No scale; RMSNorm over all heads after attention. Activations
    differ between sources and the scaling study prints none; as in FLA, ``q`` has a SiLU and ``v`` has none.
    The gate is kept in logs, and the key as ``(1 - gamma) sigmoid(-f)``: computed as ``1 - exp(log alpha)``
    it would be lost in float32.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] in float32
    and None.

    Args:
        config: sizes of the model; no options.
        layer: number of its block, from 0: which bound it has.
        shared: the ``LayerBounds`` of the model; None: it makes its own.

    Source:
        arXiv 2404.07904; arXiv 2406.16690, equations 12 and 13.

    Example:
        >>> mixer = HGRN2Mixer(ModelConfig("hgrn2", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]))
    """

    equation = StateEquation(
        gate=lambda bound, f: bound + (1 - bound) * sigmoid(f),
        write=lambda G, v: outer(1 - G, v),
        read=lambda q, S: dot(q, S),
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
            object.__setattr__(self, "bounds", shared)  # a submodule of the model, so not one of this layer

    def project(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Projections, None]:
        q, f, v = (split_heads(z, self.config.n_heads) for z in self.qfv(x).chunk(3, -1))
        bound = self.bounds(self.layer).unflatten(0, (self.config.n_heads, -1))  # [H, K]
        # f here is x W_f, before the sigmoid
        return {"q": silu(q), "f": upcast(f), "v": v, "bound": bound}, None

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        f, bound, v = z["f"], z["bound"], z["v"]
        log_decay = logsigmoid(f)
        if self.layer > 0:  # at the bottom the bound is 0, and log 0 has no gradient
            log_decay = torch.logaddexp(bound.log(), torch.log1p(-bound) + log_decay).clamp(max=0)
        k = (1 - bound) * torch.sigmoid(-f)
        return self.linear_attention(z["q"], k.to(v.dtype), v, log_decay, scale=1.0, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(self.norm(merge_heads(o).to(self.norm.weight.dtype)))

    @classmethod
    def shared_module(cls, config: ModelConfig) -> nn.Module | None:
        return LayerBounds(config.n_layers, config.d_model)
