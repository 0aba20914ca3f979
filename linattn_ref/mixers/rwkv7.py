"""Define RWKV-7: token shift, decays per channel, and a key that is removed before another is written."""

import math

import torch
from torch import diag_embed, exp, nn

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import LowRank, l2_normalize, shift_tokens, upcast
from linattn_ref.ops.chunks import SUB_CHUNK
from linattn_ref.ops.shapes import Float, Tensor

RANK, GATE_RANK = 64, 128  # of the projections to decay and rate, and to the output gate


class RWKV7Mixer(Mixer):
    """Mix tokens by RWKV-7's time mixing (Peng et al. 2025, arXiv 2503.14456).

        d_t = d + tanh(x'_t W_1) W_2,  w_t = exp(-e^(-1/2) sigmoid(d_t)) per channel
        a_t = sigmoid(x'_t W_3 W_4 + c) per channel
        k'_t = x'_t W_k,  kappa_t = r * k'_t / |r * k'_t|,  k_t = k'_t * (1 + (a_t - 1) * m)
        S_t = (Diag(w_t) - (a_t * kappa_t)^T kappa_t) S_{t-1} + k_t^T v_t,  o_t = q_t S_t
        y = ((GroupNorm(o) + q (u * k)^T v) * (sigmoid(x' W_5) W_6)) W_o

    Gate: ``Diag(w) - (a * kappa)^T kappa``, a matrix: what ``kappa`` recalled before the decay is removed, in
    each channel the share ``a``. Write: ``k^T v``. Read: ``q S``. Each of the six projections sees its own
    mixture ``x'`` of the token and the one before it; ``q`` is the paper's ``r``. ``|.|``, the norm and
    ``u``, a bonus for the token itself, are per head; ``r``, ``m``, ``d`` and ``c`` are vectors. No decay is
    below ``exp(-0.61)``.

    The layer is that of the released code (``BlinkDL/RWKV-LM`` and flash-linear-attention,
    ``fla/layers/rwkv7.py``); we have not compared it with the paper's text. Left out: from the second layer
    on the code mixes ``v`` with that of the first layer, which would tie layers together that are independent
    here. Simplified: middles of 64, 64 and 128, those of the released model of width 768, at every width; the
    mixtures start at 1/2, ``d`` is spread from -6 to 1, ``r`` and ``m`` start at 1, ``c`` and ``u`` at 0; the
    norm's epsilon is ``norm_eps`` times the width of a head; the channel mixing is our gated MLP.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] and the
    last token [B, 1, D], in float32.

    Args:
        config: sizes of the model; no options.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2503.14456; released code for the layer.

    Example:
        >>> mixer = RWKV7Mixer(ModelConfig("rwkv7", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]), torch.Size([1, 1, 32]))
    """

    needs = "chunk_rwkv7"
    spared = ("shift", "bonus")
    equation = StateEquation(
        gate=lambda w, a, kappa: diag_embed(w) - outer(a * kappa, kappa),
        write=lambda k, v: outer(k, v),
        read=lambda q, S: dot(q, S),
        learned="d, c, r, m, u [D], W_1, W_3 [D, 64], W_2, W_4 [64, D], token shift [6, D]",
        gating="matrix",
        where=lambda mixer, z: {"w": exp(z["log_decay"])},
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, H, K = config.d_model, config.n_heads, config.head_dim
        self.shift = nn.Parameter(torch.full((6, D), 0.5))
        self.r, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.decay = make_mlp(D, RANK, nn.Tanh())
        self.decay_bias = nn.Parameter(torch.linspace(-6, 1, D))
        self.rate = LowRank(D, RANK, D, bias=True)
        self.gate = make_mlp(D, GATE_RANK, nn.Sigmoid())
        self.removal = nn.Parameter(torch.ones(D))
        self.replaced = nn.Parameter(torch.ones(D))
        self.bonus = nn.Parameter(torch.zeros(H, K))
        self.norm = nn.GroupNorm(H, D, K * config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        before, past = shift_tokens(x, past)
        mixed = [torch.lerp(before, x, m.to(x.dtype)) for m in self.shift]
        layers = (self.r, self.k, self.v, self.decay, self.rate, self.gate)
        q, k, v, d, a, gate = (layer(y) for layer, y in zip(layers, mixed, strict=True))
        log_decay = -math.exp(-0.5) * torch.sigmoid(upcast(self.decay_bias) + upcast(d))
        a = torch.sigmoid(upcast(a))
        kappa = k * self.removal
        k = k * (1 + (a - 1) * self.replaced).to(k.dtype)
        heads = {"q": q, "k": k, "v": v, "log_decay": log_decay, "a": a, "kappa": kappa}
        z = {name: split_heads(y, self.config.n_heads) for name, y in heads.items()}
        return {**z, "kappa": l2_normalize(z["kappa"]), "gate": gate}, past

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        op = self.ops.chunk_rwkv7
        inputs = (z[name] for name in ("q", "k", "v", "kappa", "a", "log_decay"))
        return op(*inputs, scale=1.0, initial_state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        rows = merge_heads(o).flatten(0, 1).to(self.norm.weight.dtype)
        own = (z["q"] * z["k"] * self.bonus).sum(-1, keepdim=True) * z["v"]
        return self.out((self.norm(rows).view_as(z["gate"]) + merge_heads(own)) * z["gate"])

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return config.d_model

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        # per head, in chunks of C: four tables of scores 8 T C K, the system's right side 2 T C V, recalling
        # and reading 4 T K V, two values a token 4 T C V and two writes 4 T K V; not the triangular systems
        C, K = min(SUB_CHUNK, seq_len), config.head_dim
        T = C * -(-seq_len // C)
        return config.n_heads * (14 * T * C * K + 8 * T * K * K)


def make_mlp(D: int, rank: int, activation: nn.Module) -> nn.Sequential:
    """Return x -> activation(x W_1) W_2 with a narrow middle."""
    return nn.Sequential(nn.Linear(D, rank, bias=False), activation, nn.Linear(rank, D, bias=False))
