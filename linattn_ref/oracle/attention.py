"""Softmax attention in three passes, linear attention in three forms."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def softmax_attention(q: Array, k: Array, v: Array, scale: float = 1.0, exp: Callable = np.exp) -> Array:
    """Every token asks all tokens up to itself, and takes the mean of their values, weighted by exp(score).

    k and v may be longer than q by the S tokens of a cache: query t then stands at position S + t.
    """
    S = len(k) - len(q)
    o = []
    for t in range(len(q)):
        weight = [exp(scale * (q[t] @ k[j])) for j in range(S + t + 1)]
        o.append(sum(weight[j] * v[j] for j in range(S + t + 1)) / sum(weight))
    return np.array(o)


def softmax_attention_restart(
    q: Array, k: Array, v: Array, scale: float = 1.0, exp: Callable = np.exp
) -> Array:
    """Going through a book: for every query, start again at the first key and keep a running mean.

    After key j the mean is (d_old / d) * mean_old + (1 - d_old / d) * v_j, with d the sum of weights so far
    (arXiv 2406.16690, section 5.4).
    """
    S = len(k) - len(q)
    o = []
    for t in range(len(q)):
        mean, d = 0 * v[0], 0
        for j in range(S + t + 1):
            old, d = d, d + exp(scale * (q[t] @ k[j]))
            mean = (old / d) * mean + (1 - old / d) * v[j]
        o.append(mean)
    return np.array(o)


def softmax_attention_online(
    q: Array,
    k: Array,
    v: Array,
    tile: int,
    scale: float = 1.0,
    exp: Callable = np.exp,
    largest: Callable = max,
) -> Array:
    """The same pass, a tile of keys at a time, with all exponents taken relative to the largest score so far.

    Args:
        tile: keys per tile.
        largest: what the exponents are relative to; any function of the scores gives the same output.
    """
    S = len(k) - len(q)
    o = []
    for t in range(len(q)):
        visible = S + t + 1
        m, d, total = None, 0, 0 * v[0]
        for start in range(0, visible, tile):
            keys = range(start, min(start + tile, visible))
            score = [scale * (q[t] @ k[j]) for j in keys]
            new_m = largest(score if m is None else [m, *score])
            shrink = 0 if m is None else exp(m - new_m)
            weight = [exp(s - new_m) for s in score]
            d = shrink * d + sum(weight)
            total = shrink * total + sum(w * v[j] for w, j in zip(weight, keys, strict=True))
            m = new_m
        o.append(total / d)
    return np.array(o)


def linear_attention(
    q: Array, k: Array, v: Array, alpha: Array | None = None, scale: float = 1.0, state: Array | None = None
) -> tuple[Array, Array]:
    """Forget, write, read: S_t = alpha_t * S_{t-1} + k_t^T v_t, o_t = scale q_t S_t. The definition."""
    T, K = k.shape
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    o = []
    for t in range(T):
        S = decay(alpha, t, K)[:, None] * S
        S = S + np.outer(k[t], v[t])
        o.append(scale * (q[t] @ S))
    return np.array(o), S


def linear_attention_parallel(
    q: Array, k: Array, v: Array, alpha: Array | None = None, scale: float = 1.0, state: Array | None = None
) -> tuple[Array, Array]:
    """Every token asks all tokens up to itself, and takes the sum of their values, by decayed score.

    What token j wrote has been through the decays of j + 1, ..., t when token t reads it.
    """
    T, K = k.shape
    left = [[product(alpha, j + 1, t + 1, K) for j in range(T)] for t in range(T)]  # [t][j] -> [K]
    since_start = [product(alpha, 0, t + 1, K) for t in range(T)]
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    o = []
    for t in range(T):
        new = sum((q[t] @ (left[t][j] * k[j])) * v[j] for j in range(t + 1))
        o.append(scale * (new + q[t] @ (since_start[t][:, None] * S)))
    S = since_start[-1][:, None] * S + sum(np.outer(left[-1][j] * k[j], v[j]) for j in range(T))
    return np.array(o), S


def linear_attention_chunk(
    q: Array,
    k: Array,
    v: Array,
    chunk: int,
    alpha: Array | None = None,
    scale: float = 1.0,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """Parallel within a chunk, recurrent between chunks: each starts from the state of the one before."""
    o = []
    for start in range(0, len(q), chunk):
        here = slice(start, start + chunk)
        gates = None if alpha is None else alpha[here]
        out, state = linear_attention_parallel(q[here], k[here], v[here], gates, scale, state)
        o.append(out)
    assert state is not None
    return np.concatenate(o), state


def normalised_linear_attention(phi_q: Array, phi_k: Array, v: Array) -> Array:
    """A weighted mean again: the weights phi(q_t) . phi(k_j), divided by their sum."""
    o = []
    for t in range(len(phi_q)):
        weight = [phi_q[t] @ phi_k[j] for j in range(t + 1)]
        o.append(sum(weight[j] * v[j] for j in range(t + 1)) / sum(weight))
    return np.array(o)


# --- decays -----------------------------------------------------------------------------------------------


def decay(alpha: Array | None, t: int, K: int) -> Array:
    """The decay of step t as a vector of K: 1 without decay, the same number throughout for a scalar."""
    one = np.ones(K, dtype=int)
    return one if alpha is None else one * alpha[t]


def product(alpha: Array | None, start: int, stop: int, K: int) -> Array:
    """The decays of steps start, ..., stop - 1 multiplied; 1 if there are none."""
    result = np.ones(K, dtype=int)
    for t in range(start, stop):
        result = result * decay(alpha, t, K)
    return result
