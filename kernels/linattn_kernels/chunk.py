"""The public function of linear attention in chunk form: what torch must know of the kernels.

Custom ops, so that torch.compile leaves them whole, autograd knows their backward, and autocast and DDP see
one op like any other. The backward is an op as well; it has no gradient of its own, and torch says so.
"""

import torch
from torch import Tensor

from linattn_kernels import gated, linear
from linattn_kernels.door import WIDTHS, check_chunk, check_kernel, decays_of, on_device_of_q
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.runners import no_autocast
from linattn_ref.ops.validation import check_qkv, check_state, scale_or_default

OP = "chunk_linear_attention"


@torch.library.custom_op("linattn::linear_forward", mutates_args=())
@on_device_of_q
def linear_forward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, start: Tensor | None, scale: float, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Output and last state."""
    if g is not None and g.ndim == 4:
        return gated.forward(q, k, v, g, start, scale, chunk_size)
    return linear.forward(q, k, v, g, start, scale, chunk_size)


@linear_forward.register_fake
def _(q, k, v, g, start, scale, chunk_size):
    B, _, H, K = q.shape
    return torch.empty_like(v), q.new_empty(B, H, K, v.shape[-1], dtype=torch.float32)


@torch.library.custom_op("linattn::linear_backward", mutates_args=())
@on_device_of_q
def linear_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    start: Tensor | None,
    do: Tensor,
    dend: Tensor | None,
    scale: float,
    chunk_size: int,
    needs_dg: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, g and start; that of g is empty where it is not needed."""
    if g is not None and g.ndim == 4:
        return gated.backward(q, k, v, g, start, do, dend, scale, chunk_size)
    dq, dk, dv, dg, dstart = linear.backward(q, k, v, g, start, do, dend, scale, chunk_size, needs_dg)
    return dq, dk, dv, q.new_empty(0, dtype=torch.float32) if dg is None else dg, dstart


@linear_backward.register_fake
def _(q, k, v, g, start, do, dend, scale, chunk_size, needs_dg):
    B, _, H, K = q.shape
    shape = g.shape if g is not None and (needs_dg or g.ndim == 4) else (0,)
    dg = q.new_empty(shape, dtype=torch.float32)
    dstart = q.new_empty(B, H, K, v.shape[-1], dtype=torch.float32)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), dg, dstart


def _keep(ctx, inputs, output) -> None:
    *tensors, ctx.scale, ctx.chunk_size = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _backward(ctx, do: Tensor | None, dend: Tensor | None):
    q, k, v, g, start = ctx.saved_tensors
    if do is None and dend is None:
        return (None,) * 7
    do = torch.zeros_like(v) if do is None else do.contiguous()
    dend = None if dend is None else dend.contiguous()
    needs_dg = ctx.needs_input_grad[3]
    dq, dk, dv, dg, dstart = linear_backward(q, k, v, g, start, do, dend, ctx.scale, ctx.chunk_size, needs_dg)
    return dq, dk, dv, dg if needs_dg else None, None if start is None else dstart, None, None


torch.library.register_autograd("linattn::linear_forward", _backward, setup_context=_keep)


def chunk_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    chunk_size: int = 64,
) -> LinearResult:
    """``linattn_ref.ops.chunk_linear_attention`` on a GPU: same arguments, same result.

    Args:
        q, k: ``[B, T, H, K]``; float32, bfloat16 or float16; K in 16, 32, 64, 128.
        v: ``[B, T, H, V]``; a V that is none of these, like the V + 1 of ``normalised``, takes a pass for
            each of the widths that it is made of.
        log_decay: None, ``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``, <= 0.
        initial_state: ``[B, H, K, V]`` in float32.
        chunk_size: 16, 32 or 64, a tile; 32 at most where K or V is below 64;
            in float32 16 forward and 32 backward.

    A tensor that is not contiguous is copied. Raises ``ValueError`` for what no kernel takes.
    """
    check_qkv(q, k, v)
    check_kernel(OP, q)
    check_chunk(OP, chunk_size)
    log_decay = decays_of(log_decay, q)
    if initial_state is not None:
        check_state(initial_state, q, v)
        initial_state = initial_state.contiguous()
    q, k, v, number = q.contiguous(), k.contiguous(), v.contiguous(), scale_or_default(scale, q.shape[-1])
    if v.shape[-1] in WIDTHS:
        return LinearResult(*linear_forward(q, k, v, log_decay, initial_state, number, chunk_size))
    results, first = [], 0
    for width in widths_of(v.shape[-1]):
        piece = slice(first, first + width)
        start = None if initial_state is None else _padded(initial_state[..., piece])
        o, state = linear_forward(q, k, _padded(v[..., piece]), log_decay, start, number, chunk_size)
        results.append((o[..., :width], state[..., :width]))
        first += width
    with no_autocast(q.device):  # it has no rule for float16 under a bfloat16 autocast
        return LinearResult(*(torch.cat(parts, -1) for parts in zip(*results, strict=True)))


def widths_of(V: int) -> list[int]:
    """V as a sum of widths that kernels take, the last of them filled up with zeros."""
    widths = []
    while V:
        widths.append(next((width for width in reversed(WIDTHS) if width <= V), V))
        V -= widths[-1]
    return widths


def _padded(x: Tensor) -> Tensor:
    """Contiguous, and at least as wide as the narrowest kernel."""
    missing = max(0, WIDTHS[0] - x.shape[-1])
    return torch.nn.functional.pad(x, (0, missing)).contiguous() if missing else x.contiguous()
