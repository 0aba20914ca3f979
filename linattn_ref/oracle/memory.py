"""A state that is written and read: the recurrence of every model, RWKV-6, the delta rule."""

from collections.abc import Callable

import numpy as np

from linattn_ref.oracle.attention import Array, decay, linear_attention_parallel, product


def recurrence(gate: Array, write: Array, state: Array, gating: Callable = np.multiply) -> Array:
    """A state is written: S_t = G_t o S_{t-1} + W_t. Every model of the book is a case; ``[T, K, V]``.

    Args:
        gate: for every token what ``gating`` takes: ``[K, 1]`` or ``[K, V]``; ``[K, K]`` for matmul.
        write: ``[T, K, V]``.
        gating: how a gate acts on the state: ``np.multiply``, or ``np.matmul`` for the delta rule.
    """
    S, states = state, []
    for t in range(len(write)):
        S = gating(gate[t], S) + write[t]
        states.append(S)
    return np.array(states)


def rwkv6(
    q: Array,
    k: Array,
    v: Array,
    bonus: Array,
    alpha: Array | None = None,
    scale: float = 1.0,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """Read, forget, write: o_t = scale q_t (S_{t-1} + (bonus * k_t)^T v_t), S_t = alpha_t * S_{t-1} + ..."""
    T, K = k.shape
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    o = []
    for t in range(T):
        o.append(scale * (q[t] @ (S + np.outer(bonus * k[t], v[t]))))
        S = decay(alpha, t, K)[:, None] * S + np.outer(k[t], v[t])
    return np.array(o), S


# --- the delta rule -----------------------------------------------------------------------------------------


def delta_rule(
    q: Array,
    k: Array,
    v: Array,
    beta: Array,
    alpha: Array | None = None,
    scale: float = 1.0,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """Forget, then correct: R = alpha_t * S_{t-1}, S_t = R + beta_t k_t^T (v_t - k_t R)."""
    T, K = k.shape
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    o = []
    for t in range(T):
        R = decay(alpha, t, K)[:, None] * S
        S = R + beta[t] * np.outer(k[t], v[t] - k[t] @ R)
        o.append(scale * (q[t] @ S))
    return np.array(o), S


def delta_rule_parallel(
    q: Array,
    k: Array,
    v: Array,
    beta: Array,
    alpha: Array | None = None,
    scale: float = 1.0,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """Linear attention whose values are corrections: token i writes u_i = beta_i (v_i - what k_i recalls).

    What it recalls is the start state and the u_j of the tokens before it, so the u solve a triangular
    system.
    """
    T, K = k.shape
    left = [[product(alpha, j + 1, i + 1, K) for j in range(T)] for i in range(T)]
    since_start = [product(alpha, 0, i + 1, K) for i in range(T)]
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    u: list[Array] = []
    for i in range(T):
        recalled = k[i] @ (since_start[i][:, None] * S)
        recalled = recalled + sum((k[i] @ (left[i][j] * k[j])) * u[j] for j in range(i))
        u.append(beta[i] * (v[i] - recalled))
    return linear_attention_parallel(q, k, np.array(u), alpha, scale, S)
