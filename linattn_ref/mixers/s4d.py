"""Define S4D and H3: diagonal state space models independent of the data, alone and between gates."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import exp, nn
from torch.nn.functional import gelu

from linattn_ref.config import ModelConfig, Options, check_at_least
from linattn_ref.mixers.base import Mixer, Projections
from linattn_ref.mixers.equation import StateEquation, columns, dot, outer, paired
from linattn_ref.mixers.parts import filter_causally, upcast
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require

SHIFT = 4  # tokens that H3's filter on the keys sees


@dataclass(frozen=True)
class DiagonalSSMOptions(Options):
    """Choose the size of S4D's and H3's states and how A starts.

    Args:
        state_size: real numbers in the state of a channel; default 64 as published, 32 complex pairs.
        init: how A starts: "lin" (S4D-Lin, the default), "inv" (S4D-Inv) or "real" (S4D-Real), see
            ``INITIALISATIONS``.

    Raises:
        ValueError: for another initialisation, or a size that is below 1 or, but for "real", odd.
    """

    state_size: int = 64
    init: Literal["lin", "inv", "real"] = "lin"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "state_size")
        even = self.init == "real" or self.state_size % 2 == 0
        require(even, "state_size", str(self.state_size), "an even number: pairs of real and imaginary part")

    @property
    def n_numbers(self) -> int:
        """Return the N of A [D, N]: of ``state_size`` real numbers two make a complex one, but for "real"."""
        return self.state_size if self.init == "real" else self.state_size // 2


class DiagonalSSM(nn.Module):
    """Hold the parameters of a diagonal SSM for every channel.

    They are A = -exp(``log_real``) + i ``imaginary``, C, the step Delta = 0.01 exp(``log_step``) and the skip
    D. A complex number is kept as a pair of real ones; N of them stand for themselves and their conjugates. B
    is 1: with C learned it would add nothing. Delta starts spread over [0.001, 0.1], evenly in logs.

    Args:
        channels: how many, the width D of the model.
        options: size and initialisation.
    """

    spared: ClassVar = ("log_real", "imaginary", "C")

    def __init__(self, channels: int, options: DiagonalSSMOptions) -> None:
        super().__init__()
        N, is_real = options.n_numbers, options.init == "real"
        real, imaginary = INITIALISATIONS[options.init](N)
        self.log_real = nn.Parameter(real.log().repeat(channels, 1))
        self.imaginary = None if is_real else nn.Parameter(imaginary.repeat(channels, 1))
        self.C = nn.Parameter(torch.randn(channels, N, 1 if is_real else 2) * (2 * N) ** -0.5)
        self.log_step = nn.Parameter(torch.linspace(-math.log(10), math.log(10), channels))  # Delta / 0.01
        self.D = nn.Parameter(torch.ones(channels))

    def forward(self) -> Projections:
        """Return delta [D], A and C [D, N], skip [D]."""
        A, C = -upcast(self.log_real).exp(), upcast(self.C)
        if self.imaginary is None:
            C = C[..., 0]
        else:
            A, C = torch.complex(A, upcast(self.imaginary)), torch.view_as_complex(C.contiguous())
        return {"delta": 0.01 * upcast(self.log_step).exp(), "A": A, "C": C, "skip": upcast(self.D)}


def _init_real(N: int) -> tuple[Tensor, Tensor]:
    """Return -Re A and Im A of S4D-Real: A_n = -(n + 1)."""
    return torch.arange(1.0, N + 1), torch.zeros(N)


def _init_lin(N: int) -> tuple[Tensor, Tensor]:
    """Return -Re A and Im A of S4D-Lin: A_n = -1/2 + i pi n."""
    return torch.full((N,), 0.5), math.pi * torch.arange(N)


def _init_inv(N: int) -> tuple[Tensor, Tensor]:
    """Return -Re A and Im A of S4D-Inv: A_n = -1/2 + i (2 N / pi) (2 N / (2 n + 1) - 1)."""
    n = torch.arange(N)
    return torch.full((N,), 0.5), 2 * N / math.pi * (2 * N / (2 * n + 1) - 1)


# Option ``init`` -> function from N to -Re A [N] and Im A [N] (arXiv 2206.11893, where the state of S4D-Lin
# and S4D-Inv has 2 N numbers).
INITIALISATIONS: dict[str, Callable[[int], tuple[Tensor, Tensor]]] = {
    "lin": _init_lin,
    "inv": _init_inv,
    "real": _init_real,
}


class S4DMixer(Mixer):
    """Mix tokens by S4D, a state space model per channel that is the same at each token (arXiv 2206.11893).

        G = e^(Delta A),  S_t = G S_{t-1} + ((G - 1) / A)^T u_t
        o_t = 2 Re(C S_t) + D u_t
        y = gelu(o) W_o

    Gate: ``G = e^(Delta A)``. Write: ``((G - 1) / A)^T u``, the zero-order hold. Read: ``2 Re(C S) + D u``
    (for real numbers ``C S + D u``). By Gu et al. 2022, where the state is called ``h``. Simplified: a plain
    ``W_o`` where the released layer has a gate.

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state h as real numbers [B, D,
    N, 2] ([B, D, N] for "real") in float32, and None.

    Args:
        config: sizes of the model, and ``DiagonalSSMOptions``; ``n_heads`` does not matter.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2206.11893, sections 3 and 4; the zero-order hold: arXiv 2111.00396, released code.

    Example:
        >>> mixer = S4DMixer(ModelConfig("s4d", d_model=32, options={"state_size": 8}), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 32, 4, 2]))
    """

    options_class = DiagonalSSMOptions
    needs = "convolution_lti_ssm"
    equation = StateEquation(
        gate=lambda delta, A: exp(delta * A),
        write=lambda G, A, u: outer((G - 1) / A, u),
        read=lambda C, S, skip, u: paired(dot(C, S)) + skip * u,
        learned="A, C [D, N], Delta, D [D]; nothing depends on x",
        where=lambda mixer, z: columns(z, "u delta skip"),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        self.ssm = DiagonalSSM(config.d_model, config.options)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: None) -> tuple[Projections, None]:
        return {"u": x, **self.ssm()}, None

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        return run_lti(self, z["u"], z, S)

    def output(self, o: Float[Tensor, "B T D"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(gelu(o))

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.d_model * config.options.state_size

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # a convolution by FFT is no product of matrices


class H3Mixer(Mixer):
    """Mix tokens by H3: state space models between products of queries, keys and values (arXiv 2212.14052).

        k'_t = sum_{i < 4} F_i k_{t-3+i}
        G = e^(Delta A),  S_t = G S_{t-1} + ((G - 1) / A)^T k'_t v_t
        o_t = q_t (2 Re(C S_t) + D k'_t v_t),  y = o W_o

    Gate: ``G = e^(Delta A)``. Write: ``((G - 1) / A)^T k' v``. Read: ``q (2 Re(C S) + D k' v)``. By Fu et al.
    2022, heads of width 1: a learned memory of the last few keys, so that a key meets the value after it;
    then a state space model that keeps the product. Both have a skip; the shift's is part of its tap at the
    token itself. The shift SSM is the filter over 4 tokens that it is (the paper has as many as its state,
    64); the diagonal one is S4D's, with the zero-order hold (the released code: bilinear).

    Shapes: ``mixer(x [B, T, D], state=None) -> (y [B, T, D], state)``, the state h as real numbers [B, D,
    N, 2] ([B, D, N] for "real") and the last three keys [B, 3, D], in float32.

    Args:
        config: sizes of the model, and ``DiagonalSSMOptions``; ``n_heads`` does not matter.
        layer: number of its block, from 0; without influence.
        shared: not used.

    Source:
        arXiv 2212.14052, section 3; released code.

    Example:
        >>> mixer = H3Mixer(ModelConfig("h3", d_model=32, options={"state_size": 8}), layer=0)
        >>> y, state = mixer(torch.randn(1, 5, 32))
        >>> y.shape, state[0].shape, state[1].shape
        (torch.Size([1, 5, 32]), torch.Size([1, 32, 4, 2]), torch.Size([1, 3, 32]))
    """

    options_class = DiagonalSSMOptions
    needs = "convolution_lti_ssm"
    spared = ("filter",)
    equation = StateEquation(
        gate=lambda delta, A: exp(delta * A),
        write=lambda G, A, k, v: outer((G - 1) / A, k * v),
        read=lambda q, C, S, skip, k, v: q * (paired(dot(C, S)) + skip * k * v),
        learned="filter [4, D]; A, C [D, N], Delta, D [D]; nothing but q, k, v depends on x",
        where=lambda mixer, z: columns(z, "q k v delta skip"),
    )

    def __init__(self, config: ModelConfig, layer: int, shared: nn.Module | None = None) -> None:
        super().__init__(config, layer)
        D = config.d_model
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.filter = nn.Parameter(torch.randn(SHIFT, D) * SHIFT**-0.5)
        self.ssm = DiagonalSSM(D, config.options)
        self.out = nn.Linear(D, D, bias=False)

    def project(self, x: Float[Tensor, "B T D"], past: Tensor | None) -> tuple[Projections, Tensor]:
        q, k, v = self.qkv(x).chunk(3, -1)
        k, past = filter_causally(k, self.filter, past)
        return {"q": q, "k": k.to(x.dtype), "v": v, **self.ssm()}, past

    def mix(self, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
        o, S = run_lti(self, z["k"] * z["v"], z, S)
        return z["q"] * o, S

    def output(self, o: Float[Tensor, "B T D"], z: Projections) -> Float[Tensor, "B T D"]:
        return self.out(o)

    @classmethod
    def state_numel(cls, config: ModelConfig, seq_len: int) -> int:
        return config.d_model * (config.options.state_size + SHIFT - 1)

    @classmethod
    def mixing_flops(cls, config: ModelConfig, seq_len: int) -> int:
        return 0  # a convolution by FFT is no product of matrices


def run_lti(
    mixer: Mixer, u: Float[Tensor, "B T D"], z: Projections, S: Tensor | None
) -> tuple[Float[Tensor, "B T D"], Tensor]:
    """Return the output of the SSM with the parameters in z for the inputs u, and its state.

    The state is kept as real numbers, [B, D, N], or [B, D, N, 2] where A is complex.
    """
    A = z["A"]
    state = S if S is None or not A.is_complex() else torch.view_as_complex(S)
    op = mixer.ops.convolution_lti_ssm
    o, state = op(u, z["delta"], A, torch.ones_like(A), z["C"], z["skip"], initial_state=state)
    return o, torch.view_as_real(state) if state.is_complex() else state
