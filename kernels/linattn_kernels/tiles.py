"""Load, store and mask tiles: the parts that all kernels are made of.

A tile is C rows (tokens) of one head, and some of its columns. Sequences ``[B, T, H, W]`` lie in memory
token by token, so a row of one head is W numbers, and the next token's row is ``stride = H * W`` further
on. Rows beyond T read as zeros: zeros write nothing into a state, and a log decay of 0 is no decay, so a
last chunk that is not full needs no case of its own.
"""

from math import e, log2

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.tools.tensor_descriptor import TensorDescriptor

# the kinds of ``log_decay``: None, [H], [B, T, H], [B, T, H, K]
NO_DECAY, PER_HEAD, PER_TOKEN, PER_CHANNEL = (tl.constexpr(kind) for kind in range(4))
LOG2_E = tl.constexpr(log2(e))


def classify_decay(g: Tensor | None) -> int:
    """Return the kind of a log decay, by its shape."""
    return (NO_DECAY if g is None else {1: PER_HEAD, 3: PER_TOKEN, 4: PER_CHANNEL}[g.ndim]).value


class TileDescriptor(TensorDescriptor):
    """Describe tiles whose shapes ``make_descriptor`` makes right: checking them takes the host 2 us."""

    def __post_init__(self) -> None:
        """Check nothing."""


def make_descriptor(x: Tensor, C: int, W: int) -> TensorDescriptor:
    """Return a descriptor of x ``[B, T, H, W']`` for a kernel that loads or stores ``[C, W]`` of a head.

    On Hopper, TMA copies such tiles, and registers are free for numbers instead of addresses and masks. Rows
    beyond T are read as zeros and are not written.
    """
    B, T, H, width = x.shape
    # TMA needs an address that is a multiple of 16 bytes: that of a result is, since it is a new tensor
    x = x if x.data_ptr() % 16 == 0 else x.clone()
    return TileDescriptor(x, [B, T, H * width], [T * H * width, H * width, 1], [1, C, W])


# --- load and store ----------------------------------------------------------------------------------------


@triton.jit
def get_head_pointer(x, b, h, T, H, W: tl.constexpr):
    """Return the pointer to the first number of head h of sequence b in x [B, T, H, W]."""
    return x + (b.to(tl.int64) * T * H + h) * W


@triton.jit
def load_tile(x, first, T, stride, column, C: tl.constexpr, W: tl.constexpr):
    """Return [C, W]: rows first, first + 1, ... of a head, W columns from ``column`` on; zeros beyond T."""
    i, c = tl.arange(0, C), tl.arange(0, W)
    at = x + tl.cast(first, tl.int64) * stride + column
    return tl.load(at + i[:, None] * stride + c[None, :], mask=(first + i < T)[:, None], other=0.0)


@triton.jit
def store_tile(x, values, first, T, stride, column, C: tl.constexpr, W: tl.constexpr):
    """Store values [C, W] to the rows and columns that ``load_tile`` reads; nothing beyond T."""
    i, c = tl.arange(0, C), tl.arange(0, W)
    at = x + tl.cast(first, tl.int64) * stride + column
    values = values.to(x.dtype.element_ty)
    tl.store(at + i[:, None] * stride + c[None, :], values, mask=(first + i < T)[:, None])


@triton.jit
def store_output_tile(
    x, values, b, first, h, T, H, width: tl.constexpr, column, C: tl.constexpr, W: tl.constexpr,
    TMA_STORE: tl.constexpr,
):  # fmt: skip
    """Store values [C, W] into x [B, T, H, width]: by TMA if x is a descriptor, else by pointers."""
    if TMA_STORE:
        x.store([b, first, h * width + column], values.to(x.dtype).reshape(1, C, W))
    else:
        store_tile(get_head_pointer(x, b, h, T, H, width), values, first, T, H * width, column, C, W)


@triton.jit
def get_state_offsets(row, column, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Return [BK, BV]: offsets of a block of a state [K, V]."""
    return (row + tl.arange(0, BK))[:, None] * V + (column + tl.arange(0, BV))[None, :]


@triton.jit
def load_initial_state(
    states, n, row, column, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    HAS_INITIAL_STATE: tl.constexpr,
):  # fmt: skip
    """Return [BK, BV]: a block of state n of states [., K, V], in float32; zeros if there are none."""
    if HAS_INITIAL_STATE:
        S = tl.load(states + tl.cast(n, tl.int64) * K * V + get_state_offsets(row, column, V, BK, BV))
    else:
        S = tl.zeros([BK, BV], tl.float32)
    return S


# --- programmatic dependent launch -------------------------------------------------------------------------


@triton.jit
def allow_next_kernel(PDL: tl.constexpr):
    """Let programs of the next kernel, if launched early, start where programs of this one have ended."""
    if PDL:
        gdc_launch_dependents()


@triton.jit
def wait_for_previous_kernel(PDL: tl.constexpr):
    """Wait, in a kernel launched early, until the one before has ended and its results can be read."""
    if PDL:
        gdc_wait()


# --- decays and masks --------------------------------------------------------------------------------------


@triton.jit
def clamp_log_decay(g):
    """Bound log decays from below by -100: exp(-100) is 4e-44, and sums of them keep their digits."""
    return tl.maximum(g, -100.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def get_last_row(G, C: tl.constexpr):
    """Return the last row [W] of G [C, W]: of running sums, the sum over the whole chunk."""
    return tl.sum(tl.where((tl.arange(0, C) == C - 1)[:, None], G, 0.0), 0)


@triton.jit
def exp(x):
    """Return exp(x) in float32, by exp2: one instruction, where exp, which keeps denormals, is five."""
    return tl.exp2(x.to(tl.float32) * LOG2_E)


@triton.jit
def exp_few_registers(x):
    """Return exp(x) in float32 by five instructions, which the compiler keeps together: fewer registers."""
    return tl.exp(x.to(tl.float32))


@triton.jit
def load_decay_sums_between(G, C: tl.constexpr, REVERSE: tl.constexpr = False):
    """Return [C, C]: G_i - G_j for j <= i, else -inf. exp of it is left at token i of what token j wrote.

    REVERSE gives the transpose: row i, column j is G_j - G_i for j >= i.
    """
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    if REVERSE:
        x = tl.where(j >= i, G[None, :] - G[:, None], float("-inf"))
    else:
        x = tl.where(j <= i, G[:, None] - G[None, :], float("-inf"))
    return x


@triton.jit
def apply_causal_mask(x, C: tl.constexpr, REVERSE: tl.constexpr = False):
    """Return x_ij [C, C] for j <= i (REVERSE: j >= i), else 0."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tl.where(j >= i if REVERSE else j <= i, x, 0.0)
