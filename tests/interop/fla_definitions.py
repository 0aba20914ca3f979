"""FLA's layers in our words: what each computes with its parameters and options, in torch and our ops.

Written after flash-linear-attention 0.6.0, whose layers gave the same numbers; ``shapes`` has the parameters
of its classes at ``SIZES`` and ``STATES``.
"""

from collections.abc import Callable
from types import SimpleNamespace as Options
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, elu, group_norm, logsigmoid, pad, rms_norm, silu, softplus

from linattn_ref import ops
from linattn_ref.mixers.base import merge_heads, split_heads
from linattn_ref.ops.position import rotate

Weights = dict[str, Tensor]
SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "n_layers": 2, "norm_eps": 1e-5}
STATES = {"mamba": {"state_size": 8}, "mamba2": {"state_size": 8}}

_QKVO = "q_proj.weight 16x16, k_proj.weight 16x16, v_proj.weight 16x16, o_proj.weight 16x16"
_DELTA = (
    f"{_QKVO}, b_proj.weight 2x16, o_norm.weight 8, "
    "q_conv1d.weight 16x1x4, k_conv1d.weight 16x1x4, v_conv1d.weight 16x1x4"
)
_SHAPES = {
    "softmax": f"{_QKVO}, r_proj.weight 16x16",
    "linear": _QKVO,
    "linear, norm": f"{_QKVO}, norm.weight 8",
    "retnet": f"{_QKVO}, g_proj.weight 16x16, g_norm_swish_gate.weight 8",
    "gla": "q_proj.weight 8x16, k_proj.weight 8x16, v_proj.weight 16x16, g_proj.weight 16x16, "
    "gk_proj.0.weight 16x16, gk_proj.1.weight 8x16, gk_proj.1.bias 8, o_proj.weight 16x16, "
    "g_norm_swish_gate.weight 8",
    "hgrn2": "q_proj.weight 16x16, f_proj.weight 16x16, i_proj.weight 16x16, g_norm.weight 16, "
    "o_proj.weight 16x16",
    "gated_retnet": f"{_QKVO}, g_proj.weight 16x16, gk_proj.weight 2x16",
    "rwkv6": "x_bias 5x16, bonus 2x8, x_proj.0.mu 16, x_proj.0.linear.weight 160x16, x_proj.2.weight 16x160, "
    "r_proj.linear.weight 16x16, w_proj.linear.lora.0.weight 64x16, w_proj.linear.lora.2.weight 16x64, "
    "w_proj.linear.lora.2.bias 16, k_proj.linear.weight 16x16, v_proj.linear.weight 32x16, "
    "g_proj.linear.weight 32x16, g_norm.weight 32, g_norm.bias 32, o_proj.weight 16x32",
    "mamba": "A_log 32x8, D 32, conv1d.weight 32x1x4, in_proj.weight 64x16, x_proj.weight 17x32, "
    "dt_proj.weight 32x1, dt_proj.bias 32, out_proj.weight 16x32",
    "mamba2": "dt_bias 2, A_log 2, D 2, conv1d.weight 48x1x4, in_proj.weight 82x16, norm.weight 32, "
    "out_proj.weight 16x32",
    "delta_net": _DELTA,
    "gated_delta_net": f"{_DELTA}, A_log 2, dt_bias 2, a_proj.weight 2x16, g_proj.weight 16x16",
}


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Parameters of FLA's layer, "linear, norm" being the one that has an output norm."""
    return {
        parameter: tuple(map(int, shape.split("x")))
        for parameter, shape in (entry.split() for entry in _SHAPES[name].split(", "))
    }


def _maps(w: Weights, x: Tensor, names: str, heads: int) -> list[Tensor]:
    """x W^T for every ``_proj``, as [B, T, H, .]; with one number a head, as [B, T, H]."""
    y = [x @ w[f"{name}_proj.weight"].mT for name in names.split()]
    return [z if z.shape[-1] == heads else split_heads(z, heads) for z in y]


def _conv(x: Tensor, weight: Tensor) -> Tensor:
    width = weight.shape[-1]
    return silu(conv1d(pad(x.mT, (width - 1, 0)), weight, groups=len(weight)).mT)


def _rms(o: Tensor, gain: Tensor | None, eps: float) -> Tensor:
    return rms_norm(o, o.shape[-1:], gain, eps)


def _times(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1], dtype=x.dtype)


def softmax(w: Weights, x: Tensor, c: Options) -> Tensor:
    q, r, k, v = _maps(w, x, "q r k v", c.num_heads)
    q, r, k = (rotate(z, _times(x), c.rope_theta) for z in (q, r, k))
    scores = torch.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
    future = torch.ones_like(scores).triu(1).bool()
    weights = scores.masked_fill(future, -torch.inf).softmax(-1)
    more = weights * torch.einsum("bthk,bshk->bhts", r, k)
    weights = weights * (1 + more.sum(-1, keepdim=True)) - more
    return merge_heads(torch.einsum("bhts,bshv->bthv", weights, v)) @ w["o_proj.weight"].mT


def linear(w: Weights, x: Tensor, c: Options) -> Tensor:
    q, k, v = _maps(w, x, "q k v", c.num_heads)
    if c.feature_map != "identity":
        q, k = (elu(z) + 1 if c.feature_map == "elu" else z.relu() for z in (q, k))
    o = ops.chunk_linear_attention(q, k, v).output
    if c.do_feature_map_norm:
        o = o / ((q * k.cumsum(1)).sum(-1, keepdim=True) * q.shape[-1] ** -0.5 + 1e-10)
    if c.output_norm == "rmsnorm":
        o = _rms(o, w["norm.weight"], c.norm_eps)
    return merge_heads(o) @ w["o_proj.weight"].mT


def retnet(w: Weights, x: Tensor, c: Options) -> Tensor:
    q, k, v, g = _maps(w, x, "q k v g", c.num_heads)
    q, k = (rotate(z, _times(x)) for z in (q, k))
    log_decay = (1 - 2.0 ** (-5 - torch.arange(c.num_heads, dtype=x.dtype))).log()
    o = ops.chunk_linear_attention(q, k, v, log_decay).output
    o = _rms(o, w["g_norm_swish_gate.weight"], c.norm_eps) * silu(g)
    return merge_heads(o) @ w["o_proj.weight"].mT


def gated_retnet(w: Weights, x: Tensor, c: Options) -> Tensor:
    q, k, v, g, a = _maps(w, x, "q k v g gk", c.num_heads)
    speed = c.rope_theta ** (-torch.arange(0, q.shape[-1], 2, dtype=x.dtype) / q.shape[-1])
    angle = (_times(x)[:, None] * speed)[:, None]
    turn = torch.polar(torch.ones_like(angle), angle)  # neighbours are one complex number
    q, k = (torch.view_as_complex(z.unflatten(-1, (-1, 2)).contiguous()) * turn for z in (q, k))
    q, k = (torch.view_as_real(z).flatten(-2) for z in (q, k))
    o = ops.chunk_linear_attention(q, k, v, logsigmoid(a) / c.gate_logit_normalizer).output
    return merge_heads(_rms(o, None, c.norm_eps) * silu(g)) @ w["o_proj.weight"].mT


def gla(w: Weights, x: Tensor, c: Options) -> Tensor:
    q, k, v, g = _maps(w, x, "q k v g", c.num_heads)
    a = x @ w["gk_proj.0.weight"].mT @ w["gk_proj.1.weight"].mT + w["gk_proj.1.bias"]
    log_decay = logsigmoid(split_heads(a, c.num_heads)) / c.gate_logit_normalizer
    o = ops.chunk_linear_attention(q, k, v, log_decay).output
    o = _rms(o, w["g_norm_swish_gate.weight"], c.norm_eps) * silu(g)
    return merge_heads(o) @ w["o_proj.weight"].mT


def hgrn2(w: Weights, x: Tensor, c: Options) -> Tensor:
    heads = c.hidden_size // c.expand_ratio
    q, f, v = _maps(w, x, "q f i", heads)
    bound = c.lower_bound.unflatten(0, (heads, -1))
    forget = bound + (1 - bound) * f.sigmoid()
    o = ops.chunk_linear_attention(silu(q), 1 - forget, v, forget.log()).output  # with a scale
    return _rms(merge_heads(o), w["g_norm.weight"], 1e-5) @ w["o_proj.weight"].mT


def rwkv6(w: Weights, x: Tensor, c: Options) -> Tensor:
    delta = pad(x, (0, 0, 1, 0))[:, :-1] - x
    low = ((x + delta * w["x_proj.0.mu"]) @ w["x_proj.0.linear.weight"].mT).tanh().unflatten(-1, (5, -1))
    mixture = torch.einsum("btnr,dnr->btnd", low, w["x_proj.2.weight"].unflatten(1, (5, -1))) + w["x_bias"]
    mixed = dict(zip("rwkvg", (x[:, :, None] + delta[:, :, None] * mixture).unbind(2), strict=True))
    r, k, v, g = (split_heads(mixed[n] @ w[f"{n}_proj.linear.weight"].mT, c.num_heads) for n in "rkvg")
    down, up = (w[f"w_proj.linear.lora.{i}.weight"].mT for i in (0, 2))
    d = split_heads((mixed["w"] @ down).tanh() @ up + w["w_proj.linear.lora.2.bias"], c.num_heads)
    o = merge_heads(ops.chunk_rwkv6(r, k, v, w["bonus"], -d.exp(), scale=1.0).output)
    of_heads = group_norm(o.flatten(0, 1), c.num_heads, w["g_norm.weight"], w["g_norm.bias"], c.norm_eps)
    return (of_heads.view_as(o) * silu(merge_heads(g))) @ w["o_proj.weight"].mT


def mamba(w: Weights, x: Tensor, c: Options) -> Tensor:
    u, z = (x @ w["in_proj.weight"].mT).chunk(2, -1)
    u, N = _conv(u, w["conv1d.weight"]), c.state_size
    low, B, C = (u @ w["x_proj.weight"].mT).split([w["dt_proj.weight"].shape[1], N, N], -1)
    delta = softplus(low @ w["dt_proj.weight"].mT + w["dt_proj.bias"])
    y = ops.associative_selective_scan(u, delta, -w["A_log"].exp(), B, C, w["D"]).output
    return (y * silu(z)) @ w["out_proj.weight"].mT


def mamba2(w: Weights, x: Tensor, c: Options) -> Tensor:
    E, N, H = c.num_heads * c.head_dim, c.state_size, c.num_heads
    z, u, delta = (x @ w["in_proj.weight"].mT).split([E, E + 2 * N, H], -1)
    u, B, C = _conv(u, w["conv1d.weight"]).split([E, N, N], -1)
    u, delta = split_heads(u, H), softplus(delta + w["dt_bias"])
    q, k = (y[:, :, None].expand(-1, -1, H, -1) for y in (C, B))
    log_decay = -w["A_log"].exp() * delta
    o = ops.chunk_linear_attention(q, k, u * delta[..., None], log_decay, scale=1.0).output
    o = merge_heads(o + u * w["D"][:, None]) * silu(z)
    return _rms(o, w["norm.weight"], c.norm_eps) @ w["out_proj.weight"].mT


def delta_net(w: Weights, x: Tensor, c: Options) -> Tensor:
    """With an "A_log" it is the gated one."""
    mixed = (_conv(x @ w[f"{n}_proj.weight"].mT, w[f"{n}_conv1d.weight"]) for n in "qkv")
    q, k, v = (split_heads(z, c.num_heads) for z in mixed)
    q, k = (z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt() for z in (q, k))
    beta, log_decay = (x @ w["b_proj.weight"].mT).sigmoid() * (1 + c.allow_neg_eigval), None
    if "A_log" in w:
        log_decay = -w["A_log"].exp() * softplus(x @ w["a_proj.weight"].mT + w["dt_bias"])
    o = _rms(ops.chunk_delta_rule(q, k, v, beta, log_decay).output, w["o_norm.weight"], c.norm_eps)
    if "A_log" in w:
        o = o * silu(split_heads(x @ w["g_proj.weight"].mT, c.num_heads))
    return merge_heads(o) @ w["o_proj.weight"].mT


DEFINITIONS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax,
    "linear": linear,
    "retnet": retnet,
    "gla": gla,
    "hgrn2": hgrn2,
    "gated_retnet": gated_retnet,
    "rwkv6": rwkv6,
    "mamba": mamba,
    "mamba2": mamba2,
    "delta_net": delta_net,
    "gated_delta_net": delta_net,
}


class StandIn(nn.Module):
    """A layer with the parameters that FLA's has at these options, which computes what it should."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.name, self.options = name, options
        for parameter, shape in shapes(name).items():
            *path, last = parameter.split(".")
            module: nn.Module = self
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, nn.Module())
                module = getattr(module, part)
            module.register_parameter(last, nn.Parameter(torch.full(shape, torch.nan)))

    def weights(self) -> Weights:
        return dict(self.named_parameters())

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        definition = DEFINITIONS[self.name.split(",")[0]]
        return definition(self.weights(), x, Options(**self.options, **arguments)), None, None
