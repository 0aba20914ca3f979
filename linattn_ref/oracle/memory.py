"""Define what is written to a state and read: the recurrence of every model, RWKV-6, the delta rules."""

from collections.abc import Callable

import numpy as np

from linattn_ref.oracle.attention import Array, decay, linear_attention_parallel, product


def recurrence(gate: Array, write: Array, state: Array, gating: Callable = np.multiply) -> Array:
    """Write a state: S_t = G_t o S_{t-1} + W_t. Every model of the book is a case.

    Args:
        gate: for every token what ``gating`` takes: ``[T, K, 1]`` or ``[T, K, V]``; ``[T, K, K]`` for matmul.
        write: what every token writes, ``[T, K, V]``.
        state: the state before the first token, ``[K, V]``.
        gating: how a gate acts on the state: ``np.multiply``, or ``np.matmul`` for the delta rule.

    Returns:
        The state after every token, ``[T, K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        none: the book's own, for what its models share.

    Example:
        >>> recurrence(np.full((3, 1, 1), 0.5), np.ones((3, 1, 1)), np.zeros((1, 1))).ravel()
        array([1.  , 1.5 , 1.75])
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
    """Read, forget, write, token after token::

        o_t = scale q_t (S_{t-1} + (bonus * k_t)^T v_t)
        S_t = alpha_t * S_{t-1} + k_t^T v_t

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        bonus: the factor on a token's own key, ``[K]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Peng et al. 2024, arXiv 2404.05892, section 4.

    Example:
        >>> q = k = v = np.ones((3, 1))
        >>> o, S = rwkv6(q, k, v, bonus=np.array([0.5]))
        >>> o.ravel(), S
        (array([0.5, 1.5, 2.5]), array([[3.]]))
    """
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
    """Forget, then correct, token after token::

        R   = alpha_t * S_{t-1}
        S_t = R + beta_t k_t^T (v_t - k_t R)
        o_t = scale q_t S_t

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        beta: write strengths, ``[T]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Yang et al. 2024, arXiv 2406.06484 (without decay) and arXiv 2412.06464 (with decays).

    Example:
        >>> k = np.array([[1.0, 0.0]] * 3)  # one key, written three times
        >>> o, S = delta_rule(k, k, v=np.array([[1.0], [2.0], [3.0]]), beta=np.ones(3))
        >>> o.ravel(), S.ravel()
        (array([1., 2., 3.]), array([3., 0.]))
    """
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
    """Run linear attention on corrections: token i writes u_i = beta_i (v_i - what k_i recalls).

    What it recalls is the start state and the u_j of the tokens before it, so the u solve a triangular
    system.

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        beta: write strengths, ``[T]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Yang et al. 2024, arXiv 2406.06484.

    Example:
        >>> k = np.array([[1.0, 0.0]] * 3)
        >>> o, S = delta_rule_parallel(k, k, v=np.array([[1.0], [2.0], [3.0]]), beta=np.ones(3))
        >>> o.ravel(), S.ravel()
        (array([1., 2., 3.]), array([3., 0.]))
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


def rwkv7(
    q: Array,
    k: Array,
    v: Array,
    removal: Array,
    rate: Array,
    alpha: Array | None = None,
    scale: float = 1.0,
    state: Array | None = None,
) -> tuple[Array, Array]:
    """Forget, remove what a key recalled before, write under another key, read, token after token::

        S_t = alpha_t * S_{t-1} - (rate_t * removal_t)^T (removal_t S_{t-1}) + k_t^T v_t
        o_t = scale q_t S_t

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        removal: keys that are removed, ``[T, K]``.
        rate: the share of each of their channels that is, ``[T, K]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Peng et al. 2025, arXiv 2503.14456; as its released code has it.

    Example:
        >>> k = np.array([[1.0, 0.0]] * 3)  # one key, written and removed three times
        >>> o, S = rwkv7(k, k, np.array([[1.0], [2.0], [3.0]]), removal=k, rate=np.ones((3, 2)))
        >>> o.ravel(), S.ravel()
        (array([1., 2., 3.]), array([3., 0.]))
    """
    T, K = k.shape
    S = np.zeros((K, v.shape[1]), dtype=v.dtype) if state is None else state
    o = []
    for t in range(T):
        removed = np.outer(rate[t] * removal[t], removal[t] @ S)
        S = decay(alpha, t, K)[:, None] * S - removed + np.outer(k[t], v[t])
        o.append(scale * (q[t] @ S))
    return np.array(o), S
