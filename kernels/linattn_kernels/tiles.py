"""The parts that all kernels are made of. A tile is C rows (tokens) of one head, and some of its columns.

Sequences ``[B, T, H, W]`` lie in memory token by token, so a row of one head is W numbers, and the next
token's row is ``stride = H * W`` further on. Rows beyond T read as zeros: zeros write nothing into a state,
and a log decay of 0 forgets nothing, so a chunk that is cut off needs no case of its own.
"""

from math import e, log2

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.tools.tensor_descriptor import TensorDescriptor

# what ``log_decay`` is: None, [H], [B, T, H] or [B, T, H, K]
NONE, HEAD, TOKEN, CHANNEL = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
LOG2_E = tl.constexpr(log2(e))


def kind_of(g: Tensor | None) -> int:
    """What a log decay is, by its shape."""
    return (NONE if g is None else {1: HEAD, 3: TOKEN, 4: CHANNEL}[g.ndim]).value


def described(x: Tensor, C: int, W: int) -> TensorDescriptor:
    """x ``[B, T, H, W']`` for a kernel that loads ``[C, W]`` of a head at a time, without pointers.

    The copy engine of a Hopper GPU does that, and registers are free for numbers instead of addresses and
    masks. Rows beyond T come as zeros, and are not written.
    """
    B, T, H, width = x.shape
    x = x if x.data_ptr() % 16 == 0 else x.clone()  # the engine asks for that; results are new, and fit
    return TensorDescriptor(x, [B, T, H * width], [T * H * width, H * width, 1], [1, C, W])


@triton.jit
def head_of(x, b, h, T, H, W: tl.constexpr):
    """The first number of head h of sequence b in x [B, T, H, W]."""
    return x + (b.to(tl.int64) * T * H + h) * W


@triton.jit
def load_tile(x, first, T, stride, column, C: tl.constexpr, W: tl.constexpr):
    """[C, W]: rows first, first + 1, ... of a head, W columns from ``column`` on."""
    i, c = tl.arange(0, C), tl.arange(0, W)
    at = x + tl.cast(first, tl.int64) * stride + column
    return tl.load(at + i[:, None] * stride + c[None, :], mask=(first + i < T)[:, None], other=0.0)


@triton.jit
def store_tile(x, values, first, T, stride, column, C: tl.constexpr, W: tl.constexpr):
    """The same place, written; rows beyond T are not there."""
    i, c = tl.arange(0, C), tl.arange(0, W)
    at = x + tl.cast(first, tl.int64) * stride + column
    values = values.to(x.dtype.element_ty)
    tl.store(at + i[:, None] * stride + c[None, :], values, mask=(first + i < T)[:, None])


@triton.jit
def write_tile(
    x, values, b, first, h, T, H, width: tl.constexpr, column, C: tl.constexpr, W: tl.constexpr,
    ENGINE: tl.constexpr,
):  # fmt: skip
    """The same place in x [B, T, H, width]: by the copy engine, if x is described, else by pointers."""
    if ENGINE:
        x.store([b, first, h * width + column], values.to(x.dtype).reshape(1, C, W))
    else:
        store_tile(head_of(x, b, h, T, H, width), values, first, T, H * width, column, C, W)


@triton.jit
def next_may_begin(EARLY: tl.constexpr):
    """Programs of the next kernel, if launched early, may take the places that this one leaves free."""
    if EARLY:
        gdc_launch_dependents()


@triton.jit
def wait_for_kernel_before(EARLY: tl.constexpr):
    """First in a kernel launched early: until the kernel before has ended and all it wrote can be read."""
    if EARLY:
        gdc_wait()


@triton.jit
def square(row, column, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """[BK, BV]: offsets of a block of a state [K, V]."""
    return (row + tl.arange(0, BK))[:, None] * V + (column + tl.arange(0, BV))[None, :]


@triton.jit
def first_state(
    starts, n, row, column, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    HAS_START: tl.constexpr,
):  # fmt: skip
    """[BK, BV]: a block of state n of starts [., K, V], in float32; zeros if there is none."""
    if HAS_START:
        S = tl.load(starts + tl.cast(n, tl.int64) * K * V + square(row, column, V, BK, BV))
    else:
        S = tl.zeros([BK, BV], tl.float32)
    return S


@triton.jit
def bounded(g):
    """Log decays as low as any difference is seen: exp(-100) is 4e-44, and sums of them keep their digits."""
    return tl.maximum(g, -100.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def last_row(G, C: tl.constexpr):
    """[W]: the sum over the whole chunk, of every column of running sums G [C, W]."""
    return tl.sum(tl.where((tl.arange(0, C) == C - 1)[:, None], G, 0.0), 0)


@triton.jit
def exp(x):
    """In float32, whatever sums were made in. exp2 is one instruction, exp five: it keeps denormals."""
    return tl.exp2(x.to(tl.float32) * LOG2_E)


@triton.jit
def thrifty_exp(x):
    """The same in five instructions, which the compiler does not move apart: fewer registers (NOTES.md)."""
    return tl.exp(x.to(tl.float32))


@triton.jit
def sums_between(G, C: tl.constexpr, BACKWARD: tl.constexpr = False):
    """[C, C]: G_i - G_j for j <= i, else -inf: exp of it is left at token i of what token j wrote.

    BACKWARD: the table turned, G_j - G_i for j >= i.
    """
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    if BACKWARD:
        x = tl.where(j >= i, G[None, :] - G[:, None], float("-inf"))
    else:
        x = tl.where(j <= i, G[:, None] - G[None, :], float("-inf"))
    return x


@triton.jit
def causal(x, C: tl.constexpr, BACKWARD: tl.constexpr = False):
    """x_ij for j <= i (BACKWARD: j >= i), else 0."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tl.where(j >= i if BACKWARD else j <= i, x, 0.0)
