"""What the ladder knows of ops on heads, in ``HEADS``: softmax, linear attention, RWKV-6 and -7, delta rule.

For each: how its inputs are drawn, what arguments and states they make, and its oracle, head by head.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from linattn_ref import oracle
from linattn_ref.ops import (
    KVCache,
    step_delta_rule,
    step_linear_attention,
    step_rwkv6,
    step_rwkv7,
    step_softmax_attention,
)
from tests.ops.ladder_cases import Arrays, Case, Op, Tensors, choice, drift, normal, qkv, single_state
from tests.ops.wrong_heads import BETA, BONUS, CACHE, ON_HEADS, PACKED, REMOVAL, STATE

CACHED = 9  # tokens in an initial cache
STRENGTHS = ("mild", "hard", "all -50", "zero")
SCORES = ((None, "mild"), (None, "large"))
DECAYS = ((None, "mild"), *itertools.product(("head", "token", "channel"), STRENGTHS))


# --- inputs ------------------------------------------------------------------------------------------------


def log_decays(case: Case, generator: Generator) -> Tensor:
    """Return logarithms of decays: mild ones as a trained gate gives them, or those that break things."""
    shapes = {
        "head": (case.H,),
        "token": (case.B, case.T, case.H),
        "channel": (case.B, case.T, case.H, case.K),
    }
    shape = shapes[case.decay or "head"]
    if case.strength == "mild":
        return torch.nn.functional.logsigmoid(normal(generator, *shape)) / 4
    if case.strength == "cliff":
        late = torch.arange(case.T) >= case.T // 2
        g = torch.where(late, -1e-4, -50.0).double()
        return g.view(1, -1, 1, *[1] * (len(shape) - 3)).expand(shape).clone()
    if case.strength == "drift":
        around = 0.5 + torch.rand(shape, generator=generator, dtype=torch.float64)
        return -around * drift(case.T, 1e-4, 50.0, *shape[2:])
    levels = {"hard": [0.0, -1e-3, -1.0, -50.0], "all -50": [-50.0], "zero": [0.0]}[case.strength]
    return choice(levels, generator, *shape)


def linear_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw q, k, v, and log decays and an initial state if the case has them."""
    x = qkv(case, generator)
    if case.decay:
        x["log_decay"] = log_decays(case, generator)
    if case.start:
        x["initial_state"] = normal(generator, case.n_states, case.H, case.K, case.V)
    return x


def softmax_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw q, k, v with scores of the strength of the case, and an initial cache if it has one."""
    x = qkv(case, generator)
    if case.strength == "large":
        x["q"] = 40 * x["q"]  # scores in the hundreds: exp of them overflows float32
    if case.strength == "drift":
        x["k"] = x["k"] * drift(case.T, 0.1, 40.0, 1, 1)
    if case.start:
        x["initial_state.k"] = normal(generator, case.B, CACHED, case.H, case.K)
        x["initial_state.v"] = normal(generator, case.B, CACHED, case.H, case.V)
    return x


def rwkv6_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw the inputs of linear attention, and a bonus."""
    return {**linear_inputs(case, generator), "bonus": normal(generator, case.H, case.K)}


def delta_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw keys of length at most 1, and strengths beta up to 2, where a key reflects the state."""
    x = linear_inputs(case, generator)
    x["k"] = x["k"] / x["k"].norm(dim=-1, keepdim=True).clamp(min=1e-3)
    beta = torch.rand(case.B, case.T, case.H, generator=generator, dtype=torch.float64)
    levels = {"hard": [0.0, 1e-3, 1.0, 1.999], "all -50": [1.0], "zero": [1.999]}.get(case.strength)
    if levels:
        beta = torch.tensor(levels, dtype=torch.float64)[(beta * len(levels)).long()]
    return {**x, "beta": 2 * beta if levels is None and case.zeros else beta}


def rwkv7_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw removals of length at most 1, and rates from 0 to 1; half of them are at an end if hard."""
    x = linear_inputs(case, generator)
    removal = normal(generator, case.B, case.T, case.H, case.K)
    rate = torch.rand(removal.shape, generator=generator, dtype=torch.float64)
    x["removal"] = removal / removal.norm(dim=-1, keepdim=True).clamp(min=1e-3)
    return {**x, "rate": (2 * rate - 0.5).clamp(0, 1) if case.strength == "hard" else rate}


# --- arguments, states, oracles ----------------------------------------------------------------------------


def arguments_with_scale(case: Case, x: Tensors) -> dict[str, Any]:
    """Return leaves that are arguments under their own names, the scale, and the offsets of a pack."""
    return {**x, "scale": case.scale, **offsets_of(case, x)}


def offsets_of(case: Case, x: Tensors) -> dict[str, Tensor]:
    """Return the argument ``cu_seqlens`` if the case has packed sequences."""
    if not case.lengths:
        return {}
    ends = torch.tensor([0, *itertools.accumulate(case.lengths)], dtype=torch.int32, device=x["q"].device)
    return {"cu_seqlens": ends}


def softmax_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    """Return q, k, v, the cache out of its two leaves, and the scale."""
    arguments: dict[str, Any] = {name: x[name] for name in "qkv"}
    if "initial_state.k" in x:
        arguments["initial_state"] = KVCache(x["initial_state.k"], x["initial_state.v"])
    return {**arguments, "scale": case.scale, **offsets_of(case, x)}


def softmax_state(state: KVCache) -> Tensors:
    """Return a cache as two named results."""
    return {"state.k": state.k, "state.v": state.v}


def nudge_decays(x: Tensors, eps: float) -> Tensors:
    """Return leaves with every log decay g moved to g - eps: a decay exp(g) is a rounded number."""
    return {**x, "log_decay": x["log_decay"] - eps} if "log_decay" in x else x


def head_by_head(function: Callable, *own: str) -> Callable[[Case, Arrays], Arrays]:
    """Return the oracle of all batch elements and heads from that of one head.

    Args:
        function: the oracle of one head.
        own: names of its arguments between v and the decays, as "beta".
    """

    def run(case: Case, x: Arrays) -> Arrays:
        B, T, H, K = x["q"].shape
        x = dict(x)
        if "log_decay" in x:
            decay = np.exp(x["log_decay"])
            x["alpha"] = np.broadcast_to(decay, (B, T, H)) if decay.ndim == 1 else decay
        if "bonus" in x:
            x["bonus"] = np.broadcast_to(x["bonus"], (B, T, H, K))
        o, S = np.empty((2, B, H), dtype=object)
        for b, h in np.ndindex(B, H):
            here = {name: x[name][b, :, h] for name in ("q", "k", "v", *own, "alpha") if name in x}
            here |= {"bonus": here["bonus"][0]} if "bonus" in here else {}
            start = x["initial_state"][b, h] if case.start else None
            o[b, h], S[b, h] = function(**here, scale=scale_of(case), state=start)
        return {"output": sequence(o), "state": np.stack([np.stack(row) for row in S])}

    return one_by_one(run)


def one_by_one(run: Callable[[Case, Arrays], Arrays]) -> Callable[[Case, Arrays], Arrays]:
    """Return an oracle that takes packed sequences apart."""

    def run_packed(case: Case, x: Arrays) -> Arrays:
        if not case.lengths:
            return run(case, x)
        outputs, states, end = [], [], 0
        empty = np.zeros((1, case.H, case.K, case.V))
        for n, length in enumerate(case.lengths):
            tokens = slice(end, end := end + length)
            one = {name: y[:, tokens] if y.ndim > 1 else y for name, y in x.items()}
            one["initial_state"] = state = x["initial_state"][n : n + 1] if case.start else empty
            if length:
                results = run(replace(case, T=length, lengths=()), one)
                outputs.append(results["output"])
                state = results.get("state", empty)
            states.append(state)
        output = np.concatenate(outputs, 1)
        if case.op == "softmax_attention":
            return {"output": output, "state.k": x["k"], "state.v": x["v"]}
        return {"output": output, "state": np.concatenate(states)}

    return run_packed


def scale_of(case: Case) -> float:
    """Return the scale of the scores of a case."""
    return case.K**-0.5 if case.scale is None else case.scale


def softmax_oracle(case: Case, x: Arrays) -> Arrays:
    """Return the results of softmax attention, batch elements and heads one by one."""
    B, _, H, _ = x["q"].shape
    cache = [(x[f"initial_state.{name}"], x[name]) if case.start else (x[name],) for name in "kv"]
    k, v = (np.concatenate(parts, 1) for parts in cache)
    o = np.empty((B, H), dtype=object)
    for b, h in np.ndindex(B, H):
        o[b, h] = oracle.softmax_attention(x["q"][b, :, h], k[b, :, h], v[b, :, h], scale_of(case))
    return {"output": sequence(o), "state.k": k, "state.v": v}


def sequence(o: np.ndarray) -> np.ndarray:
    """Return [B, H] arrays of [T, V] as one [B, T, H, V]."""
    return np.stack([np.stack(row, 1) for row in o])


# --- the ops -----------------------------------------------------------------------------------------------

LINEAR = Op(
    linear_inputs,
    arguments_with_scale,
    single_state,
    head_by_head(oracle.linear_attention),
    step_linear_attention,
    timed=frozenset([*"qkv", "log_decay"]),
    full=frozenset(["log_decay", "initial_state", "state"]),
    variants=DECAYS,
    long=("channel", "chunk"),
    wrong=[*ON_HEADS, *STATE, *PACKED],
    nudge=nudge_decays,
)
HEADS: dict[str, Op] = {
    "softmax_attention": Op(
        softmax_inputs,
        softmax_arguments,
        softmax_state,
        one_by_one(softmax_oracle),
        step_softmax_attention,
        timed=frozenset("qkv"),
        full=frozenset(),
        variants=SCORES,
        long=(None, "chunk"),
        wrong=[*ON_HEADS, *CACHE, *PACKED],
    ),
    "linear_attention": LINEAR,
    "rwkv6": replace(
        LINEAR,
        inputs=rwkv6_inputs,
        oracle=head_by_head(oracle.rwkv6, "bonus"),
        step=step_rwkv6,
        full=LINEAR.full | {"bonus"},
        wrong=[*LINEAR.wrong, *BONUS],
        variants=((None, "mild"), *itertools.product(("head", "channel"), STRENGTHS)),
    ),
    "delta_rule": replace(
        LINEAR,
        inputs=delta_inputs,
        oracle=head_by_head(oracle.delta_rule, "beta"),
        step=step_delta_rule,
        timed=LINEAR.timed | {"beta"},
        full=LINEAR.full | {"beta"},
        long=("token", "chunk"),
        wrong=[*LINEAR.wrong, *BETA],
    ),
    "rwkv7": replace(
        LINEAR,
        inputs=rwkv7_inputs,
        oracle=head_by_head(oracle.rwkv7, "removal", "rate"),
        step=step_rwkv7,
        timed=LINEAR.timed | {"removal", "rate"},
        full=LINEAR.full | {"removal", "rate"},
        wrong=[*LINEAR.wrong, *REMOVAL],
        variants=((None, "mild"), *itertools.product(("head", "channel"), STRENGTHS)),
    ),
}
