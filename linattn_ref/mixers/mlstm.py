"""mLSTM: an input gate that is an exponential, so that numbers are carried relative to a running maximum."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads, split_heads
from linattn_ref.mixers.parts import HeadNorm, wide, with_ones
from linattn_ref.ops.shapes import Float, Tensor


class MLSTMMixer(Mixer):
    """mLSTM (Beck et al. 2024, arXiv 2405.04517, equations 19-27).

    f = sigmoid(x w_f + b_f) forgets, i = exp(x w_i + b_i) writes; keys scaled by 1/sqrt K; the output is
    q S / max(|q n|, 1), with n the same sum of keys alone, a column of ones here. As in the paper, what is
    carried is S e^-m and n e^-m with m_t = max(m_{t-1} + log f_t, log i_t), which changes no output. Then
    RMSNorm per head and a gate sigmoid(x W_o), no convolution and no up-projection, as in xLSTM 7B (arXiv
    2503.13427, equation 6); the first paper gates before any norm.
    """

    row = Row(
        gate="sigmoid(f)",
        write="outer(exp(i) * k * K ** -0.5, v1)",
        read="bounded(dot(q, S))",
        learned="w_f, w_i [D, H], b_f, b_i [H]",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, H = config.d_model, config.n_heads
        self.qkvg = nn.Linear(D, 4 * D, bias=False)
        self.gates = nn.Linear(D, 2 * H)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():
            self.gates.bias[:H] = torch.linspace(3, 6, H)  # as in the released code: forget little at first
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Quantities, None]:
        q, k, v, gate = self.qkvg(x).chunk(4, -1)
        q, k, v = (split_heads(z, self.config.n_heads) for z in (q, k, v))
        f, i = (wide(z)[..., None] for z in self.gates(x).chunk(2, -1))  # [B, T, H, 1]
        z = {"q": q, "k": k, "v": v, "v1": with_ones(v), "f": f, "i": i, "K": q.shape[-1]}
        return {**z, "gate": torch.sigmoid(gate)}, None

    def mix(self, z: Quantities, S: Any) -> tuple[Tensor, Any]:
        log_f, log_i, k = logsigmoid(z["f"][..., 0]), z["i"][..., 0], z["k"]  # [B, T, H]
        S, m = (None, torch.zeros_like(log_f[:, 0])) if S is None else S
        if m.shape != log_f[:, 0].shape:
            raise ValueError(f"initial_state: got m {list(m.shape)}, expected {list(log_f[:, 0].shape)}")
        total = log_f.cumsum(1)
        top = total + torch.maximum(torch.cummax(log_i - total, 1).values, m[:, None])  # m_t
        before = torch.cat([m[:, None], top[:, :-1]], 1)
        log_decay = (log_f + before - top).clamp(max=0)
        k = wide(k) * (log_i - top).exp()[..., None] * z["K"] ** -0.5
        op = self.ops.chunk_linear_attention
        o, S = op(wide(z["q"]), k, wide(z["v1"]), log_decay, scale=1.0, initial_state=S)
        value, norm = o[..., :-1], o[..., -1:]
        o = value / torch.maximum(norm.abs(), (-top)[..., None].exp())
        return o.to(z["v"].dtype), (S, top[:, -1])

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return merge_heads(self.norm(o)) * z["gate"]

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return config.head_dim, config.head_dim + 1

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return config.n_heads  # m
