"""Compute linear attention in chunk form: the public function, and what torch must know of the kernels.

They are custom ops, so that torch.compile leaves them whole, autograd knows their backward, and autocast
and DDP see one op like any other. The backward is an op as well; it has no gradient of its own, and torch
says so. The kernels themselves are in ``scalar_decay.py`` and ``channel_decay.py``.
"""

from typing import Any

import torch
from torch import Tensor

from linattn_kernels import channel_decay, scalar_decay
from linattn_kernels.operators import kernel_operator
from linattn_kernels.packed import Units, prepare_packed
from linattn_kernels.validation import (
    HEAD_WIDTHS,
    LINEAR_CHUNK_SIZES,
    check_supported,
    check_supported_chunk_size,
    prepare_log_decay,
)
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.validation import check_qkv, check_state, resolve_scale

OP = "chunk_linear_attention"


@kernel_operator("linear_forward")
def linear_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the final state; ``sequences`` if they are packed, as in ``packed.py``."""
    if g is not None and g.ndim == 4:
        return channel_decay.forward(q, k, v, g, initial_state, scale, chunk_size, sequences)
    return scalar_decay.forward(q, k, v, g, initial_state, scale, chunk_size, sequences)


def make_fake_state(q: Tensor, v: Tensor, initial_state: Tensor | None, sequences: Tensor | None) -> Tensor:
    """Return a tensor like the final state, or like the gradient of the initial one."""
    if sequences is not None and initial_state is not None:
        return torch.empty_like(initial_state)
    B, _, H, K = q.shape
    return q.new_empty(B, H, K, v.shape[-1], dtype=torch.float32)


@linear_forward.register_fake
def _(q, k, v, g, initial_state, scale, chunk_size, sequences):
    return torch.empty_like(v), make_fake_state(q, v, initial_state, sequences)


@kernel_operator("linear_backward")
def linear_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    needs_dg: bool,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v, g and the initial state; that of g is empty where it is not needed."""
    if g is not None and g.ndim == 4:
        return channel_decay.backward(q, k, v, g, initial_state, do, dstate, scale, chunk_size, sequences)
    dq, dk, dv, dg, dinitial = scalar_decay.backward(
        q, k, v, g, initial_state, do, dstate, scale, chunk_size, needs_dg, sequences
    )
    return dq, dk, dv, q.new_empty(0, dtype=torch.float32) if dg is None else dg, dinitial


@linear_backward.register_fake
def _(q, k, v, g, initial_state, do, dstate, scale, chunk_size, needs_dg, sequences):
    shape = g.shape if g is not None and (needs_dg or g.ndim == 4) else (0,)
    dg = q.new_empty(shape, dtype=torch.float32)
    dinitial = make_fake_state(q, v, initial_state, sequences)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), dg, dinitial


def _save_for_backward(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs; the backward makes all else again."""
    *tensors, ctx.scale, ctx.chunk_size, sequences = inputs
    ctx.save_for_backward(*tensors, sequences)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, do: Tensor | None, dstate: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the gradients of all inputs of ``linear_forward``, None where there is none."""
    q, k, v, g, initial_state, sequences = ctx.saved_tensors
    if do is None and dstate is None:
        return (None,) * 8
    do, dstate = prepare_gradients(v, initial_state, do, dstate, sequences)
    needs_dg = ctx.needs_input_grad[3]
    dq, dk, dv, dg, dinitial = linear_backward(
        q, k, v, g, initial_state, do, dstate, ctx.scale, ctx.chunk_size, needs_dg, sequences
    )
    no_state = initial_state is None
    return dq, dk, dv, dg if needs_dg else None, None if no_state else dinitial, None, None, None


def prepare_gradients(
    v: Tensor,
    initial_state: Tensor | None,
    do: Tensor | None,
    dstate: Tensor | None,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of output and state, contiguous; where sequences are packed, both are there."""
    do = torch.zeros_like(v) if do is None else do.contiguous()
    if dstate is not None:
        dstate = dstate.contiguous()
    elif sequences is not None and initial_state is not None:
        dstate = torch.zeros_like(initial_state)
    return do, dstate


linear_forward.register_autograd(_backward, setup_context=_save_for_backward)


def chunk_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """Compute linear attention in chunk form by Triton kernels: ``linattn_ref.ops.chunk_linear_attention``.

    Per batch element and head, with alpha_t = exp(log_decay_t)::

        S_t = alpha_t * S_{t-1} + k_t^T v_t          S in R^{K x V}
        o_t = scale * q_t S_t

    It runs on NVIDIA GPUs of compute capability 8.0 or later (tuned and tested on Hopper), has gradients of
    all tensors but no second derivatives, and works under autocast and ``torch.compile``. A tensor that is
    not contiguous is copied. A state is kept in float32. In half precision products are made of rounded
    tiles, as a matrix unit does; in float32 they are exact and slow. Log decays below -100 count as -100.

    A NaN or infinity in a key or value may reach all outputs of its chunk, earlier ones as well (0 x NaN
    under the causal mask is NaN), and reaches none of the chunks before. A NaN in a log decay that is not
    checked may reach all outputs of its head if it is per head, and all of its chunk if it is per channel; if
    it is per token it reaches no earlier output.

    Args:
        q: queries, ``[B, T, H, K]``; float32, bfloat16 or float16; K is 16, 32, 64 or 128.
        k: keys, ``[B, T, H, K]``, in q's dtype.
        v: values, ``[B, T, H, V]``, in q's dtype; any V, but one that is not 16, 32, 64 or 128, like the
            V + 1 of ``normalised``, takes a pass for each of the widths that it is made of.
        log_decay: natural logarithms of the decays, finite and <= 0, in q's dtype or in float32: None,
            ``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``. On a GPU its values are not checked, unless the
            environment has ``LINATTN_CHECK_VALUES=1``.
        scale: factor on the queries, a number. None is ``K ** -0.5``.
        initial_state: the state before the first token, ``[B, H, K, V]`` in float32, as an earlier call
            returned it. None is zeros.
        cu_seqlens: None, or ``[n + 1]`` in int32 or int64: B is 1, and n sequences follow each other in it.
            The first begins at token 0, each ends before token ``cu_seqlens[i]``, i = 1 to n, the last at T.
            Each is computed as if alone; states are ``[n, H, K, V]``. Inputs and outputs are copied once, and
            the host does not wait; the numbers are checked as those of ``log_decay`` are. GPUs of compute
            capability 10.x cannot run it.
        chunk_size: tokens of a chunk at most, 16, 32 or 64; it changes cost and rounding. In half precision
            chunks have no more than 32 where K or V is below 64; in float32 no more than 16 in the forward
            and 32 in the backward.

    Returns:
        ``LinearResult(output, state)``: output ``[B, T, H, V]`` in q's dtype, and the state after the last
        token, ``[B, H, K, V]`` in float32.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Yang et al. 2023, arXiv 2312.06635, sections 2 and 4, for the chunk form; the gradients and the
        split of decays per channel are derived in ``scalar_decay.py``, ``channel_decay.py`` and
        ``intra_chunk.py``.

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> q = k = v = torch.ones(1, 4, 1, 16)
        >>> output, state = chunk_linear_attention(q, k, v, torch.tensor([0.5]).log(), scale=1.0)
        >>> output[0, :, 0, 0].tolist(), list(state.shape)
        ([16.0, 24.0, 28.0, 30.0], [1, 1, 16, 16])
    """
    check_qkv(q, k, v)
    check_supported(OP, q)
    check_supported_chunk_size(OP, chunk_size, LINEAR_CHUNK_SIZES)
    log_decay, scale, T = prepare_log_decay(log_decay, q), resolve_scale(scale, q.shape[-1]), q.shape[1]
    units: Units | None = None
    if cu_seqlens is not None:
        (q, k, v, log_decay), initial_state, units = prepare_packed(
            cu_seqlens, chunk_size, q, k, v, log_decay, initial_state=initial_state
        )
    elif initial_state is not None:
        check_state(initial_state, q, v)
    rest = scale, chunk_size, None if units is None else units.sequences
    output, state = _attend_in_widths(q.contiguous(), k.contiguous(), v, log_decay, initial_state, *rest)
    return LinearResult(output if units is None else units.put_together(output, T), state)


def _attend_in_widths(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, initial_state: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor]:
    """Return output and final state, in a pass for each width that V is made of."""
    if v.shape[-1] in HEAD_WIDTHS:
        start = None if initial_state is None else initial_state.contiguous()
        return linear_forward(q, k, v.contiguous(), g, start, *rest)
    results, first = [], 0
    for width in choose_split_width(v.shape[-1]):
        columns = slice(first, first + width)
        start = None if initial_state is None else _pad_width(initial_state[..., columns])
        o, state = linear_forward(q, k, _pad_width(v[..., columns]), g, start, *rest)
        results.append((o[..., :width], state[..., :width]))
        first += width
    with no_autocast(q.device):  # autocast to bfloat16 has no rule for torch.cat of float16
        o, state = (torch.cat(parts, -1) for parts in zip(*results, strict=True))
    return o, state


def choose_split_width(V: int) -> list[int]:
    """Return widths that add up to V: some of ``HEAD_WIDTHS``, and a rest that is padded with zeros."""
    widths = []
    while V:
        widths.append(next((width for width in reversed(HEAD_WIDTHS) if width <= V), V))
        V -= widths[-1]
    return widths


def _pad_width(x: Tensor) -> Tensor:
    """Return x contiguous, and with zeros at least as wide as the narrowest kernel."""
    missing = max(0, HEAD_WIDTHS[0] - x.shape[-1])
    return torch.nn.functional.pad(x, (0, missing)).contiguous() if missing else x.contiguous()
