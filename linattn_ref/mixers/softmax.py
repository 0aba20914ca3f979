"""Define softmax attention with rotary positions, and with keys that several heads share."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import torch
from torch import nn

from linattn_ref.config import ModelConfig, Options, check_at_least, check_positive
from linattn_ref.mixers.base import Mixer, State, check_rotation, merge_heads, number_tokens, split_heads
from linattn_ref.mixers.parts import HeadNorm
from linattn_ref.ops.position import rotate
from linattn_ref.ops.results import KVCache
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

Scaling = tuple[float, float, float, float]  # see ``SoftmaxOptions``


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    """Choose the positions and the heads of softmax attention.

    Args:
        positions: "rope" turns queries and keys by their positions (default), "none" does not.
        rope_base: base of the speeds of rotation, see ``ops.rotate``; default 10,000.
        rope_scaling: ``(factor, low, high, length)`` divides the speed of planes that turn fewer than ``low``
            times in ``length`` tokens by ``factor``, leaves those that turn more than ``high`` times as they
            are, and goes evenly from one to the other between, as LLaMA 3.1 does; default None.
        n_kv_heads: heads of keys and values; each serves as many heads of queries (grouped-query attention);
            default 0, as many as there are heads of queries.
        head_dim: width K of a head; default 0, D / H.
        rope_width: how many channels of a head turn, the first ones; default 0, all of them.
        head_norm: whether queries and keys are normalised per head, with gains, before they turn; default
            False.
        gated: whether the output is multiplied by ``sigmoid(x W_g)`` before its projection; default False.

    Raises:
        ValueError: for positions that are neither, a base that is not a finite number above 0, a scaling that
            is not four numbers above 0 with ``low < high``, a negative number of heads or width.
    """

    positions: Literal["rope", "none"] = "rope"
    rope_base: float = 10_000.0
    rope_scaling: Scaling | None = None
    n_kv_heads: int = 0
    head_dim: int = 0
    rope_width: int = 0
    head_norm: bool = False
    gated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "rope_base")
        check_at_least(self, 0, "n_kv_heads", "head_dim", "rope_width")
        if self.rope_scaling is not None:
            given = tuple(self.rope_scaling)
            numbers = len(given) == 4 and all(isinstance(x, Real) and x > 0 for x in given)
            fits = numbers and given[1] < given[2]
            require(fits, "rope_scaling", str(given), "factor, low, high and length above 0, low < high")
            object.__setattr__(self, "rope_scaling", given)


class SoftmaxMixer(Mixer):
    """Mix tokens by causal multi-head softmax attention, as in LLaMA (Vaswani et al. 2017, arXiv 1706.03762).

        o_t = sum_{s <= t} softmax_s(q_t k_s / sqrt K) v_s

    Gate: none. Write: keep k and v. Read: softmax over all keys kept. State: the KV cache, ``2 T D`` numbers,
    its keys already rotated. With the option ``n_kv_heads`` several heads of queries share keys and values,
    and the cache is that much smaller. With ``head_norm`` and ``gated`` it is the attention of Qwen3-Next's
    hybrid. No biases.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state a ``KVCache`` of k and v
    [B, S, H, K] in x's dtype, with ``n_kv_heads`` for H.

    Args:
        config: sizes of the model, and ``SoftmaxOptions``.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Raises:
        ValueError: for rotation of an odd number of channels, or of more than there are; heads that cannot
            share ``n_kv_heads`` evenly.

    Source:
        arXiv 1706.03762, equation 1; arXiv 2302.13971 (LLaMA), section 2.2; arXiv 2305.13245 (grouped heads);
        the code released with LLaMA 3.1 (scaling of the rotation).

    Example:
        >>> import torch
        >>> mixer = SoftmaxMixer(ModelConfig("softmax", d_model=32, n_heads=2), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state.k.shape
        (torch.Size([1, 5, 32]), torch.Size([1, 5, 2, 16]))
    """

    options_class = SoftmaxOptions
    needs = "chunk_softmax_attention"
    state_in_float32 = False

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        H, (n_kv, K) = config.n_heads, _count_heads(config)
        turned = config.options.rope_width or K
        check_rotation(config, turned)
        require(turned <= K, "rope_width", str(turned), f"at most {K}, the width of a head")
        require(H % n_kv == 0, "n_kv_heads", str(n_kv), f"a divisor of n_heads = {H}")
        self.repeats = H // n_kv
        self.qkv = nn.Linear(config.d_model, (H + 2 * n_kv) * K, bias=False)
        self.out = nn.Linear(H * K, config.d_model, bias=False)
        if config.options.head_norm:
            self.q_norm, self.k_norm = HeadNorm(K, config.norm_eps), HeadNorm(K, config.norm_eps)
        if config.options.gated:
            self.gate = nn.Linear(config.d_model, H * K, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return y [B, T, D] and the cache with the keys and values of x appended."""
        options, (n_kv, K) = self.config.options, _count_heads(self.config)
        qkv = split_heads(self.qkv(x), self.config.n_heads + 2 * n_kv)
        q, k, v = qkv.split([self.config.n_heads, n_kv, n_kv], 2)
        if options.head_norm:
            q, k = self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype)
        if options.positions == "rope":
            t = number_tokens(x, 0 if state is None else state[0].shape[1])
            turned = options.rope_width or K
            speed = _compute_speeds(options, turned, t)
            q, k = (_rotate_first(z, turned, t, speed) for z in (q, k))
        v = v.contiguous()  # else the cache would keep the whole of qkv alive
        if self.repeats > 1:
            k, v = (z.repeat_interleave(self.repeats, 2) for z in (k, v))
            state = state and KVCache(*(z.repeat_interleave(self.repeats, 2) for z in state))
        o, cache = self.attend(q, k, v, state)
        if self.repeats > 1:
            cache = KVCache(*(z[:, :, :: self.repeats].contiguous() for z in cache))
        o = merge_heads(o)
        return self.out(torch.sigmoid(self.gate(x)) * o if options.gated else o), cache

    def attend(self, q: Tensor, k: Tensor, v: Tensor, state: State | None) -> tuple[Tensor, KVCache]:
        """Run softmax attention on as many heads of keys as of queries: by a step, in tiles or at once."""
        if self.decoding and q.shape[1] == 1:
            return self.ops.step_softmax_attention(q, k, v, state=state)
        # on a CPU one large product is faster than many tiles, which is what kernels are made of
        tiled = self.config.backend == "triton"
        op = self.ops.chunk_softmax_attention if tiled else self.ops.parallel_softmax_attention
        return op(q, k, v, initial_state=state)

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        n_kv, K = _count_heads(config)
        return 2 * seq_len * n_kv * K

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        # scores and weighted values, the masked half included
        return 4 * seq_len**2 * config.n_heads * _count_heads(config)[1]


def _count_heads(config: ModelConfig) -> tuple[int, int]:
    """Return the number of heads of keys and values, and the width of all heads."""
    return config.options.n_kv_heads or config.n_heads, config.options.head_dim or config.head_dim


def _rotate_first(z: Tensor, n: int, t: Tensor, speed: Tensor) -> Float[Tensor, "B T H K"]:
    """Rotate the first n channels of every head; the others stay as they are."""
    turned = rotate(z[..., :n], t, speed=speed)
    return turned if n == z.shape[-1] else torch.cat([turned, z[..., n:]], -1)


def _compute_speeds(options: SoftmaxOptions, K: int, t: Float[Tensor, " T"]) -> Float[Tensor, " planes"]:
    """Return the speeds of the K / 2 planes, in radians per token, in t's dtype."""
    speed = options.rope_base ** (-torch.arange(0, K, 2, device=t.device, dtype=t.dtype) / K)
    if options.rope_scaling is None:
        return speed
    factor, low, high, length = options.rope_scaling
    kept = ((length * speed / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return speed * (kept + (1 - kept) / factor)
