"""Provide the parts that chunk forms are made of: decayed scores, what a chunk leaves, states between chunks.

``g`` is a log decay, ``[B, T, H, 1]`` (a number per token and head) or ``[B, T, H, K]``. Every exponent is a
sum of log decays, hence <= 0.
"""

import torch
from torch.nn.functional import pad

from linattn_ref.ops.shapes import Float, Tensor, check_shapes

SUB_CHUNK = 16  # a decay per channel needs a [C, C, K] table; C is kept at 16


@check_shapes
def compute_decayed_scores(
    q: Float[Tensor, "B T H K"], k: Float[Tensor, "B T H K"], g: Float[Tensor, "B T H _"] | None
) -> Float[Tensor, "B H T T"]:
    """Return P_ij = sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}) for j <= i, else 0."""
    if g is None:
        return torch.einsum("bihk,bjhk->bhij", q, k).tril()
    if g.shape[-1] == 1:
        return torch.einsum("bihk,bjhk->bhij", q, k) * sum_segments(g)[..., 0].exp()
    return torch.einsum("bihk,bjhk,bhijk->bhij", q, k, sum_segments(g).exp())


@check_shapes
def sum_segments(g: Float[Tensor, "B T H X"]) -> Float[Tensor, "B H T T X"]:
    """Return L_ij = g_{j+1} + ... + g_i for j <= i, -inf above the diagonal.

    Each sum is added up by itself. The difference of two long cumulative sums would be cheaper and, in
    float32 under hard decays, wrong: both are large and what matters is their last digits.
    """
    T = g.shape[1]
    below = torch.ones(T, T, dtype=torch.bool, device=g.device).tril(-1)  # i > j
    terms = g.movedim(1, 2)[:, :, :, None] * below[..., None]  # [B, H, i, j, X]: g_i where i > j
    return terms.cumsum(2).masked_fill(below.T[..., None], -torch.inf)


@check_shapes
def pass_states(
    S: Float[Tensor, "B H K V"], written: Float[Tensor, "B M H K V"], g: Float[Tensor, "B M H _"] | None
) -> Float[Tensor, "B _ H K V"]:
    """Return the M + 1 states before the first chunk and after every chunk, in about log2(M) steps.

    After step s, ``states[n]`` holds what the last 2^s chunks up to n have left (a prefix sum by doubling).
    """
    states = torch.cat([S[:, None], written], 1)
    if g is None:
        return states.cumsum(1)
    g = pad(g, (0, 0, 0, 0, 1, 0))[..., None]  # [B, M + 1, H, 1 or K, 1]
    shift = 1
    while shift < states.shape[1]:
        states = states + g.exp() * delay(states, shift)
        g = g + delay(g, shift)
        shift *= 2
    return states


def decay_from_start(g: Tensor, dim: int = 1) -> Tensor:
    """Return what is left of the state before the first token when token t reads: exp(g_1 + ... + g_t)."""
    return g.cumsum(dim).exp()


def decay_to_end(g: Tensor, dim: int = 1) -> Tensor:
    """Return what is left after the last token of what token t wrote: exp(g_{t+1} + ... + g_T)."""
    after = delay(g.flip(dim), 1, dim)  # g one token on, in reverse
    return after.cumsum(dim).flip(dim).exp()


def delay(x: Tensor, steps: int, dim: int = 1) -> Tensor:
    """Return x at n - steps, and zeros where there is none."""
    behind = [0, 0] * (x.ndim - 1 - dim)
    return pad(x, (*behind, steps, -steps))


def make_empty_state(k: Float[Tensor, "B T H K"], v: Float[Tensor, "B T H V"]) -> Float[Tensor, "B H K V"]:
    """Return a state of zeros for these keys and values."""
    return k.new_zeros(k.shape[0], k.shape[2], k.shape[3], v.shape[3])


def split_time(x: Float[Tensor, "B T H X"], C: int) -> Float[Tensor, "B M C H X"]:
    """Cut time into chunks of C, filling the last one with zeros."""
    T = x.shape[1]
    M = -(-T // C)  # T / C, rounded up
    return pad(x, (0, 0, 0, 0, 0, M * C - T)).unflatten(1, (M, C))


@check_shapes
def score_chunks(
    q: Float[Tensor, "B M C H K"], k: Float[Tensor, "B M C H K"], g: Float[Tensor, "B M C H _"]
) -> Float[Tensor, "B M H C C"]:
    """Return the decayed scores within every chunk, see ``compute_decayed_scores``."""
    rows = compute_decayed_scores(q.flatten(0, 1), k.flatten(0, 1), g.flatten(0, 1))
    return rows.unflatten(0, q.shape[:2])
