"""Gated linear attention: a decay per channel, from a low-rank projection."""

from torch import nn
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import HeadNorm, LowRank, wide
from linattn_ref.ops.shapes import Float, Tensor

TEMPERATURE = 16.0
RANK = 16


class GLAMixer(Mixer):
    """GLA (Yang et al. 2023, arXiv 2312.06635, section 4.4).

    alpha = sigmoid(x W_1 W_2 + b)^(1/16) with a middle of 16; keys and queries of width D / 2, values of D;
    normalised per head, then gated by silu(x W_r). The paper prints LayerNorm and a bias in the gate, the
    released code has RMSNorm and no bias, and so do we. Ours: D / 2 must divide by H.
    """

    row = Row(
        gate="sigmoid(a) ** (1 / 16)",
        write="outer(k, v)",
        read="dot(q, S) * K ** -0.5",
        learned="W_1 [D, 16], W_2 [16, D/2], b",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, keys = config.d_model, key_width(config)
        self.qk = nn.Linear(D, 2 * keys, bias=False)
        self.vr = nn.Linear(D, 2 * D, bias=False)
        self.decay = LowRank(D, RANK, keys, bias=True)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Quantities, None]:
        q, k = self.qk(x).chunk(2, -1)
        v, gate = self.vr(x).chunk(2, -1)
        heads = {"q": q, "k": k, "v": v, "a": wide(self.decay(x))}
        z = {name: split_heads(y, self.config.n_heads) for name, y in heads.items()}
        return {**z, "gate": silu(gate), "K": z["q"].shape[-1]}, None

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        log_decay = logsigmoid(z["a"]) / TEMPERATURE
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return key_width(config) // config.n_heads, config.head_dim


def key_width(config: ModelConfig) -> int:
    """D / 2, over all heads."""
    if config.d_model % (2 * config.n_heads):
        raise ValueError(
            f"d_model: got {config.d_model}, expected a multiple of 2 n_heads = {2 * config.n_heads}"
        )
    return config.d_model // 2
