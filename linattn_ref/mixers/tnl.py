"""TransNormerLLM: one fixed decay per head, weaker from layer to layer."""

import math
from functools import partial

import torch
from torch import nn
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import LowRank, simple_rms, wide
from linattn_ref.ops.shapes import Float, Tensor


class TNLMixer(Mixer):
    """TNL as in the scaling study (arXiv 2406.16690, eq. 9; TransNormerLLM, arXiv 2405.17381, section 4).

    q = silu(x W_q), k = silu(x W_k), v = x W_v; no scale, no denominator; SRMSNorm over all heads together
    after attention, then a sigmoid gate of rank D / H, then W_o. The slope of a head is fixed; layer l of L
    anneals it by 1 - l/(L-1) + 1e-5, so that the top layer hardly forgets. The chunk form is Lightning
    Attention's schedule. ``config.tnl_decay``: "code" is the released 2^(-8i/H) slopes, and what we use;
    "printed" is equation 10, ``exp(-(8i/H)(1 - l/L))`` with l and i counted from 1. Which one the study
    trained is open. Two more are not of the paper, for comparison with all else equal: "none", and "data",
    ``sigmoid(x W_a + b)`` for every token and head, which starts at the fixed ones of "code".
    Simplified: no LRPE in the first layer (the study's equation and FLOPs have none).
    """

    row = Row(
        gate="exp(-slope * anneal)",
        write="outer(k, v)",
        read="dot(q, S)",
        learned="nothing",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.gate = LowRank(D, config.head_dim, D)
        self.out = nn.Linear(D, D, bias=False)
        if config.tnl_decay == "data":
            self.decay = nn.Linear(D, config.n_heads)
            fixed = slopes(config.n_heads) * annealing(layer, config.n_layers)
            with torch.no_grad():
                self.decay.bias.copy_(-fixed - torch.log(-torch.expm1(-fixed)))  # sigmoid(b) = exp(-fixed)

    def quantities(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Quantities, None]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        z: Quantities = {"q": silu(q), "k": silu(k), "v": v, "gate": torch.sigmoid(self.gate(x))}
        kind = self.config.tnl_decay
        if kind == "data":
            z["log_decay"] = logsigmoid(wide(self.decay(x)))  # [B, T, H]
        elif kind != "none":
            slope = slopes(self.config.n_heads, kind, x.device)[:, None]  # [H, 1]
            z |= {"slope": slope, "anneal": annealing(self.layer, self.config.n_layers, kind)}
        return z, None

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v = z["q"], z["k"], z["v"]
        log_decay = z.get("log_decay")
        if "slope" in z:
            log_decay = (-z["slope"] * z["anneal"])[:, 0].to(torch.promote_types(q.dtype, torch.float32))
        return self.linear_attention(q, k, v, log_decay, scale=1.0, state=S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return simple_rms(merge_heads(o), self.config.norm_eps) * z["gate"]


def slopes(n_heads: int, decay: str = "code", device: torch.device | None = None) -> Tensor:
    """Slope of every head [H], float64: the decay of a first layer is exp(-slope).

    "code" is 2^(-8i/H), i = 1..H, for H a power of two; for others the released code takes the slopes of the
    power below and fills up with every second one of the power above, unsorted. "printed" is 8i/H.
    """
    count = partial(torch.arange, dtype=torch.float64, device=device)
    if decay == "printed":
        return 8 * count(1, n_heads + 1) / n_heads
    below = 2 ** math.floor(math.log2(n_heads))
    between = count(1, 2 * below + 1, 2)[: n_heads - below] / (2 * below)
    return 2.0 ** (-8 * torch.cat([count(1, below + 1) / below, between]))


def annealing(layer: int, n_layers: int, decay: str = "code") -> float:
    """The factor on the slopes of layer 0..L-1: near 1 at the bottom, near 0 at the top, where nothing
    decays.

    The released 1 - l/(L-1) + 1e-5 has no value for a single layer; that one gets 1 + 1e-5.
    """
    if decay == "printed":
        return 1 - (layer + 1) / n_layers
    return 1 - layer / max(n_layers - 1, 1) + 1e-5
