"""Define Kimi Delta Attention: the delta rule with a decay per channel."""

import torch
from torch import diag_embed, exp, nn
from torch.nn.functional import softplus

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.delta_net import CONV, DeltaNetOptions, count_delta_flops, mix_delta, project_delta
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import HeadNorm, LowRank, ShortConvolution, make_step_bias, upcast
from linattn_ref.ops.chunks import SUB_CHUNK
from linattn_ref.ops.shapes import Float, Tensor


class KDAMixer(Mixer):
    """Mix tokens by Kimi Delta Attention (Kimi Team 2025, arXiv 2510.26692).

        Delta_t = softplus(x_t W_1 W_2 + b),  alpha_t = exp(-e^a Delta_t) per channel
        beta_t = beta_max sigmoid(x_t W_b) per head
        S_t = (I - beta_t k_t^T k_t) Diag(alpha_t) S_{t-1} + beta_t k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = (RMSNorm(o) sigmoid(x W_3 W_4 + c)) W_o

    Gate: ``(I - beta k^T k) Diag(alpha)``, a matrix: every row of the state decays by its own number, then
    the key erases. Write: ``beta k^T v``. Read: ``q S``. Gated DeltaNet is the case of one ``alpha`` per
    head. Convolutions and lengths of ``q`` and ``k`` as in DeltaNet; the norm is per head. Both low-rank
    projections have a middle of ``D / H``, and biases behind it; ``a`` is a number per head.

    The layer is that of the released code (flash-linear-attention, ``fla/layers/kda.py``); we have not
    compared it with the paper's text. Left out: more value heads than key heads, and values wider than keys.
    At the start ``e^a`` is spread from 1 to 16 over the heads, where the code draws it, and ``Delta`` from
    0.001 to 0.1 over the channels of each head, as in Mamba: that code starts ``b`` at 0.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] and the
    last three inputs of the convolution [B, 3, 3 D], in float32.

    Args:
        config: sizes of the model, and ``DeltaNetOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2510.26692; released code for the layer.

    Example:
        >>> mixer = KDAMixer(ModelConfig("kda", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]), torch.Size([1, 3, 96]))
    """

    options_class = DeltaNetOptions
    needs = "chunk_delta_rule"
    equation = StateEquation(
        gate=lambda alpha, beta, k: diag_embed(alpha) - beta * outer(k, k * alpha),
        write=lambda beta, k, v: beta * outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        learned="W_b [D, H]; a [H], W_1 [D, D/H], W_2 [D/H, D], b [D] of alpha",
        gating="matrix",
        where=lambda mixer, z: {"alpha": exp(z["log_decay"]), "beta": z["beta"][..., None, None]},
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, H, V = config.d_model, config.n_heads, config.head_dim
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.conv = ShortConvolution(3 * D, CONV)
        self.beta = nn.Linear(D, H, bias=False)
        self.step = LowRank(D, V, D)
        self.step_bias = nn.Parameter(make_step_bias(V).repeat(H))
        self.log_A = nn.Parameter(torch.linspace(1, 16, H).log())
        self.gate = LowRank(D, V, D, bias=True)
        self.norm = HeadNorm(V, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    mix = mix_delta

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        z, past = project_delta(self, x, past)
        step = split_heads(softplus(upcast(self.step(x)) + upcast(self.step_bias)), self.config.n_heads)
        log_decay = -upcast(self.log_A).exp()[:, None] * step  # [B, T, H, K]
        return {**z, "log_decay": log_decay, "gate": torch.sigmoid(self.gate(x))}, past

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return 3 * config.d_model * (CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return count_delta_flops(seq_len, config.n_heads, *cls.widths(config), SUB_CHUNK)
