"""Compute the delta rule in chunk form: the public function, and what torch must know of the kernels.

They are custom ops for the reasons given in ``linear.py``. The kernels themselves are in ``delta_rule.py``.
"""

from typing import Any

import torch
from torch import Tensor

from linattn_kernels import delta_channel, delta_rule
from linattn_kernels.linear import make_fake_state, prepare_gradients
from linattn_kernels.operators import kernel_operator
from linattn_kernels.packed import Units, prepare_packed
from linattn_kernels.validation import (
    LINEAR_CHUNK_SIZES,
    check_supported,
    check_supported_chunk_size,
    prepare_log_decay,
    reads_values,
)
from linattn_ref.ops.delta import check_beta
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.validation import check_qkv, check_state, require, require_tensor, resolve_scale

OP = "chunk_delta_rule"


@kernel_operator("delta_forward")
def delta_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the final state; ``sequences`` if they are packed, as in ``packed.py``."""
    if g is not None and g.ndim == 4:
        return delta_channel.forward(q, k, v, beta, g, initial_state, scale, chunk_size, sequences)
    return delta_rule.forward(q, k, v, beta, g, initial_state, scale, chunk_size, sequences)


@delta_forward.register_fake
def _(q, k, v, beta, g, initial_state, scale, chunk_size, sequences):
    return torch.empty_like(v), make_fake_state(q, v, initial_state, sequences)


@kernel_operator("delta_backward")
def delta_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v, beta, g and the initial state; that of g is empty where g is None."""
    rest = initial_state, do, dstate, scale, chunk_size, sequences
    if g is not None and g.ndim == 4:
        return delta_channel.backward(q, k, v, beta, g, *rest)
    dq, dk, dv, dbeta, dg, dinitial = delta_rule.backward(q, k, v, beta, g, *rest)
    return dq, dk, dv, dbeta, q.new_empty(0, dtype=torch.float32) if dg is None else dg, dinitial


@delta_backward.register_fake
def _(q, k, v, beta, g, initial_state, do, dstate, scale, chunk_size, sequences):
    dg = q.new_empty((0,) if g is None else g.shape, dtype=torch.float32)
    dinitial = make_fake_state(q, v, initial_state, sequences)
    return *(torch.empty_like(x) for x in (q, k, v, beta)), dg, dinitial


def _save_for_backward(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs; the backward makes all else again."""
    *tensors, ctx.scale, ctx.chunk_size, sequences = inputs
    ctx.save_for_backward(*tensors, sequences)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, do: Tensor | None, dstate: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the gradients of all inputs of ``delta_forward``, None where there is none."""
    q, k, v, beta, g, initial_state, sequences = ctx.saved_tensors
    if do is None and dstate is None:
        return (None,) * 9
    do, dstate = prepare_gradients(v, initial_state, do, dstate, sequences)
    dq, dk, dv, dbeta, dg, dinitial = delta_backward(
        q, k, v, beta, g, initial_state, do, dstate, ctx.scale, ctx.chunk_size, sequences
    )
    no_g, no_state = g is None, initial_state is None
    return dq, dk, dv, dbeta, None if no_g else dg, None if no_state else dinitial, None, None, None


delta_forward.register_autograd(_backward, setup_context=_save_for_backward)


def chunk_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Apply the delta rule in chunk form by Triton kernels: ``linattn_ref.ops.chunk_delta_rule``.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        R   = alpha_t * S_{t-1}                          decay comes first
        S_t = R + beta_t k_t^T (v_t - k_t R)             S in R^{K x V}
        o_t = scale * q_t S_t

    It runs where ``chunk_linear_attention`` does, has gradients of all tensors but no second derivatives, and
    works under autocast and ``torch.compile``. A tensor that is not contiguous is copied. A state is kept in
    float32. In half precision products are made of rounded tiles, as a matrix unit does; in float32 they are
    exact and slow. Log decays below -100 count as -100. Two calls give equal bits.

    A NaN or infinity in a key or value may reach all outputs of its chunk, earlier ones as well, and none of
    the chunks before. In a key it may reach all of the head's later outputs.

    Args:
        q: queries, ``[B, T, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, T, H, K]``, in q's dtype. ``beta |k|^2`` must stay within 2, or the state grows:
            normalise keys to length 1 first.
        v: values, ``[B, T, H, V]``, in q's dtype; V is 16, 32, 64 or 128.
        beta: write strengths, ``[B, T, H]``, between 0 and 2, in q's dtype or in float32. On a GPU neither
            its values nor those of ``log_decay`` are checked, unless the environment has
            ``LINATTN_CHECK_VALUES=1``.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32: None,
            ``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32, as an earlier call
            returned it. None is zeros.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone; states are ``[n, H, K, V]``. Inputs and outputs are copied once, and
            the host does not wait; the numbers are checked as those of ``log_decay`` are. GPUs of compute
            capability 10.x cannot run it.
        chunk_size: tokens of a chunk at most, 16, 32 or 64; it changes cost and rounding. In half precision
            chunks have no more than 32 where K or V is below 64, in float32 no more than 16.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Yang et al. 2024, arXiv 2406.06484 (without decay); Yang et al. 2024, arXiv 2412.06464 (with decays);
        the gradients and the segments are derived in ``delta_rule.py`` and ``delta_walks.py``.

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> k = torch.eye(16)[:1].expand(1, 3, 1, 16)  # one key, written three times
        >>> v = torch.arange(1.0, 4.0).view(1, 3, 1, 1).expand(1, 3, 1, 16)
        >>> output, state = chunk_delta_rule(k, k, v, beta=torch.ones(1, 3, 1), scale=1.0)
        >>> output[0, :, 0, 0].tolist(), list(state.shape)
        ([1.0, 2.0, 3.0], [1, 1, 16, 16])
    """
    check_qkv(q, k, v)
    check_supported(OP, q, v)
    check_supported_chunk_size(OP, chunk_size, LINEAR_CHUNK_SIZES)
    beta = prepare_beta(beta, q, k, v)
    log_decay, scale, T = prepare_log_decay(log_decay, q), resolve_scale(scale, q.shape[-1]), q.shape[1]
    units: Units | None = None
    if cu_seqlens is not None:
        (q, k, v, log_decay, beta), initial_state, units = prepare_packed(
            cu_seqlens, chunk_size, q, k, v, log_decay, beta, initial_state=initial_state
        )
    elif initial_state is not None:
        check_state(initial_state, q, v)
    start = None if initial_state is None else initial_state.contiguous()
    inputs = q.contiguous(), k.contiguous(), v.contiguous(), beta, log_decay, start, scale, chunk_size
    output, state = delta_forward(*inputs, None if units is None else units.sequences)
    return LinearResult(output if units is None else units.put_together(output, T), state)


def prepare_beta(beta: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Check ``beta`` and return it contiguous."""
    require_tensor(beta, "beta")
    if reads_values(beta):
        check_beta(beta, q, k, v)
    else:
        require(beta.device == q.device, "beta", f"a tensor on {beta.device}", f"one on {q.device}")
        check_beta(*(x.to("meta") for x in (beta, q, k, v)))  # shapes and dtypes without values
    return beta.contiguous()
