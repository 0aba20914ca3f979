"""State space models, one channel: u ``[T]``; A, B, C and the state ``[N]``. And RWKV-4's wkv."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def discretise(delta: float, A: Array, method: str = "zoh", exp: Callable = np.exp) -> tuple[Array, Array]:
    """h' = A h + B u over a step delta: (A_bar, B_bar / B)."""
    if method == "zoh":  # exact for a constant input
        A_bar = exp(delta * A)
        return A_bar, (A_bar - 1) / A
    if method == "bilinear":
        return (1 + delta * A / 2) / (1 - delta * A / 2), delta / (1 - delta * A / 2)
    return 1 + delta * A, delta + 0 * A  # Euler


def lti_ssm(
    u: Array, A_bar: Array, B_bar: Array, C: Array, D: float = 0.0, state: Array | None = None
) -> tuple[Array, Array]:
    """h_t = A_bar h_{t-1} + B_bar u_t, y_t = C h_t + D u_t. Give complex numbers with their conjugates."""
    h = 0 * A_bar if state is None else state
    y = []
    for t in range(len(u)):
        h = A_bar * h + B_bar * u[t]
        y.append(C @ h)
    return np.array(y) + D * u, h


def lti_ssm_convolution(
    u: Array, A_bar: Array, B_bar: Array, C: Array, D: float = 0.0, state: Array | None = None
) -> tuple[Array, Array]:
    """The same, unrolled: y_t = sum_l K_l u_{t-l} + C A_bar^(t+1) h + D u_t with K_l = C A_bar^l B_bar."""
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
    """h_t = exp(delta_t A) h_{t-1} + B_bar_t u_t, y_t = C_t h_t + D u_t; B, C ``[T, N]``."""
    h = 0 * A if state is None else state
    y = []
    for t in range(len(u)):
        A_bar = exp(delta[t] * A)
        B_bar = delta[t] * B[t] if hold == "euler" else (A_bar - 1) / A * B[t]
        h = A_bar * h + B_bar * u[t]
        y.append(C[t] @ h + D * u[t])
    return np.array(y), h


def compose(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two steps h -> a h + b as one. It is associative: that is all a parallel scan needs."""
    (a, b), (a2, b2) = first, then
    return a2 * a, a2 * b + b2


def largest(exponents: list) -> float:
    """By its real part: derivatives are taken with complex steps."""
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
    """A mean of values with weights e^(-(t-1-i) w + k_i), e^(u + k_t) for the token itself; one channel.

    The state (a, b, m) has read a numerator a e^m and a denominator b e^m. Given back with m the largest
    exponent, which is a convention: a, b and m are three numbers for two, and any ``reference`` will do.
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
