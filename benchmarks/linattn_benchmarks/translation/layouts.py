"""Swap axes of states and tensors between our layout and those of other libraries."""

from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import require


def transpose_state(state: Float[Tensor, "B H K V"]) -> Float[Tensor, "B H V K"]:
    """Swap the last two axes of a state: Mamba-2 keeps V first, and FLA with ``state_v_first=True``.

    Args:
        state: ``[B, H, K, V]``, or ``[B, H, V, K]``: the function is its own inverse.

    Returns:
        ``[B, H, V, K]``, a view.

    Raises:
        ValueError: the state has not four dimensions.

    Source:
        none: a change of layout.

    Example:
        >>> import torch
        >>> list(transpose_state(torch.zeros(1, 2, 3, 4)).shape)
        [1, 2, 4, 3]
    """
    require(state.ndim == 4, "state", f"shape {list(state.shape)}", "[B, H, K, V]")
    return state.mT


def swap_time_and_heads(x: Float[Tensor, "B T H ..."]) -> Float[Tensor, "B H T ..."]:
    """Put heads before time, as torch's own attention and some of FLA's naive forms have them, or back.

    Args:
        x: ``[B, T, H, ...]``, or ``[B, H, T, ...]``: the function is its own inverse.

    Returns:
        ``[B, H, T, ...]``, a view.

    Raises:
        ValueError: x has fewer than three dimensions.

    Source:
        none: a change of layout.

    Example:
        >>> import torch
        >>> list(swap_time_and_heads(torch.zeros(1, 5, 2, 3)).shape)
        [1, 2, 5, 3]
    """
    require(x.ndim >= 3, "x", f"shape {list(x.shape)}", "[B, T, H, ...]")
    return x.transpose(1, 2)
