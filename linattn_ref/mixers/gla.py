"""Define gated linear attention: a decay per channel, from a low-rank projection."""

from torch import nn, sigmoid
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import HeadNorm, LowRank, upcast
from linattn_ref.ops.shapes import Float, Tensor

TEMPERATURE = 16.0  # divides the logarithm of the gate: the exponent 1/16
RANK = 16  # of the projection to the gate


class GLAMixer(Mixer):
    """Mix tokens by gated linear attention (Yang et al. 2023, arXiv 2312.06635).

        a_t = x_t W_1 W_2 + b per channel, with a middle of 16
        alpha_t = sigmoid(a_t)^(1/16)
        S_t = Diag(alpha_t) S_{t-1} + k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = (RMSNorm(o) silu(x W_r)) W_o

    Gate: ``alpha_t``, a number for every row of ``S``. Write: ``k^T v``. Read: ``q S``. Keys and queries have
    width ``D / 2``, values ``D``; the norm is per head. The paper prints LayerNorm and a bias in the output
    gate, the released code has RMSNorm and no bias, and so do we. ``D`` must be a multiple of ``2 H``.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, D / 2H, V] in
    float32 and None.

    Args:
        config: sizes of the model; no options.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: if D is no multiple of 2 H.

    Source:
        arXiv 2312.06635, section 4.4.

    Example:
        >>> import torch
        >>> mixer = GLAMixer(ModelConfig("gla", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 8, 16]))
    """

    equation = StateEquation(
        gate=lambda a: sigmoid(a) ** (1 / 16),
        write=lambda k, v: outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        learned="W_1 [D, 16], W_2 [16, D/2], b",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, keys = config.d_model, compute_key_width(config)
        self.qk = nn.Linear(D, 2 * keys, bias=False)
        self.vr = nn.Linear(D, 2 * D, bias=False)
        self.decay = LowRank(D, RANK, keys, bias=True)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Projections, None]:
        q, k = self.qk(x).chunk(2, -1)
        v, gate = self.vr(x).chunk(2, -1)
        heads = {"q": q, "k": k, "v": v, "a": upcast(self.decay(x))}
        z = {name: split_heads(y, self.config.n_heads) for name, y in heads.items()}
        return {**z, "gate": silu(gate)}, None

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        log_decay = logsigmoid(z["a"]) / TEMPERATURE
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return compute_key_width(config) // config.n_heads, config.head_dim


def compute_key_width(config: ModelConfig) -> int:
    """Return the width of the keys of all heads, D / 2."""
    if config.d_model % (2 * config.n_heads):
        raise ValueError(
            f"d_model: got {config.d_model}, expected a multiple of 2 n_heads = {2 * config.n_heads}"
        )
    return config.d_model // 2
