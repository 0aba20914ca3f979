"""Define TransNormerLLM: one fixed decay per head, weaker from layer to layer."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import exp, nn
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig, Options, check_at_least
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import Names, StateEquation, dot, outer
from linattn_ref.mixers.parts import LowRank, simple_rms, upcast
from linattn_ref.ops.shapes import Float, Tensor

Decay = Literal["code", "printed", "minimax", "none", "data"]  # see ``TNLOptions``
MINIMAX_EPS = 1e-6  # of the norm after attention, whatever the other norms have


@dataclass(frozen=True)
class TNLOptions(Options):
    """Choose the decay of TNL, and what is around its attention.

    Args:
        decay: "code" is the released code's slopes, 2^(-8i/H) (default); "printed" is the paper's equation
            10, ``exp(-(8i/H)(1 - l/L))`` with l and i counted from 1. Which one the study trained is open.
            "minimax" is that of MiniMax's code, for H a power of two nearly that of "code", see ``slopes``.
            Two more are not of the paper, for comparison with all else equal: "none", and "data",
            ``sigmoid(x W_a + b)`` for every token and head, which starts at the fixed ones of "code".
        form: "tnl" (default), or "minimax", MiniMax's lightning attention: silu also on v, a gain in the
            norm, whose epsilon is then 1e-6, and a gate of full rank.
        head_dim: width of a head; default 0, D / H.

    Raises:
        ValueError: for another decay or form, a negative width.
    """

    decay: Decay = "code"
    form: Literal["tnl", "minimax"] = "tnl"
    head_dim: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "head_dim")


def _compute_slope_and_annealing(mixer: "TNLMixer", z: Names) -> Names:
    """Return the factors of the fixed decay: slopes [H, 1] of the heads, annealing of the layer."""
    config, decay = mixer.config, mixer.config.options.decay
    anneal = annealing(mixer.layer, config.n_layers, decay)
    return {"slope": slopes(config.n_heads, decay)[:, None], "anneal": anneal}


class TNLMixer(Mixer):
    """Mix tokens by TNL's attention: a fixed decay per head, a norm over all heads (arXiv 2405.17381).

        q = silu(x W_q),  k = silu(x W_k),  v = x W_v
        S_t = exp(-slope_h anneal_l) S_{t-1} + k_t^T v_t,  o_t = q_t S_t
        y = (SRMSNorm(o) sigmoid(x W_1 W_2)) W_o

    Gate: ``exp(-slope_h anneal_l)``, fixed. Write: ``k^T v``. Read: ``q S``. No scale, no denominator;
    SRMSNorm over all heads together after attention, then a sigmoid gate of rank ``D / H``. The slope of a
    head ``h`` is multiplied by ``anneal_l = 1 - l/(L-1) + 1e-5`` in layer ``l`` of ``L``, so that the top
    layer hardly forgets. The chunk form is Lightning Attention's schedule. The option ``decay`` chooses other
    decays, see ``TNLOptions``. Simplified: no LRPE in the first layer (the scaling study's equation and FLOPs
    have none). MiniMax's lightning attention is ``form="minimax", decay="minimax"``.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] in float32
    and None.

    Args:
        config: sizes of the model, and ``TNLOptions``.
        layer: number of its block, from 0, which decides its annealing.
        shared: not used.

    Source:
        arXiv 2406.16690, equation 9; TransNormerLLM, arXiv 2405.17381, section 4, equations 10 and 14.

    Example:
        >>> mixer = TNLMixer(ModelConfig("tnl", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]))
    """

    options_class = TNLOptions
    equation = StateEquation(
        gate=lambda slope, anneal: exp(-slope * anneal),
        write=lambda k, v: outer(k, v),
        read=lambda q, S: dot(q, S),
        where=_compute_slope_and_annealing,
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, width = config.d_model, config.n_heads * self.widths(config)[0]
        minimax = config.options.form == "minimax"
        self.qkv = nn.Linear(D, 3 * width, bias=False)
        self.gate = nn.Linear(D, width, bias=False) if minimax else LowRank(D, config.head_dim, width)
        self.norm = nn.RMSNorm(width, MINIMAX_EPS) if minimax else None
        self.out = nn.Linear(width, D, bias=False)
        if config.options.decay == "data":
            self.decay = nn.Linear(D, config.n_heads)
            fixed = slopes(config.n_heads) * annealing(layer, config.n_layers)
            with torch.no_grad():
                self.decay.bias.copy_(-fixed - torch.log(-torch.expm1(-fixed)))  # sigmoid(b) = exp(-fixed)

    def project(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Projections, None]:
        q, k, v = (split_heads(z, self.config.n_heads) for z in self.qkv(x).chunk(3, -1))
        v = v if self.norm is None else silu(v)
        z = {"q": silu(q), "k": silu(k), "v": v, "gate": torch.sigmoid(self.gate(x))}
        return {**z, "log_decay": self.log_decay(x)}, None

    def log_decay(self, x: Float[Tensor, "B T D"]) -> Tensor | None:
        """Return the log decays: fixed ones [H], those of the data [B, T, H], or None for no decay."""
        decay = self.config.options.decay
        if decay == "none":
            return None
        if decay == "data":
            return logsigmoid(upcast(self.decay(x)))
        slope = slopes(self.config.n_heads, decay, x.device)
        fixed = -slope * annealing(self.layer, self.config.n_layers, decay)
        return fixed.to(torch.promote_types(x.dtype, torch.float32))

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.linear_attention(z["q"], z["k"], z["v"], z["log_decay"], scale=1.0, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        o = merge_heads(o)
        if self.norm is None:
            return self.out(simple_rms(o, self.config.norm_eps) * z["gate"])
        return self.out(self.norm(o.to(self.norm.weight.dtype)) * z["gate"])

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return (config.options.head_dim or config.head_dim,) * 2


def slopes(n_heads: int, decay: Decay = "code", device: torch.device | None = None) -> Tensor:
    """Return the slope of every head, float64 [H]: the decay of a first layer is exp(-slope).

    "code" is 2^(-8i/H), i = 1..H, for H a power of two; for others the released code takes the slopes of the
    power below and fills up with every second one of the power above, unsorted. "minimax" is 2^(-8i/H) for
    all H, "printed" 8i/H.

    Args:
        n_heads: H.
        decay: "code" (default), "printed" or "minimax".
        device: where the slopes are made; default the CPU.

    Returns:
        float64 [H].

    Source:
        "printed": arXiv 2405.17381, equation 10; "code": the code released with it; "minimax": MiniMax in
        transformers 5.

    Example:
        >>> slopes(4), slopes(4, "printed")
        (tensor([0.2500, 0.0625, 0.0156, 0.0039], dtype=torch.float64), tensor([2., 4., 6., 8.],
        dtype=torch.float64))
    """
    count = partial(torch.arange, dtype=torch.float64, device=device)
    if decay == "printed":
        return 8 * count(1, n_heads + 1) / n_heads
    if decay == "minimax":
        return 2.0 ** (-8 * count(1, n_heads + 1) / n_heads)
    below = 2 ** math.floor(math.log2(n_heads))
    between = count(1, 2 * below + 1, 2)[: n_heads - below] / (2 * below)
    return 2.0 ** (-8 * torch.cat([count(1, below + 1) / below, between]))


def annealing(layer: int, n_layers: int, decay: Decay = "code") -> float:
    """Return the factor on the slopes of a layer: near 1 at the bottom, near 0 at the top.

    So little decays in the top layer. The released 1 - l/(L-1) + 1e-5 has no value for a single layer; that
    one gets 1 + 1e-5.

    Args:
        layer: l, from 0.
        n_layers: L.
        decay: "code" (default); "printed", which is 1 - (l + 1)/L; or "minimax", whose L - 1 is larger by
            1e-5.

    Returns:
        The factor.

    Source:
        "printed": arXiv 2405.17381, equation 10; "code": the code released with it; "minimax": MiniMax in
        transformers 5.

    Example:
        >>> [round(annealing(layer, 3), 2) for layer in range(3)]
        [1.0, 0.5, 0.0]
    """
    if decay == "printed":
        return 1 - (layer + 1) / n_layers
    if decay == "minimax":
        return 1 - layer / (n_layers - 1 + 1e-5) + 1e-5
    return 1 - layer / max(n_layers - 1, 1) + 1e-5
