"""Apply the delta rule to one token, for decoding: decay, recall, write and read in one pass over the state.

As in ``linear_step.py`` the cost is that of memory, and the state is updated in place.
"""

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.delta import chunk_delta_rule, prepare_beta
from linattn_kernels.launches import kernel
from linattn_kernels.linear_step import choose_step_columns, update_in_place
from linattn_kernels.operators import kernel_operator
from linattn_kernels.tiles import PER_CHANNEL, PER_HEAD, PER_TOKEN, classify_decay, exp
from linattn_kernels.validation import check_supported, prepare_log_decay
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.validation import check_one_token, check_qkv, check_state, resolve_scale

OP = "step_delta_rule"


@kernel
def step_kernel(
    q, k,  # [B H, K]
    v, o,  # [B H, V]
    beta,  # [B H]
    g,  # [H], [B H] or [B H, K]
    state,  # [B H, K, V], updated
    scale, H,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, DECAY: tl.constexpr,
):  # fmt: skip
    """Compute BV columns of V of one head: R = exp(g) S, S <- R + beta k^T (v - k R), o = scale q S."""
    bh = tl.program_id(0).to(tl.int64)
    rows, columns = tl.arange(0, K), tl.program_id(1) * BV + tl.arange(0, BV)
    at = state + bh * K * V + rows[:, None] * V + columns[None, :]
    S = tl.load(at)  # [K, BV]
    qs, ks = tl.load(q + bh * K + rows).to(tl.float32), tl.load(k + bh * K + rows).to(tl.float32)  # [K]
    vs = tl.load(v + bh * V + columns).to(tl.float32)  # [BV]
    if DECAY == PER_HEAD:
        S *= exp(tl.load(g + bh % H))
    if DECAY == PER_TOKEN:
        S *= exp(tl.load(g + bh))
    if DECAY == PER_CHANNEL:
        S *= exp(tl.load(g + bh * K + rows))[:, None]
    us = tl.load(beta + bh).to(tl.float32) * (vs - tl.sum(ks[:, None] * S, 0))  # [BV]
    S += ks[:, None] * us[None, :]
    tl.store(at, S)
    os = scale * tl.sum(qs[:, None] * S, 0)  # [BV]
    tl.store(o + bh * V + columns, os.to(o.dtype.element_ty))


@kernel_operator("delta_step", mutated=("state",))
def delta_step(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor, scale: float
) -> Tensor:
    """Update ``state`` in place and return the output. All inputs are contiguous."""
    B, _, H, K = q.shape
    V = v.shape[-1]
    BV, o = min(V, choose_step_columns(q)), torch.empty_like(v)
    step_kernel[(B * H, V // BV)](
        q, k, v, o, beta, g, state, scale, H, K, V, BV, classify_decay(g), num_warps=4
    )
    return o


@delta_step.register_fake
def _(q, k, v, beta, g, state, scale):
    return torch.empty_like(v)


def step_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Tensor | None = None,
) -> LinearResult:
    """Apply the delta rule to one token by a Triton kernel: ``linattn_ref.ops.step_delta_rule``.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        R   = alpha_t * S_{t-1}                          decay comes first
        S_t = R + beta_t k_t^T (v_t - k_t R)             S in R^{K x V}
        o_t = scale * q_t S_t

    The state that is given is updated in place and returned, as by ``step_linear_attention``. Where a
    gradient is wanted nothing is overwritten: the step is then the chunk form of one token. It runs where
    ``chunk_delta_rule`` runs.

    Args:
        q: queries, ``[B, 1, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, 1, H, K]``, in q's dtype; normalise them to length 1 first.
        v: values, ``[B, 1, H, V]``, in q's dtype; V is 16, 32, 64 or 128.
        beta: write strengths, ``[B, 1, H]``, between 0 and 2, in q's dtype or in float32. On a GPU neither
            its values nor those of ``log_decay`` are checked, unless the environment has
            ``LINATTN_CHECK_VALUES=1``.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32: None,
            ``[H]``, ``[B, 1, H]`` or ``[B, 1, H, K]``.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        state: the state before the token, ``[B, H, K, V]`` in float32, as an earlier call returned it. None
            is zeros.

    Returns:
        ``LinearResult(output, state)``: output ``[B, 1, H, V]`` in q's dtype, and the state after the token,
        ``[B, H, K, V]`` in float32; where no gradient is wanted, it is the tensor that was given.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Yang et al. 2024, arXiv 2406.06484 (without decay); Yang et al. 2024, arXiv 2412.06464 (with decays).

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> k = torch.eye(16)[:1].view(1, 1, 1, 16)
        >>> output, state = step_delta_rule(k, k, 5 * torch.ones(1, 1, 1, 16), torch.ones(1, 1, 1), scale=1.0)
        >>> output[0, 0, 0, 0].item(), list(state.shape)
        (5.0, [1, 1, 16, 16])
    """
    check_one_token(q)
    check_qkv(q, k, v)
    check_supported(OP, q, v)
    beta = prepare_beta(beta, q, k, v)
    tensors = (q, k, v, beta, log_decay, state)
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in tensors):
        if state is not None:
            check_state(state, q, v, "state")
        return chunk_delta_rule(q, k, v, beta, log_decay, scale=scale, initial_state=state, chunk_size=16)
    log_decay = prepare_log_decay(log_decay, q)
    scale = resolve_scale(scale, q.shape[-1])
    qkv = q.contiguous(), k.contiguous(), v.contiguous()
    return update_in_place(lambda S: delta_step(*qkv, beta, log_decay, S, scale), state, q, v)
