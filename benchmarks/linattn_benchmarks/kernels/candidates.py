"""Who is timed: our kernel, every function of FLA 0.6 that computes the same, and torch's softmax attention.

Ours always returns the state, so FLA is asked for it too (``output_final_state``). All start from the same
tensors; what a candidate wants laid out otherwise is laid out before the clock starts. Left out are FLA's
``parallel_*`` forms of linear attention (no state, T^2 work), ``fused_recurrent_*`` for whole sequences (a
token at a time) and ``fused_chunk_gla`` (FLA 0.6 has the name and refuses the call).
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from linattn_benchmarks.kernels.cases import Case, Inputs

Result = tuple[Tensor, Any]  # output, and the state or None


class Candidate(NamedTuple):
    """``call`` is timed; ``arrange`` is not. ``decay`` gives the decays of a function that has its own."""

    name: str
    call: Callable[[Inputs], Result]
    arrange: Callable[[Inputs], Inputs] = dict
    decay: Callable[[int], Tensor] | None = None


# --- ours ---------------------------------------------------------------------------------------------------


def ours(case: Case) -> Candidate:
    def call(x: Inputs) -> Result:
        op = getattr(importlib.import_module("linattn_kernels"), case.function)
        return op(**{name: y for name, y in x.items() if name != "do"})

    return Candidate("ours", call, own_state)


def own_state(x: Inputs) -> Inputs:
    """A linear state is overwritten by our step, so each candidate has its own."""
    return x | {"state": x["state"].clone()} if isinstance(x.get("state"), Tensor) else dict(x)


# --- FLA ----------------------------------------------------------------------------------------------------


class FLAFunction(NamedTuple):
    """``fla.ops.MODULE.NAME``: what it calls log_decay (None: it takes none), and what else must be said."""

    module: str
    name: str
    gate: str | None = None
    besides: Mapping[str, Any] = {}
    decay: Callable[[int], Tensor] | None = None


def lightning_decays(H: int) -> Tensor:
    """What FLA's lightning attention has in layer 0 of 1, a linear ramp; it cannot be given others."""
    return -(8 / H) * torch.arange(H, dtype=torch.float32)


_LINEAR = {"normalize": False}
_LAYER = {"layer_idx": 0, "num_layers": 1}
FLA: dict[str, tuple[FLAFunction, ...]] = {
    "chunk_linear_attention/none": (
        FLAFunction("linear_attn", "chunk_linear_attn", besides=_LINEAR),
        FLAFunction("linear_attn", "fused_chunk_linear_attn", besides=_LINEAR),
    ),
    "chunk_linear_attention/H": (
        FLAFunction("retention", "chunk_retention"),
        FLAFunction("retention", "fused_chunk_retention"),
        FLAFunction("simple_gla", "chunk_simple_gla", "g_gamma"),
        FLAFunction("simple_gla", "fused_chunk_simple_gla", "g_gamma"),
        FLAFunction("lightning_attn", "chunk_lightning_attn", besides=_LAYER, decay=lightning_decays),
    ),
    "chunk_linear_attention/BTH": (
        FLAFunction("simple_gla", "chunk_simple_gla", "g"),
        FLAFunction("simple_gla", "fused_chunk_simple_gla", "g"),
    ),
    "chunk_linear_attention/BTHK": (FLAFunction("gla", "chunk_gla", "g"),),
    "step_linear_attention/none": (
        FLAFunction("linear_attn", "fused_recurrent_linear_attn", besides=_LINEAR),
    ),
    "step_linear_attention/H": (
        FLAFunction("retention", "fused_recurrent_retention"),
        FLAFunction("simple_gla", "fused_recurrent_simple_gla", "g_gamma"),
        FLAFunction(
            "lightning_attn", "fused_recurrent_lightning_attn", besides=_LAYER, decay=lightning_decays
        ),
    ),
    "step_linear_attention/BTH": (FLAFunction("simple_gla", "fused_recurrent_simple_gla", "g"),),
    "step_linear_attention/BTHK": (FLAFunction("gla", "fused_recurrent_gla", "gk"),),
}


def fla_linear(function: FLAFunction) -> Candidate:
    """Both sides have sequences ``[B, T, H, .]``, states ``[B, H, K, V]`` and the same default scale."""

    def call(x: Inputs) -> Result:
        op = getattr(importlib.import_module(f"fla.ops.{function.module}"), function.name)
        gate = {function.gate: x["log_decay"]} if function.gate else {}
        start = {"initial_state": x["state"]} if "state" in x else {}
        return op(x["q"], x["k"], x["v"], output_final_state=True, **gate, **start, **function.besides)

    return Candidate(function.name, call, own_state, function.decay)


def fla_softmax() -> Candidate:
    def call(x: Inputs) -> Result:
        return importlib.import_module("fla.ops.attn").parallel_attn(x["q"], x["k"], x["v"]), None

    return Candidate("parallel_attn", call)


def fla_softmax_step() -> Candidate:
    """It wants all caches behind each other, ``[1, B L, H, K]``, the new token already in them."""

    def arrange(x: Inputs) -> Inputs:
        k, v = joined(x)
        B, L = k.shape[:2]
        ends = torch.arange(B + 1, device=k.device, dtype=torch.int64) * L
        return {"q": x["q"].transpose(0, 1).contiguous(), "k": packed(k), "v": packed(v), "ends": ends}

    def call(x: Inputs) -> Result:
        op = importlib.import_module("fla.ops.attn.decoding").attn_decoding_one_step
        return op(x["q"], x["k"], x["v"], cu_seqlens=x["ends"]).transpose(0, 1), None

    return Candidate("attn_decoding_one_step", call, arrange)


def packed(x: Tensor) -> Tensor:
    """[B, L, H, .] as [1, B L, H, .]."""
    return x.flatten(0, 1)[None]


def joined(x: Inputs) -> tuple[Tensor, Tensor]:
    """The cache with the new token, [B, S + 1, H, .]."""
    return torch.cat([x["state"].k, x["k"]], 1), torch.cat([x["state"].v, x["v"]], 1)


def fla(case: Case) -> list[Candidate]:
    if case.op == "chunk_softmax_attention":
        return [fla_softmax()]
    if case.op == "step_softmax_attention":
        return [fla_softmax_step()]
    return [fla_linear(function) for function in FLA[case.op]]


# --- torch --------------------------------------------------------------------------------------------------


def sdpa(case: Case) -> Candidate | None:
    """FlashAttention as torch has it, heads first and contiguous; nothing for a step with a linear state."""
    if case.mode == "step" and not case.softmax:
        return None

    def arrange(x: Inputs) -> Inputs:
        k, v = joined(x) if "state" in x else (x["k"], x["v"])
        y = {"q": x["q"], "k": k, "v": v} | ({"do": x["do"]} if "do" in x else {})
        return {name: z.transpose(1, 2).contiguous() for name, z in y.items()}

    def call(x: Inputs) -> Result:
        causal = case.mode != "step"
        if x["q"].device.type != "cuda":
            return scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=causal), None
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=causal), None

    return Candidate("sdpa", call, arrange)
