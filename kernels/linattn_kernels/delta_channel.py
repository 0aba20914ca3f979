"""Compute the delta rule in chunk form with a decay per channel, ``log_decay [B, T, H, K]`` (KDA).

Scores of such decays are no product of matrices, but ``intra_chunk.py`` makes them, and queries and keys with
the decays from the start and to the end of their chunk. It makes A_ij of queries and keys and P_ij of
keys and keys at once. With these the walks of ``delta_walks.py`` are those of the other decays.

Backward: keys have two parts, that of a query, where they recall, and that of a key, where they write. So the
gradients of q, k and g are twice those of linear attention, in the terms of ``delta_rule.py``::

    q reads what k writes:       scores A, outputs o, values u, gradients dA_ij = scale do_i . u_j
    k recalls what k writes:     scores P, and -x in place of o, gradients dP_ij = -dx_i . r_j beta_j

for which ``channel_decay.py`` has the kernel. States and their gradients take part in the first; the second
reads the state too, but writes nothing into it that the first has not.

Source: Kimi Team 2025 (arXiv 2510.26692, section 3) for the model and its chunk form; the gradients are
derived here.
"""

import torch
import triton.language as tl
from torch import Tensor

from linattn_kernels.channel_decay import compute_gradients_of_pairs
from linattn_kernels.delta_rule import walk_forward
from linattn_kernels.delta_system import ChunkSystems, invert_systems, load_betas
from linattn_kernels.delta_walks import (
    choose_walk_segments,
    find_gradients_after_segments,
    find_states_before_segments,
    walk_gradients,
    walk_states,
)
from linattn_kernels.dtypes import dot_precision
from linattn_kernels.intra_chunk import IntraChunk, compute_intra_chunk
from linattn_kernels.launch_config import LaunchConfig, LaunchConfigs, SegmentLayout, choose_tokens_per_tile
from linattn_kernels.launches import kernel
from linattn_kernels.tiles import get_head_pointer, load_tile, store_tile

PAIRS = LaunchConfigs(half_precision=LaunchConfig(128, 4, 1), float32=LaunchConfig(16, 4, 1))


def prepare_chunks(
    q: Tensor, k: Tensor, beta: Tensor, g: Tensor, scale: float, layout: SegmentLayout
) -> tuple[IntraChunk, ChunkSystems]:
    """Return what queries and keys, and keys among themselves, compute without a state, and the systems."""
    intra = compute_intra_chunk(q, k, g, scale, layout, of_keys=True)
    recalling = intra.k_from_start
    assert recalling is not None
    return intra, invert_systems(recalling, beta, intra.decay, layout.C, intra.k_to_end, intra.key_scores)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[B, T, H, V]`` and the final state ``[B, H, K, V]``. All inputs are contiguous.

    Packed sequences lie apart, in units of ``chunk_size`` tokens; ``sequences`` and states are as in
    ``packed.py``.
    """
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    intra, systems = prepare_chunks(q, k, beta, g, scale, choose_walk_segments(k, v, C, sequences))
    return walk_forward(intra.q_from_start, v, systems, intra.scores, initial_state, 1.0, C, sequences)


@kernel
def pairs_kernel(
    do, errors, dx,  # [B, T, H, V]
    key_scores,  # [B, T, H, C], P
    beta,  # [B, T, H]
    dscores, dkey_scores,  # [B, T, H, C], written: of the later and the earlier token, either way round
    dbeta,  # [B, T, H], written: the part of pairs
    scale, T, H, M,
    V: tl.constexpr, BV: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the scores of one chunk of one head."""
    m, bh = tl.program_id(0) % M, tl.program_id(0) // M
    b, h = bh // H, bh % H
    do, errors = get_head_pointer(do, b, h, T, H, V), get_head_pointer(errors, b, h, T, H, V)
    dx = get_head_pointer(dx, b, h, T, H, V)
    betas = load_betas(beta, b, h, m, T, H, C)  # [C]
    dA, dP = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    for column in range(0, V, BV):
        dos = load_tile(do, m * C, T, H * V, column, C, BV)  # [C, BV]
        dxs = load_tile(dx, m * C, T, H * V, column, C, BV)  # [C, BV]
        rs = tl.trans(load_tile(errors, m * C, T, H * V, column, C, BV))  # [BV, C]
        dA += tl.dot(dos, rs, input_precision=PRECISION)
        dP -= tl.dot(dxs, rs, input_precision=PRECISION)
    P = load_tile(get_head_pointer(key_scores, b, h, T, H, C), m * C, T, H * C, 0, C, C)  # [C, C]
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    dP = tl.where(j < i, dP, 0.0)
    t = m * C + tl.arange(0, C)
    tl.store(dbeta + (b.to(tl.int64) * T + t) * H + h, tl.sum(dP * P, 0), mask=t < T)
    dA, dP = dA * (scale * betas)[None, :], dP * betas[None, :]
    dscores, dkey_scores = (
        get_head_pointer(dscores, b, h, T, H, C),
        get_head_pointer(dkey_scores, b, h, T, H, C),
    )
    store_tile(dscores, tl.where(j <= i, dA, tl.trans(dA)), m * C, T, H * C, 0, C, C)
    store_tile(dkey_scores, dP + tl.trans(dP), m * C, T, H * C, 0, C, C)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
    do: Tensor,
    dstate: Tensor | None,
    scale: float,
    chunk_size: int,
    sequences: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v, beta, g (in float32) and the initial state.

    Args:
        q, k, v, beta, g, initial_state, scale, chunk_size, sequences: as for ``forward``.
        do: gradient of the output, ``[B, T, H, V]``, contiguous.
        dstate: gradient of the final state, ``[B, H, K, V]``, or None for zeros; given if ``sequences`` are.
    """
    B, T, H, _ = q.shape
    V = v.shape[-1]
    C = choose_tokens_per_tile(q, v, chunk_size, max_in_float32=16)
    layout = choose_walk_segments(k, v, C, sequences)
    intra, systems = prepare_chunks(q, k, beta, g, scale, layout)
    starts, maps = find_states_before_segments(systems, v, initial_state, layout)
    states, errors = walk_states(systems, v, starts, initial_state, layout)
    queries = systems, intra.q_from_start, do
    after = find_gradients_after_segments(*queries, dstate, maps, 1.0, layout, intra.scores)
    dstates, dv, dbeta, dinitial = walk_gradients(*queries, errors, after, dstate, 1.0, layout, intra.scores)
    dscores, dkey_scores = torch.empty_like(intra.scores), torch.empty_like(intra.scores)
    config = PAIRS.choose(q, v)
    pairs_kernel[(layout.M * B * H,)](
        do, errors, dv, intra.key_scores, beta, dscores, dkey_scores, dbeta[-1], scale, T, H, layout.M,
        V, min(V, config.block_columns), C, dot_precision(q), **config.triton_options,
    )  # fmt: skip
    u = (errors * beta[..., None]).to(v.dtype)
    dq, dk, dg = compute_gradients_of_pairs(q, k, g, u, do, dscores, states, dstates, scale, C, torch.float32)
    dk_recalling, dk_written, dg_of_keys = compute_gradients_of_pairs(
        k, k, g, u, dv, dkey_scores, states, None, -1.0, C, torch.float32
    )
    dk = (dk + dk_recalling + dk_written).to(k.dtype)
    return dq.to(q.dtype), dk, dv, dbeta.sum(0).to(beta.dtype), dg + dg_of_keys, dinitial
