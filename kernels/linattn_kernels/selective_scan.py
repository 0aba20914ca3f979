"""Compute Mamba's selective scan: the public function, its backward, and what torch must know of them.

Forward: ``scan_walks.py``. Backward: states are made again, and those before each tile of ``TOKENS`` tokens
kept. Then a program walks through the tiles against time with R, the gradient of the state before a token::

    dh_t = dy_t C_t + R_{t+1},   R_t = exp(delta_t A) dh_t

    dC_t = sum_d dy_t h_t                        du_t = sum_n delta_t B_t dh_t + D dy_t
    dB_t = sum_d delta_t u_t dh_t                ddelta_t = sum_n (u_t B_t dh_t + A R_t h_{t-1})
    dA = sum_t delta_t R_t h_{t-1}               dD = sum_t dy_t u_t

The states within a tile are made with time, kept on the chip, and used against it: a state less what was
written last, over its decay, would leave nothing of a hard decay's gradient.

Sums over channels are made in blocks and then added up, in one order, so two calls give equal bits.

Source: Gu and Dao 2023 (arXiv 2312.00752, algorithm 2) for the model and the states that are made again.
"""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.launch_config import LaunchConfig, ceil_div, round_up_to_power_of_2
from linattn_kernels.launches import kernel
from linattn_kernels.operators import kernel_operator
from linattn_kernels.scan_walks import (
    TOKENS,
    choose_scan_walk,
    keep_states,
    load_rates,
    load_scan_state,
    load_tokens,
    scan_forward,
    summarize_scan,
)
from linattn_kernels.tiles import LOG2_E
from linattn_kernels.validation import check_device, check_supported_dtype, reads_values
from linattn_ref.ops.results import ChannelResult
from linattn_ref.ops.scan import check_scan
from linattn_ref.ops.validation import (
    check_one_channel_token,
    require,
    require_tensor,
    resolve_channel_state,
)

OP = "associative_selective_scan"
MAX_STATES = 128  # numbers of state in a channel
GRADIENTS = LaunchConfig(16, 1, 1)
LEAST_COLUMNS = 4  # of a program, where N is large
KEPT_NUMBERS = 256  # of a state that a program of one warp keeps for each token of a tile


@kernel
def scan_gradients_kernel(
    u, delta, dy,  # [B, T, D]
    A,  # [D, N]
    B, C,  # [B, T, N]
    skip,  # [D], or nothing for none
    states,  # [B, M, N, D], the state before each tile
    dfinal,  # [B, D, N], or nothing for zeros
    ends, sums,  # as in ``scan_walks.py``, of walks against time
    du, ddelta,  # [B, T, D], written
    dA,  # [B, segments, N, D], written, in float32
    dB, dC,  # [blocks of D, B, T, N], written, in float32
    dskip,  # [B, segments, D], written, in float32
    dinitial,  # [B, D, N], written
    batch, T, D, N, M, n_segments, tiles_per_segment,
    NP: tl.constexpr, BD: tl.constexpr, TILE: tl.constexpr,
    HAS_SKIP: tl.constexpr, HAS_DFINAL: tl.constexpr,
):  # fmt: skip
    """Compute all gradients of BD channels, through one segment, against time."""
    b, block = (tl.program_id(0) // tl.cdiv(D, BD)).to(tl.int64), tl.program_id(0) % tl.cdiv(D, BD)
    segment = tl.program_id(1)
    n, d = tl.arange(0, NP)[:, None], block * BD + tl.arange(0, BD)[None, :]
    inside = (n < N) & (d < D)
    rates = load_rates(A, d, n, D, N)  # [NP, BD]
    R = load_scan_state(dfinal, ends, sums, rates, b, d, n, segment, D, N, n_segments, True, HAS_DFINAL)
    dAs, dskips = tl.zeros([NP, BD], tl.float32), tl.zeros([1, BD], tl.float32)
    if HAS_SKIP:
        skips = tl.load(skip + d, mask=d < D, other=0.0).to(tl.float32)
    begin, end = segment * tiles_per_segment, min(segment * tiles_per_segment + tiles_per_segment, M)
    for k in range(begin, end):
        m = begin + end - 1 - k
        S = tl.load(states + ((b * M + m) * N + n) * D + d, mask=inside, other=0.0)  # [NP, BD]
        first = m * TILE
        us, deltas = load_tokens(u, b, first, T, D, d, TILE), load_tokens(delta, b, first, T, D, d, TILE)
        Bs, Cs = load_tokens(B, b, first, T, N, n, TILE), load_tokens(C, b, first, T, N, n, TILE)
        dys = load_tokens(dy, b, first, T, D, d, TILE)
        before = ()  # the state before each token of the tile
        for i in tl.static_range(TILE):
            before += (S,)  # type: ignore[assignment]
            step = deltas[i].to(tl.float32)  # [1, BD]
            S = tl.exp2(step * rates) * S + (step * us[i].to(tl.float32)) * Bs[i].to(tl.float32)
        for j in tl.static_range(TILE):
            t = first + TILE - 1 - j
            step, one = deltas[TILE - 1 - j].to(tl.float32), us[TILE - 1 - j].to(tl.float32)  # [1, BD]
            dout = dys[TILE - 1 - j].to(tl.float32)  # [1, BD]
            dh = R + dout * Cs[TILE - 1 - j].to(tl.float32)
            dCs, dBs = tl.sum(S * dout, 1)[:, None], tl.sum(dh * (step * one), 1)[:, None]  # [NP, 1]
            S = before[TILE - 1 - j]
            R = tl.exp2(step * rates) * dh
            through = R * S  # gradient of delta A
            dx = tl.sum(dh * Bs[TILE - 1 - j].to(tl.float32), 0)[None, :]  # [1, BD]: gradient of delta u
            ddeltas = one * dx + tl.sum(through * (rates / LOG2_E), 0)[None, :]
            dAs += through * step
            dus = step * dx
            if HAS_SKIP:
                dus += dout * skips
                dskips += dout * one
            at = (b * T + t) * D + d
            exists = (t < T) & (d < D)
            tl.store(du + at, dus.to(du.dtype.element_ty), mask=exists)
            tl.store(ddelta + at, ddeltas.to(ddelta.dtype.element_ty), mask=exists)
            at = ((block * batch + b) * T + t) * N + n
            exists = (t < T) & (n < N)
            tl.store(dB + at, dBs, mask=exists)
            tl.store(dC + at, dCs, mask=exists)
    at = b * n_segments + segment
    tl.store(dA + (at * N + n) * D + d, dAs, mask=inside)
    if HAS_SKIP:
        tl.store(dskip + at * D + d, dskips, mask=d < D)
    if segment == 0:
        tl.store(dinitial + (b * D + d) * N + n, R, mask=inside)


@kernel_operator("scan_forward")
def selective_scan_forward(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the final state."""
    return scan_forward(u, delta, A, B, C, D, initial_state)


@selective_scan_forward.register_fake
def _(u, delta, A, B, C, D, initial_state):
    return torch.empty_like(u), A.new_empty(u.shape[0], *A.shape, dtype=torch.float32)


@kernel_operator("scan_backward")
def selective_scan_backward(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    dy: Tensor,
    dfinal: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of u, delta, A, B, C, D (empty for None) and the initial state."""
    (batch, T, channels), N = u.shape, A.shape[1]
    NP = round_up_to_power_of_2(N)
    BD = min(GRADIENTS.block_columns, max(LEAST_COLUMNS, KEPT_NUMBERS * GRADIENTS.num_warps // NP))
    layout = choose_scan_walk(delta)
    states = keep_states(u, delta, A, B, initial_state, layout)
    ends, sums = summarize_scan(dy, delta, A, C, layout, reverse=True)
    du, ddelta = torch.empty_like(u), torch.empty_like(delta)
    blocks = ceil_div(channels, BD)
    dA = states.new_empty(batch, layout.N, N, channels)
    dB, dC = states.new_empty(2, blocks, batch, T, N)
    dskip = states.new_empty(batch, layout.N, 0 if D is None else channels)
    dinitial = states.new_empty(batch, channels, N)
    scan_gradients_kernel[(batch * blocks, layout.N)](
        u, delta, dy, A, B, C, D, states, dfinal, ends, sums, du, ddelta, dA, dB, dC, dskip, dinitial,
        batch, T, channels, N, states.shape[1], layout.N, layout.chunks_per_segment * (layout.C // TOKENS),
        NP, BD, TOKENS, D is not None, dfinal is not None, **GRADIENTS.triton_options,
    )  # fmt: skip
    dA = dA.sum((0, 1)).T.to(A.dtype).contiguous()
    dskip = dskip.sum((0, 1)).to(A.dtype if D is None else D.dtype)
    return du, ddelta, dA, dB.sum(0).to(B.dtype), dC.sum(0).to(C.dtype), dskip, dinitial


@selective_scan_backward.register_fake
def _(u, delta, A, B, C, D, initial_state, dy, dfinal):
    dD = A.new_empty(0) if D is None else torch.empty_like(D)
    dinitial = A.new_empty(u.shape[0], *A.shape, dtype=torch.float32)
    return *(torch.empty_like(x) for x in (u, delta, A, B, C)), dD, dinitial


def _save_for_backward(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs; the backward makes the states again."""
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, dfinal: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the gradients of all inputs of ``selective_scan_forward``, None where there is none."""
    *inputs, D, initial_state = ctx.saved_tensors
    if dy is None and dfinal is None:
        return (None,) * 7
    dy = torch.zeros_like(inputs[0]) if dy is None else dy.contiguous()
    dfinal = None if dfinal is None else dfinal.contiguous()
    *gradients, dD, dinitial = selective_scan_backward(*inputs, D, initial_state, dy, dfinal)
    return *gradients, None if D is None else dD, None if initial_state is None else dinitial


selective_scan_forward.register_autograd(_backward, setup_context=_save_for_backward)


def associative_selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    hold: str = "euler",
    initial_state: Tensor | None = None,
) -> ChannelResult:
    """Run Mamba's selective scan by Triton kernels: ``linattn_ref.ops.associative_selective_scan``.

    Per batch element and channel, with N numbers of state::

        h_t = exp(Delta_t A) h_{t-1} + Delta_t B_t u_t
        y_t = C_t h_t + D u_t

    It runs where ``chunk_linear_attention`` does, has gradients of all tensors but no second derivatives, and
    works under autocast and ``torch.compile``. A tensor that is not contiguous is copied. All is computed in
    float32, whatever the inputs' dtype; states never leave the chip, but for those that the backward makes
    again, one every 4 tokens. Two calls give equal bits.

    A NaN or infinity in an input reaches no earlier output.

    Args:
        u: input, ``[B, T, D]``; float32, bfloat16 or float16.
        delta: steps, ``[B, T, D]``, finite and >= 0, after the softplus, in u's dtype or in float32. On a GPU
            neither its values nor those of A are checked, unless the environment has
            ``LINATTN_CHECK_VALUES=1``.
        A: rates of the N numbers of state, ``[D, N]``, finite and <= 0, dtypes as delta's; N is 128 at most.
        B: input weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        C: output weights, ``[B, T, N]``, shared by all channels, dtypes as delta's.
        D: weight of the input in the output (the skip), ``[D]``, or None for none.
        hold: "euler"; no kernel has another.
        initial_state: the state before the first token, ``[B, D, N]`` in float32. None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, T, D]`` in u's dtype, and the state after the last
        token, ``[B, D, N]`` in float32.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4 and algorithm 2; the gradients are derived in
        ``selective_scan.py``.

    Example:
        On a GPU, add ``device="cuda"``; on a CPU it runs in Triton's interpreter, with TRITON_INTERPRET=1.

        >>> u = delta = B = C = torch.ones(1, 3, 1)
        >>> output, state = associative_selective_scan(u, delta, -torch.ones(1, 1), B, C)
        >>> [round(x, 4) for x in output.flatten().tolist()], list(state.shape)
        ([1.0, 1.3679, 1.5032], [1, 1, 1])
    """
    return _check_and_run(OP, u, delta, A, B, C, D, hold, initial_state, "initial_state")


def _check_and_run(
    op: str,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    hold: str,
    state: Tensor | None,
    state_name: str,
) -> ChannelResult:
    """Run the scan, or raise unless the reference takes the arguments, and a kernel as well."""
    tensors = [("u", u), ("delta", delta), ("A", A), ("B", B), ("C", C), ("D", D)]
    for name, x in tensors:
        if x is not None or name != "D":
            require_tensor(x, name)
    if reads_values(u):
        shape = check_scan(u, delta, A, B, C, D, hold)
    else:  # shapes and dtypes without values
        for name, x in tensors:
            if x is not None:
                require(x.device == u.device, name, f"a tensor on {x.device}", f"one on {u.device}")
        u_, delta_, A_, B_, C_ = (x.to("meta") for x in (u, delta, A, B, C))
        shape = check_scan(u_, delta_, A_, B_, C_, None if D is None else D.to("meta"), hold)
    if state is not None:
        resolve_channel_state(state, state_name, u, shape, torch.float32)
    instead = f"linattn_ref.ops.{op} takes any other"
    check_supported_dtype(u, "u", instead)
    require(hold == "euler", "hold", repr(hold), f"'euler'; {instead}")
    N = shape[1]
    require(N <= MAX_STATES, "A", f"{N} numbers of state", f"at most {MAX_STATES}; {instead}")
    check_device(u, instead)
    inputs = (None if x is None else x.contiguous() for x in (u, delta, A, B, C, D, state))
    return ChannelResult(*selective_scan_forward(*inputs))


def step_selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    hold: str = "euler",
    state: Tensor | None = None,
) -> ChannelResult:
    """Run Mamba's selective scan for one token: ``linattn_ref.ops.step_selective_scan``.

    Per batch element and channel, with N numbers of state::

        h_t = exp(Delta_t A) h_{t-1} + Delta_t B_t u_t
        y_t = C_t h_t + D u_t

    It is the scan of one token; the state is a new tensor.

    Args:
        u: input, ``[B, 1, D]``; float32, bfloat16 or float16.
        delta: steps, ``[B, 1, D]``, as for ``associative_selective_scan``.
        A: rates, ``[D, N]``.
        B: input weights, ``[B, 1, N]``.
        C: output weights, ``[B, 1, N]``.
        D: weight of the input in the output (the skip), ``[D]``, or None for none.
        hold: "euler"; no kernel has another.
        state: the state before the token, ``[B, D, N]`` in float32. None is zeros.

    Returns:
        ``ChannelResult(output, state)``: output ``[B, 1, D]`` in u's dtype, and the state after the token,
        ``[B, D, N]`` in float32.

    Raises:
        ValueError: if an argument has a wrong type, shape, dtype or device, or one that no kernel takes. The
            message names it, what came, what was expected, and what to call instead.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4.

    Example:
        >>> u = delta = B = C = torch.ones(1, 1, 1)
        >>> output, state = step_selective_scan(u, delta, torch.zeros(1, 1), B, C, state=torch.ones(1, 1, 1))
        >>> output.item(), state.item()
        (2.0, 2.0)
    """
    check_one_channel_token(u)
    return _check_and_run("step_selective_scan", u, delta, A, B, C, D, hold, state, "state")
