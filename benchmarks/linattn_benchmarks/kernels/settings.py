"""List what is timed, op by mode by shape, and draw the numbers that go in."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from linattn_benchmarks.benchmark import Size
from linattn_benchmarks.translation.fla import from_fla
from linattn_ref.ops import KVCache

Inputs = dict[str, Any]  # q, k, v, and where the setting has them beta, log_decay, state, do

OPS = (
    "chunk_linear_attention/none",
    "chunk_linear_attention/H",
    "chunk_linear_attention/BTH",
    "chunk_linear_attention/BTHK",
    "chunk_delta_rule/none",
    "chunk_delta_rule/BTH",
    "chunk_delta_rule/BTHK",
    "chunk_softmax_attention",
    "step_linear_attention/none",
    "step_linear_attention/H",
    "step_linear_attention/BTH",
    "step_linear_attention/BTHK",
    "step_softmax_attention",
)
CHUNK_SHAPES = {  # B, T, H, D
    Size.FULL: ((8, 2048, 16, 128), (2, 8192, 16, 128), (1, 32768, 16, 128), (16, 2048, 16, 64)),
    Size.REDUCED: ((8, 2048, 16, 128),),
    Size.DRY_RUN: ((1, 40, 2, 16),),
}
STEP_SHAPES = {
    Size.FULL: ((128, 1, 16, 128), (1, 1, 16, 128)),
    Size.REDUCED: ((128, 1, 16, 128),),
    Size.DRY_RUN: ((2, 1, 2, 16),),
}
CACHE = {Size.FULL: 4096, Size.REDUCED: 4096, Size.DRY_RUN: 40}  # tokens that the softmax step has read


@dataclass(frozen=True)
class KernelSetting:
    """Describe a row: B sequences of T tokens, H heads with K = V = D; ``cache`` is for the softmax step."""

    op: str
    mode: str
    B: int
    T: int
    H: int
    D: int
    dtype: torch.dtype
    cache: int = 0

    @property
    def function(self) -> str:
        """Return the name of the op, without the shape of log_decay."""
        return self.op.split("/")[0]

    @property
    def decay(self) -> str:
        """Return the shape of log_decay: none, H, BTH or BTHK."""
        return self.op.split("/")[1] if "/" in self.op else "none"

    @property
    def softmax(self) -> bool:
        """Return whether the op is softmax attention."""
        return "softmax" in self.op

    @property
    def delta_rule(self) -> bool:
        """Return whether the op is the delta rule."""
        return "delta_rule" in self.op

    def smaller(self) -> "KernelSetting":
        """Return a setting that a float64 reference can hold, with the same heads and widths."""
        limit = 8 if self.softmax and self.mode == "step" else 2 if self.mode != "step" else self.B
        return replace(self, B=min(self.B, limit), T=min(self.T, 512))


def list_settings(size: Size) -> Iterator[KernelSetting]:
    """Yield every row that there is, in the order in which they are timed."""
    dtype = torch.float32 if size is Size.DRY_RUN else torch.bfloat16
    for op in OPS:
        step = op.startswith("step")
        for mode in ("step",) if step else ("fwd", "fwdbwd"):
            for shape in (STEP_SHAPES if step else CHUNK_SHAPES)[size]:
                cache = CACHE[size] if op == "step_softmax_attention" else 0
                yield KernelSetting(op, mode, *shape, dtype, cache)


def make_inputs(setting: KernelSetting, device: torch.device, seed: int = 0) -> Inputs:
    """Draw normal q, k, v, and decays in float32: RetNet's, or gates as GLA starts with.

    Keys of the delta rule have length 1, and its strengths lie between 0 and 1.
    """
    gen = torch.Generator(device).manual_seed(seed)
    B, T, H, D = setting.B, setting.T, setting.H, setting.D

    def draw(*shape: int, dtype: torch.dtype = setting.dtype) -> Tensor:
        return torch.randn(*shape, generator=gen, device=device, dtype=dtype)

    x: Inputs = {name: draw(B, T, H, D) for name in ("q", "k", "v")}
    if setting.delta_rule:
        x |= {"k": normalize(x["k"], dim=-1), "beta": draw(B, T, H).sigmoid()}
    if setting.decay == "H":
        x["log_decay"] = from_fla("chunk_retention", **x)["log_decay"]
    elif setting.decay != "none":
        gate = (B, T, H) if setting.decay == "BTH" else (B, T, H, D)
        x["log_decay"] = logsigmoid(draw(*gate, dtype=torch.float32)) / 16
    if setting.mode == "step" and setting.softmax:
        x["state"] = KVCache(draw(B, setting.cache, H, D), draw(B, setting.cache, H, D))
    elif setting.mode == "step":
        x["state"] = draw(B, H, D, D, dtype=torch.float32)
    if setting.mode == "fwdbwd":
        x["do"] = draw(B, T, H, D)
    return x


def list_differentiated(x: Inputs) -> list[str]:
    """Return what a gradient is asked for: fixed decays ``[H]`` have none, in RetNet or in FLA."""
    gates = ["log_decay"] if "log_decay" in x and x["log_decay"].ndim > 1 else []
    return ["q", "k", "v", *(["beta"] if "beta" in x else []), *gates]
