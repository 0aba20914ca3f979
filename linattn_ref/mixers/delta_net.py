"""Define DeltaNet and Gated DeltaNet: a key corrects what the state recalls for it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import exp, eye, nn
from torch.nn.functional import silu, softplus

from linattn_ref.config import ModelConfig, Options, check_at_least, check_not_negative, check_positive
from linattn_ref.mixers.base import Mixer, Projections, merge_heads, split_heads
from linattn_ref.mixers.equation import StateEquation, dot, outer
from linattn_ref.mixers.parts import HeadNorm, ShortConvolution, l2_normalize, make_step_bias, upcast
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

CONV = 4  # tokens that the short convolution sees


@dataclass(frozen=True)
class DeltaNetOptions(Options):
    """Choose the largest write strength of DeltaNet.

    Args:
        beta_max: beta = beta_max sigmoid(x W_b); default 1, as published; 2 lets a key flip its direction
            of the state (Grazzi et al. 2024, arXiv 2411.12537).

    Raises:
        ValueError: for a strength of 0 or less, or above 2.
    """

    beta_max: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "beta_max")
        require(self.beta_max <= 2, "beta_max", str(self.beta_max), "above 0 and at most 2")


@dataclass(frozen=True)
class GatedDeltaNetOptions(DeltaNetOptions):
    """Choose the largest write strength and the heads of Gated DeltaNet.

    Args:
        beta_max: as for DeltaNet.
        n_value_heads: heads of values, and so of states; default 0, the model's ``n_heads``.
        n_key_heads: heads of queries and keys; each serves as many heads of values; default 0, as many as
            there are heads of values.
        key_dim: width K of a key; default 0, D / H.
        value_dim: width V of a value; default 0, D / H.
        key_eps: what is added to the squared length of queries and keys before they are divided by it; 1e-6
            in FLA and in Qwen3-Next; default 0, so that they have length 1.

    Raises:
        ValueError: for a strength out of range, a negative number of heads, width or ``key_eps``.
    """

    n_value_heads: int = 0
    n_key_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    key_eps: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "n_value_heads", "n_key_heads", "key_dim", "value_dim")
        check_not_negative(self, "key_eps")


class Heads(NamedTuple):
    """Count the heads of a mixer of the delta rule: how many have keys, how many values, and their widths."""

    keys: int
    values: int
    K: int
    V: int

    @property
    def rows(self) -> list[int]:
        """The widths of all queries, of all keys and of all values together."""
        return [self.keys * self.K, self.keys * self.K, self.values * self.V]


def mix_delta(mixer: Mixer, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
    """Run the delta rule on z, by a step for one token while ``decoding``, else in chunks."""
    v, log_decay = z["v"], z.get("log_decay")
    qkv = z["q"].to(v.dtype), z["k"].to(v.dtype), v
    if mixer.decoding and v.shape[1] == 1:
        return mixer.ops.step_delta_rule(*qkv, z["beta"], log_decay, state=S)
    return mixer.ops.chunk_delta_rule(*qkv, z["beta"], log_decay, initial_state=S)


class DeltaNetMixer(Mixer):
    """Mix tokens by the delta rule (Yang et al. 2024, arXiv 2406.06484).

        beta_t = beta_max sigmoid(x_t W_b) per head
        S_t = (I - beta_t k_t^T k_t) S_{t-1} + beta_t k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = RMSNorm(o) W_o

    Gate: ``I - beta k^T k``, a matrix. Write: ``beta k^T v``. Read: ``q S``. Queries, keys and values each go
    through a convolution of width 4 and SiLU; queries and keys then have length 1; the norm is per head. The
    scale is the released code's; the norm undoes it.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] and the
    last three inputs of the convolution [B, 3, 3 D], in float32.

    Args:
        config: sizes of the model, and ``DeltaNetOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2406.06484, section 3; released code for the layer.

    Example:
        >>> mixer = DeltaNetMixer(ModelConfig("delta_net", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]), torch.Size([1, 3, 96]))
    """

    options_class = DeltaNetOptions
    needs = "chunk_delta_rule"
    equation = StateEquation(
        gate=lambda K, beta, k: eye(K) - beta * outer(k, k),
        write=lambda beta, k, v: beta * outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        learned="W_b [D, H]",
        gating="matrix",
        where=lambda mixer, z: {"beta": z["beta"][..., None, None]},
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.conv = ShortConvolution(3 * D, CONV)
        self.beta = nn.Linear(D, config.n_heads, bias=False)
        self.norm = HeadNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(D, D, bias=False)

    mix = mix_delta

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        return project_delta(self, x, past)

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)))

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return 3 * config.d_model * (CONV - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return count_delta_flops(seq_len, config.n_heads, *cls.widths(config))


class GatedDeltaNetMixer(Mixer):
    """Mix tokens by the delta rule with a decay before each correction (Yang et al. 2024, arXiv 2412.06464).

        beta_t = beta_max sigmoid(x_t W_b) per head
        alpha_t = exp(-e^a softplus(x_t W_a + b)) per head
        S_t = alpha_t (I - beta_t k_t^T k_t) S_{t-1} + beta_t k_t^T v_t,  o_t = q_t S_t / sqrt K
        y = (RMSNorm(o) silu(x W_g)) W_o

    Gate: ``alpha (I - beta k^T k)``, a matrix. Write: ``beta k^T v``. Read: ``q S``. It is DeltaNet with
    Mamba-2's decay and an output gate; the norm is per head. Keys and values have width ``D / H`` (the
    released layer has heads of ``0.75 D / H`` and values twice as wide), unless the options say otherwise; in
    Qwen3-Next two heads of values share a key. The rule is decay first; ``Diag(alpha) - beta k^T k`` is
    another.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state S [B, H, K, V] and the
    last three inputs of the convolution [B, 3, 3 D], in float32.

    Args:
        config: sizes of the model, and ``GatedDeltaNetOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: heads of values that cannot share the heads of keys evenly.

    Source:
        arXiv 2412.06464, sections 3.1 and 3.4.

    Example:
        >>> mixer = GatedDeltaNetMixer(ModelConfig("gated_delta_net", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 2, 16, 16]), torch.Size([1, 3, 96]))
    """

    options_class = GatedDeltaNetOptions
    needs = "chunk_delta_rule"
    equation = StateEquation(
        gate=lambda alpha, K, beta, k: alpha * (eye(K) - beta * outer(k, k)),
        write=lambda beta, k, v: beta * outer(k, v),
        read=lambda q, S, K: dot(q, S) * K**-0.5,
        learned="W_b [D, H]; a [H], W_a [D, H], b [H] of alpha",
        gating="matrix",
        where=lambda mixer, z: {
            "alpha": exp(z["log_decay"])[..., None, None],
            "beta": z["beta"][..., None, None],
        },
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D, heads = config.d_model, self.heads(config)
        H, width = heads.values, heads.values * heads.V
        require(H % heads.keys == 0, "n_key_heads", str(heads.keys), f"a divisor of n_value_heads = {H}")
        self.qkv = nn.Linear(D, sum(heads.rows), bias=False)
        self.conv = ShortConvolution(sum(heads.rows), CONV)
        self.beta = nn.Linear(D, H, bias=False)
        self.step = nn.Linear(D, H, bias=False)
        self.step_bias = nn.Parameter(make_step_bias(H))
        self.log_A = nn.Parameter(torch.linspace(1, 16, H).log())
        self.gate = nn.Linear(D, width, bias=False)
        self.norm = HeadNorm(heads.V, config.norm_eps)
        self.out = nn.Linear(width, D, bias=False)

    @classmethod
    def heads(cls, config: ModelConfig) -> Heads:
        """Return the heads that the options ask for."""
        own, H = config.options, config.options.n_value_heads or config.n_heads
        return Heads(own.n_key_heads or H, H, *cls.widths(config))

    mix = mix_delta

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        step = softplus(upcast(self.step(x)) + upcast(self.step_bias))  # [B, T, H]
        log_decay = -upcast(self.log_A).exp() * step
        heads = self.heads(self.config)
        z, past = project_delta(self, x, past, heads, self.config.options.key_eps)
        if heads.values > heads.keys:
            z |= {name: z[name].repeat_interleave(heads.values // heads.keys, 2) for name in ("q", "k")}
        return {**z, "log_decay": log_decay, "gate": silu(self.gate(x))}, past

    def output(self, o: Float[Tensor, "B T H V"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(merge_heads(self.norm(o)) * z["gate"])

    @classmethod
    def widths(cls, config: ModelConfig) -> tuple[int, int]:
        return config.options.key_dim or config.head_dim, config.options.value_dim or config.head_dim

    @classmethod
    def past_numel(cls, config: ModelConfig) -> int:
        return sum(cls.heads(config).rows) * (CONV - 1)

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        heads = cls.heads(config)
        return heads.values * heads.K * heads.V + cls.past_numel(config)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return count_delta_flops(seq_len, cls.heads(config).values, *cls.widths(config))


def project_delta(
    mixer: Any,
    x: Float[Tensor, "B T D"],
    past: Tensor | None,
    heads: Heads | None = None,
    key_eps: float = 0.0,
) -> tuple[Projections, Tensor]:
    """Project x as mixers of the delta rule do, with the layers ``beta``, ``qkv`` and ``conv`` of ``mixer``.

    Returns:
        q and k of length 1, v and the write strength beta [B, T, H], by name; and the last inputs of the
        convolution.
    """
    H, K = mixer.config.n_heads, mixer.config.head_dim
    heads = heads or Heads(H, H, K, K)
    beta = mixer.config.options.beta_max * torch.sigmoid(upcast(mixer.beta(x)))
    qkv, past = mixer.conv(mixer.qkv(x), past)
    qk, v = qkv.split((2 * heads.keys * heads.K, heads.values * heads.V), -1)
    q, k = l2_normalize(split_heads(qk, 2 * heads.keys), key_eps).chunk(2, -2)
    return {"q": q, "k": k, "v": split_heads(v, heads.values), "beta": beta}, past


def count_delta_flops(seq_len: int, n_heads: int, K: int, V: int, chunk_size: int = 64) -> int:
    """Return the forward matmul FLOPs of ``chunk_delta_rule``.

    The triangular systems, 2 T C K, are not counted. Per head: two tables of scores 4 T C K, U - W S 2 T K
    V, reading 2 T K V + 2 T C V, writing 2 T K V.
    """
    C = min(chunk_size, seq_len)
    T = C * -(-seq_len // C)
    return n_heads * (4 * T * C * K + 2 * T * C * V + 6 * T * K * V)
