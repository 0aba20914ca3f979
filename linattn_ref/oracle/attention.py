"""Define softmax attention in three passes and linear attention in three forms."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def softmax_attention(q: Array, k: Array, v: Array, scale: float = 1.0, exp: Callable = np.exp) -> Array:
    """Take for every token the mean of all values up to its own, weighted by exp(score)::

        o_t = sum_{j <= S + t} exp(scale q_t . k_j) v_j / sum_{j <= S + t} exp(scale q_t . k_j)

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[S + T, K]``: those of S tokens of a cache come first, and query t stands at position S +
            t.
        v: values, ``[S + T, V]``.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        exp: the exponential, ``np.exp`` or that of a library of symbols.

    Returns:
        Outputs ``[T, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    Example:
        >>> q = k = np.zeros((3, 2))  # equal scores: the mean of the values so far
        >>> softmax_attention(q, k, v=np.array([[0.0], [1.0], [2.0]])).ravel()
        array([0. , 0.5, 1. ])
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
    """Read the keys as one reads a book: for every query, start again at the first and keep a running mean.

    After key j, with d the sum of the weights so far::

        mean = (d_old / d) * mean_old + (1 - d_old / d) * v_j

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[S + T, K]``: those of S tokens of a cache come first, and query t stands at position S +
            t.
        v: values, ``[S + T, V]``.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        exp: the exponential, ``np.exp`` or that of a library of symbols.

    Returns:
        Outputs ``[T, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        arXiv 2406.16690, section 5.4.

    Example:
        >>> q = k = np.zeros((3, 2))  # equal scores: the mean of the values so far
        >>> softmax_attention_restart(q, k, v=np.array([[0.0], [1.0], [2.0]])).ravel()
        array([0. , 0.5, 1. ])
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
    """Read the keys a tile at a time, with all exponents taken relative to the largest score so far.

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[S + T, K]``: those of S tokens of a cache come first, and query t stands at position S +
            t.
        v: values, ``[S + T, V]``.
        tile: keys per tile, at least 1.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        exp: the exponential, ``np.exp`` or that of a library of symbols.
        largest: what the exponents are relative to, from a list of scores; any function gives the same
            output.

    Returns:
        Outputs ``[T, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Milakov and Gimelshein 2018, arXiv 1805.02867; Dao et al. 2022, arXiv 2205.14135.

    Example:
        >>> q = k = np.zeros((3, 2))  # equal scores: the mean of the values so far
        >>> softmax_attention_online(q, k, v=np.array([[0.0], [1.0], [2.0]]), tile=2).ravel()
        array([0. , 0.5, 1. ])
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
    """Forget, write, read, token after token. This is the definition::

        S_t = alpha_t * S_{t-1} + k_t^T v_t
        o_t = scale q_t S_t

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Katharopoulos et al. 2020, arXiv 2006.16236; Yang et al. 2023, arXiv 2312.06635 (with decays).

    Example:
        >>> q = k = v = np.ones((3, 1))
        >>> o, S = linear_attention(q, k, v, alpha=np.full(3, 0.5))
        >>> o.ravel(), S
        (array([1.  , 1.5 , 1.75]), array([[1.75]]))
    """
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
    """Take for every token the sum of all values up to its own, by decayed score.

    What token j wrote has been through the decays of j + 1, ..., t when token t reads it.

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Yang et al. 2023, arXiv 2312.06635, section 2.

    Example:
        >>> q = k = v = np.ones((3, 1))
        >>> o, S = linear_attention_parallel(q, k, v, alpha=np.full(3, 0.5))
        >>> o.ravel(), S
        (array([1.  , 1.5 , 1.75]), array([[1.75]]))
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
    """Go parallel within a chunk, recurrent between chunks: each starts from the state of the one before.

    Args:
        q: queries, ``[T, K]``, float64 or objects (SymPy symbols).
        k: keys, ``[T, K]``.
        v: values, ``[T, V]``.
        chunk: tokens per chunk, at least 1; the last may be shorter.
        alpha: the decays themselves, exp(log_decay): ``[T]``, ``[T, K]``, or None for no decay.
        scale: factor on the queries (1.0; not K ** -0.5, which the ops take by default).
        state: the state before the first token, ``[K, V]``; None is zeros.

    Returns:
        ``(o, S)``: outputs ``[T, V]`` and the state after the last token, ``[K, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Yang et al. 2023, arXiv 2312.06635, section 2.

    Example:
        >>> q = k = v = np.ones((3, 1))
        >>> o, S = linear_attention_chunk(q, k, v, chunk=2, alpha=np.full(3, 0.5))
        >>> o.ravel(), S
        (array([1.  , 1.5 , 1.75]), array([[1.75]]))
    """
    o = []
    for start in range(0, len(q), chunk):
        here = slice(start, start + chunk)
        gates = None if alpha is None else alpha[here]
        out, state = linear_attention_parallel(q[here], k[here], v[here], gates, scale, state)
        o.append(out)
    assert state is not None
    return np.concatenate(o), state


def normalised_linear_attention(phi_q: Array, phi_k: Array, v: Array) -> Array:
    """Return a weighted mean of values again: the weights are phi(q_t) . phi(k_j), divided by their sum.

    Args:
        phi_q: feature maps of queries, ``[T, K]``.
        phi_k: feature maps of keys, ``[T, K]``.
        v: values, ``[T, V]``.

    Returns:
        Outputs ``[T, V]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Katharopoulos et al. 2020, arXiv 2006.16236, section 3.

    Example:
        >>> ones = np.ones((3, 2))
        >>> normalised_linear_attention(ones, ones, np.array([[0.0], [1.0], [2.0]])).ravel()
        array([0. , 0.5, 1. ])
    """
    o = []
    for t in range(len(phi_q)):
        weight = [phi_q[t] @ phi_k[j] for j in range(t + 1)]
        o.append(sum(weight[j] * v[j] for j in range(t + 1)) / sum(weight))
    return np.array(o)


# --- decays -----------------------------------------------------------------------------------------------


def decay(alpha: Array | None, t: int, K: int) -> Array:
    """Return the decay of step t as a vector of K: ones without decay, a scalar repeated."""
    one = np.ones(K, dtype=int)
    return one if alpha is None else one * alpha[t]


def product(alpha: Array | None, start: int, stop: int, K: int) -> Array:
    """Return the decays of steps start, ..., stop - 1 multiplied; 1 if there are none."""
    result = np.ones(K, dtype=int)
    for t in range(start, stop):
        result = result * decay(alpha, t, K)
    return result
