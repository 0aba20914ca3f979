"""Compute one token of linear attention, for decoding: decay, write and read in one pass over the state.

A state of K x V numbers in float32 is read and written once; the arithmetic, 4 K V, is nothing beside it. So
the cost is that of memory, and the state is updated in place.
"""

from collections.abc import Callable

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.hardware import count_multiprocessors
from linattn_kernels.launch_config import ceil_div
from linattn_kernels.launches import kernel
from linattn_kernels.linear import chunk_linear_attention
from linattn_kernels.operators import kernel_operator
from linattn_kernels.tiles import PER_CHANNEL, PER_HEAD, PER_TOKEN, classify_decay, exp
from linattn_kernels.validation import check_supported, prepare_log_decay
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.validation import check_one_token, check_qkv, check_state, resolve_scale

OP = "step_linear_attention"


@kernel
def step_kernel(
    q, k,  # [B H, K]
    v, o,  # [B H, V]
    g,  # [H], [B H] or [B H, K]
    state,  # [B H, K, V], updated
    scale, H,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, DECAY: tl.constexpr,
):  # fmt: skip
    """Compute BV columns of V of one head: S <- exp(g) S + k^T v, o = scale q S."""
    bh = tl.program_id(0).to(tl.int64)
    rows, columns = tl.arange(0, K), tl.program_id(1) * BV + tl.arange(0, BV)
    in_range = columns < V
    at = state + bh * K * V + rows[:, None] * V + columns[None, :]
    S = tl.load(at, mask=in_range[None, :])  # [K, BV]
    qs, ks = tl.load(q + bh * K + rows).to(tl.float32), tl.load(k + bh * K + rows).to(tl.float32)  # [K]
    vs = tl.load(v + bh * V + columns, mask=in_range).to(tl.float32)  # [BV]
    if DECAY == PER_HEAD:
        S *= exp(tl.load(g + bh % H))
    if DECAY == PER_TOKEN:
        S *= exp(tl.load(g + bh))
    if DECAY == PER_CHANNEL:
        S *= exp(tl.load(g + bh * K + rows))[:, None]
    S += ks[:, None] * vs[None, :]
    tl.store(at, S, mask=in_range[None, :])
    os = scale * tl.sum(qs[:, None] * S, 0)  # [BV]
    tl.store(o + bh * V + columns, os.to(o.dtype.element_ty), mask=in_range)


def choose_step_columns(q: Tensor) -> int:
    """Return the columns of a program for q ``[B, 1, H, K]``: long rows of memory, but work for all."""
    return 64 if 4 * count_multiprocessors(q) <= q.shape[0] * q.shape[2] else 32


@kernel_operator("linear_step", mutated=("state",))
def linear_step(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor, scale: float) -> Tensor:
    """Update ``state`` in place and return the output. All inputs are contiguous."""
    B, _, H, K = q.shape
    V = v.shape[-1]
    BV, o = choose_step_columns(q), torch.empty_like(v)
    step_kernel[(B * H, ceil_div(V, BV))](
        q, k, v, o, g, state, scale, H, K, V, BV, classify_decay(g), num_warps=4
    )
    return o


@linear_step.register_fake
def _(q, k, v, g, state, scale):
    return torch.empty_like(v)


def step_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    state: Tensor | None = None,
) -> LinearResult:
    """Compute one token of linear attention by a Triton kernel: ``linattn_ref.ops.step_linear_attention``.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
        o_t = scale * q_t S_t

    The state that is given is updated in place and returned; clone it first to keep the old one. (An
    expanded state, whose numbers share memory, is left alone, and so is one of inference mode outside of it
    that is not contiguous.) Where a gradient is wanted nothing is overwritten: the step is then the chunk
    form of one token. It runs where ``chunk_linear_attention`` runs.

    A NaN or infinity in a key or value, or a NaN in a log decay that is not checked, reaches the state, and
    by it later outputs of its head. In a query it reaches the output of its own token alone.

    Args:
        q: queries, ``[B, 1, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, 1, H, K]``, in q's dtype.
        v: values, ``[B, 1, H, V]``, in q's dtype; any V.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32: None,
            ``[H]``, ``[B, 1, H]`` or ``[B, 1, H, K]``. On a GPU its values are not checked, unless the
            environment has ``LINATTN_CHECK_VALUES=1``.
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
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.4 (without decay); Yang et al. 2023, arXiv
        2312.06635, sections 2 and 4 (with decays).

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> q = k = v = torch.ones(1, 1, 1, 16)
        >>> output, state = step_linear_attention(q, k, v, state=torch.ones(1, 1, 16, 16), scale=1.0)
        >>> output[0, 0, 0, 0].item(), list(state.shape)
        (32.0, [1, 1, 16, 16])
    """
    check_one_token(q)
    check_qkv(q, k, v)
    check_supported(OP, q)
    wants_gradient = any(isinstance(x, Tensor) and x.requires_grad for x in (q, k, v, log_decay, state))
    if wants_gradient and torch.is_grad_enabled():
        if state is not None:
            check_state(state, q, v, "state")
        return chunk_linear_attention(q, k, v, log_decay, scale=scale, initial_state=state, chunk_size=16)
    log_decay = prepare_log_decay(log_decay, q)
    scale = resolve_scale(scale, q.shape[-1])
    qkv = q.contiguous(), k.contiguous(), v.contiguous()
    return update_in_place(lambda S: linear_step(*qkv, log_decay, S, scale), state, q, v)


def update_in_place(
    step: Callable[[Tensor], Tensor], state: Tensor | None, q: Tensor, v: Tensor
) -> LinearResult:
    """Return the output of ``step``, which overwrites a contiguous state, and the state, in its own memory.

    Args:
        step: the state before the token -> the output.
        state: ``[B, H, K, V]``, or None for zeros.
        q, v: ``[B, 1, H, K]`` and ``[B, 1, H, V]``.
    """
    if state is None:
        state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=torch.float32)
    check_state(state, q, v, "state")
    given, state = state, state.contiguous()
    o = step(state)
    if state is not given and _is_writable(given):
        state = given.copy_(state)
    return LinearResult(o, state)


def _is_writable(state: Tensor) -> bool:
    """Return whether torch would let us write all numbers of a state."""
    if torch.compiler.is_compiling():  # where inference mode cannot be asked for
        return 0 not in state.stride()
    return 0 not in state.stride() and (not state.is_inference() or torch.is_inference_mode_enabled())
