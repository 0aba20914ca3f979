"""Define state space models of one channel, u ``[T]``, A, B, C and the state ``[N]``; and RWKV-4's wkv."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def discretise(delta: float, A: Array, method: str = "zoh", exp: Callable = np.exp) -> tuple[Array, Array]:
    """Discretise h' = A h + B u over a step delta: return A_bar and B_bar / B.

    Args:
        delta: the step, in the unit of time in which A is a rate.
        A: rates, ``[N]``, not 0 for "zoh".
        method: "zoh" (zero-order hold, exact for a constant input), "bilinear" or "euler".
        exp: the exponential, ``np.exp`` or that of a library of symbols.

    Returns:
        ``(A_bar, B_bar / B)``, both ``[N]``.

    Raises:
        Nothing of its own: any other method is taken for "euler".

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2.3 (bilinear); Gu et al. 2022, arXiv 2206.11893 (zoh).

    Example:
        >>> A_bar, factor = discretise(0.5, np.array([-1.0, -2.0]), "bilinear")
        >>> A_bar.round(4), factor.round(4)
        (array([0.6   , 0.3333]), array([0.4   , 0.3333]))
    """
    if method == "zoh":  # exact for a constant input
        A_bar = exp(delta * A)
        return A_bar, (A_bar - 1) / A
    if method == "bilinear":
        return (1 + delta * A / 2) / (1 - delta * A / 2), delta / (1 - delta * A / 2)
    return 1 + delta * A, delta + 0 * A  # Euler


def lti_ssm(
    u: Array, A_bar: Array, B_bar: Array, C: Array, D: float = 0.0, state: Array | None = None
) -> tuple[Array, Array]:
    """Run a time-invariant state space model token after token::

        h_t = A_bar h_{t-1} + B_bar u_t
        y_t = C h_t + D u_t

    Args:
        u: input of one channel, ``[T]``.
        A_bar: decays per step, ``[N]``, real or complex. Give complex numbers together with their conjugates.
        B_bar: input weights, ``[N]``.
        C: output weights, ``[N]``.
        D: weight of the input in the output.
        state: the state before the first token, ``[N]``; None is zeros.

    Returns:
        ``(y, h)``: outputs ``[T]`` and the state after the last token, ``[N]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2.

    Example:
        >>> one = np.ones(1)
        >>> y, h = lti_ssm(np.ones(3), A_bar=0.5 * one, B_bar=one, C=one)
        >>> y, h
        (array([1.  , 1.5 , 1.75]), array([1.75]))
    """
    h = 0 * A_bar if state is None else state
    y = []
    for t in range(len(u)):
        h = A_bar * h + B_bar * u[t]
        y.append(C @ h)
    return np.array(y) + D * u, h


def lti_ssm_convolution(
    u: Array, A_bar: Array, B_bar: Array, C: Array, D: float = 0.0, state: Array | None = None
) -> tuple[Array, Array]:
    """Run a time-invariant state space model unrolled, with the kernel K_l = C A_bar^l B_bar::

        y_t = sum_l K_l u_{t-l} + C A_bar^(t+1) h + D u_t

    Args:
        u: input of one channel, ``[T]``.
        A_bar: decays per step, ``[N]``, real or complex. Give complex numbers together with their conjugates.
        B_bar: input weights, ``[N]``.
        C: output weights, ``[N]``.
        D: weight of the input in the output.
        state: the state before the first token, ``[N]``; None is zeros.

    Returns:
        ``(y, h)``: outputs ``[T]`` and the state after the last token, ``[N]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2.

    Example:
        >>> one = np.ones(1)
        >>> y, h = lti_ssm_convolution(np.ones(3), A_bar=0.5 * one, B_bar=one, C=one)
        >>> y, h
        (array([1.  , 1.5 , 1.75]), array([1.75]))
    """
    T = len(u)
    h = 0 * A_bar if state is None else state
    kernel = [C @ (A_bar**l * B_bar) for l in range(T)]
    y = [sum(kernel[l] * u[t - l] for l in range(t + 1)) + C @ (A_bar ** (t + 1) * h) for t in range(T)]
    return np.array(y) + D * u, A_bar**T * h + sum(A_bar ** (T - 1 - t) * B_bar * u[t] for t in range(T))


def selective_scan(
    u: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    D: float = 0.0,
    hold: str = "euler",
    state: Array | None = None,
    exp: Callable = np.exp,
) -> tuple[Array, Array]:
    """Run Mamba's selective state space model token after token::

        h_t = exp(delta_t A) h_{t-1} + B_bar_t u_t
        y_t = C_t h_t + D u_t

    Args:
        u: input of one channel, ``[T]``.
        delta: steps, ``[T]``, > 0, in the unit of time in which A is a rate.
        A: rates, ``[N]``, not 0 for "exact".
        B: input weights, ``[T, N]``.
        C: output weights, ``[T, N]``.
        D: weight of the input in the output.
        hold: "euler" takes B_bar_t = delta_t B_t; "exact" the zero-order hold (exp(delta_t A) - 1) / A * B_t.
        state: the state before the first token, ``[N]``; None is zeros.
        exp: the exponential, ``np.exp`` or that of a library of symbols.

    Returns:
        ``(y, h)``: outputs ``[T]`` and the state after the last token, ``[N]``.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, equations 1 to 4.

    Example:
        >>> u = delta = np.ones(3)
        >>> y, h = selective_scan(u, delta, A=-np.ones(1), B=np.ones((3, 1)), C=np.ones((3, 1)))
        >>> y.round(4)
        array([1.    , 1.3679, 1.5032])
    """
    h = 0 * A if state is None else state
    y = []
    for t in range(len(u)):
        A_bar = exp(delta[t] * A)
        B_bar = delta[t] * B[t] if hold == "euler" else (A_bar - 1) / A * B[t]
        h = A_bar * h + B_bar * u[t]
        y.append(C[t] @ h + D * u[t])
    return np.array(y), h


def compose(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
    """Compose two steps h -> a h + b into one. It is associative: that is all a parallel scan needs.

    Args:
        first: ``(a, b)`` of the step that is taken first, numbers or arrays.
        then: ``(a, b)`` of the step that is taken second.

    Returns:
        ``(a, b)`` of both steps.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        none: the rule that a scan needs; Gu and Dao 2023, arXiv 2312.00752, algorithm 2 uses it.

    Example:
        >>> compose((2.0, 1.0), (3.0, 4.0))  # 3 (2 h + 1) + 4
        (6.0, 7.0)
    """
    (a, b), (a2, b2) = first, then
    return a2 * a, a2 * b + b2


def largest(exponents: list) -> float:
    """Return the largest exponent by its real part: derivatives are taken with complex steps."""
    return max(exponents, key=np.real)


def wkv(
    k: Array,
    v: Array,
    w: float,
    u: float,
    state: tuple = (0, 0, 0),
    exp: Callable = np.exp,
    reference: Callable = largest,
) -> tuple[Array, Array]:
    """Compute RWKV-4's mean of values with weights e^(-(t-1-i) w + k_i), e^(u + k_t) for the token itself.

    Args:
        k: keys of one channel, ``[T]``.
        v: values of one channel, ``[T]``.
        w: decay rate, >= 0.
        u: bonus of a token for itself.
        state: ``(a, b, m)``, which has read a numerator a e^m and a denominator b e^m.
        exp: the exponential, ``np.exp`` or that of a library of symbols.
        reference: what exponents are relative to, from a list of them; any function gives the same outputs.

    Returns:
        ``(o, state)``: outputs ``[T]``, and ``[a, b, m]`` after the last token, with m the largest exponent,
        which is a convention: a, b and m are three numbers for two.

    Raises:
        Nothing of its own: arguments are not checked.

    Source:
        Peng et al. 2023, arXiv 2305.13048, published version, section 3 and appendix D.

    Example:
        >>> o, state = wkv(np.zeros(3), np.array([0.0, 1.0, 2.0]), w=0.0, u=0.0)  # the mean so far
        >>> o, state
        (array([0. , 0.5, 1. ]), array([3., 3., 0.]))
    """
    a, b, m = state
    T = len(k)
    o = []
    for t in range(T):
        x = [m - t * w, *(k[i] - (t - 1 - i) * w for i in range(t)), u + k[t]]
        top = reference(x)
        p = [exp(y - top) for y in x]
        num = p[0] * a + sum(p[1 + i] * v[i] for i in range(t + 1))
        o.append(num / (p[0] * b + sum(p[1:])))
    x = [m - T * w, *(k[i] - (T - 1 - i) * w for i in range(T))]
    top = reference(x)
    p = [exp(y - top) for y in x]
    a = p[0] * a + sum(p[1 + i] * v[i] for i in range(T))
    return np.array(o), np.array([a, p[0] * b + sum(p[1:]), top])
