"""Lay packed sequences apart, so that no chunk has tokens of two, and tell walks where a sequence begins.

``cu_seqlens`` says where the sequences of a batch of one end. Their tokens are copied to units of A tokens,
chunks of the largest size, none of which has tokens of two sequences; what is left of a unit is filled with
zeros. Zeros write nothing into a state, and a log decay of 0 is no decay. So a kernel that computes chunks
knows nothing of sequences. One that walks through the chunks with a state asks for each whether a sequence
begins there, takes the state that this one starts with, and stores it where the sequence ends.

How long sequences are is known on the GPU alone, and the host does not wait for it: there are as many units
as n sequences of T tokens can need, (T + n (A - 1)) / A. Those left over count as more zeros of the last one.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.hardware import supports_packed_walks
from linattn_kernels.launch_config import ceil_div, round_up_to_power_of_2
from linattn_kernels.launches import kernel
from linattn_kernels.operators import kernel_operator
from linattn_kernels.validation import check_packed
from linattn_ref.ops.validation import check_state, require

TOKENS = tl.constexpr(16)  # of an entry in the table of sequences: those of the smallest chunk
BLOCK_SEQUENCES = 256  # whose units are counted at a time
BLOCK_COLUMNS = 128  # that a program copies


# --- what walks ask ---------------------------------------------------------------------------------------


@triton.jit
def find_sequence(sequences, m, M, C: tl.constexpr, REVERSE: tl.constexpr):
    """Return the sequence that chunk m is of, and whether a walk enters it and leaves it there."""
    here = tl.load(sequences + m * (C // TOKENS))
    before = tl.load(sequences + (m - 1) * (C // TOKENS), mask=m > 0, other=-1)
    after = tl.load(sequences + (m + 1) * (C // TOKENS), mask=m + 1 < M, other=-1)
    if REVERSE:
        before, after = after, before
    return here, before != here, after != here


@triton.jit
def enters_sequence(sequences, segment, chunks_per_segment, M, C: tl.constexpr, REVERSE: tl.constexpr):
    """Return whether a walk through a segment enters a sequence: then no state from before it matters."""
    first = segment * chunks_per_segment
    last = min(first + chunks_per_segment, M) - 1
    if REVERSE:
        end, before = first, last + 1
    else:
        end, before = last, first - 1
    inside = (before >= 0) & (before < M)
    return tl.load(sequences + end * (C // TOKENS)) != tl.load(
        sequences + before * (C // TOKENS), mask=inside, other=-1
    )


# --- where units come from --------------------------------------------------------------------------------


@kernel
def units_kernel(
    cu_seqlens,  # [n + 1]
    sequences,  # [M A / TOKENS], written: the sequence of every so many tokens
    firsts, ends,  # [M], written: the token of the pack that a unit begins with, and where its sequence ends
    n, T, A: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the sequence of one unit: count those whose units are all before it."""
    m = tl.program_id(0)
    sequence, start, units = 0, 0, 0  # those before, their units, and the units of all so far
    for i in range(0, n, BLOCK):
        s = i + tl.arange(0, BLOCK)
        lengths = tl.load(cu_seqlens + s + 1, mask=s < n, other=0)
        lengths -= tl.load(cu_seqlens + s, mask=s < n, other=0)
        after = units + tl.cumsum((lengths.to(tl.int32) + A - 1) // A, 0)  # [BLOCK]
        is_before = (after <= m) & (s < n)
        sequence += tl.sum(is_before.to(tl.int32), 0)
        start = tl.maximum(start, tl.max(tl.where(is_before, after, 0), 0))
        units = tl.max(after, 0)
    left_over = sequence == n
    sequence = tl.minimum(sequence, n - 1)
    end = tl.minimum(tl.load(cu_seqlens + sequence + 1).to(tl.int32), T)
    first = tl.load(cu_seqlens + sequence).to(tl.int32) + (m - start) * A
    tl.store(firsts + m, tl.where(left_over, end, first))
    tl.store(ends + m, end)
    i = tl.arange(0, A // TOKENS)
    tl.store(sequences + m * (A // TOKENS) + i, tl.zeros([A // TOKENS], tl.int32) + sequence)


@kernel
def copy_kernel(
    pack,  # [T, W]
    units,  # [M, A, W]
    firsts, ends,  # [M]
    W, A: tl.constexpr, BW: tl.constexpr, TO_UNITS: tl.constexpr,
):  # fmt: skip
    """Copy BW columns of one unit from the pack, with zeros where its sequence has no more; or back."""
    m, c = tl.program_id(0).to(tl.int64), tl.program_id(1) * BW + tl.arange(0, BW)[None, :]
    i, first, end = tl.arange(0, A)[:, None], tl.load(firsts + m), tl.load(ends + m)
    pack += (first + i).to(tl.int64) * W + c
    units += (m * A + i) * W + c
    exists = (first + i < end) & (c < W)
    if TO_UNITS:
        tl.store(units, tl.load(pack, mask=exists, other=0.0), mask=c < W)
    else:
        tl.store(pack, tl.load(units, mask=exists), mask=exists)


class Units(NamedTuple):
    """Hold where the units of packed sequences lie.

    Attributes:
        sequences: ``[M A / 16]``, int32: which sequence every 16 tokens of the units are of.
        firsts: ``[M]``, int32: the token of the pack that each unit begins with.
        ends: ``[M]``, int32: the token before which its sequence ends.
        A: tokens of a unit.
    """

    sequences: Tensor
    firsts: Tensor
    ends: Tensor
    A: int

    def lay_apart(self, x: Tensor) -> Tensor:
        """Return x ``[1, T, ...]`` in units, ``[1, M A, ...]``."""
        return lay_apart(x, self.firsts, self.ends, self.A)

    def put_together(self, x: Tensor, T: int) -> Tensor:
        """Return x ``[1, M A, ...]`` packed again, ``[1, T, ...]``."""
        return put_together(x, self.firsts, self.ends, T)


class PackedSequences(NamedTuple):
    """Hold packed sequences as kernels take them.

    Attributes:
        tokens: q, k, v, log_decay and whatever else a token has, in units; a decay may be None.
        initial_state: ``[n, H, K, V]``.
        units: where the units lie.
    """

    tokens: list[Any]
    initial_state: Tensor
    units: Units


def prepare_packed(
    cu_seqlens: Tensor,
    A: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    *more: Tensor,
    initial_state: Tensor | None,
) -> PackedSequences:
    """Check the offsets and the initial state, and lay all tensors apart in units of A tokens.

    A decay per head becomes one per token: it must not go on where a sequence has ended.
    """
    n, (_, T, H, K) = check_packed(cu_seqlens, q), q.shape
    expected = "another one, or linattn_ref.ops: Triton refuses these loops there"
    require(supports_packed_walks(q), "cu_seqlens", "a GPU of compute capability 10.x", expected)
    if initial_state is None:
        initial_state = q.new_zeros(n, H, K, v.shape[-1], dtype=torch.float32)
    check_state(initial_state, q, v, n_states=n)
    if log_decay is not None and log_decay.ndim == 1:
        log_decay = log_decay.expand(1, T, H)
    sequences, firsts, ends = find_units(cu_seqlens, T, A)
    units = Units(sequences, firsts, ends, A)
    tokens = [x if x is None else units.lay_apart(x) for x in (q, k, v, log_decay, *more)]
    return PackedSequences(tokens, initial_state, units)


def _make_units(cu_seqlens: Tensor, T: int, A: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return room for ``sequences``, ``firsts`` and ``ends`` of as many units as sequences can need."""
    M = (T + (len(cu_seqlens) - 1) * (A - 1)) // A
    sequences, firsts = (cu_seqlens.new_empty(n, dtype=torch.int32) for n in (M * A // TOKENS.value, M))
    return sequences, firsts, torch.empty_like(firsts)


@kernel_operator("find_units")
def find_units(cu_seqlens: Tensor, T: int, A: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``sequences``, ``firsts`` and ``ends`` of units of A tokens for a pack of T tokens."""
    sequences, firsts, ends = _make_units(cu_seqlens, T, A)
    units_kernel[firsts.shape](
        cu_seqlens.contiguous(), sequences, firsts, ends, len(cu_seqlens) - 1, T, A, BLOCK_SEQUENCES
    )
    return sequences, firsts, ends


@find_units.register_fake
def _(cu_seqlens, T, A):
    return _make_units(cu_seqlens, T, A)


@kernel_operator("lay_apart")
def lay_apart(x: Tensor, firsts: Tensor, ends: Tensor, A: int) -> Tensor:
    """Return x ``[1, T, ...]`` in units of A tokens, ``[1, M A, ...]``."""
    x = x.contiguous()
    units = x.new_empty(1, len(firsts) * A, *x.shape[2:])
    _copy(x, units, firsts, ends, A, to_units=True)
    return units


@kernel_operator("put_together")
def put_together(x: Tensor, firsts: Tensor, ends: Tensor, T: int) -> Tensor:
    """Return x ``[1, M A, ...]`` packed in T tokens, ``[1, T, ...]``."""
    x = x.contiguous()
    pack = x.new_empty(1, T, *x.shape[2:])
    _copy(pack, x, firsts, ends, x.shape[1] // len(firsts), to_units=False)
    return pack


def _copy(pack: Tensor, units: Tensor, firsts: Tensor, ends: Tensor, A: int, to_units: bool) -> None:
    """Copy from one to the other."""
    W = pack[0, 0].numel()
    BW = min(BLOCK_COLUMNS, round_up_to_power_of_2(W))
    copy_kernel[(len(firsts), ceil_div(W, BW))](pack, units, firsts, ends, W, A, BW, to_units)


@lay_apart.register_fake
def _(x, firsts, ends, A):
    return x.new_empty(1, firsts.shape[0] * A, *x.shape[2:])


@put_together.register_fake
def _(x, firsts, ends, T):
    return x.new_empty(1, T, *x.shape[2:])


def _save_for_apart(ctx: Any, inputs: tuple, output: Tensor) -> None:
    """Keep where units lie."""
    x, firsts, ends, _ = inputs
    ctx.save_for_backward(firsts, ends)
    ctx.T = x.shape[1]


def _save_for_together(ctx: Any, inputs: tuple, output: Tensor) -> None:
    """Keep where units lie."""
    x, firsts, ends, _ = inputs
    ctx.save_for_backward(firsts, ends)
    ctx.A = x.shape[1] // firsts.shape[0]


lay_apart.register_autograd(
    lambda ctx, dunits: (put_together(dunits, *ctx.saved_tensors, ctx.T), None, None, None),
    setup_context=_save_for_apart,
)
put_together.register_autograd(
    lambda ctx, dpack: (lay_apart(dpack, *ctx.saved_tensors, ctx.A), None, None, None),
    setup_context=_save_for_together,
)
