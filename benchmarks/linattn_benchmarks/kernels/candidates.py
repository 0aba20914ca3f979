"""Name who is timed: our kernel, every function of FLA 0.6 that computes the same, and torch's attention.

Our kernels always return the state, so FLA is asked for it too (``output_final_state``). All start from the
same tensors; what a candidate wants laid out otherwise is laid out before the clock starts. Left out are
FLA's ``parallel_*`` forms of linear attention (no state, T^2 work), ``fused_recurrent_*`` for whole sequences
(a token at a time) and ``fused_chunk_gla`` (FLA 0.6 has the name and refuses the call).
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from linattn_benchmarks.kernels.settings import Inputs, KernelSetting
from linattn_benchmarks.translation.fla import FLA_FUNCTIONS, import_fla_function

Result = tuple[Tensor, Any]  # output, and the state or None


class Candidate(NamedTuple):
    """Describe a function that is timed.

    Attributes:
        name: in the table.
        call: inputs -> output and state; it is timed.
        arrange: inputs -> inputs in the layout that ``call`` takes; it is not timed.
        decay: H -> the decays ``[H]`` of a function that has its own. Default None, those it is given.
    """

    name: str
    call: Callable[[Inputs], Result]
    arrange: Callable[[Inputs], Inputs] = dict
    decay: Callable[[int], Tensor] | None = None


def list_candidates(setting: KernelSetting, fla: bool) -> list[Candidate]:
    """Return who is timed: ours first, torch's last, FLA's in between unless ``fla`` is False."""
    torch_sdpa = wrap_sdpa(setting)
    return [
        make_our_candidate(setting),
        *(list_fla_candidates(setting) if fla else []),
        *([torch_sdpa] if torch_sdpa else []),
    ]


# --- ours ---------------------------------------------------------------------------------------------------


def make_our_candidate(setting: KernelSetting) -> Candidate:
    """Return our kernel."""

    def call(x: Inputs) -> Result:
        op = getattr(importlib.import_module("linattn_kernels"), setting.function)
        return op(**{name: y for name, y in x.items() if name != "do"})

    return Candidate("ours", call, copy_state)


def copy_state(x: Inputs) -> Inputs:
    """Copy a linear state, which our step overwrites, so that each candidate has its own."""
    return x | {"state": x["state"].clone()} if isinstance(x.get("state"), Tensor) else dict(x)


# --- FLA ----------------------------------------------------------------------------------------------------

FLA_CANDIDATES: dict[str, tuple[str, ...]] = {  # functions of FLA that compute what the op computes
    "chunk_linear_attention/none": ("chunk_linear_attn", "fused_chunk_linear_attn"),
    "chunk_linear_attention/H": (
        "chunk_retention",
        "fused_chunk_retention",
        "chunk_simple_gla",
        "fused_chunk_simple_gla",
        "chunk_lightning_attn",
    ),
    "chunk_linear_attention/BTH": ("chunk_simple_gla", "fused_chunk_simple_gla"),
    "chunk_linear_attention/BTHK": ("chunk_gla",),
    "chunk_delta_rule/none": ("chunk_delta_rule",),
    "chunk_delta_rule/BTH": ("chunk_gated_delta_rule",),
    "chunk_delta_rule/BTHK": ("chunk_kda",),
    "step_linear_attention/none": ("fused_recurrent_linear_attn",),
    "step_linear_attention/H": (
        "fused_recurrent_retention",
        "fused_recurrent_simple_gla",
        "fused_recurrent_lightning_attn",
    ),
    "step_linear_attention/BTH": ("fused_recurrent_simple_gla",),
    "step_linear_attention/BTHK": ("fused_recurrent_gla",),
}
DECAY_DIMS = {"none": 0, "H": 1, "BTH": 3, "BTHK": 4}


def list_fla_candidates(setting: KernelSetting) -> list[Candidate]:
    """Return all candidates of FLA."""
    if setting.op == "chunk_softmax_attention":
        return [wrap_fla_softmax()]
    if setting.op == "step_softmax_attention":
        return [wrap_fla_softmax_step()]
    return [wrap_fla_linear(function, setting) for function in FLA_CANDIDATES[setting.op]]


def wrap_fla_linear(function: str, setting: KernelSetting) -> Candidate:
    """Return a function of FLA's linear attention: our axes and default scale under FLA's names.

    The names are those of ``to_fla``, which itself looks at values and so would make the GPU wait.
    """
    row = FLA_FUNCTIONS[function]
    names = {**row.names, "state": "initial_state"}
    if row.decay and setting.decay != "none":
        names["log_decay"] = row.decay[DECAY_DIMS[setting.decay]]

    def call(x: Inputs) -> Result:
        arguments = {names[name]: y for name, y in x.items() if name in names}
        return import_fla_function(function)(**arguments, **row.constants, output_final_state=True)

    return Candidate(function, call, copy_state, row.built_in_decay)


def wrap_fla_softmax() -> Candidate:
    """Return FLA's softmax attention."""

    def call(x: Inputs) -> Result:
        return importlib.import_module("fla.ops.attn").parallel_attn(x["q"], x["k"], x["v"]), None

    return Candidate("parallel_attn", call)


def wrap_fla_softmax_step() -> Candidate:
    """Return FLA's softmax step; it takes all caches in one row, ``[1, B L, H, K]``, with the new token."""

    def arrange(x: Inputs) -> Inputs:
        k, v = grow_cache(x)
        B, L = k.shape[:2]
        ends = torch.arange(B + 1, device=k.device, dtype=torch.int64) * L
        return {
            "q": x["q"].transpose(0, 1).contiguous(),
            "k": join_batch(k),
            "v": join_batch(v),
            "ends": ends,
        }

    def call(x: Inputs) -> Result:
        op = importlib.import_module("fla.ops.attn.decoding").attn_decoding_one_step
        return op(x["q"], x["k"], x["v"], cu_seqlens=x["ends"]).transpose(0, 1), None

    return Candidate("attn_decoding_one_step", call, arrange)


def join_batch(x: Tensor) -> Tensor:
    """Return ``[B, L, H, .]`` as ``[1, B L, H, .]``."""
    return x.flatten(0, 1)[None]


def grow_cache(x: Inputs) -> tuple[Tensor, Tensor]:
    """Return the cache with the new token, ``[B, S + 1, H, .]``."""
    return torch.cat([x["state"].k, x["k"]], 1), torch.cat([x["state"].v, x["v"]], 1)


# --- torch --------------------------------------------------------------------------------------------------


def wrap_sdpa(setting: KernelSetting) -> Candidate | None:
    """Return torch's FlashAttention, heads first and contiguous; None for a step with a linear state."""
    if setting.mode == "step" and not setting.softmax:
        return None

    def arrange(x: Inputs) -> Inputs:
        k, v = grow_cache(x) if "state" in x else (x["k"], x["v"])
        y = {"q": x["q"], "k": k, "v": v} | ({"do": x["do"]} if "do" in x else {})
        return {name: z.transpose(1, 2).contiguous() for name, z in y.items()}

    def call(x: Inputs) -> Result:
        causal = setting.mode != "step"
        if x["q"].device.type != "cuda":
            return scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=causal), None
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=causal), None

    return Candidate("sdpa", call, arrange)
