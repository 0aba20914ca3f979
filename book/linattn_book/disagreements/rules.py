"""List disagreements about recurrences: the delta rule, second-order attention, state space models."""

import math
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid, normalize, softplus

from linattn_book.disagreements.entry import Disagreement, attend, draw, qkv
from linattn_ref.ops.delta import recurrent_delta_rule
from linattn_ref.ops.lti import recurrent_lti_ssm
from linattn_ref.ops.rwkv6 import recurrent_rwkv6
from linattn_ref.ops.scan import Hold, recurrent_selective_scan
from linattn_ref.oracle import recurrence

# --- delta rule, higher orders: pairs ----------------------------------------------------------------------


def delta(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """Gated DeltaNet, arXiv 2412.06464, section 3.1: decay, then delta."""
    return recurrent_delta_rule(q, k, v, beta, log_decay, scale=1.0).output[0, :, 0]


def delta_beside_decay(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """RWKV-7's form, as in arXiv 2505.03005, with our keys: S = (Diag(alpha) - beta k^T k) S + beta k^T v."""
    k = k[0, :, 0]  # [T, K]
    gate = log_decay[0, :, 0].exp().diag_embed() - beta[0, :, :, None] * k[:, :, None] * k[:, None]
    return by_gates(gate, q, k, v, beta)


def delta_plain(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """DeltaNet, arXiv 2406.06484, section 2: S = (I - beta k^T k) S + beta k^T v."""
    return recurrent_delta_rule(q, k, v, beta, scale=1.0).output[0, :, 0]


def by_gates(gate: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """o_t = q_t S_t with S_t = gate_t S_{t-1} + beta_t k_t^T v_t; gate [T, K, K], k [T, K]."""
    write = beta[0, :, :, None] * k[:, :, None] * v[0, :, 0, None]
    states = recurrence(gate.numpy(), write.numpy(), np.zeros(write.shape[1:]), np.matmul)
    return torch.einsum("tk,tkv->tv", q[0, :, 0], torch.from_numpy(states))


def system_minus(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """TPTT, arXiv 2506.17671, its LaTeX source: U = (I - strict_lower(beta K K^T))^(-1) beta V."""
    q, k, v = (x[0, :, 0] for x in (q, k, v))
    system = torch.eye(len(k), dtype=k.dtype) - (beta[0] * (k @ k.mT)).tril(-1)
    return (q @ k.mT).tril() @ torch.linalg.solve_triangular(system, beta[0] * v, upper=False)


def delta_inputs(g: Generator, gated: bool = False) -> tuple[Tensor, ...]:
    """Draw keys of length 1 and beta in (0, 1); ``gated`` adds a decay per channel, mostly near 1."""
    q, k, v = qkv(g)
    inputs = q, normalize(k, dim=-1), v, torch.sigmoid(draw(g, 1, 16, 1))
    return (*inputs, logsigmoid(2 + draw(g, *k.shape))) if gated else inputs


def orthogonal(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
    """Give the first K tokens the unit vectors for keys."""
    K = k.shape[-1]
    return q[:, :K], torch.eye(K, dtype=k.dtype)[None, :, None], v[:, :K], beta[:, :K]


def hla(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """HLA, arXiv 2510.27258, second order: lower(W W^T) V with W = lower(Q K^T)."""
    W = (q @ k.mT).tril()
    return (W @ W.mT).tril() @ v


def hla_figure(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """HLA's repository, PDF of May 2026, figure 1 C: q (S_A C_A - G_A) + intra, no q S_A C_B."""
    (q_A, q), (k_A, k), (v_A, v) = (x.chunk(2) for x in (q, k, v))  # segments A and B of [T, K], [T, V]
    S, C, G = k_A.mT @ k_A, q_A.mT @ v_A, k_A.mT @ (k_A @ q_A.mT).tril(-1) @ v_A
    return torch.cat([hla(q_A, k_A, v_A), q @ (S @ C - G) + hla(q, k, v)])


def second_half(x: Tensor) -> Tensor:
    """x with zeros for the first half of its tokens [T, K]."""
    return torch.cat([0 * x[: len(x) // 2], x[len(x) // 2 :]])


# --- state space models: pairs -----------------------------------------------------------------------------


def hold_euler(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Mamba, mamba_ssm/ops/selective_scan_interface.py: B_bar = Delta B."""
    return recurrent_selective_scan(u, delta, A, B, C, hold="euler").output


def hold_exact(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Mamba, arXiv 2312.00752, eq. 4: B_bar = B (exp(Delta A) - 1) / A."""
    return recurrent_selective_scan(u, delta, A, B, C, hold="exact").output


def mamba_inputs(g: Generator, rate: float = -1.0) -> tuple[Tensor, ...]:
    """Draw three channels with four numbers of state each; A = rate (1, 2, 3, 4)."""
    A = rate * torch.arange(1, 5, dtype=torch.float64).expand(3, 4)
    return draw(g, 1, 16, 3), softplus(draw(g, 1, 16, 3)), A, draw(g, 1, 16, 4), draw(g, 1, 16, 4)


def gated_rnn(x: Tensor, z: Tensor, hold: Hold) -> Tensor:
    """Mamba, arXiv 2312.00752, theorem 1: h_t = (1 - g_t) h_{t-1} + g_t x_t, g = sigmoid(z)."""
    one = torch.ones_like(x)[..., None]  # [1, T, 1, 1]
    return attend(one, torch.sigmoid(z)[..., None], x[..., None], logsigmoid(-z))[..., 0]


def gated_rnn_as_scan(x: Tensor, z: Tensor, hold: Hold) -> Tensor:
    """Mamba, mamba_ssm/ops/selective_scan_interface.py: the scan with N = 1, A = -1, B = C = 1."""
    one = torch.ones_like(x)
    return recurrent_selective_scan(x, softplus(z), -one[0, :1], one, one, hold=hold).output


def s4d_without_pi(u: Tensor, N: int) -> Tensor:
    """Mamba, arXiv 2312.00752, section 3.6: A_n = -1/2 + i n."""
    return s4d(u, torch.arange(N))


def s4d_with_pi(u: Tensor, N: int) -> Tensor:
    """S4D-Lin, arXiv 2206.11893, and s4, models/s4/s4d.py: A_n = -1/2 + i pi n."""
    return s4d(u, math.pi * torch.arange(N))


def s4d(u: Tensor, speed: Tensor) -> Tensor:
    """A diagonal SSM with B = C = 1 and Delta = 0.1; u [1, T, 1]."""
    A = torch.complex(torch.full((1, len(speed)), -0.5).double(), speed[None].double())
    return recurrent_lti_ssm(u, u.new_tensor([0.1]), A, torch.ones_like(A), torch.ones_like(A)).output


# --- gradients: pairs ---------------------------------------------------------------------------------------


def state_gradient_dropped(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, weight: float) -> Tensor:
    """FLA 0.6.0, fla/ops/rwkv6/fused_recurrent.py: backward takes the gradient of the last state, unused."""
    return gradient_of_keys(q, k, v, log_decay, weight, used=False)


def state_gradient_used(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, weight: float) -> Tensor:
    """FLA, fla/ops/rwkv6/chunk.py and its other ops: from the outputs and from the last state."""
    return gradient_of_keys(q, k, v, log_decay, weight, used=True)


@torch.enable_grad()
def gradient_of_keys(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, weight: float, used: bool) -> Tensor:
    """Return the gradient of sum(o) + weight sum(S_T)."""
    k = k.clone().requires_grad_()
    o, S = recurrent_rwkv6(q, k, v, torch.ones_like(q[0, 0]), log_decay, scale=1.0)
    return torch.autograd.grad(o.sum() + weight * (S if used else S.detach()).sum(), k)[0]


def decayed(g: Generator, weight: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    return *qkv(g), -draw(g, 1, 16, 1, 4).abs(), weight


# --- entries -----------------------------------------------------------------------------------------------

delta_rule = partial(Disagreement, subject="Delta rule")
higher = partial(Disagreement, subject="Higher orders")
ssm = partial(Disagreement, subject="State space models")
gradients = partial(Disagreement, subject="Gradients")

RULES: tuple[Disagreement, ...] = (
    delta_rule(
        "delta-decay",
        "Decay before the correction, or beside it",
        "Gated DeltaNet corrects what is left after the decay. In RWKV-7's form the correction is computed "
        "from the state before it.",
        delta_beside_decay,
        delta,
        "Decay, then delta: with beta = 1 the state then returns the value just written.",
        partial(delta_inputs, gated=True),
        equal_when="nothing decays",
        equal_inputs=lambda g: (*delta_inputs(g), torch.zeros(1, 16, 1, 4).double()),
    ),
    delta_rule(
        "delta-sign",
        "Sign in the triangular system",
        "The chunk form solves a triangular system for the corrections. Printed with a minus it adds what "
        "a key recalls instead of subtracting it.",
        system_minus,
        delta_plain,
        "Plus: it is the one that equals the recurrence.",
        delta_inputs,
        equal_when="keys are orthogonal",
        equal_inputs=lambda g: orthogonal(*delta_inputs(g)),
    ),
    higher(
        "hla-chunk",
        "Chunk form of second-order attention",
        "The figure carries S, C and G from one chunk to the next, and leaves out the product of the old S "
        "with the new C.",
        hla_figure,
        hla,
        "All three terms: only they equal the recurrence.",
        lambda g: tuple(draw(g, 16, 4) for _ in "qkv"),
        equal_when="the keys of the first chunk are 0",
        equal_inputs=lambda g: (draw(g, 16, 4), second_half(draw(g, 16, 4)), draw(g, 16, 4)),
    ),
    ssm(
        "mamba-hold",
        "Input of a step",
        "The paper discretises B by the exact hold, the code takes Delta B. They come together where Delta A "
        "is small; where it is large, Delta B writes too much.",
        hold_euler,
        hold_exact,
        "Delta B, as trained models expect; `hold='exact'` is there.",
        mamba_inputs,
        equal_when="A = 0",
        equal_inputs=partial(mamba_inputs, rate=0.0),
    ),
    ssm(
        "gated-rnn",
        "Mamba as a gated RNN",
        "The theorem that Mamba with N = 1 is a gated RNN holds for the exact hold. With Delta B a token is "
        "written with softplus(z) instead of sigmoid(z).",
        gated_rnn_as_scan,
        gated_rnn,
        "The theorem is stated and tested with the exact hold.",
        lambda g: (*draw(g, 2, 1, 16, 1), "euler"),
        equal_when="the hold is exact",
        equal_inputs=lambda g: (*draw(g, 2, 1, 16, 1), "exact"),
    ),
    ssm(
        "s4d-pi",
        "Frequencies of S4D-Lin",
        "S4D turns state n with frequency pi n; Mamba's text quotes it without the pi.",
        s4d_without_pi,
        s4d_with_pi,
        "With pi, as in S4D's paper and code.",
        lambda g: (draw(g, 1, 64, 1), 4),
        equal_when="N = 1, whose only frequency is 0",
        equal_inputs=lambda g: (draw(g, 1, 64, 1), 1),
    ),
    gradients(
        "state-gradient",
        "Gradient of the last state",
        "An op that returns its last state must send back what comes for it, or training across segments "
        "learns nothing of what is carried. One kernel takes that gradient and leaves it out.",
        state_gradient_dropped,
        state_gradient_used,
        "Used: every op's gradients are checked with a loss that reads outputs and state.",
        decayed,
        unit="times the largest gradient of a key",
        equal_when="the loss does not read the state",
        equal_inputs=partial(decayed, weight=0.0),
    ),
)
