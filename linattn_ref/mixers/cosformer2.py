"""Define cosFormer2: no decay; positions enter by a cosine per channel, and once before the first layer."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import silu

from linattn_ref.config import ModelConfig, Options, check_positive
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, number_tokens, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import LowRank, simple_rms, upcast
from linattn_ref.ops.lti import compute_powers, convolve_causally
from linattn_ref.ops.position import cos_per_channel
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.shapes import Float, Tensor


@dataclass(frozen=True)
class Cosformer2Options(Options):
    """Choose the speeds of cosFormer2's cosines.

    Args:
        theta_base: theta_c = theta_base^(-2c/K) for channel c, see ``ops.position.cos_per_channel``;
            default 10,000.

    Raises:
        ValueError: for a base that is not a finite number above 0.
    """

    theta_base: float = 10_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "theta_base")


class ToeplitzPositions(nn.Module):
    """Add positions to the embeddings by exponential Toeplitz filters, one per channel (TPE).

        y_t = x_t + sum_{s<=t} sum_j w_dj (1 - lambda_j) lambda_j^(t-s) x_s

    With j = 1..e, e = D / H, and w [D, e] learned, parameters (D e) and FLOPs (4 T D e) are those that the
    study counts. It prints no formula; a later release of its authors has another one with a D x D matrix.
    The rates lambda_j are fixed, half-lives of 1 to 1024 tokens: our choice. All channels share them, so
    the filters of all are one product, ``w [D, e] @ (1 - lambda) lambda^l [e, T]``.

    Args:
        width: D.
        memory: e, exponentials of a filter; N in the shapes below.

    Source:
        arXiv 2406.16690, A.1.4 (counts); the rates: none, ours.
    """

    def __init__(self, width: int, memory: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, memory))

    def forward(
        self, x: Float[Tensor, "B T D"], state: Tensor | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
        """Return y [B, T, D] and the state of the filters [B, D, e]."""
        N, T = self.weight.shape[1], x.shape[1]
        with no_autocast(x.device):
            u, weight = upcast(x), upcast(self.weight)
            half_life = torch.logspace(0, 10, N, base=2, device=x.device, dtype=weight.dtype)
            rate = torch.exp2(-1 / half_life)  # [N], lambda
            decay = compute_powers(rate, T + 1)  # [N, T + 1]
            y = convolve_causally(u, (weight * (1 - rate)) @ decay[:, :T])
            written = torch.einsum("nt,btd->bdn", (1 - rate)[:, None] * decay[:, :T].flip(-1), u)
            if state is None:
                return x + y.to(x.dtype), written
            y = y + torch.einsum("dn,nt,bdn->btd", weight, decay[:, 1:], state)
            return x + y.to(x.dtype), written + decay[:, -1] * state


class Cosformer2Mixer(Mixer):
    """Mix tokens by cosFormer2 attention, as in the scaling study (arXiv 2406.16690).

        q = silu(x W_q),  k = silu(x W_k),  v = x W_v
        q'_t = [q_t cos(theta t), q_t sin(theta t)] per channel, the same for k'
        S_t = S_{t-1} + k'_t^T v_t,  o_t = q'_t S_t
        y = (SRMSNorm(o) sigmoid(x W_1 W_2)) W_o

    Gate: 1. Write: ``k'^T v``. Read: ``q' S``. Channel ``c`` of a score has the factor
    ``cos(theta_c (t - s))``. No decay, no scale, no denominator; SRMSNorm over all heads, a sigmoid gate of
    rank ``D / H``. The angles ``theta_c = 10000^(-2c/K)`` are fixed; which were trained, and whether they
    were learned, is open. The state has ``2 K`` rows, twice as many as TNL's.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, 2 K, V] in
    float32 and the number of tokens so far.

    Args:
        config: sizes of the model, and ``Cosformer2Options``.
        layer: number of its block, from 0; without influence.
        shared: not used. The model has ``ToeplitzPositions`` before its first layer.

    Source:
        arXiv 2406.16690, section 2.2, equation 18 and A.1.4.

    Example:
        >>> mixer = Cosformer2Mixer(ModelConfig("cosformer2", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 32, 16]))
    """

    options_class = Cosformer2Options
    equation = StateEquation(
        gate=lambda: 1,
        write=lambda k, v: outer(k, v),
        read=lambda q, S: dot(q, S),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.gate = LowRank(D, config.head_dim, D)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Projections, int]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        start = past or 0
        t = number_tokens(x, start)
        q, k = (cos_per_channel(silu(z), t, self.config.options.theta_base) for z in (q, k))
        return {"q": q, "k": k, "v": v, "gate": torch.sigmoid(self.gate(x))}, start + x.shape[1]

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.linear_attention(z["q"], z["k"], z["v"], scale=1.0, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(simple_rms(merge_heads(o), self.config.norm_eps) * z["gate"])

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
