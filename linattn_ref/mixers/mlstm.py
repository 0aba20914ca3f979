"""Define mLSTM: its input gate is an exponential, so numbers are carried relative to a running maximum."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import exp, nn, sigmoid
from torch.nn.functional import logsigmoid

from linattn_ref.config import ModelConfig, Options, check_not_negative, check_positive
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, bounded, columns, dot, outer
from linattn_ref.mixers.parts import HeadLayerNorm, HeadNorm, cap_softly, upcast, with_ones
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

LONGEST = 2**31  # tokens that a compiled model takes at most: see ``running_maximum``


@dataclass(frozen=True)
class MLSTMOptions(Options):
    """Choose what the released xLSTM 7B has and its papers do not, or do otherwise.

    Args:
        key_factor: width of a key as a share of that of a value; default 1; 0.5 in xLSTM 7B.
        gate_cap: c > 0 turns f and i into c tanh(f / c) and c tanh(i / c); default 0, no cap; 15 in xLSTM 7B.
        head_norm: "rms", RMSNorm with one gain for all heads (default), or "layer", LayerNorm with a gain for
            each, as in xLSTM 7B.
        denominator_eps: is added to the denominator of ``e^-m_t S_t``; default 0; 1e-6 in xLSTM 7B.

    Raises:
        ValueError: for a number below 0, or keys without an entry.
    """

    key_factor: float = 1.0
    gate_cap: float = 0.0
    head_norm: Literal["rms", "layer"] = "rms"
    denominator_eps: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "key_factor")
        check_not_negative(self, "gate_cap", "denominator_eps")


class MLSTMMixer(Mixer):
    """Mix tokens by the matrix memory of xLSTM (Beck et al. 2024, arXiv 2405.04517).

        f_t = x_t w_f + b_f,  i_t = x_t w_i + b_i per head
        S_t = sigmoid(f_t) S_{t-1} + (e^i_t k_t / sqrt K)^T [v_t, 1]
        [n_t, d_t] = q_t S_t,  o_t = n_t / max(|d_t|, 1)
        y = (RMSNorm(o) sigmoid(x W_g)) W_o

    Gate: ``sigmoid(f)``. Write: ``e^i k^T [v, 1]``, scaled. Read: ``q S``, divided by the sum of the keys'
    scores or by 1. The factor ``e^i`` overflows, so that, as in the paper, what is carried is ``e^-m_t S_t``
    with ``m_t = max(m_{t-1} + log sigmoid(f_t), i_t)``, which changes no output; see ``running_maximum``.
    RMSNorm per head and a sigmoid gate behind it, no convolution and no up-projection, as in xLSTM 7B; the
    first paper gates before any norm. What else the released 7B model has is chosen by ``MLSTMOptions``.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state ``(S, m)``, S [B, H, K, V
    + 1] and m [B, H] in float32, and None.

    Args:
        config: sizes of the model, and ``MLSTMOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for a key width that is no whole number from 1 on; when called, for a state of another
            batch.

    Source:
        arXiv 2405.04517, equations 19-27; xLSTM 7B, arXiv 2503.13427, equation 6.

    Example:
        >>> mixer = MLSTMMixer(ModelConfig("mlstm", d_model=32, n_heads=2), layer=0)
        >>> y, ((S, m), _) = mixer(torch.randn(1, 5, 32))
        >>> y.shape, S.shape, m.shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 17]), torch.Size([1, 2]))
    """

    equation = StateEquation(
        gate=lambda f: sigmoid(f),
        write=lambda i, k, K, v: outer(exp(i) * k * K**-0.5, with_ones(v)),
        read=lambda q, S: bounded(dot(q, S)),
        learned="w_f, w_i [D, H], b_f, b_i [H]",
        where=lambda mixer, z: columns(z, "f i"),
    )

    options_class = MLSTMOptions

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, H, options = config.d_model, config.n_heads, config.options
        K = options.key_factor * config.head_dim
        whole = K >= 1 and int(K) == K
        require(whole, "key_factor", repr(options.key_factor), "one that gives keys 1, 2, ... entries")
        self.parts = [H * int(K)] * 2 + [D] * 2  # widths of q, k, v and the output gate
        self.qkvg = nn.Linear(D, sum(self.parts), bias=False)
        self.gates = nn.Linear(D, 2 * H)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():
            self.gates.bias[:H] = torch.linspace(3, 6, H)  # as in the released code: forget little at first
        norm = HeadNorm if options.head_norm == "rms" else partial(HeadLayerNorm, H)
        self.norm = norm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Projections, None]:
        q, k, v, gate = self.qkvg(x).split(self.parts, -1)
        q, k, v = (split_heads(z, self.config.n_heads) for z in (q, k, v))
        gates = cap_softly(upcast(self.gates(x)), self.config.options.gate_cap)
        f, i = gates.chunk(2, -1)  # [B, T, H], before sigmoid and exp
        return {"q": q, "k": k, "v": v, "f": f, "i": i, "gate": torch.sigmoid(gate)}, None

    def mix(self, z: Projections, S: Any) -> tuple[Tensor, Any]:
        log_f, log_i, K = logsigmoid(z["f"]), z["i"], z["k"].shape[-1]  # [B, T, H]
        S, start = (None, torch.zeros_like(log_f[:, 0])) if S is None else S
        if start.shape != log_f[:, 0].shape:
            raise ValueError(f"initial_state: got m {list(start.shape)}, expected {list(log_f[:, 0].shape)}")
        m = running_maximum(log_f, log_i, start)  # [B, T + 1, H]
        before, m = m[:, :-1], m[:, 1:]
        log_decay = (log_f + (before - m)).clamp(max=0)  # above 0 by rounding alone
        k = upcast(z["k"]) * (log_i - m).exp()[..., None] * K**-0.5
        op = self.ops.chunk_linear_attention
        o, S = op(upcast(z["q"]), k, upcast(with_ones(z["v"])), log_decay, scale=1.0, initial_state=S)
        # o = value / max(|norm|, e^-m), both sides times e^min(m, 0), since e^-m may overflow
        small, large = m.clamp(max=0).exp()[..., None], (-m.clamp(min=0)).exp()[..., None]
        value, norm = small * o[..., :-1], torch.maximum(small * o[..., -1:].abs(), large)
        return (value / (norm + small * self.config.options.denominator_eps)).to(z["v"].dtype), (S, m[:, -1])

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return int(config.options.key_factor * config.head_dim), config.head_dim + 1

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return config.n_heads  # m


def running_maximum(
    log_f: Float[Tensor, "B T H"], log_i: Float[Tensor, "B T H"], start: Float[Tensor, "B H"]
) -> Float[Tensor, "B T+1 H"]:
    """Return m_0 = start and m_t = max(m_{t-1} + log f_t, log i_t) for all tokens.

    Two steps m -> max(m + f, i) make one, with f = f_1 + f_2 and i = max(i_1 + f_2, i_2), so that steps are
    joined by doubling: 1, 2, 4, ... of them. A cumulative sum of log f over all tokens, as maxima are often
    computed, loses the digits of each m to the size of the whole sum.

    Args:
        log_f: log forget gates, at most 0.
        log_i: log input gates.
        start: m before the first token.

    Returns:
        m_0, ..., m_T.

    Source:
        arXiv 2405.04517, equation 15 gives the recurrence; the scan: none, ours.

    Example:
        >>> log_f, log_i = torch.tensor([-1.0, -1.0, -9.0]), torch.tensor([2.0, 0.0, -5.0])
        >>> running_maximum(log_f[None, :, None], log_i[None, :, None], torch.zeros(1, 1)).flatten()
        tensor([ 0.,  2.,  1., -5.])
    """
    f = torch.cat([torch.zeros_like(start)[:, None], log_f], 1)
    m = torch.cat([start[:, None], log_i], 1)
    n, joined = m.shape[1], 1
    t = torch.arange(n, device=m.device)[:, None]
    # when compiling, a fixed number of times: one graph for every length
    while joined < (LONGEST if torch.compiler.is_compiling() else n):
        has_earlier = t >= joined
        m = torch.maximum(m, torch.where(has_earlier, m.roll(joined, 1) + f, -torch.inf))
        f = f + torch.where(has_earlier, f.roll(joined, 1), 0.0)
        joined *= 2
    return m
