"""cosFormer2: no decay at all; positions enter by a cosine per channel, and once before the first layer."""

import torch
from torch import nn
from torch.nn.functional import silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, positions, split_heads
from linattn_ref.mixers.parts import LowRank, simple_rms, wide
from linattn_ref.ops.inputs import no_autocast
from linattn_ref.ops.lti import causal_convolution, powers
from linattn_ref.ops.position import cos_per_channel
from linattn_ref.ops.shapes import Float, Tensor


class ToeplitzPositions(nn.Module):
    """TPE: x_t + sum_{s<=t} sum_j w_dj (1 - lambda_j) lambda_j^(t-s) x_s, one exponential Toeplitz filter per
    channel.

    With j = 1..e, e = D / H, and w [D, e] learned, parameters (d e) and FLOPs (4 n d e) are those that the
    study counts (arXiv 2406.16690, A.1.4). It prints no formula; a later release of its authors has another
    one with a D x D matrix. The rates lambda_j are fixed, half-lives of 1 to 1024 tokens: our choice. All
    channels share them, so the filters of all are one product, ``w [D, e] @ (1 - lambda) lambda^l [e, T]``.
    """

    def __init__(self, width: int, memory: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, memory))

    def forward(
        self, x: Float[Tensor, "B T D"], state: Tensor | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
        N, T = self.weight.shape[1], x.shape[1]
        with no_autocast(x.device):
            u, weight = wide(x), wide(self.weight)
            half_life = torch.logspace(0, 10, N, base=2, device=x.device, dtype=weight.dtype)
            rate = torch.exp2(-1 / half_life)  # [N], lambda
            decay = powers(rate, T + 1)  # [N, T + 1]
            y = causal_convolution(u, (weight * (1 - rate)) @ decay[:, :T])
            written = torch.einsum("nt,btd->bdn", (1 - rate)[:, None] * decay[:, :T].flip(-1), u)
            if state is None:
                return x + y.to(x.dtype), written
            y = y + torch.einsum("dn,nt,bdn->btd", weight, decay[:, 1:], state)
            return x + y.to(x.dtype), written + decay[:, -1] * state


class Cosformer2Mixer(Mixer):
    """cosFormer2 as in the scaling study (arXiv 2406.16690, section 2.2 and A.1.4).

    q = silu(x W_q), k = silu(x W_k), v = x W_v; then LRPE-cosine: [q cos(theta t), q sin(theta t)] per
    channel, and the same for k, so that channel c of a score has the factor cos(theta_c (t - s)). No decay,
    no scale, no denominator; SRMSNorm over all heads, a sigmoid gate of rank D / H, W_o. theta_c =
    10000^(-2c/K), fixed; which theta was trained, and whether it was learned, is open. The state has 2 K
    rows: twice that of TNL.
    """

    row = Row(gate="1", write="outer(k, v)", read="dot(q, S)", learned="nothing")

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.gate = LowRank(D, config.head_dim, D)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Quantities, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start = past or 0
        t = positions(x, start)
        q, k = (cos_per_channel(silu(z), t, self.config.rope_base) for z in (q, k))
        return {"q": q, "k": k, "v": v, "gate": torch.sigmoid(self.gate(x))}, start + x.shape[1]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.linear_attention(z["q"], z["k"], z["v"], scale=1.0, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return simple_rms(merge_heads(o), self.config.norm_eps) * z["gate"]

    @classmethod
    def front_module(cls, config: ModelConfig) -> nn.Module | None:
        return ToeplitzPositions(config.d_model, config.head_dim)

    @classmethod
    def front_numel(cls, config: ModelConfig) -> int:
        return config.d_model * config.head_dim

    @classmethod
    def front_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 4 * seq_len * config.d_model * config.head_dim  # as the study counts it

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return 2 * config.head_dim, config.head_dim
