"""What is timed: ops, modes, shapes, and the numbers that go in."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from linattn_ref.ops import KVCache

Inputs = dict[str, Any]  # q, k, v, and where the case has them log_decay, state, do

OPS = (
    "chunk_linear_attention/none",
    "chunk_linear_attention/H",
    "chunk_linear_attention/BTH",
    "chunk_linear_attention/BTHK",
    "chunk_softmax_attention",
    "step_linear_attention/none",
    "step_linear_attention/H",
    "step_linear_attention/BTH",
    "step_linear_attention/BTHK",
    "step_softmax_attention",
)
MODES = ("fwd", "fwdbwd", "step")
CHUNK_SHAPES = ((8, 2048, 16, 128), (2, 8192, 16, 128), (1, 32768, 16, 128), (16, 2048, 16, 64))
STEP_SHAPES = ((128, 1, 16, 128), (1, 1, 16, 128))
CACHE = 4096  # tokens that the softmax step has read before
TINY_CHUNK_SHAPES = ((1, 40, 2, 16),)
TINY_STEP_SHAPES = ((2, 1, 2, 16),)
TINY_CACHE = 40


@dataclass(frozen=True)
class Case:
    """One row: B sequences of T tokens, H heads with K = V = D; ``cache`` is for the softmax step."""

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
        return self.op.split("/")[0]

    @property
    def decay(self) -> str:
        """none, H, BTH or BTHK: the shape of log_decay."""
        return self.op.split("/")[1] if "/" in self.op else "none"

    @property
    def softmax(self) -> bool:
        return "softmax" in self.op

    @property
    def shape(self) -> str:
        return f"{self.B}x{self.T}x{self.H}x{self.D}"

    @property
    def label(self) -> str:
        return f"{self.op} {self.mode} {self.shape}"

    def smaller(self) -> "Case":
        """What a float64 reference can hold, with the widths and heads that kernels are compiled for."""
        limit = 8 if self.softmax and self.mode == "step" else 2 if self.mode != "step" else self.B
        return replace(self, B=min(self.B, limit), T=min(self.T, 512))


def shapes_of(mode: str, tiny: bool = False) -> tuple[tuple[int, int, int, int], ...]:
    if mode == "step":
        return TINY_STEP_SHAPES if tiny else STEP_SHAPES
    return TINY_CHUNK_SHAPES if tiny else CHUNK_SHAPES


def all_cases(tiny: bool = False) -> list[Case]:
    """Every row that there is, in the order in which they are timed."""
    dtype = torch.float32 if tiny else torch.bfloat16
    cases = []
    for op in OPS:
        for mode in ("step",) if op.startswith("step") else ("fwd", "fwdbwd"):
            for shape in shapes_of(mode, tiny):
                cache = (TINY_CACHE if tiny else CACHE) if op == "step_softmax_attention" else 0
                cases.append(Case(op, mode, *shape, dtype, cache))
    return cases


def retnet_decays(H: int) -> Tensor:
    """log(1 - 2^(-5-h)), as RetNet and FLA's retention have them."""
    return (1 - 2.0 ** (-5.0 - torch.arange(H, dtype=torch.float32))).log()


def inputs(case: Case, device: torch.device, seed: int = 0) -> Inputs:
    """Normal q, k, v in the dtype of the case; float32 decays: RetNet's, or gates as GLA starts with."""
    gen = torch.Generator(device).manual_seed(seed)
    B, T, H, D = case.B, case.T, case.H, case.D

    def draw(*shape: int, dtype: torch.dtype = case.dtype) -> Tensor:
        return torch.randn(*shape, generator=gen, device=device, dtype=dtype)

    x: Inputs = {name: draw(B, T, H, D) for name in ("q", "k", "v")}
    if case.decay == "H":
        x["log_decay"] = retnet_decays(H).to(device)
    elif case.decay != "none":
        gate = (B, T, H) if case.decay == "BTH" else (B, T, H, D)
        x["log_decay"] = logsigmoid(draw(*gate, dtype=torch.float32)) / 16
    if case.mode == "step" and case.softmax:
        x["state"] = KVCache(draw(B, case.cache, H, D), draw(B, case.cache, H, D))
    elif case.mode == "step":
        x["state"] = draw(B, H, D, D, dtype=torch.float32)
    if case.mode == "fwdbwd":
        x["do"] = draw(B, T, H, D)
    return x


def leaves_of(x: Inputs) -> list[str]:
    """What a gradient is asked for: fixed decays ``[H]`` have none, in RetNet or in FLA."""
    gates = ["log_decay"] if "log_decay" in x and x["log_decay"].ndim > 1 else []
    return ["q", "k", "v", *gates]
