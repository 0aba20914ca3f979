"""Turn a differential equation into a recurrence: h' = A h + B u becomes h_t = A_bar h_{t-1} + B_bar u_t.

``zoh`` (zero-order hold) is exact for an input that is constant over each step. Sources: Gu et al. 2021
(arXiv 2111.00396, section 2.3) for bilinear, Gu et al. 2022 (arXiv 2206.11893) for zoh; A is diagonal here,
so all of it is element by element.
"""

from typing import Literal

import torch

from linattn_ref.ops.shapes import Tensor
from linattn_ref.ops.validation import check_choice

Method = Literal["zoh", "bilinear", "euler"]
METHODS: tuple[Method, ...] = ("zoh", "bilinear", "euler")


def discretise(delta: Tensor, A: Tensor, method: Method = "zoh") -> tuple[Tensor, Tensor]:
    """Discretise h' = A h + B u: return A_bar and B_bar / B of h_t = A_bar h_{t-1} + B_bar u_t.

    ======== ========================= ==================================
    method   A_bar                     B_bar / B
    ======== ========================= ==================================
    zoh      exp(Delta A)              (exp(Delta A) - 1) / A
    bilinear (1 + x / 2) / (1 - x / 2) Delta / (1 - x / 2), x = Delta A
    euler    1 + Delta A               Delta
    ======== ========================= ==================================

    Args:
        delta: steps, floating, of any shape that broadcasts with A's, in the unit of time in which A is a
            rate.
        A: rates, the diagonal of the matrix A, real or complex, of any shape that broadcasts with delta's.
        method: "zoh" (zero-order hold: exact for an input that is constant over each step), "bilinear" or
            "euler".

    Returns:
        ``(A_bar, B_bar / B)``, two tensors of the broadcast shape, in the dtype of ``delta * A``.

    Raises:
        ValueError: if ``method`` is none of the three.

    Source:
        Gu et al. 2021, arXiv 2111.00396, section 2.3 (bilinear); Gu et al. 2022, arXiv 2206.11893 (zoh).

    Example:
        >>> A_bar, factor = discretise(torch.tensor(0.5), torch.tensor([-1.0, -2.0]), "bilinear")
        >>> A_bar, factor
        (tensor([0.6000, 0.3333]), tensor([0.4000, 0.3333]))
    """
    check_choice(method, "method", METHODS)
    x = delta * A
    if method == "zoh":
        return x.exp(), zero_order_hold(delta, A)
    if method == "bilinear":
        return (1 + x / 2) / (1 - x / 2), delta / (1 - x / 2)
    return 1 + x, delta * torch.ones_like(x)


def zero_order_hold(delta: Tensor, A: Tensor) -> Tensor:
    """Return (exp(Delta A) - 1) / A, what a constant input of 1 leaves after a step; Delta where A is 0.

    Where x = Delta A is small, the difference and, worse, its gradient lose their digits; there it is Delta
    times the series 1 + x/2 + x^2/6 + ..., whose 18 terms are exact in float64 up to |x| = 1.
    """
    x = delta * A
    small = x.abs() <= 1
    near = torch.where(small, x, 0.0)
    series = torch.ones_like(near)
    for n in range(18, 1, -1):
        series = 1 + near / n * series
    far = torch.where(small, 0.0, x).exp() - 1
    return torch.where(small, delta * series, far / torch.where(small, 1.0, A))
