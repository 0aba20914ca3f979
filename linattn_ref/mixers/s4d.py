"""S4D and H3: diagonal state space models that do not depend on the data, alone and between gates."""

import math

import torch
from torch import nn
from torch.nn.functional import gelu

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Quantities, Row, merge_heads
from linattn_ref.mixers.parts import earlier, special, wide
from linattn_ref.ops.shapes import Float, Tensor

STATE, SHIFT = 64, 4


class DiagonalSSM(nn.Module):
    """The parameters of a diagonal SSM for every channel: A = -exp(a) + i w, C, the step Delta, the skip D.

    A complex number is a pair of real ones; N pairs stand for themselves and their conjugates. B is 1: with C
    learned it would add nothing. ``init`` is one of ``INITIALISATIONS``; Delta is spread over [0.001, 0.1],
    evenly in logs.
    """

    def __init__(self, channels: int, N: int, init: str) -> None:
        super().__init__()
        real, imaginary = INITIALISATIONS[init](N)
        self.log_real = special(real.log().repeat(channels, 1))
        self.imaginary = special(imaginary.repeat(channels, 1)) if init != "real" else None
        self.C = special(torch.randn(channels, N, 1 if init == "real" else 2) * (2 * N) ** -0.5)
        self.log_step = nn.Parameter(torch.linspace(-math.log(10), math.log(10), channels))  # beside 0.01
        self.D = nn.Parameter(torch.ones(channels))

    def forward(self) -> Quantities:
        """delta [D, 1], A, C [D, N], D [D, 1]; ``pair`` is 2 Re for complex numbers, else nothing."""
        A, C = -wide(self.log_real).exp(), wide(self.C)
        if self.imaginary is None:
            C = C[..., 0]
        else:
            A, C = torch.complex(A, wide(self.imaginary)), torch.view_as_complex(C.contiguous())
        return {
            "delta": 0.01 * wide(self.log_step).exp()[:, None],
            "A": A,
            "C": C,
            "skip": wide(self.D)[:, None],
        }


def _real(N: int) -> tuple[Tensor, Tensor]:
    return torch.arange(1.0, N + 1), torch.zeros(N)


def _lin(N: int) -> tuple[Tensor, Tensor]:
    return torch.full((N,), 0.5), math.pi * torch.arange(N)


def _inv(N: int) -> tuple[Tensor, Tensor]:
    n = torch.arange(N)
    return torch.full((N,), 0.5), 2 * N / math.pi * (2 * N / (2 * n + 1) - 1)


# -Re A and Im A of N numbers (arXiv 2206.11893: S4D-Lin, S4D-Inv, for a state of 2 N; S4D-Real).
INITIALISATIONS = {"lin": _lin, "inv": _inv, "real": _real}


class S4DMixer(Mixer):
    """S4D (Gu et al. 2022, arXiv 2206.11893): a state space model for every channel, the same at each token.

    ``config.state_size`` numbers a channel (64 as published: 32 pairs), ``config.ssm_init`` "lin", "inv" or
    "real"; zero-order hold; then GELU and W_o. Simplified: a plain W_o where the released layer has a gate.
    """

    needs = "convolution_lti_ssm"
    row = Row(
        gate="exp(delta * A)",
        write="outer((G - 1) / A, u)",
        read="paired(dot(C, S)) + skip * u",
        learned="A, C [D, N], Delta, D [D]; nothing depends on x",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        self.ssm = DiagonalSSM(config.d_model, n_numbers(config), config.ssm_init)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Quantities, None]:
        return {"u": x[..., None], **self.ssm()}, None

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return lti(self, z["u"], z, S)

    def finish(self, o: Float[Tensor, "B T H V"], z: Quantities) -> Float[Tensor, "B T D"]:
        return gelu(merge_heads(o))

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.d_model * (config.state_size or STATE)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # a convolution by FFT is no product of matrices


class H3Mixer(Mixer):
    """H3 (Fu et al. 2022, arXiv 2212.14052, section 3; released code), heads of width 1.

    o = q * SSM_diag(SSM_shift(k) * v): a learned memory of the last few keys, so that a key meets the value
    after it; then a state space model that keeps the product. Both have a skip; the shift's is part of its
    tap at the token itself. The shift SSM is the filter over 4 tokens that it is (the paper has as many as
    its state, 64); the diagonal one is S4D's, with the zero-order hold (the released code: bilinear).
    """

    needs = "convolution_lti_ssm"
    row = Row(
        gate="exp(delta * A)",
        write="outer((G - 1) / A, k * v)",
        read="q * (paired(dot(C, S)) + skip * k * v)",
        learned="filter [4, D]; A, C [D, N], Delta, D [D]; nothing but q, k, v depends on x",
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.filter = special(torch.randn(SHIFT, D) * SHIFT**-0.5)
        self.ssm = DiagonalSSM(D, n_numbers(config), config.ssm_init)
        self.out = nn.Linear(D, D, bias=False)

    def quantities(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Quantities, Tensor]:
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = torch.cat([earlier(k, past, SHIFT - 1), wide(k)], 1)
        k = sum(w * seen[:, i : i + x.shape[1]] for i, w in enumerate(wide(self.filter))).to(x.dtype)
        heads = {"q": q[..., None], "k": k[..., None], "v": v[..., None]}  # [B, T, D, 1]
        return {**heads, **self.ssm()}, seen[:, x.shape[1] :]

    def mix(self, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
        o, S = lti(self, z["k"] * z["v"], z, S)
        return z["q"] * o, S

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.d_model * ((config.state_size or STATE) + SHIFT - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # a convolution by FFT is no product of matrices


def lti(mixer: Mixer, u: Tensor, z: Quantities, S: Tensor | None) -> tuple[Tensor, Tensor]:
    """The SSM over inputs u [B, T, D, 1], with its state as real numbers [B, D, N, 1 or 2]."""
    A, C = z["A"], z["C"]
    state = S if S is None or not A.is_complex() else torch.view_as_complex(S)
    op = mixer.ops.convolution_lti_ssm
    delta, skip = z["delta"][:, 0], z["skip"][:, 0]
    o, state = op(u[..., 0], delta, A, torch.ones_like(A), C, skip, initial_state=state)
    return o[..., None], torch.view_as_real(state) if state.is_complex() else state


def n_numbers(config: ModelConfig) -> int:
    """N of A [D, N]: pairs, where numbers are complex."""
    size = config.state_size or STATE
    if config.ssm_init == "real":
        return size
    if size % 2:
        raise ValueError(f"state_size: got {size}, expected an even number: pairs of real and imaginary part")
    return size // 2
