"""Define RetNet and gated RetNet: rotation and a decay per head, fixed or from the token."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn, sigmoid
from torch.nn.functional import logsigmoid, silu

from linattn_ref.config import ModelConfig, Options, check_positive
from linattn_ref.mixers.base import (
    Mixer,
    Projections,
    check_rotation,
    merge_heads,
    number_tokens,
    split_heads,
)
from linattn_ref.mixers.equation import StateEquation, columns, dot, outer
from linattn_ref.mixers.parts import HeadNorm, upcast
from linattn_ref.ops.position import rotate
from linattn_ref.ops.shapes import Float, Tensor

TEMPERATURE = 16.0  # divides the logarithm of gated RetNet's gate: the exponent 1/16


@dataclass(frozen=True)
class RetNetOptions(Options):
    """Choose the positions of RetNet and of gated RetNet.

    Args:
        positions: "rope" turns queries and keys by their positions (default), "none" does not.
        rope_base: base of the speeds of rotation, see ``ops.rotate``; default 10,000.

    Raises:
        ValueError: for positions that are neither, or a base that is not a finite number above 0.
    """

    positions: Literal["rope", "none"] = "rope"
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "rope_base")


class RetNetMixer(Mixer):
    """Mix tokens by retention: rotation and a fixed decay per head (Sun et al. 2023, arXiv 2307.08621).

        gamma_h = 1 - 2^(-5-h),  h = 0..H-1
        S_t = gamma_h S_{t-1} + k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = (RMSNorm(o) silu(x W_g)) W_o

    Gate: ``gamma_h``. Write: ``k^T v``. Read: ``q S``. Queries and keys are rotated; the norm is per head.
    Simplified: values of width ``D`` (the paper has ``2 D``), RMSNorm with a gain where it has GroupNorm, no
    rescaling of scores (the norm behind undoes it).

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] in float32
    and the number of tokens so far.

    Args:
        config: sizes of the model, and ``RetNetOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for rotation of heads of odd width.

    Source:
        arXiv 2307.08621, equations 5-8.

    Example:
        >>> mixer = RetNetMixer(ModelConfig("retnet", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]))
    """

    options_class = RetNetOptions
    equation = StateEquation(
        gate=lambda h: 1 - 2.0 ** (-5 - h),
        write=lambda k, v: outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        where=lambda mixer, z: {"h": torch.arange(mixer.config.n_heads)[:, None]},
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(config, config.head_dim)
        D = config.d_model
        self.qkvg = nn.Linear(D, 4 * D, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Projections, int]:
        return project_rotated(self, x, past), (past or 0) + x.shape[1]

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        q = upcast(z["q"])
        h = torch.arange(self.config.n_heads, device=q.device, dtype=q.dtype)
        log_decay = torch.log1p(-(2.0 ** (-5 - h)))
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])


class GatedRetNetMixer(Mixer):
    """Mix tokens by gated retention, a decay per head from the token (Sun et al. 2024, arXiv 2405.05254).

        a_t = x_t w_gamma per head,  gamma_t = sigmoid(a_t)^(1/16)
        S_t = gamma_t S_{t-1} + k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = (RMSNorm(o) silu(x W_g)) W_o

    Gate: ``gamma_t``. Write: ``k^T v``. Read: ``q S``. Queries and keys are rotated; the norm is per head;
    the temperature 16 is the released code's (YOCO); values have width ``D``. Simplified: RMSNorm with a gain
    where it has GroupNorm.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] in float32
    and the number of tokens so far.

    Args:
        config: sizes of the model, and ``RetNetOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for rotation of heads of odd width.

    Source:
        arXiv 2405.05254, section 3.1, equation 4.

    Example:
        >>> mixer = GatedRetNetMixer(ModelConfig("gated_retnet", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]))
    """

    options_class = RetNetOptions
    equation = StateEquation(
        gate=lambda a: sigmoid(a) ** (1 / 16),
        write=lambda k, v: outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        learned="w_gamma [D, H]",
        where=lambda mixer, z: columns(z, "a"),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        check_rotation(config, config.head_dim)
        D = config.d_model
        self.qkvg = nn.Linear(D, 4 * D, bias=False)
        self.decay = nn.Linear(D, config.n_heads, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: int | None) -> tuple[Projections, int]:
        a = upcast(self.decay(x))  # [B, T, H]
        return {**project_rotated(self, x, past), "a": a}, (past or 0) + x.shape[1]

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        log_decay = logsigmoid(z["a"]) / TEMPERATURE
        return self.linear_attention(z["q"], z["k"], z["v"], log_decay, state=S)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])


def project_rotated(mixer: Any, x: Float[Tensor, "B T D"], past: int | None) -> Projections:
    """Project x as both mixers of this file do: to q, k, v and output gate, q and k turned by position."""
    config = mixer.config
    q, k, v, gate = mixer.qkvg(x).chunk(4, -1)
    q, k, v = (split_heads(z, config.n_heads) for z in (q, k, v))
    if config.options.positions == "rope":
        t = number_tokens(x, past or 0)
        q, k = (rotate(z, t, config.options.rope_base) for z in (q, k))
    return {"q": q, "k": k, "v": v, "gate": silu(gate)}
