"""Walk through time with the states of a selective scan, token by token, in either direction.

Per batch element and channel, with N numbers of state::

    S_t = exp(delta_t A) S_{t-1} + delta_t u_t B_t           with time; y_t = C_t S_t + D u_t
    R_t = exp(delta_t A) (R_{t+1} + dy_t C_t)                against it: the gradient of S_{t-1}

A program has BD channels and all N numbers of each, every channel in a thread of its own, so nothing passes
between threads. It reads a batch of tokens before it works on the first of them: one token at a time, it
would wait for memory at each, since a store of a result holds back the loads behind it. A long batch hides
more, and takes registers: a multiprocessor then holds fewer programs, which hide as much by themselves.

Where there are few channels, time is cut into segments that run side by side. That takes a walk before:
what each segment ends with, from nothing, and the sum of its steps, by which it decays what it begins with.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from linattn_kernels.hardware import count_multiprocessors
from linattn_kernels.launch_config import (
    LaunchConfig,
    SegmentLayout,
    ceil_div,
    choose_segments,
    round_up_to_power_of_2,
)
from linattn_kernels.launches import kernel
from linattn_kernels.states import make_nothing
from linattn_kernels.tiles import LOG2_E

WALK = LaunchConfig(32, 1, 1, programs_per_multiprocessor=16)  # through segments
WHOLE_WALK = LaunchConfig(32, 1, 1, max_registers=224)  # through a whole sequence; with more, fewer fit
FEW_PROGRAMS = 3  # on a multiprocessor; with more, segments gain less than their walk before costs
LONG_BATCH, SHORT_BATCH = 8, 4  # tokens that are read at a time: without segments, and with
TOKENS = 4  # of a tile of the backward; the states before each tile are kept


def choose_scan_walk(delta: Tensor) -> SegmentLayout:
    """Return batches of tokens and segments for walks through delta ``[B, T, D]``."""
    B, T, D = delta.shape
    programs = B * ceil_div(D, WALK.block_columns)
    if programs > FEW_PROGRAMS * count_multiprocessors(delta):
        M = ceil_div(T, LONG_BATCH)
        return SegmentLayout(LONG_BATCH, M, 1, M)
    return choose_segments(T, SHORT_BATCH, programs, WALK, delta, None)


@triton.jit
def load_rates(A, d, n, D, N):
    """Return A [D, N] as [N, BD], for powers of 2; zeros where there are no such numbers."""
    return tl.load(A + d * N + n, mask=(d < D) & (n < N), other=0.0).to(tl.float32) * LOG2_E


@triton.jit
def load_scan_state(
    initial,  # [B, D, N], or nothing for zeros
    ends,  # [B, segments, N, D]
    sums,  # [B, segments, D]
    rates, b, d, n, segment, D, N, n_segments,
    REVERSE: tl.constexpr, HAS_INITIAL: tl.constexpr,
):  # fmt: skip
    """Return [N, BD]: what a segment begins with, in its direction: the recurrence, a segment a step."""
    inside = (d < D) & (n < N)
    if HAS_INITIAL:
        S = tl.load(initial + (b * D + d) * N + n, mask=inside, other=0.0)
    else:
        S = tl.zeros(rates.shape, tl.float32)
    for i in range(n_segments - 1 - segment if REVERSE else segment):
        at = b * n_segments + (n_segments - 1 - i if REVERSE else i)
        S *= tl.exp2(rates * tl.load(sums + at * D + d, mask=d < D, other=0.0))
        S += tl.load(ends + (at * N + n) * D + d, mask=inside, other=0.0)
    return S


@triton.jit
def load_tokens(x, b, first, T, W, at, COUNT: tl.constexpr):
    """Return COUNT tokens of x [B, T, W] from ``first`` on, each at these columns; zeros beyond T."""
    tokens = ()
    for i in tl.static_range(COUNT):
        t = first + i
        here = tl.load(x + (b * T + t) * W + at, mask=(t < T) & (at < W), other=0.0)
        tokens += (here,)  # type: ignore[assignment]
    return tokens


@kernel
def scan_walk_kernel(
    x, delta,  # [B, T, D]: u, or dy in a walk against time
    A,  # [D, N]
    write, read,  # [B, T, N]: B and C; against time C, and nothing
    skip,  # [D], or nothing for none
    initial,  # [B, D, N], or nothing for zeros
    ends, sums,  # [B, segments, N, D] and [B, segments, D]; written if SUMMARY
    y,  # [B, T, D], written if OUTPUT
    states,  # [B, tiles, N, D], written if STORE: the state before each tile of TILE tokens
    final,  # [B, D, N], written if not SUMMARY
    T, D, N, M, n_segments, batches_per_segment,
    NP: tl.constexpr,  # N, rounded up to a power of 2
    BD: tl.constexpr, BATCH: tl.constexpr, TILE: tl.constexpr, REVERSE: tl.constexpr,
    HAS_INITIAL: tl.constexpr, HAS_SKIP: tl.constexpr, SUMMARY: tl.constexpr, OUTPUT: tl.constexpr,
    STORE: tl.constexpr,
):  # fmt: skip
    """Walk through one segment with BD channels."""
    b, block = (tl.program_id(0) // tl.cdiv(D, BD)).to(tl.int64), tl.program_id(0) % tl.cdiv(D, BD)
    segment = tl.program_id(1)
    n, d = tl.arange(0, NP)[:, None], block * BD + tl.arange(0, BD)[None, :]
    inside = (d < D) & (n < N)
    rates = load_rates(A, d, n, D, N)  # [NP, BD]
    if SUMMARY:
        S = tl.zeros([NP, BD], tl.float32)
        total = tl.zeros([1, BD], tl.float32)
    else:
        S = load_scan_state(
            initial, ends, sums, rates, b, d, n, segment, D, N, n_segments, REVERSE, HAS_INITIAL
        )
    if HAS_SKIP:
        skips = tl.load(skip + d, mask=d < D, other=0.0).to(tl.float32)
    begin, end = segment * batches_per_segment, min(segment * batches_per_segment + batches_per_segment, M)
    for k in range(begin, end):
        first = (begin + end - 1 - k if REVERSE else k) * BATCH
        xs, deltas = load_tokens(x, b, first, T, D, d, BATCH), load_tokens(delta, b, first, T, D, d, BATCH)
        writes = load_tokens(write, b, first, T, N, n, BATCH)
        if OUTPUT:
            reads = load_tokens(read, b, first, T, N, n, BATCH)
        for i in tl.static_range(BATCH):
            if STORE and i % TILE == 0:
                tile = (b * M + first // BATCH) * (BATCH // TILE) + i // TILE
                tl.store(states + (tile * N + n) * D + d, S, mask=inside)
            if REVERSE:
                step = deltas[BATCH - 1 - i].to(tl.float32)  # [1, BD]
                written = xs[BATCH - 1 - i].to(tl.float32) * writes[BATCH - 1 - i].to(tl.float32)
                S = tl.exp2(step * rates) * (S + written)
            else:
                step, one = deltas[i].to(tl.float32), xs[i].to(tl.float32)  # [1, BD]
                S = tl.exp2(step * rates) * S + (step * one) * writes[i].to(tl.float32)
            if SUMMARY:
                total += step
            if OUTPUT:
                ys = tl.sum(S * reads[i].to(tl.float32), 0)[None, :]  # [1, BD]
                if HAS_SKIP:
                    ys += skips * one
                at = y + (b * T + first + i) * D + d
                tl.store(at, ys.to(y.dtype.element_ty), mask=(first + i < T) & (d < D))
    if SUMMARY:
        at = b * n_segments + segment
        tl.store(ends + (at * N + n) * D + d, S, mask=inside)
        tl.store(sums + at * D + d, total, mask=d < D)
    elif segment == n_segments - 1 and OUTPUT:
        tl.store(final + (b * D + d) * N + n, S, mask=inside)


# --- their launchers --------------------------------------------------------------------------------------


def scan_forward(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[B, T, D]`` and the final state ``[B, D, N]``. All inputs are contiguous."""
    layout = choose_scan_walk(delta)
    segments = summarize_scan(u, delta, A, B, layout)
    y, final = torch.empty_like(u), A.new_empty(u.shape[0], *A.shape, dtype=torch.float32)
    _launch_walk(u, delta, A, B, C, D, initial_state, segments, y, None, final, layout)
    return y, final


def summarize_scan(
    x: Tensor, delta: Tensor, A: Tensor, write: Tensor, layout: SegmentLayout, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what each segment ends with, from nothing, and the sum of its steps; empty if there is one."""
    if layout.N == 1:
        return make_nothing(delta.device), make_nothing(delta.device)
    B, _, D = delta.shape
    ends = delta.new_empty(B, layout.N, A.shape[1], D, dtype=torch.float32)
    segments = ends, delta.new_empty(B, layout.N, D, dtype=torch.float32)
    _launch_walk(x, delta, A, write, None, None, None, segments, None, None, None, layout, reverse)
    return segments


def keep_states(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    initial_state: Tensor | None,
    layout: SegmentLayout,
) -> Tensor:
    """Return ``[B, tiles, N, D]``, the state before each tile of ``TOKENS`` tokens."""
    segments = summarize_scan(u, delta, A, B, layout)
    tiles = layout.M * (layout.C // TOKENS)
    states = delta.new_empty(u.shape[0], tiles, A.shape[1], u.shape[2], dtype=torch.float32)
    _launch_walk(u, delta, A, B, None, None, initial_state, segments, None, states, None, layout)
    return states


def _launch_walk(
    x: Tensor,
    delta: Tensor,
    A: Tensor,
    write: Tensor,
    read: Tensor | None,
    skip: Tensor | None,
    initial: Tensor | None,
    segments: tuple[Tensor, Tensor],
    y: Tensor | None,
    states: Tensor | None,
    final: Tensor | None,
    layout: SegmentLayout,
    reverse: bool = False,
) -> None:
    """Launch the walk: it writes output and final state, or states, or the segments if these are None."""
    config = WHOLE_WALK if layout.N == 1 else WALK
    (B, T, D), N, BD = delta.shape, A.shape[1], config.block_columns
    scan_walk_kernel[(B * ceil_div(D, BD), layout.N)](
        x, delta, A, write, read, skip, initial, *segments, y, states, final, T, D, N, layout.M, layout.N,
        layout.chunks_per_segment, round_up_to_power_of_2(N), BD, layout.C, TOKENS, reverse,
        initial is not None, skip is not None, y is None and states is None, y is not None,
        states is not None, **config.triton_options,
    )  # fmt: skip
