"""In float32, over thousands of tokens and with gates that drift, every mixer keeps its digits."""

import copy
from typing import Any

import torch
from torch import Tensor

from linattn_ref.config import ModelConfig
from linattn_ref.mixers import MIXERS, Mixer
from linattn_ref.mixers.mlstm import running_maximum
from tests.mixers.mixer_cases import every_mixer, tensors
from tests.support.closeness import err

T, D, H = 8192, 8, 2


def drifting(length: int) -> Tensor:
    """Return noise around channels that drift by +-3 with periods of 50 tokens to all of them."""
    t = torch.arange(length, dtype=torch.float64)[:, None]
    period = torch.logspace(1.7, 4, D, dtype=torch.float64)
    noise = torch.randn(length, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (3 * torch.sin(2 * torch.pi * t / period) + 0.5 * noise)[None]


def both(mixer: Mixer, x: Tensor) -> tuple[Any, Any]:
    """Return (y, state) computed in float32, and (y, state) from the same numbers in float64."""
    exact = copy.deepcopy(mixer).double()
    return mixer(x.float()), exact(x.float().double())


@every_mixer
@torch.no_grad()
def test_float32_stays_near_float64_over_8192_tokens(name: str) -> None:
    length = T if name != "softmax" else 2048  # a table of T x T scores, and no gate
    torch.manual_seed(0)
    mixer = MIXERS[name](ModelConfig(name, d_model=D, n_heads=H, n_layers=3), 1)
    for parameter in mixer.parameters():
        if parameter.ndim >= 2:
            parameter.normal_(std=0.5)
    (y, state), (exact, exact_state) = both(mixer, drifting(length))
    assert err(y, exact) < 1e-4
    for part, (got, want) in enumerate(zip(tensors(state), tensors(exact_state), strict=True)):
        assert err(got, want) < 5e-5, f"state {part}"


# --- mLSTM, whose numbers are relative to a running maximum ------------------------------------------------


def mlstm(slope: float) -> Mixer:
    """Return a mixer of one head whose gates are slope times channels 0 and 1 of x."""
    torch.manual_seed(0)
    mixer = MIXERS["mlstm"](ModelConfig("mlstm", d_model=16, n_heads=1, n_layers=1), 0)
    gates = mixer.gates
    assert isinstance(gates, torch.nn.Linear)
    with torch.no_grad():
        gates.bias.zero_()
        gates.weight.zero_()
        gates.weight[0, 0] = gates.weight[1, 1] = slope
    return mixer


@torch.no_grad()
def test_mlstm_keeps_its_digits_after_hard_forgetting() -> None:
    """The cumulative sum of log f is -5000 at token 100; relative to it, the later digits of m were lost."""
    x = torch.randn(1, 1100, 16, generator=torch.Generator().manual_seed(0))
    x[..., 1] = 0
    x[:, 100, 1] = 3
    x[:, :100, 0], x[:, 100:, 0] = -50, 8.1
    (y, ((S, m), _)), (exact, ((exact_S, exact_m), _)) = both(mlstm(1.0), x)
    assert err(y, exact) < 2e-5
    assert err(S, exact_S) < 2e-5
    assert err(m, exact_m) < 1e-6


@torch.no_grad()
def test_mlstm_keeps_its_digits_with_ordinary_gates_over_8192_tokens() -> None:
    """Gates N(0, 5^2)."""
    x = torch.randn(1, T, 16, generator=torch.Generator().manual_seed(0))
    (y, ((S, m), _)), (exact, ((exact_S, exact_m), _)) = both(mlstm(5.0), x)
    assert err(y, exact) < 2e-4  # the norm enlarges errors where outputs are small
    assert err(S, exact_S) < 5e-6
    assert err(m, exact_m) < 1e-6


def test_mlstm_has_gradients_for_tiny_input_gates_after_hard_forgetting() -> None:
    """With them m is so low that e^-m overflows in float32."""
    mixer, x = mlstm(1.0), torch.randn(1, 20, 16, generator=torch.Generator().manual_seed(0))
    x[..., 0], x[..., 1] = 5, -100
    x[:, 5:8, 0] = -200
    x.requires_grad_()
    y, _ = mixer(x)
    y.square().sum().backward()
    for leaf in (x, *mixer.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


def test_the_running_maximum_is_the_recurrence_of_maxima() -> None:
    generator = torch.Generator().manual_seed(0)
    log_f = -5 * torch.rand(2, 37, 3, generator=generator, dtype=torch.float64)
    log_i = 9 * torch.randn(2, 37, 3, generator=generator, dtype=torch.float64)
    m = [torch.randn(2, 3, generator=generator, dtype=torch.float64)]
    for t in range(37):
        m.append(torch.maximum(m[-1] + log_f[:, t], log_i[:, t]))
    torch.testing.assert_close(running_maximum(log_f, log_i, m[0]), torch.stack(m, 1))


def test_gradients_of_mlstm_are_those_of_its_equation() -> None:
    """What the running maximum adds to them cancels."""
    torch.manual_seed(0)
    mixer = MIXERS["mlstm"](ModelConfig("mlstm", d_model=16, n_heads=2), 0).double()
    x = torch.randn(2, 70, 16, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 70, 16, dtype=torch.float64)

    def by_the_equation() -> Tensor:
        z, _ = mixer.project(x, None)
        f, i = torch.sigmoid(z["f"])[..., None, None], z["i"].exp()[..., None]
        write = (i * z["k"] * z["k"].shape[-1] ** -0.5)[..., None] * torch.nn.functional.pad(
            z["v"], (0, 1), value=1.0
        )[..., None, :]
        S, outputs = torch.zeros_like(write[:, 0]), []
        for t in range(x.shape[1]):
            S = f[:, t] * S + write[:, t]
            o = (z["q"][:, t, :, None] @ S)[:, :, 0]
            outputs.append(o[..., :-1] / o[..., -1:].abs().clamp(min=1))
        return mixer.output(torch.stack(outputs, 1), z)

    leaves = [x, *mixer.parameters()]
    got, want = (torch.autograd.grad((weights * y).sum(), leaves) for y in (mixer(x)[0], by_the_equation()))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
