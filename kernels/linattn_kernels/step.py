"""One token of linear attention, for decoding: forget, write and read in one pass over the state.

A state of K x V numbers in float32 is read and written once; the arithmetic, 4 K V, is nothing beside it. So
the cost is that of memory, and the state is updated where it lies.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.chunk import chunk_linear_attention
from linattn_kernels.door import check_kernel, decays_of, multiprocessors, on_device_of_q
from linattn_kernels.tiles import CHANNEL, HEAD, TOKEN, exp, kind_of
from linattn_ref.ops.results import LinearResult
from linattn_ref.ops.validation import check_one_token, check_qkv, check_state, scale_or_default

OP = "step_linear_attention"


@triton.jit
def step_kernel(
    q, k,  # [B H, K]
    v, o,  # [B H, V]
    g,  # [H], [B H] or [B H, K]
    state,  # [B H, K, V], updated
    scale, H,
    K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Columns of V of one head: S <- exp(g) S + k^T v, o = scale q S."""
    bh = tl.program_id(0).to(tl.int64)
    rows, columns = tl.arange(0, K), tl.program_id(1) * BV + tl.arange(0, BV)
    here = columns < V
    at = state + bh * K * V + rows[:, None] * V + columns[None, :]
    S = tl.load(at, mask=here[None, :])  # [K, BV]
    qs, ks = tl.load(q + bh * K + rows).to(tl.float32), tl.load(k + bh * K + rows).to(tl.float32)  # [K]
    vs = tl.load(v + bh * V + columns, mask=here).to(tl.float32)  # [BV]
    if KIND == HEAD:
        S *= exp(tl.load(g + bh % H))
    if KIND == TOKEN:
        S *= exp(tl.load(g + bh))
    if KIND == CHANNEL:
        S *= exp(tl.load(g + bh * K + rows))[:, None]
    S += ks[:, None] * vs[None, :]
    tl.store(at, S, mask=here[None, :])
    os = scale * tl.sum(qs[:, None] * S, 0)  # [BV]
    tl.store(o + bh * V + columns, os.to(o.dtype.element_ty), mask=here)


@torch.library.custom_op("linattn::linear_step", mutates_args=("state",))
@on_device_of_q
def linear_step(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor, scale: float) -> Tensor:
    """The output; ``state`` is updated. All contiguous."""
    B, _, H, K = q.shape
    V = v.shape[-1]
    BV = 64 if 4 * multiprocessors(q) <= B * H else 32  # long rows of memory, but work for everyone
    o = torch.empty_like(v)
    step_kernel[(B * H, triton.cdiv(V, BV))](
        q, k, v, o, g, state, scale, H, K, V, BV, kind_of(g), num_warps=4
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
    """``linattn_ref.ops.step_linear_attention`` on a GPU: same arguments, same result.

    The state that is given is updated in place and returned; who needs the old one clones it first. (An
    expanded state, whose numbers share memory, is left alone, and so is one of inference mode outside of it
    that is not contiguous.) Where a gradient is wanted nothing is overwritten: the step is then the chunk
    form of one token.
    """
    check_one_token(q)
    check_qkv(q, k, v)
    check_kernel(OP, q)
    wanted = [x for x in (q, k, v, log_decay, state) if isinstance(x, Tensor) and x.requires_grad]
    if wanted and torch.is_grad_enabled():
        if state is not None:
            check_state(state, q, v, "state")
        return chunk_linear_attention(q, k, v, log_decay, scale=scale, initial_state=state, chunk_size=16)
    log_decay = decays_of(log_decay, q)
    if state is None:
        state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=torch.float32)
    check_state(state, q, v, "state")
    given, state = state, state.contiguous()
    o = linear_step(
        q.contiguous(), k.contiguous(), v.contiguous(), log_decay, state, scale_or_default(scale, q.shape[-1])
    )
    if state is not given and _writable(given):
        state = given.copy_(state)
    return LinearResult(o, state)


def _writable(state: Tensor) -> bool:
    """Whether torch would let us write all numbers of a state."""
    if torch.compiler.is_compiling():  # where nobody can ask for inference mode
        return 0 not in state.stride()
    return 0 not in state.stride() and (not state.is_inference() or torch.is_inference_mode_enabled())
