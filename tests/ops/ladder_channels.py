"""What the ladder knows of ops on channels, in ``CHANNELS``: state space models and RWKV-4's wkv.

For each: how its inputs are drawn, what arguments and states they make, and its oracle, channel by channel.
A case of theirs has K channels; those of the two state space models have V numbers of state.
"""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from linattn_ref import oracle
from linattn_ref.ops import WKVState, step_lti_ssm, step_selective_scan, step_wkv
from tests.ops.dual import imaginary_part, real_part
from tests.ops.ladder_cases import (
    Arrays,
    Case,
    Op,
    Tensors,
    choice,
    drift,
    normal,
    single_state,
    with_zeros,
)
from tests.ops.wrong_channels import LTI, SCAN, WKV


def channels(case: Case, generator: Generator) -> Tensor:
    """Return the sequence [B, T, D], D = case.K, with zeros if the case has them."""
    u = normal(generator, case.B, case.T, case.K)
    return with_zeros(u, generator) if case.zeros else u


# --- linear time-invariant: decay is "real" or "complex", strength the method, or "hard" decays (zoh) -------


def lti_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw the inputs; of A, B, C and the state the real and the imaginary parts are leaves of their own."""
    D, N = case.K, case.V
    x = {"u": channels(case, generator), "delta": 0.05 + 0.2 * torch.rand(D, generator=generator).double()}
    x["A.re"] = -(0.1 + torch.rand(D, N, generator=generator).double())
    if case.strength == "hard":
        x["A.re"] = choice([-1e-3, -1.0, -50.0], generator, D, N) / x["delta"][:, None]
    if case.strength == "drift":  # nothing drifts in a time-invariant system: rates of all speeds instead
        x["A.re"] = -torch.logspace(-4, 1.7, D * N).double().view(D, N) / x["delta"][:, None]
    x |= {f"{name}.re": normal(generator, D, N) for name in "BC"}
    x["D"] = normal(generator, D)
    if case.start:
        x["initial_state.re"] = normal(generator, case.B, D, N)
    if case.decay == "complex":
        x |= {name.replace("re", "im"): normal(generator, *y.shape) for name, y in x.items() if ".re" in name}
    return x


def lti_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    """Return the arguments, complex ones out of their two leaves, and the method."""
    arguments: dict[str, Any] = {name: y for name, y in x.items() if "." not in name}
    for name in x:
        if name.endswith(".re"):
            base, imaginary = name.removesuffix(".re"), x.get(name.replace(".re", ".im"))
            arguments[base] = x[name] if imaginary is None else torch.complex(x[name], imaginary)
    method = "zoh" if case.strength in ("hard", "drift") else case.strength
    return {**arguments, "method": method}


def lti_state(state: Tensor) -> Tensors:
    """Return the real part of a state, and the imaginary one if it has it."""
    return {"state.re": state.real, "state.im": state.imag} if state.is_complex() else {"state.re": state}


def lti_oracle(case: Case, x: Arrays) -> Arrays:
    """Return the results, batch elements and channels one by one, complex numbers with their conjugates."""
    joined = {
        name[:-3]: x[name] + 1j * x[name.replace("re", "im")] if case.decay == "complex" else x[name]
        for name in x
        if name.endswith(".re")
    }
    start = joined.get("initial_state", np.zeros((case.B, *joined["A"].shape)))
    full = {name: paired(y, case.decay == "complex") for name, y in joined.items()}
    h0 = paired(start, case.decay == "complex")
    y, h = np.empty((2, case.B, case.K), dtype=object)
    for b, d in np.ndindex(case.B, case.K):
        method = "zoh" if case.strength in ("hard", "drift") else case.strength
        A_bar, factor = oracle.discretise(x["delta"][d], full["A"][d], method)
        u = x["u"][b, :, d]
        y[b, d], h[b, d] = oracle.lti_ssm(u, A_bar, factor * full["B"][d], full["C"][d], x["D"][d], h0[b, d])
    N = case.V
    outputs = np.stack([np.stack(list(row), -1) for row in y])
    states = np.stack([np.stack([one[:N] for one in row]) for row in h])
    results = {"output": real_part(outputs), "state.re": real_part(states)}
    return results | ({"state.im": imaginary_part(states)} if case.decay == "complex" else {})


def paired(x: np.ndarray, with_conjugates: bool) -> np.ndarray:
    """Return x, with its conjugates after it if they are wanted."""
    return np.concatenate([x, np.conj(x)], -1) if with_conjugates else x


def nudge_lti(x: Tensors, eps: float) -> Tensors:
    """Return leaves with the real part of every log decay, delta A, less by eps."""
    return {**x, "A.re": x["A.re"] - eps / x["delta"][:, None]}


# --- selective scan: decay is the hold, strength that of the steps ------------------------------------------


def scan_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw the inputs of a scan, with steps of the strength of the case."""
    B, T, D, N = case.B, case.T, case.K, case.V
    x = {"u": channels(case, generator), "delta": softplus(normal(generator, B, T, D) - 1)}
    x["A"] = -normal(generator, D, N).mul(0.5).exp()
    if case.strength == "hard":
        x["delta"] = choice([1e-3, 1.0, 50.0], generator, B, T, D)
    if case.strength == "drift":
        x["delta"] = drift(T, 1e-4, 50.0, D) * (0.5 + torch.rand(B, T, D, generator=generator).double())
    if case.strength in ("all -50", "slow"):
        x["A"] = torch.full((D, N), -50.0 if case.strength == "all -50" else -0.02, dtype=torch.float64)
        x["delta"] = torch.ones(B, T, D, dtype=torch.float64)
    x |= {name: normal(generator, B, T, N) for name in "BC"}
    x["D"] = normal(generator, D)
    if case.start:
        x["initial_state"] = normal(generator, B, D, N)
    return x


def scan_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    """Return leaves, which are arguments under their own names, and the hold."""
    return {**x, "hold": case.decay}


def scan_oracle(case: Case, x: Arrays) -> Arrays:
    """Return the results, batch elements and channels one by one."""
    start = x.get("initial_state", np.zeros((case.B, case.K, case.V)))
    y, h = np.empty((2, case.B, case.K), dtype=object)
    for b, d in np.ndindex(case.B, case.K):
        y[b, d], h[b, d] = oracle.selective_scan(
            x["u"][b, :, d],
            x["delta"][b, :, d],
            x["A"][d],
            x["B"][b],
            x["C"][b],
            x["D"][d],
            case.decay or "euler",
            start[b, d],
        )
    outputs = np.stack([np.stack(list(row), -1) for row in y])
    return {"output": outputs, "state": np.stack([np.stack(list(row)) for row in h])}


def nudge_scan(x: Tensors, eps: float) -> Tensors:
    """Return leaves with A such that the log decays delta A of a mean step are less by eps."""
    return {**x, "A": x["A"] - eps / x["delta"].mean((0, 1))[:, None]}


# --- wkv: strength that of the keys and decay rates ---------------------------------------------------------


def wkv_inputs(case: Case, generator: Generator) -> Tensors:
    """Draw k and w of the strength of the case, v, u, and an initial state if it has one."""
    shape = case.B, case.T, case.K
    x = {"k": normal(generator, *shape), "v": channels(case, generator)}
    x["w"] = torch.rand(case.K, generator=generator).double()
    x["u"] = normal(generator, case.K)
    if case.strength == "large":
        x["k"] = 300 * x["k"]  # exp of them overflows float64 but for a running maximum
    if case.strength == "drift":
        x["k"] = x["k"] + 100 * drift(case.T, 1e-2, 1.0, 1)  # up by e^100, and down again
        x["w"] = 1e-3 * x["w"]
    if case.strength == "hard":
        x["w"] = choice([0.0, 1e-3, 1.0, 50.0], generator, case.K)
    if case.start:
        x["initial_state.a"] = normal(generator, case.B, case.K)
        x["initial_state.b"] = 0.5 + torch.rand(case.B, case.K, generator=generator).double()
        x["initial_state.m"] = normal(generator, case.B, case.K)
    return x


def wkv_arguments(case: Case, x: Tensors) -> dict[str, Any]:
    """Return the leaves, the state out of its three."""
    arguments: dict[str, Any] = {name: y for name, y in x.items() if "." not in name}
    if "initial_state.m" in x:
        arguments["initial_state"] = WKVState(*(x[f"initial_state.{part}"] for part in "abm"))
    return arguments


def wkv_state(state: WKVState) -> Tensors:
    """Return a state as three named results."""
    return {f"state.{name}": part for name, part in state._asdict().items()}


def wkv_oracle(case: Case, x: Arrays) -> Arrays:
    """Return the results, batch elements and channels one by one."""
    nothing = {"a": 0.0, "b": 0.0, "m": -np.inf}
    o, s = np.empty((2, case.B, case.K), dtype=object)
    for b, d in np.ndindex(case.B, case.K):
        state = tuple(x[f"initial_state.{p}"][b, d] if case.start else nothing[p] for p in "abm")
        o[b, d], s[b, d] = oracle.wkv(x["k"][b, :, d], x["v"][b, :, d], x["w"][d], x["u"][d], state)
    states = np.stack([np.stack(list(row)) for row in s])  # [B, D, 3]
    outputs = np.stack([np.stack(list(row), -1) for row in o])
    return {"output": outputs} | {f"state.{part}": states[..., i] for i, part in enumerate("abm")}


def nudge_wkv(x: Tensors, eps: float) -> Tensors:
    """Return leaves with decay rates more by a rounding of the largest exponent, k, as at every step."""
    return {**x, "w": x["w"] + eps * x["k"].abs().amax().clamp(min=1)}


# --- the ops -----------------------------------------------------------------------------------------------

CHANNELS: dict[str, Op] = {
    "lti_ssm": Op(
        lti_inputs,
        lti_arguments,
        lti_state,
        lti_oracle,
        step_lti_ssm,
        timed=frozenset("u"),
        full=frozenset(
            ["delta", "D"]
            + [f"{x}.{p}" for x in ("A", "B", "C", "initial_state", "state") for p in ("re", "im")]
        ),
        variants=tuple(itertools.product(("real", "complex"), ("zoh", "bilinear", "euler", "hard"))),
        long=("complex", "convolution"),
        wrong=LTI,
        nudge=nudge_lti,
        dual=True,
    ),
    "selective_scan": Op(
        scan_inputs,
        scan_arguments,
        single_state,
        scan_oracle,
        step_selective_scan,
        timed=frozenset(["u", "delta", "B", "C"]),
        full=frozenset(["delta", "A", "D", "initial_state", "state"]),
        variants=tuple(itertools.product(("euler", "exact"), ("mild", "hard", "all -50", "slow"))),
        long=("euler", "associative"),
        wrong=SCAN,
        nudge=nudge_scan,
    ),
    "wkv": Op(
        wkv_inputs,
        wkv_arguments,
        wkv_state,
        wkv_oracle,
        step_wkv,
        timed=frozenset("kv"),
        full=frozenset([f"{x}.{p}" for x in ("initial_state", "state") for p in "abm"] + ["w", "u"]),
        variants=((None, "mild"), (None, "large"), (None, "hard")),
        long=(None, "chunk"),
        wrong=WKV,
        nudge=nudge_wkv,
    ),
}
